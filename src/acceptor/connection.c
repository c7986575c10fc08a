/*
 * connection.c - the life of one connection: from accept to the last byte.
 */
#include "connection.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "holdfast/metrics.h"

#ifdef __SANITIZE_ADDRESS__
#define FREE_CONNS_MAX 0 /* so that a late use is seen */
#else
#define FREE_CONNS_MAX 1024
#endif

_Static_assert(offsetof(struct conn, tcp) == 0, "libuv's handle is the connection");

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
    conn_drop_kept(conn);
    conn->lingering = true;
    conn_start_reading(conn);
}

/* Once everything under way is answered, and nothing more will be taken. */
static void
finish(struct conn *conn)
{
    if (conn->stream != NULL && conn_stream_is_lost(conn))
        conn_destroy(conn);
    if (conn->input == INPUT_OPEN || conn->queue != NULL || conn->writing || conn->stream != NULL)
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
        conn_tend_stream(conn);
    if (!conn->closing)
        conn_flush(conn);
    if (!conn->closing)
        conn_move_stream(conn);
    if (!conn->closing)
        conn_resume(conn);
    if (!conn->closing)
        conn_send_continue(conn);
    if (!conn->closing)
        finish(conn);
    if (!conn->closing)
        arm_deadline(conn);
}

void
conn_timeout(enum deadline_kind kind, struct deadline *deadline)
{
    struct conn *conn =
        kind == DEADLINE_WRITE
            ? (struct conn *)((char *)deadline - offsetof(struct conn, write_deadline))
            : (struct conn *)((char *)deadline - offsetof(struct conn, input_deadline));
    switch (kind) {
    case DEADLINE_HEADER:
    case DEADLINE_BODY:
        metric_add(METRIC_HTTP_TIMEOUTS_TOTAL, 1);
        parser_end(&conn->parser);
        conn_refuse(conn, HF_BAD_REQUEST, "too slow");
        break;
    case DEADLINE_WRITE:
        metric_add(
            conn->stream != NULL ? METRIC_HTTP_STREAMS_SLOW_TOTAL : METRIC_HTTP_TIMEOUTS_TOTAL, 1);
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
    if (conn->stream != NULL)
        http_stream_leave(conn->stream); /* only now nothing is written from it */
    conn_drop_receiving(conn);
    conn_drop_kept(conn);
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
    if (conn->stream != NULL)
        http_stream_close(conn->stream);
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

/* False: the descriptor can't be used; the connection is counted until it is closed. */
static bool
init_conn(struct loop *loop, struct conn *conn, int fd)
{
    memset(conn, 0, sizeof(*conn));
    conn->loop = loop;
    conn->input_kind = DEADLINE_KINDS;
    conn->queue_tail = &conn->queue;
    parser_init(&conn->parser, &loop->acceptor->rules);
    conn->next = loop->conns;
    if (conn->next != NULL)
        conn->next->prev = conn;
    loop->conns = conn;

    hf_must(uv_tcp_init(&loop->uv, &conn->tcp)); /* no descriptor is made yet */
    if (uv_tcp_open(&conn->tcp, fd) == 0)
        return true;
    close(fd);
    conn_destroy(conn);
    return false;
}

bool
conn_open(struct loop *loop, int fd, const struct sockaddr_storage *peer)
{
    struct conn *conn = conn_get(loop);
    if (conn == NULL) {
        close(fd);
        return false;
    }
    if (!init_conn(loop, conn, fd))
        return true;
    listener_format_peer(peer, conn->peer, sizeof(conn->peer));
    conn_start_reading(conn);
    conn_touch(conn);
    return true;
}

struct conn *
conn_open_moved(struct loop *loop, int fd)
{
    struct conn *conn = conn_get(loop);
    if (conn == NULL) {
        close(fd);
        return NULL;
    }
    loop_connection_came(loop);
    if (!init_conn(loop, conn, fd))
        return NULL;
    conn->served = true;
    conn->input = INPUT_LAST;
    conn_start_reading(conn);
    return conn;
}
