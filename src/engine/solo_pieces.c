/*
 * solo_pieces.c - the steps that solo ops are made of: read, lock, take, judge.
 */
#include "solo_internal.h"

/* --- verdicts of the pieces ------------------------------------------------------- */

/* The order in which refusals are told; a smaller one has the word. */
static int
rank_of(enum hf_status status)
{
    static const enum hf_status order[] = { HF_EVENT_NOT_FOUND, HF_EVENT_CLOSED,
                                            HF_SEAT_NOT_FOUND,  HF_AREA_NOT_FOUND,
                                            HF_TOO_MANY_SEATS,  HF_USER_LIMIT };
    int count = (int)(sizeof(order) / sizeof(order[0]));
    for (int i = 0; i < count; i++)
        if (order[i] == status)
            return i;
    return status == HF_SINGLE_SEAT_GAP ? count + 1 : count;
}

bool
solo_is_good(enum hf_status status)
{
    return status == HF_OK || status == HF_CREATED;
}

/* Takes a piece's refusal into the whole, if it comes first. */
void
solo_merge(struct op *op, enum hf_status status)
{
    if (!solo_is_good(status) &&
        (solo_is_good(op->status) || rank_of(status) < rank_of(op->status)))
        op->status = status;
}

bool
view_has_seat(const struct hold_view *hold, struct slice seat)
{
    for (int i = 0; i < hold->line_count; i++)
        if (hold->lines[i].seat.len > 0 && slice_equal(hold->lines[i].seat, seat))
            return true;
    return false;
}

const struct hold_line *
view_area(const struct hold_view *hold, struct slice area)
{
    for (int i = 0; i < hold->line_count; i++)
        if (hold->lines[i].area.len > 0 && slice_equal(hold->lines[i].area, area))
            return &hold->lines[i];
    return NULL;
}

/* --- reading one hold --------------------------------------------------------------- */

static bool
any_in_payment(const struct pg_result *rows)
{
    for (int row = 0; row < pg_rows(rows); row++)
        if (pg_get_bool(rows, row, RH_IN_PAYMENT) &&
            hold_status_of(pg_get_text(rows, row, RH_STATUS)) == HOLD_ACTIVE)
            return true;
    return false;
}

/* A read of its own, before the transaction: what the op is about. */
enum pg_outcome
solo_read_before(struct solo *solo, const struct uuid *hold)
{
    struct worker *worker = solo->batch.worker;
    struct pg_array *orgs = worker_array(worker, 0, PG_TEXT),
                    *holds = worker_array(worker, 1, PG_UUID);
    struct pg_params params;
    struct pg_result *rows = NULL;
    struct mono_time deadline = ops_store_deadline(worker->engine, &solo->op, 1);

    pg_array_text(orgs, solo->op->org);
    pg_array_uuid(holds, hold);
    pg_params_init(&params);
    pg_param_array(&params, orgs);
    pg_param_array(&params, holds);
    enum pg_outcome outcome = pg_run(worker->pg, STATEMENT_READ_HOLDS, &params, deadline, &rows);
    solo->before = NULL;
    if (outcome == PG_DONE && pg_rows(rows) > 0) {
        solo->before = hold_view_from_rows(&solo->op->arena, rows, 0, pg_rows(rows));
        if (solo->before == NULL)
            outcome = PG_UNAVAILABLE; /* no memory for it */
    }
    pg_result_free(&rows);
    return outcome;
}

/* The same under the locks. False: the transaction failed. */
bool
solo_read_locked(struct solo *solo, const struct uuid *hold)
{
    struct pg_result *rows = NULL;
    send_read_holds(&solo->batch, &solo->op->org, hold, 1);
    pg_tx_flush(solo->batch.worker->pg);
    if (!batch_next(&solo->batch, &rows))
        return false;
    solo->before =
        pg_rows(rows) > 0 ? hold_view_from_rows(&solo->op->arena, rows, 0, pg_rows(rows)) : NULL;
    solo->paying = any_in_payment(rows);
    pg_result_free(&rows);
    return true;
}

bool
solo_skip(struct solo *solo, int count)
{
    solo->batch.due += count;
    return batch_skip_due(&solo->batch);
}

/* --- locks ------------------------------------------------------------------------------ */

void
solo_send_locks(struct solo *solo, struct slice user, const struct uuid *hold)
{
    int64_t users[1], holds[1];
    int user_count = 0, hold_count = 0;
    if (user.len > 0)
        users[user_count++] = user_lock_key(solo->op->org, user);
    if (hold != NULL)
        holds[hold_count++] = hold_lock_key(hold);
    send_lock_keys(&solo->batch, users, user_count, holds, hold_count);
    send_lock_areas(&solo->batch);
    solo->batch.due += (user_count + hold_count > 0) + 1;
}

bool
solo_decide_gap(struct solo *solo, struct slice user, const struct uuid *replaced,
                int replaced_count)
{
    struct op *op = solo->op;
    op->gap = OP_GAP_GOOD;
    if (!op->info.policy.no_single_seat_gap || solo->add_count == 0)
        return true;
    solo->batch.rows.gaps = gaps_new(1);
    gaps_add(solo->batch.rows.gaps, op, user, solo->adds, solo->add_count);
    gaps_replace(solo->batch.rows.gaps, replaced, replaced_count);
    return gaps_decide(&solo->batch);
}

/* --- limits of the whole --------------------------------------------------------------- */

void
solo_send_count(struct solo *solo, struct slice user)
{
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, solo->op->org);
    pg_param_text(&params, solo->op->event);
    pg_param_text(&params, user);
    pg_param_uuid(&params, &solo->result_hold);
    pg_tx_send(solo->batch.worker->pg, STATEMENT_COUNT_UNITS, &params);
}

