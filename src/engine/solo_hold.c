/*
 * solo_hold.c - new holds that need a transaction of their own: of seats and areas, of
 * several areas, or one that replaces the user's other hold.
 */
#include "solo_internal.h"

/* --- a hold of seats and areas, or of several areas ---------------------------------------------
 */

bool
solo_run_mixed(struct solo *solo)
{
    struct op *op = solo->op;
    solo->result_hold = op->hold_id;
    if (!solo_take_all(solo))
        return false;
    solo_send_locks(solo, op->user, NULL);
    if (!solo_decide_gap(solo, op->user, NULL, 0))
        return false;
    solo_send_count(solo, op->user);
    solo_send_takes(solo, NULL);
    pg_tx_flush(solo->batch.worker->pg);
    if (!batch_skip_due(&solo->batch) || !batch_next(&solo->batch, &solo->units) ||
        !solo_read_takes(solo))
        return false;
    solo_judge_takes(solo, HF_CREATED);
    if (op->fate == FATE_ANSWER && !op->same)
        solo_judge_limits(solo);
    return true;
}

/* --- one hold per user: the new one replaces the others
 * -------------------------------------------- */

static bool
hold_is_exactly(const struct hold_view *hold, const struct op *op)
{
    int seats = 0, areas = 0;
    for (int i = 0; i < hold->line_count; i++)
        *(hold->lines[i].seat.len > 0 ? &seats : &areas) += 1;
    if (seats != op->seat_count || areas != op->area_count)
        return false;
    for (int i = 0; i < op->seat_count; i++)
        if (!view_has_seat(hold, op->seats[i].id))
            return false;
    for (int i = 0; i < op->area_count; i++) {
        const struct hold_line *line = view_area(hold, op->areas[i].id);
        if (line == NULL || line->quantity != op->areas[i].quantity)
            return false;
    }
    return true;
}

int
solo_lock_user_holds(struct solo *solo, struct uuid holds[SOLO_HOLDS_MAX])
{
    struct op *op = solo->op;
    struct pg_params params;
    struct pg_result *rows = NULL;
    int64_t user = user_lock_key(op->org, op->user);

    send_lock_keys(&solo->batch, &user, 1, NULL, 0);
    solo->batch.due++;
    pg_params_init(&params);
    pg_param_text(&params, op->org);
    pg_param_text(&params, op->event);
    pg_param_text(&params, op->user);
    pg_tx_send(solo->batch.worker->pg, STATEMENT_LOCK_USER_HOLDS, &params);
    pg_tx_flush(solo->batch.worker->pg);
    if (!batch_skip_due(&solo->batch) || !batch_next(&solo->batch, &rows))
        return -1;
    int count = pg_rows(rows) < SOLO_HOLDS_MAX ? pg_rows(rows) : SOLO_HOLDS_MAX;
    for (int i = 0; i < count; i++)
        holds[i] = pg_get_uuid(rows, i, 0);
    pg_result_free(&rows);
    return count;
}

bool
solo_replace(struct solo *solo, const struct uuid *holds, int count)
{
    struct op *op = solo->op;
    struct batch *batch = &solo->batch;

    if (count > 0)
        send_solo_change(batch, op, "cancel", holds, count, "replaced");
    solo_send_count(solo, op->user);
    solo_send_takes(solo, NULL);
    pg_tx_flush(batch->worker->pg);
    if (!batch_skip_due(batch) || (count > 0 && !batch_next(batch, &batch->rows.changes)) ||
        !batch_next(batch, &solo->units) || !solo_read_takes(solo))
        return false;
    solo_judge_takes(solo, HF_CREATED);
    if (op->fate == FATE_ANSWER && count > 0)
        solo_judge_changes(solo);
    if (op->fate == FATE_ANSWER && !op->same)
        solo_judge_limits(solo);
    return true;
}

bool
solo_run_replace(struct solo *solo)
{
    struct op *op = solo->op;
    struct uuid holds[SOLO_HOLDS_MAX];
    int count = solo_lock_user_holds(solo, holds);

    solo->result_hold = op->hold_id;
    if (count < 0 || !solo_take_all(solo))
        return false;
    if (count == 1) {
        if (!solo_read_locked(solo, &holds[0]))
            return false;
        if (solo->before != NULL && solo->before->status == HOLD_ACTIVE &&
            hold_is_exactly(solo->before, op)) {
            bool mine =
                uuid_equal(&holds[0], &op->hold_id); /* made by a run whose outcome was lost */
            op->status = mine ? HF_CREATED : HF_OK;
            op->same = !mine;
            op->grow_hold = holds[0];
            op->fate = FATE_ANSWER;
            return true;
        }
    }
    send_lock_areas(&solo->batch);
    solo->batch.due++;
    return solo_decide_gap(solo, op->user, holds, count) && solo_replace(solo, holds, count);
}
