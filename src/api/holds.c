/*
 * holds.c - requests that change holds: read, turned into an op, handed to the engine.
 *
 * What the body may say is judged here, on the loop; everything that depends on what
 * others have is the engine's. When memory refuses, engine_submit answers before it
 * returns: the way of most requests of a flash sale ends in this file's hold_finish.
 */
#include "api_internal.h"
#include "hold_json.h"
#include "hold_submit.h"
#include "op_call.h"

/* --- from the op to the answer -------------------------------------------------- */

static void
write_hold(struct json_writer *w, const void *hold)
{
    hold_json_write(w, hold);
}

/* To a flight a hold that is over isn't there to be confirmed (seed 003). */
static void
speak_as_flights_do(struct op *op)
{
    op_hide_from_stranger(op);
    if (op_is_of_flight(op) && op->status == HF_HOLD_EXPIRED && op->kind == OP_CONFIRM)
        op->status = HF_HOLD_NOT_FOUND;
}

static void
hold_finish(struct op *op)
{
    speak_as_flights_do(op);
    bool is_done = op->status == HF_OK || op->status == HF_CREATED;

    hf_assert(!is_done || op->hold != NULL);
    if (!is_done) {
        op_write_refusal(op->context, op);
        return;
    }
    op_write_json(op->context, op->status, write_hold, op->hold);
    if (op->status == HF_CREATED)
        op_write_location(op->context, "/api/holds/", &op->hold->hold_id);
}

static struct op *
hold_op(struct api_call *call, enum op_kind kind)
{
    return op_of_call(call, kind, hold_finish);
}

/* --- POST /api/holds, POST /api/events/{event}/seats/{seat}/hold --------------------- */

static const struct field_spec hold_fields[] = {
    { "event_id", FIELD_ID, AT(event), 0, 0, true, false },
    { "showId", FIELD_ID, AT(event), 0, 0, false, true },
    { "seat_ids", FIELD_SEAT_IDS, AT(seats), 0, 0, false, false },
    { "showSeatIds", FIELD_SEAT_IDS, AT(seats), 0, 0, false, true },
    { "areas", FIELD_AREAS, AT(areas), 1, SEATS_IN_REQUEST_MAX, false, false },
    CART_FIELDS(false),
};
static const struct body_spec hold_body = { false, hold_fields, COUNT(hold_fields) };

static const struct field_spec seat_hold_fields[] = { CART_FIELDS(true) };
static const struct body_spec seat_hold_body = { false, seat_hold_fields, COUNT(seat_hold_fields) };

bool
hold_make_cart_token(struct api_call *call, struct slice *cart_token)
{
    struct uuid uuid = uuid_v7_new();
    char *text = arena_alloc(&call->arena, UUID_TEXT_BYTES);

    if (text == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return false;
    }
    uuid_format(&uuid, text);
    *cart_token = slice_of(text);
    return true;
}

static bool
has_what_a_hold_needs(struct api_call *call, struct hold_request *request)
{
    struct field_errors errors = { 0 };

    if (request->seats.count == 0 && request->areas.count == 0)
        field_errors_missing(&call->arena, &errors, SLICE_LITERAL("seat_ids"));
    if (request->cart_token.len == 0 && !request->has_seed_names)
        field_errors_missing(&call->arena, &errors, SLICE_LITERAL("cart_token"));
    if (errors.count > 0) {
        respond_field_errors(call, &errors);
        return false;
    }
    return request->cart_token.len > 0 || hold_make_cart_token(call, &request->cart_token);
}

/* Only what is known in memory is judged here; the engine judges again. */
static bool
ttl_is_allowed(struct api_call *call, const struct hold_request *request)
{
    struct event_info info;

    if (request->ttl_s == 0)
        return true;
    if (!call_is_privileged(call)) {
        respond_refusal(call, HF_FORBIDDEN, "Only agent, service and admin choose ttl_seconds.");
        return false;
    }
    if (events_find(call->api->node->events, call_org(call), request->event, &info) &&
        request->ttl_s > info.policy.max_hold_s) {
        respond_field_error(call, "ttl_seconds", "is longer than the event's max_hold");
        return false;
    }
    return true;
}

void
hold_submit(struct api_call *call, const struct hold_request *request, struct op_best *best)
{
    struct op *op = hold_op(call, OP_HOLD);

    if (op == NULL || !op_take_user(call, op, request->user, "user_id") ||
        !ttl_is_allowed(call, request))
        return;
    op->event = request->event;
    op->hold_id = uuid_v7_new();
    op->seats = request->seats.items;
    op->seat_count = request->seats.count;
    op->areas = request->areas.items;
    op->area_count = request->areas.count;
    op->best = best;
    op->cart_token = request->cart_token;
    op->source = request->source.len > 0 ? request->source : SLICE_LITERAL("web");
    if (request->customer_email.len > 0)
        op->customer_email = request->customer_email;
    op->seconds = (int32_t)request->ttl_s;
    op_submit(call, op);
}

void
holds_post(struct api *api, struct api_call *call)
{
    struct hold_request request;

    (void)api;
    if (hold_request_read(call, &hold_body, &request) && has_what_a_hold_needs(call, &request) &&
        call_may_use_event(call, request.event))
        hold_submit(call, &request, NULL);
}

