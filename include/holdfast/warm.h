/*
 * warm.h - Redis, shared by the nodes, never trusted to refuse or to grant.
 *
 * A struct warm is one synchronous connection, used by one thread at a time.
 * Every wait is bounded by redis_timeout_ms; after a timeout the connection is
 * dropped. Absent, slow or wrong, Redis costs time only: each function that
 * can't do its work says so and the caller goes on without it. Redis 7 or newer;
 * the process ignores SIGPIPE.
 *
 * Keys, one hash tag per event (src/warm/keys.c is the only place that builds them):
 *   holdfast:{org:<org>:event:<event>}:seat:<seat>      STRING, JSON, TTL = hold + 60 s
 *   holdfast:{org:<org>:event:<event>}:seat_holds       ZSET "<seat>:<hold>:<user>", score Unix ms
 *   holdfast:{org:<org>:event:<event>}:hold:<id>:meta   HASH
 *   holdfast:mark                                       STRING, a random id, no TTL (warm_watch)
 */
#ifndef HOLDFAST_WARM_H
#define HOLDFAST_WARM_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/breaker.h"
#include "holdfast/clock.h"
#include "holdfast/config.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"

struct warm; /* opaque */

/* --- what the connections of one node share ------------------------------- */

/*
 * The circuit breaker, and for which events the tier may be trusted. Redis may come back empty, or
 * with what it had long ago: a tier that was closed for a while, restarted or wiped is a new
 * generation, and no event is trusted in it before it was rebuilt from Postgres (repair.h).
 * Threads: any.
 */
struct warm_tier; /* opaque */

/* NULL: no memory. Outlives every struct warm of it. */
struct warm_tier *warm_tier_new(const struct config *config);
void warm_tier_free(struct warm_tier **tier);
/* False: redis_url is empty, there is no warm tier. */
bool warm_tier_is_on(const struct warm_tier *tier);
struct breaker *warm_tier_breaker(struct warm_tier *tier);
/* Counts up whenever all that was built is void. Begins at 1. */
uint64_t warm_tier_generation(const struct warm_tier *tier);
/* A new generation: Postgres is another one, Redis was away, restarted or wiped. */
void warm_tier_distrust(struct warm_tier *tier, const char *why);
/*
 * Before the first read of a rebuild; it changes with the generation and with each doubt about the
 * event.
 */
uint64_t warm_tier_ticket(struct warm_tier *tier, struct slice org, struct slice event);
/* `event` was made equal to Postgres; no-op unless `ticket` is the present one still. */
void warm_tier_rebuilt(struct warm_tier *tier, struct slice org, struct slice event,
                       uint64_t ticket);
/* What was committed didn't reach Redis, or there is drift that can't be mended now: not trusted
 * until it is rebuilt again. */
void warm_tier_doubt(struct warm_tier *tier, struct slice org, struct slice event);
/* Counts up with each distrust and each doubt: there is something to rebuild. */
uint64_t warm_tier_doubts(const struct warm_tier *tier);
/* True: closed, and rebuilt in this generation. Bounded: the least lately asked event is forgotten
 * first, and then has to be rebuilt. */
bool warm_tier_trusts(struct warm_tier *tier, struct slice org, struct slice event);

/* --- connections ------------------------------------------------------------- */

/* NULL: no memory. Without a tier that is on every call is a no-op that says "off". */
struct warm *warm_new(const struct config *config, struct warm_tier *tier);
void warm_free(struct warm **warm);
bool warm_is_on(const struct warm *warm);
/* PINGs; only a reply proves health. */
bool warm_ping(struct warm *warm);
#define WARM_RUN_ID_BYTES 48 /* 40 hex digits today, and NUL */
/* Which run of Redis answers. False: none, or it doesn't tell. */
bool warm_run_id(struct warm *warm, char run_id[WARM_RUN_ID_BYTES]);

/*
 * For the one thread that watches Redis, about once a second, with a connection of its own. Open:
 * probes when the pause is over. Half-open: takes the trial itself if no batch came for it. Closed:
 * asks whether this is still the Redis of before, and calls warm_tier_distrust if its run id is
 * another one (a restart, maybe with an old dump) or the mark is gone or not the one seen before (a
 * FLUSHALL): the nodes share the mark, who finds none sets it. True: Redis answered, and may be
 * used.
 */
bool warm_watch(struct warm *warm);

/* One seat of a hold as the warm tier keeps it. Borrowed for the call. */
struct warm_hold {
    struct slice org, event, seat, user, cart_token, source;
    struct uuid hold_id;
    struct db_time held_at, held_until;
    struct db_time as_of; /* when the statement that says so judged: what a GET may be told ages */
    int64_t version;
    int64_t ttl_ms; /* from now to held_until; the key lives 60 s longer */
    bool fresh;     /* put: a new hold on a free seat, so what its key had needs no look */
    bool lives_on;  /* remove: the hold has other seats still, so its meta stays */
};

