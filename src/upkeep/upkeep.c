/*
 * upkeep.c - the thread: what is due when.
 *
 * A turn every 10 ms. Statements have short deadlines, so that a slow Postgres delays the
 * wheels by less than a second (and expiry needs Postgres anyway).
 */
#include <stdio.h>
#include <stdlib.h>

#include "holdfast/desk.h"
#include "holdfast/fanout.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "upkeep_internal.h"

#define TURN_US      (10 * TIME_US_PER_MS)
#define HEARTBEAT_US (1 * (int64_t)TIME_US_PER_S)
#define CLOCK_US     (250 * (int64_t)TIME_US_PER_MS)
#define REPLAN_US                                                                                  \
    (10 * (int64_t)TIME_US_PER_S) /* plans made on small tables are ruinous on large ones */
#define RETRY_LOOK_US  (250 * (int64_t)TIME_US_PER_MS)
#define PURGE_US       (60 * (int64_t)TIME_US_PER_S)
#define INTENTS_US     (1 * (int64_t)TIME_US_PER_S)
#define AUDIT_US       (10 * (int64_t)TIME_US_PER_S)
#define AT_ONCE_US     (200 * (int64_t)TIME_US_PER_MS) /* when a bounded sweep left something */
#define SNAPSHOTS_US   (100 * (int64_t)TIME_US_PER_MS) /* a look whether a round has begun */
#define EXPIRY_LOOK_US (2 * TIME_US_PER_MS)
#define STACK_BYTES    (256 * 1024)

static void
read_clock(struct upkeep *upkeep)
{
    struct pg_params params;
    struct pg_result *rows = NULL;

    if (!pg_is_connected(upkeep->pg))
        return; /* the heartbeat connects */
    pg_params_init(&params);
    struct mono_time sent = mono_now();
    struct mono_time deadline = { sent.us + UPKEEP_STATEMENT_US };
    if (pg_run(upkeep->pg, STATEMENT_READ_CLOCK, &params, deadline, &rows) == PG_DONE)
        db_clock_observe(upkeep->node->clock, sent, mono_now(), pg_get_time(rows, 0, 0));
    pg_result_free(&rows);
}

static void
set_gauges(struct upkeep *upkeep)
{
    struct hot_numbers numbers;

    hot_table_numbers(upkeep->node->hot, &numbers);
    metric_set(METRIC_HOT_ENTRIES, numbers.entries);
    metric_set(METRIC_HOT_TIMERS, numbers.timers);
    metric_set(METRIC_PARKED, numbers.parked);
}

static void
sweep(struct upkeep *upkeep)
{
    int64_t reap_us = upkeep->node->config->reaper_interval_ms * TIME_US_PER_MS;

    if (mono_is_due(&upkeep->reap_due, reap_us) && sweep_holds(upkeep) && reap_us > AT_ONCE_US)
        upkeep->reap_due.us = mono_now().us + AT_ONCE_US;
    if (mono_is_due(&upkeep->intents_due, INTENTS_US) && sweep_intents(upkeep))
        upkeep->intents_due.us = mono_now().us + AT_ONCE_US;
    if (mono_is_due(&upkeep->batches_due, PURGE_US) && sweep_batches(upkeep))
        upkeep->batches_due.us = mono_now().us + AT_ONCE_US;
    if (mono_is_due(&upkeep->keys_due, PURGE_US) && sweep_keys(upkeep))
        upkeep->keys_due.us = mono_now().us + AT_ONCE_US;
    if (mono_is_due(&upkeep->tickets_due, PURGE_US) && sweep_tickets(upkeep))
        upkeep->tickets_due.us = mono_now().us + AT_ONCE_US;
    if (mono_is_due(&upkeep->deliveries_due, PURGE_US) && sweep_deliveries(upkeep))
        upkeep->deliveries_due.us = mono_now().us + AT_ONCE_US;
    if (mono_is_due(&upkeep->old_snapshots_due, PURGE_US) && sweep_snapshots(upkeep))
        upkeep->old_snapshots_due.us = mono_now().us + AT_ONCE_US;
    if (mono_is_due(&upkeep->audit_due, AUDIT_US))
        audit_log_tend(upkeep);
    if (mono_is_due(&upkeep->snapshots_due, SNAPSHOTS_US))
        occupancy_tend(upkeep);
    if (mono_is_due(&upkeep->retry_due, RETRY_LOOK_US) && deliveries_retry(upkeep))
        upkeep->retry_due.us = mono_now().us + TURN_US;
}

