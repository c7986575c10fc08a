/*
 * occupancy.c - snapshots of how full events are, one a round (occupancy_interval) and event, for
 * its history.
 *
 * Rounds begin where the database's clock is a multiple of the interval, so that all nodes mean the
 * same one; whoever has the turn writes (snapshot_occupancy.sql), in portions, each a transaction
 * of its own. A round that nobody finished before the next began stays a gap. Work of the desk,
 * since counting many seats takes a while.
 */
#include <stdio.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "upkeep_internal.h"

#define JOB_US      (3 * (int64_t)TIME_US_PER_S) /* a node that drains waits for it */
#define ENOUGH_US   (1 * (int64_t)TIME_US_PER_S) /* others want the desk's thread as well */
#define EVENTS_A_GO 20

/* Columns of snapshot_occupancy. */
enum { IS_MINE, ORG, EVENT, WRITTEN };

/* False: it failed, and another look comes. */
static bool
write_some(const struct upkeep *upkeep, struct desk_tools *tools, struct pg_result **rows)
{
    const struct snapshot_round *round = &upkeep->round;
    struct mono_time deadline = { mono_now().us + JOB_US };
    struct pg_params params;

    pg_params_init(&params);
    pg_param_time(&params, round->at);
    pg_param_text(&params, slice_of(round->org));
    pg_param_text(&params, slice_of(round->event));
    pg_param_int4(&params, EVENTS_A_GO);
    if (!pg_ready_until(tools->pg, deadline))
        return false;
    enum pg_outcome outcome =
        pg_run(tools->pg, STATEMENT_SNAPSHOT_OCCUPANCY, &params, deadline, rows);
    if (outcome != PG_DONE)
        LOG_EVENT(LOG_WARN, "occupancy_not_written", log_text("error", pg_last_error(tools->pg)));
    return outcome == PG_DONE;
}

/* True: there is more to do. */
static bool
take_in(struct snapshot_round *round, const struct pg_result *rows)
{
    if (!pg_get_bool(rows, 0, IS_MINE))
        return false; /* another node is at it; if it dies, a later look finds what is left */
    metric_add(METRIC_OCCUPANCY_SNAPSHOTS_TOTAL, (uint64_t)pg_get_int(rows, 0, WRITTEN));
    round->is_done = pg_is_null(rows, 0, EVENT);
    snprintf(round->org, sizeof(round->org), "%.*s", SLICE_ARG(pg_get_text(rows, 0, ORG)));
    snprintf(round->event, sizeof(round->event), "%.*s", SLICE_ARG(pg_get_text(rows, 0, EVENT)));
    return !round->is_done;
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

    while (more && mono_now().us < enough_us) {
        struct pg_result *rows = NULL;
        more = write_some(upkeep, tools, &rows) && take_in(&upkeep->round, rows);
        pg_result_free(&rows);
    }
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
    if (at.us != upkeep->round.at.us)
        upkeep->round = (struct snapshot_round){ .at = at };
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
