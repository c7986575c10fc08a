/*
 * solo.c - ops whose pieces stand or fall together over several statements: a patch, a
 * hold of seats and areas, one that replaces the user's other hold, one that adds its
 * free seats to a hold that exists, whatever is about a checkout, what gives back what was sold,
 * a seat for who waits. Each has a transaction of its own, which is rolled back when any piece is
 * refused; that is what makes them all or nothing.
 *
 *   read     what the hold has (before the locks, to know event and owner)
 *   lock     user, holds, areas, checkout; then read the hold again: now it is certain
 *   change   release, resize, take
 *   judge    every verdict, and the limits of the whole
 */
#include "solo_internal.h"

#include <string.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"

/* --- one transaction ----------------------------------------------------------------- */

static bool
changes_something(const struct solo *solo)
{
    if (op_is_of_checkout(solo->op))
        return solo->writes;
    return solo->op->fate == FATE_ANSWER && solo_is_good(solo->op->status) && !solo->op->same &&
           !(solo->op->status == HF_CREATED && !solo->op->grow &&
             !uuid_is_nil(&solo->op->grow_hold));
}

/* Reads the hold as it is now, within the transaction; over by now means that nothing was granted
 * in time. */
bool
solo_view_result(struct solo *solo, const struct uuid *hold)
{
    struct op *op = solo->op;
    send_read_holds(&solo->batch, &op->org, hold, 1);
    pg_tx_flush(solo->batch.worker->pg);
    if (!batch_next(&solo->batch, &solo->batch.rows.views))
        return false;
    if (!op_show(op, solo->batch.rows.views, 1))
        op_fail(op, HF_STORE_UNAVAILABLE);
    else if (op->hold->status == HOLD_EXPIRED)
        op_fail(op, HF_HOLD_EXPIRED);
    return true;
}

static bool
run_checkout(struct solo *solo)
{
    solo->op->checkout = NULL;
    solo->op->same = false;
    solo->op->retry_after_s = 0;
    solo->writes = false;
    switch (solo->op->kind) {
    case OP_CHECKOUT_START:
        return solo_run_checkout_start(solo);
    case OP_CHECKOUT_CANCEL:
        return solo_run_checkout_cancel(solo);
    case OP_PAY:
        return solo_run_pay(solo);
    default:
        return solo_run_settle(solo);
    }
}

/* True: the op's pieces were judged (op->fate, op->status). False: the transaction failed. */
static bool
run_pieces(struct solo *solo)
{
    struct op *op = solo->op;
    bool ok;
    op->hold = NULL;
    op->tier = TIER_POSTGRES;
    if (op_is_of_checkout(op))
        return run_checkout(solo);
    if (op->kind == OP_CONFIRM)
        return solo_run_confirm(solo);
    if (op->kind == OP_RETURN)
        return solo_run_return(solo);
    if (op->kind == OP_ASSIGN)
        return solo_run_assign(solo);
    if (op->kind == OP_PATCH || op->grow)
        ok = solo_run_change(solo);
    else if (op->info.policy.one_hold_per_user)
        ok = solo_run_replace(solo);
    else
        ok = solo_run_mixed(solo);
    if (ok)
        best_judge(&solo->batch);
    if (!ok || op->fate != FATE_ANSWER || !solo_is_good(op->status))
        return ok;
    /* Where nothing was changed the answer is the hold that exists. */
    return solo_view_result(solo, changes_something(solo) ? &solo->result_hold : &op->grow_hold);
}

static void
solo_free_rows(struct solo *solo)
{
    batch_rows_free(&solo->batch.rows);
    pg_result_free(&solo->sizes);
    pg_result_free(&solo->units);
    pg_result_free(&solo->checkout_rows);
    pg_result_free(&solo->sale);
    pg_result_free(&solo->served);
    pg_result_free(&solo->returned);
    solo_free_late(solo);
}

/*
 * Runs the pieces and commits if they all stand. *changed tells whether there was something to
 * commit beside an answer for a key.
 */
