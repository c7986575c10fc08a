/*
 * seat_map.c - the maps in memory: who has one, whether it may be served, whose turn it is to write
 * it.
 *
 * A map may be served while it rests on a read that began after everything that could
 * have passed it by: `needs_read_after` of the map (seats were imported, something
 * changed while nothing was loaded), `distrusted_at` of all (a peer may have changed
 * something), and what the request itself demands. Else the caller loads it.
 *
 * Positions come from one counter for all maps, so that a map that was dropped and
 * loaded again never repeats one.
 */
#include "holdfast/seat_map.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/http.h"
#include "holdfast/ids.h"
#include "holdfast/lock.h"
#include "map_internal.h"

/* Orgs and events come from clients: a hash that they can't foresee. */
#define HASH_FUNCTION(key, len, hash) ((hash) = (unsigned)hash_seeded((key), (len)))
#define HASH_NONFATAL_OOM             1
#include <uthash.h>
#include <utlist.h>

#define MAP_KEY_BYTES      (2 * ID_BYTES_MAX + 1) /* org, a NUL, event */
#define BOOT_TEXT_BYTES    17
#define VERSION_TEXT_BYTES 48
#define LOOP_SEATS_MAX     256 /* a delta of so many seats is written in some 20 us: a loop may */
#define GZIP_LEAST_BYTES   1024
#define RENDER_WAIT_US     5000000

struct event_map {
    UT_hash_handle hh;
    struct event_map *prev, *next; /* in order of use; these three are guarded by MAP_TABLE */
    atomic_int refs;               /* the table's one, and one per user */
    unsigned key_len;              /* fixed, as the key */
    char key[MAP_KEY_BYTES];
    struct mono_time made_at; /* fixed: a read that began before it belongs to another map */

    /* guarded by lock */
    struct lock lock; /* rank MAP */
    struct map_state state;
    struct mono_time read_at;          /* when the read that it rests on began */
    struct mono_time needs_read_after; /* it must rest on a later one */
    bool rendering;                    /* somebody is writing the body of a newer position */
    pthread_cond_t rendered;
    uint64_t body_position;
    struct http_body *plain, *gzip; /* NULL until somebody asked for it */
};

struct seat_maps {
    int maps_max;               /* fixed */
    char boot[BOOT_TEXT_BYTES]; /* fixed: tells this process's versions from all others */

    struct lock lock;        /* rank MAP_TABLE */
    struct event_map *table; /* uthash head; owns one reference each */
    struct event_map *order; /* utlist head, the longest unused first */

    /* atomic, any thread */
    _Atomic uint64_t position;
    _Atomic int64_t distrusted_at;
    _Atomic bool trusted;
};

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
    lock_init(&maps->lock, LOCK_MAP_TABLE);
    return maps;
}

/* --- the table --------------------------------------------------------------- */

static unsigned
make_key(char key[MAP_KEY_BYTES], struct slice org, struct slice event)
{
    if (org.len > ID_BYTES_MAX || event.len > ID_BYTES_MAX)
        return 0;
    memcpy(key, org.ptr, org.len);
    key[org.len] = '\0';
    memcpy(key + org.len + 1, event.ptr, event.len);
    return (unsigned)(org.len + 1 + event.len);
}

static void
map_put(struct event_map *map)
{
    if (map == NULL || atomic_fetch_sub_explicit(&map->refs, 1, memory_order_acq_rel) > 1)
        return;
    map_state_fini(&map->state);
    if (map->plain != NULL)
        http_body_put(map->plain);
    if (map->gzip != NULL)
        http_body_put(map->gzip);
    pthread_cond_destroy(&map->rendered);
    lock_fini(&map->lock);
    free(map);
}

