/*
 * checkouts.c - the sale of some holds: begun, and given up. checkout_pay.c completes it.
 */
#include <stddef.h>

#include "checkout_json.h"
#include "hold_request.h"
#include "op_call.h"

#define AT(member) offsetof(struct hold_request, member)

/* --- POST /api/checkouts ------------------------------------------------------------ */

static const struct field_spec start_fields[] = {
    { "event_id", FIELD_ID, AT(event), 0, 0, true, false },
    { "hold_ids", FIELD_HOLD_IDS, AT(holds), 0, 0, false, false },
    { "user_id", FIELD_ID, AT(user), 0, 0, false, false },
};
static const struct body_spec start_body = { false, start_fields, 3 };

static void
start_finish(struct op *op)
{
    op_hide_from_stranger(op);
    if (op->status != HF_OK && op->status != HF_CREATED) {
        op_write_refusal(op->context, op);
        return;
    }
    op_write_json(op->context, HF_CREATED, checkout_json_whole, op->checkout);
    op_write_location(op->context, "/api/checkouts/", &op->checkout->checkout_id);
}

void
checkouts_post(struct api *api, struct api_call *call)
{
    struct hold_request request;
    struct op *op;

    (void)api;
    if (!op_is_admitted(call) || !hold_request_read(call, &start_body, &request) ||
        !call_may_use_event(call, request.event) ||
        (op = op_of_call(call, OP_CHECKOUT_START, start_finish)) == NULL ||
        !op_take_user(call, op, request.user, "user_id"))
        return;
    op->event = request.event;
    op->checkout_id = uuid_v7_new();
    op->holds = request.holds.items;
    op->hold_count = request.holds.count;
    op_submit(call, op);
}

/* --- POST /api/checkouts/{checkout}/cancel ------------------------------------------- */

static void
cancel_finish(struct op *op)
{
    op_hide_from_stranger(op);
    if (op->status == HF_OK)
        op_write_json(op->context, HF_OK, checkout_json_cancelled, op->checkout);
    else
        op_write_refusal(op->context, op);
}

void
checkout_cancel(struct api *api, struct api_call *call)
{
    struct slice notes;
    struct op *op;

    (void)api;
    if (!op_is_admitted(call) || !op_read_notes(call, &notes) ||
        (op = op_of_call(call, OP_CHECKOUT_CANCEL, cancel_finish)) == NULL)
        return;
    op->notes = notes;
    op->reason = "user_cancelled";
    op_submit(call, op);
}
