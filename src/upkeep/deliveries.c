/*
 * deliveries.c - what payment providers told us and we failed to process: tried again.
 *
 * Taking a row moves its next try on, whatever becomes of this one, so nothing is written when it
 * fails, and a node that dies loses a try and no delivery. OP_PAY_SETTLE itself marks what took
 * effect. One that failed PAYMENT_TRIES times more is a dead letter: for an admin to replay.
 */
#include <stdlib.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "upkeep_internal.h"

#define PAYMENT_TRIES      5
#define DELIVERIES_AT_ONCE 100

struct retry {
    struct op op; /* first: the engine gives it back */
    struct upkeep *upkeep;
};

/* Columns of take_payment_deliveries. */
enum { INTENT, KEY, STATUS, DEAD };

static void
retry_finish(struct op *op)
{
    (void)op; /* nobody waits for a text */
}

static void
retry_send(struct op *op)
{
    struct retry *retry = (struct retry *)op;
    struct upkeep *upkeep = retry->upkeep;

    arena_fini(&op->arena);
    free(retry);
    atomic_fetch_sub(&upkeep->retrying, 1);
}

/* Without memory the row is due again by itself. */
static void
submit(struct upkeep *upkeep, const struct pg_result *rows, int row)
{
    struct retry *retry = calloc(1, sizeof(*retry));
    if (retry == NULL)
        return;
    struct op *op = &retry->op;
    op->provider_key = arena_copy(&op->arena, pg_get_text(rows, row, KEY));
    if (op->provider_key.ptr == NULL) {
        free(retry);
        return;
    }
    retry->upkeep = upkeep;
    op->kind = OP_PAY_SETTLE;
    op->privileged = true;
    op->intent_id = pg_get_uuid(rows, row, INTENT);
    op->outcome =
        slice_is(pg_get_text(rows, row, STATUS), "succeeded") ? PAYMENT_PAID : PAYMENT_DECLINED;
    op->received = mono_now();
    op->deadline.us = op->received.us + upkeep->node->config->request_timeout;
    op->finish = retry_finish;
    op->send = retry_send;
    metric_add(METRIC_PAYMENT_RETRIES_TOTAL, 1);
    atomic_fetch_add(&upkeep->retrying, 1);
    engine_submit(upkeep->node->engine, op);
}

static void
bury(const struct pg_result *rows, int row)
{
    struct uuid intent = pg_get_uuid(rows, row, INTENT);
    char text[UUID_TEXT_BYTES];

    uuid_format(&intent, text);
    metric_add(METRIC_PAYMENT_DEAD_LETTERS_TOTAL, 1);
    LOG_EVENT(LOG_ERROR, "payment_dead_letter", log_text("intent_id", text),
              log_slice("provider_key", pg_get_text(rows, row, KEY)),
              log_slice("said", pg_get_text(rows, row, STATUS)));
}

bool
deliveries_retry(struct upkeep *upkeep)
{
    struct pg_params params;

    if (atomic_load(&upkeep->retrying) > 0)
        return true; /* those of before first */
    pg_params_init(&params);
    pg_param_int8(&params, upkeep->node->config->payment_retry);
    pg_param_int4(&params, PAYMENT_TRIES);
    pg_param_int4(&params, DELIVERIES_AT_ONCE);
    struct pg_result *rows = upkeep_run(upkeep, STATEMENT_TAKE_PAYMENT_DELIVERIES, &params);
    int count = rows != NULL ? pg_rows(rows) : 0;
    for (int row = 0; row < count; row++) {
        if (pg_get_bool(rows, row, DEAD))
            bury(rows, row);
        else
            submit(upkeep, rows, row);
    }
    pg_result_free(&rows);
    return count == DELIVERIES_AT_ONCE;
}
