/*
 * seats_map.c - GET /api/events/{event}/seats and GET /api/shows/{event}/seats (seed 004): the map,
 * from memory where it can be; the second begins with the show itself.
 *
 * On the loop only a ready body (or a small delta) is sent. Loading from Postgres and
 * writing a large body is the desk's work; who comes while a body is being written is
 * served by it as well.
 */
#include "api_internal.h"
#include "events_internal.h"

#include "holdfast/metrics.h"

#define TRIES_MAX 5

struct map_call {
    struct seat_map_request request;
    struct feed_position feed; /* what request.feed points to, once it is needed */
    bool is_show;              /* the answer begins with the event's row */
    bool knows_event;          /* it exists: a map may be made for it */
    bool stale;                /* Postgres is away: answered from what is in memory */
    bool was_read;             /* it had to be read from Postgres */
};

void
seat_map_served(bool was_read)
{
    metric_add(was_read ? METRIC_SEATMAP_CACHE_MISSES : METRIC_SEATMAP_CACHE_HITS, 1);
}

static void
send_body(struct api_call *call, struct seat_map_reply *reply)
{
    respond_header(call, "ETag", slice_of(reply->etag));
    respond_header(call, "Cache-Control", SLICE_LITERAL("private, no-cache"));
    if (((struct map_call *)call->state)->stale)
        respond_header(call, "X-Holdfast-Stale", SLICE_LITERAL("true"));
    respond_shared(call, TYPE_JSON, reply->body, reply->gzip);
}

static void
send_not_modified(struct api_call *call, const struct seat_map_reply *reply)
{
    respond_header(call, "ETag", slice_of(reply->etag));
    respond_no_body(call, 304);
}

/* True: the call is answered. False: *answer says what has to be done first. */
static bool
answered_from_memory(struct api_call *call, enum seat_map_answer *answer)
{
    struct map_call *map = call->state;
    struct seat_map_reply reply;

    *answer = seat_maps_get(call->api->node->maps, &map->request, &reply);
    switch (*answer) {
    case SEAT_MAP_BODY:
        seat_map_served(map->was_read);
        send_body(call, &reply);
        return true;
    case SEAT_MAP_NOT_MODIFIED:
        seat_map_served(map->was_read);
        send_not_modified(call, &reply);
        return true;
    case SEAT_MAP_RENDER:
        map->knows_event = true;
        map->request.at_least = reply.position;
        return false;
    case SEAT_MAP_LOAD:
        return false;
    }
    return false;
}

/* What this node has in memory is read before the map is: the map has at least that. */
static void
note_feed(struct api_call *call)
{
    struct map_call *map = call->state;

    feed_position(call->api->node->feed, &map->feed);
    map->request.feed = &map->feed;
}

/* --- on the desk ---------------------------------------------------------------------- */

/* What the answer says of the show, from the row as it is now. */
static enum hf_status
read_show(struct api_call *call, struct desk_tools *tools)
{
    struct map_call *map = call->state;
    struct event_row row;
    struct buf text = { 0 };
    struct json_writer w;
    enum hf_status status = event_row_find(call, tools->pg, call_org(call), call->event, &row);

    if (status != HF_OK)
        return status;
    json_writer_init(&w, &text);
    json_object_begin(&w);
    event_row_write(&w, &row);
    json_object_end(&w);
    map->request.show_version = row.version;
    map->request.show = text.failed ? SLICE_EMPTY : arena_copy(&call->arena, buf_slice(&text));
    buf_fini(&text);
    return map->request.show.len > 0 ? HF_OK : HF_OVERLOADED;
}

static enum hf_status
find_event(struct api_call *call, struct desk_tools *tools)
{
    struct map_call *map = call->state;
    struct event_info info;
    struct event_row row;

    if (map->is_show)
        return read_show(call, tools);
    /* Events are never deleted: one that was ever known exists. */
    if (map->knows_event || events_find(tools->node->events, call_org(call), call->event, &info))
        return HF_OK;
    return event_row_find(call, tools->pg, call_org(call), call->event, &row);
}

