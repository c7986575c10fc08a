/*
 * engine.h - ops in, committed changes out: hot check, batches, settle, answer.
 *
 * The way of one op: engine_submit asks memory and claims seats (refused, parked,
 * or on to the queue) -> a worker takes all that waits as one batch -> one
 * transaction -> settle memory and Redis, tell the feed -> finish and send.
 *
 * Threads:  engine_submit from any thread, never blocks on I/O.
 * Limits:   the queue is bounded by time (pace.c) and by queue_max: what can't be
 *           served before its deadline hears HF_OVERLOADED at once, and while no worker
 *           has a connection HF_STORE_UNAVAILABLE. No op waits longer than its
 *           deadline for an answer, whatever Postgres does.
 */
#ifndef HOLDFAST_ENGINE_H
#define HOLDFAST_ENGINE_H

#include <stdatomic.h>

#include "holdfast/clock.h"
#include "holdfast/cold.h"
#include "holdfast/config.h"
#include "holdfast/events.h"
#include "holdfast/feed.h"
#include "holdfast/hot_table.h"
#include "holdfast/op.h"
#include "holdfast/seat_map.h"
#include "holdfast/warm.h"

/* What the rooms of a node share; all outlive the engine. */
struct node {
    const struct config *config;
    char id[ID_BYTES_MAX + 1];
    struct db_clock *clock;
    struct hot_table *hot;
    struct events *events;
    struct seat_maps *maps;
    struct pg_identity *identity;
    struct warm_tier *tier;
    struct feed *feed;
    struct fanout *fanout;
    struct streams *streams;
    struct engine *engine;
    struct desk *desk;
    struct payments *payments;
    struct baggage *baggage;
    struct delivery *delivery;
    struct waitlist *waitlist;
    _Atomic int64_t doubts; /* transactions whose outcome is being asked for */
};

/* True while this node doesn't know what became of a transaction of its own: then memory may miss
 * something, here and at its peers, however recent. */
static inline bool
node_is_in_doubt(const struct node *node)
{
    return atomic_load(&node->doubts) > 0;
}

struct engine; /* opaque */

/* Starts config->workers threads. NULL: no memory or no thread. */
struct engine *engine_start(struct node *node);
/* Takes the op. Leads to exactly one finish (or replay) and send. */
void engine_submit(struct engine *engine, struct op *op);
/* Ops that were submitted and not answered yet. */
int64_t engine_outstanding(struct engine *engine);
/* Ops that wait for a worker. For /metrics. */
int64_t engine_queue_depth(const struct engine *engine);
/*
 * What an op with this deadline would hear if memory can't answer it: HF_OK: it would be let in;
 * HF_OVERLOADED or HF_STORE_UNAVAILABLE, and when it pays to come again. A few loads, no lock.
 */
enum hf_status engine_admits(const struct engine *engine, struct mono_time deadline,
                             struct mono_time now, int32_t *retry_after_s);
/* Waits for what is under way (until `deadline`), joins the workers, frees; *engine becomes
 * NULL. */
void engine_stop(struct engine **engine, struct mono_time deadline);
/*
 * True while at least one worker has a connection that works, or is about to have one (at the
 * start, and for a moment after a loss), and Postgres doesn't hang. For /ready.
 */
bool engine_store_is_up(const struct engine *engine);
/*
 * Whether another connection of this node has no answer from Postgres. Where no worker gets on
 * either, it hangs: a transaction that waits for locks alone looks the same to its worker.
 */
void engine_store_is_silent(struct engine *engine, bool silent);
/*
 * The outcome of a transaction that another lane ran was lost: memory is doubted now, and once more
 * when it was learned, which is seen to here. One transaction at a time of each thread of the desk,
 * and none is begun while engine_may_doubt says no: so many are open already.
 */
void engine_doubts(struct engine *engine, const struct uuid *batch_id);
bool engine_may_doubt(struct engine *engine);
/*
 * A thread of the desk is about to send COMMIT; and it knows the outcome, or has told
 * engine_doubts. What it committed nobody knows in between, so memory is doubted here and at peers
 * when that takes long. The place that the first returns is the second's.
 */
HF_MUST_CHECK int engine_commit_begins(struct engine *engine);
void engine_commit_ends(struct engine *engine, int place);
/* Workers plan their statements anew before the next batch (after an import). */
void engine_replan(struct engine *engine);

/*
 * The advisory lock of an Idempotency-Key, the same on every node and in every lane. `user` is
 * whose token it was.
 */
int64_t engine_key_lock(struct slice org, struct slice user, struct slice method, struct slice path,
                        struct slice key);

/* The advisory lock that whatever changes a hold takes first, the same on every node and in every
 * lane. */
int64_t engine_hold_lock(const struct uuid *hold);

/* --- reading holds, for the desk ----------------------------------------- */

/*
 * Builds the view of one hold from the rows of read_holds (rows first..last-1).
 * NULL: no memory. The view lives in `arena`.
 */
struct hold_view *hold_view_from_rows(struct arena *arena, const struct pg_result *rows, int first,
                                      int last);

/* The same of a checkout, from all rows of read_checkout. NULL: no memory, or there are none. */
struct checkout_view *checkout_view_from_rows(struct arena *arena, const struct pg_result *rows);

/* --- changes made outside the engine ------------------------------------------- */

/*
 * Tells hot table, events and feed what a transaction of the desk changed (block, import, removal,
 * PUT), after it was committed and before it is answered. began: when it began.
 */
void engine_tell(struct node *node, const struct feed_change *changes, int count,
                 struct mono_time began);

#endif
