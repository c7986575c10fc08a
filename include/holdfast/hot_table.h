/*
 * hot_table.h - what this node believes about every seat, answered from memory.
 *
 * The model. An entry is what Postgres last said about one seat: status, hold,
 * user (as a seeded hash: equal hashes only lead to a question to Postgres,
 * never to an answer), end, version. It only moves forward in version. On top of
 * it there may be a CLAIM: a request of this node that is on its way to Postgres
 * for this seat. Requests that meet a claim are PARKED behind it and are handed
 * back when the claim is settled (committed) or dropped (failed, refused).
 *
 * Trust. An entry refuses only while it is trusted: always while this node is
 * trusted (hot_table_set_trusted), otherwise until hot_lease after the read or
 * commit that it rests on began. A distrust voids everything at once: what rests
 * on a read or commit that began before it is not trusted any more, also if it is
 * learned only later.
 *
 * Callers:  api (hot check), engine (claim, settle), upkeep (tick, trust).
 * Threads:  every function may be called from any thread.
 * Locks:    takes one shard lock (rank SHARD), never two at a time, never across I/O.
 * Memory:   the table owns its entries; callers get copies, no pointer leaves a
 *           lock. Parked requests are the caller's; the table only links them.
 * Limits:   hot_seats_max entries; when full, freed seats go first, then entries
 *           without a timer, farthest from use; never a claim, never an entry
 *           whose timer is this node's. Work per call is bounded. When nothing may
 *           go, a claim is HOT_FULL and news are dropped (Postgres knows them).
 *           parked_max parked requests. 1,000,000 seats take under 200 bytes each.
 * Source:   shards with table, timer and waiters under one lock: HAProxy's
 *           stick tables; hierarchical wheels: Varghese & Lauck 1987.
 */
#ifndef HOLDFAST_HOT_TABLE_H
#define HOLDFAST_HOT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/clock.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"

struct hot_table; /* opaque */

enum seat_status { SEAT_AVAILABLE, SEAT_HELD, SEAT_SOLD, SEAT_BLOCKED, SEAT_REMOVED };
const char *seat_status_word(enum seat_status status); /* "available", ... */
bool seat_status_parse(struct slice word, enum seat_status *status);

/*
 * Borrowed for the call. Each part is 1 to ID_BYTES_MAX bytes without a NUL, checked by
 * the caller (id_is_valid). A seat that begins with '~' stands for a hold without seats.
 */
struct seat_key {
    struct slice org;
    struct slice event;
    struct slice seat;
};

/* What Postgres said about a seat. */
struct seat_view {
    enum seat_status status;
    bool in_payment;
    struct uuid hold_id;
    uint64_t user_hash;        /* hash_seeded of the user id; 0: nobody */
    struct db_time held_until; /* 0 unless held */
    int64_t version;
    struct mono_time began; /* what memory tells: when the read or commit it rests on began */
};

struct hot_table_limits {
    uint32_t shards; /* a power of two */
    int64_t seats_max;
    int64_t parked_max;
    int64_t lease_us;
    int64_t tombstone_us; /* a freed seat's entry stays at least this long: 10 s */
};

/* NULL: no memory. */
struct hot_table *hot_table_new(const struct hot_table_limits *limits);
/* Takes the table: frees it and sets *table to NULL. No claim may be pending. */
void hot_table_free(struct hot_table **table);

/* --- trust ------------------------------------------------------------- */

/*
 * Trusted: no change of another node can have been missed (fanout.h), so entries are trusted
 * without a lease. A new table is not. Becoming trusted is a distrust too: what was unheard
 * until now was never told. The same again changes nothing.
 */
void hot_table_set_trusted(struct hot_table *table, bool trusted);
/*
 * Trust lapses by itself then, if it isn't moved on: when the whole node stood still, no thread may
 * rest on it before somebody has looked around. Never called: it doesn't lapse.
 */
void hot_table_trust_until(struct hot_table *table, struct mono_time until);
/*
 * Voids every entry at once (fail-over, a gap in what peers told): from now on only what
 * began after this call is trusted, by mono_now. Claims and timers stay; no walk.
 */
void hot_table_distrust(struct hot_table *table);

/* --- claims ------------------------------------------------------------ */

/* A request that may be parked; embed it as the first member. */
struct hot_waiter {
    struct hot_waiter *next;
    struct mono_time until; /* the caller's: see hot_table_take_late */

    /* the table's own: the first that waits for a seat stands in a list of its shard */
    struct hot_waiter *before, *after;
    struct hot_seat *seat;
};

enum hot_answer {
    HOT_CLAIMED, /* the claim is pending and yours: settle or drop it */
    HOT_PARKED,  /* another claim is pending: the waiter comes back by its settle or drop */
    HOT_REFUSED, /* a trusted entry says that another user has it, or it is sold or blocked: see
                    view */
    HOT_FULL     /* too many parked requests, or neither room nor memory for an entry */
};

