/*
 * solo_checkout.c - a checkout is begun or cancelled; what payments share with it.
 *
 * Whatever is decided about a checkout is decided under these locks, taken in this order by
 * everybody: user, its holds (advisory, by key), their areas, the checkout's row. The intent's row
 * is only written behind that of its checkout; take_due_intents, which has it alone, waits for
 * nothing. Seats come last and are never waited for. So a checkout's end, a webhook, upkeep and
 * whoever else is about one of the holds can't wait in a circle.
 *
 * Which holds it has is read before, without a lock: that never changes while it may be decided
 * (a late success gives it other ones, and then it is completed).
 */
#include "solo_internal.h"

/* --- before the transaction ------------------------------------------------------- */

static void
checkout_params(const struct op *op, struct pg_params *params)
{
    pg_params_init(params);
    pg_param_text(params, op->org);
    pg_param_uuid(params, &op->checkout_id);
}

static bool
holds_of_view(struct solo *solo)
{
    const struct checkout_view *view = solo->seen;
    solo->hold_count = 0;
    solo->holds = arena_alloc(&solo->op->arena, (size_t)view->hold_count * sizeof(*solo->holds));
    for (int i = 0; solo->holds != NULL && i < view->hold_count; i++)
        solo->holds[solo->hold_count++] = view->holds[i]->hold_id;
    return solo->holds != NULL;
}

enum hf_status
solo_look_checkout(struct solo *solo)
{
    struct op *op = solo->op;
    struct worker *worker = solo->batch.worker;
    struct pg_params params;
    struct pg_result *rows = NULL;

    checkout_params(op, &params);
    enum pg_outcome outcome = pg_run(worker->pg, STATEMENT_READ_CHECKOUT, &params,
                                     ops_store_deadline(worker->engine, &solo->op, 1), &rows);
    bool found = outcome == PG_DONE && pg_rows(rows) > 0;
    solo->seen = found ? checkout_view_from_rows(&op->arena, rows) : NULL;
    pg_result_free(&rows);
    if (outcome == PG_DONE && !found)
        return HF_CHECKOUT_NOT_FOUND;
    if (solo->seen == NULL || !holds_of_view(solo))
        return HF_STORE_UNAVAILABLE;
    if (!op_may_be_of(op, solo->seen->event))
        return HF_CHECKOUT_NOT_FOUND;
    op->event = solo->seen->event;
    op->of_flight = solo->seen->of_flight;
    return HF_OK;
}

/* Each of the holds that the request names, once. */
static enum hf_status
named_holds(struct solo *solo)
{
    const struct op *op = solo->op;
    if (op->hold_count > CHECKOUT_HOLDS_MAX)
        return HF_TOO_MANY_SEATS;
    for (int i = 0; i < op->hold_count; i++) {
        bool again = false;
        for (int j = 0; j < solo->hold_count; j++)
            again = again || uuid_equal(&solo->holds[j], &op->holds[i]);
        if (!again)
            solo->holds[solo->hold_count++] = op->holds[i];
    }
    return HF_OK;
}

/* Columns of find_holds. */
enum { FH_HOLD, FH_PAYING, FH_LAPSED };

/* All that the user has there and that is not over. */
static enum hf_status
found_holds(struct solo *solo)
{
    struct op *op = solo->op;
    struct worker *worker = solo->batch.worker;
    struct pg_params params;
    struct pg_result *rows = NULL;
    enum hf_status status = HF_OK;

    pg_params_init(&params);
    pg_param_text(&params, op->org);
    pg_param_text(&params, op->event);
    pg_param_text(&params, op->user);
    pg_param_int4(&params, CHECKOUT_HOLDS_MAX + 1);
    if (pg_run(worker->pg, STATEMENT_FIND_HOLDS, &params,
               ops_store_deadline(worker->engine, &solo->op, 1), &rows) != PG_DONE)
        status = HF_STORE_UNAVAILABLE;
    else if (pg_rows(rows) > CHECKOUT_HOLDS_MAX)
        status = HF_TOO_MANY_SEATS;
    else if (!pg_is_null(rows, 0, FH_HOLD))
        for (int row = 0; row < pg_rows(rows); row++)
            solo->holds[solo->hold_count++] = pg_get_uuid(rows, row, FH_HOLD);
    else if (pg_get_bool(rows, 0, FH_PAYING))
        status = HF_PAYMENT_IN_FLIGHT;
    else
        status = pg_get_bool(rows, 0, FH_LAPSED) ? HF_HOLD_EXPIRED : HF_HOLD_NOT_ACTIVE;
    pg_result_free(&rows);
    return status;
}

