/*
 * solo_change.c - holds that exist: a patch adds, removes and resizes in one go; a hold
 * request adds its free seats to the hold that has the others.
 */
#include "solo_internal.h"

/* --- changing a hold that exists: patch, and a hold request that grows one ----------- */

static void
send_resize(struct solo *solo, const int *areas, int count)
{
    struct worker *worker = solo->batch.worker;
    struct pg_array *ids = worker_array(worker, 0, PG_TEXT),
                    *quantities = worker_array(worker, 1, PG_INT4);
    struct pg_params params;
    for (int i = 0; i < count; i++) {
        pg_array_text(ids, solo->op->areas[areas[i]].id);
        pg_array_int(quantities, solo->op->areas[areas[i]].quantity);
    }
    pg_params_init(&params);
    pg_param_text(&params, solo->op->org);
    pg_param_uuid(&params, &solo->result_hold);
    pg_param_array(&params, ids);
    pg_param_array(&params, quantities);
    pg_param_optional(&params, solo->op->actor);
    pg_param_text(&params, solo->op->request_id);
    pg_param_optional(&params, solo->op->client_ip);
    pg_param_optional(&params, solo->op->user_agent);
    pg_tx_send(worker->pg, STATEMENT_RESIZE_AREAS, &params);
}

static void
judge_sizes(struct solo *solo)
{
    for (int row = 0; row < pg_rows(solo->sizes); row++) {
        struct op piece = { .kind = OP_PATCH };
        op_judge_word(&piece, pg_get_text(solo->sizes, row, 1));
        for (int i = 0; i < solo->op->area_count; i++)
            if (slice_equal(solo->op->areas[i].id, pg_get_text(solo->sizes, row, 0)))
                solo->op->areas[i].code = piece.status;
        solo_merge(solo->op, piece.status);
    }
}

/* May the hold be changed at all, as it stands under its lock? */
static enum hf_status
hold_may_change(const struct solo *solo)
{
    const struct op *op = solo->op;
    if (solo->before == NULL)
        return HF_HOLD_NOT_FOUND;
    if (!op->privileged && !slice_equal(solo->before->user, op->user))
        return HF_NOT_HOLD_OWNER;
    if (solo->paying)
        return HF_PAYMENT_IN_FLIGHT;
    switch (solo->before->status) {
    case HOLD_ACTIVE:
        return HF_OK;
    case HOLD_EXPIRED:
        return HF_HOLD_EXPIRED;
    case HOLD_CONVERTED:
    case HOLD_CANCELLED:
        break;
    }
    return HF_HOLD_NOT_ACTIVE;
}

/* Sorts the request into what the hold has and what it gets. False: no memory. */
static bool
plan_growth(struct solo *solo, int *resize, int *resize_count)
{
    struct op *op = solo->op;
    solo->adds = arena_alloc(&op->arena, (size_t)(op->seat_count + 1) * sizeof(int));
    solo->new_areas = arena_alloc(&op->arena, (size_t)(op->area_count + 1) * sizeof(int));
    solo->add_count = solo->new_area_count = *resize_count = 0;
    if (solo->adds == NULL || solo->new_areas == NULL)
        return false;
    solo->planned = -op->drop_count;
    for (int i = 0; i < solo->before->line_count; i++)
        solo->planned += solo->before->lines[i].quantity;
    for (int i = 0; i < op->seat_count; i++)
        if (!view_has_seat(solo->before, op->seats[i].id) && !op->seats[i].own)
            solo->adds[solo->add_count++] = i;
    solo->planned += solo->add_count;
    for (int i = 0; i < op->area_count; i++) {
        const struct hold_line *line = view_area(solo->before, op->areas[i].id);
        if (line == NULL || op->kind == OP_PATCH)
            solo->planned += op->areas[i].quantity - (line ? line->quantity : 0);
        if (line == NULL && op->areas[i].quantity > 0)
            solo->new_areas[solo->new_area_count++] = i;
        else if (line != NULL && op->kind == OP_PATCH && line->quantity != op->areas[i].quantity)
            resize[(*resize_count)++] = i;
    }
    return true;
}

static bool
drops_are_there(struct solo *solo)
{
    struct op *op = solo->op;
    bool all = true;
    for (int i = 0; i < op->drop_count; i++) {
        bool has = view_has_seat(solo->before, op->drop[i].id) || op->may_have_run;
        op->drop[i].code = has ? HF_OK : HF_SEAT_NOT_FOUND;
        all = all && has;
    }
    return all;
}

