/*
 * solo_late.c - a payment that succeeded when its holds were over: their seats and areas are taken
 * anew for the payer, all or nothing, and sold in the same transaction.
 *
 * Each hold that was in payment gets a new one, as if its user had come again: the same statements
 * as of any other hold judge it. What another has by now is refused.
 */
#include "solo_internal.h"

/* One hold taken anew: a piece of the settling op's transaction. */
struct late_hold {
    struct op op;
    struct op *ops[1];
    struct solo solo;
};

/* --- what it is to have ------------------------------------------------------------- */

static bool
plan_lines(struct late_hold *late, const struct hold_view *before)
{
    struct op *op = &late->op;
    op->seats = arena_alloc(&late->solo.op->arena, (size_t)before->line_count * sizeof(*op->seats));
    op->areas = arena_alloc(&late->solo.op->arena, (size_t)before->line_count * sizeof(*op->areas));
    if (op->seats == NULL || op->areas == NULL)
        return false;
    for (int i = 0; i < before->line_count; i++) {
        const struct hold_line *line = &before->lines[i];
        if (line->seat.len > 0)
            op->seats[op->seat_count++] = (struct op_seat){ .id = line->seat };
        else
            op->areas[op->area_count++] =
                (struct op_area){ .id = line->area, .quantity = line->quantity };
    }
    return solo_take_all(&late->solo);
}

static bool
late_init(struct late_hold *late, struct solo *solo, const struct hold_view *before)
{
    const struct op *payment = solo->op;
    *late = (struct late_hold){ .op = { .kind = OP_PAY_SETTLE,
                                        .solo = true,
                                        .org = payment->org,
                                        .event = before->event,
                                        .user = before->user,
                                        .actor = payment->actor,
                                        .request_id = payment->request_id,
                                        .privileged = true,
                                        .hold_id = uuid_v7_new(),
                                        .cart_token = before->cart_token,
                                        .source = before->source,
                                        .info = payment->info } };
    late->ops[0] = &late->op;
    late->solo = (struct solo){ .batch = { .worker = solo->batch.worker,
                                           .ops = late->ops,
                                           .count = 1,
                                           .began = solo->batch.began,
                                           .deadline = solo->batch.deadline },
                                .op = &late->op,
                                .result_hold = late->op.hold_id };
    return plan_lines(late, before);
}

/* --- taken and sold -------------------------------------------------------------------- */

static bool
take(struct late_hold *late)
{
    struct batch *batch = &late->solo.batch;
    solo_send_takes(&late->solo, NULL);
    pg_tx_flush(batch->worker->pg);
    if (!solo_read_takes(&late->solo))
        return false;
    solo_judge_takes(&late->solo, HF_CREATED);
    return true;
}

static bool
sell(struct late_hold *late)
{
    struct batch *batch = &late->solo.batch;
    late->op.status = HF_OK;
    send_solo_change(batch, &late->op, "confirm", &late->op.hold_id, 1, NULL);
    pg_tx_flush(batch->worker->pg);
    if (!batch_next(batch, &batch->rows.changes))
        return false;
    solo_judge_changes(&late->solo);
    return true;
}

/* The verdict of one is the verdict of all. */
static bool
take_and_sell(struct solo *solo, struct late_hold *late)
{
    if (!take(late))
        return false;
    bool taken = late->op.fate == FATE_ANSWER && late->op.status == HF_CREATED;
    if (taken && !sell(late))
        return false;
    solo->op->fate = late->op.fate;
    solo->op->status = late->op.status;
    return true;
}

bool
solo_run_late(struct solo *solo)
{
    struct op *op = solo->op;
    int count = solo->seen->hold_count;

    solo->late_count = 0;
    solo->late = arena_alloc(&op->arena, (size_t)count * sizeof(*solo->late));
    if (solo->late == NULL)
        return false;
    for (int i = 0; i < count && op->fate == FATE_ANSWER && op->status == HF_OK; i++) {
        struct late_hold *late = &solo->late[i];
        solo->late_count++;
        if (!late_init(late, solo, solo->seen->holds[i]) || !take_and_sell(solo, late))
            return false;
        solo->holds[i] = late->op.hold_id;
    }
    return true;
}

/* --- afterwards ------------------------------------------------------------------------- */

static void
settle_late(struct late_hold *late, struct waiter_list *waiters)
{
    struct batch *batch = &late->solo.batch;
    redis_settle(batch);
    if (batch->rows.reclaimed != NULL)
        settle_reclaimed_rows(batch);
    for (int row = 0; batch->rows.areas != NULL && row < pg_rows(batch->rows.areas); row++)
        settle_area_row(batch, &late->op, late->op.areas[late->solo.new_areas[row]].id, row);
    if (batch->rows.seats != NULL)
        settle_hold_rows(batch, &late->op, true, waiters);
    settle_change_rows(batch, waiters);
}

void
solo_settle_late(struct solo *solo, struct waiter_list *waiters)
{
    for (int i = 0; i < solo->late_count; i++)
        settle_late(&solo->late[i], waiters);
}

void
solo_free_late(struct solo *solo)
{
    for (int i = 0; i < solo->late_count; i++)
        batch_rows_free(&solo->late[i].solo.batch.rows);
    solo->late_count = 0;
}
