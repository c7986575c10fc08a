/*
 * occupancy.c - GET /api/events/{event}/occupancy: the counts, from Postgres.
 *
 * Percentages are of the total, in tenths, and together with the blocked share they are
 * 100.0 to the tenth (largest remainder).
 */
#include <stdio.h>
#include <string.h>

#include "api_internal.h"
#include "holdfast/json.h"

enum share { AVAILABLE, HELD, SOLD, BLOCKED, SHARE_COUNT };

#define TENTHS 1000

/* Tenths of a percent of each count; they sum to TENTHS unless all counts are 0. */
static void
divide_into_tenths(const int64_t counts[SHARE_COUNT], int64_t tenths[SHARE_COUNT])
{
    int64_t rest[SHARE_COUNT];
    int64_t total = 0;
    int64_t left = TENTHS;

    for (int i = 0; i < SHARE_COUNT; i++)
        total += counts[i];
    memset(tenths, 0, SHARE_COUNT * sizeof(*tenths));
    if (total == 0)
        return;
    for (int i = 0; i < SHARE_COUNT; i++) {
        tenths[i] = counts[i] * TENTHS / total;
        rest[i] = counts[i] * TENTHS % total;
        left -= tenths[i];
    }
    for (; left > 0; left--) {
        int largest = 0;
        for (int i = 1; i < SHARE_COUNT; i++)
            largest = rest[i] > rest[largest] ? i : largest;
        tenths[largest]++;
        rest[largest] = -1;
    }
}

static void
write_percent(struct json_writer *w, const char *name, int64_t tenths)
{
    char text[16];

    snprintf(text, sizeof(text), "%d.%d", (int)(tenths / 10), (int)(tenths % 10));
    json_name(w, name);
    json_raw(w, slice_of(text));
}

static void
write_occupancy(struct buf *body, const int64_t counts[SHARE_COUNT], struct db_time now)
{
    struct json_writer w;
    int64_t tenths[SHARE_COUNT];
    char time[DB_TIME_TEXT_BYTES];

    divide_into_tenths(counts, tenths);
    db_time_format(now, time);
    json_writer_init(&w, body);
    json_object_begin(&w);
    json_field_int(&w, "available", counts[AVAILABLE]);
    json_field_int(&w, "held", counts[HELD]);
    json_field_int(&w, "sold", counts[SOLD]);
    json_field_int(&w, "blocked", counts[BLOCKED]);
    json_field_int(&w, "total", counts[AVAILABLE] + counts[HELD] + counts[SOLD] + counts[BLOCKED]);
    write_percent(&w, "percent_available", tenths[AVAILABLE]);
    write_percent(&w, "percent_held", tenths[HELD]);
    write_percent(&w, "percent_sold", tenths[SOLD]);
    write_percent(&w, "percent_blocked", tenths[BLOCKED]);
    json_field_text(&w, "timestamp", slice_of(time));
    json_object_end(&w);
}

/* Columns of the statement. */
enum { EVENT_EXISTS, FIRST_COUNT, NOW = FIRST_COUNT + SHARE_COUNT };

/* The counts are all that changes; the time of counting is no change. */
static void
answer(struct api_call *call, const struct pg_result *rows)
{
    int64_t counts[SHARE_COUNT];
    struct buf body = { 0 };
    char etag[128];

    for (int i = 0; i < SHARE_COUNT; i++)
        counts[i] = pg_get_int(rows, 0, FIRST_COUNT + i);
    snprintf(etag, sizeof(etag), "W/\"%lld-%lld-%lld-%lld\"", (long long)counts[AVAILABLE],
             (long long)counts[HELD], (long long)counts[SOLD], (long long)counts[BLOCKED]);
    respond_header(call, "ETag", slice_of(etag));
    struct slice match = call->exchange->request.if_none_match;
    if (match.len > 0 &&
        (slice_is(match, "*") || memmem(match.ptr, match.len, etag + 2, strlen(etag + 2)))) {
        respond_no_body(call, 304);
        return;
    }
    write_occupancy(&body, counts, pg_get_time(rows, 0, NOW));
    respond_json(call, 200, &body);
}

static void
occupancy_run(struct api_call *call, struct desk_tools *tools)
{
    struct pg_params params;
    struct pg_result *rows = NULL;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_text(&params, call->event);
    enum hf_status status =
        call_outcome(call, call_read(call, tools, STATEMENT_OCCUPANCY, &params, &rows), tools->pg);
    if (status == HF_OK && !pg_get_bool(rows, 0, EVENT_EXISTS))
        status = HF_EVENT_NOT_FOUND;
    if (status == HF_OK)
        answer(call, rows);
    else
        respond_refusal(call, status, NULL);
    pg_result_free(&rows);
}

void
occupancy_get(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, occupancy_run);
}
