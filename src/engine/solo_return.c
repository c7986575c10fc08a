/*
 * solo_return.c - what was sold is given back: by whoever has it, or because the same user has
 * bought something else, where the policy is one seat per user.
 *
 * The second happens in the transaction of the sale, behind it: whoever looks sees the old seat, or
 * the new one, never both and never none. Lines that are sold end under the lock of their user, so
 * a user's sales and returns follow one another. A confirm can't know from its hold's id what the
 * policy is: it comes in a batch, is told to come alone, and does.
 */
#include "solo_internal.h"

#include <string.h>

/* --- given back ------------------------------------------------------------------- */

/* seat: empty: all that the user has bought. */
static void
send_return(struct solo *solo, struct slice user, struct slice seat, const struct uuid *keep,
            int keep_count, const char *reason)
{
    const struct op *op = solo->op;
    struct pg_array *kept = worker_array(solo->batch.worker, 0, PG_UUID);
    struct pg_params params;

    for (int i = 0; i < keep_count; i++)
        pg_array_uuid(kept, &keep[i]);
    pg_params_init(&params);
    pg_param_text(&params, op->org);
    pg_param_text(&params, op->event);
    pg_param_text(&params, user);
    pg_param_optional(&params, seat);
    pg_param_bool(&params, seat.len == 0);
    pg_param_array(&params, kept);
    pg_param_text(&params, slice_of(reason));
    pg_param_optional(&params, op->notes);
    pg_param_optional(&params, op->actor);
    pg_param_optional(&params, op->request_id);
    pg_param_optional(&params, op->client_ip);
    pg_param_optional(&params, op->user_agent);
    pg_tx_send(solo->batch.worker->pg, STATEMENT_RETURN_SEATS, &params);
}

static bool
read_return(struct solo *solo)
{
    if (!batch_next(&solo->batch, &solo->returned))
        return false;
    if (pg_rows(solo->returned) > 0 &&
        slice_is(pg_get_text(solo->returned, 0, CH_CODE), "locked")) {
        solo->op->status = HF_SEAT_CONTENDED;
        solo->op->fate = FATE_LATER;
    }
    return true;
}

bool
solo_give_back(struct solo *solo, struct slice user, const struct uuid *keep, int keep_count)
{
    send_return(solo, user, SLICE_EMPTY, keep, keep_count, "replaced");
    pg_tx_flush(solo->batch.worker->pg);
    return read_return(solo);
}

/* Changes of its own beside those of the op. */
void
solo_settle_returned(struct solo *solo, struct waiter_list *waiters)
{
    struct batch piece = solo->batch;

    if (solo->returned == NULL)
        return;
    piece.rows = (struct batch_rows){ .changes = solo->returned };
    redis_settle(&piece);
    settle_change_rows(&piece, waiters);
}

/* --- a confirm, alone ------------------------------------------------------------- */

enum hf_status
solo_look_confirm(struct solo *solo)
{
    struct op *op = solo->op;

    if (solo_read_before(solo, &op->hold_id) != PG_DONE)
        return HF_STORE_UNAVAILABLE;
    if (solo->before == NULL)
        return HF_HOLD_NOT_FOUND;
    op->event = solo->before->event;
    return HF_OK;
}

bool
solo_run_confirm(struct solo *solo)
{
    struct op *op = solo->op;
    struct batch *batch = &solo->batch;
    struct slice owner = solo->before->user;

    solo->holds = &op->hold_id;
    solo->hold_count = 1;
    int locks = solo_send_hold_locks(solo, owner);
    if (locks < 0)
        return false;
    batch->due += locks;
    send_solo_change(batch, op, "confirm", &op->hold_id, 1, NULL);
    send_read_holds(batch, &op->org, &op->hold_id, 1);
    pg_tx_flush(batch->worker->pg);
    if (!batch_skip_due(batch) || !batch_next(batch, &batch->rows.changes) ||
        !batch_next(batch, &batch->rows.views))
        return false;
    judge_changes(batch);
    if (op->fate != FATE_ANSWER || op->status != HF_OK || op->same)
        return true;
    if (!slice_equal(owner, op->hold->user)) {
        op->fate = FATE_AGAIN; /* transferred meanwhile: another user's lock is needed */
        return true;
    }
    return solo_give_back(solo, owner, &op->hold_id, 1);
}

/* --- a seat is returned ----------------------------------------------------------- */

/* Columns of read_seat. */
enum { RS_EVENT_EXISTS, RS_STATUS, RS_IN_PAYMENT, RS_VERSION, RS_HOLD, RS_USER, RS_UNTIL, RS_NOW };

static void
send_read_seat(const struct op *op, struct pg_params *params)
{
    pg_params_init(params);
    pg_param_text(params, op->org);
    pg_param_text(params, op->event);
    pg_param_text(params, op->seats[0].id);
}