static enum hf_status
load_map(struct api_call *call, struct desk_tools *tools)
{
    struct map_call *map = call->state;
    struct seat_map_reading reading;

    map->was_read = true;
    seat_map_reading_begin(&reading, tools->node->clock, &map->feed);
    return call_outcome(call,
                        seat_maps_read(tools->node->maps, tools->pg, call_org(call), call->event,
                                       &reading, call->deadline),
                        tools->pg);
}

static void
map_run(struct api_call *call, struct desk_tools *tools)
{
    struct map_call *map = call->state;
    enum seat_map_answer answer;
    enum hf_status status = find_event(call, tools);

    map->request.may_render = true;
    for (int tries = 0; status == HF_OK && tries < TRIES_MAX; tries++) {
        note_feed(call);
        if (answered_from_memory(call, &answer))
            return;
        if (answer == SEAT_MAP_LOAD)
            status = load_map(call, tools);
    }
    respond_refusal(call, status == HF_OK ? HF_OVERLOADED : status, NULL);
}

/* Without Postgres a map that is in memory is still better than none; it says so. A show's row
 * can't be read then, so of a show only what is written already. */
static void
map_fail(struct api_call *call, struct desk_tools *tools, enum hf_status status)
{
    struct map_call *map = call->state;
    enum seat_map_answer answer;

    if (status == HF_STORE_UNAVAILABLE && tools != NULL) {
        map->stale = true;
        map->request.fresh_since.us = 0;
        map->request.show_version = map->is_show;
        if (answered_from_memory(call, &answer))
            return;
        map->request.may_render = true;
        if (answer == SEAT_MAP_RENDER && !map->is_show && answered_from_memory(call, &answer))
            return;
    }
    respond_refusal(call, status, NULL);
}

/* --- on the loop ------------------------------------------------------------------------ */

/* False: no memory; the call is answered. */
static bool
begin(struct api *api, struct api_call *call)
{
    const struct http_request *http = &call->exchange->request;
    struct map_call *map = arena_alloc(&call->arena, sizeof(*map));
    if (map == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return false;
    }
    map->request = (struct seat_map_request){
        .org = call_org(call),
        .event = call->event,
        .if_none_match = http->if_none_match,
        .gzip = accepts_gzip(http->accept_encoding),
        .now = db_clock_surely_past(api->node->clock, mono_now()),
        .arrived = mono_now(),
        .fresh_since = { seat_maps_trusted(api->node->maps) ? 0
                                                            : mono_now().us - SEAT_MAP_FRESH_US },
    };
    call->state = map;
    return true;
}

void
seats_map_get(struct api *api, struct api_call *call)
{
    enum seat_map_answer answer;

    if (!begin(api, call))
        return;
    struct map_call *map = call->state;
    if (!call_query(call, "since", &map->request.since))
        map->request.since = SLICE_EMPTY;
    if (map->request.since.len > 0)
        note_feed(call);
    if (!answered_from_memory(call, &answer))
        call_on_desk_or(call, map_run, map_fail);
}

/* What is known of the row is the row, as far as is known. */
static bool
knows_show(const struct api *api, const struct api_call *call, struct event_info *info)
{
    struct mono_time since = ((struct map_call *)call->state)->request.fresh_since;
    struct mono_time missed = seat_maps_distrusted_at(api->node->maps);

    return events_find(api->node->events, call_org(call), call->event, info) &&
           info->read_at.us > since.us && (since.us > 0 || info->read_at.us > missed.us);
}

void
show_seats_get(struct api *api, struct api_call *call)
{
    struct event_info info;
    enum seat_map_answer answer;

    if (!begin(api, call))
        return;
    struct map_call *map = call->state;
    map->is_show = true;
    if (knows_show(api, call, &info)) {
        map->request.show_version = info.version;
        if (answered_from_memory(call, &answer))
            return;
    }
    call_on_desk_or(call, map_run, map_fail);
}
