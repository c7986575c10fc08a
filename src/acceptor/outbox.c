/*
 * outbox.c - trays, each with a side for the loop's thread and one for the others.
 */
#include "outbox.h"

#include <sched.h>

static _Thread_local struct outbox *outbox_of_this_thread;

static void
tray_init(struct outbox_tray *tray)
{
    tray->head = NULL;
    tray->tail = &tray->head;
    atomic_init(&tray->others, NULL);
}

void
outbox_init(struct outbox *outbox, uv_async_t *wake)
{
    outbox->wake = wake;
    tray_init(&outbox->answers);
    tray_init(&outbox->streams);
    atomic_init(&outbox->senders, 0);
}

void
outbox_own(struct outbox *outbox)
{
    outbox_of_this_thread = outbox;
}

static void
append(struct outbox_tray *tray, struct outbox_item *item)
{
    item->next = NULL;
    *tray->tail = item;
    tray->tail = &item->next;
}

static void
push(struct outbox *outbox, struct outbox_tray *tray, struct outbox_item *item)
{
    atomic_fetch_add_explicit(&outbox->senders, 1, memory_order_seq_cst);
    struct outbox_item *head = atomic_load_explicit(&tray->others, memory_order_relaxed);
    do {
        item->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&tray->others, &head, item,
                                                    memory_order_release, memory_order_relaxed));
    if (head == NULL) /* else the one who found it empty wakes the loop */
        uv_async_send(outbox->wake);
    atomic_fetch_sub_explicit(&outbox->senders, 1, memory_order_release);
}

void
outbox_post_answer(struct outbox *outbox, struct outbox_item *answer)
{
    if (outbox == outbox_of_this_thread)
        append(&outbox->answers, answer);
    else
        push(outbox, &outbox->answers, answer);
}

void
outbox_post_stream(struct outbox *outbox, struct outbox_item *stream)
{
    push(outbox, &outbox->streams, stream);
}

/* The stack has the newest on top: turn it over, behind what is there. */
static void
take_others(struct outbox_tray *tray)
{
    if (atomic_load_explicit(&tray->others, memory_order_relaxed) == NULL)
        return; /* a plain load, since this is asked after every read */
    struct outbox_item *taken = atomic_exchange_explicit(&tray->others, NULL, memory_order_acquire);
    struct outbox_item *oldest = NULL;
    while (taken != NULL) {
        struct outbox_item *next = taken->next;
        taken->next = oldest;
        oldest = taken;
        taken = next;
    }
    while (oldest != NULL) {
        struct outbox_item *next = oldest->next;
        append(tray, oldest);
        oldest = next;
    }
}

struct outbox_item *
outbox_take(struct outbox_tray *tray)
{
    if (tray->head == NULL)
        take_others(tray);
    struct outbox_item *item = tray->head;
    if (item == NULL)
        return NULL;
    tray->head = item->next;
    if (tray->head == NULL)
        tray->tail = &tray->head;
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
