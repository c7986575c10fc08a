/*
 * audit_api.c - GET /api/admin/audit: who did what, from where, and why; the newest first.
 *
 * The log is narrow: what an entry was about, and the states before and after, follow from its
 * action. How long a hold had lasted is asked of the hold when the entry is read.
 */
#include <string.h>

#include "audit_page.h"
#include "holdfast/json.h"

/* --- the question ------------------------------------------------------------- */

static bool
is_word(struct slice text)
{
    bool is_good = text.len > 0 && text.len < ID_BYTES_MAX;

    for (size_t i = 0; i < text.len && is_good; i++)
        is_good = (text.ptr[i] >= 'a' && text.ptr[i] <= 'z') || text.ptr[i] == '_';
    return is_good;
}

static bool
is_uuid(struct slice text)
{
    struct uuid ignored;
    return uuid_parse(text, &ignored);
}

struct filter {
    const char *name;
    bool (*is_good)(struct slice text);
    const char *reason; /* why it isn't; NULL: it is no id */
    struct slice *value;
};

static bool
refuse_filter(struct api_call *call, const struct filter *filter)
{
    if (filter->reason != NULL)
        respond_field_error(call, filter->name, filter->reason);
    else
        respond_bad_id(call, filter->name);
    return false;
}

/* False: the call is answered. */
static bool
read_filters(struct api_call *call, struct audit_question *question)
{
    const struct filter filters[] = {
        { "event_id", id_is_valid, NULL, &question->event },
        { "seat_id", id_is_valid, NULL, &question->seat },
        { "hold_id", is_uuid, "is not a UUID", &question->hold },
        { "user_id", id_is_valid, NULL, &question->user },
        { "action", is_word, "is not an action", &question->action },
    };

    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
        if (!call_query(call, filters[i].name, filters[i].value))
            *filters[i].value = SLICE_EMPTY;
        else if (!filters[i].is_good(*filters[i].value))
            return refuse_filter(call, &filters[i]);
    }
    return true;
}

/* --- an entry ------------------------------------------------------------------- */

/* What an action is about, and the states that it leads from and to; NULL: none to tell. */
static const struct action_sense {
    const char *action, *entity, *before, *after;
} senses[] = {
    { "seat_held", "SeatHold", NULL, "active" },
    { "hold_extended", "SeatHold", "active", "active" },
    { "hold_changed", "SeatHold", "active", "active" },
    { "hold_transferred", "SeatHold", "active", "active" },
    { "seat_released", "SeatHold", NULL, NULL }, /* by what the entry has */
    { "seat_sold", "SeatHold", "active", "converted" },
    { "payment_started", "SeatHold", "active", "active" },
    { "payment_stopped", "SeatHold", "active", "active" },
    { "seat_blocked", "Seat", "available", "blocked" },
    { "seat_unblocked", "Seat", "blocked", "available" },
    { "seat_removed", "Seat", NULL, "removed" },
    { "seat_added", "Seat", "removed", "available" },
    { "seat_changed", "Seat", NULL, NULL },
    { "area_changed", "Area", NULL, NULL },
    { "event_changed", "Event", NULL, NULL },
    { "checkout_started", "Checkout", NULL, "open" },
    { "checkout_completed", "Checkout", "paying", "completed" },
    { "checkout_cancelled", "Checkout", "open", "cancelled" },
    { "checkout_failed", "Checkout", "paying", "failed" },
    { "refund_required", "Checkout", NULL, NULL },
    { "checkin_created", "Checkin", NULL, "IN_PROGRESS" },
    { "checkin_changed", "Checkin", NULL, NULL },
    { "baggage_weighed", "Checkin", NULL, NULL }, /* the details tell */
    { "baggage_paid", "Checkin", NULL, "COMPLETED" },
    { "baggage_not_paid", "Checkin", "WAITING_FOR_PAYMENT", "IN_PROGRESS" },
    { "waitlist_joined", "waitlist", NULL, "QUEUED" },
    { "waitlist_offered", "waitlist", "QUEUED", "OFFERED" },
    { "waitlist_assigned", "waitlist", NULL, "ASSIGNED" },
    { "waitlist_lapsed", "waitlist", "OFFERED", "LAPSED" },
    { "waitlist_left", "waitlist", NULL, "LEFT" },
};

