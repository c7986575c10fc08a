/*
 * solo.c - ops whose pieces stand or fall together over several statements: a patch, a
 * hold of seats and areas, one that replaces the user's other hold, one that adds its
 * free seats to a hold that exists. Each has a transaction of its own, which is rolled
 * back when any piece is refused; that is what makes them all or nothing.
 *
 *   read     what the hold has (before the locks, to know event and owner)
 *   lock     user, holds, areas; then read the hold again: now it is certain
 *   change   release, resize, take
 *   judge    every verdict, and the limits of the whole
 */
#include "engine_internal.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"

#define SOLO_HOLDS_MAX 64 /* active holds of one user that a new one may replace */
#define LINES_MAX      30000

struct solo {
    struct batch      batch;
    struct op        *op;
    struct hold_view *before;       /* the hold that is changed, as it is under its lock */
    bool              paying;       /* a payment for it is in flight */
    struct uuid       result_hold;  /* whose view is the answer */
    int              *adds;         /* seats to take, by index into op->seats */
    int               add_count;
    int              *new_areas;    /* areas that the hold gets */
    int               new_area_count;
    bool              resized;
    struct pg_result *sizes;        /* resize_areas */
    struct pg_result *units;        /* count_units */
    bool              sent_changes;
};

/* --- verdicts of the pieces ------------------------------------------------------- */

/* The order in which refusals are told; a smaller one has the word. */
static int
rank_of(enum hf_status status)
{
    static const enum hf_status order[] = { HF_EVENT_NOT_FOUND, HF_EVENT_CLOSED, HF_SEAT_NOT_FOUND, HF_AREA_NOT_FOUND,
                                            HF_TOO_MANY_SEATS, HF_USER_LIMIT };
    int count = (int)(sizeof(order) / sizeof(order[0]));
    for (int i = 0; i < count; i++)
        if (order[i] == status)
            return i;
    return count;
}

static bool
is_good(enum hf_status status)
{
    return status == HF_OK || status == HF_CREATED;
}

/* Takes a piece's refusal into the whole, if it comes first. */
static void
merge(struct op *op, enum hf_status status)
{
    if (!is_good(status) && (is_good(op->status) || rank_of(status) < rank_of(op->status)))
        op->status = status;
}

static bool
line_has_seat(const struct hold_view *hold, struct slice seat)
{
    for (int i = 0; i < hold->line_count; i++)
        if (hold->lines[i].seat.len > 0 && slice_equal(hold->lines[i].seat, seat))
            return true;
    return false;
}

static const struct hold_line *
line_of_area(const struct hold_view *hold, struct slice area)
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
static enum pg_outcome
read_before(struct solo *solo, const struct uuid *hold)
{
    struct worker    *worker = solo->batch.worker;
    struct pg_array  *orgs = worker_array(worker, 0, PG_TEXT), *holds = worker_array(worker, 1, PG_UUID);
    struct pg_params  params;
    struct pg_result *rows = NULL;
    struct mono_time  deadline = { mono_now().us + worker->node->config->request_timeout };

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
static bool
read_locked(struct solo *solo, const struct uuid *hold)
{
    struct pg_result *rows = NULL;
    send_read_holds(&solo->batch, &solo->op->org, hold, 1);
    pg_tx_flush(solo->batch.worker->pg);
    if (!batch_next(&solo->batch, &rows))
        return false;
    solo->before = pg_rows(rows) > 0 ? hold_view_from_rows(&solo->op->arena, rows, 0, pg_rows(rows)) : NULL;
    solo->paying = any_in_payment(rows);
    pg_result_free(&rows);
    return true;
}

static bool
skip_result(struct solo *solo)
{
    struct pg_result *ignored = NULL;
    bool              ok = batch_next(&solo->batch, &ignored);
    pg_result_free(&ignored);
    return ok;
}

/* --- locks ------------------------------------------------------------------------------ */

/* Sends the locks of a user (may be empty) and a hold (may be NULL), then those of areas. Returns how many results are due. */
static int
send_solo_locks(struct solo *solo, struct slice user, const struct uuid *hold)
{
    int64_t users[1], holds[1];
    int     user_count = 0, hold_count = 0;
    if (user.len > 0)
        users[user_count++] = user_lock_key(solo->op->org, user);
    if (hold != NULL)
        holds[hold_count++] = hold_lock_key(hold);
    send_lock_keys(&solo->batch, users, user_count, holds, hold_count);
    send_lock_areas(&solo->batch);
    return (user_count + hold_count > 0) + 1;
}

static bool
skip_results(struct solo *solo, int count)
{
    for (int i = 0; i < count; i++)
        if (!skip_result(solo))
            return false;
    return true;
}

/* --- limits of the whole --------------------------------------------------------------- */

static void
send_count_units(struct solo *solo, struct slice user)
{
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, solo->op->org);
    pg_param_text(&params, solo->op->event);
    pg_param_text(&params, user);
    pg_param_uuid(&params, &solo->result_hold);
    pg_tx_send(solo->batch.worker->pg, STATEMENT_COUNT_UNITS, &params);
}

