/*
 * seat_events.c - GET /flights/{event}/events: what happened to a flight's seats, in the words of
 * seed 003, the newest first. The view seat_events over the audit log, searched as that is.
 */
#include "audit_page.h"
#include "flight_map.h"

/* Columns of seat_events_find after those of every report. */
enum { SE_SEAT = AC_AT + 1, SE_FLIGHT, SE_TYPE, SE_ACTOR, SE_PASSENGER, SE_METADATA };

static bool
is_type(struct slice text)
{
    return slice_is(text, "HELD") || slice_is(text, "CONFIRMED") || slice_is(text, "CANCELLED") ||
           slice_is(text, "EXPIRED") || slice_is(text, "WAITLIST_ASSIGNED");
}

/* False: refused, the call is gone. */
static bool
read_id(struct api_call *call, const char *name, struct slice *id)
{
    if (!call_query(call, name, id)) {
        *id = SLICE_EMPTY;
        return true;
    }
    if (!id_is_valid(*id))
        respond_bad_id(call, name);
    return id_is_valid(*id);
}

/* The same. */
static bool
read_type(struct api_call *call, struct slice *type)
{
    if (!call_query(call, "eventType", type)) {
        *type = SLICE_EMPTY;
        return true;
    }
    if (!is_type(*type))
        respond_field_error(call, "eventType",
                            "is none of HELD, CONFIRMED, CANCELLED, EXPIRED, WAITLIST_ASSIGNED");
    return is_type(*type);
}

static void
write_event(struct json_writer *w, const struct pg_result *rows, int row)
{
    json_object_begin(w);
    json_field_int(w, "eventId", pg_get_int(rows, row, AC_ID));
    json_field_text(w, "seatId", pg_get_text(rows, row, SE_SEAT));
    json_field_text(w, "flightId", pg_get_text(rows, row, SE_FLIGHT));
    json_field_text(w, "eventType", pg_get_text(rows, row, SE_TYPE));
    json_field_text(w, "actor", pg_get_text(rows, row, SE_ACTOR));
    json_name(w, "passengerId");
    if (pg_is_null(rows, row, SE_PASSENGER))
        json_null(w);
    else
        json_text(w, pg_get_text(rows, row, SE_PASSENGER));
    json_name(w, "metadata");
    json_raw(w, pg_get_text(rows, row, SE_METADATA));
    json_field_time(w, "createdAt", pg_get_time(rows, row, AC_AT));
    json_object_end(w);
}

static void
run(struct api_call *call, struct desk_tools *tools)
{
    const struct audit_question *question = call->state;
    struct audit_found found = { 0 };
    enum hf_status status = flight_find(call, tools->pg, question->org, question->event);

    if (status == HF_OK)
        status = call_outcome(call, audit_page_find(call, tools, question, &found), tools->pg);
    if (status == HF_OK)
        audit_page_answer(call, &found, "events", write_event);
    else
        respond_refusal(call, status, NULL);
    audit_found_fini(&found);
}

void
flight_events_get(struct api *api, struct api_call *call)
{
    struct audit_question *question = arena_alloc(&call->arena, sizeof(*question));

    (void)api;
    if (question == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    if (!call_is_privileged(call)) {
        respond_refusal(call, HF_FORBIDDEN,
                        "Only agent, service and admin see what happened to others' seats.");
        return;
    }
    *question = (struct audit_question){ .report = REPORT_SEAT_EVENTS_FIND,
                                         .org = call_org(call),
                                         .event = call->event,
                                         .hold = SLICE_EMPTY };
    if (!read_id(call, "seatId", &question->seat) ||
        !read_id(call, "passengerId", &question->user) || !read_type(call, &question->action) ||
        !audit_page_read(call, question))
        return;
    call->state = question;
    call_on_desk(call, run);
}
