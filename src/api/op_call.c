/*
 * op_call.c - from a call to an op, and from a refused op to the answer.
 */
#include "op_call.h"

#include <stddef.h>

#include "hold_request.h"
#include "idempotency.h"
#include "holdfast/metrics.h"

#define REASON_MAX 255
#define NOTES_MAX  2000

/* --- the call -------------------------------------------------------------------- */

bool
op_is_admitted(struct api_call *call)
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

static void
op_send(struct op *op)
{
    struct api_call *call = op->context;

    arena_fini(&op->arena); /* the engine's own; the op itself lives in the call's */
    respond_send(call);
}

bool
op_init(struct api_call *call, struct op *op, enum op_kind kind, void (*finish)(struct op *op))
{
    op->user_agent = call_user_agent(call);
    if (op->user_agent.ptr == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return false;
    }
    op->kind = kind;
    op->org = call_org(call);
    op->user = op->actor = call_user(call);
    op->privileged = call_is_privileged(call);
    op->request_id = slice_of(call->exchange->request.request_id);
    op->client_ip = slice_of(call->client);
    op->bound_event = slice_of(call->claims.event);
    op->event = op->cart_token = op->source = op->customer_email = SLICE_EMPTY;
    op->notes = op->to_user = op->method = op->provider_key = SLICE_EMPTY;
    op->hold_id = call->hold_id;
    op->checkout_id = call->checkout_id;
    op->received = call->exchange->request.received;
    op->deadline = call->deadline;
    op->context = call;
    op->finish = finish;
    op->send = op_send;
    op->answer = idempotency_answer;
    op->replay = idempotency_replay;
    return true;
}

struct op *
op_of_call(struct api_call *call, enum op_kind kind, void (*finish)(struct op *op))
{
    struct op *op = arena_alloc(&call->arena, sizeof(*op));

    if (op == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return NULL;
    }
    return op_init(call, op, kind, finish) ? op : NULL;
}

bool
op_take_user(struct api_call *call, struct op *op, struct slice named, const char *field)
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

void
op_submit(struct api_call *call, struct op *op)
{
    if (!idempotency_hand_over(call, op))
        respond_refusal(call, HF_OVERLOADED, NULL);
    else
        engine_submit(call->api->node->engine, op);
}

/* --- {reason?, notes?} ------------------------------------------------------------ */

static const struct field_spec release_fields[] = {
    { "reason", FIELD_PROSE, offsetof(struct hold_request, reason), 0, REASON_MAX, false, false },
    { "notes", FIELD_PROSE, offsetof(struct hold_request, notes), 0, NOTES_MAX, false, false },
};
static const struct body_spec release_body = { true, release_fields, 2 };

/* "reason: notes". ptr NULL: no memory. */
static struct slice
join_notes(struct arena *arena, struct slice reason, struct slice notes)
{
    static const char between[] = ": ";
    size_t between_len = sizeof(between) - 1;
    size_t len = reason.len + between_len + notes.len;
    char *joined = arena_alloc(arena, len);

    if (joined != NULL) {
        memcpy(joined, reason.ptr, reason.len);
        memcpy(joined + reason.len, between, between_len);
        memcpy(joined + reason.len + between_len, notes.ptr, notes.len);
    }
    return (struct slice){ joined, len };
}

bool
op_read_notes(struct api_call *call, struct slice *notes)
{
    struct hold_request request;

    if (!hold_request_read(call, &release_body, &request))
        return false;
    if (request.reason.len > 0 && request.notes.len > 0)
        *notes = join_notes(&call->arena, request.reason, request.notes);
    else if (request.reason.len > 0 || request.notes.len > 0)
        *notes = request.notes.len > 0 ? request.notes : request.reason;
    else
        *notes = SLICE_EMPTY;
    if (notes->ptr == NULL)
        respond_refusal(call, HF_OVERLOADED, NULL);
    return notes->ptr != NULL;
}

/* --- the answer ------------------------------------------------------------------ */

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

/* The seats that the choice would leave alone, none of which it names. */
static struct seat_error *
lonely_seats(struct arena *arena, const struct op *op, int *count)
{
    struct seat_error *seats =
        op->gap_count > 0 ? arena_alloc(arena, (size_t)op->gap_count * sizeof(*seats)) : NULL;

    *count = seats != NULL ? op->gap_count : 0;
    for (int i = 0; i < *count; i++)
        seats[i] = (struct seat_error){ op->gap_seats[i], HF_SINGLE_SEAT_GAP };
    return seats;
}

bool
op_is_of_flight(const struct op *op)
{
    return op->of_flight || op->info.kind == EVENT_KIND_FLIGHT;
}

void
op_hide_from_stranger(struct op *op)
{
    if (op->status == HF_NOT_HOLD_OWNER && op_is_of_flight(op))
        op->status = HF_HOLD_NOT_FOUND;
}

#define GAP_ADVICE                                                                                 \
    "Take what would be left alone as well, or leave two or more free seats side by side."

void
op_write_refusal(struct api_call *call, const struct op *op)
{
    struct problem problem = {
        .detail = op->detail,
        .retry_after_s = op->retry_after_s,
        .tier = &op->tier,
    };
    struct field_error error = { SLICE_EMPTY, status_text(op->status), 0 };

    if (op->status == HF_SINGLE_SEAT_GAP) {
        problem.detail = GAP_ADVICE;
        problem.seats = lonely_seats(&call->arena, op, &problem.seat_count);
    } else {
        problem.seats = refused_seats(&call->arena, op, &problem.seat_count);
    }
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

void
op_write_json(struct api_call *call, enum hf_status status, op_json *write, const void *what)
{
    struct http_reply *reply = &call->exchange->reply;
    struct json_writer w;

    call->answered = status;
    reply_clear(reply);
    reply->status = status_http(status);
    reply->content_type = TYPE_JSON;
    json_writer_init(&w, &reply->body);
    write(&w, what);
    if (reply->body.failed) {
        call->answered = HF_OUTCOME_UNKNOWN;
        reply_problem(call->exchange, HF_OUTCOME_UNKNOWN, NULL);
    }
}

void
op_write_location(struct api_call *call, const char *path, const struct uuid *id)
{
    struct buf *headers = &call->exchange->reply.headers;
    char text[UUID_TEXT_BYTES];

    uuid_format(id, text);
    buf_append_text(headers, "Location: ");
    buf_append_text(headers, path);
    buf_append_text(headers, text);
    buf_append(headers, "\r\n", 2);
}
