/*
 * outbox.c - two lists, one for each side of the loop's thread.
 */
#include "outbox.h"

#include <sched.h>

static _Thread_local struct outbox *outbox_of_this_thread;

void
outbox_init(struct outbox *outbox, uv_async_t *wake)
{
    outbox->wake = wake;
    outbox->own_head = NULL;
    outbox->own_tail = &outbox->own_head;
    atomic_init(&outbox->others, NULL);
    atomic_init(&outbox->senders, 0);
}

void
outbox_own(struct outbox *outbox)
{
    outbox_of_this_thread = outbox;
}

static void
append_own(struct outbox *outbox, struct exchange *exchange)
{
    exchange->outbox_next = NULL;
    *outbox->own_tail = exchange;
    outbox->own_tail = &exchange->outbox_next;
}

static void
push_from_elsewhere(struct outbox *outbox, struct exchange *exchange)
{
    atomic_fetch_add_explicit(&outbox->senders, 1, memory_order_seq_cst);
    struct exchange *head = atomic_load_explicit(&outbox->others, memory_order_relaxed);
    do {
        exchange->outbox_next = head;
    } while (!atomic_compare_exchange_weak_explicit(&outbox->others, &head, exchange,
                                                    memory_order_release, memory_order_relaxed));
    if (head == NULL) /* else the one who found it empty wakes the loop */
        uv_async_send(outbox->wake);
    atomic_fetch_sub_explicit(&outbox->senders, 1, memory_order_release);
}

void
http_exchange_send(struct http_exchange *public)
{
    struct exchange *exchange = exchange_of(public);
    struct outbox *outbox = exchange->outbox;

    hf_assert(!exchange->sent); /* exactly once */
    exchange->sent = true;
    if (outbox == outbox_of_this_thread)
        append_own(outbox, exchange);
    else
        push_from_elsewhere(outbox, exchange);
}

/* The stack has the newest on top: turn it over, behind what is there. */
static void
take_others(struct outbox *outbox)
{
    if (atomic_load_explicit(&outbox->others, memory_order_relaxed) == NULL)
        return; /* a plain load, since this is asked after every read */
    struct exchange *taken = atomic_exchange_explicit(&outbox->others, NULL, memory_order_acquire);
    struct exchange *oldest = NULL;
    while (taken != NULL) {
        struct exchange *next = taken->outbox_next;
        taken->outbox_next = oldest;
        oldest = taken;
        taken = next;
    }
    while (oldest != NULL) {
        struct exchange *next = oldest->outbox_next;
        append_own(outbox, oldest);
        oldest = next;
    }
}

struct exchange *
outbox_take(struct outbox *outbox)
{
    if (outbox->own_head == NULL)
        take_others(outbox);
    struct exchange *exchange = outbox->own_head;
    if (exchange == NULL)
        return NULL;
    outbox->own_head = exchange->outbox_next;
    if (outbox->own_head == NULL)
        outbox->own_tail = &outbox->own_head;
    exchange->outbox_next = NULL;
    return exchange;
}

/*
 * A sender's exchange may come home before the sender has left: it was taken by a
 * wake that somebody else had asked for. Such a sender is a few instructions away.
 */
void
outbox_quiesce(struct outbox *outbox)
{
    while (atomic_load_explicit(&outbox->senders, memory_order_acquire) != 0)
        sched_yield();
}
