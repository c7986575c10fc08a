/*
 * repair.h - makes the warm tier equal to Postgres again: after Redis was away, and when it
 * drifted.
 *
 * One thread with a Postgres and a Redis connection of its own. Each second it watches Redis
 * (warm_watch: probes of the breaker, restarts, wipes); after a distrust it rebuilds all events,
 * those with held seats first; after a doubt that one; and each repair_interval it compares some
 * events, contents and not counts, mends what differs, and counts it. An event that can't be made
 * equal is tried again some seconds later, and keeps no other waiting.
 *
 * How two stores that both move are compared without a lock. A first look reads both; what is equal
 * then is done with: what changes later is the engine's to tell Redis. What isn't is looked at
 * again in rounds, Redis first, then Postgres. So what Redis has and Postgres doesn't know any more
 * is over or was never true, and may go if it still reads as it was read; what Postgres has and
 * Redis hasn't is written. What was mended stays for another round, so that what ended in between
 * is found, until a round finds it equal. An event that is trusted is given a moment before the
 * second look: the engine's own word may be on its way.
 *
 * Callers:  main (start, stop), api and commands (repair_event on their own connections).
 * Memory:   an event of any size in portions of 1000 seats.
 */
#ifndef HOLDFAST_REPAIR_H
#define HOLDFAST_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/cold.h"
#include "holdfast/engine.h"
#include "holdfast/warm.h"

struct repair; /* opaque */

/* NULL: no memory or no thread. The node's tier, identity and clock must stand. Without a warm tier
 * the thread does nothing. */
struct repair *repair_start(struct node *node);
void repair_stop(struct repair **repair);

enum repair_mode {
    REPAIR_LOOK,    /* compares all that THOROUGH mends, and mends nothing */
    REPAIR_MEND,    /* the keys of the event's seats, the members of seat_holds, metas of holds */
    REPAIR_THOROUGH /* and keys of seats that Postgres never had (walks all of Redis) */
};

struct repair_report {
    int64_t db_count;    /* seats held in Postgres, not over */
    int64_t redis_count; /* members of seat_holds; -1: not known */
    int64_t differing;   /* seats and members that were wrong at the second look too */
    int64_t restored;    /* held seats whose key, member or meta was written */
    int64_t removed;     /* keys and members that were taken away */
    int64_t duration_us;
    bool equal; /* in the end nothing differed */
};

/*
 * Compares one event's warm tier with Postgres. HF_OK; HF_EVENT_NOT_FOUND; HF_STORE_UNAVAILABLE:
 * Postgres failed; HF_OVERLOADED: Redis failed or the deadline passed (what was mended stays so).
 * An event that ends equal is trusted from then on; one that doesn't is not. `pg` must be ready.
 */
HF_MUST_CHECK enum hf_status repair_event(struct node *node, struct pg *pg, struct warm *warm,
                                          struct slice org, struct slice event,
                                          enum repair_mode mode, struct mono_time deadline,
                                          struct repair_report *report);

struct repair_memory {
    int64_t db_count;  /* seats held in Postgres, not over */
    int64_t hot_count; /* held seats that the hot table has, whether it may be trusted or not */
    bool agrees;       /* of the seats that it would act upon it has what Postgres says */
};

/* Compares the hot table with Postgres; statuses as above, but that no event is not told. */
HF_MUST_CHECK enum hf_status repair_look_at_memory(struct node *node, struct pg *pg,
                                                   struct slice org, struct slice event,
                                                   struct mono_time deadline,
                                                   struct repair_memory *memory);

/* --- the events that the warm tier should know --------------------------------- */

/* Where a walk over events stands; zeroed: at its begin. */
struct repair_cursor {
    char org[ID_BYTES_MAX + 1];
    char event[ID_BYTES_MAX + 1];
};

/*
 * The next page of events that are on sale or have seats held, in order of their keys: columns org,
 * event. `org` and `event`: only this one ('': all); an event that is named counts in any case.
 * NULL: Postgres failed. No rows: that was all.
 */
struct pg_result *repair_next_events(struct pg *pg, struct slice org, struct slice event,
                                     struct repair_cursor *cursor, struct mono_time deadline);

#endif