/* HF_OK: it is held or sold, and may be returned by this op; *status is which. */
static enum hf_status
see_seat(struct op *op, const struct pg_result *rows, enum seat_status *status)
{
    struct slice user = pg_get_text(rows, 0, RS_USER);
    bool has_status = seat_status_parse(pg_get_text(rows, 0, RS_STATUS), status);

    op->seats[0].code = HF_SEAT_NOT_FOUND;
    if (!has_status || (*status != SEAT_HELD && *status != SEAT_SOLD) ||
        (op->user.len > 0 && !slice_equal(op->user, user)))
        return HF_SEAT_NOT_FOUND;
    bool in_payment = pg_get_bool(rows, 0, RS_IN_PAYMENT);
    if (*status == SEAT_HELD && !in_payment &&
        pg_get_time(rows, 0, RS_UNTIL).us <= pg_get_time(rows, 0, RS_NOW).us)
        return HF_SEAT_NOT_FOUND; /* it is over */
    op->seats[0].code = HF_OK;
    return in_payment ? HF_PAYMENT_IN_FLIGHT : HF_OK;
}

/* Whose lock is needed, and which hold's. */
enum hf_status
solo_look_return(struct solo *solo)
{
    struct op *op = solo->op;
    struct worker *worker = solo->batch.worker;
    struct pg_params params;
    struct pg_result *rows = NULL;
    enum seat_status seat;
    enum hf_status status = HF_STORE_UNAVAILABLE;

    send_read_seat(op, &params);
    if (pg_run(worker->pg, STATEMENT_READ_SEAT, &params,
               ops_store_deadline(worker->engine, &solo->op, 1), &rows) == PG_DONE)
        status = see_seat(op, rows, &seat);
    if (status == HF_OK) {
        solo->holder = arena_copy(&op->arena, pg_get_text(rows, 0, RS_USER));
        op->hold_id = pg_get_uuid(rows, 0, RS_HOLD);
        if (solo->holder.ptr == NULL)
            status = HF_STORE_UNAVAILABLE;
    }
    pg_result_free(&rows);
    return status;
}

/* Under the locks: false when the transaction failed; op->status says whether it is to go on. */
static bool
see_locked_seat(struct solo *solo, enum seat_status *seat)
{
    struct op *op = solo->op;
    struct batch *batch = &solo->batch;
    struct pg_params params;
    struct pg_result *rows = NULL;
    int64_t user = user_lock_key(op->org, solo->holder), hold = hold_lock_key(&op->hold_id);

    send_lock_keys(batch, &user, 1, &hold, 1);
    batch->due++;
    send_read_seat(op, &params);
    pg_tx_send(batch->worker->pg, STATEMENT_READ_SEAT, &params);
    pg_tx_flush(batch->worker->pg);
    if (!batch_skip_due(batch) || !batch_next(batch, &rows))
        return false;
    op->status = see_seat(op, rows, seat);
    struct uuid has = pg_get_uuid(rows, 0, RS_HOLD);
    if (op->status == HF_OK && (!uuid_equal(&has, &op->hold_id) ||
                                !slice_equal(solo->holder, pg_get_text(rows, 0, RS_USER))))
        op->fate = FATE_AGAIN; /* it is another's by now */
    pg_result_free(&rows);
    return true;
}

/* A cancel of this seat alone; its hold keeps the others. */
static void
send_remove(struct solo *solo)
{
    struct op one = *solo->op;

    one.user = solo->holder;
    one.privileged = false;
    one.drop = one.seats;
    one.drop_count = 1;
    send_solo_change(&solo->batch, &one, "remove", &one.hold_id, 1, one.reason);
}

static void
judge_return(struct solo *solo)
{
    struct op *op = solo->op;

    if (solo->batch.rows.changes != NULL)
        solo_judge_changes(solo);
    else if (pg_rows(solo->returned) == 0)
        op->status = HF_SEAT_NOT_FOUND;
    if (op->fate != FATE_ANSWER)
        return;
    if (op->status != HF_OK && op->status != HF_PAYMENT_IN_FLIGHT)
        op->status = HF_SEAT_NOT_FOUND; /* it has run out, just now */
    op->seats[0].code = op->status;
    if (op->status == HF_OK && !op_show(op, solo->batch.rows.views, 1))
        op_fail(op, HF_STORE_UNAVAILABLE);
}

bool
solo_run_return(struct solo *solo)
{
    struct op *op = solo->op;
    struct batch *batch = &solo->batch;
    enum seat_status seat = SEAT_AVAILABLE;

    op->fate = FATE_ANSWER;
    op->same = false;
    op->reason = "user_cancelled";
    if (!see_locked_seat(solo, &seat))
        return false;
    if (op->fate != FATE_ANSWER || op->status != HF_OK)
        return true;
    if (seat == SEAT_HELD)
        send_remove(solo);
    else
        send_return(solo, solo->holder, op->seats[0].id, NULL, 0, op->reason);
    send_read_holds(batch, &op->org, &op->hold_id, 1);
    pg_tx_flush(batch->worker->pg);
    bool ok = seat == SEAT_HELD ? batch_next(batch, &batch->rows.changes) : read_return(solo);
    if (!ok || !batch_next(batch, &batch->rows.views))
        return false;
    judge_return(solo);
    return true;
}
