/*
 * occupancy.c - GET /api/events/{event}/occupancy: the counts, from Postgres.
 */
#include <stdio.h>
#include <string.h>

#include "api_internal.h"

/* Columns of the statement. */
enum { EVENT_EXISTS, AVAILABLE, HELD, SOLD, BLOCKED, NOW };

/* The counts are all that changes; the time of counting is no change. */
static void
answer(struct api_call *call, const struct pg_result *rows)
{
    struct seat_map_counts counts = {
        .available = pg_get_int(rows, 0, AVAILABLE),
        .held = pg_get_int(rows, 0, HELD),
        .sold = pg_get_int(rows, 0, SOLD),
        .blocked = pg_get_int(rows, 0, BLOCKED),
    };
    struct buf body = { 0 };
    char etag[128];

    counts.total = counts.available + counts.held + counts.sold + counts.blocked;
    snprintf(etag, sizeof(etag), "W/\"%lld-%lld-%lld-%lld\"", (long long)counts.available,
             (long long)counts.held, (long long)counts.sold, (long long)counts.blocked);
    respond_header(call, "ETag", slice_of(etag));
    struct slice match = call->exchange->request.if_none_match;
    if (match.len > 0 &&
        (slice_is(match, "*") || memmem(match.ptr, match.len, etag + 2, strlen(etag + 2)))) {
        respond_no_body(call, 304);
        return;
    }
    seat_map_counts_write(&body, &counts, pg_get_time(rows, 0, NOW));
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