static enum pg_outcome
transact_solo(struct solo *solo, bool *changed)
{
    struct pg *pg = solo->batch.worker->pg;
    struct batch *batch = &solo->batch;

    *changed = false;
    batch_begin(batch);
    bool ok = !key_is_claimed(solo->op) || keys_claim(batch);
    if (ok && batch->count == 0) {
        pg_tx_rollback(pg);
        return pg_tx_end(pg);
    }
    ok = ok && run_pieces(solo);
    if (!ok)
        op_fail(solo->op, HF_STORE_UNAVAILABLE); /* no memory; else the outcome says why */
    *changed = ok && changes_something(solo);
    if (*changed && key_keeps_answer(solo->op))
        ok = keys_store(batch);
    if (ok && *changed)
        pg_tx_commit(pg);
    else
        pg_tx_rollback(pg);
    return pg_tx_end(pg);
}

/* A refusal under a key is kept in a transaction of its own, since the one that found it is rolled
 * back. */
static void
store_refusal(struct solo *solo)
{
    struct pg *pg = solo->batch.worker->pg;
    struct batch *batch = &solo->batch;
    if (!batch_has_time(batch))
        return;
    solo->op->finished = false;
    batch_begin(batch);
    bool ok = !key_is_claimed(solo->op) || keys_claim(batch);
    if (ok && batch->count > 0)
        ok = keys_store(batch);
    if (ok && batch->count > 0)
        pg_tx_commit(pg);
    else
        pg_tx_rollback(pg);
    enum pg_outcome outcome = pg_tx_end(pg);
    if (batch->count > 0 && outcome != PG_DONE)
        op_fail(solo->op, outcome == PG_UNKNOWN ? HF_OUTCOME_UNKNOWN : HF_STORE_UNAVAILABLE);
}

/* --- afterwards ---------------------------------------------------------------------- */

/* Columns of resize_areas. */
enum { SIZE_AREA, SIZE_CODE, SIZE_HELD, SIZE_SOLD, SIZE_VERSION };

static void
tell_sizes(struct solo *solo)
{
    const struct pg_result *rows = solo->sizes;
    struct op *op = solo->op;

    for (int row = 0; rows != NULL && row < pg_rows(rows); row++) {
        struct area_counts counts = { .org = op->org,
                                      .event = op->event,
                                      .area = pg_get_text(rows, row, SIZE_AREA),
                                      .held = pg_get_int(rows, row, SIZE_HELD),
                                      .sold = pg_get_int(rows, row, SIZE_SOLD),
                                      .version = pg_get_int(rows, row, SIZE_VERSION) };
        if (!pg_is_null(rows, row, SIZE_VERSION))
            tell_area(solo->batch.worker, &counts, op->hold->now);
    }
}

/* Others of the checkout's holds were over before, or have gone elsewhere. */
static void
mark_ended(const struct solo *solo)
{
    const struct pg_result *rows = solo->batch.rows.changes;
    const struct checkout_view *checkout = solo->op->checkout;

    for (int row = 0; rows != NULL && row < pg_rows(rows); row++) {
        struct uuid ended = pg_get_uuid(rows, row, CH_ENDED);
        for (int i = 0; !pg_is_null(rows, row, CH_ENDED) && i < checkout->hold_count; i++)
            if (uuid_equal(&checkout->holds[i]->hold_id, &ended))
                checkout->holds[i]->ended_now = true;
    }
}

/* In the order of the statements: the version of what is touched twice rises. */
static void
settle_committed(struct solo *solo, struct waiter_list *waiters)
{
    struct batch *batch = &solo->batch;
    struct op *op = solo->op;

    redis_settle(batch);
    if (batch->rows.changes != NULL)
        settle_change_rows(batch, waiters);
    tell_sizes(solo);
    if (batch->rows.reclaimed != NULL)
        settle_reclaimed_rows(batch);
    for (int row = 0; batch->rows.areas != NULL && row < pg_rows(batch->rows.areas); row++)
        settle_area_row(batch, op, op->areas[solo->new_areas[row]].id, row);
    if (op->hold != NULL && op->hold->status == HOLD_ACTIVE && op->seat_count == 0)
        settle_area_timer(batch, op, op->hold);
    solo_settle_late(solo, waiters);
    if (op->checkout != NULL) {
        settle_checkout_timers(batch, op);
        mark_ended(solo);
    }
}

/* What the op is about, before any lock. */
static enum hf_status
look(struct solo *solo)
{
    switch (solo->op->kind) {
    case OP_CHECKOUT_START:
        return solo_look_start(solo);
    case OP_CHECKOUT_CANCEL:
    case OP_PAY:
        return solo_look_checkout(solo);
    case OP_PAY_SETTLE:
        return solo_look_payment(solo);
    case OP_ASSIGN:
        return solo_look_assign(solo);
    case OP_CONFIRM:
        return solo_look_confirm(solo);
    case OP_RETURN:
        return solo_look_return(solo);
    default:
        return solo->op->kind == OP_PATCH || solo->op->grow ? solo_look_first(solo) : HF_OK;
    }
}