static const struct action_sense *
sense_of(struct slice action)
{
    static const struct action_sense unknown = { "", "Event", NULL, NULL };

    for (size_t i = 0; i < sizeof(senses) / sizeof(senses[0]); i++) {
        if (slice_is(action, senses[i].action))
            return &senses[i];
    }
    return &unknown; /* a newer node's */
}

struct entry {
    const struct pg_result *rows;
    int row;
};

static struct slice
text_of(const struct entry *entry, enum audit_column column)
{
    return pg_get_text(entry->rows, entry->row, column);
}

static bool
has(const struct entry *entry, enum audit_column column)
{
    return !pg_is_null(entry->rows, entry->row, column);
}

static void
write_text(struct json_writer *w, const char *name, const struct entry *entry,
           enum audit_column column)
{
    json_name(w, name);
    if (has(entry, column))
        json_text(w, text_of(entry, column));
    else
        json_null(w);
}

static void
write_uuid(struct json_writer *w, const char *name, const struct entry *entry,
           enum audit_column column)
{
    struct uuid uuid = pg_get_uuid(entry->rows, entry->row, column);

    json_name(w, name);
    if (has(entry, column))
        json_uuid(w, &uuid);
    else
        json_null(w);
}

static void
write_time(struct json_writer *w, const char *name, const struct entry *entry,
           enum audit_column column)
{
    char text[DB_TIME_TEXT_BYTES];

    db_time_format(pg_get_time(entry->rows, entry->row, column), text);
    json_field_text(w, name, slice_of(text));
}

static void
write_entity(struct json_writer *w, const struct entry *entry, const char *entity)
{
    if (has(entry, AC_CHECKIN))
        entity = "Checkin"; /* a refund may be of either */
    json_field_text(w, "entity_type", slice_of(entity));
    if (strcmp(entity, "SeatHold") == 0)
        write_uuid(w, "entity_id", entry, AC_HOLD);
    else if (strcmp(entity, "Seat") == 0)
        write_text(w, "entity_id", entry, AC_SEAT);
    else if (strcmp(entity, "Area") == 0)
        write_text(w, "entity_id", entry, AC_AREA);
    else if (strcmp(entity, "Checkout") == 0)
        write_uuid(w, "entity_id", entry, AC_CHECKOUT);
    else if (strcmp(entity, "Checkin") == 0)
        write_uuid(w, "entity_id", entry, AC_CHECKIN);
    else if (strcmp(entity, "waitlist") == 0)
        write_uuid(w, "entity_id", entry, AC_WAITLIST);
    else
        write_text(w, "entity_id", entry, AC_EVENT);
}

static bool
is_release(const struct action_sense *sense)
{
    return strcmp(sense->action, "seat_released") == 0;
}

static bool
has_run_out(const struct entry *entry)
{
    struct slice reason = text_of(entry, AC_REASON);

    return slice_is(reason, "ttl_expired") || slice_is(reason, "waitlist_lapsed");
}

static void
write_states(struct json_writer *w, const struct entry *entry, const struct action_sense *sense)
{
    const char *before = sense->before, *after = sense->after;

    if (is_release(sense)) { /* what was sold had no end any more */
        before = has(entry, AC_HELD_UNTIL) ? "active" : "converted";
        after = has_run_out(entry) ? "expired" : "cancelled";
    }
    if (before != NULL)
        json_field_text(w, "previous_status", slice_of(before));
    if (after != NULL)
        json_field_text(w, "new_status", slice_of(after));
}

