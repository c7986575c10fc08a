/*
 * flights.c - flights in the words of seed 003: the seats' map, and a seat held, confirmed, given
 * up.
 *
 * A flight is an event, a passenger a user: what is done here are the engine's ops that every event
 * has. A `user` acts for itself and need not name itself; agent, service and admin name the
 * passenger. What isn't a passenger's isn't there: 404, never 403.
 *
 * Order of refusals: shape (400), whose (403), is it a flight (404), then the engine's.
 */
#include "flight_map.h"
#include "hold_submit.h"
#include "op_call.h"

#define REASON_MAX 255

/* --- GET /flights/{event}/seatmap ---------------------------------------------------- */

static void
answer_map(struct api_call *call, const struct flight_map *map, enum hf_status status,
           struct buf *body)
{
    if (status == HF_OK || status == HF_NOT_MODIFIED) {
        respond_header(call, "ETag", slice_of(map->etag));
        respond_header(call, "Cache-Control", SLICE_LITERAL("private, no-cache"));
    }
    if (status == HF_OK && map->any_age)
        respond_header(call, "X-Holdfast-Stale", SLICE_LITERAL("true"));
    if (status == HF_OK)
        respond_json(call, 200, body);
    else if (status == HF_NOT_MODIFIED)
        respond_no_body(call, 304);
    else
        respond_refusal(call, status, NULL);
}

/* True: the call is answered. */
static bool
answered_from_memory(struct api_call *call, struct flight_map *map)
{
    enum hf_status status;
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    if (!flight_map_from_memory(call, map, &w, &status))
        return false;
    answer_map(call, map, status, &body);
    return true;
}

static void
map_run(struct api_call *call, struct desk_tools *tools)
{
    struct flight_map *map = call->state;
    struct buf body = { 0 };
    struct json_writer w;
    enum hf_status status = flight_find(call, tools->pg, map->org, map->event);

    json_writer_init(&w, &body);
    if (status == HF_OK)
        status = flight_map_write(call, tools, map, &w);
    answer_map(call, map, status, &body);
}

/* Without Postgres what is in memory is still better than nothing, for who has no seat of it. */
static void
map_fail(struct api_call *call, struct desk_tools *tools, enum hf_status status)
{
    struct flight_map *map = call->state;

    (void)tools;
    map->any_age = true;
    if (status == HF_STORE_UNAVAILABLE &&
        flight_known(call->api->node, map->org, map->event, true) == FLIGHT_IS_ONE &&
        answered_from_memory(call, map))
        return;
    respond_refusal(call, status, NULL);
}

/* A body that is to be compressed takes longer than a loop may. */
static bool
is_for_a_loop(const struct api_call *call)
{
    const struct http_request *http = &call->exchange->request;

    return http->if_none_match.len > 0 || !accepts_gzip(http->accept_encoding);
}

void
flight_seatmap_get(struct api *api, struct api_call *call)
{
    enum flight_word word = flight_known(api->node, call_org(call), call->event, false);
    struct flight_map *map = arena_alloc(&call->arena, sizeof(*map));

    if (map == NULL || word == FLIGHT_IS_NONE) {
        respond_refusal(call, map == NULL ? HF_OVERLOADED : HF_EVENT_NOT_FOUND, NULL);
        return;
    }
    map->org = call_org(call);
    map->event = call->event;
    map->user = call_user(call);
    map->if_none_match = call->exchange->request.if_none_match;
    call->state = map;
    if (word != FLIGHT_IS_ONE || !is_for_a_loop(call) || !answered_from_memory(call, map))
        call_on_desk_or(call, map_run, map_fail);
}

/* --- from a call to an op -------------------------------------------------------------- */

static const struct field_spec passenger_fields[] = {
    { "passengerId", FIELD_ID, AT(user), 0, 0, false, false },
};
static const struct body_spec passenger_body = { true, passenger_fields, COUNT(passenger_fields) };

