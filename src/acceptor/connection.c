/*
 * connection.c - the life of one connection.
 *
 *   input OPEN     requests are taken, as many at a time as the limits allow
 *   input LAST     no further request is taken: the client or we said close, or its
 *                  bytes were refused; what still comes is read and thrown away
 *   input ENDED    the client has closed its side
 *
 * Exchanges queue in the order of their requests; handlers answer in any order; the
 * queue's front goes out as soon as it is answered, several answers in one write. When
 * the last answer under way has gone after LAST, the connection lingers: our side is
 * shut, and what the client still sends is read for a moment, since closing with unread
 * bytes would reset the connection and take the answer from the client's hands.
 *
 * A close is said on the last answer under way, not on the first that wants it: what
 * has reached a handler may take effect, so its answer must not be cut off.
 */
#include "acceptor_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "holdfast/metrics.h"

#ifdef __SANITIZE_ADDRESS__
#define FREE_CONNS_MAX 0 /* so that a late use is seen */
#else
#define FREE_CONNS_MAX 1024
#endif
#define BURST_BUFS 64
/* What a client may send after its last request before we stop listening to it. */
#define DISCARD_BYTES_MAX (16 * 1024 * 1024)

enum conn_input { INPUT_OPEN, INPUT_LAST, INPUT_ENDED };

struct conn {
    uv_tcp_t     tcp; /* first: libuv's handle is the connection */
    struct loop *loop;
    struct conn *prev, *next; /* of all the loop's */
    struct conn *dirty_next;
    bool         dirty;
    bool         closing; /* uv_close was called */

    enum conn_input  input;
    bool             reading; /* libuv reads */
    bool             paused;  /* a limit of requests under way is reached */
    bool             lingering;
    bool             served;  /* it has had a request */
    struct parser    parser;
    struct exchange *receiving; /* the request that is coming in, or NULL */
    char            *kept;      /* bytes read before it was paused */
    size_t           kept_len, kept_used;
    size_t           discarded;

    struct exchange  *queue; /* under way, in order of their requests */
    struct exchange **queue_tail;
    unsigned          queued;
    size_t            unsent_bytes; /* of those that are answered */
    uv_write_t        write;
    bool              writing;
    unsigned          writing_count; /* exchanges in `write` */

    struct deadline    input_deadline;
    enum deadline_kind input_kind;  /* of the armed one */
    bool               input_fresh; /* something ended: count from now */
    struct deadline    write_deadline;
    char               peer[HTTP_ADDRESS_BYTES];
};

/* One write: the front of the queue, as far as it is answered. */
struct burst {
    uv_buf_t bufs[BURST_BUFS];
    unsigned buf_count;
    unsigned exchange_count;
    size_t   bytes;
};

_Static_assert(offsetof(struct conn, tcp) == 0, "libuv's handle is the connection");
_Static_assert(BURST_BUFS >= 2, "an answer has up to two pieces");

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf);
static void on_written(uv_write_t *write, int status);

/* --- dirty: something happened to it ----------------------------------------- */

void
conn_touch(struct conn *conn)
{
    if (conn->dirty || conn->closing)
        return;
    conn->dirty = true;
    conn->dirty_next = conn->loop->dirty;
    conn->loop->dirty = conn;
}

struct conn *
conn_take_dirty(struct loop *loop)
{
    struct conn *conn = loop->dirty;
    if (conn != NULL) {
        loop->dirty = conn->dirty_next;
        conn->dirty = false;
    }
    return conn;
}

struct conn *
conn_next(const struct conn *conn)
{
    return conn->next;
}

/* --- reading ----------------------------------------------------------------- */

/* Every read of a loop goes into one buffer: the parser copies what it keeps. */
static void
on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct conn *conn = (struct conn *)handle;
    (void)suggested;
    *buf = uv_buf_init(conn->loop->read_buffer, READ_BYTES);
}