/*
 * Counted after the changes: what the user would then have. Seats that were refused are not in it, so
 * they are added: a limit is told before "taken".
 */
static void
judge_limits(struct solo *solo)
{
    const struct policy *policy = &solo->op->info.policy;
    int64_t refused = 0;
    for (int row = solo->op->row_first; solo->batch.rows.seats != NULL && row < solo->op->row_end; row++)
        refused += !pg_get_bool(solo->batch.rows.seats, row, HS_TAKEN);
    int64_t in_hold = pg_get_int(solo->units, 0, 1) + refused, of_user = pg_get_int(solo->units, 0, 0) + refused;
    if (in_hold > policy->max_seats_per_hold)
        merge(solo->op, HF_TOO_MANY_SEATS);
    if (policy->max_seats_per_user > 0 && of_user > policy->max_seats_per_user)
        merge(solo->op, HF_USER_LIMIT);
}

/* --- taking ---------------------------------------------------------------------------------- */

static void
send_takes(struct solo *solo, const struct hold_growth *growth)
{
    if (solo->new_area_count > 0) {
        struct hold_growth after_seats;
        if (growth != NULL) {
            after_seats = *growth;
            after_seats.line_next += solo->add_count;
        }
        send_reclaim_areas(&solo->batch);
        send_hold_areas(&solo->batch, growth ? &after_seats : NULL, solo->new_areas, solo->new_area_count);
    }
    if (solo->add_count > 0)
        send_hold_seats(&solo->batch, growth, solo->adds, solo->add_count);
}

static bool
read_takes(struct solo *solo)
{
    struct batch *batch = &solo->batch;
    if (solo->new_area_count > 0 && (!batch_next(batch, &batch->rows.reclaimed) || !batch_next(batch, &batch->rows.areas)))
        return false;
    return solo->add_count == 0 || batch_next(batch, &batch->rows.seats);
}

/* Seats first, then areas; the op has the whole verdict. */
static void
judge_takes(struct solo *solo, enum hf_status granted)
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
    for (int row = 0; solo->batch.rows.areas != NULL && row < pg_rows(solo->batch.rows.areas); row++) {
        struct op_area *area = &op->areas[solo->new_areas[row]];
        struct op       piece = { .kind = OP_HOLD };
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
        merge(op, piece.status);
    }
}

/* Every seat and area of the request is to be taken. */
static bool
take_all(struct solo *solo)
{
    struct op *op = solo->op;
    solo->adds = arena_alloc(&op->arena, (size_t)(op->seat_count + 1) * sizeof(int));
    solo->new_areas = arena_alloc(&op->arena, (size_t)(op->area_count + 1) * sizeof(int));
    if (solo->adds == NULL || solo->new_areas == NULL)
        return false;
    solo->add_count = solo->new_area_count = 0;
    for (int i = 0; i < op->seat_count; i++)
        solo->adds[solo->add_count++] = i;
    for (int i = 0; i < op->area_count; i++)
        solo->new_areas[solo->new_area_count++] = i;
    return true;
}

