/*
 * seat_map.c - the maps in memory: who has one, whether it may be served, whose turn it is to write
 * it.
 *
 * A map may be served while it rests on a read that began after everything that could
 * have passed it by: `needs_read_after` of the map (seats were imported, something
 * changed while nothing was loaded), the last distrust of all (a peer may have changed
 * something), and what the request itself demands. Else the caller loads it.
 *
 * Positions come from one counter for all maps, so that a map that was dropped and
 * loaded again never repeats one.
 *
 * A map is WHOLE when it is loaded, this node is trusted, and it rests on a read that began after
 * whatever could have passed it by: only then a feed position says what it has.
 */
#include "holdfast/seat_map.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/http.h"
#include "holdfast/ids.h"
#include "holdfast/lock.h"
#include "holdfast/trust.h"
#include "map_internal.h"

/* Orgs and events come from clients: a hash that they can't foresee. */
#define HASH_FUNCTION(key, len, hash) ((hash) = (unsigned)hash_seeded((key), (len)))
#define HASH_NONFATAL_OOM             1
#include <uthash.h>
#include <utlist.h>

#define LOOP_SEATS_MAX   256  /* a delta of so many seats is written in some 20 us: a loop may */
#define LOOP_LOOKS_MAX   4096 /* so many are looked at for another node's reader in that time */
#define GZIP_LEAST_BYTES 1024
#define RENDER_WAIT_US   5000000
#define SETTLE_US        (3 * TIME_US_PER_S) /* see version.c */

struct event_map {
    UT_hash_handle hh;
    struct event_map *prev, *next; /* in order of use */
    bool is_pinned;                /* watched: not in that order; these four by MAP_TABLE */
    atomic_int refs;               /* the table's one, and one per user */
    unsigned key_len;              /* fixed, as the key */
    char key[EVENT_KEY_BYTES];

    /* guarded by lock */
    struct lock lock;         /* rank MAP */
    struct mono_time made_at; /* a read that began before it belongs to another map */
    struct map_state state;
    struct map_base base;
    struct seat_map_watcher *watcher;  /* NULL: none */
    struct mono_time read_at;          /* when the read that it rests on began */
    struct mono_time needs_read_after; /* it must rest on a later one */
    bool rendering;                    /* somebody is writing the body of a newer position */
    pthread_cond_t rendered;
    uint64_t body_position;
    struct http_body *plain, *gzip;        /* NULL until somebody asked for it */
    char body_version[VERSION_TEXT_BYTES]; /* what they say of themselves */
    bool body_is_settled;                  /* other nodes can tell a difference from it */
};

struct seat_maps {
    int maps_max, watched_max;  /* fixed */
    char boot[BOOT_TEXT_BYTES]; /* fixed: tells this process's versions from all others */

    struct lock lock;        /* rank MAP_TABLE */
    struct event_map *table; /* uthash head; owns one reference each */
    struct event_map *order; /* utlist head, the longest unused first */
    int watched;             /* those that are not in it */

    /* atomic, any thread */
    _Atomic uint64_t position;
    struct trust trust;
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
    maps->watched_max = maps_max * 3 / 4; /* rounded down: one at least is left */
    trust_init(&maps->trust);
    lock_init(&maps->lock, LOCK_MAP_TABLE);
    return maps;
}

/* --- the table --------------------------------------------------------------- */

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
        map_put(map);
        return NULL;
    }
    DL_APPEND(maps->order, map);
    return map;
}

/* How a map is looked for. */
enum find { FIND_THERE, FIND_OR_MAKE, FIND_OR_MAKE_AND_PIN };

static void
pin_locked(struct seat_maps *maps, struct event_map *map)
{
    hf_assert(!map->is_pinned);
    maps->watched++;
    DL_DELETE(maps->order, map);
    map->prev = map->next = NULL;
    map->is_pinned = true;
}

/* The event's map with a reference for the caller; NULL: none (or no memory). */
static struct event_map *
map_find(struct seat_maps *maps, struct slice org, struct slice event, enum find how)
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
    keep_body_locked(map, NULL, NULL, 0);
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
    map_put(map);
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

static void
must_read_locked(struct event_map *map)
{
    lock_assert_held(&map->lock);
    map->needs_read_after = mono_now();
}

/* Whether it rests on a read since which nothing can have passed it by. */
static bool
has_missed_nothing_locked(const struct seat_maps *maps, const struct event_map *map)
{
    lock_assert_held(&map->lock);
    return map->state.layout != NULL && map->read_at.us > map->needs_read_after.us &&
           trust_covers(&maps->trust, map->read_at);
}

static bool
is_whole_locked(const struct seat_maps *maps, const struct event_map *map)
{
    return seat_maps_trusted(maps) && has_missed_nothing_locked(maps, map);
}