/*
 * After the commit: writes the true value of each seat's key (it replaces unless the key has this
 * hold's id and a newer version), the ZSET member and the hold's meta (left out where `source` is
 * empty). Where no reply is needed none is sent: what Redis refuses there is left to repair. Sends
 * without waiting for the other replies; warm_collect reads them. False: not sent.
 */
bool warm_put(struct warm *warm, const struct warm_hold *holds, int count);

/*
 * After a release, a sale, or a failed transaction: removes key, ZSET member and meta of
 * each seat, if the key still has this hold's id (script). Sends without waiting.
 */
bool warm_remove(struct warm *warm, const struct warm_hold *holds, int count);

/* Reads the replies that are still due. False: Redis failed. */
bool warm_collect(struct warm *warm);

/* GET of one seat's key for a read. True: *json_out (caller frees with free()) has the value. */
bool warm_get_seat(struct warm *warm, struct slice org, struct slice event, struct slice seat,
                   char **json_out, size_t *json_len);

/* What a seat's value says. */
struct warm_reading {
    struct uuid hold_id;
    char user[ID_BYTES_MAX + 1];
    struct db_time held_until;
    struct db_time as_of;
    int64_t version;
};
/* False: `text` is no whole value of this very seat. */
bool warm_value_read(struct slice text, struct slice org, struct slice event, struct slice seat,
                     struct warm_reading *reading);

/* --- for repair: what is there, and making it right ------------------------------ */

/* ZCARD of the event's holds; -1: not known. */
int64_t warm_count(struct warm *warm, struct slice org, struct slice event);

/* One key or member as it was found. */
struct warm_found {
    struct slice seat; /* the seat that the key (or member) is about; empty: it names none */
    struct slice text; /* what stands there: a value (cut at 4 KB, ours are shorter), a member.
                          Empty: an empty one, or a key of another type than ours */
    double score;      /* of a member */
};
/* Called for each; false stops the walk. The slices live for this call; it must not use `warm`. */
typedef bool warm_visit(void *context, const struct warm_found *found);

/* The keys of `count` seats: visits those that exist (not an empty text). False: Redis failed. */
bool warm_read_seats(struct warm *warm, struct slice org, struct slice event,
                     const struct slice *seats, int count, warm_visit *visit, void *context);
/* Every member of seat_holds, perhaps one twice (a key of another type: visited once with empty
 * text). False: Redis failed. */
bool warm_read_members(struct warm *warm, struct slice org, struct slice event, warm_visit *visit,
                       void *context);
/*
 * Every seat key of the event, found by SCAN in steps, perhaps one twice: for orphans whose seat
 * Postgres doesn't know. It walks all keys of this Redis: on demand only. False: Redis failed, or
 * `deadline` passed.
 */
bool warm_scan_seats(struct warm *warm, struct slice org, struct slice event,
                     struct mono_time deadline, warm_visit *visit, void *context);

/*
 * The rest of what `holds` (of one event, seats of a hold side by side) have there: right[i] if its
 * member has the right score and the hold's meta (unless `source` is empty) is what warm_put would
 * have written. False: Redis failed.
 */
bool warm_read_details(struct warm *warm, const struct warm_hold *holds, int count, bool *right);

/* True if this is what warm_put would have written for `hold`, to the letter but for as_of (any
 * time). Its TTL isn't known. */
bool warm_value_is(struct slice text, const struct warm_hold *hold);
bool warm_member_is(const struct warm_found *member, const struct warm_hold *hold);

/*
 * Compare and delete, in one step of Redis each: the key of `seat` if it still reads `text` (or is
 * of another type, for an empty text); a member of seat_holds by its text (empty: the key too, if
 * it is no sorted set). Returns how many went; -1: Redis failed.
 * Read Redis first and Postgres then: what Redis has by a later commit reads differently.
 */
int warm_drop_seats(struct warm *warm, struct slice org, struct slice event,
                    const struct warm_found *found, int count);
int warm_drop_members(struct warm *warm, struct slice org, struct slice event,
                      const struct warm_found *found, int count);
/*
 * warm_put, and its replies: writes value, member and meta of each hold unless its key has this
 * hold's id and a newer version. What is wrong is dropped first, or a wrong version would stay.
 * The caller asks Postgres afterwards whether it still holds. False: Redis failed.
 */
bool warm_mend(struct warm *warm, const struct warm_hold *holds, int count);

#endif
