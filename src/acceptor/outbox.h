/*
 * outbox.h - what other threads have for a loop: answers on their way back to it, and
 * streams that have something to send.
 *
 * Answers are taken whenever the loop has done something: there are only as many as it
 * has read requests. Streams are taken a few at a time, so that those who send without a
 * pause can't keep it from its sockets.
 *
 * Threads:  outbox_post_* from any thread. On the loop's own thread an answer goes to a
 *           plain list; everything else goes onto a stack that the loop takes whole.
 * Locks:    none: one compare-and-swap. The thread that finds the stack empty wakes
 *           the loop; whoever comes before the loop has taken it rides along.
 * Memory:   links the items, which live in what they stand for; allocates nothing.
 * Limits:   as many as there are exchanges and streams.
 */
#ifndef ACCEPTOR_OUTBOX_H
#define ACCEPTOR_OUTBOX_H

#include <stdatomic.h>
#include <uv.h>

/* A member of an exchange or of a stream, in the outbox once at a time. */
struct outbox_item {
    struct outbox_item *next;
};

struct outbox_tray {
    /* the loop's */
    struct outbox_item *head;
    struct outbox_item **tail;

    /* atomic, any thread */
    _Atomic(struct outbox_item *) others; /* newest first */
};

struct outbox {
    uv_async_t *wake; /* fixed after start */
    struct outbox_tray answers, streams;
    atomic_int senders; /* any thread: those between push and wake */
};

void outbox_init(struct outbox *outbox, uv_async_t *wake);

/* From now on this thread is the loop of `outbox` (NULL: of none). */
void outbox_own(struct outbox *outbox);

void outbox_post_answer(struct outbox *outbox, struct outbox_item *answer);
/* Also wakes the loop if it is its own thread's. */
void outbox_post_stream(struct outbox *outbox, struct outbox_item *stream);

/* The oldest item, or NULL. The loop's thread only. */
struct outbox_item *outbox_take(struct outbox_tray *tray);

/* Waits until no thread can touch `wake` any more, given that no exchange is out. */
void outbox_quiesce(struct outbox *outbox);

#endif
