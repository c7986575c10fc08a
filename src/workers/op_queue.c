/*
 * op_queue.c - under one lock: ops that may run, in order of arrival, and ops put back for later,
 * in slots of time.
 *
 * A slot holds what is due within the same few milliseconds and comes out when they are over. Very
 * many may wait there (another node holds the rows of a whole event), so filing one takes no walk:
 * the slots reach as far ahead as a pause may be, and each is a list of its own.
 */
#include "holdfast/op_queue.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "holdfast/clock.h"
#include "holdfast/ids.h"
#include "holdfast/lock.h"
#include "holdfast/metrics.h"

/* How far past a batch's worth of ops a gather looks for ones that fit. */
#define GATHER_LOOK_FACTOR 4
#define HOLD_SET_SLOTS     4096 /* twice the largest batch, a power of two */

#define SLOT_US            (4 * TIME_US_PER_MS)
#define SLOT_COUNT         256
_Static_assert(OP_QUEUE_LATER_MOST_US / SLOT_US + 2 <= SLOT_COUNT,
               "two times that an op may be put back for never share a slot");

struct op_list {
    struct op *first;
    struct op **end;
};

struct op_queue {
    int64_t max; /* fixed */

    struct lock lock; /* guards all below */
    pthread_cond_t work;
    struct op_list ready;
    struct op_list later[SLOT_COUNT]; /* by the tick that ends the slot, modulo */
    int64_t ticked;                   /* slots up to this tick were emptied into `ready` */
    int64_t last_tick;                /* nothing is filed behind this tick */
    unsigned wakes;                   /* counts op_queue_wake */
    bool closed;

    /* changed under the lock, read by any thread */
    _Atomic int64_t depth; /* ready and later together; METRIC_QUEUE_DEPTH follows it */
};

/* Holds that the batch being gathered has an op for already. */
struct hold_set {
    uint64_t key[HOLD_SET_SLOTS];
    bool used[HOLD_SET_SLOTS];
};

