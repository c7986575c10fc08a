/*
 * op_queue.h - the bounded queue between whoever submits ops and the workers.
 *
 * A worker takes all that waits, up to a limit, as one batch: while one batch
 * commits the next one gathers, so batches grow with load and are of size one
 * when idle. Within a batch no two ops concern the same hold; the later one stays
 * in the queue, in its place.
 *
 * Threads:  any; gather blocks its thread until there is work or time is up.
 * Locks:    rank QUEUE; the steps under it are bounded by the batch size (but see take_late).
 * Memory:   the queue links ops by op->next and owns them while they are in it.
 * Limits:   `max` ops; push says no past it. Ops put back are always taken.
 */
#ifndef HOLDFAST_OP_QUEUE_H
#define HOLDFAST_OP_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/op.h"

struct op_queue; /* opaque */

/* NULL: no memory. */
struct op_queue *op_queue_new(int64_t max);
/* The queue must be empty. */
void op_queue_free(struct op_queue **queue);

/* Takes the op. False: the queue is full or closed, the op is still the caller's. */
HF_MUST_CHECK bool op_queue_push(struct op_queue *queue, struct op *op);

/* How far ahead of now op->not_before may be. */
#define OP_QUEUE_LATER_MOST_US ((int64_t)TIME_US_PER_S)

/*
 * Takes back an op that was gathered: before all others as soon as op->not_before is over, to some
 * milliseconds (0: at once). Who gathers it finds not_before 0.
 */
void op_queue_put_back(struct op_queue *queue, struct op *op);

/*
 * Waits for work, until `until` at the most, and takes up to `max` ops in order of arrival: either
 * one op that needs a transaction of its own (solo), or ops that all have or all lack an
 * Idempotency-Key. Returns how many; 0 when there was none, or somebody called op_queue_wake.
 */
int op_queue_gather(struct op_queue *queue, struct op **ops, int max, struct mono_time until);

/*
 * Takes up to `max` ops whose deadline is at or before `now`, wherever they stand. It looks at all
 * of them under the lock: for when no worker gathers.
 */
int op_queue_take_late(struct op_queue *queue, struct mono_time now, struct op **ops, int max);

/* Gathers that wait return; each waiting thread has something to look at. */
void op_queue_wake(struct op_queue *queue);

/* Takes no lock: good enough to judge by. */
int64_t op_queue_depth(const struct op_queue *queue);

/* No more pushes; gather goes on until the queue is empty. */
void op_queue_close(struct op_queue *queue);
/* True: closed and empty. Who is still in some worker's hands may be put back all the same. */
bool op_queue_is_over(struct op_queue *queue);

#endif
