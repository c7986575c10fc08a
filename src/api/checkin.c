/*
 * checkin.c - a check-in as rows tell it and as JSON shows it.
 */
#include "checkin.h"

#include <stdio.h>

bool
checkin_is_visible(const struct api_call *call, const struct pg_result *rows)
{
    struct uuid checkin = pg_get_uuid(rows, 0, CI_CHECKIN);

    if (call_is_privileged(call))
        return true;
    return slice_equal(pg_get_text(rows, 0, CI_PASSENGER), call_user(call)) &&
           call_sees_event(call, pg_get_text(rows, 0, CI_EVENT)) &&
           (!call->claims.has_checkin || uuid_equal(&call->claims.checkin, &checkin));
}

/* --- JSON ---------------------------------------------------------------------------------- */

void
checkin_json_uuid(struct json_writer *w, const char *name, const struct pg_result *rows, int column)
{
    struct uuid uuid = pg_get_uuid(rows, 0, column);

    json_name(w, name);
    if (pg_is_null(rows, 0, column))
        json_null(w);
    else
        json_uuid(w, &uuid);
}

void
checkin_json_text(struct json_writer *w, const char *name, const struct pg_result *rows, int column)
{
    json_name(w, name);
    if (pg_is_null(rows, 0, column))
        json_null(w);
    else
        json_text(w, pg_get_text(rows, 0, column));
}

static void
write_weight(struct json_writer *w, const struct pg_result *rows)
{
    int64_t weight = pg_get_int(rows, 0, CI_WEIGHT);
    char text[32];

    json_name(w, "baggageWeight");
    if (pg_is_null(rows, 0, CI_WEIGHT)) {
        json_null(w);
        return;
    }
    snprintf(text, sizeof(text), "%lld.%02lld", (long long)(weight / 100),
             (long long)(weight % 100));
    json_raw(w, slice_of(text));
}

void
checkin_json_write(struct json_writer *w, const void *result)
{
    const struct pg_result *rows = result;

    json_object_begin(w);
    checkin_json_uuid(w, "checkinId", rows, CI_CHECKIN);
    checkin_json_text(w, "passengerId", rows, CI_PASSENGER);
    checkin_json_text(w, "lastName", rows, CI_LAST_NAME);
    checkin_json_text(w, "flightId", rows, CI_EVENT);
    checkin_json_text(w, "state", rows, CI_STATE);
    write_weight(w, rows);
    checkin_json_uuid(w, "paymentIntentId", rows, CI_INTENT);
    checkin_json_text(w, "currentSeat", rows, CI_SEAT);
    json_field_time(w, "createdAt", pg_get_time(rows, 0, CI_CREATED));
    json_object_end(w);
}

/* --- statements ------------------------------------------------------------------------------ */

struct slice
trim_blanks(struct slice text)
{
    while (text.len > 0 && (unsigned char)text.ptr[0] <= ' ')
        text = (struct slice){ text.ptr + 1, text.len - 1 };
    while (text.len > 0 && (unsigned char)text.ptr[text.len - 1] <= ' ')
        text.len--;
    return text;
}

void
checkin_send_read(struct pg *pg, struct slice org, const struct uuid *checkin)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, org);
    pg_param_uuid(&params, checkin);
    pg_tx_send(pg, STATEMENT_READ_CHECKIN, &params);
}

enum column { ID, EVENT, PASSENGER, NAME, COLUMN_COUNT };

void
checkins_send_put(struct pg *pg, struct api_call *call, const struct checkin_wish *wishes,
                  size_t count)
{
    struct pg_array columns[COLUMN_COUNT] = { 0 };
    struct pg_params params;

    for (int i = 0; i < COLUMN_COUNT; i++)
        pg_array_init(&columns[i], i == ID ? PG_UUID : PG_TEXT);
    for (size_t i = 0; i < count; i++) {
        struct uuid id = uuid_v7_new();
        pg_array_uuid(&columns[ID], &id);
        pg_array_text(&columns[EVENT], wishes[i].event);
        pg_array_text(&columns[PASSENGER], wishes[i].passenger);
        pg_array_text(&columns[NAME], wishes[i].last_name);
    }
    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    for (int i = 0; i < COLUMN_COUNT; i++)
        pg_param_array(&params, &columns[i]);
    pg_param_optional(&params, call_user(call));
    pg_param_text(&params, slice_of(call->exchange->request.request_id));
    call_add_origin(call, &params);
    pg_tx_send(pg, STATEMENT_PUT_CHECKINS, &params);
    for (int i = 0; i < COLUMN_COUNT; i++)
        pg_array_fini(&columns[i]);
}
