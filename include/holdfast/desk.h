/*
 * desk.h - the other lane: reads and admin work, one job at a time per thread.
 *
 * A job gets a ready Postgres connection (and Redis) of its thread and answers its
 * exchange itself. It keeps big imports and slow reads away from the engine's
 * batches. Of jobs that may take long as many run at once as leave a thread to the others.
 *
 * Threads:  desk_submit from any thread. Limits: desk_queue_max jobs; no job waits
 *           for its turn or for a connection past its deadline, nor at all while Postgres is
 *           known to be away.
 */
#ifndef HOLDFAST_DESK_H
#define HOLDFAST_DESK_H

#include <stdbool.h>

#include "holdfast/cold.h"
#include "holdfast/engine.h"
#include "holdfast/warm.h"

struct desk; /* opaque */

/* What a job may use while it runs. */
struct desk_tools {
    struct node *node;
    struct pg *pg; /* was ready just before; may break at any time. NULL in some `fail`s */
    struct warm *warm;
};

struct desk_job {
    struct desk_job *next;
    struct mono_time deadline;
    struct mono_time not_before; /* it waits until then; 0: it needn't */
    bool is_long;                /* it may run past its deadline */
    /* Exactly one of the two is called, on a thread of the desk; each must answer and free the
     * job. `fail` must not use Postgres. */
    void (*run)(struct desk_job *job, struct desk_tools *tools);
    /* Postgres can't be reached (HF_STORE_UNAVAILABLE), or the deadline passed in the queue
     * (HF_OVERLOADED). */
    void (*fail)(struct desk_job *job, struct desk_tools *tools, enum hf_status status);
};

struct desk *desk_start(struct node *node);
/* False: the queue is full; the job is still the caller's. */
HF_MUST_CHECK bool desk_submit(struct desk *desk, struct desk_job *job);
int64_t desk_outstanding(struct desk *desk);
void desk_stop(struct desk **desk, struct mono_time deadline);

#endif