bool
seat_maps_is_whole(struct seat_maps *maps, struct slice org, struct slice event)
{
    struct event_map *map = map_find(maps, org, event, FIND_THERE);
    if (map == NULL)
        return false;
    lock_take(&map->lock);
    bool is_whole = is_whole_locked(maps, map);
    lock_drop(&map->lock);
    map_put(map);
    return is_whole;
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
    return has_missed_nothing_locked(maps, map) && map->read_at.us >= request->fresh_since.us;
}

/* --- changes ---------------------------------------------------------------------- */

static uint64_t
next_position(struct seat_maps *maps)
{
    return atomic_fetch_add(&maps->position, 1) + 1;
}

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
        .after = is_whole_locked(maps, map) ? move->after : NULL,
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
        must_read_locked(map); /* a loading may be under way whose read came too early */
        return;
    }
    struct map_seat known = map->state.seats[i];
    bool was_read = !is_from_record(known.from);
    if (now->version < known.version) {
        if (!was_read || known.from.number != FROM_BASE.number)
            return;
        known.from = FROM_NOBODY;
        map_state_set(&map->state, i, &known, next_position(maps));
        return;
    }
    bool is_newer = now->version > known.version;
    bool is_known_now = was_read && is_from_record(now->from);
    if (!is_newer && !is_known_now && !map_seat_differs(now, &known))
        return;
    map_state_set(&map->state, i, now, next_position(maps));
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
        must_read_locked(map);
    } else if (change->version > known->version) {
        known->held = change->held;
        known->sold = change->sold;
        known->version = change->version;
        map->state.position = next_position(maps);
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
        must_read_locked(map);
        break;
    case FEED_EVENT:
        break; /* a map doesn't show it */
    }
}

void
seat_maps_take(struct seat_maps *maps, const struct feed_change *change, struct feed_mark from,
               const struct feed_position *after)
{
    struct event_map *map = map_find(maps, change->org, change->event, FIND_THERE);
    if (map == NULL)
        return;
    lock_take(&map->lock);
    take_locked(maps, map, change, from, after);
    lock_drop(&map->lock);
    map_put(map);
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
    map->body_is_settled = false;
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
    bool changed = map_state_merge(&map->state, fresh, next_position(maps), &self.listener);
    map->read_at = reading->began;
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
    struct event_map *map = map_find(maps, org, event, FIND_THERE);
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
    map_put(map);
    return read;
}

/* --- watching ----------------------------------------------------------------------- */

bool
seat_maps_watch(struct seat_maps *maps, struct slice org, struct slice event,
                struct seat_map_watcher *watcher)
{
    struct event_map *map = map_find(maps, org, event, FIND_OR_MAKE_AND_PIN);
    if (map == NULL)
        return false;
    lock_take(&map->lock);
    map->watcher = watcher;
    lock_drop(&map->lock);
    map_put(map);
    return true;
}

void
seat_maps_unwatch(struct seat_maps *maps, struct slice org, struct slice event)
{
    struct event_map *map = map_find(maps, org, event, FIND_THERE);
    hf_assert(map != NULL && map->is_pinned);
    lock_take(&map->lock);
    map->watcher = NULL;
    lock_drop(&map->lock);
    lock_take(&maps->lock);
    map->is_pinned = false;
    maps->watched--;
    DL_APPEND(maps->order, map);
    lock_drop(&maps->lock);
    map_put(map);
}

bool
seat_maps_is_loaded(struct seat_maps *maps, struct slice org, struct slice event)
{
    struct event_map *map = map_find(maps, org, event, FIND_THERE);
    if (map == NULL)
        return false;
    lock_take(&map->lock);
    bool is_loaded = map->state.layout != NULL;
    lock_drop(&map->lock);
    map_put(map);
    return is_loaded;
}

bool
seat_maps_count(struct seat_maps *maps, struct slice org, struct slice event, struct db_time now,
                struct seat_map_counts *counts)
{
    struct event_map *map = map_find(maps, org, event, FIND_THERE);
    if (map == NULL)
        return false;
    lock_take(&map->lock);
    bool is_loaded = map->state.layout != NULL;
    if (is_loaded)
        map_state_count(&map->state, now, counts);
    lock_drop(&map->lock);
    map_put(map);
    return is_loaded;
}

/* --- reading ------------------------------------------------------------------------ */

/* What the map is in public now; as told as the request lets it be. */
static void
version_locked(const struct seat_maps *maps, const struct event_map *map,
               const struct seat_map_request *request, struct map_version *version)
{
    memcpy(version->boot, maps->boot, sizeof(version->boot));
    version->position = map->state.position;
    version->is_told = request->feed != NULL && request->now.us != 0 && is_whole_locked(maps, map);
    if (!version->is_told)
        return;
    version->at = request->now;
    version->feed = *request->feed;
}