static const struct field_spec cancel_fields[] = {
    { "passengerId", FIELD_ID, AT(user), 0, 0, false, false },
    { "reason", FIELD_PROSE, AT(reason), 0, REASON_MAX, false, false },
};
static const struct body_spec cancel_body = { true, cancel_fields, COUNT(cancel_fields) };

/* Who acts for others says for whom. False: refused, the call is gone. */
static bool
names_passenger(struct api_call *call, const struct hold_request *request)
{
    struct field_errors errors = { 0 };

    if (request->user.len > 0 || !call_is_privileged(call))
        return true;
    field_errors_missing(&call->arena, &errors, SLICE_LITERAL("passengerId"));
    respond_field_errors(call, &errors);
    return false;
}

/* An op for the passenger of `request`. NULL: refused, the call is gone. */
static struct op *
passenger_op(struct api_call *call, enum op_kind kind, const struct hold_request *request,
             void (*finish)(struct op *op))
{
    struct op *op = op_of_call(call, kind, finish);

    return op != NULL && op_take_user(call, op, request->user, "passengerId") ? op : NULL;
}

/* The seat of the path. False: no memory, the call is gone. */
static bool
take_seat(struct api_call *call, struct op *op)
{
    op->seats = arena_alloc(&call->arena, sizeof(*op->seats));
    if (op->seats == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return false;
    }
    op->seats[0] = (struct op_seat){ .id = call->seat, .expect_version = -1 };
    op->seat_count = 1;
    op->event = call->event;
    return true;
}

static void
submit_run(struct api_call *call, struct desk_tools *tools)
{
    struct op *op = call->state;
    enum hf_status status = flight_find(call, tools->pg, op->org, op->event);

    if (status == HF_OK)
        op_submit(call, op);
    else
        respond_refusal(call, status, NULL);
}

/* To the engine, if op->event is a flight. */
static void
submit_for_flight(struct api_call *call, struct op *op)
{
    switch (flight_known(call->api->node, op->org, op->event, false)) {
    case FLIGHT_IS_ONE:
        op_submit(call, op);
        break;
    case FLIGHT_IS_NONE:
        respond_refusal(call, HF_EVENT_NOT_FOUND, NULL);
        break;
    case FLIGHT_UNKNOWN:
        call->state = op;
        call_on_desk(call, submit_run);
        break;
    }
}

/* --- answers ---------------------------------------------------------------------------- */

/* The seat that a hold is about: the first, should it have more. */
static struct slice
seat_of(const struct hold_view *hold)
{
    return hold->line_count > 0 ? hold->lines[0].seat : SLICE_EMPTY;
}

static void
write_held(struct json_writer *w, const void *what)
{
    const struct op *op = what;

    json_object_begin(w);
    json_field_uuid(w, "holdId", &op->hold->hold_id);
    json_field_text(w, "seatId", op->seats[0].id);
    json_field_text(w, "state", slice_of(flight_state_word(SEAT_HELD)));
    json_field_time(w, "holdExpiresAt", op->hold->held_until);
    json_object_end(w);
}

static void
write_state(struct json_writer *w, struct slice seat, struct slice flight, enum seat_status status)
{
    json_object_begin(w);
    json_field_text(w, "seatId", seat);
    json_field_text(w, "flightId", flight);
    json_field_text(w, "state", slice_of(flight_state_word(status)));
    json_object_end(w);
}

static void
write_confirmed(struct json_writer *w, const void *what)
{
    const struct op *op = what;

    write_state(w, seat_of(op->hold), op->hold->event, SEAT_SOLD);
}

static void
write_cancelled(struct json_writer *w, const void *what)
{
    const struct op *op = what;

    write_state(w, op->seats[0].id, op->event, SEAT_AVAILABLE);
}

