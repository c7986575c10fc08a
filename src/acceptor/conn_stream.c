/*
 * conn_stream.c - a connection whose last answer has no end.
 */
#include "connection.h"

#include <fcntl.h>
#include <netinet/tcp.h>

/* What the kernel takes of a stream beyond what its reader's window lets through. */
#define UNSENT_IN_KERNEL_MAX (16 * 1024)

/* Nothing is answered behind a stream; what a handler has of it comes home to nobody. */
static void
drop_behind(struct conn *conn, struct exchange *last)
{
    struct exchange *exchange = last->next;

    last->next = NULL;
    conn->queue_tail = &last->next;
    while (exchange != NULL) {
        struct exchange *next = exchange->next;
        conn_uncount(conn, exchange);
        exchange_orphan(&conn->loop->exchanges, exchange);
        exchange = next;
    }
}

/*
 * Else the kernel's buffer grows to megabytes before a slow reader is noticed, for each of them. A
 * quick one loses nothing: what is on its way isn't limited.
 */
static void
limit_kernel_buffer(struct conn *conn)
{
    const int bytes = UNSENT_IN_KERNEL_MAX;
    uv_os_fd_t fd;

    if (uv_fileno((uv_handle_t *)&conn->tcp, &fd) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

/* No answer to HEAD has a body, and half a header is no answer (make_whole). */
static bool
may_stream(const struct conn *conn, const struct exchange *exchange)
{
    return conn != NULL && !conn->closing && !exchange->head_only && answer_is_whole(exchange);
}

void
conn_begin_stream(struct conn *conn, struct exchange *exchange)
{
    struct http_stream *stream = exchange->stream;

    exchange->stream = NULL;
    if (!may_stream(conn, exchange)) {
        http_stream_close(stream);
        http_stream_leave(stream);
        return;
    }
    if (conn->stream != NULL)
        conn_drop_stream(conn); /* of a later request */
    drop_behind(conn, exchange);
    conn->stream = stream;
    stream->conn = conn;
    http_stream_collect(stream);
    limit_kernel_buffer(conn);
    if (conn->input == INPUT_OPEN)
        conn_end_input(conn, INPUT_LAST);
}

/* A stream whose connection has moved here with it. */
static void
take_in(struct loop *loop, struct http_stream *stream)
{
    int fd = stream->moved_fd;

    stream->moved_fd = -1;
    struct conn *conn = conn_open_moved(loop, fd);
    if (conn == NULL) {
        http_stream_close(stream);
        http_stream_leave(stream);
        return;
    }
    conn->stream = stream;
    stream->conn = conn;
    http_stream_collect(stream);
    conn_touch(conn);
}

void
conn_stream_woken(struct loop *loop, struct http_stream *stream)
{
    if (http_stream_woken(stream, &loop->outbox)) {
        if (stream->moved_fd >= 0)
            take_in(loop, stream);
        else if (stream->conn != NULL)
            conn_touch(stream->conn);
    }
    http_stream_put(stream); /* the outbox's reference */
}

/*
 * Buyers are not to wait behind what thousands of readers are told. Where there is no descriptor
 * for the passage it stays: it is told all the same.
 */
void
conn_move_stream(struct conn *conn)
{
    struct loop *there = conn->loop->acceptor->streams_loop;
    struct http_stream *stream = conn->stream;
    uv_os_fd_t fd;

    if (stream == NULL || there == conn->loop || conn->queue != NULL || conn->writing ||
        stream->seen != STREAM_OPEN || conn->input == INPUT_ENDED ||
        uv_fileno((uv_handle_t *)&conn->tcp, &fd) != 0)
        return;
    int passage = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (passage < 0)
        return;
    conn->stream = NULL;
    http_stream_move(stream, &there->outbox, passage);
    conn_destroy(conn);
}

void
conn_tend_stream(struct conn *conn)
{
    if (conn->stream != NULL && conn->loop->draining && conn->stream->seen == STREAM_OPEN)
        http_stream_shut(conn->stream);
}

/* Answers before it are still owed. Who has shut their side won't come back for a stream's end. */
bool
conn_stream_is_lost(const struct conn *conn)
{
    bool is_its_turn = conn->queue == NULL || conn->queue->next == NULL;

    return is_its_turn && (conn->stream->seen == STREAM_CUT || conn->input == INPUT_ENDED ||
                           conn->discarded > DISCARD_BYTES_MAX);
}

void
conn_drop_stream(struct conn *conn)
{
    struct http_stream *stream = conn->stream;

    conn->stream = NULL;
    http_stream_close(stream);
    http_stream_leave(stream);
}