/* An event's status and policy, as they are now. */
static enum hf_status
look_at_event(struct solo *solo)
{
    struct op *op = solo->op;
    struct worker *worker = solo->batch.worker;
    struct mono_time deadline = ops_store_deadline(worker->engine, &solo->op, 1);

    if (policies_read(worker, &op->org, &op->event, 1, deadline) != PG_DONE)
        return HF_STORE_UNAVAILABLE;
    (void)events_find(worker->node->events, op->org, op->event, &op->info);
    if (op->info.version == 0)
        return HF_EVENT_NOT_FOUND;
    return op->info.status == EVENT_CANCELLED ? HF_EVENT_CLOSED : HF_OK;
}

enum hf_status
solo_look_start(struct solo *solo)
{
    struct op *op = solo->op;
    enum hf_status status = look_at_event(solo);

    solo->hold_count = 0;
    solo->holds = arena_alloc(&op->arena, CHECKOUT_HOLDS_MAX * sizeof(*solo->holds));
    if (solo->holds == NULL)
        return HF_STORE_UNAVAILABLE;
    if (op->may_have_run || status != HF_OK)
        return op->may_have_run ? HF_OK : status; /* what it made then is the answer */
    return op->hold_count > 0 ? named_holds(solo) : found_holds(solo);
}

/* --- locks and reads ---------------------------------------------------------------- */

/* The areas that the holds have, and those that they had: a late success takes them again. */
void
solo_send_area_locks(struct solo *solo, struct slice user)
{
    struct worker *worker = solo->batch.worker;
    const struct op *op = solo->op;
    struct pg_array *columns[5];
    struct pg_params params;

    for (int i = 0; i < 5; i++)
        columns[i] = worker_array(worker, i, i == 4 ? PG_UUID : PG_TEXT);
    for (int h = 0; solo->seen != NULL && h < solo->seen->hold_count; h++) {
        const struct hold_view *hold = solo->seen->holds[h];
        for (int i = 0; i < hold->line_count; i++) {
            if (hold->lines[i].area.len == 0)
                continue;
            pg_array_text(columns[0], op->org);
            pg_array_text(columns[1], hold->event);
            pg_array_text(columns[2], hold->lines[i].area);
        }
    }
    for (int i = 0; i < solo->hold_count; i++) {
        pg_array_text(columns[3], op->org);
        pg_array_uuid(columns[4], &solo->holds[i]);
    }
    pg_params_init(&params);
    for (int i = 0; i < 5; i++)
        pg_param_array(&params, columns[i]);
    if (user.len == 0) {
        pg_tx_send(worker->pg, STATEMENT_LOCK_AREAS, &params);
        return;
    }
    pg_param_text(&params, op->org);
    pg_param_text(&params, op->event);
    pg_param_text(&params, user);
    pg_tx_send(worker->pg, STATEMENT_LOCK_SALE_AREAS, &params);
}

int
solo_send_hold_locks(struct solo *solo, struct slice user)
{
    int64_t users[1], *holds;
    int user_count = 0;

    const struct op *op = solo->op;
    int count = 0;
    holds = arena_alloc(&solo->op->arena,
                        (size_t)(solo->hold_count + op->own_count + 1) * sizeof(*holds));
    if (holds == NULL)
        return -1;
    if (user.len > 0)
        users[user_count++] = user_lock_key(op->org, user);
    for (int i = 0; i < solo->hold_count; i++)
        holds[count++] = hold_lock_key(&solo->holds[i]);
    for (int i = 0; i < op->own_count; i++)
        holds[count++] = hold_lock_key(&op->own[i]);
    send_lock_keys(&solo->batch, users, user_count, holds, count);
    solo_send_area_locks(solo, user);
    return (user_count + count > 0) + 1;
}

void
solo_send_read_checkout(struct solo *solo)
{
    struct pg_params params;
    checkout_params(solo->op, &params);
    pg_tx_send(solo->batch.worker->pg, STATEMENT_READ_CHECKOUT, &params);
}

