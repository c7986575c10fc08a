/*
 * solo_payment.c - the payment of a checkout is begun, and what became of it.
 *
 * Between the two nothing but the second ends its holds: in_payment is on their lines and seats,
 * and whatever else would free or sell them says payment_in_flight. What became of it may be told
 * any number of times, by whoever asked the provider, by its webhook and by upkeep; only what the
 * intent's status allows takes effect (0004_checkouts.sql draws it), so the order doesn't matter.
 */
#include "solo_internal.h"

/* --- begun --------------------------------------------------------------------------- */

static void
send_add_payment(struct solo *solo)
{
    const struct op *op = solo->op;
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, op->org);
    pg_param_uuid(&params, &op->checkout_id);
    pg_param_uuid(&params, &op->intent_id);
    pg_param_text(&params, slice_of(op->provider));
    pg_param_text(&params, op->method);
    pg_tx_send(solo->batch.worker->pg, STATEMENT_ADD_PAYMENT, &params);
}

static bool
begin_payment(struct solo *solo)
{
    struct op *op = solo->op;
    struct batch *batch = &solo->batch;
    struct op payer =
        *op; /* the checkout's user pays for holds of theirs, whoever does it for them */

    payer.user = solo->seen->user;
    payer.privileged = false;
    send_solo_change(batch, &payer, "pay", solo->holds, solo->hold_count, NULL);
    send_add_payment(solo);
    solo_send_read_checkout(solo);
    pg_tx_flush(batch->worker->pg);
    if (!batch_next(batch, &batch->rows.changes) || !solo_skip(solo, 1) ||
        !solo_show_checkout(solo))
        return false;
    solo_judge_changes(solo);
    if (op->checkout == NULL)
        op_fail(op, HF_STORE_UNAVAILABLE);
    solo->writes = op->fate == FATE_ANSWER && op->status == HF_OK;
    if (!solo->writes)
        op->checkout = NULL; /* as it would have been */
    return true;
}

bool
solo_run_pay(struct solo *solo)
{
    struct op *op = solo->op;

    op->status = HF_OK;
    op->fate = FATE_ANSWER;
    if (!solo_lock_checkout(solo, SLICE_EMPTY))
        return false;
    if (!solo_owns_checkout(solo))
        return true;
    switch (solo->seen->status) {
    case CHECKOUT_OPEN:
        return begin_payment(solo);
    case CHECKOUT_PAYING:
    case CHECKOUT_COMPLETED:
        op->checkout = solo->seen;
        /* Unless a run before this one, whose outcome was lost, has begun it. */
        op->same = !uuid_equal(&solo->seen->intent_id, &op->intent_id) ||
                   solo->seen->intent_status != INTENT_PROCESSING;
        return true;
    case CHECKOUT_CANCELLED:
    case CHECKOUT_FAILED:
        break;
    }
    op->status = HF_HOLD_NOT_ACTIVE;
    return true;
}

/* --- what a word about a payment means ------------------------------------------------- */

enum plan { NOTHING, WAIT, SELL, DECLINE, EXPIRE, CLOSE, UNMARK, LATE, REFUND };

static const struct settlement settlements[] = {
    [WAIT] = { .intent = "pending" },
    [SELL] = { "sell", "succeeded", "completed", NULL, "checkout_completed", "checkout.completed" },
    [DECLINE] = { "fail", "failed", "failed", "payment_failed", "checkout_failed",
                  "payment.failed" },
    [EXPIRE] = { "fail", "expired", "failed", "payment_failed", "checkout_failed",
                 "payment.failed" },
    /* It was paid, but the event is cancelled. */
    [CLOSE] = { "fail", "refund_required", "failed", "payment_failed", "refund_required",
                "payment.refund_required" },
    [UNMARK] = { .word = "unpay", .intent = "void", .status = "open" },
    [LATE] = { NULL, "succeeded", "completed", NULL, "checkout_completed", "checkout.completed" },
    [REFUND] = { .intent = "refund_required",
                 .action = "refund_required",
                 .kind = "payment.refund_required" },
};

