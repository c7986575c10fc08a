/*
 * hot_internal.h - what the files of the hot table share: entry, shard, table.
 *
 * An entry that is not claimed is in exactly one ring, and its place says which:
 * the shard's wheel while its timer is armed, else `freed` (tombstones, oldest
 * first) or `idle` (all others, in the order of a second-chance clock). The latter
 * two are what may be evicted. A claimed entry without a timer is in none, so
 * that nothing can evict it.
 *
 * Waiters of a claim are a ring of their own links, and the entry points to the
 * last one (whose next is the first): one pointer, FIFO, nothing to allocate. The first of each
 * ring stands in a list of its shard, so that those whose time is up are found.
 */
#ifndef HOLDFAST_HOT_INTERNAL_H
#define HOLDFAST_HOT_INTERNAL_H

#include <stdatomic.h>
#include <stddef.h>

#include "event_names.h"
#include "holdfast/hot_table.h"
#include "holdfast/trust.h"
#include "holdfast/lock.h"
#include "link.h"
#include "seat_hash.h"
#include "slab.h"
#include "timer_wheel.h"

enum seat_place { PLACE_NONE, PLACE_WHEEL, PLACE_FREED, PLACE_IDLE };

/*
 * 152 bytes with a seat id of up to 8 characters. In the order of the members what a look-up
 * reads (the end of hh and all after it) lies together: two cache lines, not three.
 */
struct hot_seat {
    struct timer_node timer; /* its link: see place; its time, when freed: the shard's age */
    struct hot_waiter *parked_last;
    UT_hash_handle hh;
    struct uuid hold_id;
    uint64_t user_hash;
    struct db_time held_until;
    int64_t version;
    struct mono_time began; /* of the newest read or commit that said this */
    uint16_t slab_place;
    uint16_t status : 3; /* enum seat_status */
    uint16_t in_payment : 1;
    uint16_t known : 1; /* false: only a claim is here, nothing was learned yet */
    uint16_t claimed : 1;
    uint16_t used : 1;  /* asked for since the clock of eviction came by */
    uint16_t place : 2; /* enum seat_place */
    uint32_t event;     /* the key begins here: number of the event, ... */
    char seat[];        /* ... then the seat id, without a NUL */
};

#define SEAT_KEY_OFFSET offsetof(struct hot_seat, event)
#define SEAT_BYTES_STEP 8
#define SEAT_CLASSES    (ID_BYTES_MAX / SEAT_BYTES_STEP)

_Static_assert(offsetof(struct hot_seat, seat) == SEAT_KEY_OFFSET + sizeof(uint32_t),
               "event number and seat id are one key, without a gap");
_Static_assert(offsetof(struct hot_seat, seat) == 144,
               "1,000,000 entries were promised to fit into 200 bytes each");
_Static_assert(SEAT_REMOVED < 8, "status has three bits");

/*
 * The waiters of a shard, and a walk over them for those whose time is up. It may be left and gone
 * on with: who is parked meanwhile is counted in both times, and need not be met.
 */
struct late_walk {
    struct hot_waiter *crowds; /* the first waiter of each seat that has some; by before, after */
    struct mono_time first;    /* nobody's time is up before */
    struct mono_time
        first_left;         /* the same of those that the walk has met and left where they are */
    struct hot_seat *seat;  /* whose waiters the walk is at; NULL: it hasn't begun */
    struct hot_waiter *met; /* the last one that it left there; NULL: none yet */
};

struct shard {
    /* fixed after start */
    _Alignas(64) struct hot_table *table;

    struct lock lock; /* rank SHARD; guards all that follows */

    struct hot_seat *seats; /* uthash head; owns the entries */
    struct event_names names;
    struct slab slabs[SEAT_CLASSES];
    struct timer_wheel wheel;
    struct link freed;
    struct link idle;
    uint64_t changes; /* see hot_table_change_count */
    int64_t claims;
    struct late_walk late;
    /*
     * Tombstones age by this clock: it follows the ticks, but a jump of the database's
     * clock counts for a second at most, and a step back for nothing.
     */
    int64_t age_us;
    struct db_time ticked;
};

struct hot_table {
    /* fixed after start */
    struct hot_table_limits limits;

    /* atomic, any thread */
    _Atomic int64_t entries; /* exact against seats_max */
    _Atomic int64_t parked;  /* exact against parked_max */
    struct trust trust;
    _Atomic uint64_t distrusts;
    _Atomic uint32_t tick_from; /* the shard where the next tick begins */

    struct shard shards[];
};

/* A seat as a caller named it, ready to be looked up: made before the lock is taken. */
struct seat_spot {
    struct shard *shard;
    unsigned hash;
    struct slice event; /* org, NUL, event: a part of text */
    struct slice seat;
    char text[3 * ID_BYTES_MAX + 2];
};

void seat_spot_init(struct seat_spot *spot, struct hot_table *table, const struct seat_key *key);

/* --- shard.c: entries of one shard; the caller holds its lock ------------- */

void shard_init(struct shard *shard, struct hot_table *table);
void shard_fini(struct shard *shard);

/* NULL: not here. */
struct hot_seat *shard_find_locked(struct shard *shard, const struct seat_spot *spot);
/* As above, but adds an entry about which nothing is known; evicts one if it must. NULL: no room or
 * memory. */
struct hot_seat *shard_find_or_add_locked(struct shard *shard, const struct seat_spot *spot);
/* Unlinks and frees an entry without claim. */
void shard_remove_locked(struct shard *shard, struct hot_seat *seat);
/* Evicts one entry in a bounded number of steps. False: none may go. */
bool shard_evict_locked(struct shard *shard);

struct slice shard_seat_id(const struct hot_seat *seat);

void shard_arm_locked(struct shard *shard, struct hot_seat *seat, struct db_time at);
/* Puts an entry without timer where it belongs after its claim or status changed. */
void shard_settle_place_locked(struct shard *shard, struct hot_seat *seat);

/* Takes in a view unless it is older than what is known. True: something is new. */
bool shard_learn_locked(struct shard *shard, struct hot_seat *seat, const struct seat_view *view,
                        struct mono_time began, bool arm);

void shard_validate_locked(struct shard *shard);

#endif