bool
solo_lock_checkout(struct solo *solo, struct slice user)
{
    struct pg_params params;
    int locks = solo_send_hold_locks(solo, user);
    if (locks < 0)
        return false;
    checkout_params(solo->op, &params);
    pg_tx_send(solo->batch.worker->pg, STATEMENT_LOCK_CHECKOUT, &params);
    solo_send_read_checkout(solo);
    pg_tx_flush(solo->batch.worker->pg);
    if (!solo_skip(solo, locks + 1) || !batch_next(&solo->batch, &solo->checkout_rows))
        return false;
    solo->seen = checkout_view_from_rows(&solo->op->arena, solo->checkout_rows);
    return solo->seen != NULL;
}

bool
solo_show_checkout(struct solo *solo)
{
    if (!batch_next(&solo->batch, &solo->checkout_rows))
        return false;
    solo->op->checkout = checkout_view_from_rows(&solo->op->arena, solo->checkout_rows);
    return true;
}

bool
solo_owns_checkout(struct solo *solo)
{
    struct op *op = solo->op;

    if (op->privileged || slice_equal(solo->seen->user, op->user))
        return true;
    /* To a flight what is another's isn't there (seed 003). */
    op->status = op->of_flight ? HF_CHECKOUT_NOT_FOUND : HF_NOT_HOLD_OWNER;
    return false;
}

/* --- begun ---------------------------------------------------------------------------- */

static void
send_add_checkout(struct solo *solo)
{
    struct worker *worker = solo->batch.worker;
    const struct op *op = solo->op;
    struct pg_array *holds = worker_array(worker, 0, PG_UUID);
    struct pg_params params;

    for (int i = 0; i < solo->hold_count; i++)
        pg_array_uuid(holds, &solo->holds[i]);
    pg_params_init(&params);
    pg_param_text(&params, op->org);
    pg_param_text(&params, op->event);
    pg_param_uuid(&params, &op->checkout_id);
    pg_param_array(&params, holds);
    pg_param_optional(&params, op->actor);
    pg_param_optional(&params, op->request_id);
    pg_param_optional(&params, op->client_ip);
    pg_param_optional(&params, op->user_agent);
    pg_tx_send(worker->pg, STATEMENT_ADD_CHECKOUT, &params);
}

/* A checkout is of one user's holds of one event. */
static void
judge_kinship(struct solo *solo)
{
    const struct pg_result *rows = solo->batch.rows.changes;
    for (int row = 0; row < pg_rows(rows); row++) {
        if (!slice_equal(pg_get_text(rows, row, CH_EVENT), solo->op->event))
            solo_merge(solo->op, HF_HOLD_NOT_FOUND);
        if (!slice_equal(pg_get_text(rows, row, CH_OWNER), pg_get_text(rows, 0, CH_OWNER)))
            solo_merge(solo->op, HF_NOT_HOLD_OWNER);
    }
}

/* What ended in the meantime was not extended in time. */
static void
judge_view(struct solo *solo)
{
    const struct checkout_view *view = solo->op->checkout;
    if (view == NULL)
        op_fail(solo->op, HF_STORE_UNAVAILABLE);
    for (int i = 0; view != NULL && i < view->hold_count; i++)
        if (view->holds[i]->status != HOLD_ACTIVE) {
            op_fail(solo->op, HF_HOLD_EXPIRED);
            return;
        }
}

/* A run before this one may have made it. */
static bool
show_made(struct solo *solo)
{
    solo_send_read_checkout(solo);
    pg_tx_flush(solo->batch.worker->pg);
    if (!solo_show_checkout(solo))
        return false;
    if (solo->op->checkout == NULL)
        op_fail(solo->op, HF_OUTCOME_UNKNOWN);
    return true;
}

bool
solo_run_checkout_start(struct solo *solo)
{
    struct op *op = solo->op;
    op->status = HF_CREATED;
    op->fate = FATE_ANSWER;
    if (op->may_have_run)
        return show_made(solo);
    int locks = solo_send_hold_locks(solo, SLICE_EMPTY);
    if (locks < 0)
        return false;
    pg_tx_flush(solo->batch.worker->pg);
    if (!solo_skip(solo, locks))
        return false;
    send_solo_change(&solo->batch, op, "extend", solo->holds, solo->hold_count, NULL);
    send_add_checkout(solo);
    solo_send_read_checkout(solo);
    pg_tx_flush(solo->batch.worker->pg);
    if (!batch_next(&solo->batch, &solo->batch.rows.changes) || !solo_skip(solo, 1) ||
        !solo_show_checkout(solo))
        return false;
    solo_judge_changes(solo);
    if (op->fate == FATE_ANSWER && op->status == HF_CREATED)
        judge_kinship(solo);
    if (op->fate == FATE_ANSWER && op->status == HF_CREATED)
        judge_view(solo);
    solo->writes = op->fate == FATE_ANSWER && op->status == HF_CREATED;
    if (!solo->writes)
        op->checkout = NULL; /* as it would have been */
    return true;
}