static enum plan
plan_of_undecided(enum intent_status intent, enum payment_outcome outcome)
{
    switch (outcome) {
    case PAYMENT_PAID:
        return SELL;
    case PAYMENT_DECLINED:
        return DECLINE;
    case PAYMENT_UNDECIDED:
        return intent == INTENT_PROCESSING ? WAIT : NOTHING;
    case PAYMENT_UNREACHED: /* who has answered once was asked */
        return intent == INTENT_PROCESSING ? UNMARK : NOTHING;
    case PAYMENT_TIMED_OUT:
        return EXPIRE;
    }
    return NOTHING;
}

static enum plan
plan_of(enum intent_status intent, enum payment_outcome outcome)
{
    switch (intent) {
    case INTENT_PROCESSING:
    case INTENT_PENDING:
        return plan_of_undecided(intent, outcome);
    case INTENT_FAILED:
    case INTENT_EXPIRED:
        return outcome == PAYMENT_PAID ? LATE : NOTHING;
    case INTENT_VOID: /* another payment may have followed: this one bought nothing */
        return outcome == PAYMENT_PAID ? REFUND : NOTHING;
    case INTENT_SUCCEEDED:
    case INTENT_REFUND_REQUIRED:
        break;
    }
    return NOTHING;
}

/* --- before the transaction -------------------------------------------------------------- */

/* Columns of read_intent. */
enum {
    RI_ORG,
    RI_EVENT,
    RI_USER,
    RI_PURPOSE,
    RI_SUBJECT,
    RI_AMOUNT,
    RI_CURRENCY,
    RI_PROVIDER,
    RI_METHOD,
    RI_STATUS
};

static void
intent_params(const struct op *op, struct pg_params *params)
{
    pg_params_init(params);
    pg_param_uuid(params, &op->intent_id);
}

/* A webhook knows the intent only: whose it is stands there. */
static enum hf_status
intent_from_row(struct op *op, const struct pg_result *rows, enum intent_status *intent)
{
    if (pg_rows(rows) == 0 || !intent_status_parse(pg_get_text(rows, 0, RI_STATUS), intent) ||
        (op->org.len > 0 && !slice_equal(op->org, pg_get_text(rows, 0, RI_ORG))))
        return HF_INTENT_NOT_FOUND;
    op->is_baggage = slice_is(pg_get_text(rows, 0, RI_PURPOSE), "baggage");
    op->org = arena_copy(&op->arena, pg_get_text(rows, 0, RI_ORG));
    op->event = arena_copy(&op->arena, pg_get_text(rows, 0, RI_EVENT));
    op->checkout_id = pg_get_uuid(rows, 0, RI_SUBJECT);
    return op->org.ptr != NULL && op->event.ptr != NULL ? HF_OK : HF_STORE_UNAVAILABLE;
}

enum hf_status
solo_look_payment(struct solo *solo)
{
    struct op *op = solo->op;
    struct worker *worker = solo->batch.worker;
    struct mono_time deadline = ops_store_deadline(worker->engine, &solo->op, 1);
    struct pg_params params;
    struct pg_result *rows = NULL;
    enum intent_status intent = INTENT_PROCESSING;

    intent_params(op, &params);
    enum hf_status status = HF_STORE_UNAVAILABLE;
    if (pg_run(worker->pg, STATEMENT_READ_INTENT, &params, deadline, &rows) == PG_DONE)
        status = intent_from_row(op, rows, &intent);
    pg_result_free(&rows);
    if (status == HF_OK && !op->is_baggage)
        status = solo_look_checkout(solo);
    return status;
}

/* --- settled --------------------------------------------------------------------------------- */

bool
solo_read_payment(struct solo *solo, enum intent_status *intent, bool *is_new)
{
    struct op *op = solo->op;
    struct batch *batch = &solo->batch;
    struct pg_params params;
    struct pg_result *state = NULL, *delivery = NULL;
    bool told = op->provider_key.len > 0;

    intent_params(op, &params);
    pg_tx_send(batch->worker->pg, STATEMENT_READ_INTENT, &params);
    if (told) {
        pg_param_text(&params, op->provider_key);
        pg_param_text(&params, op->outcome == PAYMENT_PAID ? SLICE_LITERAL("succeeded")
                                                           : SLICE_LITERAL("failed"));
        pg_tx_send(batch->worker->pg, STATEMENT_ADD_DELIVERY, &params);
    }
    pg_tx_flush(batch->worker->pg);
    bool ok = batch_next(batch, &state) && (!told || batch_next(batch, &delivery)) &&
              intent_from_row(op, state, intent) == HF_OK;
    *is_new = ok && (!told || pg_get_bool(delivery, 0, 0));
    pg_result_free(&state);
    pg_result_free(&delivery);
    return ok;
}

