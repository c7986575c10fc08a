/*
 * upkeep_internal.h - what the files of the upkeep room share.
 *
 * upkeep.c      the thread: what is due when
 * presence.c    this node in the table of living nodes
 * expiry.c      from timers that fired to OP_EXPIRE and back
 * deliveries.c  webhooks of payment providers that we failed to process
 * sweep.c       holds that nobody expired, payments past their time; batch ids and answers that
 *               are old
 * audit_log.c   the audit log's months: made ahead, dropped, summarized
 * occupancy.c   how full events are, written down every minute
 * warm_start.c  the hot table before the first request
 */
#ifndef HOLDFAST_UPKEEP_INTERNAL_H
#define HOLDFAST_UPKEEP_INTERNAL_H

#include <stdatomic.h>
#include <stddef.h>

#include "holdfast/cold.h"
#include "holdfast/desk.h"
#include "holdfast/engine.h"
#include "holdfast/lock.h"
#include "holdfast/thread.h"
#include "holdfast/upkeep.h"

#define UPKEEP_STATEMENT_US (700 * TIME_US_PER_MS) /* none of ours may stall the wheels longer */
#define DUE_AT_ONCE         1024

/* A round of snapshots of occupancy: how far it has come. */
struct snapshot_place {
    char org[ID_BYTES_MAX + 1], event[ID_BYTES_MAX + 1];
};

struct snapshot_round {
    struct db_time at;
    struct snapshot_place behind; /* all up to this one have theirs, or were passed over */
    struct snapshot_place next;   /* the one that is tried alone */
    int events;                   /* how many the next portion takes; 0: it learns `next` */
    bool is_done;
};

struct upkeep {
    struct node *node;
    struct pg *pg;
    struct thread thread;

    struct lock lock; /* rank UPKEEP */
    pthread_cond_t wake;
    bool stopping; /* guarded by lock */

    /* the thread's own */
    int64_t incarnation;
    bool name_is_lost; /* another one has it, and that was told */
    struct mono_time heartbeat_due, clock_due, reap_due, intents_due, batches_due, keys_due,
        tickets_due, deliveries_due, retry_due, audit_due, snapshots_due, old_snapshots_due,
        replan_due;
    struct hot_due *due;       /* room for DUE_AT_ONCE */
    struct desk_job audit_job; /* the desk's while `tending` */
    struct desk_job round_job; /* the desk's while `snapping`, and so is the round */
    struct snapshot_round round;

    /* atomic, any thread */
    _Atomic int64_t expiring; /* expiries that were handed out and have not come back */
    _Atomic int64_t reaping;  /* those of the sweep that is under way */
    _Atomic int64_t swept_us; /* when it began */
    _Atomic bool tending;     /* the desk has audit_job */
    _Atomic bool snapping;    /* the desk has round_job */
    _Atomic int64_t retrying; /* deliveries of payment providers that were handed out */
};

/* --- presence.c -------------------------------------------------------------- */

/* Enters the table. False: error says why. */
HF_MUST_CHECK bool presence_join(struct upkeep *upkeep, char *error, size_t error_bytes);
/* Says that this node lives, and learns who else does. */
void presence_heartbeat(struct upkeep *upkeep);
void presence_leave(struct upkeep *upkeep);
/* Tells the feed who left before this node came. */
void presence_know_departed(struct upkeep *upkeep);

/* --- expiry.c ------------------------------------------------------------------ */

/* Turns the wheels; each hold that is due becomes one OP_EXPIRE. */
void expiry_tick(struct upkeep *upkeep);
/* Hands one hold to the engine. seat: whose timer to arm again if need be; NULL: the
 * reaper's, one of a sweep. */
void expiry_submit(struct upkeep *upkeep, struct slice org, struct slice event,
                   const struct uuid *hold_id, const struct slice *seat);
/* Which of due[0..count) is the first of its hold; the others are marked false. */
void expiry_first_of_hold(const struct hot_due *due, int count, bool *first);

/* --- deliveries.c ---------------------------------------------------------------- */

/* Tries again what a payment provider told and we failed to process. True: there is more. */
bool deliveries_retry(struct upkeep *upkeep);

/* --- audit_log.c ------------------------------------------------------------------ */

/* Has the desk look after the audit log, unless it is at it. */
void audit_log_tend(struct upkeep *upkeep);

/* --- occupancy.c ------------------------------------------------------------------ */

/* Has the desk go on with this round's snapshots, unless it is at it or they are done. */
void occupancy_tend(struct upkeep *upkeep);

/* --- sweep.c --------------------------------------------------------------------- */

/* Each returns true when there is more to do at once. */
bool sweep_holds(struct upkeep *upkeep);
bool sweep_intents(struct upkeep *upkeep);
bool sweep_batches(struct upkeep *upkeep);
bool sweep_keys(struct upkeep *upkeep);
bool sweep_tickets(struct upkeep *upkeep);
bool sweep_deliveries(struct upkeep *upkeep);
bool sweep_snapshots(struct upkeep *upkeep);
/* One of the holds of a sweep has come back. */
void sweep_part_is_over(struct upkeep *upkeep);
/* Runs one statement. NULL: it failed, and another turn comes. */
struct pg_result *upkeep_run(struct upkeep *upkeep, enum pg_statement statement,
                             const struct pg_params *params);
/* The least UUIDv7 of a time. */
struct uuid uuid_v7_floor(struct db_time time);

#endif
