/*
 * loop.c - one thread, one listener, and the connections that came through it.
 *
 * The listener is polled and accepted from by hand, not through uv_listen: libuv calls
 * accept() in a loop that spins when there are no descriptors left, and its queue can't
 * be emptied before closing. Here accepting pauses at connections_max and on errors;
 * clients then wait in the kernel's queue.
 */
#include "acceptor_internal.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"

/* Between two looks at the sockets, however many knock. */
#define ACCEPT_AT_ONCE_MAX 64
/* Likewise: each of them costs a write. */
#define STREAMS_AT_ONCE_MAX 64
/* Whoever is told something lets those go first who ask for something. */
#define STREAMS_NICE 10
/* After an error such as EMFILE: connections may have ended by then. */
#define ACCEPT_AGAIN_MS 250
#define ACCEPT_LOG_MS   10000
#define LINGER_MS       1000
#define DRAIN_MS        100
#define TICK_MS_MIN     5

static void on_listener(uv_poll_t *poll, int status, int events);

/* --- accepting --------------------------------------------------------------- */

static void
accept_resume(struct loop *loop)
{
    if (loop->listening || loop->listen_fd < 0)
        return;
    loop->accept_again_ms = 0;
    loop->listening = uv_poll_start(&loop->listener, UV_READABLE, on_listener) == 0;
}

static void
accept_pause(struct loop *loop)
{
    if (loop->listening)
        uv_poll_stop(&loop->listener);
    loop->listening = false;
}

static void
accept_failed(struct loop *loop, int error)
{
    uint64_t now_ms = uv_now(&loop->uv);

    accept_pause(loop);
    loop->accept_again_ms = now_ms + ACCEPT_AGAIN_MS;
    if (loop->accept_logged_ms != 0 && now_ms < loop->accept_logged_ms + ACCEPT_LOG_MS)
        return;
    loop->accept_logged_ms = now_ms;
    LOG_EVENT(LOG_ERROR, "accept_failed", log_text("reason", strerror(error)),
              log_int("connections", acceptor_connections(loop->acceptor)));
}

/* Errors of the connection that was to be accepted, as accept(2) lists them. */
static bool
is_connections_own_error(int error)
{
    return error == ECONNABORTED || error == EINTR || error == EPROTO || error == ENETDOWN ||
           error == ENOPROTOOPT || error == EHOSTDOWN || error == ENONET || error == EHOSTUNREACH ||
           error == EOPNOTSUPP || error == ENETUNREACH;
}

static void
uncount_connection(struct loop *loop)
{
    int64_t before =
        atomic_fetch_sub_explicit(&loop->acceptor->connections, 1, memory_order_relaxed);
    hf_assert(before > 0);
}

/* Counts before it accepts, so that loops together keep to the limit. */
static bool
count_connection(struct loop *loop)
{
    struct acceptor *acceptor = loop->acceptor;
    int64_t before = atomic_fetch_add_explicit(&acceptor->connections, 1, memory_order_relaxed);
    if (before < acceptor->config->connections_max || loop->draining)
        return true;
    uncount_connection(loop);
    return false;
}

/* False: there is nothing to accept, or not now. */
static bool
accept_one(struct loop *loop)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);

    if (!count_connection(loop)) {
        accept_pause(loop);
        return false;
    }
    int fd = accept4(loop->listen_fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int error = errno;
    if (fd >= 0 && conn_open(loop, fd, &peer)) {
        metric_add(METRIC_CONNECTIONS_TOTAL, 1);
        metric_adjust(METRIC_CONNECTIONS, 1);
        return true;
    }
    uncount_connection(loop);
    if (fd >= 0) { /* no memory */
        accept_failed(loop, ENOMEM);
        return false;
    }
    if (is_connections_own_error(error))
        return true;
    if (error != EAGAIN && error != EWOULDBLOCK)
        accept_failed(loop, error);
    return false;
}

static void
on_listener(uv_poll_t *poll, int status, int events)
{
    struct loop *loop = poll->data;
    (void)events;
    if (status < 0) {
        accept_failed(loop, -status);
        return;
    }
    for (int i = 0; i < ACCEPT_AT_ONCE_MAX && accept_one(loop); i++)
        ;
    loop_settle(loop);
}

