/*
 * dead_letters.c - what payment providers told us and we failed to process: GET
 * /api/admin/payments/dead-letters, POST .../{intent}/{key}/replay.
 *
 * A letter is named by its intent and the provider's own key of the delivery. A replay is the
 * webhook once more: it takes effect once, in any order, and a letter that took effect is none any
 * more.
 */
#include <stdio.h>

#include "hold_request.h"
#include "idempotency.h"
#include "op_call.h"
#include "payment_webhook.h"

#define LIMIT_DEFAULT   100
#define LIMIT_MAX       500
#define TIME_DIGITS_MAX 18
#define NO_DELIVERY     "There is no such delivery."

/* Columns of list_payment_dead_letters. */
enum { INTENT, KEY, STATUS, ATTEMPTS, ERROR, RECEIVED_AT, EVENT, INTENT_STATUS, PURPOSE, SUBJECT };

/* --- the list --------------------------------------------------------------------------- */

struct list_request {
    bool has_after;
    struct db_time received_at;
    struct uuid intent;
    struct slice status, key;
    int64_t limit;
};

/* Cuts the text up to the next '.' off *rest. */
static bool
cut(struct slice *rest, struct slice *piece)
{
    const char *dot = rest->len > 0 ? memchr(rest->ptr, '.', rest->len) : NULL;
    if (dot == NULL)
        return false;
    *piece = (struct slice){ rest->ptr, (size_t)(dot - rest->ptr) };
    *rest = (struct slice){ dot + 1, rest->len - piece->len - 1 };
    return true;
}

static bool
parse_us(struct slice text, int64_t *us)
{
    *us = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        *us = *us * 10 + (text.ptr[i] - '0');
    }
    return text.len > 0;
}

/* "<microseconds>.<intent>.<status>.<key>", as write_next makes it; a key may have dots. */
static bool
parse_after(struct slice text, struct list_request *list)
{
    struct slice us, intent;

    if (!cut(&text, &us) || us.len > TIME_DIGITS_MAX || !cut(&text, &intent) ||
        !cut(&text, &list->status))
        return false;
    list->key = text;
    return parse_us(us, &list->received_at.us) && uuid_parse(intent, &list->intent) &&
           (slice_is(list->status, "succeeded") || slice_is(list->status, "failed")) &&
           word_is_good(list->key, PROVIDER_KEY_MAX);
}

static bool
read_after(struct api_call *call, struct list_request *list)
{
    struct slice text;

    list->has_after = call_query(call, "after", &text) && text.len > 0;
    if (!list->has_after || parse_after(text, list))
        return true;
    respond_field_error(call, "after", "is not what a list gave as next");
    return false;
}

/* One more than the limit tells whether there is a next page. */
static enum pg_outcome
read_letters(struct api_call *call, struct desk_tools *tools, struct pg_result **rows)
{
    const struct list_request *list = call->state;
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    if (list->has_after) {
        pg_param_time(&params, list->received_at);
        pg_param_uuid(&params, &list->intent);
        pg_param_text(&params, list->key);
        pg_param_text(&params, list->status);
    } else {
        pg_param_null(&params);
        pg_param_null(&params);
        pg_param_null(&params);
        pg_param_null(&params);
    }
    pg_param_int4(&params, (int32_t)list->limit + 1);
    return call_read(call, tools, STATEMENT_LIST_PAYMENT_DEAD_LETTERS, &params, rows);
}

static void
write_uuid(struct json_writer *w, const char *name, const struct pg_result *rows, int row,
           int column)
{
    struct uuid uuid = pg_get_uuid(rows, row, column);

    json_field_uuid(w, name, &uuid);
}

static void
write_letter(struct json_writer *w, const struct pg_result *rows, int row)
{
    char received_at[DB_TIME_TEXT_BYTES];

    db_time_format(pg_get_time(rows, row, RECEIVED_AT), received_at);
    json_object_begin(w);
    write_uuid(w, "intent_id", rows, row, INTENT);
    json_field_text(w, "provider_key", pg_get_text(rows, row, KEY));
    json_field_text(w, "status", pg_get_text(rows, row, STATUS));
    json_field_text(w, "intent_status", pg_get_text(rows, row, INTENT_STATUS));
    json_field_text(w, "event_id", pg_get_text(rows, row, EVENT));
    json_field_text(w, "purpose", pg_get_text(rows, row, PURPOSE));
    write_uuid(w, "subject_id", rows, row, SUBJECT);
    json_field_int(w, "attempts", pg_get_int(rows, row, ATTEMPTS));
    json_field_text(w, "error", pg_get_text(rows, row, ERROR));
    json_field_text(w, "received_at", slice_of(received_at));
    json_object_end(w);
}

