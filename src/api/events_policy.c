/*
 * events_policy.c - the fields of a policy as one table: name, kind, limits; and an event's row.
 *
 * The order of the table is that of the columns of `events`, of read_events and of the
 * parameters of put_event, so that all of them are one loop.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "api_internal.h"
#include "events_internal.h"

#define YEAR_S   (366 * 24 * 3600)
#define HOLD_MAX 500 /* as the setting max_seats_per_hold: arrays of the engine are made for it */
#define USER_MAX 1000000

enum policy_kind { SECONDS, COUNT, FLAG, MODE };

static const struct policy_field {
    const char *name;
    enum policy_kind kind;
    int32_t least, most;
} fields[POLICY_COUNT] = {
    [POLICY_HOLD_TTL] = { "hold_ttl", SECONDS, 1, YEAR_S },
    [POLICY_EXTEND_BY] = { "extend_by", SECONDS, 1, YEAR_S },
    [POLICY_MAX_HOLD] = { "max_hold", SECONDS, 1, YEAR_S },
    [POLICY_MAX_SEATS_PER_HOLD] = { "max_seats_per_hold", COUNT, 1, HOLD_MAX },
    [POLICY_MAX_SEATS_PER_USER] = { "max_seats_per_user", COUNT, 0, USER_MAX },
    [POLICY_ONE_HOLD_PER_USER] = { "one_hold_per_user", FLAG, 0, 1 },
    [POLICY_ONE_SEAT_PER_USER] = { "one_seat_per_user", FLAG, 0, 1 },
    [POLICY_NO_SINGLE_SEAT_GAP] = { "no_single_seat_gap", FLAG, 0, 1 },
    [POLICY_PAYMENT_TIMEOUT] = { "payment_timeout", SECONDS, 1, YEAR_S },
    [POLICY_REHOLD_COOLDOWN] = { "rehold_cooldown", SECONDS, 0, YEAR_S },
    [POLICY_WAITLIST_MODE] = { "waitlist_mode", MODE, 0, 1 },
    [POLICY_WAITLIST_OFFER_TTL] = { "waitlist_offer_ttl", SECONDS, 1, YEAR_S },
};

static const char *const modes[] = { "offer", "confirm" };

void
policy_defaults(int32_t policy[POLICY_COUNT], enum event_kind kind, int64_t max_seats_per_hold)
{
    static const int32_t ttl[] = {
        [EVENT_KIND_EVENT] = 900, [EVENT_KIND_SHOW] = 300, [EVENT_KIND_FLIGHT] = 120
    };

    policy[POLICY_HOLD_TTL] = ttl[kind];
    policy[POLICY_EXTEND_BY] = 300;
    policy[POLICY_MAX_HOLD] = 1200;
    policy[POLICY_MAX_SEATS_PER_HOLD] = (int32_t)max_seats_per_hold;
    policy[POLICY_MAX_SEATS_PER_USER] = 0;
    policy[POLICY_ONE_HOLD_PER_USER] = kind == EVENT_KIND_FLIGHT;
    policy[POLICY_ONE_SEAT_PER_USER] = kind == EVENT_KIND_FLIGHT;
    policy[POLICY_NO_SINGLE_SEAT_GAP] = kind == EVENT_KIND_SHOW;
    policy[POLICY_PAYMENT_TIMEOUT] = 300;
    policy[POLICY_REHOLD_COOLDOWN] = 0;
    policy[POLICY_WAITLIST_MODE] = kind == EVENT_KIND_FLIGHT;
    policy[POLICY_WAITLIST_OFFER_TTL] = 300;
}

/* --- JSON ---------------------------------------------------------------------- */

static void
add_policy_error(struct arena *arena, struct field_errors *errors, const char *name,
                 const char *reason)
{
    char path[64];

    snprintf(path, sizeof(path), "policy.%s", name);
    field_errors_add(arena, errors, slice_of(path), reason);
}

