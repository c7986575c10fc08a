/*
 * solo_late.c - a payment that succeeded when its holds were over: their seats and areas are taken
 * anew for the payer, all or nothing, and sold in the same transaction.
 *
 * Each hold that was in payment gets a new one, as if its user had come again: the same statements
 * as of any other hold judge it, but for the policy's limits (hold_seats without an event version).
 * What another has by now is refused. What the payer has again, by a newer hold, is taken out of
 * that one first; its lock is needed for that, so such holds are noted (op->own), and all begins
 * anew.
 */
#include "solo_internal.h"

#include <stdlib.h>

/* One hold taken anew, or one that gives seats to it: a piece of the settling op's transaction. */
struct late_hold {
    struct op op;
    struct op *ops[1];
    struct solo solo;
};

/* --- what it is to have ------------------------------------------------------------- */

static bool
plan_lines(const struct solo *solo, struct late_hold *late, const struct hold_view *before)
{
    struct op *op = &late->op;
    op->seats = arena_alloc(&solo->op->arena, (size_t)before->line_count * sizeof(*op->seats));
    op->areas = arena_alloc(&solo->op->arena, (size_t)before->line_count * sizeof(*op->areas));
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

static void
late_init(struct late_hold *late, struct solo *solo, const struct hold_view *hold,
          const struct uuid *hold_id)
{
    const struct op *payment = solo->op;
    *late = (struct late_hold){ .op = { .kind = OP_PAY_SETTLE,
                                        .solo = true,
                                        .org = payment->org,
                                        .event = hold->event,
                                        .user = hold->user,
                                        .actor = payment->actor,
                                        .request_id = payment->request_id,
                                        .client_ip = payment->client_ip,
                                        .user_agent = payment->user_agent,
                                        .privileged = true,
                                        .hold_id = *hold_id,
                                        .cart_token = hold->cart_token,
                                        .source = hold->source } };
    late->ops[0] = &late->op;
    late->solo = (struct solo){ .batch = { .worker = solo->batch.worker,
                                           .ops = late->ops,
                                           .count = 1,
                                           .began = solo->batch.began,
                                           .deadline = solo->batch.deadline },
                                .op = &late->op,
                                .result_hold = *hold_id };
}

/* --- what the payer has again ----------------------------------------------------------- */

static bool
was_paid_for(const struct solo *solo, struct slice seat)
{
    for (int i = 0; i < solo->seen->hold_count; i++)
        if (view_has_seat(solo->seen->holds[i], seat))
            return true;
    return false;
}

/* The seats of a newer hold that were paid for. False: no memory. */
static bool
plan_drops(const struct solo *solo, struct late_hold *late, struct hold_view *own)
{
    struct op *op = &late->op;
    op->drop = arena_alloc(&solo->op->arena, (size_t)own->line_count * sizeof(*op->drop));
    for (int i = 0; op->drop != NULL && i < own->line_count; i++)
        if (own->lines[i].seat.len > 0 && was_paid_for(solo, own->lines[i].seat))
            op->drop[op->drop_count++] = (struct op_seat){ .id = own->lines[i].seat };
    if (op->drop_count < own->line_count)
        op->hold = own; /* it lives on */
    return op->drop != NULL;
}

/* What can't be taken out of it is refused when it is to be taken. */
static bool
give_up_own(struct solo *solo, const struct uuid *hold)
{
    struct late_hold *late = &solo->late[solo->late_count];
    struct batch *batch = &late->solo.batch;

    if (!solo_read_locked(solo, hold))
        return false;
    struct hold_view *own = solo->before;
    if (own == NULL || solo->paying || own->status != HOLD_ACTIVE ||
        !slice_equal(own->user, solo->seen->user))
        return true;
    late_init(late, solo, own, hold);
    solo->late_count++;
    late->op.reason = "replaced";
    if (!plan_drops(solo, late, own))
        return false;
    send_solo_change(batch, &late->op, "remove", hold, 1, late->op.reason);
    pg_tx_flush(batch->worker->pg);
    if (!batch_next(batch, &batch->rows.changes))
        return false;
    solo_judge_changes(&late->solo);
    if (late->op.fate == FATE_LATER)
        solo->op->fate = FATE_LATER;
    return true;
}

/* Notes the newer hold of the payer that has this seat. False: it was tried in this run already, or
 * there is no memory. */
static bool
note_own(struct op *op, int tried, const struct uuid *hold)
{
    for (int i = 0; i < op->own_count; i++)
        if (uuid_equal(&op->own[i], hold))
            return i >= tried;
    struct uuid *grown = arena_alloc(&op->arena, (size_t)(op->own_count + 1) * sizeof(*grown));
    for (int i = 0; grown != NULL && i < op->own_count; i++)
        grown[i] = op->own[i];
    if (grown == NULL)
        return false;
    op->own = grown;
    op->own[op->own_count++] = *hold;
    return true;
}

/* True: there are such seats, and none that was tried in vain. */
static bool
has_own(struct op *op, int tried, const struct late_hold *late)
{
    const struct pg_result *rows = late->solo.batch.rows.seats;
    int own = 0, noted = 0;
    for (int row = 0; rows != NULL && row < pg_rows(rows); row++) {
        if (!slice_is(pg_get_text(rows, row, HS_CODE), "own"))
            continue;
        struct uuid hold = pg_get_uuid(rows, row, HS_HOLD);
        noted += note_own(op, tried, &hold);
        own++;
    }
    return own > 0 && noted > 0;
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

/* What became of one piece, for the whole. */
static void
judge_late(struct solo *solo, const struct late_hold *late, enum hf_status good)
{
    struct op *op = solo->op;

    op->fate = FATE_ANSWER;
    if (late->op.fate == FATE_ANSWER && late->op.status == good)
        return;
    if (late->op.fate == FATE_LATER) { /* nobody has it for sure yet */
        op->fate = FATE_LATER;
        return;
    }
    op->fate = FATE_AGAIN;
    op->refund = !has_own(op, solo->own_tried, late);
}

static bool
take_and_sell(struct solo *solo, const struct hold_view *before)
{
    struct late_hold *late = &solo->late[solo->late_count];
    struct uuid hold = uuid_v7_new();

    late_init(late, solo, before, &hold);
    solo->late_count++;
    if (!plan_lines(solo, late, before) || !take(late))
        return false;
    judge_late(solo, late, HF_CREATED);
    if (solo->op->fate != FATE_ANSWER)
        return true;
    if (!sell(late))
        return false;
    judge_late(solo, late, HF_OK);
    return true;
}

/* What newer holds of the payer keep from one of his holds stops none of the others: all these are
 * noted in one run, however many there are. */
static bool
take_all(struct solo *solo)
{
    struct op *op = solo->op;
    bool again = false;

    for (int i = 0; i < solo->seen->hold_count && op->fate == FATE_ANSWER; i++) {
        if (!take_and_sell(solo, solo->seen->holds[i]))
            return false;
        solo->taken_anew[i] = solo->late[solo->late_count - 1].op.hold_id;
        if (op->fate == FATE_AGAIN && !op->refund) {
            again = true;
            op->fate = FATE_ANSWER;
        }
    }
    if (again && op->fate == FATE_ANSWER)
        op->fate = FATE_AGAIN;
    return true;
}

bool
solo_run_late(struct solo *solo)
{
    struct op *op = solo->op;

    solo->late_count = 0;
    solo->own_tried = op->own_count;
    solo->late = calloc((size_t)(solo->seen->hold_count + op->own_count), sizeof(*solo->late));
    solo->taken_anew =
        arena_alloc(&op->arena, (size_t)solo->seen->hold_count * sizeof(*solo->taken_anew));
    if (solo->late == NULL || solo->taken_anew == NULL)
        return false;
    for (int i = 0; i < solo->own_tried && op->fate == FATE_ANSWER; i++)
        if (!give_up_own(solo, &op->own[i]))
            return false;
    return take_all(solo);
}

/* --- afterwards ------------------------------------------------------------------------- */

/* The seats were given up, held and sold within one transaction: the versions between are told to
 * those who watch, and Redis and memory hear of the last one, the sale's, alone. */
static void
settle_late(struct late_hold *late, struct waiter_list *waiters)
{
    struct batch *batch = &late->solo.batch;
    bool sold = batch->rows.seats != NULL || batch->rows.areas != NULL;

    if (sold)
        late->op.hold = NULL; /* nothing to put: it ended */
    redis_settle(batch);
    if (batch->rows.reclaimed != NULL)
        settle_reclaimed_rows(batch);
    for (int row = 0; batch->rows.areas != NULL && row < pg_rows(batch->rows.areas); row++)
        settle_area_row(batch, &late->op, late->op.areas[late->solo.new_areas[row]].id, row);
    if (batch->rows.seats != NULL)
        settle_hold_rows(batch, &late->op, true, NULL);
    if (batch->rows.changes != NULL)
        settle_change_rows(batch, sold ? waiters : NULL);
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
    for (int i = 0; i < solo->late_count; i++) {
        batch_rows_free(&solo->late[i].solo.batch.rows);
        arena_fini(&solo->late[i].op.arena);
    }
    free(solo->late); /* not the arena's: its op has been answered, and is gone */
    solo->late = NULL;
    solo->late_count = 0;
}
