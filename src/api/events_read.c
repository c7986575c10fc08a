/*
 * events_read.c - GET /api/events/{event} and GET /api/events.
 */
#include "api_internal.h"
#include "events_internal.h"

#define LIST_LIMIT 100

static void
answer_event(struct api_call *call, const struct event_row *event, int64_t seat_count)
{
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    event_row_write(&w, event);
    json_field_int(&w, "seat_count", seat_count);
    json_object_end(&w);
    respond_json(call, 200, &body);
}

static void
get_run(struct api_call *call, struct desk_tools *tools)
{
    struct event_row event;
    struct pg_params params;
    struct pg_result *rows = NULL;
    enum hf_status status = event_row_find(call, tools->pg, call_org(call), call->event, &event);

    if (status == HF_OK) {
        pg_params_init(&params);
        pg_param_text(&params, call_org(call));
        pg_param_text(&params, call->event);
        status = call_outcome(call, call_read(call, tools, STATEMENT_COUNT_SEATS, &params, &rows),
                              tools->pg);
    }
    if (status == HF_OK)
        answer_event(call, &event, pg_get_int(rows, 0, 0));
    else
        respond_refusal(call, status, NULL);
    pg_result_free(&rows);
}

void
events_get(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, get_run);
}

/* --- the list -------------------------------------------------------------------- */

struct list_wish {
    struct slice after;
    int64_t limit;
};

static void
write_list(struct buf *body, struct api_call *call, const struct pg_result *rows, int64_t limit)
{
    struct json_writer w;
    struct event_row event;
    int count = pg_rows(rows) > limit ? (int)limit : pg_rows(rows);

    json_writer_init(&w, body);
    json_object_begin(&w);
    json_name(&w, "events");
    json_array_begin(&w);
    for (int row = 0; row < count; row++) {
        if (!event_row_read(&call->arena, rows, row, &event))
            continue;
        json_object_begin(&w);
        event_row_write(&w, &event);
        json_object_end(&w);
    }
    json_array_end(&w);
    if (pg_rows(rows) > count) /* one more was asked for, to know whether there is a next page */
        json_field_text(&w, "next", event.event);
    json_object_end(&w);
}

static void
list_run(struct api_call *call, struct desk_tools *tools)
{
    const struct list_wish *wish = call->state;
    struct pg_params params;
    struct pg_result *rows = NULL;
    struct buf body = { 0 };

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_text(&params, wish->after);
    pg_param_int4(&params, (int32_t)wish->limit + 1);
    enum hf_status status = call_outcome(
        call, call_read(call, tools, STATEMENT_LIST_EVENTS, &params, &rows), tools->pg);
    if (status == HF_OK) {
        write_list(&body, call, rows, wish->limit);
        respond_json(call, 200, &body);
    } else {
        respond_refusal(call, status, NULL);
    }
    pg_result_free(&rows);
}

void
events_list(struct api *api, struct api_call *call)
{
    (void)api;
    struct list_wish *wish = arena_alloc(&call->arena, sizeof(*wish));
    if (wish == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    if (!call_query_int(call, "limit", 1, LIST_LIMIT, LIST_LIMIT, &wish->limit))
        return;
    if (!call_query(call, "after", &wish->after) || wish->after.len == 0) {
        wish->after = SLICE_EMPTY;
    } else if (!id_is_valid(wish->after)) {
        respond_field_error(call, "after", "is not an id");
        return;
    }
    call->state = wish;
    call_on_desk(call, list_run);
}
