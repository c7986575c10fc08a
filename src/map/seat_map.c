/*
 * seat_map.c - the maps in memory: who has one, whether it is trusted, who watches it.
 *
 * Positions come from one counter for all maps, so that a map that was dropped and
 * loaded again never repeats one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event_map.h"
#include "holdfast/http.h"

struct seat_maps *
seat_maps_new(int maps_max)
{
    struct seat_maps *maps = calloc(1, sizeof(*maps));
    if (maps == NULL)
        return NULL;
    struct uuid random = uuid_v7_new();
    for (int i = 0; i < 8; i++) /* the half of a UUIDv7 that is random */
        snprintf(maps->boot + 2 * i, 3, "%02x", random.bytes[8 + i]);
    maps->maps_max = maps_max;
    maps->watched_max = maps_max * 3 / 4; /* rounded down: one at least is left */
    trust_init(&maps->trust);
    lock_init(&maps->lock, LOCK_MAP_TABLE);
    return maps;
}

uint64_t
seat_maps_next_position(struct seat_maps *maps)
{
    return atomic_fetch_add(&maps->position, 1) + 1;
}

/* --- the table --------------------------------------------------------------- */

void
map_body_clear(struct map_body *body)
{
    if (body->plain != NULL)
        http_body_put(body->plain);
    if (body->gzip != NULL)
        http_body_put(body->gzip);
    body->plain = body->gzip = NULL;
    body->position = 0;
}

static void
clear_bodies(struct event_map *map)
{
    map_body_clear(&map->bodies[0]);
    map_body_clear(&map->bodies[1]);
}

void
event_map_put(struct event_map *map)
{
    if (map == NULL || atomic_fetch_sub_explicit(&map->refs, 1, memory_order_acq_rel) > 1)
        return;
    map_state_fini(&map->state);
    clear_bodies(map);
    pthread_cond_destroy(&map->rendered);
    lock_fini(&map->lock);
    free(map);
}

/* Takes it out of the table; the caller puts the table's reference when the lock is dropped. */
static void
remove_locked(struct seat_maps *maps, struct event_map *map)
{
    HASH_DEL(maps->table, map);
    if (!map->is_pinned)
        DL_DELETE(maps->order, map);
    map->hh.tbl = NULL; /* whoever still has a reference can see it */
}

static struct event_map *
map_new(const char *key, unsigned key_len)
{
    struct event_map *map = calloc(1, sizeof(*map));
    if (map == NULL)
        return NULL;
    memcpy(map->key, key, key_len);
    map->key_len = key_len;
    map->state.newest = LAYOUT_NONE;
    map->state.next_end.us = INT64_MAX;
    map->made_at = mono_now();
    atomic_init(&map->refs, 1);
    lock_init(&map->lock, LOCK_MAP);
    lock_cond_init(&map->rendered);
    return map;
}

/* Adds a map; *victim gets the one that had to go, for the caller to put. NULL: no memory. */
static struct event_map *
add_locked(struct seat_maps *maps, const char *key, unsigned key_len, struct event_map **victim)
{
    bool is_full = (int)HASH_COUNT(maps->table) >= maps->maps_max;
    struct event_map *map = map_new(key, key_len);
    if (map == NULL)
        return NULL;
    if (is_full) {
        hf_assert(maps->order != NULL); /* only watched_max are not in it */
        *victim = maps->order;
        remove_locked(maps, *victim);
    }
    HASH_ADD(hh, maps->table, key, key_len, map);
    if (map->hh.tbl == NULL) {
        event_map_put(map);
        return NULL;
    }
    DL_APPEND(maps->order, map);
    return map;
}

static void
pin_locked(struct seat_maps *maps, struct event_map *map)
{
    hf_assert(!map->is_pinned);
    maps->watched++;
    DL_DELETE(maps->order, map);
    map->prev = map->next = NULL;
    map->is_pinned = true;
}

struct event_map *
event_map_find(struct seat_maps *maps, struct slice org, struct slice event,
               enum event_map_find how)
{
    char key[EVENT_KEY_BYTES];
    struct event_map *map;
    struct event_map *victim = NULL;
    unsigned key_len = event_key(key, org, event);
    if (key_len == 0)
        return NULL;

    lock_take(&maps->lock);
    HASH_FIND(hh, maps->table, key, key_len, map);
    if (how == FIND_OR_MAKE_AND_PIN && maps->watched >= maps->watched_max)
        map = NULL;
    else if (map == NULL && how != FIND_THERE)
        map = add_locked(maps, key, key_len, &victim);
    if (map != NULL && how == FIND_OR_MAKE_AND_PIN)
        pin_locked(maps, map);
    if (map != NULL)
        atomic_fetch_add_explicit(&map->refs, 1, memory_order_relaxed);
    lock_drop(&maps->lock);
    event_map_put(victim);
    return map;
}

void
event_map_used(struct seat_maps *maps, struct event_map *map)
{
    lock_take(&maps->lock);
    if (map->hh.tbl != NULL && map->next != NULL) {
        DL_DELETE(maps->order, map);
        DL_APPEND(maps->order, map);
    }
    lock_drop(&maps->lock);
}

/* A watched map stays, and is as new. */
static void
empty_locked(struct event_map *map)
{
    lock_assert_held(&map->lock);
    map_state_fini(&map->state);
    map->state.newest = LAYOUT_NONE;
    map->state.next_end.us = INT64_MAX;
    map->base.is_known = false;
    map->read_at = (struct mono_time){ 0 };
    map->made_at = mono_now();
    clear_bodies(map);
    if (map->watcher != NULL)
        map->watcher->forgotten(map->watcher);
}