void
seat_hold_post(struct api *api, struct api_call *call)
{
    struct hold_request request;

    (void)api;
    if (!hold_request_read(call, &seat_hold_body, &request))
        return;
    request.seats.items = arena_alloc(&call->arena, sizeof(*request.seats.items));
    if (request.seats.items == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    request.seats.items[0] = (struct op_seat){ .id = call->seat, .expect_version = -1 };
    request.seats.count = 1;
    request.event = call->event;
    hold_submit(call, &request, NULL);
}

/* --- PATCH /api/holds/{hold} ---------------------------------------------------------- */

static const struct field_spec patch_fields[] = {
    { "add_seat_ids", FIELD_SEAT_IDS, AT(seats), 0, 0, false, false },
    { "remove_seat_ids", FIELD_SEAT_IDS, AT(drop), 0, 0, false, false },
    { "areas", FIELD_AREAS, AT(areas), 0, SEATS_IN_REQUEST_MAX, false, false },
};
static const struct body_spec patch_body = { false, patch_fields, COUNT(patch_fields) };

void
hold_patch(struct api *api, struct api_call *call)
{
    struct hold_request request;

    (void)api;
    if (!op_is_admitted(call) || !hold_request_read(call, &patch_body, &request))
        return;
    if (request.seats.count + request.drop.count + request.areas.count == 0) {
        respond_refusal(call, HF_MISSING_FIELD,
                        "One of add_seat_ids, remove_seat_ids, areas is needed.");
        return;
    }
    struct op *op = hold_op(call, OP_PATCH);
    if (op == NULL)
        return;
    op->seats = request.seats.items;
    op->seat_count = request.seats.count;
    op->drop = request.drop.items;
    op->drop_count = request.drop.count;
    op->areas = request.areas.items;
    op->area_count = request.areas.count;
    op->reason = "user_cancelled";
    op_submit(call, op);
}

/* --- extend, transfer, confirm ---------------------------------------------------------- */

static const struct field_spec extend_fields[] = {
    { "seconds", FIELD_INT, AT(seconds), 1, SECONDS_MAX, false, false },
};
static const struct body_spec extend_body = { true, extend_fields, COUNT(extend_fields) };

void
hold_extend(struct api *api, struct api_call *call)
{
    struct hold_request request;
    struct op *op;

    (void)api;
    if (!op_is_admitted(call) || !hold_request_read(call, &extend_body, &request) ||
        (op = hold_op(call, OP_EXTEND)) == NULL)
        return;
    op->seconds = (int32_t)request.seconds;
    op_submit(call, op);
}

static const struct field_spec transfer_fields[] = {
    { "to_user_id", FIELD_ID, AT(to_user), 0, 0, true, false },
};
static const struct body_spec transfer_body = { false, transfer_fields, COUNT(transfer_fields) };

/* A passenger acts for themselves, and has nobody else put on a seat. */
static bool
may_transfer(struct api_call *call, struct slice to_user)
{
    if (call->claims.event[0] == '\0' || slice_equal(to_user, call_user(call)))
        return true;
    respond_refusal(call, HF_FORBIDDEN, "This token acts for its own passenger only.");
    return false;
}

void
hold_transfer(struct api *api, struct api_call *call)
{
    struct hold_request request;
    struct op *op;

    (void)api;
    if (!op_is_admitted(call) || !hold_request_read(call, &transfer_body, &request) ||
        !may_transfer(call, request.to_user) || (op = hold_op(call, OP_TRANSFER)) == NULL)
        return;
    op->to_user = request.to_user;
    op_submit(call, op);
}

static const struct field_spec confirm_fields[] = {
    { "version", FIELD_VERSIONS, AT(seats), 0, 0, false, false },
    { "passengerId", FIELD_ID, AT(user), 0, 0, false, false },
};
static const struct body_spec confirm_body = { true, confirm_fields, COUNT(confirm_fields) };

void
hold_confirm(struct api *api, struct api_call *call)
{
    struct hold_request request;
    struct op *op;

    (void)api;
    if (!op_is_admitted(call) || !hold_request_read(call, &confirm_body, &request) ||
        (op = hold_op(call, OP_CONFIRM)) == NULL ||
        !op_take_user(call, op, request.user, "passengerId"))
        return;
    op->privileged &= request.user.len == 0; /* of a passenger who is named it must be theirs */
    op->seats = request.seats.items;
    op->seat_count = request.seats.count;
    op_submit(call, op);
}

/* --- DELETE /api/holds/{hold}, /api/holds/{hold}/seats/{seat} ------------------------------ */

/* NULL: refused, and the call is gone. */
static struct op *
release_op(struct api_call *call, enum op_kind kind)
{
    struct slice notes;
    struct op *op;

    if (!op_is_admitted(call) || !op_read_notes(call, &notes) || (op = hold_op(call, kind)) == NULL)
        return NULL;
    op->notes = notes;
    op->reason = "user_cancelled";
    return op;
}

void
hold_delete(struct api *api, struct api_call *call)
{
    struct op *op = release_op(call, OP_CANCEL);

    (void)api;
    if (op != NULL)
        op_submit(call, op);
}

void
hold_seat_delete(struct api *api, struct api_call *call)
{
    struct op *op = release_op(call, OP_REMOVE);

    (void)api;
    if (op == NULL)
        return;
    op->drop = arena_alloc(&call->arena, sizeof(*op->drop));
    if (op->drop == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    op->drop[0] = (struct op_seat){ .id = call->seat, .expect_version = -1 };
    op->drop_count = 1;
    op_submit(call, op);
}
