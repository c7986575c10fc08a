/*
 * holds.c - requests that change holds: read, turned into an op, handed to the engine.
 *
 * What the body may say is judged here, on the loop; everything that depends on what
 * others have is the engine's. When memory refuses, engine_submit answers before it
 * returns: the way of most requests of a flash sale ends in this file's hold_finish.
 */
#include <stddef.h>

#include "api_internal.h"
#include "hold_json.h"
#include "hold_request.h"
#include "idempotency.h"
#include "holdfast/metrics.h"

#define CART_TOKEN_MAX 255
#define EMAIL_MAX      254
#define REASON_MAX     255
#define NOTES_MAX      2000
#define SECONDS_MAX    (366 * 86400) /* what is longer than max_hold is clamped or refused later */

#define AT(member)     offsetof(struct hold_request, member)
#define COUNT(array)   (int)(sizeof(array) / sizeof((array)[0]))

/* --- from the op to the answer -------------------------------------------------- */

/* The seats and areas that were refused, in request order. NULL when there is none, or no memory.
 */
static struct seat_error *
refused_seats(struct arena *arena, const struct op *op, int *count)
{
    int max = op->seat_count + op->drop_count;
    struct seat_error *seats = max > 0 ? arena_alloc(arena, (size_t)max * sizeof(*seats)) : NULL;

    *count = 0;
    if (seats == NULL)
        return NULL;
    for (int i = 0; i < max; i++) {
        const struct op_seat *seat =
            i < op->seat_count ? &op->seats[i] : &op->drop[i - op->seat_count];
        if (seat->code != HF_OK)
            seats[(*count)++] = (struct seat_error){ seat->id, seat->code };
    }
    return seats;
}

static struct seat_error *
refused_areas(struct arena *arena, const struct op *op, int *count)
{
    int max = op->area_count;
    struct seat_error *areas = max > 0 ? arena_alloc(arena, (size_t)max * sizeof(*areas)) : NULL;

    *count = 0;
    if (areas == NULL)
        return NULL;
    for (int i = 0; i < max; i++) {
        if (op->areas[i].code != HF_OK)
            areas[(*count)++] = (struct seat_error){ op->areas[i].id, op->areas[i].code };
    }
    return areas;
}

static void
write_refusal(struct api_call *call, struct op *op)
{
    struct problem problem = {
        .detail = op->detail,
        .retry_after_s = op->retry_after_s,
        .tier = &op->tier,
    };
    struct field_error error = { SLICE_EMPTY, status_text(op->status), 0 };

    problem.seats = refused_seats(&call->arena, op, &problem.seat_count);
    problem.areas = refused_areas(&call->arena, op, &problem.area_count);
    if (op->field != NULL) {
        error.field = slice_of(op->field);
        if (op->detail[0] != '\0')
            error.reason = op->detail;
        problem.errors = &error;
        problem.error_count = 1;
    }
    call->answered = op->status;
    reply_problem(call->exchange, op->status, &problem);
}

static void
write_location(struct http_reply *reply, const struct uuid *hold_id)
{
    char text[UUID_TEXT_BYTES];

    uuid_format(hold_id, text);
    buf_append_text(&reply->headers, "Location: /api/holds/");
    buf_append_text(&reply->headers, text);
    buf_append(&reply->headers, "\r\n", 2);
}

static void
write_hold(struct api_call *call, struct op *op)
{
    struct http_reply *reply = &call->exchange->reply;
    bool is_new = op->status == HF_CREATED;
    struct json_writer w;

    call->answered = is_new ? HF_CREATED : HF_OK;
    reply_clear(reply);
    reply->status = is_new ? 201 : 200;
    reply->content_type = TYPE_JSON;
    if (is_new)
        write_location(reply, &op->hold->hold_id);
    json_writer_init(&w, &reply->body);
    hold_json_write(&w, op->hold);
    if (reply->body.failed) {
        /* It took effect; what couldn't be told now is told to a repetition. */
        call->answered = HF_OUTCOME_UNKNOWN;
        reply_problem(call->exchange, HF_OUTCOME_UNKNOWN, NULL);
    }
}

static void
hold_finish(struct op *op)
{
    bool is_done = op->status == HF_OK || op->status == HF_CREATED;

    hf_assert(!is_done || op->hold != NULL);
    if (is_done)
        write_hold(op->context, op);
    else
        write_refusal(op->context, op);
}