void
loop_connection_came(struct loop *loop)
{
    atomic_fetch_add_explicit(&loop->acceptor->connections, 1, memory_order_relaxed);
    metric_adjust(METRIC_CONNECTIONS, 1);
}

void
loop_connection_gone(struct loop *loop)
{
    uncount_connection(loop);
    metric_adjust(METRIC_CONNECTIONS, -1);
    if (loop->accept_again_ms == 0)
        accept_resume(loop);
}

/* At once, so that hardly anybody gets into the queue after it was emptied. */
static void
close_listener(struct loop *loop)
{
    if (loop->listen_fd < 0)
        return;
    accept_pause(loop);
    uv_close((uv_handle_t *)&loop->listener, NULL);
    close(loop->listen_fd);
    loop->listen_fd = -1;
}

/* --- orders, answers, deadlines ---------------------------------------------- */

void
loop_collect(struct loop *loop)
{
    struct outbox_item *item;
    while ((item = outbox_take(&loop->outbox.answers)) != NULL)
        conn_answered(loop, exchange_of_item(item));
}

/* Those of a burst are many: the rest comes after another look at the sockets. */
static void
collect_streams(struct loop *loop, unsigned count_max)
{
    for (unsigned count = 0; count < count_max; count++) {
        struct outbox_item *item = outbox_take(&loop->outbox.streams);
        if (item == NULL)
            return;
        conn_stream_woken(loop, http_stream_of_item(item));
    }
    uv_async_send(&loop->wake);
}

void
loop_settle(struct loop *loop)
{
    for (;;) {
        loop_collect(loop);
        struct conn *conn = conn_take_dirty(loop);
        if (conn == NULL)
            return;
        conn_advance(conn);
    }
}

/* Whoever got through the handshake is served, then the door is shut. */
static void
drain(struct loop *loop)
{
    if (loop->draining)
        return;
    loop->draining = true;
    while (loop->listen_fd >= 0 && accept_one(loop))
        ;
    close_listener(loop);
    for (struct conn *conn = loop->conns; conn != NULL; conn = conn_next(conn))
        conn_touch(conn);
}

static void
stop(struct loop *loop)
{
    loop->draining = true;
    close_listener(loop);
    collect_streams(loop, UINT_MAX); /* also those that were about to move in, or have moved out */
    loop_settle(loop);
    outbox_quiesce(&loop->outbox);
    for (struct conn *conn = loop->conns; conn != NULL; conn = conn_next(conn))
        conn_destroy(conn);
    collect_streams(loop, UINT_MAX); /* to which somebody sent meanwhile: all are closed now */
    uv_close((uv_handle_t *)&loop->tick, NULL);
    uv_close((uv_handle_t *)&loop->wake, NULL);
}

static void
on_wake(uv_async_t *wake)
{
    struct loop *loop = wake->data;
    unsigned orders = atomic_exchange(&loop->orders, 0);

    if (orders & LOOP_ORDER_DRAIN)
        drain(loop);
    if (orders & LOOP_ORDER_STOP)
        stop(loop);
    collect_streams(loop, STREAMS_AT_ONCE_MAX);
    loop_settle(loop);
    if (orders & LOOP_ORDER_DRAIN)
        sem_post(&loop->drained);
}

static void
update_date(struct loop *loop)
{
    int64_t now = time(NULL);
    if (now == loop->date_second)
        return;
    loop->date_second = now;
    answer_format_date(now, loop->date);
}

static void
on_tick(uv_timer_t *tick)
{
    struct loop *loop = tick->data;
    uint64_t now_ms = uv_now(&loop->uv);
    struct deadline *due;

    update_date(loop);
    for (unsigned kind = 0; kind < DEADLINE_KINDS; kind++) {
        while ((due = deadline_take_due(&loop->deadlines[kind], now_ms)) != NULL)
            conn_timeout((enum deadline_kind)kind, due);
    }
    if (now_ms >= loop->accept_again_ms)
        accept_resume(loop); /* also when another loop's connections have made room */
    loop_settle(loop);
}

/* --- start and end ----------------------------------------------------------- */