static void
write_etag(struct slice event, const char *version, struct seat_map_reply *reply)
{
    snprintf(reply->etag, sizeof(reply->etag), "W/\"%.*s-%s\"", SLICE_ARG(event), version);
}

/* What this reader has; *version must stay. */
static struct map_reader
reader_of_locked(const struct seat_maps *maps, const struct event_map *map,
                 const struct seat_map_request *request, struct map_version *version)
{
    struct map_reader nobody = { .has_nothing = true };

    if (request->since.len == 0 || !version_parse(request->since, version))
        return nobody;
    if (strcmp(version->boot, maps->boot) == 0) {
        if (version->position < map->state.floor || version->position > map->state.position)
            return nobody;
        return (struct map_reader){ .position = version->position };
    }
    if (request->feed == NULL || !is_whole_locked(maps, map) ||
        !base_is_in(&map->base, version, request->feed))
        return nobody;
    return (struct map_reader){ .position = map->state.floor, .feed = &version->feed };
}

/* The end of the quoted tag that begins as `tag` does, if the list at `at` begins with it. */
static const char *
end_of_tag(struct slice list, const char *at, const char *tag)
{
    const char *rest = at + strlen(tag);
    const char *end = list.ptr + list.len;

    if (rest >= end || (*rest != '"' && *rest != '-'))
        return NULL;
    return memchr(rest, '"', (size_t)(end - rest));
}

/*
 * If-None-Match compares weakly: any version of ours of this position, anywhere in the list, or *.
 * The client's tag is as good as ours, and is told back.
 */
static bool
is_still_true(const struct seat_maps *maps, const struct event_map *map,
              const struct seat_map_request *request, struct seat_map_reply *reply)
{
    struct slice list = request->if_none_match;
    char tag[ID_BYTES_MAX + 64];
    const char *at = list.ptr;

    if (list.len == 0)
        return false;
    snprintf(tag, sizeof(tag), "\"%.*s-%s-%llu", SLICE_ARG(request->event), maps->boot,
             (unsigned long long)map->state.position);
    snprintf(reply->etag, sizeof(reply->etag), "W/%s\"", tag);
    if (slice_is(list, "*"))
        return true;
    while ((at = memmem(at, (size_t)(list.ptr + list.len - at), tag, strlen(tag))) != NULL) {
        const char *end = end_of_tag(list, at, tag);
        if (end != NULL && (size_t)(end - at) < sizeof(reply->etag) - 4) {
            snprintf(reply->etag, sizeof(reply->etag), "W/%.*s\"", (int)(end - at), at);
            return true;
        }
        at++;
    }
    return false;
}

/*
 * Whether a body says of itself what other nodes can tell a difference from, as far as it can: one
 * that was written too soon after a loading is written once more.
 */
static bool
body_is_told_locked(const struct seat_maps *maps, const struct event_map *map,
                    const struct seat_map_request *request)
{
    bool may_tell = request->feed != NULL || !request->may_render;

    return map->body_is_settled || !may_tell || !map->base.is_known ||
           request->now.us < map->base.settled.us || !is_whole_locked(maps, map);
}

static bool
plain_is_ready_locked(const struct seat_maps *maps, const struct event_map *map,
                      const struct seat_map_request *request)
{
    uint64_t least = request->at_least != 0 ? request->at_least : map->state.position;

    return map->plain != NULL && map->body_position >= least &&
           body_is_told_locked(maps, map, request);
}

static bool
body_is_ready_locked(const struct seat_maps *maps, const struct event_map *map,
                     const struct seat_map_request *request)
{
    return plain_is_ready_locked(maps, map, request) &&
           (!request->gzip || map->gzip != NULL || map->plain->len < GZIP_LEAST_BYTES);
}

static void
give_body_locked(struct event_map *map, const struct seat_map_request *request,
                 struct seat_map_reply *reply)
{
    bool gzip = request->gzip && map->gzip != NULL;

    reply->gzip = gzip;
    reply->body = http_body_get(gzip ? map->gzip : map->plain);
    write_etag(request->event, map->body_version, reply);
}

/* Writes the whole map with the lock given up meanwhile. False: no memory. */
static bool
render_locked(const struct seat_maps *maps, struct event_map *map,
              const struct seat_map_request *request)
{
    static const struct map_reader nobody = { .has_nothing = true };
    struct map_version version;
    struct snapshot shot;
    struct http_body *gzip = NULL;
    char text[VERSION_TEXT_BYTES];

    version_locked(maps, map, request, &version);
    bool is_settled = version.is_told && request->now.us >= map->base.settled.us;
    if (!snapshot_take(&shot, &map->state, &nobody))
        return false;
    map->rendering = true;
    lock_drop(&map->lock);

    version_write(&version, text);
    struct http_body *plain = render_body(&shot, request->event, text);
    if (plain != NULL && request->gzip && plain->len >= GZIP_LEAST_BYTES)
        gzip = render_gzip(plain);
    snapshot_fini(&shot);

    lock_take(&map->lock);
    map->rendering = false;
    if (plain != NULL) {
        keep_body_locked(map, plain, gzip, version.position);
        memcpy(map->body_version, text, sizeof(text));
        map->body_is_settled = is_settled;
    }
    pthread_cond_broadcast(&map->rendered);
    return plain != NULL && (gzip != NULL || !request->gzip || plain->len < GZIP_LEAST_BYTES);
}