/* --- settled ------------------------------------------------------------------------------ */

static void
add_word(struct pg_params *params, const char *word)
{
    pg_param_optional(params, word != NULL ? slice_of(word) : SLICE_EMPTY);
}

void
solo_send_settle(struct solo *solo, const struct settlement *settlement, const struct uuid *intent,
                 const struct uuid *holds, int hold_count)
{
    struct worker *worker = solo->batch.worker;
    const struct op *op = solo->op;
    struct pg_array *now = worker_array(worker, 0, PG_UUID);
    struct pg_params params;

    for (int i = 0; i < hold_count; i++)
        pg_array_uuid(now, &holds[i]);
    pg_params_init(&params);
    pg_param_text(&params, op->org);
    pg_param_uuid(&params, &op->checkout_id);
    if (intent != NULL)
        pg_param_uuid(&params, intent);
    else
        pg_param_null(&params);
    add_word(&params, settlement->intent);
    add_word(&params, settlement->status);
    add_word(&params, settlement->reason);
    pg_param_optional(&params, op->notes);
    if (holds != NULL)
        pg_param_array(&params, now);
    else
        pg_param_null(&params);
    add_word(&params, settlement->action);
    add_word(&params, settlement->kind);
    pg_param_optional(&params, op->actor);
    pg_param_optional(&params, op->request_id);
    pg_param_optional(&params, op->client_ip);
    pg_param_optional(&params, op->user_agent);
    pg_tx_send(worker->pg, STATEMENT_SETTLE_CHECKOUT, &params);
}

/* --- cancelled -------------------------------------------------------------------------------- */

static bool
is_mine(const struct solo *solo, const struct hold_view *hold)
{
    const struct pg_result *rows = solo->checkout_rows;
    for (int row = 0; row < pg_rows(rows); row++) {
        struct uuid id = pg_get_uuid(rows, row, RH_HOLD);
        if (uuid_equal(&id, &hold->hold_id) && pg_get_bool(rows, row, RC_MINE))
            return slice_equal(hold->user, solo->seen->user);
    }
    return false;
}

/* What it still has: not what went into a newer checkout, to another user, or was sold. */
static void
keep_own_holds(struct solo *solo)
{
    solo->hold_count = 0;
    for (int i = 0; i < solo->seen->hold_count; i++) {
        const struct hold_view *hold = solo->seen->holds[i];
        if ((hold->status == HOLD_ACTIVE || hold->status == HOLD_EXPIRED) && is_mine(solo, hold))
            solo->holds[solo->hold_count++] = hold->hold_id;
    }
}

static bool
cancel_open(struct solo *solo)
{
    static const struct settlement cancelled = { .status = "cancelled",
                                                 .reason = "user_cancelled",
                                                 .action = "checkout_cancelled",
                                                 .kind = "checkout.cancelled" };
    struct op *op = solo->op;
    struct batch *batch = &solo->batch;

    keep_own_holds(solo);
    op->reason = cancelled.reason;
    if (solo->hold_count > 0)
        send_solo_change(batch, op, "cancel", solo->holds, solo->hold_count, op->reason);
    solo_send_settle(solo, &cancelled, NULL, NULL, 0);
    solo_send_read_checkout(solo);
    pg_tx_flush(batch->worker->pg);
    if ((solo->hold_count > 0 && !batch_next(batch, &batch->rows.changes)) || !solo_skip(solo, 1) ||
        !solo_show_checkout(solo))
        return false;
    if (batch->rows.changes != NULL)
        solo_judge_changes(solo);
    if (op->checkout == NULL)
        op_fail(op, HF_STORE_UNAVAILABLE);
    solo->writes = op->fate == FATE_ANSWER && op->status == HF_OK;
    return true;
}

bool
solo_run_checkout_cancel(struct solo *solo)
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
        return cancel_open(solo);
    case CHECKOUT_CANCELLED:
        op->same = true;
        op->checkout = solo->seen;
        return true;
    case CHECKOUT_PAYING:
        op->status = HF_PAYMENT_IN_FLIGHT;
        return true;
    case CHECKOUT_COMPLETED:
    case CHECKOUT_FAILED:
        break;
    }
    op->status = HF_HOLD_NOT_ACTIVE;
    return true;
}