static uint64_t
ms_of(int64_t us)
{
    return (uint64_t)(us + TIME_US_PER_MS - 1) / TIME_US_PER_MS;
}

/* An eighth of the shortest timeout is precise enough for any of them. */
static uint64_t
init_deadlines(struct loop *loop)
{
    const struct config *config = loop->acceptor->config;
    const uint64_t after_ms[DEADLINE_KINDS] = {
        [DEADLINE_IDLE] = ms_of(config->idle_timeout),
        [DEADLINE_HEADER] = ms_of(config->header_timeout),
        [DEADLINE_BODY] = ms_of(config->body_timeout),
        [DEADLINE_WRITE] = ms_of(config->write_timeout),
        [DEADLINE_LINGER] = LINGER_MS,
        [DEADLINE_DRAIN] = DRAIN_MS,
    };
    uint64_t tick_ms = TICK_MS_MAX;

    for (unsigned kind = 0; kind < DEADLINE_KINDS; kind++) {
        deadline_list_init(&loop->deadlines[kind], after_ms[kind]);
        if (kind <= DEADLINE_WRITE && after_ms[kind] / 8 < tick_ms)
            tick_ms = after_ms[kind] / 8;
    }
    return tick_ms < TICK_MS_MIN ? TICK_MS_MIN : tick_ms;
}

static void *
run(void *context)
{
    struct loop *loop = context;
    char name[16];

    snprintf(name, sizeof(name), "loop-%u", loop->number);
    if (loop == loop->acceptor->streams_loop) {
        snprintf(name, sizeof(name), "loop-streams");
        /* The thread's own, on Linux. Where it is refused all works as well, but not as quietly. */
        int now = nice(STREAMS_NICE);
        (void)now;
    }
    pthread_setname_np(pthread_self(), name);
    outbox_own(&loop->outbox);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    outbox_own(NULL);
    return NULL;
}

/* Signals are the main thread's; SIGPIPE must not end us because a client left. */
static bool
start_thread(struct loop *loop)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&loop->thread, NULL, run, loop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

static void
fini(struct loop *loop)
{
    exchange_pool_fini(&loop->exchanges);
    conn_free_kept(loop);
    sem_destroy(&loop->drained);
    hf_must(uv_loop_close(&loop->uv));
}

static bool
init_handles(struct loop *loop)
{
    hf_must(uv_timer_init(&loop->uv, &loop->tick));
    loop->wake.data = loop->tick.data = loop->listener.data = loop;
    if (uv_async_init(&loop->uv, &loop->wake, on_wake) != 0)
        return false;
    if (loop->listen_fd >= 0 && uv_poll_init(&loop->uv, &loop->listener, loop->listen_fd) != 0) {
        uv_close((uv_handle_t *)&loop->wake, NULL);
        return false;
    }
    return true;
}

static void
close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

bool
loop_start(struct loop *loop, struct acceptor *acceptor, unsigned number, int listen_fd)
{
    *loop = (struct loop){ .acceptor = acceptor, .number = number, .listen_fd = listen_fd };
    if (uv_loop_init(&loop->uv) != 0) {
        close_if_open(listen_fd);
        return false;
    }
    outbox_init(&loop->outbox, &loop->wake);
    exchange_pool_init(&loop->exchanges, &acceptor->budget, &loop->outbox);
    hf_must(sem_init(&loop->drained, 0, 0));
    uint64_t tick_ms = init_deadlines(loop);
    if (!init_handles(loop)) {
        close_if_open(listen_fd);
        uv_close((uv_handle_t *)&loop->tick, NULL);
        uv_run(&loop->uv, UV_RUN_DEFAULT);
        fini(loop);
        return false;
    }
    hf_must(uv_timer_start(&loop->tick, on_tick, 0, tick_ms));
    update_date(loop);
    accept_resume(loop);
    if (start_thread(loop))
        return true;
    stop(loop);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    fini(loop);
    return false;
}

void
loop_order(struct loop *loop, enum loop_order order)
{
    atomic_fetch_or(&loop->orders, order);
    uv_async_send(&loop->wake);
}

void
loop_join(struct loop *loop)
{
    pthread_join(loop->thread, NULL);
    fini(loop);
}
