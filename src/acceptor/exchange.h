/*
 * exchange.h - the private side of an exchange: where its bytes live, who has it.
 *
 * The received bytes are copied once, from the loop's read buffer into the exchange,
 * so the request's slices stay put while the connection goes on reading. Small
 * requests fit into the arena inside the struct: no allocation but the exchange, and
 * that comes from a free list. When the answer is written, the arena is used again,
 * for the answer's header.
 *
 * Callers:  parser (fills it), connection (queues and answers it), outbox.
 * Threads:  one owner at a time; the pool belongs to one loop, the budget to all.
 * Memory:   head and body beyond the arena are heap, counted in the budget.
 */
#ifndef ACCEPTOR_EXCHANGE_H
#define ACCEPTOR_EXCHANGE_H

#include "holdfast/http.h"
#include "outbox.h"

#define EXCHANGE_ARENA_BYTES 2048
#define EXCHANGE_MAGIC       0x45584348u /* "EXCH" */

struct conn;

/* What all loops together may spend on received bytes. */
struct memory_budget {
    size_t max;          /* fixed after start */
    _Atomic size_t used; /* any thread */
};

bool memory_budget_take(struct memory_budget *budget, size_t bytes);
void memory_budget_give(struct memory_budget *budget, size_t bytes);

/* As the loop sees it; only the loop changes it. */
enum exchange_state {
    EXCHANGE_RECEIVING, /* the parser fills it */
    EXCHANGE_HANDLED,   /* the handler has it, on whatever thread, or the outbox */
    EXCHANGE_ANSWERED,  /* back; it waits for its turn on the connection */
};

/* A run of received bytes: in the arena while it fits, else on the heap. */
struct exchange_bytes {
    char *data;
    size_t len;
    size_t capacity;
    bool on_heap;
};

struct exchange {
    struct http_exchange public; /* first: handlers see only this */
    uint32_t magic;
    struct outbox *outbox; /* where exchange_send puts it */
    struct memory_budget *budget;

    /* whoever has the exchange: the handler, then the outbox */
    bool sent;
    struct outbox_item home;
    bool endless;               /* the answer has no length: more comes later */
    struct http_stream *stream; /* what comes later; carries the connection's reference */

    /* the loop's, also while the handler has the exchange */
    enum exchange_state state;
    struct exchange *next; /* in the connection's queue, or the pool */
    struct conn *conn;     /* NULL once the connection is gone */

    /* how to answer; known when the header is complete */
    bool keep_alive; /* what the client wants */
    bool http_1_0;   /* keep-alive must be said aloud */
    bool head_only;  /* HEAD: a length, but no body */

    /* the answer, once prepared */
    bool prepared;
    bool timed;          /* `received` is set: count its time */
    size_t queued_bytes; /* counted as unsent on the connection */
    const char *answer_head;
    size_t answer_head_len;
    struct slice answer_body;   /* beyond what stands behind the head already */
    struct buf answer_overflow; /* holds a head too large for the arena */

    struct exchange_bytes head;
    struct exchange_bytes body;
    struct buf forwarded; /* several X-Forwarded-For lines, joined */
    char arena[EXCHANGE_ARENA_BYTES];
};

/* The free list of one loop. */
struct exchange_pool {
    struct memory_budget *budget;
    struct outbox *outbox;
    struct exchange *free;
    int free_count;
    size_t live; /* handed out */
};

void exchange_pool_init(struct exchange_pool *pool, struct memory_budget *budget,
                        struct outbox *outbox);
/* Every exchange must be back. */
void exchange_pool_fini(struct exchange_pool *pool);

/* NULL: no memory. */
struct exchange *exchange_get(struct exchange_pool *pool);
/* Takes the exchange; calls its user_free. */
void exchange_put(struct exchange_pool *pool, struct exchange *exchange);

/* The connection is gone: puts the exchange, or leaves it to its handler for now. */
void exchange_orphan(struct exchange_pool *pool, struct exchange *exchange);

/* Takes the exchange back to its loop. Any thread, once. */
void exchange_send(struct exchange *exchange);

/* Append received bytes. False: the budget or the memory is used up. */
HF_MUST_CHECK bool exchange_head_append(struct exchange *exchange, const char *bytes, size_t len);
HF_MUST_CHECK bool exchange_body_append(struct exchange *exchange, const char *bytes, size_t len);

static inline struct exchange *
exchange_of_item(struct outbox_item *item)
{
    struct exchange *exchange = (struct exchange *)((char *)item - offsetof(struct exchange, home));
    HF_MAGIC_CHECK(exchange, EXCHANGE_MAGIC);
    return exchange;
}

static inline struct exchange *
exchange_of(struct http_exchange *public)
{
    struct exchange *exchange = (struct exchange *)public;
    HF_MAGIC_CHECK(exchange, EXCHANGE_MAGIC);
    return exchange;
}

#endif