/* Takes it out of the table; the caller puts the table's reference when the lock is dropped. */
static void
remove_locked(struct seat_maps *maps, struct event_map *map)
{
    HASH_DEL(maps->table, map);
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

/* Adds a map; *victim gets the one that had to go, for the caller to put. */
static struct event_map *
add_locked(struct seat_maps *maps, const char *key, unsigned key_len, struct event_map **victim)
{
    struct event_map *map = map_new(key, key_len);
    if (map == NULL)
        return NULL;
    if ((int)HASH_COUNT(maps->table) >= maps->maps_max) {
        *victim = maps->order;
        remove_locked(maps, *victim);
    }
    HASH_ADD(hh, maps->table, key, key_len, map);
    if (map->hh.tbl == NULL) {
        map_put(map);
        return NULL;
    }
    DL_APPEND(maps->order, map);
    return map;
}

/* The event's map with a reference for the caller; NULL: none (or no memory). */
static struct event_map *
map_find(struct seat_maps *maps, struct slice org, struct slice event, bool create)
{
    char key[MAP_KEY_BYTES];
    struct event_map *map;
    struct event_map *victim = NULL;
    unsigned key_len = make_key(key, org, event);
    if (key_len == 0)
        return NULL;

    lock_take(&maps->lock);
    HASH_FIND(hh, maps->table, key, key_len, map);
    if (map == NULL && create)
        map = add_locked(maps, key, key_len, &victim);
    if (map != NULL)
        atomic_fetch_add_explicit(&map->refs, 1, memory_order_relaxed);
    lock_drop(&maps->lock);
    map_put(victim);
    return map;
}

/* Only reading makes a map stay; changes come to all that are there. */
static void
map_used(struct seat_maps *maps, struct event_map *map)
{
    lock_take(&maps->lock);
    if (map->hh.tbl != NULL && map->next != NULL) {
        DL_DELETE(maps->order, map);
        DL_APPEND(maps->order, map);
    }
    lock_drop(&maps->lock);
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
    lock_drop(&maps->lock);
    DL_FOREACH_SAFE(gone, map, next)
    map_put(map);
}

void
seat_maps_free(struct seat_maps **maps)
{
    if (*maps == NULL)
        return;
    seat_maps_forget(*maps);
    lock_fini(&(*maps)->lock);
    free(*maps);
    *maps = NULL;
}

/* --- trust ---------------------------------------------------------------------- */

void
seat_maps_set_trusted(struct seat_maps *maps, bool trusted)
{
    atomic_store(&maps->trusted, trusted);
}

bool
seat_maps_trusted(const struct seat_maps *maps)
{
    return atomic_load(&maps->trusted);
}

void
seat_maps_distrust(struct seat_maps *maps)
{
    atomic_store(&maps->distrusted_at, mono_now().us);
}

static void
must_read_locked(struct event_map *map)
{
    lock_assert_held(&map->lock);
    map->needs_read_after = mono_now();
}

void
seat_maps_invalidate(struct seat_maps *maps, struct slice org, struct slice event)
{
    struct event_map *map = map_find(maps, org, event, false);
    if (map == NULL)
        return;
    lock_take(&map->lock);
    must_read_locked(map);
    lock_drop(&map->lock);
    map_put(map);
}

/*
 * A reader is owed what was answered before its request came, not what is changed while it
 * waits: else a map that is invalidated all the time could never be served.
 */
static bool
may_serve_locked(const struct seat_maps *maps, const struct event_map *map,
                 const struct seat_map_request *request)
{
    lock_assert_held(&map->lock);
    if (map->state.layout == NULL)
        return false;
    if (request->arrived.us != 0 && map->read_at.us >= request->arrived.us)
        return true;
    return map->read_at.us > map->needs_read_after.us &&
           map->read_at.us > atomic_load(&maps->distrusted_at) &&
           map->read_at.us >= request->fresh_since.us;
}

/* --- changes ---------------------------------------------------------------------- */

static uint64_t
next_position(struct seat_maps *maps)
{
    return atomic_fetch_add(&maps->position, 1) + 1;
}

static void
apply_locked(struct seat_maps *maps, struct event_map *map, struct slice seat,
             const struct seat_view *view)
{
    uint32_t i = map->state.layout == NULL ? LAYOUT_NONE : layout_find(map->state.layout, seat);
    if (i == LAYOUT_NONE) {
        must_read_locked(map); /* a loading may be under way whose read came too early */
        return;
    }
    const struct map_seat *known = &map->state.seats[i];
    struct map_seat now = { .until = view->held_until,
                            .version = view->version,
                            .newer = LAYOUT_NONE,
                            .older = LAYOUT_NONE,
                            .status = view->status,
                            .in_payment = view->in_payment };
    if (now.version > known->version ||
        (now.version == known->version && map_seat_differs(&now, known)))
        map_state_set(&map->state, i, &now, next_position(maps));
}

void
seat_maps_apply(struct seat_maps *maps, const struct seat_key *seat, const struct seat_view *view)
{
    struct event_map *map = map_find(maps, seat->org, seat->event, false);
    if (map == NULL)
        return;
    lock_take(&map->lock);
    apply_locked(maps, map, seat->seat, view);
    lock_drop(&map->lock);
    map_put(map);
}

static struct map_area *
area_find(struct map_state *state, struct slice id)
{
    for (int i = 0; i < state->area_count; i++) {
        if (slice_is(id, state->areas[i].id))
            return &state->areas[i];
    }
    return NULL;
}

void
seat_maps_area(struct seat_maps *maps, struct slice org, struct slice event, struct slice area,
               int64_t held, int64_t sold, int64_t version)
{
    struct event_map *map = map_find(maps, org, event, false);
    if (map == NULL)
        return;
    lock_take(&map->lock);
    struct map_area *known = area_find(&map->state, area);
    if (known == NULL) {
        must_read_locked(map);
    } else if (version > known->version) {
        known->held = held;
        known->sold = sold;
        known->version = version;
        map->state.position = next_position(maps);
    }
    lock_drop(&map->lock);
    map_put(map);
}

bool
seat_maps_load(struct seat_maps *maps, struct slice org, struct slice event,
               const struct pg_result *seats, const struct pg_result *areas, struct mono_time began)
{
    struct map_state fresh;
    struct event_map *map = map_find(maps, org, event, false);
    if (map == NULL)
        return true; /* it was dropped meanwhile; the next get makes another */
    lock_take(&map->lock);
    struct layout *known = map->state.layout == NULL ? NULL : layout_get(map->state.layout);
    lock_drop(&map->lock);
    bool read = map_state_read(&fresh, known, seats, areas);
    layout_put(known);
    if (!read) {
        map_put(map);
        return false;
    }
    lock_take(&map->lock);
    /*
     * A read that began too early to be served is taken in all the same: from now on changes
     * find their seats, and so the next loading is complete.
     */
    if (began.us >= map->made_at.us && began.us > map->read_at.us) {
        map_state_merge(&map->state, &fresh, next_position(maps));
        map->read_at = began;
    }
    lock_drop(&map->lock);
    map_state_fini(&fresh);
    map_put(map);
    return true;
}

/* --- reading ------------------------------------------------------------------------ */

static void
write_version(const struct seat_maps *maps, uint64_t position, char text[VERSION_TEXT_BYTES])
{
    snprintf(text, VERSION_TEXT_BYTES, "%s-%llu", maps->boot, (unsigned long long)position);
}

static void
write_etag(const struct seat_maps *maps, struct slice event, uint64_t position,
           struct seat_map_reply *reply)
{
    char version[VERSION_TEXT_BYTES];

    write_version(maps, position, version);
    snprintf(reply->etag, sizeof(reply->etag), "W/\"%.*s-%s\"", SLICE_ARG(event), version);
}

/* The position that a version of ours names; false: it is none of this process. */
static bool
parse_version(const struct seat_maps *maps, struct slice text, uint64_t *position)
{
    size_t head = BOOT_TEXT_BYTES - 1;
    uint64_t number = 0;

    if (text.len < head + 2 || text.len > head + 20 || memcmp(text.ptr, maps->boot, head) != 0 ||
        text.ptr[head] != '-')
        return false;
    for (size_t i = head + 1; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    *position = number;
    return true;
}

/* What changed since when is to be told; 0: the whole. */
static uint64_t
since_locked(const struct seat_maps *maps, const struct event_map *map, struct slice since)
{
    uint64_t position;

    if (since.len == 0 || !parse_version(maps, since, &position) || position < map->state.floor ||
        position > map->state.position)
        return 0;
    return position;
}

/* If-None-Match compares weakly: our quoted part anywhere in the list, or *. */
static bool
is_still_true(struct slice if_none_match, const char *etag)
{
    const char *quoted = etag + 2; /* after W/ */

    if (if_none_match.len == 0)
        return false;
    return slice_is(if_none_match, "*") ||
           memmem(if_none_match.ptr, if_none_match.len, quoted, strlen(quoted)) != NULL;
}

static bool
body_is_ready_locked(const struct event_map *map, const struct seat_map_request *request)
{
    uint64_t least = request->at_least != 0 ? request->at_least : map->state.position;

    if (map->plain == NULL || map->body_position < least)
        return false;
    return !request->gzip || map->gzip != NULL || map->plain->len < GZIP_LEAST_BYTES;
}

static void
give_body_locked(const struct seat_maps *maps, struct event_map *map,
                 const struct seat_map_request *request, struct seat_map_reply *reply)
{
    bool gzip = request->gzip && map->gzip != NULL;

    reply->gzip = gzip;
    reply->body = http_body_get(gzip ? map->gzip : map->plain);
    write_etag(maps, request->event, map->body_position, reply);
}

static struct http_body *
render_snapshot(const struct seat_maps *maps, struct snapshot *shot, struct slice event)
{
    char version[VERSION_TEXT_BYTES];

    write_version(maps, shot->position, version);
    return render_body(shot, event, version);
}

/* Puts what was written in the place of what was there. */
static void
keep_body_locked(struct event_map *map, struct http_body *plain, struct http_body *gzip,
                 uint64_t position)
{
    if (map->plain != NULL)
        http_body_put(map->plain);
    if (map->gzip != NULL)
        http_body_put(map->gzip);
    map->plain = plain;
    map->gzip = gzip;
    map->body_position = position;
}

/* Writes the whole map with the lock given up meanwhile. False: no memory. */
static bool
render_locked(const struct seat_maps *maps, struct event_map *map,
              const struct seat_map_request *request)
{
    struct snapshot shot;
    struct http_body *gzip = NULL;

    if (!snapshot_take(&shot, &map->state, 0))
        return false;
    map->rendering = true;
    lock_drop(&map->lock);

    uint64_t position = shot.position;
    struct http_body *plain = render_snapshot(maps, &shot, request->event);
    if (plain != NULL && request->gzip && plain->len >= GZIP_LEAST_BYTES)
        gzip = render_gzip(plain);
    snapshot_fini(&shot);

    lock_take(&map->lock);
    map->rendering = false;
    if (plain != NULL)
        keep_body_locked(map, plain, gzip, position);
    pthread_cond_broadcast(&map->rendered);
    return plain != NULL && (gzip != NULL || !request->gzip || plain->len < GZIP_LEAST_BYTES);
}

/* The whole map: one thread writes it, those that come meanwhile wait for it. */
static enum seat_map_answer
whole_locked(const struct seat_maps *maps, struct event_map *map,
             const struct seat_map_request *request, struct seat_map_reply *reply)
{
    struct seat_map_request wish = *request;

    if (wish.at_least == 0)
        wish.at_least = map->state.position;
    while (!body_is_ready_locked(map, &wish)) {
        if (!wish.may_render) {
            reply->position = wish.at_least;
            return SEAT_MAP_RENDER;
        }
        if (map->rendering)
            lock_wait(&map->lock, &map->rendered, RENDER_WAIT_US);
        else if (!render_locked(maps, map, &wish) && !body_is_ready_locked(map, &wish))
            return SEAT_MAP_LOAD; /* no memory: the caller gives up after a few of these */
    }
    give_body_locked(maps, map, &wish, reply);
    return SEAT_MAP_BODY;
}

/* What changed since then; small ones are written at once, wherever we are. */
static enum seat_map_answer
delta_locked(const struct seat_maps *maps, struct event_map *map, uint64_t since,
             const struct seat_map_request *request, struct seat_map_reply *reply)
{
    struct snapshot shot;

    if (!request->may_render &&
        snapshot_count(&map->state, since, LOOP_SEATS_MAX + 1) > LOOP_SEATS_MAX) {
        reply->position = map->state.position;
        return SEAT_MAP_RENDER;
    }
    if (!snapshot_take(&shot, &map->state, since))
        return SEAT_MAP_LOAD;
    lock_drop(&map->lock);
    write_etag(maps, request->event, shot.position, reply);
    struct http_body *plain = render_snapshot(maps, &shot, request->event);
    struct http_body *gzip = plain != NULL && request->gzip && plain->len >= GZIP_LEAST_BYTES
                                 ? render_gzip(plain)
                                 : NULL;
    snapshot_fini(&shot);
    if (gzip != NULL)
        http_body_put(plain);
    reply->gzip = gzip != NULL;
    reply->body = gzip != NULL ? gzip : plain;
    lock_take(&map->lock);
    return reply->body != NULL ? SEAT_MAP_BODY : SEAT_MAP_LOAD;
}

static enum seat_map_answer
answer_locked(struct seat_maps *maps, struct event_map *map, const struct seat_map_request *request,
              struct seat_map_reply *reply)
{
    if (!may_serve_locked(maps, map, request))
        return SEAT_MAP_LOAD;
    if (request->now.us >= map->state.next_end.us)
        map_state_sweep(&map->state, request->now, next_position(maps));
    write_etag(maps, request->event, map->state.position, reply);
    if (is_still_true(request->if_none_match, reply->etag))
        return SEAT_MAP_NOT_MODIFIED;
    uint64_t since = since_locked(maps, map, request->since);
    return since == 0 ? whole_locked(maps, map, request, reply)
                      : delta_locked(maps, map, since, request, reply);
}

enum seat_map_answer
seat_maps_get(struct seat_maps *maps, const struct seat_map_request *request,
              struct seat_map_reply *reply)
{
    memset(reply, 0, sizeof(*reply));
    struct event_map *map = map_find(maps, request->org, request->event, request->may_render);
    if (map == NULL)
        return SEAT_MAP_LOAD;
    map_used(maps, map);
    lock_take(&map->lock);
    enum seat_map_answer answer = answer_locked(maps, map, request, reply);
    lock_drop(&map->lock);
    map_put(map);
    return answer;
}
