/*
 * occupancy.c - GET /api/events/{event}/occupancy: how many seats and places are in which state.
 *
 * From the event's seat map while it is in memory and has missed nothing: the feed keeps its
 * counts. Of areas the feed tells what is held, not when that ends; so where something is held
 * there, the map's word counts for as long as the last count in Postgres says that nothing ends.
 * Else from a count in Postgres that begins after the request came, or one that still stands
 * (occupancy_count.c).
 */
#include <stdio.h>
#include <string.h>

#include "holdfast/metrics.h"
#include "occupancy_internal.h"

/* latest: what the time may be at the most. */
static bool
read_map(struct api_call *call, struct occupancy_answer *answer, struct db_time *latest)
{
    const struct node *node = call->api->node;
    struct mono_time read_at = mono_now();
    struct db_time now;
    int64_t error_us;

    if (!db_clock_read(node->clock, read_at, &now, &error_us))
        return false;
    *answer = (struct occupancy_answer){ .at = now };
    latest->us = now.us + error_us;
    return seat_maps_count(node->maps, call_org(call), call->event,
                           db_clock_surely_past(node->clock, read_at), &answer->counts);
}

bool
occupancy_from_map(struct api_call *call, struct occupancy_answer *answer)
{
    struct db_time latest;

    return seat_maps_is_whole(call->api->node->maps, call_org(call), call->event) &&
           read_map(call, answer, &latest) &&
           (answer->counts.area_held == 0 ||
            occupancy_areas_stand(call->api->occupancies, call_org(call), call->event, latest));
}

bool
occupancy_from_old_map(struct api_call *call, struct occupancy_answer *answer)
{
    struct db_time latest;
    bool is_there = read_map(call, answer, &latest);

    answer->is_stale = true;
    return is_there;
}

/* The counts are all that changes; the time of counting is no change. */
void
occupancy_answer(struct api_call *call, const struct occupancy_answer *answer)
{
    const struct seat_map_counts *counts = &answer->counts;
    struct slice match = call->exchange->request.if_none_match;
    struct buf body = { 0 };
    char etag[128];

    snprintf(etag, sizeof(etag), "W/\"%lld-%lld-%lld-%lld\"", (long long)counts->available,
             (long long)counts->held, (long long)counts->sold, (long long)counts->blocked);
    respond_header(call, "ETag", slice_of(etag));
    if (answer->is_stale)
        respond_header(call, "X-Holdfast-Stale", SLICE_LITERAL("true"));
    if (match.len > 0 &&
        (slice_is(match, "*") || memmem(match.ptr, match.len, etag + 2, strlen(etag + 2)))) {
        respond_no_body(call, 304);
        return;
    }
    seat_map_counts_write(&body, counts, answer->at);
    respond_json(call, 200, &body);
}

void
occupancy_get(struct api *api, struct api_call *call)
{
    struct occupancy_answer answer;

    (void)api;
    if (!occupancy_from_map(call, &answer)) {
        occupancy_await(call);
        return;
    }
    metric_add(METRIC_OCCUPANCY_MAP_TOTAL, 1);
    occupancy_answer(call, &answer);
}
