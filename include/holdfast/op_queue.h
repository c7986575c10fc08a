/*
 * op_queue.h - the bounded queue between whoever submits ops and the workers.
 *
 * A worker takes all that waits, up to a limit, as one batch: while one batch
 * commits the next one gathers, so batches grow with load and are of size one
 * when idle. Within a batch no two ops concern the same hold; the later one stays
 * in the queue, in its place.
 *
 * Threads:  any; gather blocks its thread until there is work.
 * Locks:    rank QUEUE; the steps under it are bounded by the batch size.
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

/* Takes back an op that was gathered: before all others at op->not_before (0: at once). */
void op_queue_put_back(struct op_queue *queue, struct op *op);

/*
 * Waits for work and takes up to `max` ops in order of arrival: either one op that
 * needs a transaction of its own (solo), or ops that all have or all lack an
 * Idempotency-Key. Returns 0 once the queue is closed and empty.
 */
int op_queue_gather(struct op_queue *queue, struct op **ops, int max);

int64_t op_queue_depth(struct op_queue *queue);

/* No more pushes; gather goes on until the queue is empty. */
void op_queue_close(struct op_queue *queue);

#endif