static bool
send_and_judge_growth(struct solo *solo, int *resize, int resize_count)
{
    struct op *op = solo->op;
    struct batch *batch = &solo->batch;
    bool drops = op->drop_count > 0;
    struct hold_growth growth = { .until = solo->before->held_until,
                                  .born = solo->before->created_at,
                                  .line_next = solo->before->line_last + 1,
                                  .hold = solo->result_hold,
                                  .user = solo->before->user,
                                  .cart_token = solo->before->cart_token,
                                  .source = solo->before->source };
    solo_send_count(solo, solo->before->user);
    if (drops)
        send_solo_change(batch, op, "remove", &solo->result_hold, 1, "user_cancelled");
    if (resize_count > 0)
        send_resize(solo, resize, resize_count);
    solo_send_takes(solo, &growth);
    pg_tx_flush(batch->worker->pg);
    if (!batch_next(batch, &solo->units) || (drops && !batch_next(batch, &batch->rows.changes)) ||
        (resize_count > 0 && !batch_next(batch, &solo->sizes)) || !solo_read_takes(solo))
        return false;
    solo_judge_takes(solo, HF_OK);
    if (op->fate == FATE_ANSWER && drops)
        solo_judge_changes(solo);
    if (op->fate == FATE_ANSWER && resize_count > 0)
        judge_sizes(solo);
    if (op->fate == FATE_ANSWER &&
        (solo->add_count > 0 || solo->new_area_count > 0 || resize_count > 0))
        solo_judge_limits(solo);
    return true;
}

bool
solo_run_change(struct solo *solo)
{
    struct op *op = solo->op;
    struct uuid hold = op->kind == OP_PATCH ? op->hold_id : op->grow_hold;
    int resize_count = 0;
    int *resize = arena_alloc(&op->arena, (size_t)(op->area_count + 1) * sizeof(int));
    bool counts = op->info.policy.max_seats_per_user > 0 || op->area_count > 0 ||
                  op->info.policy.one_hold_per_user;

    if (resize == NULL)
        return false;
    solo->result_hold = hold;
    solo_send_locks(solo, counts ? solo->before->user : SLICE_EMPTY, &hold);
    pg_tx_flush(solo->batch.worker->pg);
    struct slice owner = solo->before->user;
    if (!batch_skip_due(&solo->batch) || !solo_read_locked(solo, &hold))
        return false;
    op->status = hold_may_change(solo);
    op->fate = FATE_ANSWER;
    if (op->status != HF_OK && op->kind == OP_HOLD) {
        op->grow = false; /* that hold is gone: it is an ordinary request again */
        op->fate = FATE_AGAIN;
    }
    if (op->status != HF_OK)
        return true;
    if (!slice_equal(owner, solo->before->user)) {
        op->fate = FATE_AGAIN; /* transferred meanwhile: another user's lock is needed */
        return true;
    }
    if (!drops_are_there(solo)) {
        op->status = HF_SEAT_NOT_FOUND;
        return true;
    }
    return plan_growth(solo, resize, &resize_count) &&
           solo_decide_gap(solo, solo->before->user, NULL, 0) &&
           send_and_judge_growth(solo, resize, resize_count);
}

/* What a patch (or growth) is about: event, owner, policy. */
enum hf_status
solo_look_first(struct solo *solo)
{
    struct op *op = solo->op;
    struct worker *worker = solo->batch.worker;
    struct uuid hold = op->kind == OP_PATCH ? op->hold_id : op->grow_hold;
    struct mono_time deadline = ops_store_deadline(worker->engine, &solo->op, 1);

    if (solo_read_before(solo, &hold) != PG_DONE)
        return HF_STORE_UNAVAILABLE;
    if (solo->before == NULL || !op_may_be_of(op, solo->before->event))
        return HF_HOLD_NOT_FOUND;
    op->event = solo->before->event;
    if (policies_read(worker, &op->org, &op->event, 1, deadline) != PG_DONE)
        return HF_STORE_UNAVAILABLE;
    (void)events_find(worker->node->events, op->org, op->event, &op->info);
    if (op->info.version == 0)
        return HF_EVENT_NOT_FOUND;
    if (op->info.status == EVENT_CANCELLED && op->seat_count + op->area_count > 0)
        return HF_EVENT_CLOSED;
    return HF_OK;
}
