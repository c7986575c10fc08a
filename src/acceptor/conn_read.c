/*
 * conn_read.c - from the socket to the handler.
 */
#include "connection.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/metrics.h"

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf);

/* Every read of a loop goes into one buffer: the parser copies what it keeps. */
static void
on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct conn *conn = (struct conn *)handle;
    (void)suggested;
    *buf = uv_buf_init(conn->loop->read_buffer, READ_BYTES);
}

void
conn_start_reading(struct conn *conn)
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

void
conn_drop_receiving(struct conn *conn)
{
    if (conn->receiving == NULL)
        return;
    exchange_put(&conn->loop->exchanges, conn->receiving);
    conn->receiving = NULL;
}

void
conn_drop_kept(struct conn *conn)
{
    free(conn->kept);
    conn->kept = NULL;
    conn->kept_len = conn->kept_used = 0;
}

/* No further request is taken. */
void
conn_end_input(struct conn *conn, enum conn_input input)
{
    conn->input = input;
    if (conn->paused)
        conn_drop_kept(conn);
    conn->paused = false;
    conn_drop_receiving(conn);
    if (input == INPUT_LAST)
        conn_start_reading(conn); /* to throw it away */
}

/* The first request may always come in; more only while the limits allow. */
static bool
may_begin(const struct conn *conn)
{
    return conn->queued == 0 ||
           (conn->queued < PIPELINE_MAX && conn->unsent_bytes < UNSENT_BYTES_MAX &&
            conn->loop->exchanges.live < EXCHANGES_MAX);
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
    struct exchange *exchange = enqueue_receiving(conn);
    exchange->public.request.received = now;
    exchange->timed = true;
    if (!exchange->keep_alive)
        conn_end_input(conn, INPUT_LAST);
    handler->handle(handler->context, &exchange->public);
    loop_collect(conn->loop); /* an answer made at once counts before the next request is taken */
}

void
conn_refuse(struct conn *conn, enum hf_status status, const char *detail)
{
    const struct http_handler *handler = conn->loop->acceptor->handler;
    struct exchange *exchange = enqueue_receiving(conn);
    exchange->keep_alive = false;
    exchange->public.request.received = mono_now();
    conn_end_input(conn, INPUT_LAST);
    handler->refuse(handler->context, &exchange->public, status, detail);
    conn_answered(conn->loop, exchange);
}

/* Returns how many bytes were used; fewer only if the connection must pause or end. */
static size_t
take_bytes(struct conn *conn, const char *bytes, size_t len)
{
    struct mono_time now = mono_now();
    enum parser_event event;
    size_t used = 0;

    while (used < len && conn->input == INPUT_OPEN) {
        if (conn->receiving == NULL && !begin_request(conn))
            break;
        used += parser_feed(&conn->parser, bytes + used, len - used, &event);
        if (event == PARSER_REQUEST) {
            hand_over(conn, now);
        } else if (event == PARSER_REFUSED) {
            metric_add(conn->parser.refusal == HF_OVERLOADED ? METRIC_OVERLOADED_TOTAL
                                                             : METRIC_HTTP_BAD_TOTAL,
                       1);
            conn_refuse(conn, conn->parser.refusal, conn->parser.detail);
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
void
conn_resume(struct conn *conn)
{
    if (!conn->paused || !may_begin(conn))
        return;
    conn->paused = false;
    conn->kept_used +=
        take_bytes(conn, conn->kept + conn->kept_used, conn->kept_len - conn->kept_used);
    if (conn->paused || conn->closing)
        return;
    conn_drop_kept(conn);
    conn_start_reading(conn);
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
        conn_end_input(conn, INPUT_ENDED);
    } else if (nread < 0) {
        conn_destroy(conn);
    } else {
        receive(conn, buf->base, (size_t)nread);
    }
    conn_touch(conn);
    loop_settle(loop);
}