static void
list_init(struct op_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

static void
list_append(struct op_list *list, struct op *op)
{
    op->next = NULL;
    *list->end = op;
    list->end = &op->next;
}

static void
list_prepend(struct op_list *list, struct op *op)
{
    op->next = list->first;
    if (list->first == NULL)
        list->end = &op->next;
    list->first = op;
}

/* Appends all of `from`, which is empty then. */
static void
list_splice(struct op_list *to, struct op_list *from)
{
    if (from->first == NULL)
        return;
    *to->end = from->first;
    to->end = from->end;
    list_init(from);
}

/* Unlinks *link from the list and returns it. */
static struct op *
list_take(struct op_list *list, struct op **link)
{
    struct op *op = *link;
    *link = op->next;
    if (*link == NULL)
        list->end = link;
    op->next = NULL;
    return op;
}

static int64_t
depth_of(const struct op_queue *queue)
{
    return atomic_load_explicit(&queue->depth, memory_order_relaxed);
}

static void
change_depth_locked(struct op_queue *queue, int64_t by)
{
    int64_t depth = depth_of(queue) + by;
    atomic_store_explicit(&queue->depth, depth, memory_order_relaxed);
    metric_set(METRIC_QUEUE_DEPTH, depth);
}

struct op_queue *
op_queue_new(int64_t max)
{
    struct op_queue *queue = calloc(1, sizeof(*queue));
    if (queue == NULL)
        return NULL;
    queue->max = max;
    lock_init(&queue->lock, LOCK_QUEUE);
    lock_cond_init(&queue->work);
    list_init(&queue->ready);
    for (int i = 0; i < SLOT_COUNT; i++)
        list_init(&queue->later[i]);
    return queue;
}

void
op_queue_free(struct op_queue **queue)
{
    if (*queue == NULL)
        return;
    hf_assert(depth_of(*queue) == 0);
    pthread_cond_destroy(&(*queue)->work);
    lock_fini(&(*queue)->lock);
    free(*queue);
    *queue = NULL;
}

bool
op_queue_push(struct op_queue *queue, struct op *op)
{
    lock_take(&queue->lock);
    bool taken = !queue->closed && depth_of(queue) < queue->max;
    if (taken) {
        list_append(&queue->ready, op);
        change_depth_locked(queue, 1);
        pthread_cond_signal(&queue->work);
    }
    lock_drop(&queue->lock);
    return taken;
}

/* --- for later ---------------------------------------------------------------------- */

static struct op_list *
slot_at(struct op_queue *queue, int64_t tick)
{
    return &queue->later[tick % SLOT_COUNT];
}

/* Moves the slots that are over to the front of `ready`, the oldest first. */
static void
release_due_locked(struct op_queue *queue, struct mono_time now)
{
    int64_t to = now.us / SLOT_US, end = to < queue->last_tick ? to : queue->last_tick;
    struct op_list due;
    list_init(&due);
    for (int64_t tick = queue->ticked + 1; tick <= end; tick++)
        list_splice(&due, slot_at(queue, tick));
    queue->ticked = to;
    if (due.first == NULL)
        return;
    list_splice(&due, &queue->ready);
    list_splice(&queue->ready, &due);
}

/* When the next slot is over; INT64_MAX: all are empty. */
static int64_t
next_due_us_locked(struct op_queue *queue)
{
    for (int64_t tick = queue->ticked + 1; tick <= queue->last_tick; tick++)
        if (slot_at(queue, tick)->first != NULL)
            return tick * SLOT_US;
    return INT64_MAX;
}

static void
file_for_later_locked(struct op_queue *queue, struct op *op)
{
    struct mono_time now = mono_now();
    int64_t tick = (op->not_before.us + SLOT_US - 1) / SLOT_US; /* never before its time */
    hf_assert(op->not_before.us <= now.us + OP_QUEUE_LATER_MOST_US);
    release_due_locked(queue, now); /* its slot may have been another tick's */
    if (tick <= queue->ticked) {
        list_prepend(&queue->ready, op);
        return;
    }
    list_append(slot_at(queue, tick), op);
    if (tick > queue->last_tick)
        queue->last_tick = tick;
}

void
op_queue_put_back(struct op_queue *queue, struct op *op)
{
    lock_take(&queue->lock);
    if (op->not_before.us == 0)
        list_prepend(&queue->ready, op);
    else
        file_for_later_locked(queue, op);
    change_depth_locked(queue, 1);
    pthread_cond_signal(&queue->work);
    lock_drop(&queue->lock);
}

/* --- taking ------------------------------------------------------------------------- */

static bool
is_over_locked(const struct op_queue *queue)
{
    return queue->closed && depth_of(queue) == 0;
}

/* Waits until something may run. False: nothing came, or there is a reason to look elsewhere. */
static bool
wait_for_work_locked(struct op_queue *queue, struct mono_time until)
{
    unsigned wakes = queue->wakes;
    for (;;) {
        struct mono_time now = mono_now();
        release_due_locked(queue, now);
        if (queue->ready.first != NULL)
            return true;
        if (is_over_locked(queue) || queue->wakes != wakes || now.us >= until.us)
            return false;
        int64_t due_us = next_due_us_locked(queue);
        int64_t next_us = due_us < until.us ? due_us : until.us;
        lock_wait(&queue->lock, &queue->work, (long)(next_us - now.us));
    }
}

/* True if the hold was not in the set yet, and is now. */
static bool
hold_set_add(struct hold_set *set, const struct uuid *hold)
{
    uint64_t key = hash_seeded(hold->bytes, sizeof(hold->bytes));
    for (size_t i = key % HOLD_SET_SLOTS;; i = (i + 1) % HOLD_SET_SLOTS) {
        if (!set->used[i]) {
            set->used[i] = true;
            set->key[i] = key;
            return true;
        }
        if (set->key[i] == key)
            return false;
    }
}

/* The hold whose lock the op takes, or NULL: a new hold concerns nobody yet. */
static const struct uuid *
op_locks_hold(const struct op *op)
{
    switch (op->kind) {
    case OP_HOLD:
        return op->grow ? &op->grow_hold : NULL;
    case OP_RETURN: /* alone in its transaction, as all below are */
    case OP_ASSIGN:
    case OP_CHECKOUT_START: /* of several holds */
    case OP_CHECKOUT_CANCEL:
    case OP_PAY:
    case OP_PAY_SETTLE:
    case OP_ANSWER:
        return NULL;
    case OP_EXTEND:
    case OP_CANCEL:
    case OP_REMOVE:
    case OP_CONFIRM:
    case OP_TRANSFER:
    case OP_PATCH:
    case OP_EXPIRE:
        return &op->hold_id;
    }
    return NULL;
}

static bool
runs_alone(const struct op *op)
{
    return op->solo || op->row_waits;
}

static int
take_batch_locked(struct op_queue *queue, struct op **ops, int max)
{
    struct hold_set holds = { .used = { false } };
    struct op **link = &queue->ready.first;
    bool keyed = (*link)->keyed;
    int count = 0;

    for (int looked = 0; *link != NULL && count < max && looked < max * GATHER_LOOK_FACTOR;
         looked++) {
        struct op *op = *link;
        if (runs_alone(op) && count > 0)
            break; /* it waits for its turn, and so does all behind it */
        const struct uuid *hold = op_locks_hold(op);
        if (op->keyed != keyed || (hold != NULL && !hold_set_add(&holds, hold))) {
            link = &op->next;
            continue;
        }
        ops[count++] = list_take(&queue->ready, link);
        op->not_before.us = 0; /* it was waited for */
        if (runs_alone(op))
            break;
    }
    change_depth_locked(queue, -count);
    return count;
}

int
op_queue_gather(struct op_queue *queue, struct op **ops, int max, struct mono_time until)
{
    hf_assert(max > 0 && max <= HOLD_SET_SLOTS / 4);
    int count = 0;
    lock_take(&queue->lock);
    if (wait_for_work_locked(queue, until))
        count = take_batch_locked(queue, ops, max);
    /* What is left may be for another worker, whose wake was spent on this one. */
    if (queue->ready.first != NULL || is_over_locked(queue))
        pthread_cond_signal(&queue->work);
    lock_drop(&queue->lock);
    return count;
}

/* --- those whose time is up ---------------------------------------------------------- */

/* Those of one list; how many ops[] has then. */
static int
take_late_of(struct op_list *list, struct mono_time now, struct op **ops, int count, int max)
{
    for (struct op **link = &list->first; *link != NULL && count < max;) {
        if ((*link)->deadline.us <= now.us)
            ops[count++] = list_take(list, link);
        else
            link = &(*link)->next;
    }
    return count;
}

int
op_queue_take_late(struct op_queue *queue, struct mono_time now, struct op **ops, int max)
{
    lock_take(&queue->lock);
    int count = take_late_of(&queue->ready, now, ops, 0, max);
    for (int i = 0; i < SLOT_COUNT; i++)
        count = take_late_of(&queue->later[i], now, ops, count, max);
    change_depth_locked(queue, -count);
    lock_drop(&queue->lock);
    return count;
}

/* --- looking, waking, closing ---------------------------------------------------------- */

int64_t
op_queue_depth(const struct op_queue *queue)
{
    return depth_of(queue);
}

void
op_queue_wake(struct op_queue *queue)
{
    lock_take(&queue->lock);
    queue->wakes++;
    pthread_cond_broadcast(&queue->work);
    lock_drop(&queue->lock);
}

void
op_queue_close(struct op_queue *queue)
{
    lock_take(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->work);
    lock_drop(&queue->lock);
}

bool
op_queue_is_over(struct op_queue *queue)
{
    lock_take(&queue->lock);
    bool over = is_over_locked(queue);
    lock_drop(&queue->lock);
    return over;
}