/* A ready body, compressed too: it says the same version. The lock is given up meanwhile. */
static bool
compress_locked(struct event_map *map)
{
    struct http_body *plain = http_body_get(map->plain);

    map->rendering = true;
    lock_drop(&map->lock);
    struct http_body *gzip = render_gzip(plain);
    lock_take(&map->lock);
    map->rendering = false;
    pthread_cond_broadcast(&map->rendered);
    bool is_compressed = gzip != NULL;
    if (is_compressed && map->plain == plain)
        map->gzip = gzip;
    else if (is_compressed)
        http_body_put(gzip); /* the map was emptied */
    http_body_put(plain);
    return is_compressed;
}

static bool
write_body_locked(const struct seat_maps *maps, struct event_map *map,
                  const struct seat_map_request *request)
{
    return plain_is_ready_locked(maps, map, request) ? compress_locked(map)
                                                     : render_locked(maps, map, request);
}

/* The whole map: one thread writes it, those that come meanwhile wait for it. */
static enum seat_map_answer
whole_locked(const struct seat_maps *maps, struct event_map *map,
             const struct seat_map_request *request, struct seat_map_reply *reply)
{
    struct seat_map_request wish = *request;

    if (wish.at_least == 0)
        wish.at_least = map->state.position;
    while (!body_is_ready_locked(maps, map, &wish)) {
        if (!wish.may_render) {
            reply->position = wish.at_least;
            return SEAT_MAP_RENDER;
        }
        if (map->rendering)
            lock_wait(&map->lock, &map->rendered, RENDER_WAIT_US);
        else if (!write_body_locked(maps, map, &wish) && !body_is_ready_locked(maps, map, &wish))
            return SEAT_MAP_LOAD; /* no memory: the caller gives up after a few of these */
    }
    give_body_locked(map, &wish, reply);
    return SEAT_MAP_BODY;
}

/* On a loop only what is written in some microseconds. */
static bool
is_small_locked(const struct event_map *map, const struct map_reader *reader)
{
    uint32_t most = reader->feed != NULL ? LOOP_LOOKS_MAX : LOOP_SEATS_MAX;

    return snapshot_count(&map->state, reader, most + 1) <= most;
}

/* What the reader lacks; a small one is written at once, wherever we are. */
static enum seat_map_answer
delta_locked(const struct seat_maps *maps, struct event_map *map, const struct map_reader *reader,
             const struct seat_map_request *request, struct seat_map_reply *reply)
{
    struct map_version version;
    struct snapshot shot;
    char text[VERSION_TEXT_BYTES];

    if (!request->may_render && !is_small_locked(map, reader)) {
        reply->position = map->state.position;
        return SEAT_MAP_RENDER;
    }
    version_locked(maps, map, request, &version);
    if (!snapshot_take(&shot, &map->state, reader))
        return SEAT_MAP_LOAD;
    lock_drop(&map->lock);
    version_write(&version, text);
    write_etag(request->event, text, reply);
    struct http_body *plain = render_body(&shot, request->event, text);
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
    struct map_version since;

    if (!may_serve_locked(maps, map, request))
        return SEAT_MAP_LOAD;
    if (request->now.us >= map->state.next_end.us)
        map_state_sweep(&map->state, request->now, next_position(maps));
    if (is_still_true(maps, map, request, reply))
        return SEAT_MAP_NOT_MODIFIED;
    struct map_reader reader = reader_of_locked(maps, map, request, &since);
    return reader.has_nothing ? whole_locked(maps, map, request, reply)
                              : delta_locked(maps, map, &reader, request, reply);
}

enum seat_map_answer
seat_maps_get(struct seat_maps *maps, const struct seat_map_request *request,
              struct seat_map_reply *reply)
{
    reply->body = NULL; /* field by field: the tag is long */
    reply->gzip = false;
    reply->position = 0;
    reply->etag[0] = '\0';
    struct event_map *map = map_find(maps, request->org, request->event,
                                     request->may_render ? FIND_OR_MAKE : FIND_THERE);
    if (map == NULL)
        return SEAT_MAP_LOAD;
    map_used(maps, map);
    lock_take(&map->lock);
    enum seat_map_answer answer = answer_locked(maps, map, request, reply);
    lock_drop(&map->lock);
    map_put(map);
    return answer;
}
