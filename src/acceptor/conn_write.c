/*
 * conn_write.c - from answered exchanges to the socket.
 */
#include "connection.h"

#include "holdfast/metrics.h"

#define BURST_BUFS 64
/* What is being written counts as backlog until all of it is out, so it must not be much. */
#define BURST_STREAM_BYTES ((size_t)64 * 1024)

/* One write: the front of the queue, as far as it is answered, then what its stream has. */
struct burst {
    uv_buf_t bufs[BURST_BUFS];
    unsigned buf_count;
    size_t bytes;
    struct outgoing of;
};

static void on_written(uv_write_t *write, int status);

/* A reply that memory ran out for becomes a 500: never half an answer. */
static void
make_whole(struct loop *loop, struct exchange *exchange)
{
    const struct http_handler *handler = loop->acceptor->handler;
    if (answer_is_whole(exchange))
        return;
    answer_clear(exchange);
    handler->refuse(handler->context, &exchange->public, HF_INTERNAL, "out of memory");
    if (answer_is_whole(exchange))
        return;
    answer_clear(exchange);
    exchange->public.reply.status = 500;
}

void
conn_answered(struct loop *loop, struct exchange *exchange)
{
    struct conn *conn = exchange->conn;
    exchange->state = EXCHANGE_ANSWERED;
    if (exchange->stream != NULL)
        conn_begin_stream(conn, exchange);
    if (conn == NULL) { /* the client left meanwhile */
        exchange_put(&loop->exchanges, exchange);
        return;
    }
    make_whole(loop, exchange);
    exchange->queued_bytes = answer_bytes(exchange);
    conn->unsent_bytes += exchange->queued_bytes;
    conn_touch(conn);
}

static bool
is_draining(const struct conn *conn)
{
    return atomic_load_explicit(&conn->loop->acceptor->draining, memory_order_relaxed);
}

static bool
prepare(struct conn *conn, struct exchange *exchange, struct mono_time now)
{
    struct loop *loop = conn->loop;

    if (conn->input == INPUT_OPEN && (exchange->public.reply.close || is_draining(conn)))
        conn_end_input(conn, INPUT_LAST);
    if (exchange->timed)
        metric_observe(METRIC_REQUEST_SECONDS,
                       (uint64_t)(now.us - exchange->public.request.received.us));

    const struct answer_context context = {
        .date = { loop->date, ANSWER_DATE_BYTES - 1 },
        .node_line = slice_of(loop->acceptor->node_line),
        .close = conn->input != INPUT_OPEN && exchange->next == NULL,
    };
    return answer_prepare(exchange, &context);
}

static void
burst_add(struct burst *burst, const char *bytes, size_t len)
{
    if (len == 0)
        return;
    burst->bufs[burst->buf_count++] = (uv_buf_t){ .base = (char *)(uintptr_t)bytes, .len = len };
    burst->bytes += len;
}

static bool
burst_has_room(const struct burst *burst, unsigned bufs)
{
    return burst->buf_count + bufs <= BURST_BUFS;
}

/* False: no memory. */
static bool
gather_answers(struct conn *conn, struct burst *burst)
{
    if (conn->queue == NULL || conn->queue->state != EXCHANGE_ANSWERED)
        return true;

    struct mono_time now = mono_now();
    for (struct exchange *exchange = conn->queue;
         exchange != NULL && exchange->state == EXCHANGE_ANSWERED && burst_has_room(burst, 2) &&
         !conn->closing;
         exchange = exchange->next) {
        if (!exchange->prepared && !prepare(conn, exchange, now))
            return false;
        burst_add(burst, exchange->answer_head, exchange->answer_head_len);
        burst_add(burst, exchange->answer_body.ptr, exchange->answer_body.len);
        burst->of.exchanges++;
    }
    return true;
}

/* A piece is a chunk of its own; for HTTP/1.0 there are none, and the end is the connection's. */
static void
gather_pieces(const struct http_stream *stream, struct burst *burst)
{
    const size_t bytes_max = burst->bytes + BURST_STREAM_BYTES;
    const struct piece *piece = stream->sending.first;

    for (; piece != NULL && burst_has_room(burst, 3) && burst->bytes < bytes_max;
         piece = piece->next) {
        burst_add(burst, piece->head + sizeof(piece->head) - piece->head_len, piece->head_len);
        burst_add(burst, piece->body->bytes, piece->body->len);
        burst_add(burst, "\r\n", stream->chunked ? 2 : 0);
        burst->of.pieces++;
    }
    if (piece != NULL || stream->seen != STREAM_ENDING || !burst_has_room(burst, 1))
        return;
    burst_add(burst, "0\r\n\r\n", stream->chunked ? 5 : 0);
    burst->of.stream_end = true;
}

