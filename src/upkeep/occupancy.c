/*
 * occupancy.c - snapshots of how full events are, one a round (occupancy_interval) and event, for
 * its history.
 *
 * Rounds begin where the database's clock is a multiple of the interval, so that all nodes mean the
 * same one; whoever has the turn writes (snapshot_occupancy.sql), in portions, each a transaction
 * of its own. A round that nobody finished before the next began stays a gap. Work of the desk,
 * since counting many seats takes a while.
 *
 * A portion that fails, because its events take too long together or one of them can't be counted,
 * is followed by a look which event is next, and that one alone; if that fails too, it is passed
 * over in this round, so that it keeps nobody else's from being written. A statement may go on
 * behind a node that gave it up, and commit: so what is passed over is known by name.
 */
#include <stdio.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "upkeep_internal.h"

#define JOB_US      (3 * (int64_t)TIME_US_PER_S) /* a node that drains waits for it */
#define ENOUGH_US   (1 * (int64_t)TIME_US_PER_S) /* others want the desk's thread as well */
#define EVENTS_A_GO 20                           /* at the most; see round_failed */

/* Columns of snapshot_occupancy. */
enum { IS_MINE, ORG, EVENT, WRITTEN };

static void
round_failed(struct snapshot_round *round)
{
    if (round->events == 1)
        round->behind = round->next;
    round->events = 0;
}

static void
round_went_on(struct snapshot_round *round, const struct snapshot_place *place)
{
    int more = 2 * round->events;

    if (round->events == 0)
        round->next = *place;
    else
        round->behind = *place;
    if (more == 0)
        more = 1;
    round->events = more < EVENTS_A_GO ? more : EVENTS_A_GO;
}

/* False: it failed. */
static bool
write_some(const struct snapshot_round *round, struct pg *pg, struct pg_result **rows)
{
    struct mono_time deadline = { mono_now().us + JOB_US };
    struct pg_params params;

    pg_params_init(&params);
    pg_param_time(&params, round->at);
    pg_param_text(&params, slice_of(round->behind.org));
    pg_param_text(&params, slice_of(round->behind.event));
    pg_param_int4(&params, round->events);
    enum pg_outcome outcome = pg_run(pg, STATEMENT_SNAPSHOT_OCCUPANCY, &params, deadline, rows);
    if (outcome != PG_DONE)
        LOG_EVENT(LOG_WARN, "occupancy_not_written", log_text("error", pg_last_error(pg)),
                  log_int("events", round->events), log_text("org", round->behind.org),
                  log_text("behind", round->behind.event));
    return outcome == PG_DONE;
}

/* True: there is more to do. */
static bool
take_in(struct snapshot_round *round, const struct pg_result *rows)
{
    struct snapshot_place place;

    if (!pg_get_bool(rows, 0, IS_MINE))
        return false; /* another node is at it; if it dies, a later look finds what is left */
    metric_add(METRIC_OCCUPANCY_SNAPSHOTS_TOTAL, (uint64_t)pg_get_int(rows, 0, WRITTEN));
    round->is_done = pg_is_null(rows, 0, EVENT);
    snprintf(place.org, sizeof(place.org), "%.*s", SLICE_ARG(pg_get_text(rows, 0, ORG)));
    snprintf(place.event, sizeof(place.event), "%.*s", SLICE_ARG(pg_get_text(rows, 0, EVENT)));
    round_went_on(round, &place);
    return !round->is_done;
}

/* True: there is more to do, and it is worth trying now. */
static bool
go_on(struct snapshot_round *round, struct pg *pg)
{
    struct pg_result *rows = NULL;

    if (!pg_ready_until(pg, (struct mono_time){ mono_now().us + JOB_US }))
        return false;
    bool more = round->events > 0; /* if even a look fails, it is Postgres: later */
    if (write_some(round, pg, &rows))
        more = take_in(round, rows);
    else
        round_failed(round);
    pg_result_free(&rows);
    return more;
}

static struct upkeep *
upkeep_of(struct desk_job *job)
{
    return (struct upkeep *)((char *)job - offsetof(struct upkeep, round_job)); /* part of it */
}

static void
job_run(struct desk_job *job, struct desk_tools *tools)
{
    struct upkeep *upkeep = upkeep_of(job);
    int64_t enough_us = mono_now().us + ENOUGH_US;
    bool more = true;

    while (more && mono_now().us < enough_us)
        more = go_on(&upkeep->round, tools->pg);
    atomic_store(&upkeep->snapping, false);
}

static void
job_fail(struct desk_job *job, struct desk_tools *tools, enum hf_status status)
{
    (void)tools;
    (void)status;
    atomic_store(&upkeep_of(job)->snapping, false);
}

/* The round is the desk's while it is at it. False: there is nothing to do in it. */
static bool
look_at_round(struct upkeep *upkeep)
{
    int64_t interval_us = upkeep->node->config->occupancy_interval;
    struct db_time now;
    int64_t error_us;

    if (!db_clock_read(upkeep->node->clock, mono_now(), &now, &error_us))
        return false;
    struct db_time at = { now.us - now.us % interval_us };
    if (at.us != upkeep->round.at.us) {
        int events = upkeep->round.at.us == 0 ? EVENTS_A_GO : upkeep->round.events;
        upkeep->round = (struct snapshot_round){ .at = at, .events = events > 1 ? events : 0 };
    }
    return !upkeep->round.is_done;
}

void
occupancy_tend(struct upkeep *upkeep)
{
    if (upkeep->node->desk == NULL || atomic_load(&upkeep->snapping) || !look_at_round(upkeep))
        return;
    atomic_store(&upkeep->snapping, true);
    upkeep->round_job = (struct desk_job){
        .deadline = { mono_now().us + JOB_US }, .is_long = true, .run = job_run, .fail = job_fail
    };
    if (!desk_submit(upkeep->node->desk, &upkeep->round_job))
        atomic_store(&upkeep->snapping, false);
}