/* Whatever is wrong with a hold that isn't there to be confirmed. */
static bool
is_no_hold(enum hf_status status)
{
    return status == HF_NOT_HOLD_OWNER || status == HF_HOLD_EXPIRED ||
           status == HF_HOLD_NOT_ACTIVE || status == HF_EVENT_NOT_FOUND;
}

/* Done or refused; `write` is given the op. */
static void
finish(struct op *op, op_json *write)
{
    bool is_done = op->status == HF_OK || op->status == HF_CREATED;

    if (is_done)
        op_write_json(op->context, HF_OK, write, op);
    else
        op_write_refusal(op->context, op);
}

static void
hold_finish(struct op *op)
{
    finish(op, write_held);
}

static void
confirm_finish(struct op *op)
{
    if (is_no_hold(op->status))
        op->status = HF_HOLD_NOT_FOUND;
    finish(op, write_confirmed);
}

static void
cancel_finish(struct op *op)
{
    finish(op, write_cancelled);
}

/* --- POST /flights/{event}/seats/{seat}/hold ---------------------------------------------- */

void
flight_seat_hold(struct api *api, struct api_call *call)
{
    struct hold_request request;
    struct op *op;

    (void)api;
    if (!hold_request_read(call, &passenger_body, &request) || !names_passenger(call, &request) ||
        (op = passenger_op(call, OP_HOLD, &request, hold_finish)) == NULL ||
        !hold_make_cart_token(call, &op->cart_token) || !take_seat(call, op))
        return;
    op->hold_id = uuid_v7_new();
    op->source = SLICE_LITERAL("web");
    submit_for_flight(call, op);
}

/* --- POST /flights/{event}/seats/{seat}/cancel -------------------------------------------- */

void
flight_seat_cancel(struct api *api, struct api_call *call)
{
    struct hold_request request;
    struct op *op;

    (void)api;
    if (!op_is_admitted(call) || !hold_request_read(call, &cancel_body, &request) ||
        (op = passenger_op(call, OP_RETURN, &request, cancel_finish)) == NULL ||
        !take_seat(call, op))
        return;
    if (call_is_privileged(call))
        op->user = request.user.len > 0 ? request.user : SLICE_EMPTY; /* whoever has it */
    op->reason = "user_cancelled";
    op->notes = request.reason.len > 0 ? request.reason : SLICE_EMPTY;
    submit_for_flight(call, op);
}

/* --- POST /holds/{hold}/confirm ------------------------------------------------------------- */

/* Whose hold it is, and of what, doesn't change but by a transfer, which the engine sees. */
static enum hf_status
may_confirm(struct api_call *call, struct desk_tools *tools, struct op *op)
{
    struct hold_view *hold;
    enum hf_status status = hold_find(call, tools, &hold);

    if (status != HF_OK)
        return status;
    if (!slice_equal(hold->user, op->user) ||
        (op->bound_event.len > 0 && !slice_equal(op->bound_event, hold->event)))
        return HF_HOLD_NOT_FOUND;
    op->bound_event = hold->event;
    status = flight_find(call, tools->pg, op->org, hold->event);
    return status == HF_EVENT_NOT_FOUND ? HF_HOLD_NOT_FOUND : status;
}

static void
confirm_run(struct api_call *call, struct desk_tools *tools)
{
    struct op *op = call->state;
    enum hf_status status = may_confirm(call, tools, op);

    if (status == HF_OK)
        op_submit(call, op);
    else
        respond_refusal(call, status, NULL);
}

void
flight_hold_confirm(struct api *api, struct api_call *call)
{
    struct hold_request request;
    struct op *op;

    (void)api;
    if (!op_is_admitted(call) || !hold_request_read(call, &passenger_body, &request) ||
        !names_passenger(call, &request) ||
        (op = passenger_op(call, OP_CONFIRM, &request, confirm_finish)) == NULL)
        return;
    op->privileged = false; /* an agent confirms what the passenger has, too */
    call->state = op;
    call_on_desk(call, confirm_run);
}