/*
 * Claims `seat` for a request of user `user_hash`.
 *
 * now/error_us: the database's clock as this node estimates it; within error_us
 * of held_until memory does not refuse. may_refuse: false for a request that has
 * to be judged by Postgres whatever memory knows (an Idempotency-Key). A seat
 * held by the same user is claimed, not refused: Postgres tells which hold.
 * waiter: borrowed until it is handed back; NULL: don't park, HOT_PARKED then only says
 * that another claim is pending. view: filled on HOT_REFUSED.
 */
HF_MUST_CHECK enum hot_answer hot_table_claim(struct hot_table *table, const struct seat_key *seat,
                                              uint64_t user_hash, bool may_refuse,
                                              struct db_time now, int64_t error_us,
                                              struct mono_time mono, struct hot_waiter *waiter,
                                              struct seat_view *view);

/*
 * Looks without claiming. True: HOT_REFUSED as above would be the answer.
 * A request for several seats asks this for each before it claims any.
 */
bool hot_table_refuses(struct hot_table *table, const struct seat_key *seat, uint64_t user_hash,
                       struct db_time now, int64_t error_us, struct mono_time mono,
                       struct seat_view *view);

/*
 * The total order in which a request claims several seats (shard, then key), so that
 * parked requests never wait in a circle. <0, 0, >0.
 */
int hot_table_order(const struct hot_table *table, const struct seat_key *a,
                    const struct seat_key *b);

/*
 * Ends this caller's claim and learns `view` (NULL: nothing was learned, e.g. the
 * request failed). To settle a seat without a pending claim is a bug and aborts: news
 * without a claim are learned. began: when the read or transaction that it rests on began.
 * arm: this node shall expire it (only a SEAT_HELD that is not in payment is armed).
 * Gives back the parked requests, first come first, through *waiters (NULL: none);
 * the caller dispatches them anew. A view older than what is known is not learned,
 * the claim ends all the same; an entry about which nothing is known is removed.
 */
void hot_table_settle(struct hot_table *table, const struct seat_key *seat,
                      const struct seat_view *view, struct mono_time began, bool arm,
                      struct hot_waiter **waiters);

/*
 * Gives back, through *late, the parked requests whose time is up at `now`: a claim may belong to
 * somebody who has more time than they. A shard is only walked when the first of its waiters is
 * late, a bounded number of them at a time.
 */
void hot_table_take_late(struct hot_table *table, struct mono_time now, struct hot_waiter **late);

/* --- news without a claim ---------------------------------------------- */

/*
 * Takes in what Postgres said about a seat, if its version is not older than what is known.
 * A newer version replaces the timer, too: armed with `arm`, else none. The same version
 * renews the lease, arms if `arm` says so and no timer is there, and never disarms.
 * Never touches a pending claim.
 */
void hot_table_learn(struct hot_table *table, const struct seat_key *seat,
                     const struct seat_view *view, struct mono_time began, bool arm);

/*
 * Reads from Postgres fill without a version race: take the shard's change count
 * before the read begins, and fill only if it has not moved (memcache's lease).
 */
uint64_t hot_table_change_count(struct hot_table *table, const struct seat_key *seat);
/* False: something changed meanwhile and nothing was filled. */
bool hot_table_fill(struct hot_table *table, const struct seat_key *seat,
                    const struct seat_view *view, struct mono_time began, uint64_t change_count);

/*
 * A copy of a trusted entry without a pending claim. False: Postgres must be asked.
 * A hold that is over, or may be within error_us, is not told either.
 */
bool hot_table_read(struct hot_table *table, const struct seat_key *seat, struct db_time now,
                    int64_t error_us, struct mono_time mono, struct seat_view *view);

/* --- expiry ------------------------------------------------------------ */

/* One hold whose time has come on this node; text fields are copies. */
struct hot_due {
    char org[ID_BYTES_MAX + 1];
    char event[ID_BYTES_MAX + 1];
    char seat[ID_BYTES_MAX + 1];
    struct uuid hold_id;
    struct db_time held_until;
};

/*
 * Turns the wheels to `now`; fills due[] with up to `max` seats whose timers fired
 * (each is disarmed) and returns how many. Call again while it returns max.
 * No timer fires before its time by `now`, nor later than the first tick 10 ms after
 * it. `now` may jump either way. Tombstones age by the ticks: call it always.
 */
int hot_table_tick(struct hot_table *table, struct db_time now, struct hot_due *due, int max);

/*
 * Arms a timer again, for an expiry that came early or failed; a time that is past fires
 * with the next tick of the clock. False: nothing was armed, the entry moved on (another hold, in
 * payment).
 */
bool hot_table_rearm(struct hot_table *table, const struct seat_key *seat,
                     const struct uuid *hold_id, struct db_time at);

/* --- numbers and checks ------------------------------------------------ */

struct hot_numbers {
    int64_t entries;
    int64_t timers;
    int64_t claims;
    int64_t parked;
};
void hot_table_numbers(struct hot_table *table, struct hot_numbers *numbers);

/* Seats of one event that are held and not over at `now` (holds without seats don't count). Walks
 * everything; for admin use. */
int64_t hot_table_count_held(struct hot_table *table, struct slice org, struct slice event,
                             struct db_time now);

/* Walks every shard and asserts what must hold. For tests, while no other thread uses the table. */
void hot_table_validate(struct hot_table *table);

#endif