/* --- a hold of seats and areas, or of several areas --------------------------------------------- */

static bool
run_mixed(struct solo *solo)
{
    struct op *op = solo->op;
    solo->result_hold = op->hold_id;
    if (!take_all(solo))
        return false;
    int locks = send_solo_locks(solo, op->user, NULL);
    send_takes(solo, NULL);
    send_count_units(solo, op->user);
    pg_tx_flush(solo->batch.worker->pg);
    if (!skip_results(solo, locks) || !read_takes(solo) || !batch_next(&solo->batch, &solo->units))
        return false;
    judge_takes(solo, HF_CREATED);
    if (op->fate == FATE_ANSWER && !op->same)
        judge_limits(solo);
    return true;
}

/* --- one hold per user: the new one replaces the others -------------------------------------------- */

static bool
hold_is_exactly(const struct hold_view *hold, const struct op *op)
{
    int seats = 0, areas = 0;
    for (int i = 0; i < hold->line_count; i++)
        *(hold->lines[i].seat.len > 0 ? &seats : &areas) += 1;
    if (seats != op->seat_count || areas != op->area_count)
        return false;
    for (int i = 0; i < op->seat_count; i++)
        if (!line_has_seat(hold, op->seats[i].id))
            return false;
    for (int i = 0; i < op->area_count; i++) {
        const struct hold_line *line = line_of_area(hold, op->areas[i].id);
        if (line == NULL || line->quantity != op->areas[i].quantity)
            return false;
    }
    return true;
}

/* The user's active holds, locked. Returns how many, -1: the transaction failed. */
static int
lock_user_holds(struct solo *solo, struct uuid holds[SOLO_HOLDS_MAX])
{
    struct op        *op = solo->op;
    struct pg_params  params;
    struct pg_result *rows = NULL;
    int64_t           user = user_lock_key(op->org, op->user);

    send_lock_keys(&solo->batch, &user, 1, NULL, 0);
    pg_params_init(&params);
    pg_param_text(&params, op->org);
    pg_param_text(&params, op->event);
    pg_param_text(&params, op->user);
    pg_tx_send(solo->batch.worker->pg, STATEMENT_LOCK_USER_HOLDS, &params);
    pg_tx_flush(solo->batch.worker->pg);
    if (!skip_result(solo) || !batch_next(&solo->batch, &rows))
        return -1;
    int count = pg_rows(rows) < SOLO_HOLDS_MAX ? pg_rows(rows) : SOLO_HOLDS_MAX;
    for (int i = 0; i < count; i++)
        holds[i] = pg_get_uuid(rows, i, 0);
    pg_result_free(&rows);
    return count;
}

/* Verdicts of the releases: one that can't be released now stops the whole. */
static void
judge_releases(struct solo *solo)
{
    const struct pg_result *rows = solo->batch.rows.changes;
    for (int row = 0; row < pg_rows(rows); row++) {
        struct op piece = { .kind = OP_CANCEL };
        op_judge_word(&piece, pg_get_text(rows, row, CH_CODE));
        if (piece.fate == FATE_LATER) {
            solo->op->fate = FATE_LATER;
            solo->op->status = HF_SEAT_CONTENDED;
        } else if (piece.fate == FATE_ANSWER) {
            merge(solo->op, piece.status);
        }
    }
}

