/*
 * seats_read.c - GET /api/events/{event}/seats/{seat}: hot table, then Redis, then Postgres.
 *
 * Memory answers while its entry is trusted. It knows users only as hashes, and equal
 * hashes prove nothing: whether a held seat is the caller's own is Postgres' to say.
 * Redis may serve a hold that it knows to be committed and alive; nothing else, and
 * nothing that was read from it is kept.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_internal.h"
#include "events_internal.h"
#include "holdfast/metrics.h"

/* One seat as it is to be shown. */
struct shown_seat {
    enum seat_status status;
    int64_t version;
    struct db_time until; /* of a held one */
    bool mine;
    enum op_tier tier;
};

static void
count_tier(enum op_tier tier)
{
    switch (tier) {
    case TIER_HOT:
        metric_add(METRIC_SEAT_READS_HOT_TOTAL, 1);
        break;
    case TIER_REDIS:
        metric_add(METRIC_SEAT_READS_REDIS_TOTAL, 1);
        break;
    case TIER_POSTGRES:
        metric_add(METRIC_SEAT_READS_PG_TOTAL, 1);
        break;
    }
}

static void
write_seat(struct buf *body, const struct api_call *call, const struct shown_seat *seat)
{
    struct json_writer w;
    char time[DB_TIME_TEXT_BYTES];

    json_writer_init(&w, body);
    json_object_begin(&w);
    json_field_text(&w, "seat_id", call->seat);
    json_field_text(&w, "status", slice_of(seat_status_word(seat->status)));
    json_field_int(&w, "version", seat->version);
    if (seat->status == SEAT_HELD) {
        db_time_format(seat->until, time);
        json_field_text(&w, "held_until", slice_of(time));
    }
    if (seat->mine)
        json_field_bool(&w, "mine", true);
    json_object_end(&w);
}

/* The version says all that changes, but for time (a hold that is over) and who is asking. */
static void
write_etag(char *text, size_t bytes, const struct shown_seat *seat)
{
    snprintf(text, bytes, "W/\"%lld-%s%s\"", (long long)seat->version,
             seat_status_word(seat->status), seat->mine ? "-mine" : "");
}

static bool
is_still_true(struct slice if_none_match, const char *etag)
{
    const char *quoted = etag + 2; /* weak comparison: what stands after W/ */

    return if_none_match.len > 0 &&
           (slice_is(if_none_match, "*") ||
            memmem(if_none_match.ptr, if_none_match.len, quoted, strlen(quoted)) != NULL);
}

static void
answer(struct api_call *call, const struct shown_seat *seat)
{
    struct buf body = { 0 };
    char etag[64];

    count_tier(seat->tier);
    respond_tier(call, seat->tier);
    write_etag(etag, sizeof(etag), seat);
    respond_header(call, "ETag", slice_of(etag));
    if (is_still_true(call->exchange->request.if_none_match, etag)) {
        respond_no_body(call, 304);
        return;
    }
    write_seat(&body, call, seat);
    respond_json(call, 200, &body);
}

/* Past its end a hold shows as free, unless its payment is being decided. */
static struct shown_seat
shown(const struct seat_view *view, struct db_time now, enum op_tier tier)
{
    struct shown_seat seat = {
        .status = view->status, .version = view->version, .until = view->held_until, .tier = tier
    };

    if (seat.status == SEAT_HELD && !view->in_payment && view->held_until.us <= now.us)
        seat.status = SEAT_AVAILABLE;
    return seat;
}

static struct seat_key
key_of(const struct api_call *call)
{
    return (struct seat_key){ call_org(call), call->event, call->seat };
}

/* --- Redis -------------------------------------------------------------------------------- */

static bool
is_text(const cJSON *item)
{
    return cJSON_IsString(item) && item->valuestring[0] != '\0';
}

/* True: a committed hold that is surely alive. */
static bool
read_warm_value(struct api_call *call, struct slice json, struct shown_seat *seat)
{
    struct json_error error;
    struct db_time now;
    int64_t error_us;
    bool good = false;
    cJSON *value = json_parse(json, &error);
    const cJSON *user = cJSON_GetObjectItemCaseSensitive(value, "user_id");
    const cJSON *until = cJSON_GetObjectItemCaseSensitive(value, "expires_at");
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(value, "version");

    *seat = (struct shown_seat){ .status = SEAT_HELD, .tier = TIER_REDIS };
    if (is_text(user) && is_text(until) &&
        json_is_int(version, 1, INT64_C(1) << 53, &seat->version) &&
        db_time_parse(slice_of(until->valuestring), &seat->until) &&
        db_clock_read(call->api->node->clock, mono_now(), &now, &error_us)) {
        seat->mine = slice_is(call_user(call), user->valuestring);
        good = seat->until.us > now.us + error_us;
    }
    cJSON_Delete(value);
    return good;
}