static void
hold_send(struct op *op)
{
    struct api_call *call = op->context;

    arena_fini(&op->arena); /* the engine's own; the op itself lives in the call's */
    respond_send(call);
}

/* --- before the body is read -------------------------------------------------------- */

/*
 * A change that the store has no time for is refused before anything is read or made for it. It
 * comes behind the limits, the token (401, 403) and the ids of the path, all of which cost less
 * than an answer, and before what the body says (400).
 *
 * Holding doesn't ask this first: "taken" from memory costs no more than a refusal here, and it is
 * final, while who is told to come again will. The engine asks when memory can't refuse.
 */
static bool
is_admitted(struct api_call *call)
{
    int32_t retry_after_s;
    enum hf_status status =
        engine_admits(call->api->node->engine, call->deadline, mono_now(), &retry_after_s);

    if (status == HF_OK)
        return true;
    if (status == HF_OVERLOADED)
        metric_add(METRIC_OVERLOADED_TOTAL, 1);
    respond_problem(call, status, &(struct problem){ .retry_after_s = retry_after_s });
    return false;
}

/* --- from the call to the op ------------------------------------------------------ */

/* NULL: no memory; the call is answered. */
static struct op *
op_of_call(struct api_call *call, enum op_kind kind)
{
    struct op *op = arena_alloc(&call->arena, sizeof(*op));
    if (op == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return NULL;
    }
    op->kind = kind;
    op->org = call_org(call);
    op->user = op->actor = call_user(call);
    op->privileged = call_is_privileged(call);
    op->request_id = slice_of(call->exchange->request.request_id);
    op->event = op->cart_token = op->source = op->customer_email = SLICE_EMPTY;
    op->notes = op->to_user = SLICE_EMPTY;
    op->hold_id = call->hold_id;
    op->received = call->exchange->request.received;
    op->deadline = call->deadline;
    op->context = call;
    op->finish = hold_finish;
    op->send = hold_send;
    op->answer = idempotency_answer;
    op->replay = idempotency_replay;
    return op;
}

static void
submit(struct api_call *call, struct op *op)
{
    if (!idempotency_hand_over(call, op))
        respond_refusal(call, HF_OVERLOADED, NULL);
    else
        engine_submit(call->api->node->engine, op);
}

/* A user may name only itself; agent, service and admin act for the one they name. */
static bool
take_user(struct api_call *call, struct op *op, struct slice named, const char *field)
{
    if (named.len == 0 || slice_equal(named, op->user))
        return true;
    if (op->privileged) {
        op->user = named;
        return true;
    }
    struct field_error error = { slice_of(field), "names another user", 0 };
    respond_problem(call, HF_FORBIDDEN,
                    &(struct problem){ .detail = "Only agent, service and admin act for others.",
                                       .errors = &error,
                                       .error_count = 1 });
    return false;
}

/* --- POST /api/holds, POST /api/events/{event}/seats/{seat}/hold --------------------- */

/* Either way to hold takes these; what names seats and event comes before them. */
#define CART_FIELDS(cart_is_needed)                                                                \
    { "cart_token", FIELD_WORD, AT(cart_token), 1, CART_TOKEN_MAX, cart_is_needed, false },        \
        { "user_id", FIELD_ID, AT(user), 0, 0, false, false },                                     \
        { "source", FIELD_SOURCE, AT(source), 0, 0, false, false },                                \
        { "customer_email", FIELD_EMAIL, AT(customer_email), 1, EMAIL_MAX, false, false },         \
        { "customerEmail", FIELD_EMAIL, AT(customer_email), 1, EMAIL_MAX, false, false },          \
    {                                                                                              \
        "ttl_seconds", FIELD_INT, AT(ttl_s), 1, SECONDS_MAX, false, false                          \
    }

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

