/*
 * event_map.h - one event's map and the table of all, between seat_map.c, moving.c, serving.c and
 * choosing.c.
 *
 * A map is WHOLE when it is loaded, this node is trusted, and it rests on a read that began after
 * whatever could have passed it by: only then a feed position says what it has.
 */
#ifndef HOLDFAST_EVENT_MAP_H
#define HOLDFAST_EVENT_MAP_H

#include <pthread.h>

#include "holdfast/ids.h"
#include "holdfast/lock.h"
#include "holdfast/trust.h"
#include "map_internal.h"

/* Orgs and events come from clients: a hash that they can't foresee. */
#define HASH_FUNCTION(key, len, hash) ((hash) = (unsigned)hash_seeded((key), (len)))
#define HASH_NONFATAL_OOM             1
#include <uthash.h>
#include <utlist.h>

/* What is ready to be sent. */
struct map_body {
    uint64_t position;
    int64_t show_version;             /* of the event's row it speaks of; 0: of none */
    struct http_body *plain, *gzip;   /* NULL until somebody asked for it */
    char version[VERSION_TEXT_BYTES]; /* what they say of themselves */
    bool is_settled;                  /* other nodes can tell a difference from it */
};

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
    struct mono_time reading_since;    /* somebody loads it for a choice; 0: nobody */
    bool rendering;                    /* somebody is writing the body of a newer position */
    struct mono_time render_due;       /* the next is not begun before */
    pthread_cond_t rendered;
    struct map_body bodies[2]; /* the map alone, and with its show */
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

/* --- seat_map.c -------------------------------------------------------------- */

/* How a map is looked for. */
enum event_map_find { FIND_THERE, FIND_OR_MAKE, FIND_OR_MAKE_AND_PIN };

/*
 * The event's map with a reference for the caller; NULL: none (or no memory, or as many are watched
 * as may be).
 */
struct event_map *event_map_find(struct seat_maps *maps, struct slice org, struct slice event,
                                 enum event_map_find how);
void event_map_put(struct event_map *map);
/* Only reading makes a map stay; changes come to all that are there. */
void event_map_used(struct seat_maps *maps, struct event_map *map);

/* Gives up what is written; nothing is ready then. */
void map_body_clear(struct map_body *body);
void event_map_must_read_locked(struct event_map *map);
/* Whether it rests on a read since which nothing can have passed it by. */
bool event_map_has_missed_nothing_locked(const struct seat_maps *maps, const struct event_map *map);
/*
 * Whether it may be used for a request that came at `arrived` (0: it doesn't count) and wants it to
 * rest on a read since fresh_since (0: any age). A reader is owed what was answered before its
 * request came, not what is changed while it waits: else a map that is invalidated all the time
 * could never be served.
 */
bool event_map_may_serve_locked(const struct seat_maps *maps, const struct event_map *map,
                                struct mono_time arrived, struct mono_time fresh_since);
bool event_map_is_whole_locked(const struct seat_maps *maps, const struct event_map *map);

uint64_t seat_maps_next_position(struct seat_maps *maps);

#endif