void
seat_maps_forget(struct seat_maps *maps)
{
    struct event_map *map, *next;
    struct event_map *gone = NULL;

    lock_take(&maps->lock);
    DL_FOREACH_SAFE(maps->order, map, next)
    {
        remove_locked(maps, map);
        DL_APPEND(gone, map);
    }
    HASH_ITER(hh, maps->table, map, next) /* those that are watched */
    {
        lock_take(&map->lock);
        empty_locked(map);
        lock_drop(&map->lock);
    }
    lock_drop(&maps->lock);
    DL_FOREACH_SAFE(gone, map, next)
    event_map_put(map);
}

void
seat_maps_free(struct seat_maps **maps)
{
    if (*maps == NULL)
        return;
    seat_maps_forget(*maps);
    hf_assert((*maps)->table == NULL); /* nobody watches any more */
    lock_fini(&(*maps)->lock);
    free(*maps);
    *maps = NULL;
}

/* --- trust ---------------------------------------------------------------------- */

void
seat_maps_set_trusted(struct seat_maps *maps, bool trusted)
{
    trust_give(&maps->trust, trusted);
}

void
seat_maps_trust_until(struct seat_maps *maps, struct mono_time until)
{
    trust_until(&maps->trust, until);
}

bool
seat_maps_trusted(const struct seat_maps *maps)
{
    return trust_holds(&maps->trust, mono_now());
}

void
seat_maps_distrust(struct seat_maps *maps)
{
    trust_distrust(&maps->trust, mono_now());
}

struct mono_time
seat_maps_distrusted_at(const struct seat_maps *maps)
{
    return trust_distrusted_at(&maps->trust);
}

void
event_map_must_read_locked(struct event_map *map)
{
    lock_assert_held(&map->lock);
    map->needs_read_after = mono_now();
}

bool
event_map_has_missed_nothing_locked(const struct seat_maps *maps, const struct event_map *map)
{
    lock_assert_held(&map->lock);
    return map->state.layout != NULL && map->read_at.us > map->needs_read_after.us &&
           trust_covers(&maps->trust, map->read_at);
}

bool
event_map_may_serve_locked(const struct seat_maps *maps, const struct event_map *map,
                           struct mono_time arrived, struct mono_time fresh_since)
{
    lock_assert_held(&map->lock);
    if (map->state.layout == NULL)
        return false;
    if (arrived.us != 0 && map->read_at.us >= arrived.us)
        return true;
    return event_map_has_missed_nothing_locked(maps, map) && map->read_at.us >= fresh_since.us;
}

bool
event_map_is_whole_locked(const struct seat_maps *maps, const struct event_map *map)
{
    return seat_maps_trusted(maps) && event_map_has_missed_nothing_locked(maps, map);
}

bool
seat_maps_is_whole(struct seat_maps *maps, struct slice org, struct slice event)
{
    struct event_map *map = event_map_find(maps, org, event, FIND_THERE);
    if (map == NULL)
        return false;
    lock_take(&map->lock);
    bool is_whole = event_map_is_whole_locked(maps, map);
    lock_drop(&map->lock);
    event_map_put(map);
    return is_whole;
}

/* --- watching ----------------------------------------------------------------------- */

bool
seat_maps_watch(struct seat_maps *maps, struct slice org, struct slice event,
                struct seat_map_watcher *watcher)
{
    struct event_map *map = event_map_find(maps, org, event, FIND_OR_MAKE_AND_PIN);
    if (map == NULL)
        return false;
    lock_take(&map->lock);
    map->watcher = watcher;
    lock_drop(&map->lock);
    event_map_put(map);
    return true;
}

void
seat_maps_unwatch(struct seat_maps *maps, struct slice org, struct slice event)
{
    struct event_map *map = event_map_find(maps, org, event, FIND_THERE);
    hf_assert(map != NULL && map->is_pinned);
    lock_take(&map->lock);
    map->watcher = NULL;
    lock_drop(&map->lock);
    lock_take(&maps->lock);
    map->is_pinned = false;
    maps->watched--;
    DL_APPEND(maps->order, map);
    lock_drop(&maps->lock);
    event_map_put(map);
}

bool
seat_maps_is_loaded(struct seat_maps *maps, struct slice org, struct slice event)
{
    struct event_map *map = event_map_find(maps, org, event, FIND_THERE);
    if (map == NULL)
        return false;
    lock_take(&map->lock);
    bool is_loaded = map->state.layout != NULL;
    lock_drop(&map->lock);
    event_map_put(map);
    return is_loaded;
}

bool
seat_maps_count(struct seat_maps *maps, struct slice org, struct slice event, struct db_time now,
                struct seat_map_counts *counts)
{
    struct event_map *map = event_map_find(maps, org, event, FIND_THERE);
    if (map == NULL)
        return false;
    lock_take(&map->lock);
    bool is_loaded = map->state.layout != NULL;
    if (now.us >= map->state.next_end.us)
        map_state_sweep(&map->state, now, seat_maps_next_position(maps));
    if (is_loaded)
        map_state_count(&map->state, counts);
    lock_drop(&map->lock);
    event_map_put(map);
    return is_loaded;
}
