/*
 * analytics.c - GET /api/events/{event}/analytics: what became of the holds that were made in a
 * time.
 *
 * By the hour in which they were made and by section, or area; a seat counts once, an area's
 * quantity as many times. What is held is the sum of what was sold, expired, was cancelled, and is
 * active.
 */
#include <stdio.h>

#include "api_internal.h"
#include "events_internal.h"
#include "holdfast/json.h"

#define RANGE_MAX_US (31 * 24 * 3600 * (int64_t)TIME_US_PER_S)
#define ROWS_MAX     20000

struct range {
    struct db_time from, to;
};

/* Columns of funnel; the counts are kept by them too. */
enum {
    HOUR,
    SECTION,
    AREA,
    HELD,
    SOLD,
    EXPIRED,
    ACTIVE,
    USER_CANCELLED,
    PAYMENT_FAILED,
    ADMIN_OVERRIDE,
    OTHERWISE,
    COLUMNS
};

static void
write_counts(struct json_writer *w, const int64_t counts[COLUMNS])
{
    json_field_int(w, "held", counts[HELD]);
    json_field_int(w, "sold", counts[SOLD]);
    json_field_int(w, "expired", counts[EXPIRED]);
    json_field_int(w, "cancelled",
                   counts[USER_CANCELLED] + counts[PAYMENT_FAILED] + counts[ADMIN_OVERRIDE] +
                       counts[OTHERWISE]);
    json_field_int(w, "active", counts[ACTIVE]);
    json_name(w, "cancelled_by");
    json_object_begin(w);
    json_field_int(w, "user_cancelled", counts[USER_CANCELLED]);
    json_field_int(w, "payment_failed", counts[PAYMENT_FAILED]);
    json_field_int(w, "admin_override", counts[ADMIN_OVERRIDE]);
    json_field_int(w, "other", counts[OTHERWISE]);
    json_object_end(w);
}

static void
write_row(struct json_writer *w, const struct pg_result *rows, int row, int64_t totals[COLUMNS])
{
    int64_t counts[COLUMNS] = { 0 };

    for (int column = HELD; column < COLUMNS; column++) {
        counts[column] = pg_get_int(rows, row, column);
        totals[column] += counts[column];
    }
    json_object_begin(w);
    json_field_time(w, "hour", pg_get_time(rows, row, HOUR));
    json_name(w, "section");
    if (pg_is_null(rows, row, SECTION))
        json_null(w);
    else
        json_text(w, pg_get_text(rows, row, SECTION));
    if (!pg_is_null(rows, row, AREA))
        json_field_text(w, "area_id", pg_get_text(rows, row, AREA));
    write_counts(w, counts);
    json_object_end(w);
}

static void
answer(struct api_call *call, const struct pg_result *rows)
{
    const struct range *range = call->state;
    int64_t totals[COLUMNS] = { 0 };
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_field_text(&w, "event_id", call->event);
    json_field_time(&w, "from", range->from);
    json_field_time(&w, "to", range->to);
    json_name(&w, "funnel");
    json_array_begin(&w);
    for (int row = 0; row < pg_rows(rows); row++)
        write_row(&w, rows, row, totals);
    json_array_end(&w);
    json_name(&w, "totals");
    json_object_begin(&w);
    write_counts(&w, totals);
    json_object_end(&w);
    json_object_end(&w);
    respond_json(call, 200, &body);
}

static void
run(struct api_call *call, struct desk_tools *tools)
{
    const struct range *range = call->state;
    struct event_row event;
    struct pg_params params;
    struct pg_result *rows = NULL;
    enum hf_status status = event_row_find(call, tools->pg, call_org(call), call->event, &event);

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_text(&params, call->event);
    pg_param_time(&params, range->from);
    pg_param_time(&params, range->to);
    pg_param_int4(&params, ROWS_MAX + 1);
    if (status == HF_OK)
        status =
            call_outcome(call, call_read(call, tools, STATEMENT_FUNNEL, &params, &rows), tools->pg);
    if (status != HF_OK)
        respond_refusal(call, status, NULL);
    else if (pg_rows(rows) > ROWS_MAX)
        respond_field_error(call, "from", "is so early that there are more than 20000 rows");
    else
        answer(call, rows);
    pg_result_free(&rows);
}

void
analytics_get(struct api *api, struct api_call *call)
{
    struct range *range = arena_alloc(&call->arena, sizeof(*range));

    (void)api;
    if (!call_is_privileged(call) || range == NULL) {
        respond_refusal(call, range == NULL ? HF_OVERLOADED : HF_FORBIDDEN, NULL);
        return;
    }
    if (!call_query_range(call, &range->from, &range->to))
        return;
    if (range->to.us - range->from.us > RANGE_MAX_US) {
        respond_field_error(call, "from", "is more than 31 days before `to`");
        return;
    }
    call->state = range;
    call_on_desk_long(call, run);
}
