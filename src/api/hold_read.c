/*
 * hold_read.c - holds as they stand in Postgres, read at the desk.
 */
#include "api_internal.h"
#include "hold_json.h"

#define LIST_LIMIT_DEFAULT 100
#define LIST_LIMIT_MAX     500

/* Columns of read_holds and list_holds. */
enum { COLUMN_HOLD = 1 };

/* --- GET /api/holds/{hold} ------------------------------------------------------- */

static enum pg_outcome
read_hold(struct api_call *call, struct desk_tools *tools, struct pg_result **rows)
{
    struct pg_params params;
    struct pg_array orgs, holds;

    pg_array_init(&orgs, PG_TEXT);
    pg_array_init(&holds, PG_UUID);
    pg_array_text(&orgs, call_org(call));
    pg_array_uuid(&holds, &call->hold_id);
    pg_params_init(&params);
    pg_param_array(&params, &orgs);
    pg_param_array(&params, &holds);
    enum pg_outcome outcome =
        params.failed ? PG_REPEAT : call_read(call, tools, STATEMENT_READ_HOLDS, &params, rows);
    pg_array_fini(&orgs);
    pg_array_fini(&holds);
    return outcome;
}

/* Another user's hold is as if it did not exist, but for those who act for others. */
static bool
may_see(const struct api_call *call, const struct hold_view *hold)
{
    return call_sees_event(call, hold->event) &&
           (call_is_privileged(call) || slice_equal(hold->user, call_user(call)));
}

enum hf_status
hold_find(struct api_call *call, struct desk_tools *tools, struct hold_view **hold)
{
    struct pg_result *rows = NULL;
    enum hf_status status = call_outcome(call, read_hold(call, tools, &rows), tools->pg);

    if (status == HF_OK && pg_rows(rows) == 0)
        status = HF_HOLD_NOT_FOUND;
    if (status == HF_OK) {
        *hold = hold_view_from_rows(&call->arena, rows, 0, pg_rows(rows));
        status = *hold == NULL ? HF_OVERLOADED : HF_OK;
    }
    pg_result_free(&rows);
    return status;
}

static void
hold_get_run(struct api_call *call, struct desk_tools *tools)
{
    struct hold_view *hold;
    struct buf body = { 0 };
    struct json_writer w;
    enum hf_status status = hold_find(call, tools, &hold);

    if (status == HF_OK && !may_see(call, hold))
        status = HF_HOLD_NOT_FOUND;
    if (status != HF_OK) {
        respond_refusal(call, status, NULL);
        return;
    }
    json_writer_init(&w, &body);
    hold_json_write(&w, hold);
    respond_json(call, 200, &body);
}

void
hold_get(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, hold_get_run);
}

/* --- GET /api/holds --------------------------------------------------------------- */

struct list_request {
    struct slice event, user;
    struct uuid after;
    bool has_after;
    int64_t limit;
};

static bool
read_after(struct api_call *call, struct list_request *list)
{
    struct slice text;

    list->has_after = call_query(call, "after", &text) && text.len > 0;
    if (!list->has_after || uuid_parse(text, &list->after))
        return true;
    respond_field_error(call, "after", "is not what a list gave as next");
    return false;
}

static bool
read_event(struct api_call *call, struct list_request *list)
{
    struct field_errors errors = { 0 };

    if (!call_query(call, "event_id", &list->event) || list->event.len == 0) {
        field_errors_missing(&call->arena, &errors, SLICE_LITERAL("event_id"));
        respond_field_errors(call, &errors);
        return false;
    }
    if (id_is_valid(list->event))
        return call_may_use_event(call, list->event);
    respond_bad_id(call, "event_id");
    return false;
}

static bool
read_user(struct api_call *call, struct list_request *list)
{
    struct slice named;

    list->user = call_user(call);
    if (!call_query(call, "user_id", &named) || slice_equal(named, list->user))
        return true;
    if (!id_is_valid(named)) {
        respond_bad_id(call, "user_id");
        return false;
    }
    if (!call_is_privileged(call)) {
        respond_refusal(call, HF_FORBIDDEN, "Only agent, service and admin read others' holds.");
        return false;
    }
    list->user = named;
    return true;
}

/* One hold more than the limit tells whether there is a next page. */
static enum pg_outcome
read_list(struct api_call *call, struct desk_tools *tools, struct pg_result **rows)
{
    const struct list_request *list = call->state;
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_text(&params, list->event);
    pg_param_text(&params, list->user);
    if (list->has_after)
        pg_param_uuid(&params, &list->after);
    else
        pg_param_null(&params);
    pg_param_int4(&params, (int32_t)list->limit + 1);
    if (params.failed)
        return PG_REPEAT;
    return call_read(call, tools, STATEMENT_LIST_HOLDS, &params, rows);
}

/* The row after the last one of the hold that begins at `first`. */
static int
end_of_hold(const struct pg_result *rows, int first)
{
    struct uuid hold = pg_get_uuid(rows, first, COLUMN_HOLD);
    int row = first + 1;

    while (row < pg_rows(rows)) {
        struct uuid other = pg_get_uuid(rows, row, COLUMN_HOLD);
        if (!uuid_equal(&hold, &other))
            break;
        row++;
    }
    return row;
}

static bool
write_list(struct api_call *call, const struct pg_result *rows, struct json_writer *w)
{
    const struct list_request *list = call->state;
    struct uuid last = { 0 };
    int row = 0;

    json_object_begin(w);
    json_name(w, "holds");
    json_array_begin(w);
    for (int64_t i = 0; i < list->limit && row < pg_rows(rows); i++) {
        int end = end_of_hold(rows, row);
        struct hold_view *hold = hold_view_from_rows(&call->arena, rows, row, end);
        if (hold == NULL)
            return false;
        hold_json_write(w, hold);
        last = hold->hold_id;
        row = end;
    }
    json_array_end(w);
    if (row < pg_rows(rows))
        json_field_uuid(w, "next", &last);
    json_object_end(w);
    return true;
}

static void
answer_list(struct api_call *call, const struct pg_result *rows)
{
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    if (write_list(call, rows, &w)) {
        respond_json(call, 200, &body);
    } else {
        buf_fini(&body);
        respond_refusal(call, HF_OVERLOADED, NULL);
    }
}

static void
holds_list_run(struct api_call *call, struct desk_tools *tools)
{
    struct pg_result *rows = NULL;
    enum pg_outcome outcome = read_list(call, tools, &rows);

    if (outcome == PG_DONE)
        answer_list(call, rows);
    else
        respond_refusal(call, call_outcome(call, outcome, tools->pg), NULL);
    pg_result_free(&rows);
}

void
holds_list(struct api *api, struct api_call *call)
{
    struct list_request *list = arena_alloc(&call->arena, sizeof(*list));

    (void)api;
    if (list == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    call->state = list;
    if (read_event(call, list) && read_user(call, list) && read_after(call, list) &&
        call_query_int(call, "limit", 1, LIST_LIMIT_MAX, LIST_LIMIT_DEFAULT, &list->limit))
        call_on_desk(call, holds_list_run);
}
