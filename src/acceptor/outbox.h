/*
 * outbox.h - answers on their way back to the loop that owns their connection.
 *
 * Threads:  http_exchange_send from any thread. On the loop's own thread the answer
 *           goes to a plain list, from others onto a stack that the loop takes whole.
 * Locks:    none: one compare-and-swap. The thread that finds the stack empty wakes
 *           the loop; whoever comes before the loop has taken it rides along.
 * Memory:   links the exchanges, allocates nothing.
 * Limits:   as many as there are exchanges.
 */
#ifndef ACCEPTOR_OUTBOX_H
#define ACCEPTOR_OUTBOX_H

#include <stdatomic.h>
#include <uv.h>

#include "exchange.h"

struct outbox {
    uv_async_t *wake; /* fixed after start */

    /* the loop's */
    struct exchange *own_head;
    struct exchange **own_tail;

    /* atomic, any thread */
    _Atomic(struct exchange *) others; /* newest first */
    atomic_int senders;                /* threads between push and wake */
};

void outbox_init(struct outbox *outbox, uv_async_t *wake);

/* From now on this thread is the loop of `outbox` (NULL: of none). */
void outbox_own(struct outbox *outbox);

/* The oldest answer, or NULL. The loop's thread only. */
struct exchange *outbox_take(struct outbox *outbox);

/* Waits until no thread can touch `wake` any more, given that no exchange is out. */
void outbox_quiesce(struct outbox *outbox);

#endif