static bool
run_replace(struct solo *solo)
{
    struct op  *op = solo->op;
    struct uuid holds[SOLO_HOLDS_MAX];
    int         count = lock_user_holds(solo, holds);

    solo->result_hold = op->hold_id;
    if (count < 0 || !take_all(solo))
        return false;
    if (count == 1) {
        if (!read_locked(solo, &holds[0]))
            return false;
        if (solo->before != NULL && solo->before->status == HOLD_ACTIVE && hold_is_exactly(solo->before, op)) {
            bool mine = uuid_equal(&holds[0], &op->hold_id); /* made by a run whose outcome was lost */
            op->status = mine ? HF_CREATED : HF_OK;
            op->same = !mine;
            op->grow_hold = holds[0];
            op->fate = FATE_ANSWER;
            return true;
        }
    }
    send_lock_areas(&solo->batch);
    if (count > 0)
        send_solo_change(&solo->batch, op, holds, count, "replaced");
    send_takes(solo, NULL);
    send_count_units(solo, op->user);
    pg_tx_flush(solo->batch.worker->pg);
    if (!skip_result(solo) || (count > 0 && !batch_next(&solo->batch, &solo->batch.rows.changes)) ||
        !read_takes(solo) || !batch_next(&solo->batch, &solo->units))
        return false;
    judge_takes(solo, HF_CREATED);
    if (op->fate == FATE_ANSWER && count > 0)
        judge_releases(solo);
    if (op->fate == FATE_ANSWER && !op->same)
        judge_limits(solo);
    return true;
}

/* --- changing a hold that exists: patch, and a hold request that grows one ----------------------------- */