static void
write_changes(struct json_writer *w, const struct entry *entry, const struct action_sense *sense)
{
    json_name(w, "changes");
    json_object_begin(w);
    json_field_text(w, "event_id", text_of(entry, AC_EVENT));
    if (has(entry, AC_SEAT))
        write_text(w, "seat_id", entry, AC_SEAT);
    if (has(entry, AC_AREA))
        write_text(w, "area_id", entry, AC_AREA);
    if (has(entry, AC_HOLD))
        write_uuid(w, "hold_id", entry, AC_HOLD);
    if (has(entry, AC_USER))
        write_text(w, "user_id", entry, AC_USER);
    if (has(entry, AC_VERSION))
        json_field_int(w, "version", pg_get_int(entry->rows, entry->row, AC_VERSION));
    if (has(entry, AC_QUANTITY))
        json_field_int(w, "quantity", pg_get_int(entry->rows, entry->row, AC_QUANTITY));
    write_states(w, entry, sense);
    if (has(entry, AC_REASON))
        write_text(w, "reason", entry, AC_REASON);
    if (has(entry, AC_HELD_UNTIL))
        write_time(w, "held_until", entry, AC_HELD_UNTIL);
    if (has(entry, AC_HELD_SECONDS))
        json_field_int(w, "held_duration_seconds",
                       pg_get_int(entry->rows, entry->row, AC_HELD_SECONDS));
    if (has(entry, AC_META)) {
        json_name(w, "details");
        json_raw(w, text_of(entry, AC_META));
    }
    json_object_end(w);
}

static void
write_metadata(struct json_writer *w, const struct entry *entry, const struct action_sense *sense)
{
    json_name(w, "metadata");
    json_object_begin(w);
    if (is_release(sense)) {
        write_text(w, "scenario", entry, AC_REASON);
    } else {
        json_name(w, "scenario");
        json_null(w);
    }
    if (has(entry, AC_CHECKOUT))
        write_uuid(w, "checkout_id", entry, AC_CHECKOUT);
    write_text(w, "ip", entry, AC_CLIENT_IP);
    write_text(w, "user_agent", entry, AC_USER_AGENT);
    write_text(w, "request_id", entry, AC_REQUEST);
    json_object_end(w);
}

static void
write_entry(struct json_writer *w, const struct pg_result *rows, int row)
{
    struct entry entry = { rows, row };
    struct slice action = text_of(&entry, AC_ACTION);
    const struct action_sense *sense = sense_of(action);

    json_object_begin(w);
    json_field_int(w, "id", pg_get_int(rows, row, AC_ID));
    json_field_text(w, "action", action);
    write_entity(w, &entry, sense->entity);
    write_text(w, "actor", &entry, AC_ACTOR);
    write_changes(w, &entry, sense);
    write_metadata(w, &entry, sense);
    write_time(w, "timestamp", &entry, AC_AT);
    json_object_end(w);
}

/* --- the page ------------------------------------------------------------------- */

static void
run(struct api_call *call, struct desk_tools *tools)
{
    const struct audit_question *question = call->state;
    struct audit_found found;
    enum pg_outcome outcome = audit_page_find(call, tools, question, &found);

    if (outcome == PG_DONE)
        audit_page_answer(call, &found, "entries", write_entry);
    else if (outcome == PG_DATA_ERROR && question->action.len > 0)
        respond_field_error(call, "action", "is not an action");
    else
        respond_refusal(call, call_outcome(call, outcome, tools->pg), NULL);
    audit_found_fini(&found);
}

void
audit_get(struct api *api, struct api_call *call)
{
    struct audit_question *question = arena_alloc(&call->arena, sizeof(*question));

    (void)api;
    if (question == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    *question = (struct audit_question){ .report = REPORT_AUDIT_FIND, .org = call_org(call) };
    if (!read_filters(call, question) || !audit_page_read(call, question))
        return;
    call->state = question;
    call_on_desk(call, run);
}
