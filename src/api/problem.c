/*
 * problem.c - refusals as problem documents (RFC 9457).
 *
 * What a status says the same way each time is put together by the compiler, so
 * that a refusal on the loop copies a few pieces of text and prints nothing.
 */
#include <stdlib.h>

#include "api_internal.h"
#include "holdfast/json.h"

#define RETRY_AFTER_DEFAULT_S 1

/* The document's beginning, from { to the code. */
static const struct slice document_heads[HF_STATUS_COUNT] = {
#define HEAD(http, code, text)                                                                     \
    "{\"type\":\"/problems/" code "\",\"title\":\"" text "\",\"status\":" #http                    \
    ",\"code\":\"" code "\""
#define STATUS(name, http, code, text)                                                             \
    [HF_##name] = { HEAD(http, code, text), sizeof(HEAD(http, code, text)) - 1 },
#include "holdfast/status.def"
#undef STATUS
#undef HEAD
};

#define DOCUMENT_USUAL_BYTES 512

static void
write_errors(struct json_writer *w, const struct field_error *errors, int count)
{
    json_name(w, "errors");
    json_array_begin(w);
    for (int i = 0; i < count; i++) {
        json_object_begin(w);
        if (errors[i].line > 0)
            json_field_int(w, "line", errors[i].line);
        if (errors[i].field.len > 0)
            json_field_text(w, "field", errors[i].field);
        json_field_text(w, "reason", slice_of(errors[i].reason));
        json_object_end(w);
    }
    json_array_end(w);
}

static void
write_seats(struct json_writer *w, const char *list, const char *id, const struct seat_error *seats,
            int count)
{
    json_name(w, list);
    json_array_begin(w);
    for (int i = 0; i < count; i++) {
        json_object_begin(w);
        json_field_text(w, id, seats[i].seat);
        json_field_text(w, "code", slice_of(status_code(seats[i].code)));
        json_object_end(w);
    }
    json_array_end(w);
}

static void
write_document(struct buf *out, const struct http_request *request, enum hf_status status,
               const struct problem *problem)
{
    struct json_writer w;
    const char *detail = problem->detail;

    if (detail == NULL || *detail == '\0')
        detail = status_text(status);
    buf_reserve(out, DOCUMENT_USUAL_BYTES);
    buf_append_slice(out, document_heads[status]);
    /* The writer goes on inside the object that the head has opened. */
    json_writer_init(&w, out);
    w.comma[0] = true;
    json_field_text(&w, "detail", slice_of(detail));
    json_field_text(&w, "instance", request->path);
    json_field_text(&w, "request_id", slice_of(request->request_id));
    if (problem->seat_count > 0)
        write_seats(&w, "seats", "seat_id", problem->seats, problem->seat_count);
    if (problem->area_count > 0)
        write_seats(&w, "areas", "area_id", problem->areas, problem->area_count);
    if (problem->error_count > 0)
        write_errors(&w, problem->errors, problem->error_count);
    buf_append_char(out, '}');
}

static bool
wants_retry_after(enum hf_status status)
{
    int http = status_http(status);
    return http == 429 || http == 503 || status == HF_SEAT_CONTENDED ||
           status == HF_REQUEST_IN_PROGRESS;
}

static void
write_headers(struct http_reply *reply, enum hf_status status, const struct problem *problem)
{
    int64_t retry_after_s = problem->retry_after_s;

    if (retry_after_s <= 0 && wants_retry_after(status))
        retry_after_s = RETRY_AFTER_DEFAULT_S;
    if (retry_after_s > 0) {
        buf_append_text(&reply->headers, "Retry-After: ");
        buf_append_int(&reply->headers, retry_after_s);
        buf_append(&reply->headers, "\r\n", 2);
    }
    if (status_http(status) == 401)
        buf_append_text(&reply->headers,
                        status == HF_TOKEN_EXPIRED
                            ? "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n"
                            : "WWW-Authenticate: Bearer\r\n");
    if (status_http(status) == 409 && problem->tier != NULL)
        buf_append_text(&reply->headers, *problem->tier == TIER_HOT
                                             ? "X-Holdfast-Tier: hot\r\n"
                                             : "X-Holdfast-Tier: postgres\r\n");
}

void
reply_clear(struct http_reply *reply)
{
    buf_clear(&reply->headers);
    buf_clear(&reply->body);
    if (reply->shared != NULL) {
        http_body_put(reply->shared);
        reply->shared = NULL;
    }
    reply->content_type = NULL;
}

void
reply_problem(struct http_exchange *exchange, enum hf_status status, const struct problem *problem)
{
    static const struct problem nothing;
    struct http_reply *reply = &exchange->reply;

    if (problem == NULL)
        problem = &nothing;
    reply_clear(reply);
    reply->status = status_http(status);
    reply->content_type = TYPE_PROBLEM;
    write_headers(reply, status, problem);
    write_document(&reply->body, &exchange->request, status, problem);
    if (reply->body.failed) {
        /* The status alone tells the most; a body needs memory that is not there. */
        buf_fini(&reply->body);
        reply->content_type = NULL;
    }
}

/* --- wrong fields ---------------------------------------------------------- */

#define FIELD_ERRORS_FIRST 8

/* The array doubles inside the arena; what it leaves behind goes with the request. */
static bool
make_room(struct arena *arena, struct field_errors *errors)
{
    int count = errors->count;
    bool is_full = count == 0 || (count >= FIELD_ERRORS_FIRST && (count & (count - 1)) == 0);
    if (!is_full)
        return errors->items != NULL;
    size_t room = count == 0 ? FIELD_ERRORS_FIRST : (size_t)count * 2;
    struct field_error *items = arena_alloc(arena, room * sizeof(*items));
    if (items != NULL && errors->items != NULL)
        memcpy(items, errors->items, (size_t)count * sizeof(*items));
    errors->items = items;
    return items != NULL;
}

void
field_errors_add_line(struct arena *arena, struct field_errors *errors, int64_t line,
                      struct slice field, const char *reason)
{
    if (errors->count < FIELD_ERRORS_MAX && make_room(arena, errors)) {
        struct field_error *error = &errors->items[errors->count];
        error->line = line;
        error->field = arena_copy(arena, field);
        error->reason = reason;
        if (error->field.ptr == NULL)
            error->field = SLICE_EMPTY;
    }
    errors->count++;
}

void
field_errors_add(struct arena *arena, struct field_errors *errors, struct slice field,
                 const char *reason)
{
    field_errors_add_line(arena, errors, 0, field, reason);
}

void
field_errors_missing(struct arena *arena, struct field_errors *errors, struct slice field)
{
    field_errors_add(arena, errors, field, "is missing");
    errors->missing++;
}

void
field_errors_bad_id(struct arena *arena, struct field_errors *errors, struct slice field)
{
    field_errors_add(arena, errors, field, "is not 1-64 characters of [A-Za-z0-9._-]");
    errors->bad_ids++;
}

static enum hf_status
status_of_errors(const struct field_errors *errors)
{
    if (errors->missing == errors->count)
        return HF_MISSING_FIELD;
    return errors->bad_ids == errors->count ? HF_INVALID_ID : HF_INVALID_FIELD;
}

void
respond_field_errors(struct api_call *call, const struct field_errors *errors)
{
    struct problem problem = { 0 };

    hf_assert(errors->count > 0);
    problem.errors = errors->items;
    problem.error_count = errors->count < FIELD_ERRORS_MAX ? errors->count : FIELD_ERRORS_MAX;
    if (errors->items == NULL)
        problem.error_count = 0; /* no memory to remember which */
    respond_problem(call, status_of_errors(errors), &problem);
}

void
respond_field_error(struct api_call *call, const char *field, const char *reason)
{
    struct field_error error = { slice_of(field), reason, 0 };

    respond_problem(call, HF_INVALID_FIELD,
                    &(struct problem){ .errors = &error, .error_count = 1 });
}

void
respond_bad_id(struct api_call *call, const char *field)
{
    struct field_errors errors = { 0 };

    field_errors_bad_id(&call->arena, &errors, slice_of(field));
    respond_field_errors(call, &errors);
}