static void
start_reading(struct conn *conn)
{
    if (conn->reading || conn->closing || conn->input == INPUT_ENDED)
        return;
    if (uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) == 0)
        conn->reading = true;
    else
        conn_destroy(conn);
}

static void
stop_reading(struct conn *conn)
{
    uv_read_stop((uv_stream_t *)&conn->tcp);
    conn->reading = false;
}

static void
drop_receiving(struct conn *conn)
{
    if (conn->receiving == NULL)
        return;
    exchange_put(&conn->loop->exchanges, conn->receiving);
    conn->receiving = NULL;
}

static void
drop_kept(struct conn *conn)
{
    free(conn->kept);
    conn->kept = NULL;
    conn->kept_len = conn->kept_used = 0;
}

/* No further request is taken. */
static void
end_input(struct conn *conn, enum conn_input input)
{
    conn->input = input;
    conn->paused = false;
    drop_receiving(conn);
    if (input == INPUT_LAST)
        start_reading(conn); /* to throw it away */
}

/* The first request may always come in; more only while the limits allow. */
static bool
may_begin(const struct conn *conn)
{
    return conn->queued == 0
           || (conn->queued < PIPELINE_MAX && conn->unsent_bytes < UNSENT_BYTES_MAX
               && conn->loop->exchanges.live < EXCHANGES_MAX);
}

/* False: paused, or destroyed for want of memory. */
static bool
begin_request(struct conn *conn)
{
    if (!may_begin(conn)) {
        conn->paused = true;
        return false;
    }
    conn->receiving = exchange_get(&conn->loop->exchanges);
    if (conn->receiving == NULL) {
        conn_destroy(conn);
        return false;
    }
    memcpy(conn->receiving->public.request.peer, conn->peer, sizeof(conn->peer));
    parser_begin(&conn->parser, conn->receiving);
    return true;
}

static struct exchange *
enqueue_receiving(struct conn *conn)
{
    struct exchange *exchange = conn->receiving;
    conn->receiving = NULL;
    exchange->conn = conn;
    exchange->state = EXCHANGE_HANDLED;
    exchange->next = NULL;
    *conn->queue_tail = exchange;
    conn->queue_tail = &exchange->next;
    conn->queued++;
    conn->served = true;
    conn->input_fresh = true;
    return exchange;
}

static void
hand_over(struct conn *conn, struct mono_time now)
{
    const struct http_handler *handler = conn->loop->acceptor->handler;
    struct exchange           *exchange = enqueue_receiving(conn);
    exchange->public.request.received = now;
    exchange->timed = true;
    if (!exchange->keep_alive)
        end_input(conn, INPUT_LAST);
    handler->handle(handler->context, &exchange->public);
}

/* Answers the request that is coming in with an error of ours, then no more. */
static void
refuse_receiving(struct conn *conn, enum hf_status status, const char *detail)
{
    const struct http_handler *handler = conn->loop->acceptor->handler;
    struct exchange           *exchange = enqueue_receiving(conn);
    exchange->keep_alive = false;
    exchange->public.request.received = mono_now();
    end_input(conn, INPUT_LAST);
    handler->refuse(handler->context, &exchange->public, status, detail);
    conn_answered(conn->loop, exchange);
}

/* Returns how many bytes were used; fewer only if the connection must pause or end. */
static size_t
take_bytes(struct conn *conn, const char *bytes, size_t len)
{
    struct mono_time  now = mono_now();
    enum parser_event event;
    size_t            used = 0;

    while (used < len && conn->input == INPUT_OPEN) {
        if (conn->receiving == NULL && !begin_request(conn))
            break;
        used += parser_feed(&conn->parser, bytes + used, len - used, &event);
        if (event == PARSER_REQUEST) {
            hand_over(conn, now);
        } else if (event == PARSER_REFUSED) {
            metric_add(METRIC_HTTP_BAD_TOTAL, 1);
            refuse_receiving(conn, conn->parser.refusal, conn->parser.detail);
        }
    }
    return used;
}

