/*
 * op_queue.c - two lists under one lock: ops that may run, in order of arrival,
 * and ops put back for later, in order of their time.
 */
#include "holdfast/op_queue.h"

#include <stdlib.h>

#include "holdfast/clock.h"
#include "holdfast/ids.h"
#include "holdfast/lock.h"
#include "holdfast/metrics.h"

/* How far past a batch's worth of ops a gather looks for ones that fit. */
#define GATHER_LOOK_FACTOR 4
#define HOLD_SET_SLOTS     4096 /* twice the largest batch, a power of two */

struct op_list {
    struct op *first;
    struct op **end;
};

struct op_queue {
    int64_t max; /* fixed */

    struct lock lock; /* guards all below */
    pthread_cond_t work;
    struct op_list ready;
    struct op *later; /* sorted by not_before */
    int64_t depth;    /* ready and later together; METRIC_QUEUE_DEPTH follows it */
    bool closed;
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
    return queue;
}

void
op_queue_free(struct op_queue **queue)
{
    if (*queue == NULL)
        return;
    hf_assert((*queue)->depth == 0);
    pthread_cond_destroy(&(*queue)->work);
    lock_fini(&(*queue)->lock);
    free(*queue);
    *queue = NULL;
}

bool
op_queue_push(struct op_queue *queue, struct op *op)
{
    lock_take(&queue->lock);
    bool taken = !queue->closed && queue->depth < queue->max;
    if (taken) {
        list_append(&queue->ready, op);
        metric_set(METRIC_QUEUE_DEPTH, ++queue->depth);
        pthread_cond_signal(&queue->work);
    }
    lock_drop(&queue->lock);
    return taken;
}

void
op_queue_put_back(struct op_queue *queue, struct op *op)
{
    lock_take(&queue->lock);
    if (op->not_before.us == 0) {
        list_prepend(&queue->ready, op);
    } else {
        struct op **link = &queue->later;
        while (*link != NULL && (*link)->not_before.us <= op->not_before.us)
            link = &(*link)->next;
        op->next = *link;
        *link = op;
    }
    metric_set(METRIC_QUEUE_DEPTH, ++queue->depth);
    pthread_cond_signal(&queue->work);
    lock_drop(&queue->lock);
}

/* Moves what is due from `later` to the front of `ready`. */
static void
release_due_locked(struct op_queue *queue, struct mono_time now)
{
    while (queue->later != NULL && queue->later->not_before.us <= now.us) {
        struct op *op = queue->later;
        queue->later = op->next;
        op->not_before.us = 0;
        list_prepend(&queue->ready, op);
    }
}

/* Waits until something may run. False: closed and empty. */
static bool
wait_for_work_locked(struct op_queue *queue)
{
    for (;;) {
        struct mono_time now = mono_now();
        release_due_locked(queue, now);
        if (queue->ready.first != NULL)
            return true;
        if (queue->closed && queue->later == NULL)
            return false;
        long wait_us = queue->later == NULL ? -1 : (long)(queue->later->not_before.us - now.us);
        lock_wait(&queue->lock, &queue->work, wait_us);
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
        if (op->solo && count > 0)
            break; /* it waits for its turn, and so does all behind it */
        const struct uuid *hold = op_locks_hold(op);
        if (op->keyed != keyed || (hold != NULL && !hold_set_add(&holds, hold))) {
            link = &op->next;
            continue;
        }
        ops[count++] = list_take(&queue->ready, link);
        if (op->solo)
            break;
    }
    queue->depth -= count;
    metric_set(METRIC_QUEUE_DEPTH, queue->depth);
    return count;
}

int
op_queue_gather(struct op_queue *queue, struct op **ops, int max)
{
    hf_assert(max > 0 && max <= HOLD_SET_SLOTS / 4);
    int count = 0;
    lock_take(&queue->lock);
    if (wait_for_work_locked(queue))
        count = take_batch_locked(queue, ops, max);
    /* What is left may be for another worker, whose wake was spent on this one. */
    if (queue->ready.first != NULL || (queue->closed && queue->depth == 0))
        pthread_cond_signal(&queue->work);
    lock_drop(&queue->lock);
    return count;
}

int64_t
op_queue_depth(struct op_queue *queue)
{
    lock_take(&queue->lock);
    int64_t depth = queue->depth;
    lock_drop(&queue->lock);
    return depth;
}

void
op_queue_close(struct op_queue *queue)
{
    lock_take(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->work);
    lock_drop(&queue->lock);
}
