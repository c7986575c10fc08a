/*
 * occupancy_history.c - GET /api/events/{event}/occupancy/history: how full an event was, from the
 * snapshots that upkeep writes (src/upkeep/occupancy.c).
 *
 * Of each step its first snapshot is told, with that one's own time; of a step that has none,
 * because no node was there or nothing happened to an event that isn't on sale, nothing is.
 */
#include <inttypes.h>
#include <stdio.h>

#include "api_internal.h"
#include "events_internal.h"
#include "holdfast/json.h"

#define UNIT_MAX_S      60
#define STEP_MAX_S      (366 * 24 * (int64_t)3600)
#define SNAPSHOTS_MAX   10080 /* a week of minutes */
#define SNAPSHOTS_USUAL 1500  /* where no step is asked for: a day of minutes, and some */

struct history {
    struct db_time from, to;
    int64_t unit_s; /* of which a step is a multiple */
    int64_t step_s;
};

/* Columns of occupancy_history. */
enum { AT, AVAILABLE, HELD, SOLD, BLOCKED };

static void
write_snapshot(struct json_writer *w, const struct pg_result *rows, int row)
{
    static const char *const names[] = {
        [AVAILABLE] = "available", [HELD] = "held", [SOLD] = "sold", [BLOCKED] = "blocked"
    };
    char time[DB_TIME_TEXT_BYTES];
    int64_t total = 0;

    db_time_format(pg_get_time(rows, row, AT), time);
    json_object_begin(w);
    json_field_text(w, "timestamp", slice_of(time));
    for (int column = AVAILABLE; column <= BLOCKED; column++) {
        json_field_int(w, names[column], pg_get_int(rows, row, column));
        total += pg_get_int(rows, row, column);
    }
    json_field_int(w, "total", total);
    json_object_end(w);
}

static void
answer(struct api_call *call, const struct pg_result *rows)
{
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_name(&w, "snapshots");
    json_array_begin(&w);
    for (int row = 0; row < pg_rows(rows); row++)
        write_snapshot(&w, rows, row);
    json_array_end(&w);
    json_object_end(&w);
    respond_json(call, 200, &body);
}

static void
run(struct api_call *call, struct desk_tools *tools)
{
    const struct history *history = call->state;
    struct event_row event;
    struct pg_params params;
    struct pg_result *rows = NULL;
    enum hf_status status = event_row_find(call, tools->pg, call_org(call), call->event, &event);

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_text(&params, call->event);
    pg_param_time(&params, history->from);
    pg_param_time(&params, history->to);
    pg_param_int8(&params, history->step_s);
    if (status == HF_OK)
        status = call_outcome(
            call, call_read(call, tools, STATEMENT_OCCUPANCY_HISTORY, &params, &rows), tools->pg);
    if (status == HF_OK)
        answer(call, rows);
    else
        respond_refusal(call, status, NULL);
    pg_result_free(&rows);
}

/* A minute, or the time between two snapshots where that is shorter. */
static int64_t
step_unit_s(const struct api *api)
{
    int64_t interval_s = api->node->config->occupancy_interval / TIME_US_PER_S;

    if (interval_s < 1)
        return 1;
    return interval_s < UNIT_MAX_S ? interval_s : UNIT_MAX_S;
}

/* The least step that makes no more than `most` snapshots of the range. */
static int64_t
least_step_s(const struct history *history, int64_t most)
{
    int64_t unit_us = history->unit_s * (int64_t)TIME_US_PER_S;
    int64_t units = (history->to.us - history->from.us) / unit_us;

    return history->unit_s * (units / most + 1);
}

/* False: the call is answered. */
static bool
check_step(struct api_call *call, const struct history *history)
{
    int64_t least_s = least_step_s(history, SNAPSHOTS_MAX);
    char reason[128];

    if (history->step_s % history->unit_s != 0)
        snprintf(reason, sizeof(reason), "is not a multiple of %" PRId64, history->unit_s);
    else if (history->step_s < least_s)
        snprintf(reason, sizeof(reason),
                 "makes more than %d snapshots of that time: it is to be %" PRId64 " at the least",
                 SNAPSHOTS_MAX, least_s);
    else
        return true;
    respond_field_error(call, "step", reason);
    return false;
}

void
occupancy_history_get(struct api *api, struct api_call *call)
{
    struct history *history = arena_alloc(&call->arena, sizeof(*history));

    if (history == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    history->unit_s = step_unit_s(api);
    if (!call_query_range(call, &history->from, &history->to) ||
        !call_query_int(call, "step", history->unit_s, STEP_MAX_S,
                        least_step_s(history, SNAPSHOTS_USUAL), &history->step_s) ||
        !check_step(call, history))
        return;
    call->state = history;
    call_on_desk(call, run);
}