static void
turn(struct upkeep *upkeep)
{
    expiry_tick(upkeep);
    if (mono_is_due(&upkeep->heartbeat_due, HEARTBEAT_US)) {
        presence_heartbeat(upkeep);
        set_gauges(upkeep);
    }
    fanout_judge(upkeep->node->fanout);
    if (mono_is_due(&upkeep->clock_due, CLOCK_US))
        read_clock(upkeep);
    /* An answer that was late has cost the connection. */
    engine_store_is_silent(upkeep->node->engine, !pg_is_connected(upkeep->pg));
    sweep(upkeep);
    if (mono_is_due(&upkeep->replan_due, REPLAN_US)) {
        engine_replan(upkeep->node->engine);
        if (pg_is_connected(upkeep->pg) && pg_replan(upkeep->pg) != PG_DONE)
            LOG_EVENT(LOG_DEBUG, "replan_failed", log_text("error", pg_last_error(upkeep->pg)));
    }
}

/* False: it is to stop. */
static bool
wait_for_next_turn(struct upkeep *upkeep)
{
    lock_take(&upkeep->lock);
    if (!upkeep->stopping)
        lock_wait(&upkeep->lock, &upkeep->wake, TURN_US);
    bool stopping = upkeep->stopping;
    lock_drop(&upkeep->lock);
    return !stopping;
}

static void *
upkeep_main(void *argument)
{
    struct upkeep *upkeep = argument;

    do {
        turn(upkeep);
    } while (wait_for_next_turn(upkeep));
    return NULL;
}

/* --- start and stop ------------------------------------------------------------------ */

static void
upkeep_free(struct upkeep *upkeep)
{
    if (upkeep->pg != NULL)
        pg_free(&upkeep->pg);
    free(upkeep->due);
    pthread_cond_destroy(&upkeep->wake);
    lock_fini(&upkeep->lock);
    free(upkeep);
}

static struct upkeep *
upkeep_new(struct node *node)
{
    struct upkeep *upkeep = calloc(1, sizeof(*upkeep));
    if (upkeep == NULL)
        return NULL;
    lock_init(&upkeep->lock, LOCK_UPKEEP);
    lock_cond_init(&upkeep->wake);
    upkeep->node = node;
    upkeep->due = calloc(DUE_AT_ONCE, sizeof(*upkeep->due));
    upkeep->pg = pg_new(node->config, "holdfast upkeep", node->identity, node->clock);
    if (upkeep->due == NULL || upkeep->pg == NULL) {
        upkeep_free(upkeep);
        return NULL;
    }
    /* Purges can wait; the first sweep for holds that ran out while nobody was there can't. */
    upkeep->batches_due.us = mono_now().us + PURGE_US;
    upkeep->keys_due.us = mono_now().us + PURGE_US;
    upkeep->tickets_due.us = mono_now().us + PURGE_US;
    upkeep->deliveries_due.us = mono_now().us + PURGE_US;
    upkeep->replan_due.us = mono_now().us + REPLAN_US;
    return upkeep;
}

struct upkeep *
upkeep_join(struct node *node, char *error, size_t error_bytes)
{
    struct upkeep *upkeep = upkeep_new(node);
    if (upkeep == NULL) {
        snprintf(error, error_bytes, "no memory for upkeep");
        return NULL;
    }
    if (!presence_join(upkeep, error, error_bytes)) {
        upkeep_free(upkeep);
        return NULL;
    }
    return upkeep;
}

int64_t
upkeep_incarnation(const struct upkeep *upkeep)
{
    return upkeep->incarnation;
}

bool
upkeep_start(struct upkeep *upkeep)
{
    hf_assert(upkeep->node->fanout != NULL);
    presence_know_departed(upkeep);
    return thread_start(&upkeep->thread, STACK_BYTES, upkeep_main, upkeep);
}

/* Each comes back: at the latest when its deadline has passed. */
static void
wait_for_ops(struct upkeep *upkeep)
{
    while (atomic_load(&upkeep->expiring) > 0 || atomic_load(&upkeep->retrying) > 0 ||
           atomic_load(&upkeep->tending) || atomic_load(&upkeep->snapping))
        sleep_us(EXPIRY_LOOK_US);
}

static bool
is_quiet(const struct node *node)
{
    return engine_outstanding(node->engine) == 0 &&
           (node->desk == NULL || desk_outstanding(node->desk) == 0);
}

void
upkeep_stop(struct upkeep **upkeep)
{
    struct upkeep *self = *upkeep;
    if (self == NULL)
        return;
    lock_take(&self->lock);
    self->stopping = true;
    pthread_cond_signal(&self->wake);
    lock_drop(&self->lock);
    thread_join(&self->thread);
    wait_for_ops(self);
    if (is_quiet(self->node))
        presence_leave(self);
    upkeep_free(self);
    *upkeep = NULL;
}