static void
settle_solo(struct solo *solo, bool committed)
{
    struct batch *batch = &solo->batch;
    struct engine *engine = batch->worker->engine;
    struct op *op = solo->op;
    struct waiter_list waiters;

    waiter_list_init(&waiters);
    if (committed)
        settle_committed(solo, &waiters);
    if (batch->rows.seats != NULL)
        settle_hold_rows(batch, op, committed, solo->sale != NULL ? NULL : &waiters);
    if (committed && op->kind == OP_ASSIGN)
        solo_settle_assign(solo, &waiters);
    if (committed) /* behind the sale: who watches sees nobody without a seat */
        solo_settle_returned(solo, &waiters);
    tell_send(batch->worker);
    void_late_grants(batch);
    if (op->fate == FATE_ANSWER || best_is_lost(op))
        claims_drop(engine, op, &waiters);
    switch (op->fate) {
    case FATE_ANSWER:
        engine_answer(engine, op);
        break;
    case FATE_LATER:
        op_later(batch->worker, op);
        break;
    case FATE_AGAIN:
        op_again(batch->worker, op);
        break;
    }
    (void)warm_collect(batch->worker->warm);
    dispatch(engine, &waiters);
}

static void
solo_end(struct solo *solo, enum pg_outcome outcome, bool changed)
{
    struct batch *batch = &solo->batch;
    struct node *node = batch->worker->node;
    enum hf_status settled;
    switch (outcome) {
    case PG_DONE:
        if (batch->stuck) {
            op_wait_for_row(batch->worker, solo->op);
            return;
        }
        if (!changed && key_keeps_answer(solo->op) && solo->op->fate == FATE_ANSWER)
            store_refusal(solo);
        if (batch->count > 0)
            settle_solo(solo, changed);
        return;
    case PG_UNKNOWN:
        doubt_begins(node);
        settled = batch_outcome(batch);
        if (settled == HF_OK && changed)
            settle_solo(solo, true);
        else
            batch_run_again(batch, settled == HF_OK);
        doubt_is_over(node);
        return;
    case PG_REPEAT:
        if (batch->stuck)
            op_wait_for_row(batch->worker, solo->op);
        else
            batch_fail(batch, HF_SEAT_CONTENDED);
        return;
    case PG_UNAVAILABLE:
        batch_fail(batch, HF_STORE_UNAVAILABLE);
        return;
    case PG_DATA_ERROR:
    case PG_BUG:
        LOG_EVENT(LOG_ERROR, "request_failed",
                  log_text("sqlstate", pg_last_sqlstate(batch->worker->pg)),
                  log_text("error", pg_last_error(batch->worker->pg)),
                  log_slice("request_id", solo->op->request_id));
        batch_fail(batch, HF_INTERNAL);
        return;
    }
}

/* Found before any transaction; an answer under a key is kept all the same. */
static void
refuse_early(struct solo *solo, enum hf_status status)
{
    op_fail(solo->op, status);
    if (key_keeps_answer(solo->op) && status != HF_STORE_UNAVAILABLE)
        store_refusal(solo);
    if (solo->batch.count > 0)
        settle_solo(solo, false);
}

void
solo_run(struct worker *worker, struct op *op)
{
    struct op *ops[1] = { op };
    struct solo solo = { .batch = { .worker = worker, .ops = ops, .count = 1 }, .op = op };
    enum pg_outcome outcome = PG_DONE;
    bool changed = false;

    op->row_first = op->row_end = 0;
    enum hf_status status = look(&solo);
    if (status != HF_OK) {
        refuse_early(&solo, status);
        return;
    }
    for (int repeats = 0;; repeats++) {
        solo_free_rows(&solo);
        if (!batch_has_time(&solo.batch))
            break;
        outcome = transact_solo(&solo, &changed);
        if (!batch_may_repeat(&solo.batch, outcome, repeats))
            break;
    }
    if (outcome == PG_DONE && solo.passes_over)
        solo_pass_over(&solo);
    if (solo.batch.count > 0)
        solo_end(&solo, outcome, changed);
    solo_free_rows(&solo);
}