/* Counted before anything is taken: what the user has beside this hold, and what the hold shall
 * have. */
void
solo_judge_limits(struct solo *solo)
{
    const struct policy *policy = &solo->op->info.policy;
    int64_t elsewhere = pg_get_int(solo->units, 0, 0) - pg_get_int(solo->units, 0, 1);
    if (solo->planned > policy->max_seats_per_hold)
        solo_merge(solo->op, HF_TOO_MANY_SEATS);
    if (policy->max_seats_per_user > 0 && elsewhere + solo->planned > policy->max_seats_per_user)
        solo_merge(solo->op, HF_USER_LIMIT);
}

/* --- taking ---------------------------------------------------------------------------------- */

void
solo_send_takes(struct solo *solo, const struct hold_growth *growth)
{
    if (solo->new_area_count > 0) {
        struct hold_growth after_seats;
        if (growth != NULL) {
            after_seats = *growth;
            after_seats.line_next += solo->add_count;
        }
        send_reclaim_areas(&solo->batch);
        send_hold_areas(&solo->batch, growth ? &after_seats : NULL, solo->new_areas,
                        solo->new_area_count);
    }
    solo->seats_follow = growth == NULL && solo->new_area_count > 0 && solo->add_count > 0;
    if (solo->add_count > 0 && !solo->seats_follow)
        send_hold_seats(&solo->batch, growth, solo->adds, solo->add_count);
}

/* Law 4: one birth and one end for the whole of a new hold. Its areas have them already. */
static void
send_seats_after_areas(struct solo *solo)
{
    const struct op *op = solo->op;
    const struct pg_result *areas = solo->batch.rows.areas;
    struct hold_growth whole = { .until = pg_get_time(areas, 0, HA_UNTIL),
                                 .born = pg_get_time(areas, 0, HA_BORN),
                                 .line_next = 1,
                                 .hold = op->hold_id,
                                 .user = op->user,
                                 .cart_token = op->cart_token,
                                 .source = op->source };
    /* Refused areas have no end; the seats are judged all the same, for they are told of first. */
    send_hold_seats(&solo->batch, pg_get_bool(areas, 0, HA_TAKEN) ? &whole : NULL, solo->adds,
                    solo->add_count);
    pg_tx_flush(solo->batch.worker->pg);
}

bool
solo_read_takes(struct solo *solo)
{
    struct batch *batch = &solo->batch;
    if (solo->new_area_count > 0 &&
        (!batch_next(batch, &batch->rows.reclaimed) || !batch_next(batch, &batch->rows.areas)))
        return false;
    if (solo->seats_follow)
        send_seats_after_areas(solo);
    return solo->add_count == 0 || batch_next(batch, &batch->rows.seats);
}

/* Seats first, then areas; the op has the whole verdict. */
void
solo_judge_takes(struct solo *solo, enum hf_status granted)
{
    struct op *op = solo->op;
    op->status = granted;
    op->fate = FATE_ANSWER;
    op->same = false;
    if (solo->add_count > 0) {
        judge_seats_of(op, solo->batch.rows.seats);
        if (op->fate != FATE_ANSWER)
            return;
        if (op->status == HF_CREATED)
            op->status = granted;
    }
    for (int row = 0; solo->batch.rows.areas != NULL && row < pg_rows(solo->batch.rows.areas);
         row++) {
        struct op_area *area = &op->areas[solo->new_areas[row]];
        struct op piece = { .kind = OP_HOLD };
        op_judge_word(&piece, pg_get_text(solo->batch.rows.areas, row, HA_CODE));
        area->code = piece.status;
        if (piece.fate == FATE_AGAIN) {
            op->fate = FATE_AGAIN;
            return;
        }
        if (piece.same) { /* an active hold of the same areas is the answer */
            op->same = true;
            op->status = HF_OK;
            op->grow_hold = pg_get_uuid(solo->batch.rows.areas, row, HA_HOLD);
            return;
        }
        solo_merge(op, piece.status);
    }
}

/* Every seat and area of the request is to be taken. */
bool
solo_take_all(struct solo *solo)
{
    struct op *op = solo->op;
    solo->adds = arena_alloc(&op->arena, (size_t)(op->seat_count + 1) * sizeof(int));
    solo->new_areas = arena_alloc(&op->arena, (size_t)(op->area_count + 1) * sizeof(int));
    if (solo->adds == NULL || solo->new_areas == NULL)
        return false;
    solo->add_count = solo->new_area_count = 0;
    for (int i = 0; i < op->seat_count; i++)
        solo->adds[solo->add_count++] = i;
    solo->planned = op->seat_count;
    for (int i = 0; i < op->area_count; i++) {
        solo->new_areas[solo->new_area_count++] = i;
        solo->planned += op->areas[i].quantity;
    }
    return true;
}

/* What can't be done to one hold now stops the whole. */
void
solo_judge_changes(struct solo *solo)
{
    const struct pg_result *rows = solo->batch.rows.changes;
    for (int row = 0; row < pg_rows(rows); row++) {
        struct op piece = { .kind = solo->op->kind };
        op_judge_word(&piece, pg_get_text(rows, row, CH_CODE));
        solo->op->of_flight |= pg_get_bool(rows, row, CH_FLIGHT);
        if (piece.fate == FATE_LATER) {
            solo->op->fate = FATE_LATER;
            solo->op->status = HF_SEAT_CONTENDED;
        } else if (piece.fate == FATE_ANSWER) {
            solo_merge(solo->op, piece.status);
        }
    }
}
