/*
 * acceptor_internal.h - a loop, its connections, and what both share.
 *
 * acceptor.c     starts and stops loops; the public functions
 * loop.c         one thread: accepts, wakes for answers, ticks
 * connection.h   one connection: reads, parses, queues, answers in order, ends
 * stream.h       an answer without an end: pieces from any thread
 *
 * Threads:  everything of a loop belongs to its thread, but for `orders` and the
 *           outbox. Of the acceptor, only the atomics change after start.
 * Locks:    one of each stream.
 */
#ifndef ACCEPTOR_INTERNAL_H
#define ACCEPTOR_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <uv.h>

#include "answer.h"
#include "deadline.h"
#include "listener.h"
#include "outbox.h"
#include "parser.h"
#include "stream.h"

/* One read; also the most that a paused connection has to keep. */
#define READ_BYTES 16384
/* Requests of one connection under way; more of them wait in the socket. */
#define PIPELINE_MAX 64
/* Answers of one connection that are ready but not sent: past this it isn't read. */
#define UNSENT_BYTES_MAX (1024 * 1024)
/* A loop's exchanges, past which each connection gets only one at a time. */
#define EXCHANGES_MAX 16384
/* Between two looks at the deadlines, at the most. */
#define TICK_MS_MAX 200

enum deadline_kind {
    DEADLINE_IDLE,   /* no request begun */
    DEADLINE_HEADER, /* from the first byte of a request */
    DEADLINE_BODY,   /* from the end of its header */
    DEADLINE_WRITE,  /* an answer that the socket didn't take at once */
    DEADLINE_LINGER, /* after our last byte, for the client to see it and leave */
    DEADLINE_DRAIN,  /* an idle connection, once the listener is closed */
    DEADLINE_KINDS
};

struct loop {
    /* fixed after start */
    struct acceptor *acceptor;
    pthread_t thread;
    unsigned number;

    /* any thread */
    atomic_uint orders; /* enum loop_order */
    struct outbox outbox;
    sem_t drained; /* posted once the listener is closed */

    /* the loop's own */
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t tick;
    uv_poll_t listener;
    int listen_fd;            /* -1: closed, or none */
    bool listening;           /* the poll is active */
    bool draining;            /* the listener is gone for good */
    uint64_t accept_again_ms; /* after an error; 0: at once */
    uint64_t accept_logged_ms;
    struct exchange_pool exchanges;
    struct conn *conns; /* all, doubly linked */
    struct conn *free_conns;
    int free_conns_count;
    struct conn *dirty; /* those that conn_advance must see, a stack */
    struct deadline_list deadlines[DEADLINE_KINDS];
    int64_t date_second;
    char date[ANSWER_DATE_BYTES];
    char read_buffer[READ_BYTES];
};

enum loop_order {
    LOOP_ORDER_DRAIN = 1u << 0, /* empty the accept queue, close the listener */
    LOOP_ORDER_STOP = 1u << 1,
};

struct acceptor {
    /* fixed after start */
    const struct config *config;
    const struct http_handler *handler;
    struct parser_rules rules;
    char address[LISTENER_ADDRESS_BYTES];
    char *node_line;
    size_t loop_count;
    struct loop *loops;
    struct loop *streams_loop; /* the last of them: it has no listener, and writes all streams */

    /* atomic, any thread */
    struct memory_budget budget;
    _Atomic int64_t connections;
    atomic_bool draining; /* every answer says Connection: close */
};

/* Takes `listen_fd`; -1: it has none. False: no thread or no descriptor; nothing is left behind. */
HF_MUST_CHECK bool loop_start(struct loop *loop, struct acceptor *acceptor, unsigned number,
                              int listen_fd);
/* Any thread but the loop's. */
void loop_order(struct loop *loop, enum loop_order order);
/* Waits for the thread to end after LOOP_ORDER_STOP. */
void loop_join(struct loop *loop);
/* Queues the answers that are there, without sending one. */
void loop_collect(struct loop *loop);
/* Carries on until no answer waits to be queued and no connection to be looked at. */
void loop_settle(struct loop *loop);
/* One came from another loop, which counts it until it has let go of it. */
void loop_connection_came(struct loop *loop);
/* A connection is gone: there may be room to accept again. */
void loop_connection_gone(struct loop *loop);

struct conn;
/* Takes `fd`. The caller has counted the connection. False: no memory, fd is closed. */
HF_MUST_CHECK bool conn_open(struct loop *loop, int fd, const struct sockaddr_storage *peer);
/* Ends it now; its exchanges that are with the handler stay valid. */
void conn_destroy(struct conn *conn);
/* The next one of the loop's, for a walk. */
struct conn *conn_next(const struct conn *conn);
/* An exchange came home through the outbox. */
void conn_answered(struct loop *loop, struct exchange *exchange);
/* The outbox brought a stream: there is something to send, or it ends. */
void conn_stream_woken(struct loop *loop, struct http_stream *stream);
/* Sends what can be sent, reads on if it may, arms deadlines; clears the dirty mark. */
void conn_advance(struct conn *conn);
/* Puts it on the dirty list. */
void conn_touch(struct conn *conn);
/* Takes the dirtiest, or NULL. */
struct conn *conn_take_dirty(struct loop *loop);
/* A deadline of `kind` passed. */
void conn_timeout(enum deadline_kind kind, struct deadline *deadline);
void conn_free_kept(struct loop *loop);

#endif
