/*
 * flight_map.c - a flight's seats as one passenger sees them, from the seat map in memory.
 */
#include "flight_map.h"

#include <string.h>

#include "events_internal.h"
#include "holdfast/metrics.h"

#define TRIES_MAX 5

/* --- is it a flight? ---------------------------------------------------------------- */

/* Another node may have made it one, or none: memory is believed as a map is. */
static bool
is_fresh(const struct node *node, const struct event_info *info)
{
    return seat_maps_trusted(node->maps) ? info->read_at.us > seat_maps_distrusted_at(node->maps).us
                                         : info->read_at.us > mono_now().us - SEAT_MAP_FRESH_US;
}

enum flight_word
flight_known(const struct node *node, struct slice org, struct slice event, bool any_age)
{
    struct event_info info;

    if (!events_find(node->events, org, event, &info) || !(any_age || is_fresh(node, &info)))
        return FLIGHT_UNKNOWN;
    return info.kind == EVENT_KIND_FLIGHT ? FLIGHT_IS_ONE : FLIGHT_IS_NONE;
}

enum hf_status
flight_find(struct api_call *call, struct pg *pg, struct slice org, struct slice event)
{
    struct event_row row;

    switch (flight_known(call->api->node, org, event, false)) {
    case FLIGHT_IS_ONE:
        return HF_OK;
    case FLIGHT_IS_NONE:
        return HF_EVENT_NOT_FOUND;
    case FLIGHT_UNKNOWN:
        break;
    }
    enum hf_status status = event_row_find(call, pg, org, event, &row);
    if (status == HF_OK && row.kind != EVENT_KIND_FLIGHT)
        status = HF_EVENT_NOT_FOUND;
    return status;
}

const char *
flight_state_word(enum seat_status status)
{
    switch (status) {
    case SEAT_AVAILABLE:
        return "AVAILABLE";
    case SEAT_HELD:
        return "HELD";
    case SEAT_SOLD:
        return "CONFIRMED";
    case SEAT_BLOCKED:
    case SEAT_REMOVED:
        break;
    }
    return "CANCELLED";
}

/* --- from memory ---------------------------------------------------------------------- */

/* A copy of the map, and which of its seats are the passenger's. */
struct view {
    const struct flight_map *map;
    struct seat_map_copy seats;
    uint64_t user_hash;
    struct mono_time arrived;
    struct mono_time fresh_since;
    bool was_read; /* the map had to be read from Postgres */
    int maybe_count;
    int *maybe;   /* seats that may be theirs, by their hash */
    bool *theirs; /* of each seat of the copy */
};

static struct view
view_of(struct api_call *call, const struct flight_map *map)
{
    struct seat_maps *maps = call->api->node->maps;
    bool is_trusted = map->any_age || seat_maps_trusted(maps);

    return (struct view){
        .map = map,
        .user_hash = hash_seeded(map->user.ptr, map->user.len),
        .arrived = call->exchange->request.received,
        .fresh_since = { is_trusted ? 0 : mono_now().us - SEAT_MAP_FRESH_US },
    };
}

/* Who has a seat may be unknown to the map: then it may be anybody's. */
static bool
may_be_theirs(const struct view *view, const struct seat_map_seat *seat)
{
    return (seat->status == SEAT_HELD || seat->status == SEAT_SOLD) &&
           (seat->user_hash == view->user_hash || seat->user_hash == 0);
}

/* False: no memory. */
static bool
find_maybe(struct api_call *call, struct view *view)
{
    size_t count = (size_t)view->seats.count + 1;

    view->maybe = arena_alloc(&call->arena, count * sizeof(*view->maybe));
    view->theirs = arena_alloc(&call->arena, count * sizeof(*view->theirs));
    if (view->maybe == NULL || view->theirs == NULL)
        return false;
    view->maybe_count = 0;
    for (int i = 0; i < view->seats.count; i++) {
        if (may_be_theirs(view, &view->seats.seats[i]))
            view->maybe[view->maybe_count++] = i;
    }
    return true;
}

static enum seat_map_answer
look(struct api_call *call, struct view *view, bool may_wait, struct flight_map *map)
{
    struct seat_map_request request = {
        .org = map->org,
        .event = map->event,
        .if_none_match = map->if_none_match,
        .reader = view->user_hash,
        .now = db_clock_surely_past(call->api->node->clock, mono_now()),
        .arrived = view->arrived,
        .fresh_since = view->fresh_since,
        .may_render = may_wait,
    };
    struct seat_map_reply reply;
    enum seat_map_answer answer =
        seat_maps_copy(call->api->node->maps, &request, &reply, &view->seats);

    memcpy(map->etag, reply.etag, sizeof(map->etag));
    return answer;
}

/* --- writing ---------------------------------------------------------------------------- */

static void
write_seat(struct json_writer *w, const struct seat_map_seat *seat, struct slice holder)
{
    json_object_begin(w);
    json_field_text(w, "seatId", seat->seat);
    json_field_text(w, "state", slice_of(flight_state_word(seat->status)));
    json_name(w, "heldBy");
    if (holder.len > 0)
        json_text(w, holder);
    else
        json_null(w);
    if (seat->status == SEAT_HELD) {
        json_field_time(w, "holdExpiresAt", seat->until);
    } else {
        json_name(w, "holdExpiresAt");
        json_null(w);
    }
    json_object_end(w);
}