static void
write_next(struct json_writer *w, struct buf *next, const struct pg_result *rows, int row)
{
    struct uuid intent = pg_get_uuid(rows, row, INTENT);
    char text[UUID_TEXT_BYTES];

    uuid_format(&intent, text);
    buf_append_int(next, pg_get_time(rows, row, RECEIVED_AT).us);
    buf_append_char(next, '.');
    buf_append_text(next, text);
    buf_append_char(next, '.');
    buf_append_slice(next, pg_get_text(rows, row, STATUS));
    buf_append_char(next, '.');
    buf_append_slice(next, pg_get_text(rows, row, KEY));
    json_field_text(w, "next", buf_slice(next));
}

static void
answer_list(struct api_call *call, const struct pg_result *rows)
{
    const struct list_request *list = call->state;
    int count = pg_rows(rows) <= list->limit ? pg_rows(rows) : (int)list->limit;
    struct buf body = { 0 }, next = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_name(&w, "dead_letters");
    json_array_begin(&w);
    for (int row = 0; row < count; row++)
        write_letter(&w, rows, row);
    json_array_end(&w);
    if (count < pg_rows(rows))
        write_next(&w, &next, rows, count - 1);
    json_object_end(&w);
    body.failed |= next.failed;
    buf_fini(&next);
    respond_json(call, 200, &body);
}

static void
list_run(struct api_call *call, struct desk_tools *tools)
{
    struct pg_result *rows = NULL;
    enum pg_outcome outcome = read_letters(call, tools, &rows);

    if (outcome == PG_DONE)
        answer_list(call, rows);
    else
        respond_refusal(call, call_outcome(call, outcome, tools->pg), NULL);
    pg_result_free(&rows);
}

void
dead_letters_get(struct api *api, struct api_call *call)
{
    struct list_request *list = arena_alloc(&call->arena, sizeof(*list));

    (void)api;
    if (list == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    call->state = list;
    if (read_after(call, list) &&
        call_query_int(call, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT, &list->limit))
        call_on_desk(call, list_run);
}

/* --- the replay -------------------------------------------------------------------------- */

static void
write_replayed(struct json_writer *w, const void *replayed)
{
    const struct op *op = replayed;

    json_object_begin(w);
    json_field_uuid(w, "intent_id", &op->intent_id);
    json_field_text(w, "provider_key", op->provider_key);
    json_field_text(w, "intent_status", slice_of(intent_status_word(op->checkout->intent_status)));
    json_object_end(w);
}

static void
replay_finish(struct op *op)
{
    if (op->status == HF_OK)
        op_write_json(op->context, HF_OK, write_replayed, op);
    else
        op_write_refusal(op->context, op);
}

static void
submit_replay(struct api_call *call, struct slice verdict)
{
    struct op *op = op_of_call(call, OP_PAY_SETTLE, replay_finish);

    if (op == NULL)
        return;
    op->intent_id = call->intent_id;
    op->provider_key = call_param(call, "key");
    op->outcome = payment_outcome_of_verdict(verdict);
    op_submit(call, op);
}

/* False: the call is answered. */
static bool
read_delivery(struct api_call *call, struct desk_tools *tools, struct pg_result **rows)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_uuid(&params, &call->intent_id);
    pg_param_text(&params, call_param(call, "key"));
    enum pg_outcome outcome =
        call_read(call, tools, STATEMENT_READ_PAYMENT_DELIVERY, &params, rows);
    if (outcome != PG_DONE)
        respond_refusal(call, call_outcome(call, outcome, tools->pg), NULL);
    else if (pg_rows(*rows) == 0)
        respond_refusal(call, HF_NOT_FOUND, NO_DELIVERY);
    return outcome == PG_DONE && pg_rows(*rows) > 0;
}

static void
replay_run(struct api_call *call, struct desk_tools *tools)
{
    struct pg_result *rows = NULL;

    if (!idempotency_is_new(call, tools->pg))
        return;
    if (!word_is_good(call_param(call, "key"), PROVIDER_KEY_MAX))
        respond_refusal(call, HF_NOT_FOUND, NO_DELIVERY); /* the store takes no such text */
    else if (read_delivery(call, tools, &rows))
        submit_replay(call, pg_get_text(rows, 0, 0));
    pg_result_free(&rows);
}

void
dead_letter_replay(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, replay_run);
}