static void
send_resize(struct solo *solo, const int *areas, int count)
{
    struct worker   *worker = solo->batch.worker;
    struct pg_array *ids = worker_array(worker, 0, PG_TEXT), *quantities = worker_array(worker, 1, PG_INT4);
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
    if (solo->op->actor.len > 0)
        pg_param_text(&params, solo->op->actor);
    else
        pg_param_null(&params);
    pg_param_text(&params, solo->op->request_id);
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
        merge(solo->op, piece.status);
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
    for (int i = 0; i < op->seat_count; i++)
        if (!line_has_seat(solo->before, op->seats[i].id) && !op->seats[i].own)
            solo->adds[solo->add_count++] = i;
    for (int i = 0; i < op->area_count; i++) {
        const struct hold_line *line = line_of_area(solo->before, op->areas[i].id);
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
    bool       all = true;
    for (int i = 0; i < op->drop_count; i++) {
        bool has = line_has_seat(solo->before, op->drop[i].id) || op->may_have_run;
        op->drop[i].code = has ? HF_OK : HF_SEAT_NOT_FOUND;
        all = all && has;
    }
    return all;
}

static bool
send_and_judge_growth(struct solo *solo, int *resize, int resize_count)
{
    struct op         *op = solo->op;
    struct batch      *batch = &solo->batch;
    bool               drops = op->drop_count > 0;
    struct hold_growth growth = { .until = solo->before->held_until, .born = solo->before->created_at,
                                  .line_next = solo->before->line_last + 1, .hold = solo->result_hold,
                                  .user = solo->before->user, .cart_token = solo->before->cart_token,
                                  .source = solo->before->source };
    if (drops)
        send_solo_change(batch, op, &solo->result_hold, 1, "user_cancelled");
    if (resize_count > 0)
        send_resize(solo, resize, resize_count);
    send_takes(solo, &growth);
    send_count_units(solo, solo->before->user);
    pg_tx_flush(batch->worker->pg);
    if ((drops && !batch_next(batch, &batch->rows.changes)) || (resize_count > 0 && !batch_next(batch, &solo->sizes)) ||
        !read_takes(solo) || !batch_next(batch, &solo->units))
        return false;
    judge_takes(solo, HF_OK);
    if (op->fate == FATE_ANSWER && drops)
        judge_releases(solo);
    if (op->fate == FATE_ANSWER && resize_count > 0)
        judge_sizes(solo);
    if (op->fate == FATE_ANSWER && (solo->add_count > 0 || solo->new_area_count > 0 || resize_count > 0))
        judge_limits(solo);
    return true;
}

static bool
run_change(struct solo *solo)
{
    struct op  *op = solo->op;
    struct uuid hold = op->kind == OP_PATCH ? op->hold_id : op->grow_hold;
    int         resize_count = 0, locks;
    int        *resize = arena_alloc(&op->arena, (size_t)(op->area_count + 1) * sizeof(int));
    bool        counts = op->info.policy.max_seats_per_user > 0 || op->area_count > 0 || op->info.policy.one_hold_per_user;

    if (resize == NULL)
        return false;
    solo->result_hold = hold;
    locks = send_solo_locks(solo, counts ? solo->before->user : SLICE_EMPTY, &hold);
    pg_tx_flush(solo->batch.worker->pg);
    struct slice owner = solo->before->user;
    if (!skip_results(solo, locks) || !read_locked(solo, &hold))
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
    return plan_growth(solo, resize, &resize_count) && send_and_judge_growth(solo, resize, resize_count);
}

/* --- one transaction ---------------------------------------------------------------------------------- */

static bool
changes_something(const struct solo *solo)
{
    return solo->op->fate == FATE_ANSWER && is_good(solo->op->status) && !solo->op->same &&
           !(solo->op->status == HF_CREATED && !solo->op->grow && !uuid_is_nil(&solo->op->grow_hold));
}

/* Reads the hold as it is now, within the transaction; over by now means that nothing was granted in time. */
static bool
view_result(struct solo *solo, const struct uuid *hold)
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

/* True: the op's pieces were judged (op->fate, op->status). False: the transaction failed. */
static bool
run_pieces(struct solo *solo)
{
    struct op *op = solo->op;
    bool       ok;
    op->hold = NULL;
    if (op->kind == OP_PATCH || op->grow)
        ok = run_change(solo);
    else if (op->info.policy.one_hold_per_user)
        ok = run_replace(solo);
    else
        ok = run_mixed(solo);
    op->tier = TIER_POSTGRES;
    if (!ok || op->fate != FATE_ANSWER || !is_good(op->status))
        return ok;
    /* Where nothing was changed the answer is the hold that exists. */
    return view_result(solo, changes_something(solo) ? &solo->result_hold : &op->grow_hold);
}

static void
solo_free_rows(struct solo *solo)
{
    batch_rows_free(&solo->batch.rows);
    pg_result_free(&solo->sizes);
    pg_result_free(&solo->units);
}

/*
 * Runs the pieces and commits if they all stand. *changed tells whether there was something to commit
 * beside an answer for a key.
 */
static enum pg_outcome
transact_solo(struct solo *solo, bool *changed)
{
    struct pg    *pg = solo->batch.worker->pg;
    struct batch *batch = &solo->batch;

    *changed = false;
    batch_begin(batch);
    bool ok = !solo->op->keyed || keys_claim(batch);
    if (ok && batch->count == 0) {
        pg_tx_rollback(pg);
        return pg_tx_end(pg);
    }
    ok = ok && run_pieces(solo);
    *changed = ok && changes_something(solo);
    if (*changed && solo->op->keyed)
        ok = keys_store(batch);
    if (ok && *changed)
        pg_tx_commit(pg);
    else
        pg_tx_rollback(pg);
    return pg_tx_end(pg);
}

/* A refusal under a key is kept in a transaction of its own, since the one that found it is rolled back. */
static void
store_refusal(struct solo *solo)
{
    struct pg    *pg = solo->batch.worker->pg;
    struct batch *batch = &solo->batch;
    solo->op->finished = false;
    batch_begin(batch);
    bool ok = keys_claim(batch);
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

/* --- afterwards ------------------------------------------------------------------------------------------ */

static void
settle_solo(struct solo *solo, bool committed)
{
    struct batch      *batch = &solo->batch;
    struct engine     *engine = batch->worker->engine;
    struct op         *op = solo->op;
    struct waiter_list waiters;

    waiter_list_init(&waiters);
    if (committed)
        redis_settle(batch);
    else if (op->fate == FATE_ANSWER)
        redis_undo(batch);
    if (batch->rows.seats != NULL)
        settle_hold_rows(batch, op, committed, &waiters);
    if (committed && batch->rows.changes != NULL)
        settle_change_rows(batch, &waiters);
    if (committed && op->area_count > 0)
        seat_maps_invalidate(batch->worker->node->maps, op->org, op->event);
    if (committed && op->hold != NULL && op->hold->status == HOLD_ACTIVE && op->seat_count == 0)
        settle_area_timer(batch, op, op->hold);
    if (op->fate == FATE_ANSWER)
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
    struct batch  *batch = &solo->batch;
    enum hf_status settled;
    switch (outcome) {
    case PG_DONE:
        if (!changed && solo->op->keyed && solo->op->fate == FATE_ANSWER)
            store_refusal(solo);
        if (batch->count > 0)
            settle_solo(solo, changed);
        return;
    case PG_UNKNOWN:
        settled = batch_outcome(batch);
        if (settled == HF_OK && changed)
            settle_solo(solo, true);
        else if (settled == HF_OUTCOME_UNKNOWN)
            batch_fail(batch, settled);
        else
            batch_run_again(batch, settled == HF_OK);
        return;
    case PG_REPEAT:
        batch_fail(batch, HF_SEAT_CONTENDED);
        return;
    case PG_UNAVAILABLE:
        batch_fail(batch, HF_STORE_UNAVAILABLE);
        return;
    case PG_DATA_ERROR:
    case PG_BUG:
        LOG_EVENT(LOG_ERROR, "request_failed", log_text("sqlstate", pg_last_sqlstate(batch->worker->pg)),
                  log_text("error", pg_last_error(batch->worker->pg)), log_slice("request_id", solo->op->request_id));
        batch_fail(batch, HF_INTERNAL);
        return;
    }
}

/* What a patch (or growth) is about, before any lock. False: the op was answered. */
static bool
look_first(struct solo *solo)
{
    struct op    *op = solo->op;
    struct worker *worker = solo->batch.worker;
    struct uuid   hold = op->kind == OP_PATCH ? op->hold_id : op->grow_hold;
    struct mono_time deadline = { mono_now().us + worker->node->config->request_timeout };
    enum hf_status status = HF_OK;

    if (read_before(solo, &hold) != PG_DONE)
        status = HF_STORE_UNAVAILABLE;
    else if (solo->before == NULL)
        status = HF_HOLD_NOT_FOUND;
    else
        op->event = solo->before->event;
    if (status == HF_OK && policies_read(worker, &op->org, &op->event, 1, deadline) != PG_DONE)
        status = HF_STORE_UNAVAILABLE;
    if (status == HF_OK && !events_find(worker->node->events, op->org, op->event, &op->info))
        status = HF_EVENT_NOT_FOUND;
    if (status == HF_OK && op->info.status == EVENT_CANCELLED && op->seat_count + op->area_count > 0)
        status = HF_EVENT_CLOSED;
    if (status == HF_HOLD_NOT_FOUND && op->keyed) {
        op_fail(op, status);
        store_refusal(solo);
        if (solo->batch.count > 0)
            settle_solo(solo, false);
        return false;
    }
    if (status != HF_OK)
        engine_refuse(worker->engine, op, status);
    return status == HF_OK;
}

void
solo_run(struct worker *worker, struct op *op)
{
    struct op      *ops[1] = { op };
    struct solo     solo = { .batch = { .worker = worker, .ops = ops, .count = 1 }, .op = op };
    enum pg_outcome outcome;
    bool            changed;

    op->row_first = op->row_end = 0;
    if ((op->kind == OP_PATCH || op->grow) && !look_first(&solo))
        return;
    redis_lock(&solo.batch);
    for (int repeats = 0;; repeats++) {
        solo_free_rows(&solo);
        outcome = transact_solo(&solo, &changed);
        bool again = solo.batch.count > 0 &&
                     ((outcome == PG_REPEAT && repeats < REPEATS_MAX) ||
                      (outcome == PG_DATA_ERROR && repeats == 0 && strcmp(pg_last_sqlstate(worker->pg), "23505") == 0));
        if (!again)
            break;
        metric_add(METRIC_BATCHES_REPEATED_TOTAL, 1);
    }
    if (solo.batch.count > 0)
        solo_end(&solo, outcome, changed);
    solo_free_rows(&solo);
}