static void
write_view(struct json_writer *w, const struct view *view)
{
    json_array_begin(w);
    for (int i = 0; i < view->seats.count; i++)
        write_seat(w, &view->seats.seats[i], view->theirs[i] ? view->map->user : SLICE_EMPTY);
    json_array_end(w);
}

bool
flight_map_from_memory(struct api_call *call, struct flight_map *map, struct json_writer *w,
                       enum hf_status *status)
{
    struct view view = view_of(call, map);
    enum seat_map_answer answer = look(call, &view, false, map);

    if (answer != SEAT_MAP_BODY && answer != SEAT_MAP_NOT_MODIFIED)
        return false;
    *status = answer == SEAT_MAP_BODY ? HF_OK : HF_NOT_MODIFIED;
    bool is_known =
        answer == SEAT_MAP_NOT_MODIFIED || (find_maybe(call, &view) && view.maybe_count == 0);
    if (is_known && answer == SEAT_MAP_BODY)
        write_view(w, &view);
    if (is_known)
        seat_map_served(false);
    seat_map_copy_free(&view.seats);
    return is_known;
}

/* --- with Postgres ------------------------------------------------------------------------ */

/* Columns of read_owners. */
enum { VERSION, THEIRS };

static enum hf_status
read_owners(struct api_call *call, struct desk_tools *tools, const struct view *view,
            struct pg_result **rows)
{
    struct pg_array seats = { 0 };
    struct pg_params params;

    pg_array_init(&seats, PG_TEXT);
    for (int i = 0; i < view->maybe_count; i++)
        pg_array_text(&seats, view->seats.seats[view->maybe[i]].seat);
    pg_params_init(&params);
    pg_param_text(&params, view->map->org);
    pg_param_text(&params, view->map->event);
    pg_param_array(&params, &seats);
    pg_param_text(&params, view->map->user);
    enum pg_outcome outcome =
        params.failed ? PG_REPEAT : call_read(call, tools, STATEMENT_READ_OWNERS, &params, rows);
    pg_array_fini(&seats);
    return call_outcome(call, outcome, tools->pg);
}

/* HF_SEAT_CONTENDED: one of them is not as the copy has it any more. */
static enum hf_status
find_theirs(struct api_call *call, struct desk_tools *tools, struct view *view)
{
    struct pg_result *rows = NULL;
    enum hf_status status = view->maybe_count == 0 ? HF_OK : read_owners(call, tools, view, &rows);

    for (int i = 0; status == HF_OK && i < view->maybe_count; i++) {
        int at = view->maybe[i];
        if (pg_get_int(rows, i, VERSION) != view->seats.seats[at].version)
            status = HF_SEAT_CONTENDED;
        view->theirs[at] = pg_get_bool(rows, i, THEIRS);
    }
    pg_result_free(&rows);
    return status;
}

static enum hf_status
load(struct api_call *call, struct desk_tools *tools, struct view *view)
{
    struct feed_position feed;
    struct seat_map_reading reading;

    feed_position(tools->node->feed, &feed);
    seat_map_reading_begin(&reading, tools->node->clock, &feed);
    view->was_read = true;
    return call_outcome(call,
                        seat_maps_read(tools->node->maps, tools->pg, view->map->org,
                                       view->map->event, &reading, call->deadline),
                        tools->pg);
}

/* HF_SEAT_CONTENDED: a seat moved on meanwhile, and a newer map has to be read. */
static enum hf_status
write_copy(struct api_call *call, struct desk_tools *tools, struct view *view,
           struct json_writer *w)
{
    enum hf_status status = find_maybe(call, view) ? find_theirs(call, tools, view) : HF_OVERLOADED;

    if (status == HF_OK) {
        write_view(w, view);
        seat_map_served(view->was_read);
    }
    seat_map_copy_free(&view->seats);
    return status;
}

enum hf_status
flight_map_write(struct api_call *call, struct desk_tools *tools, struct flight_map *map,
                 struct json_writer *w)
{
    struct view view = view_of(call, map);
    enum hf_status status = HF_SEAT_CONTENDED;

    for (int tries = 0; status == HF_SEAT_CONTENDED && tries < TRIES_MAX; tries++) {
        switch (look(call, &view, true, map)) {
        case SEAT_MAP_BODY:
            status = write_copy(call, tools, &view, w);
            if (status == HF_SEAT_CONTENDED)
                view.arrived = view.fresh_since = mono_now();
            break;
        case SEAT_MAP_NOT_MODIFIED:
            seat_map_served(view.was_read);
            return HF_NOT_MODIFIED;
        case SEAT_MAP_LOAD:
        case SEAT_MAP_RENDER:
            status = load(call, tools, &view);
            if (status == HF_OK)
                status = HF_SEAT_CONTENDED;
            break;
        }
    }
    return status == HF_SEAT_CONTENDED ? HF_OVERLOADED : status;
}
