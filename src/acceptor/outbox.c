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
append_own(struct outbox *outbox, struct outbox_item *item)
{
    item->next = NULL;
    *outbox->own_tail = item;
    outbox->own_tail = &item->next;
}

static void
push_from_elsewhere(struct outbox *outbox, struct outbox_item *item)
{
    atomic_fetch_add_explicit(&outbox->senders, 1, memory_order_seq_cst);
    struct outbox_item *head = atomic_load_explicit(&outbox->others, memory_order_relaxed);
    do {
        item->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&outbox->others, &head, item, memory_order_release,
                                                memory_order_relaxed));
    if (head == NULL) /* else the one who found it empty wakes the loop */
        uv_async_send(outbox->wake);
    atomic_fetch_sub_explicit(&outbox->senders, 1, memory_order_release);
}

void
outbox_post(struct outbox *outbox, struct outbox_item *item)
{
    if (outbox == outbox_of_this_thread)
        append_own(outbox, item);
    else
        push_from_elsewhere(outbox, item);
}

/* The stack has the newest on top: turn it over, behind what is there. */
static void
take_others(struct outbox *outbox)
{
    if (atomic_load_explicit(&outbox->others, memory_order_relaxed) == NULL)
        return; /* a plain load, since this is asked after every read */
    struct outbox_item *taken = atomic_exchange_explicit(&outbox->others, NULL, memory_order_acquire);
    struct outbox_item *oldest = NULL;
    while (taken != NULL) {
        struct outbox_item *next = taken->next;
        taken->next = oldest;
        oldest = taken;
        taken = next;
    }
    while (oldest != NULL) {
        struct outbox_item *next = oldest->next;
        append_own(outbox, oldest);
        oldest = next;
    }
}

struct outbox_item *
outbox_take(struct outbox *outbox)
{
    if (outbox->own_head == NULL)
        take_others(outbox);
    struct outbox_item *item = outbox->own_head;
    if (item == NULL)
        return NULL;
    outbox->own_head = item->next;
    if (outbox->own_head == NULL)
        outbox->own_tail = &outbox->own_head;
    item->next = NULL;
    return item;
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