static void
keep_bytes(struct conn *conn, const char *bytes, size_t len)
{
    hf_assert(conn->kept == NULL);
    stop_reading(conn);
    conn->kept = malloc(len);
    if (conn->kept == NULL) {
        conn_destroy(conn);
        return;
    }
    memcpy(conn->kept, bytes, len);
    conn->kept_len = len;
}

/* What was kept comes first, then the socket. */
static void
resume(struct conn *conn)
{
    if (!conn->paused || !may_begin(conn))
        return;
    conn->paused = false;
    conn->kept_used += take_bytes(conn, conn->kept + conn->kept_used,
                                  conn->kept_len - conn->kept_used);
    if (conn->paused || conn->closing)
        return;
    drop_kept(conn);
    start_reading(conn);
}

static void
discard(struct conn *conn, size_t len)
{
    conn->discarded += len;
    if (conn->discarded <= DISCARD_BYTES_MAX)
        return;
    if (conn->lingering)
        conn_destroy(conn);
    else
        stop_reading(conn);
}

static void
receive(struct conn *conn, const char *bytes, size_t len)
{
    size_t used = take_bytes(conn, bytes, len);
    if (conn->closing)
        return;
    if (conn->paused)
        keep_bytes(conn, bytes + used, len - used);
    else
        discard(conn, len - used);
}

static void
on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    struct conn *conn = (struct conn *)stream;
    struct loop *loop = conn->loop;

    if (nread == 0)
        return; /* nothing there after all */
    if (nread == UV_EOF) {
        conn->reading = false; /* libuv has stopped */
        end_input(conn, INPUT_ENDED);
    } else if (nread < 0) {
        conn_destroy(conn);
    } else {
        receive(conn, buf->base, (size_t)nread);
    }
    conn_touch(conn);
    loop_settle(loop);
}

/* --- answering --------------------------------------------------------------- */

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

    if (conn->input == INPUT_OPEN
        && (exchange->public.reply.close || is_draining(conn)))
        end_input(conn, INPUT_LAST);
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

/* False: no memory. */
static bool
gather(struct conn *conn, struct burst *burst)
{
    burst->buf_count = burst->exchange_count = 0;
    burst->bytes = 0;
    if (conn->queue == NULL || conn->queue->state != EXCHANGE_ANSWERED)
        return true;

    struct mono_time now = mono_now();
    for (struct exchange *exchange = conn->queue;
         exchange != NULL && exchange->state == EXCHANGE_ANSWERED
         && burst->buf_count + 2 <= BURST_BUFS && !conn->closing;
         exchange = exchange->next) {
        if (!exchange->prepared && !prepare(conn, exchange, now))
            return false;
        burst_add(burst, exchange->answer_head, exchange->answer_head_len);
        burst_add(burst, exchange->answer_body.ptr, exchange->answer_body.len);
        burst->exchange_count++;
    }
    return true;
}

/* The front of the queue is out. */
static void
drop_sent(struct conn *conn, unsigned count)
{
    for (; count > 0; count--) {
        struct exchange *exchange = conn->queue;
        conn->queue = exchange->next;
        if (conn->queue == NULL)
            conn->queue_tail = &conn->queue;
        hf_assert(conn->queued > 0 && conn->unsent_bytes >= exchange->queued_bytes);
        conn->queued--;
        conn->unsent_bytes -= exchange->queued_bytes;
        exchange_put(&conn->loop->exchanges, exchange);
    }
    conn->input_fresh = true;
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
    int          sent = uv_try_write(stream, burst->bufs, burst->buf_count);

    if (sent < 0 && sent != UV_EAGAIN) {
        conn_destroy(conn);
        return;
    }
    size_t done = sent > 0 ? (size_t)sent : 0;
    if (done == burst->bytes) {
        drop_sent(conn, burst->exchange_count);
        return;
    }
    uv_buf_t *rest = burst_rest(burst, done);
    if (uv_write(&conn->write, stream, rest, burst->buf_count, on_written) != 0) {
        conn_destroy(conn);
        return;
    }
    conn->writing = true;
    conn->writing_count = burst->exchange_count;
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
    deadline_disarm(&conn->write_deadline);
    if (status < 0)
        conn_destroy(conn);
    else
        drop_sent(conn, conn->writing_count);
    conn_touch(conn);
    loop_settle(loop);
}

