/*
 * moving.c - what moves a map forward: changes as the feed brings them, and readings.
 *
 * Both may come in any order. Per seat the newest version stays, and `from` says who can be
 * told that he has it (version.c).
 */
#include "event_map.h"

#define SETTLE_US (3 * TIME_US_PER_S) /* see version.c */

/* --- changes ---------------------------------------------------------------------- */

/* A change of a seat on its way into its map. */
struct move {
    struct slice seat;
    enum feed_reason reason;
    struct db_time at;
    const struct feed_position *after;
};

/* known: what it was before; NULL: it was not there. */
static void
tell_moved_locked(const struct seat_maps *maps, struct event_map *map, const struct move *move,
                  const struct map_seat *known, const struct map_seat *now)
{
    enum seat_status before = known == NULL ? SEAT_REMOVED : known->status;

    if (map->watcher == NULL)
        return;
    struct seat_map_news news = {
        .seat = move->seat,
        .status = now->status,
        .version = now->version,
        .reason = move->reason,
        .at = move->at,
        .added = before == SEAT_REMOVED && now->status != SEAT_REMOVED,
        .freed = before != SEAT_AVAILABLE && now->status == SEAT_AVAILABLE,
        .after = event_map_is_whole_locked(maps, map) ? move->after : NULL,
    };
    map->watcher->moved(map->watcher, &news);
}

/*
 * Decides what a change means for a seat. One that was read before its record came is in
 * already, but only now it can be said who has it. An older one whose newer was read can't
 * be told from the seat as it is, so whoever lacks it is owed the seat.
 */
static void
move_seat_locked(struct seat_maps *maps, struct event_map *map, const struct move *move,
                 const struct map_seat *now)
{
    uint32_t i =
        map->state.layout == NULL ? LAYOUT_NONE : layout_find(map->state.layout, move->seat);
    if (i == LAYOUT_NONE) {
        event_map_must_read_locked(map); /* a loading may be under way whose read came too early */
        return;
    }
    struct map_seat known = map->state.seats[i];
    bool was_read = !is_from_record(known.from);
    if (now->version < known.version) {
        if (!was_read || known.from.number != FROM_BASE.number)
            return;
        known.from = FROM_NOBODY;
        map_state_set(&map->state, i, &known, seat_maps_next_position(maps));
        return;
    }
    bool is_newer = now->version > known.version;
    bool is_known_now = was_read && is_from_record(now->from);
    if (!is_newer && !is_known_now && !map_seat_differs(now, &known))
        return;
    map_state_set(&map->state, i, now, seat_maps_next_position(maps));
    if (is_newer || is_known_now)
        tell_moved_locked(maps, map, move, &known, now);
}

static void
take_seat_locked(struct seat_maps *maps, struct event_map *map, const struct feed_change *change,
                 struct feed_mark from, const struct feed_position *after)
{
    struct move move = { change->item, change->reason, change->at, after };
    struct map_seat now = { .until = change->held_until,
                            .version = change->version,
                            .user_hash = change->user.len > 0
                                             ? hash_seeded(change->user.ptr, change->user.len)
                                             : 0,
                            .from = is_from_record(from) ? from : FROM_NOBODY,
                            .newer = LAYOUT_NONE,
                            .older = LAYOUT_NONE,
                            .status = change->status,
                            .in_payment = change->in_payment };
    move_seat_locked(maps, map, &move, &now);
}

static void
take_area_locked(struct seat_maps *maps, struct event_map *map, const struct feed_change *change)
{
    struct map_area *known = map_area_find(map->state.areas, map->state.area_count, change->item);

    if (known == NULL) {
        event_map_must_read_locked(map);
    } else if (change->version > known->version) {
        known->held = change->held;
        known->sold = change->sold;
        known->version = change->version;
        if (map_area_make_room(known))
            event_map_must_read_locked(map);
        map->state.position = seat_maps_next_position(maps);
        if (map->watcher != NULL)
            map->watcher->counted(map->watcher);
    }
}

static void
take_locked(struct seat_maps *maps, struct event_map *map, const struct feed_change *change,
            struct feed_mark from, const struct feed_position *after)
{
    switch (change->kind) {
    case FEED_SEAT:
        take_seat_locked(maps, map, change, from, after);
        break;
    case FEED_AREA:
        take_area_locked(maps, map, change);
        break;
    case FEED_SEATS:
        event_map_must_read_locked(map);
        break;
    case FEED_EVENT:
        break; /* a map doesn't show it */
    }
}

void
seat_maps_take(struct seat_maps *maps, const struct feed_change *change, struct feed_mark from,
               const struct feed_position *after)
{
    struct event_map *map = event_map_find(maps, change->org, change->event, FIND_THERE);
    if (map == NULL)
        return;
    lock_take(&map->lock);
    take_locked(maps, map, change, from, after);
    lock_drop(&map->lock);
    event_map_put(map);
}

/* --- loading ------------------------------------------------------------------------ */

/* Passes what a merge finds on to the map's watcher. */
struct load_listener {
    struct merge_listener listener; /* first */
    struct seat_maps *maps;
    struct event_map *map;
};

static void
found_by_reading(struct merge_listener *listener, struct slice seat, const struct map_seat *known,
                 const struct map_seat *now)
{
    struct load_listener *self = (struct load_listener *)listener;
    struct move move = { .seat = seat };

    tell_moved_locked(self->maps, self->map, &move, known, now);
}

static void
take_base_locked(struct event_map *map, const struct seat_map_reading *reading)
{
    int64_t took_us = mono_now().us - reading->began.us;

    map->base.is_known = reading->feed != NULL && reading->now.us != 0;
    map->base.settled.us = reading->now.us + took_us + SETTLE_US;
    if (map->base.is_known)
        map->base.feed = *reading->feed;
    map->bodies[0].is_settled = map->bodies[1].is_settled = false;
}

/*
 * A read that began too early to be served is taken in all the same: from now on changes
 * find their seats, and so the next loading is complete.
 */
static void
load_locked(struct seat_maps *maps, struct event_map *map, struct map_state *fresh,
            const struct seat_map_reading *reading)
{
    struct load_listener self = { { found_by_reading }, maps, map };

    if (reading->began.us < map->made_at.us || reading->began.us <= map->read_at.us)
        return;
    bool changed =
        map_state_merge(&map->state, fresh, seat_maps_next_position(maps), &self.listener);
    map->read_at = reading->began;
    map->reading_since.us = 0;
    take_base_locked(map, reading);
    if (changed && map->watcher != NULL)
        map->watcher->counted(map->watcher);
}

bool
seat_maps_load(struct seat_maps *maps, struct slice org, struct slice event,
               const struct pg_result *seats, const struct pg_result *areas,
               const struct seat_map_reading *reading)
{
    struct map_state fresh;
    struct event_map *map = event_map_find(maps, org, event, FIND_THERE);
    if (map == NULL)
        return true; /* it was dropped meanwhile; the next get makes another */
    lock_take(&map->lock);
    struct layout *known = map->state.layout == NULL ? NULL : layout_get(map->state.layout);
    lock_drop(&map->lock);
    bool read = map_state_read(&fresh, known, seats, areas);
    layout_put(known);
    if (read) {
        lock_take(&map->lock);
        load_locked(maps, map, &fresh, reading);
        lock_drop(&map->lock);
        map_state_fini(&fresh);
    }
    event_map_put(map);
    return read;
}