/* Seed 004's clients know no cart: one is made. */
static bool
make_cart_token(struct api_call *call, struct hold_request *request)
{
    struct uuid uuid = uuid_v7_new();
    char *text = arena_alloc(&call->arena, UUID_TEXT_BYTES);

    if (text == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return false;
    }
    uuid_format(&uuid, text);
    request->cart_token = slice_of(text);
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
    return request->cart_token.len > 0 || make_cart_token(call, request);
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

static void
submit_hold(struct api_call *call, const struct hold_request *request)
{
    struct op *op = op_of_call(call, OP_HOLD);

    if (op == NULL || !take_user(call, op, request->user, "user_id") ||
        !ttl_is_allowed(call, request))
        return;
    op->event = request->event;
    op->hold_id = uuid_v7_new();
    op->seats = request->seats.items;
    op->seat_count = request->seats.count;
    op->areas = request->areas.items;
    op->area_count = request->areas.count;
    op->cart_token = request->cart_token;
    op->source = request->source.len > 0 ? request->source : SLICE_LITERAL("web");
    if (request->customer_email.len > 0)
        op->customer_email = request->customer_email;
    op->seconds = (int32_t)request->ttl_s;
    submit(call, op);
}

void
holds_post(struct api *api, struct api_call *call)
{
    struct hold_request request;

    (void)api;
    if (hold_request_read(call, &hold_body, &request) && has_what_a_hold_needs(call, &request))
        submit_hold(call, &request);
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
    submit_hold(call, &request);
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
    if (!is_admitted(call) || !hold_request_read(call, &patch_body, &request))
        return;
    if (request.seats.count + request.drop.count + request.areas.count == 0) {
        respond_refusal(call, HF_MISSING_FIELD,
                        "One of add_seat_ids, remove_seat_ids, areas is needed.");
        return;
    }
    struct op *op = op_of_call(call, OP_PATCH);
    if (op == NULL)
        return;
    op->seats = request.seats.items;
    op->seat_count = request.seats.count;
    op->drop = request.drop.items;
    op->drop_count = request.drop.count;
    op->areas = request.areas.items;
    op->area_count = request.areas.count;
    op->reason = "user_cancelled";
    submit(call, op);
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
    if (!is_admitted(call) || !hold_request_read(call, &extend_body, &request) ||
        (op = op_of_call(call, OP_EXTEND)) == NULL)
        return;
    op->seconds = (int32_t)request.seconds;
    submit(call, op);
}

static const struct field_spec transfer_fields[] = {
    { "to_user_id", FIELD_ID, AT(to_user), 0, 0, true, false },
};
static const struct body_spec transfer_body = { false, transfer_fields, COUNT(transfer_fields) };

void
hold_transfer(struct api *api, struct api_call *call)
{
    struct hold_request request;
    struct op *op;

    (void)api;
    if (!is_admitted(call) || !hold_request_read(call, &transfer_body, &request) ||
        (op = op_of_call(call, OP_TRANSFER)) == NULL)
        return;
    op->to_user = request.to_user;
    submit(call, op);
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
    if (!is_admitted(call) || !hold_request_read(call, &confirm_body, &request) ||
        (op = op_of_call(call, OP_CONFIRM)) == NULL ||
        !take_user(call, op, request.user, "passengerId"))
        return;
    op->seats = request.seats.items;
    op->seat_count = request.seats.count;
    submit(call, op);
}

/* --- DELETE /api/holds/{hold}, /api/holds/{hold}/seats/{seat} ------------------------------ */

static const struct field_spec release_fields[] = {
    { "reason", FIELD_PROSE, AT(reason), 0, REASON_MAX, false, false },
    { "notes", FIELD_PROSE, AT(notes), 0, NOTES_MAX, false, false },
};
static const struct body_spec release_body = { true, release_fields, COUNT(release_fields) };

/* A client's own reason is kept with the notes; the hold's reason is one of a fixed list. */
static bool
join_notes(struct api_call *call, const struct hold_request *request, struct slice *notes)
{
    static const char between[] = ": ";
    size_t between_len = sizeof(between) - 1;

    *notes = request->notes.len > 0 ? request->notes : request->reason;
    if (request->notes.len == 0 || request->reason.len == 0) {
        if (notes->ptr == NULL)
            *notes = SLICE_EMPTY;
        return true;
    }
    size_t len = request->reason.len + between_len + request->notes.len;
    char *joined = arena_alloc(&call->arena, len);
    if (joined == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return false;
    }
    memcpy(joined, request->reason.ptr, request->reason.len);
    memcpy(joined + request->reason.len, between, between_len);
    memcpy(joined + request->reason.len + between_len, request->notes.ptr, request->notes.len);
    *notes = (struct slice){ joined, len };
    return true;
}

/* NULL: refused, and the call is gone. */
static struct op *
release_op(struct api_call *call, enum op_kind kind)
{
    struct hold_request request;
    struct slice notes;
    struct op *op;

    if (!is_admitted(call) || !hold_request_read(call, &release_body, &request) ||
        !join_notes(call, &request, &notes) || (op = op_of_call(call, kind)) == NULL)
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
        submit(call, op);
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
    submit(call, op);
}
