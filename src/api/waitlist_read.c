/*
 * waitlist_read.c - GET /waitlist/{waitlist}, and of an event's list: as they stand in Postgres,
 * read at the desk.
 *
 * A user sees the entry that is theirs, and which position it has; agents see the whole list.
 */
#include "waitlist_json.h"

#define LIST_LIMIT_DEFAULT 100
#define LIST_LIMIT_MAX     500
#define PLACE_MAX          999999999999999999

/* --- one entry --------------------------------------------------------------------- */

static void
write_optional(struct json_writer *w, const char *name, struct slice text)
{
    if (text.len > 0)
        json_field_text(w, name, text);
}

static void
write_wish(struct json_writer *w, const struct pg_result *rows, int row)
{
    json_name(w, "seatPreferences");
    json_object_begin(w);
    write_optional(w, "seatType", pg_get_text(rows, row, WAITING_TYPE));
    write_optional(w, "section", pg_get_text(rows, row, WAITING_SECTION));
    json_object_end(w);
}

static void
write_what_it_got(struct json_writer *w, const struct pg_result *rows, int row)
{
    struct uuid hold = pg_get_uuid(rows, row, WAITING_HOLD);

    write_optional(w, "seatId", pg_get_text(rows, row, WAITING_SEAT));
    if (!uuid_is_nil(&hold))
        json_field_uuid(w, "holdId", &hold);
    if (!pg_is_null(rows, row, WAITING_UNTIL))
        json_field_time(w, "expiresAt", pg_get_time(rows, row, WAITING_UNTIL));
}

void
waitlist_json_entry(struct json_writer *w, const struct pg_result *rows, int row)
{
    struct uuid entry = pg_get_uuid(rows, row, WAITING_ENTRY);

    json_object_begin(w);
    json_field_uuid(w, "waitlistId", &entry);
    json_field_text(w, "flightId", pg_get_text(rows, row, WAITING_EVENT));
    json_field_text(w, "eventId", pg_get_text(rows, row, WAITING_EVENT));
    json_field_text(w, "userId", pg_get_text(rows, row, WAITING_USER));
    json_field_text(w, "status", pg_get_text(rows, row, WAITING_STATE));
    json_name(w, "position");
    if (pg_is_null(rows, row, WAITING_POSITION))
        json_null(w);
    else
        json_int(w, pg_get_int(rows, row, WAITING_POSITION));
    write_wish(w, rows, row);
    write_what_it_got(w, rows, row);
    json_field_time(w, "createdAt", pg_get_time(rows, row, WAITING_CREATED));
    json_object_end(w);
}

static bool
may_see(const struct api_call *call, const struct pg_result *rows)
{
    return call_sees_event(call, pg_get_text(rows, 0, WAITING_EVENT)) &&
           (call_is_privileged(call) ||
            slice_equal(pg_get_text(rows, 0, WAITING_USER), call_user(call)));
}

void
waitlist_answer_entry(struct api_call *call, struct desk_tools *tools)
{
    struct pg_result *rows = NULL;
    struct pg_params params;
    struct buf body = { 0 };
    struct json_writer w;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_uuid(&params, &call->waitlist_id);
    enum pg_outcome outcome = call_read(call, tools, STATEMENT_READ_WAITING, &params, &rows);
    if (outcome != PG_DONE) {
        respond_refusal(call, call_outcome(call, outcome, tools->pg), NULL);
    } else if (pg_rows(rows) == 0 || !may_see(call, rows)) {
        respond_refusal(call, HF_NOT_FOUND, NO_WAITLIST_ENTRY);
    } else {
        json_writer_init(&w, &body);
        waitlist_json_entry(&w, rows, 0);
        respond_json(call, 200, &body);
    }
    pg_result_free(&rows);
}

void
waitlist_get(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, waitlist_answer_entry);
}

/* --- a list --------------------------------------------------------------------------- */

struct waiting_page {
    bool of_flight;
    int64_t after, limit;
};

/* One entry more than the limit tells whether there is a next page. */
static enum pg_outcome
read_page(struct api_call *call, struct desk_tools *tools, struct pg_result **rows)
{
    const struct waiting_page *page = call->state;
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_text(&params, call->event);
    if (call_is_privileged(call))
        pg_param_null(&params);
    else
        pg_param_text(&params, call_user(call));
    pg_param_int8(&params, page->after);
    pg_param_int4(&params, (int32_t)page->limit + 1);
    return call_read(call, tools, STATEMENT_LIST_WAITING, &params, rows);
}

static void
answer_page(struct api_call *call, const struct pg_result *rows)
{
    const struct waiting_page *page = call->state;
    int count = pg_is_null(rows, 0, WAITING_ENTRY) ? 0 : pg_rows(rows);
    int shown = count > page->limit ? (int)page->limit : count;
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_field_text(&w, "eventId", call->event);
    json_name(&w, "entries");
    json_array_begin(&w);
    for (int row = 0; row < shown; row++)
        waitlist_json_entry(&w, rows, row);
    json_array_end(&w);
    if (count > shown)
        json_field_int(&w, "next", pg_get_int(rows, shown - 1, WAITING_PLACE));
    json_object_end(&w);
    respond_json(call, 200, &body);
}

static bool
has_event(const struct waiting_page *page, const struct pg_result *rows)
{
    return pg_rows(rows) > 0 &&
           (!page->of_flight || slice_is(pg_get_text(rows, 0, WAITING_KIND), "flight"));
}

static void
list_run(struct api_call *call, struct desk_tools *tools)
{
    struct pg_result *rows = NULL;
    enum pg_outcome outcome = read_page(call, tools, &rows);

    if (outcome != PG_DONE)
        respond_refusal(call, call_outcome(call, outcome, tools->pg), NULL);
    else if (!has_event(call->state, rows))
        respond_refusal(call, HF_EVENT_NOT_FOUND, NULL);
    else
        answer_page(call, rows);
    pg_result_free(&rows);
}

static void
list(struct api_call *call, bool of_flight)
{
    struct waiting_page *page = arena_alloc(&call->arena, sizeof(*page));

    if (page == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    page->of_flight = of_flight;
    call->state = page;
    if (call_query_int(call, "after", 0, PLACE_MAX, 0, &page->after) &&
        call_query_int(call, "limit", 1, LIST_LIMIT_MAX, LIST_LIMIT_DEFAULT, &page->limit))
        call_on_desk(call, list_run);
}

void
waitlist_list(struct api *api, struct api_call *call)
{
    (void)api;
    list(call, false);
}

void
flight_waitlist_list(struct api *api, struct api_call *call)
{
    (void)api;
    list(call, true);
}
