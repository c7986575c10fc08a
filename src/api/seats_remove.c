/*
 * seats_remove.c - DELETE /api/events/{event}/seats/{seat}: a free seat goes, its row stays.
 */
#include "api_internal.h"
#include "events_internal.h"

/* Columns of remove_seat, as of block_seats. */
enum { POS, SEAT, CODE, VERSION, HOLD, USER, UNTIL, IN_PAYMENT, STATUS, ENDED, NOW };
static const struct seat_columns columns = { .seat = SEAT,
                                             .version = VERSION,
                                             .status = STATUS,
                                             .hold = HOLD,
                                             .user = USER,
                                             .until = UNTIL,
                                             .in_payment = IN_PAYMENT,
                                             .now = NOW,
                                             .ended = ENDED };

struct remove_tx {
    struct api_call *call;
    struct pg_result *rows; /* of remove_seat */
};

static void
add_key(struct pg_params *params, const struct api_call *call)
{
    pg_params_init(params);
    pg_param_text(params, call_org(call));
    pg_param_text(params, call->event);
}

static enum hf_status
lock_event(struct pg *pg, const struct api_call *call)
{
    struct pg_params params;

    add_key(&params, call);
    pg_tx_send(pg, STATEMENT_LOCK_EVENT, &params);
    struct pg_result *rows = pg_tx_next(pg);
    if (rows == NULL)
        return HF_INTERNAL;
    enum hf_status status = pg_rows(rows) > 0 ? HF_OK : HF_EVENT_NOT_FOUND;
    pg_result_free(&rows);
    return status;
}

/* The statement's words for a refusal are the public codes. */
static enum hf_status
judge(const struct pg_result *rows)
{
    struct slice code = pg_get_text(rows, 0, CODE);
    static const enum hf_status refusals[] = { HF_SEAT_NOT_FOUND, HF_SEAT_TAKEN, HF_SEAT_SOLD };

    if (slice_is(code, "ok") || slice_is(code, "same"))
        return HF_OK;
    if (slice_is(code, "locked"))
        return HF_SEAT_CONTENDED;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        if (slice_is(code, status_code(refusals[i])))
            return refusals[i];
    }
    return HF_INTERNAL;
}

static enum hf_status
remove_body(struct pg *pg, void *context)
{
    struct remove_tx *tx = context;
    struct pg_params params;

    pg_result_free(&tx->rows);
    enum hf_status status = lock_event(pg, tx->call);
    if (status != HF_OK)
        return status;
    add_key(&params, tx->call);
    pg_param_text(&params, tx->call->seat);
    pg_param_text(&params, call_user(tx->call));
    pg_param_text(&params, slice_of(tx->call->exchange->request.request_id));
    call_add_origin(tx->call, &params);
    pg_tx_send(pg, STATEMENT_REMOVE_SEAT, &params);
    tx->rows = pg_tx_next(pg);
    return tx->rows != NULL ? judge(tx->rows) : HF_INTERNAL;
}

/* Not that it was removed already. */
static bool
has_changed(const struct pg_result *rows, int row)
{
    return slice_is(pg_get_text(rows, row, CODE), "ok");
}

static void
answer(struct api_call *call, int64_t version)
{
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_field_text(&w, "seat_id", call->seat);
    json_field_text(&w, "status", SLICE_LITERAL("removed"));
    json_field_int(&w, "version", version);
    json_object_end(&w);
    respond_json(call, 200, &body);
}

static void
remove_run(struct api_call *call, struct desk_tools *tools)
{
    struct remove_tx tx = { .call = call };
    struct mono_time began = mono_now();
    enum hf_status status = tx_run(tools->node, tools->pg, call->deadline, remove_body, &tx);

    if (status == HF_OK) {
        struct tell tell = { tools->node, call_org(call), call->event, began, FEED_REASON_NONE };
        seats_tell(&tell, tx.rows, &columns, has_changed);
        answer(call, pg_get_int(tx.rows, 0, VERSION));
    } else {
        respond_refusal(call, status, NULL);
    }
    pg_result_free(&tx.rows);
}

void
seat_delete(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, remove_run);
}
