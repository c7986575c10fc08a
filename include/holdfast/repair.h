/*
 * repair.h - makes the warm tier equal to Postgres again: after Redis was away, and when it
 * drifted.
 *
 * One thread with a Postgres and a Redis connection of its own. Each second it watches Redis
 * (warm_watch: probes of the breaker, restarts, wipes); after a new generation it rebuilds the
 * events on sale, one after the other; and each minute it compares some events, contents and not
 * counts, mends what differs, and counts it.
 *
 * How two stores that both move are compared without a lock: Redis is read first, then Postgres.
 * What Redis had and Postgres doesn't know any more is over for good (hold ids never come back), so
 * it may go, if it still reads as it was read. What Postgres has and Redis had not may be on its
 * way: it is looked at again a moment later, written, and Postgres is asked once more whether it
 * still stands; if not, the same begins anew for that seat.
 *
 * Callers:  main (start, stop), api and commands (repair_event on their own connections).
 */
#ifndef HOLDFAST_REPAIR_H
#define HOLDFAST_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/cold.h"
#include "holdfast/engine.h"
#include "holdfast/warm.h"

struct repair; /* opaque */

/* NULL: no memory or no thread. The node's tier, identity, clock and hot table must stand. */
struct repair *repair_start(struct node *node);
void repair_stop(struct repair **repair);

enum repair_mode {
    REPAIR_LOOK,    /* compare only */
    REPAIR_MEND,    /* compare and mend: held seats, and the keys of the event's seats */
    REPAIR_THOROUGH /* as MEND, and orphans that no seat of Postgres explains (walks all of Redis)
                     */
};

struct repair_report {
    int64_t db_count;    /* seats held in Postgres, not over */
    int64_t redis_count; /* members of seat_holds */
    int64_t differing;   /* keys and members that were missing, wrong or orphaned, twice in a row */
    int64_t restored;    /* written */
    int64_t removed;     /* taken away */
    int64_t duration_us;
};

/*
 * Compares one event's warm tier with Postgres. HF_OK; HF_EVENT_NOT_FOUND; HF_STORE_UNAVAILABLE:
 * Postgres failed; HF_OVERLOADED: Redis failed or the deadline passed (what was mended stays so).
 * A whole MEND or THOROUGH makes the event trusted (warm_tier_rebuilt). `pg` must be ready.
 */
HF_MUST_CHECK enum hf_status repair_event(struct node *node, struct pg *pg, struct warm *warm,
                                          struct slice org, struct slice event,
                                          enum repair_mode mode, struct mono_time deadline,
                                          struct repair_report *report);

/* True if what the hot table believes of the event's held seats is what Postgres says (of those
 * that it believes anything of). *hot_count: held entries. False also when Postgres failed. */
bool repair_hot_agrees(struct node *node, struct pg *pg, struct slice org, struct slice event,
                       struct mono_time deadline, int64_t *hot_count);

#endif
