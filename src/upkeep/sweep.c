/*
 * sweep.c - what is left behind: holds of dead nodes, payments past their time, ids of old
 * transactions, old answers, tickets, snapshots.
 *
 * Every node sweeps, so that the work of a dead one is done by whoever comes first; each
 * hold is expired under its own lock, so two sweepers do no harm. A sweep takes a bounded number
 * of lines and is over when all its holds are: the next one finds what is left.
 */
#include <string.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "holdfast/payments.h"
#include "upkeep_internal.h"

#define REAP_LINES   1000
#define REAP_OVER_US (500 * (int64_t)TIME_US_PER_MS) /* who has the timer is given that long */
#define DUE_INTENTS  100
#define PURGE_ROWS   5000
#define BATCHES_KEEP_US                                                                            \
    (3600 * (int64_t)TIME_US_PER_S) /* far longer than an outcome can be lost                      \
                                     */

static struct mono_time
statement_deadline(void)
{
    return (struct mono_time){ mono_now().us + UPKEEP_STATEMENT_US };
}

struct pg_result *
upkeep_run(struct upkeep *upkeep, enum pg_statement statement, const struct pg_params *params)
{
    struct pg_result *rows = NULL;

    if (!pg_is_connected(upkeep->pg))
        return NULL; /* the heartbeat connects */
    enum pg_outcome outcome = pg_run(upkeep->pg, statement, params, statement_deadline(), &rows);
    if (outcome != PG_DONE)
        LOG_EVENT(LOG_DEBUG, "sweep_failed", log_text("error", pg_last_error(upkeep->pg)));
    return outcome == PG_DONE ? rows : NULL;
}

/* Columns of reap_holds. */
enum { ORG, EVENT, HOLD, LINES };

void
sweep_part_is_over(struct upkeep *upkeep)
{
    if (atomic_fetch_sub(&upkeep->reaping, 1) > 1)
        return;
    metric_add(METRIC_REAPER_SWEEPS_TOTAL, 1);
    metric_set(METRIC_REAPER_LAST_SWEEP_MS,
               (mono_now().us - atomic_load(&upkeep->swept_us)) / TIME_US_PER_MS);
}

bool
sweep_holds(struct upkeep *upkeep)
{
    struct pg_params params;
    int64_t lines = 0;

    if (atomic_load(&upkeep->reaping) > 0)
        return true; /* the last sweep is not over */
    pg_params_init(&params);
    pg_param_int8(&params, REAP_OVER_US);
    pg_param_int4(&params, REAP_LINES);
    atomic_store(&upkeep->swept_us, mono_now().us);
    struct pg_result *rows = upkeep_run(upkeep, STATEMENT_REAP_HOLDS, &params);
    if (rows == NULL)
        return false;
    atomic_store(&upkeep->reaping, 1 + pg_rows(rows)); /* 1: this loop */
    for (int row = 0; row < pg_rows(rows); row++) {
        struct uuid hold = pg_get_uuid(rows, row, HOLD);
        lines += pg_get_int(rows, row, LINES);
        expiry_submit(upkeep, pg_get_text(rows, row, ORG), pg_get_text(rows, row, EVENT), &hold,
                      NULL);
    }
    pg_result_free(&rows);
    sweep_part_is_over(upkeep);
    return lines >= REAP_LINES;
}

/* A row of take_due_intents; the slices live as long as rows. */
static struct payment
due_payment(const struct pg_result *rows, int row)
{
    return (struct payment){
        .org = pg_get_text(rows, row, 0),
        .event = pg_get_text(rows, row, 1),
        .user = pg_get_text(rows, row, 2),
        .intent_id = pg_get_uuid(rows, row, 3),
        .amount = pg_get_int(rows, row, 4),
        .currency = pg_get_text(rows, row, 5),
        .method = pg_get_text(rows, row, 7),
    };
}

/* Whoever charged may be dead, or have lost the answer: what isn't settled here is due again. */
bool
sweep_intents(struct upkeep *upkeep)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_int4(&params, DUE_INTENTS);
    struct pg_result *rows = upkeep_run(upkeep, STATEMENT_TAKE_DUE_INTENTS, &params);
    int count = rows != NULL ? pg_rows(rows) : 0;
    for (int row = 0; row < count; row++) {
        struct payment payment = due_payment(rows, row);
        payments_ask(upkeep->node->payments, pg_get_text(rows, row, 6), &payment,
                     pg_get_bool(rows, row, 8));
    }
    pg_result_free(&rows);
    return count == DUE_INTENTS;
}

static bool
purged_all_it_may(struct pg_result *rows)
{
    bool full = rows != NULL && pg_get_int(rows, 0, 0) >= PURGE_ROWS;

    pg_result_free(&rows);
    return full;
}

struct uuid
uuid_v7_floor(struct db_time time)
{
    struct uuid uuid = { { 0 } };
    uint64_t ms = time.us <= 0 ? 0 : (uint64_t)(time.us / TIME_US_PER_MS);

    for (int i = 5; i >= 0; i--, ms >>= 8)
        uuid.bytes[i] = (uint8_t)ms;
    return uuid;
}

bool
sweep_batches(struct upkeep *upkeep)
{
    struct pg_params params;
    struct db_time now;
    int64_t error_us;

    if (!db_clock_read(upkeep->node->clock, mono_now(), &now, &error_us))
        return false;
    struct uuid floor = uuid_v7_floor((struct db_time){ now.us - BATCHES_KEEP_US });
    pg_params_init(&params);
    pg_param_uuid(&params, &floor);
    pg_param_int4(&params, PURGE_ROWS);
    return purged_all_it_may(upkeep_run(upkeep, STATEMENT_PURGE_BATCHES, &params));
}

bool
sweep_tickets(struct upkeep *upkeep)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_int4(&params, PURGE_ROWS);
    return purged_all_it_may(upkeep_run(upkeep, STATEMENT_PURGE_STREAM_TICKETS, &params));
}

bool
sweep_deliveries(struct upkeep *upkeep)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_int8(&params, upkeep->node->config->payment_deliveries_keep);
    pg_param_int4(&params, PURGE_ROWS);
    return purged_all_it_may(upkeep_run(upkeep, STATEMENT_PURGE_PAYMENT_DELIVERIES, &params));
}

bool
sweep_snapshots(struct upkeep *upkeep)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_int8(&params, upkeep->node->config->occupancy_retention);
    pg_param_int4(&params, PURGE_ROWS);
    return purged_all_it_may(upkeep_run(upkeep, STATEMENT_PURGE_OCCUPANCY, &params));
}

bool
sweep_keys(struct upkeep *upkeep)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_int8(&params, upkeep->node->config->idempotency_keep);
    pg_param_int4(&params, PURGE_ROWS);
    return purged_all_it_may(upkeep_run(upkeep, STATEMENT_PURGE_IDEMPOTENCY_KEYS, &params));
}