static void
flush(struct conn *conn)
{
    struct burst burst;
    while (!conn->closing && !conn->writing) {
        if (!gather(conn, &burst))
            conn_destroy(conn);
        if (conn->closing || burst.exchange_count == 0)
            return;
        send_burst(conn, &burst);
    }
}

/* In its turn: behind the answers of earlier requests, before its own. */
static void
send_continue(struct conn *conn)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct burst      burst = { .buf_count = 0 };

    if (conn->receiving == NULL || !conn->parser.head_done || !conn->parser.wants_continue
        || conn->queue != NULL || conn->writing)
        return;
    conn->parser.wants_continue = false;
    burst_add(&burst, text, sizeof(text) - 1);
    send_burst(conn, &burst);
}

/* --- ends -------------------------------------------------------------------- */

/* Our side shut, theirs still read: they see the answer, not a reset. */
static void
linger(struct conn *conn)
{
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&conn->tcp, &fd) != 0 || shutdown(fd, SHUT_WR) != 0) {
        conn_destroy(conn);
        return;
    }
    drop_kept(conn);
    conn->lingering = true;
    start_reading(conn);
}

/* Once everything under way is answered, and nothing more will be taken. */
static void
finish(struct conn *conn)
{
    if (conn->input == INPUT_OPEN || conn->queue != NULL || conn->writing)
        return;
    if (conn->input == INPUT_ENDED || conn->discarded > DISCARD_BYTES_MAX)
        conn_destroy(conn);
    else if (!conn->lingering)
        linger(conn);
}

/* Which deadline the client is under; DEADLINE_KINDS: none, the next move is ours. */
static enum deadline_kind
wanted_kind(const struct conn *conn)
{
    if (conn->lingering)
        return DEADLINE_LINGER;
    if (conn->input != INPUT_OPEN || conn->paused)
        return DEADLINE_KINDS;
    if (conn->receiving != NULL && conn->parser.head_done)
        return DEADLINE_BODY;
    if (conn->receiving != NULL && conn->parser.phase == PARSER_HEAD)
        return DEADLINE_HEADER;
    if (conn->queue != NULL || conn->writing)
        return DEADLINE_KINDS;
    if (!conn->loop->draining)
        return DEADLINE_IDLE;
    /* One just taken from the accept queue gets a moment for its request to arrive. */
    return conn->served ? DEADLINE_DRAIN : DEADLINE_LINGER;
}

static void
arm_deadline(struct conn *conn)
{
    enum deadline_kind kind = wanted_kind(conn);
    if (kind == conn->input_kind && !conn->input_fresh)
        return;
    conn->input_kind = kind;
    conn->input_fresh = false;
    if (kind == DEADLINE_KINDS)
        deadline_disarm(&conn->input_deadline);
    else
        deadline_arm(&conn->loop->deadlines[kind], &conn->input_deadline, uv_now(&conn->loop->uv));
}

void
conn_advance(struct conn *conn)
{
    if (!conn->closing)
        flush(conn);
    if (!conn->closing)
        resume(conn);
    if (!conn->closing)
        send_continue(conn);
    if (!conn->closing)
        finish(conn);
    if (!conn->closing)
        arm_deadline(conn);
}