static void
read_mode(struct arena *arena, int32_t *value, const struct cJSON *item,
          struct field_errors *errors)
{
    for (int i = 0; i < 2; i++) {
        if (cJSON_IsString(item) && strcmp(item->valuestring, modes[i]) == 0) {
            *value = i;
            return;
        }
    }
    add_policy_error(arena, errors, "waitlist_mode", "is not offer or confirm");
}

static const char *
number_reason(struct arena *arena, const struct policy_field *field)
{
    char text[96];

    snprintf(text, sizeof(text), "is not a whole number%s from %d to %d",
             field->kind == SECONDS ? " of seconds" : "", field->least, field->most);
    struct slice copy = arena_copy(arena, slice_of(text));
    return copy.ptr != NULL ? copy.ptr : "is not a number that it can be";
}

static void
read_field(struct arena *arena, const struct policy_field *field, int32_t *value,
           const struct cJSON *item, struct field_errors *errors)
{
    int64_t number;

    switch (field->kind) {
    case FLAG:
        if (cJSON_IsBool(item))
            *value = cJSON_IsTrue(item);
        else
            add_policy_error(arena, errors, field->name, "is not true or false");
        break;
    case MODE:
        read_mode(arena, value, item, errors);
        break;
    case SECONDS:
    case COUNT:
        if (json_is_int(item, field->least, field->most, &number))
            *value = (int32_t)number;
        else
            add_policy_error(arena, errors, field->name, number_reason(arena, field));
        break;
    }
}

void
policy_read_json(struct arena *arena, int32_t policy[POLICY_COUNT], const struct cJSON *json,
                 struct field_errors *errors)
{
    for (int i = 0; i < POLICY_COUNT; i++) {
        const struct cJSON *item = cJSON_GetObjectItemCaseSensitive(json, fields[i].name);
        if (item != NULL)
            read_field(arena, &fields[i], &policy[i], item, errors);
    }
}

void
policy_check(struct arena *arena, const int32_t policy[POLICY_COUNT], struct field_errors *errors)
{
    if (policy[POLICY_HOLD_TTL] > policy[POLICY_MAX_HOLD])
        add_policy_error(arena, errors, "hold_ttl", "is longer than max_hold");
}

static void
write_policy(struct json_writer *w, const int32_t policy[POLICY_COUNT])
{
    json_object_begin(w);
    for (int i = 0; i < POLICY_COUNT; i++) {
        json_name(w, fields[i].name);
        if (fields[i].kind == FLAG)
            json_bool(w, policy[i] != 0);
        else if (fields[i].kind == MODE)
            json_text(w, slice_of(modes[policy[i] != 0]));
        else
            json_int(w, policy[i]);
    }
    json_object_end(w);
}

static void
write_focal_point(struct json_writer *w, const struct event_row *event)
{
    json_name(w, "focal_point");
    if (!event->has_focal) {
        json_null(w);
        return;
    }
    json_object_begin(w);
    json_name(w, "x");
    json_float(w, event->focal_x);
    json_name(w, "y");
    json_float(w, event->focal_y);
    json_object_end(w);
}

void
event_row_write(struct json_writer *w, const struct event_row *event)
{
    json_field_text(w, "event_id", event->event);
    json_field_text(w, "kind", slice_of(event_kind_word(event->kind)));
    json_field_text(w, "name", event->name);
    json_field_text(w, "status", slice_of(event_status_word(event->status)));
    json_field_text(w, "currency", slice_of(event->currency));
    json_name(w, "policy");
    write_policy(w, event->policy);
    write_focal_point(w, event);
    json_field_int(w, "version", event->version);
}

/* --- Postgres --------------------------------------------------------------------- */

void
policy_add_params(struct pg_params *params, const int32_t policy[POLICY_COUNT])
{
    for (int i = 0; i < POLICY_COUNT; i++) {
        if (fields[i].kind == FLAG)
            pg_param_bool(params, policy[i] != 0);
        else if (fields[i].kind == MODE)
            pg_param_text(params, slice_of(modes[policy[i] != 0]));
        else
            pg_param_int4(params, policy[i]);
    }
}

/* Columns of read_events and list_events. */
enum { POS, ORG, EVENT, KIND, NAME, STATUS, CURRENCY, VERSION, POLICY };
enum { FOCAL_X = POLICY + POLICY_COUNT, FOCAL_Y };