/* What happens to the holds. *plan may become another: nothing is sold at a cancelled event. */
static bool
change_holds(struct solo *solo, enum plan *plan)
{
    struct op *op = solo->op;
    struct batch *batch = &solo->batch;
    const struct settlement *settlement = &settlements[*plan];

    op->reason = settlement->reason;
    send_solo_change(batch, op, settlement->word, solo->holds, solo->hold_count, op->reason);
    pg_tx_flush(batch->worker->pg);
    if (!batch_next(batch, &batch->rows.changes))
        return false;
    solo_judge_changes(solo);
    if (*plan != SELL || op->status != HF_EVENT_CLOSED) {
        /* Marked holds refuse nothing else: somebody has repaired them by hand, and must again. */
        if (op->fate == FATE_ANSWER && op->status != HF_OK)
            op->status = HF_INTERNAL;
        return true;
    }
    op->status = HF_OK;
    *plan = CLOSE;
    return change_holds(solo, plan);
}

/* The view of a checkout tells of its latest payment; this answer is about one that may be older.
 */
static void
show_intent(struct op *op, enum intent_status intent)
{
    if (op->checkout == NULL)
        return;
    op->checkout->has_intent = true;
    op->checkout->intent_id = op->intent_id;
    op->checkout->intent_status = intent;
}

static bool
write_settlement(struct solo *solo, enum plan plan)
{
    struct op *op = solo->op;
    const struct settlement *settlement = &settlements[plan];
    enum intent_status intent = INTENT_PROCESSING;

    solo_send_settle(solo, settlement, &op->intent_id, plan == LATE ? solo->taken_anew : NULL,
                     plan == LATE ? solo->seen->hold_count : 0);
    solo_send_read_checkout(solo);
    pg_tx_flush(solo->batch.worker->pg);
    if (!solo_skip(solo, 1) || !solo_show_checkout(solo))
        return false;
    if (op->checkout == NULL || !intent_status_parse(slice_of(settlement->intent), &intent))
        op_fail(op, HF_STORE_UNAVAILABLE);
    show_intent(op, intent);
    solo->writes = op->status == HF_OK;
    return true;
}

/* What the payer had bought before, where he may have one seat. */
static bool
give_back(struct solo *solo, enum plan plan)
{
    if (plan == SELL)
        return solo_give_back(solo, solo->seen->user, solo->holds, solo->hold_count);
    return plan != LATE ||
           solo_give_back(solo, solo->seen->user, solo->taken_anew, solo->seen->hold_count);
}

static bool
settle(struct solo *solo, enum plan plan)
{
    struct op *op = solo->op;

    if (plan == LATE && !solo_run_late(solo))
        return false;
    if (settlements[plan].word != NULL && !change_holds(solo, &plan))
        return false;
    if (op->fate != FATE_ANSWER || op->status != HF_OK)
        return true;
    return give_back(solo, plan) && (op->fate != FATE_ANSWER || write_settlement(solo, plan));
}

bool
solo_run_settle(struct solo *solo)
{
    struct op *op = solo->op;
    enum intent_status intent;
    bool is_new;

    op->status = HF_OK;
    op->fate = FATE_ANSWER;
    if (op->is_baggage)
        return solo_run_baggage(solo);
    if (!solo_lock_checkout(solo, solo->seen->user) || !solo_read_payment(solo, &intent, &is_new))
        return false;
    enum plan plan = is_new ? plan_of(intent, op->outcome) : NOTHING;
    if (plan == LATE && op->refund)
        plan = REFUND;
    if (plan != NOTHING)
        return settle(solo, plan);
    op->same = true;
    op->checkout = solo->seen;
    show_intent(op, intent);
    solo->writes = is_new && op->provider_key.len > 0; /* it was told, though it changes nothing */
    return true;
}