void
conn_timeout(enum deadline_kind kind, struct deadline *deadline)
{
    struct conn *conn = kind == DEADLINE_WRITE
                            ? (struct conn *)((char *)deadline
                                              - offsetof(struct conn, write_deadline))
                            : (struct conn *)((char *)deadline
                                              - offsetof(struct conn, input_deadline));
    switch (kind) {
    case DEADLINE_HEADER:
    case DEADLINE_BODY:
        metric_add(METRIC_HTTP_TIMEOUTS_TOTAL, 1);
        parser_end(&conn->parser);
        refuse_receiving(conn, HF_BAD_REQUEST, "too slow");
        break;
    case DEADLINE_WRITE:
        metric_add(METRIC_HTTP_TIMEOUTS_TOTAL, 1);
        conn_destroy(conn);
        break;
    case DEADLINE_IDLE:
    case DEADLINE_LINGER:
    case DEADLINE_DRAIN:
        conn_destroy(conn);
        break;
    case DEADLINE_KINDS:
        hf_assert(!"a deadline of no kind");
    }
}

/* Those that are with the handler come home through the outbox; the rest ends here. */
static void
drop_queue(struct conn *conn)
{
    struct exchange *exchange = conn->queue;
    while (exchange != NULL) {
        struct exchange *next = exchange->next;
        exchange_orphan(&conn->loop->exchanges, exchange);
        exchange = next;
    }
    conn->queue = NULL;
}

static void
unlink_conn(struct conn *conn)
{
    if (conn->prev != NULL)
        conn->prev->next = conn->next;
    else
        conn->loop->conns = conn->next;
    if (conn->next != NULL)
        conn->next->prev = conn->prev;
}

static void
on_closed(uv_handle_t *handle)
{
    struct conn *conn = (struct conn *)handle;
    struct loop *loop = conn->loop;

    hf_assert(!conn->dirty);
    drop_queue(conn);
    drop_receiving(conn);
    drop_kept(conn);
    unlink_conn(conn);
    if (loop->free_conns_count < FREE_CONNS_MAX) {
        conn->next = loop->free_conns;
        loop->free_conns = conn;
        loop->free_conns_count++;
    } else {
        free(conn);
    }
    loop_connection_gone(loop);
}

void
conn_destroy(struct conn *conn)
{
    if (conn->closing)
        return;
    conn->closing = true;
    deadline_disarm(&conn->input_deadline);
    deadline_disarm(&conn->write_deadline);
    uv_close((uv_handle_t *)&conn->tcp, on_closed);
}

void
conn_free_kept(struct loop *loop)
{
    while (loop->free_conns != NULL) {
        struct conn *conn = loop->free_conns;
        loop->free_conns = conn->next;
        free(conn);
    }
    loop->free_conns_count = 0;
}

/* --- birth ------------------------------------------------------------------- */

static struct conn *
conn_get(struct loop *loop)
{
    struct conn *conn = loop->free_conns;
    if (conn == NULL)
        return malloc(sizeof(*conn));
    loop->free_conns = conn->next;
    loop->free_conns_count--;
    return conn;
}

bool
conn_open(struct loop *loop, int fd, const struct sockaddr_storage *peer)
{
    struct conn *conn = conn_get(loop);
    if (conn == NULL) {
        close(fd);
        return false;
    }
    memset(conn, 0, sizeof(*conn));
    conn->loop = loop;
    conn->input_kind = DEADLINE_KINDS;
    conn->queue_tail = &conn->queue;
    parser_init(&conn->parser, &loop->acceptor->rules);
    listener_format_peer(peer, conn->peer, sizeof(conn->peer));
    conn->next = loop->conns;
    if (conn->next != NULL)
        conn->next->prev = conn;
    loop->conns = conn;

    hf_must(uv_tcp_init(&loop->uv, &conn->tcp)); /* no descriptor is made yet */
    if (uv_tcp_open(&conn->tcp, fd) != 0) {
        close(fd);
        conn_destroy(conn);
        return true; /* counted until it is closed */
    }
    start_reading(conn);
    conn_touch(conn);
    return true;
}
