/*
 * waitlist_leave.c - DELETE /waitlist/{waitlist}.
 *
 * Who waits leaves in one transaction. Who has an offer gives its hold back, as with any hold: by
 * the engine; what then became of the entry is written down behind it (or by the waitlist's room,
 * should this node die in between), and the seat goes to the next.
 */
#include "events_internal.h"
#include "holdfast/log.h"
#include "op_call.h"
#include "waitlist_json.h"

struct leaving {
    struct api_call *call;
    bool has_offer;
    struct slice user; /* whose it is */
    struct uuid hold;
    enum hf_status status; /* of the hold's release */
};

/* Columns of leave_waiting. */
enum { LEAVE_USER, LEAVE_STATE, LEAVE_HOLD, LEAVE_EVENT };

/* --- one who has an offer --------------------------------------------------------------------- */

static enum hf_status
settle_body(struct pg *pg, void *context)
{
    struct api_call *call = context;
    struct pg_array orgs, entries;
    struct pg_params params;

    pg_array_init(&orgs, PG_TEXT);
    pg_array_init(&entries, PG_UUID);
    pg_array_text(&orgs, call_org(call));
    pg_array_uuid(&entries, &call->waitlist_id);
    pg_params_init(&params);
    pg_param_array(&params, &orgs);
    pg_param_array(&params, &entries);
    pg_param_bool(&params, false);
    pg_param_text(&params, call_user(call));
    pg_param_text(&params, slice_of(call->exchange->request.request_id));
    call_add_origin(call, &params);
    pg_tx_send(pg, STATEMENT_SETTLE_OFFERS, &params);
    pg_array_fini(&orgs);
    pg_array_fini(&entries);
    pg_tx_flush(pg);
    struct pg_result *rows = pg_tx_next(pg);
    enum hf_status status = rows != NULL ? HF_OK : HF_INTERNAL;
    pg_result_free(&rows);
    return status;
}

/* The hold is released; that is what counts, whether or not the rest is written down by now. */
static void
settle_run(struct api_call *call, struct desk_tools *tools)
{
    if (tx_run(call->api->node, tools->pg, call->deadline, settle_body, call) != HF_OK)
        LOG_EVENT(LOG_DEBUG, "offer_not_settled",
                  log_text("request_id", call->exchange->request.request_id));
    waitlist_answer_entry(call, tools);
}

static void
release_finish(struct op *op)
{
    struct api_call *call = op->context;
    struct leaving *leaving = call->state;

    leaving->status = op->status;
    if (op->status != HF_OK)
        op_write_refusal(call, op);
}

static void
release_send(struct op *op)
{
    struct api_call *call = op->context;
    const struct leaving *leaving = call->state;

    arena_fini(&op->arena);
    if (leaving->status == HF_OK)
        call_on_desk(call, settle_run);
    else
        respond_send(call);
}

/* For whom it is: what they have passed on to another stays there. */
static void
release(struct api_call *call, const struct leaving *leaving)
{
    struct op *op = op_of_call(call, OP_CANCEL, release_finish);
    if (op == NULL)
        return;
    op->send = release_send;
    op->hold_id = leaving->hold;
    op->user = leaving->user;
    op->privileged = false;
    op->reason = "user_cancelled";
    op_submit(call, op);
}

/* --- one who waits -------------------------------------------------------------------------- */

static enum hf_status
judge(struct leaving *leaving, const struct pg_result *rows)
{
    if (pg_rows(rows) == 0 || !call_sees_event(leaving->call, pg_get_text(rows, 0, LEAVE_EVENT)))
        return HF_NOT_FOUND;
    struct slice state = pg_get_text(rows, 0, LEAVE_STATE);
    leaving->has_offer = slice_is(state, "OFFERED");
    leaving->hold = pg_get_uuid(rows, 0, LEAVE_HOLD);
    leaving->user = arena_copy(&leaving->call->arena, pg_get_text(rows, 0, LEAVE_USER));
    if (leaving->user.ptr == NULL)
        return HF_OVERLOADED;
    return slice_is(state, "ASSIGNED") ? HF_HOLD_NOT_ACTIVE : HF_OK;
}

static enum hf_status
leave_body(struct pg *pg, void *context)
{
    struct leaving *leaving = context;
    struct api_call *call = leaving->call;
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_uuid(&params, &call->waitlist_id);
    if (call_is_privileged(call))
        pg_param_null(&params);
    else
        pg_param_text(&params, call_user(call));
    pg_param_text(&params, call_user(call));
    pg_param_text(&params, slice_of(call->exchange->request.request_id));
    call_add_origin(call, &params);
    pg_tx_send(pg, STATEMENT_LEAVE_WAITING, &params);
    pg_tx_flush(pg);
    struct pg_result *rows = pg_tx_next(pg);
    enum hf_status status = rows != NULL ? judge(leaving, rows) : HF_INTERNAL;
    pg_result_free(&rows);
    return status;
}

static void
leave_run(struct api_call *call, struct desk_tools *tools)
{
    struct leaving *leaving = call->state;
    enum hf_status status = tx_run(call->api->node, tools->pg, call->deadline, leave_body, leaving);

    if (status != HF_OK)
        respond_refusal(call, status, status == HF_NOT_FOUND ? NO_WAITLIST_ENTRY : NULL);
    else if (leaving->has_offer)
        release(call, leaving);
    else
        waitlist_answer_entry(call, tools);
}

void
waitlist_delete(struct api *api, struct api_call *call)
{
    struct leaving *leaving = arena_alloc(&call->arena, sizeof(*leaving));

    (void)api;
    if (leaving == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    *leaving = (struct leaving){ .call = call };
    call->state = leaving;
    call_on_desk(call, leave_run);
}
