/*
 * outbox.h - what other threads have for a loop: answers on their way back to it, and
 * streams that have something to send.
 *
 * Threads:  outbox_post from any thread. On the loop's own thread the item goes to a
 *           plain list, from others onto a stack that the loop takes whole.
 * Locks:    none: one compare-and-swap. The thread that finds the stack empty wakes
 *           the loop; whoever comes before the loop has taken it rides along.
 * Memory:   links the items, which live in what they stand for; allocates nothing.
 * Limits:   as many as there are exchanges and streams.
 */
#ifndef ACCEPTOR_OUTBOX_H
#define ACCEPTOR_OUTBOX_H

#include <stdatomic.h>
#include <uv.h>

enum outbox_kind { OUTBOX_EXCHANGE, OUTBOX_STREAM };

/* A member of an exchange or of a stream; in one outbox, once at a time. */
struct outbox_item {
    struct outbox_item *next;
    enum outbox_kind kind;
};

struct outbox {
    uv_async_t *wake; /* fixed after start */

    /* the loop's */
    struct outbox_item *own_head;
    struct outbox_item **own_tail;

    /* atomic, any thread */
    _Atomic(struct outbox_item *) others; /* newest first */
    atomic_int senders;                   /* threads between push and wake */
};

void outbox_init(struct outbox *outbox, uv_async_t *wake);

/* From now on this thread is the loop of `outbox` (NULL: of none). */
void outbox_own(struct outbox *outbox);

void outbox_post(struct outbox *outbox, struct outbox_item *item);

/* The oldest item, or NULL; of one thread's, in the order of posting. The loop's thread only. */
struct outbox_item *outbox_take(struct outbox *outbox);

/* Waits until no thread can touch `wake` any more, given that no exchange is out. */
void outbox_quiesce(struct outbox *outbox);

#endif
