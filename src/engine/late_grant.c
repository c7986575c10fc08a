/*
 * late_grant.c - a grant that is over before its answer is written: the client must not hear that
 * it holds something.
 *
 * By this node's clock it only seems so (it may have jumped, and law 4 lets no node's clock end a
 * hold): the database's is read anew before it is said. Where that can't be done, the answer is
 * that the outcome isn't known.
 */
#include "engine_internal.h"

#define LOOK_US (700 * TIME_US_PER_MS) /* for who has waited too long already */

/* INT64_MAX: the op grants nothing. */
static int64_t
end_of_grant_us(const struct op *op)
{
    bool grants = op->kind == OP_HOLD || op->kind == OP_EXTEND;

    if (op->fate != FATE_ANSWER || op->finished)
        return INT64_MAX;
    if (grants && op->hold != NULL && op->hold->status == HOLD_ACTIVE)
        return op->hold->held_until.us;
    if (op->kind == OP_CHECKOUT_START && op->checkout != NULL)
        return op->checkout->expires_at.us;
    return INT64_MAX;
}

static bool
seems_over(const struct batch *batch, const struct op *op)
{
    struct db_time now;
    int64_t error_us, end_us = end_of_grant_us(op);

    return end_us < INT64_MAX &&
           db_clock_read(batch->worker->node->clock, mono_now(), &now, &error_us) &&
           now.us - error_us >= end_us;
}

static bool
some_seem_over(const struct batch *batch)
{
    for (int i = 0; i < batch->count; i++)
        if (seems_over(batch, batch->ops[i]))
            return true;
    return false;
}

/* status: what those hear that seem to be over. */
static void
fail_them(struct batch *batch, enum hf_status status)
{
    for (int i = 0; i < batch->count; i++)
        if (seems_over(batch, batch->ops[i]))
            op_fail(batch->ops[i], status);
}

void
void_late_grants(struct batch *batch)
{
    if (!some_seem_over(batch))
        return;
    struct mono_time deadline = { mono_now().us + LOOK_US };
    bool certain = worker_reads_clock(batch->worker, deadline);
    fail_them(batch, certain ? HF_HOLD_EXPIRED : HF_OUTCOME_UNKNOWN);
}

bool
void_late_grants_within(struct batch *batch)
{
    struct pg *pg = batch->worker->pg;
    struct pg_result *rows = NULL;
    struct pg_params params;

    if (!some_seem_over(batch))
        return true;
    struct mono_time sent = mono_now();
    pg_params_init(&params);
    pg_tx_send(pg, STATEMENT_READ_CLOCK, &params);
    pg_tx_flush(pg);
    if (!batch_next(batch, &rows))
        return false;
    db_clock_observe(batch->worker->node->clock, sent, mono_now(), pg_get_time(rows, 0, 0));
    pg_result_free(&rows);
    fail_them(batch, HF_HOLD_EXPIRED);
    return true;
}