/* False: no memory. */
static bool
gather(struct conn *conn, struct burst *burst)
{
    burst->buf_count = 0;
    burst->bytes = 0;
    burst->of = (struct outgoing){ 0 };
    if (!gather_answers(conn, burst))
        return false;
    if (conn->stream != NULL && burst->of.exchanges == conn->queued)
        gather_pieces(conn->stream, burst);
    return true;
}

static bool
burst_is_empty(const struct burst *burst)
{
    return burst->of.exchanges == 0 && burst->of.pieces == 0 && !burst->of.stream_end;
}

void
conn_uncount(struct conn *conn, const struct exchange *exchange)
{
    hf_assert(conn->queued > 0 && conn->unsent_bytes >= exchange->queued_bytes);
    conn->queued--;
    conn->unsent_bytes -= exchange->queued_bytes;
}

/* The front of the queue is out, and of the stream. */
static void
drop_sent(struct conn *conn, const struct outgoing *of)
{
    for (unsigned count = of->exchanges; count > 0; count--) {
        struct exchange *exchange = conn->queue;
        conn->queue = exchange->next;
        if (conn->queue == NULL)
            conn->queue_tail = &conn->queue;
        conn_uncount(conn, exchange);
        exchange_put(&conn->loop->exchanges, exchange);
    }
    conn->input_fresh = true;
    if (of->pieces > 0)
        http_stream_written(conn->stream, of->pieces);
    if (of->stream_end)
        conn_drop_stream(conn);
}

/* Takes the first `done` bytes off. */
static uv_buf_t *
burst_rest(struct burst *burst, size_t done)
{
    uv_buf_t *first = burst->bufs;
    while (done >= first->len) {
        done -= first->len;
        first++;
    }
    first->base += done;
    first->len -= done;
    burst->buf_count -= (unsigned)(first - burst->bufs);
    return first;
}

/* What the socket doesn't take at once, libuv writes as it can; the bytes stay in the queue. */
static void
send_burst(struct conn *conn, struct burst *burst)
{
    uv_stream_t *stream = (uv_stream_t *)&conn->tcp;
    int sent = burst->bytes > 0 ? uv_try_write(stream, burst->bufs, burst->buf_count) : 0;

    if (sent < 0 && sent != UV_EAGAIN) {
        conn_destroy(conn);
        return;
    }
    size_t done = sent > 0 ? (size_t)sent : 0;
    if (done == burst->bytes) {
        drop_sent(conn, &burst->of);
        return;
    }
    uv_buf_t *rest = burst_rest(burst, done);
    if (uv_write(&conn->write, stream, rest, burst->buf_count, on_written) != 0) {
        conn_destroy(conn);
        return;
    }
    conn->writing = true;
    conn->outgoing = burst->of;
    if (conn->stream != NULL)
        http_stream_stuck(conn->stream, true);
    deadline_arm(&conn->loop->deadlines[DEADLINE_WRITE], &conn->write_deadline,
                 uv_now(&conn->loop->uv));
}

static void
on_written(uv_write_t *write, int status)
{
    struct conn *conn = (struct conn *)write->handle;
    struct loop *loop = conn->loop;

    if (conn->closing)
        return;
    conn->writing = false;
    if (conn->stream != NULL)
        http_stream_stuck(conn->stream, false);
    deadline_disarm(&conn->write_deadline);
    if (status < 0)
        conn_destroy(conn);
    else
        drop_sent(conn, &conn->outgoing);
    conn_touch(conn);
    loop_settle(loop);
}

/* A stream has no end, so the others get their turn after each burst of it. */
static void
put_off_the_rest(struct conn *conn)
{
    if (conn->closing || conn->writing || conn->stream == NULL)
        return;
    if (conn->stream->sending.first != NULL || conn->stream->seen == STREAM_ENDING)
        http_stream_carry_on(conn->stream);
}

void
conn_flush(struct conn *conn)
{
    struct burst burst;
    while (!conn->closing && !conn->writing) {
        if (!gather(conn, &burst))
            conn_destroy(conn);
        if (conn->closing || burst_is_empty(&burst))
            return;
        send_burst(conn, &burst);
        if (burst.of.pieces > 0) {
            put_off_the_rest(conn);
            return;
        }
    }
}

void
conn_send_continue(struct conn *conn)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct burst burst = { .buf_count = 0 };

    if (conn->receiving == NULL || !conn->parser.head_done || !conn->parser.wants_continue ||
        conn->queue != NULL || conn->writing)
        return;
    conn->parser.wants_continue = false;
    burst_add(&burst, text, sizeof(text) - 1);
    send_burst(conn, &burst);
}