static void
read_policy(const struct pg_result *rows, int row, int32_t policy[POLICY_COUNT])
{
    for (int i = 0; i < POLICY_COUNT; i++) {
        if (fields[i].kind == FLAG)
            policy[i] = pg_get_bool(rows, row, POLICY + i);
        else if (fields[i].kind == MODE)
            policy[i] = slice_is(pg_get_text(rows, row, POLICY + i), modes[1]);
        else
            policy[i] = (int32_t)pg_get_int(rows, row, POLICY + i);
    }
}

bool
event_row_read(struct arena *arena, const struct pg_result *rows, int row, struct event_row *event)
{
    struct slice currency = pg_get_text(rows, row, CURRENCY);

    memset(event, 0, sizeof(*event));
    event->event = arena_copy(arena, pg_get_text(rows, row, EVENT));
    event->name = arena_copy(arena, pg_get_text(rows, row, NAME));
    event->version = pg_get_int(rows, row, VERSION);
    memcpy(event->currency, currency.ptr, currency.len < 3 ? currency.len : 3);
    read_policy(rows, row, event->policy);
    event->has_focal = !pg_is_null(rows, row, FOCAL_X);
    event->focal_x = (float)pg_get_double(rows, row, FOCAL_X);
    event->focal_y = (float)pg_get_double(rows, row, FOCAL_Y);
    return event->event.ptr != NULL && event->name.ptr != NULL &&
           event_kind_parse(pg_get_text(rows, row, KIND), &event->kind) &&
           event_status_parse(pg_get_text(rows, row, STATUS), &event->status);
}

void
event_row_learn(struct node *node, struct slice org, const struct event_row *event,
                struct mono_time read_at)
{
    struct event_info info = {
        .version = event->version,
        .status = event->status,
        .kind = event->kind,
        .policy = { .hold_ttl_s = event->policy[POLICY_HOLD_TTL],
                    .extend_by_s = event->policy[POLICY_EXTEND_BY],
                    .max_hold_s = event->policy[POLICY_MAX_HOLD],
                    .max_seats_per_hold = event->policy[POLICY_MAX_SEATS_PER_HOLD],
                    .max_seats_per_user = event->policy[POLICY_MAX_SEATS_PER_USER],
                    .one_hold_per_user = event->policy[POLICY_ONE_HOLD_PER_USER] != 0,
                    .one_seat_per_user = event->policy[POLICY_ONE_SEAT_PER_USER] != 0,
                    .no_single_seat_gap = event->policy[POLICY_NO_SINGLE_SEAT_GAP] != 0 },
        .read_at = read_at,
    };

    memcpy(info.currency, event->currency, sizeof(info.currency));
    events_learn(node->events, org, event->event, &info);
}

enum hf_status
event_row_find(struct api_call *call, struct pg *pg, struct slice org, struct slice event_id,
               struct event_row *event)
{
    struct pg_array orgs = { 0 }, events = { 0 };
    struct pg_params params;
    struct pg_result *rows = NULL;
    struct mono_time began = mono_now();

    pg_array_init(&orgs, PG_TEXT);
    pg_array_init(&events, PG_TEXT);
    pg_array_text(&orgs, org);
    pg_array_text(&events, event_id);
    pg_params_init(&params);
    pg_param_array(&params, &orgs);
    pg_param_array(&params, &events);
    struct desk_tools tools = { .node = call->api->node, .pg = pg };
    enum hf_status status =
        call_outcome(call, call_read(call, &tools, STATEMENT_READ_EVENTS, &params, &rows), pg);
    pg_array_fini(&orgs);
    pg_array_fini(&events);
    if (status != HF_OK)
        return status;
    if (pg_rows(rows) == 0)
        status = HF_EVENT_NOT_FOUND;
    else if (!event_row_read(&call->arena, rows, 0, event))
        status = HF_INTERNAL;
    else
        event_row_learn(call->api->node, org, event, began);
    pg_result_free(&rows);
    return status;
}