static bool
find_in_redis(struct api_call *call, struct desk_tools *tools, struct shown_seat *seat)
{
    char *json = NULL;
    size_t len = 0;

    if (!warm_get_seat(tools->warm, call_org(call), call->event, call->seat, &json, &len))
        return false;
    bool found = read_warm_value(call, (struct slice){ json, len }, seat);
    free(json);
    return found;
}

/* --- Postgres ------------------------------------------------------------------------------- */

/* Columns of read_seat. */
enum { EVENT_EXISTS, STATUS, IN_PAYMENT, VERSION, HOLD, USER, UNTIL, NOW };
static const struct seat_columns columns = { .seat = -1,
                                             .version = VERSION,
                                             .status = STATUS,
                                             .hold = HOLD,
                                             .user = USER,
                                             .until = UNTIL,
                                             .in_payment = IN_PAYMENT };

static enum hf_status
judge_row(struct api_call *call, const struct pg_result *rows, struct seat_view *view,
          struct shown_seat *seat)
{
    if (!pg_get_bool(rows, 0, EVENT_EXISTS))
        return HF_EVENT_NOT_FOUND;
    if (pg_is_null(rows, 0, STATUS) || !seat_view_read(rows, 0, &columns, view) ||
        view->status == SEAT_REMOVED)
        return HF_SEAT_NOT_FOUND;
    *seat = shown(view, pg_get_time(rows, 0, NOW), TIER_POSTGRES);
    seat->mine = (seat->status == SEAT_HELD || seat->status == SEAT_SOLD) &&
                 slice_equal(pg_get_text(rows, 0, USER), call_user(call));
    return HF_OK;
}

static enum hf_status
find_in_postgres(struct api_call *call, struct desk_tools *tools, struct shown_seat *seat)
{
    struct hot_table *hot = tools->node->hot;
    struct seat_key key = key_of(call);
    struct mono_time began = mono_now();
    uint64_t change_count = hot_table_change_count(hot, &key);
    struct pg_params params;
    struct pg_result *rows = NULL;
    struct seat_view view;

    pg_params_init(&params);
    pg_param_text(&params, key.org);
    pg_param_text(&params, key.event);
    pg_param_text(&params, key.seat);
    enum hf_status status =
        call_outcome(call, call_read(call, tools, STATEMENT_READ_SEAT, &params, &rows), tools->pg);
    if (status == HF_OK)
        status = judge_row(call, rows, &view, seat);
    if (status == HF_OK)
        (void)hot_table_fill(hot, &key, &view, began,
                             change_count); /* if nothing moved meanwhile */
    pg_result_free(&rows);
    return status;
}

static void
seat_run(struct api_call *call, struct desk_tools *tools)
{
    struct shown_seat seat;
    enum hf_status status = HF_OK;

    if (!find_in_redis(call, tools, &seat))
        status = find_in_postgres(call, tools, &seat);
    if (status == HF_OK)
        answer(call, &seat);
    else
        respond_refusal(call, status, NULL);
}

/* Postgres is away: what Redis has is all there is. */
static void
seat_fail(struct api_call *call, struct desk_tools *tools, enum hf_status status)
{
    struct shown_seat seat;

    if (status == HF_STORE_UNAVAILABLE && tools != NULL && find_in_redis(call, tools, &seat))
        answer(call, &seat);
    else
        respond_refusal(call, status, NULL);
}

/* --- on the loop ------------------------------------------------------------------------------ */

/* True: *seat is what memory may say to this caller. */
static bool
find_in_memory(struct api *api, struct api_call *call, struct shown_seat *seat)
{
    struct seat_key key = key_of(call);
    struct seat_view view;
    struct db_time now;
    int64_t error_us;
    struct mono_time mono = mono_now();

    if (!db_clock_read(api->node->clock, mono, &now, &error_us) ||
        !hot_table_read(api->node->hot, &key, now, error_us, mono, &view) ||
        view.status == SEAT_REMOVED)
        return false;
    struct slice user = call_user(call);
    if ((view.status == SEAT_HELD || view.status == SEAT_SOLD) &&
        view.user_hash == hash_seeded(user.ptr, user.len))
        return false;
    *seat = shown(&view, now, TIER_HOT);
    return true;
}

void
seat_get(struct api *api, struct api_call *call)
{
    struct shown_seat seat;

    if (find_in_memory(api, call, &seat))
        answer(call, &seat);
    else
        call_on_desk_or(call, seat_run, seat_fail);
}
