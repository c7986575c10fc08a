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
/* `event` was made equal to Postgres; no-op unless `generation` is the present one. */
void warm_tier_rebuilt(struct warm_tier *tier, struct slice org, struct slice event,
                       uint64_t generation);
/* Drift was found that can't be mended now: not trusted until it is rebuilt again. */
void warm_tier_doubt(struct warm_tier *tier, struct slice org, struct slice event);
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

/*
 * For the one thread that watches Redis, about once a second: probes when the breaker is open and
 * its pause is over; else asks whether this is still the Redis of before (its run id, and a mark
 * that a FLUSHALL takes away), and calls warm_tier_distrust if it is not. True: Redis answered.
 */
bool warm_watch(struct warm *warm);

/* One seat of a hold as the warm tier keeps it. Borrowed for the call. */
struct warm_hold {
    struct slice org, event, seat, user, cart_token, source;
    struct uuid hold_id;
    struct db_time held_at, held_until;
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

/* --- for repair: what is there, and making it right ------------------------------ */

/* ZCARD of the event's holds; -1: not known. */
int64_t warm_count(struct warm *warm, struct slice org, struct slice event);

/* One key or member as it was found. Slices live until the next warm_* call of this connection. */
struct warm_found {
    struct slice seat; /* the seat that the key (or member) is about */
    struct slice text; /* the value as it stands (empty: a key of another type), or the member */
    double score;      /* of a member */
};
/* Called for each; false stops the walk. It must not use the connection. */
typedef bool warm_visit(void *context, const struct warm_found *found);

/* The keys of `count` seats: visits those that exist. False: Redis failed. */
bool warm_read_seats(struct warm *warm, struct slice org, struct slice event,
                     const struct slice *seats, int count, warm_visit *visit, void *context);
/* Every member of seat_holds (a key of another type: visited once with empty text). False: Redis
 * failed. */
bool warm_read_members(struct warm *warm, struct slice org, struct slice event, warm_visit *visit,
                       void *context);
/*
 * Every seat key of the event, found by SCAN in steps: for orphans whose seat Postgres doesn't
 * know. It walks all keys of this Redis: on demand only. False: Redis failed, or `deadline` passed.
 */
bool warm_scan_seats(struct warm *warm, struct slice org, struct slice event,
                     struct mono_time deadline, warm_visit *visit, void *context);

/* True if this is, to the letter, what warm_put would have written for `hold` (its TTL apart). */
bool warm_value_is(struct slice text, const struct warm_hold *hold);
bool warm_member_is(const struct warm_found *member, const struct warm_hold *hold);

/*
 * Compare and delete, in one step of Redis each: the key of `seat` if it still reads `text` (or is
 * still of another type, for an empty text); a member of seat_holds by its text (empty: the key, if
 * it is still no sorted set). Returns how many went; -1: Redis failed.
 */
int warm_drop_seats(struct warm *warm, struct slice org, struct slice event,
                    const struct warm_found *found, int count);
int warm_drop_members(struct warm *warm, struct slice org, struct slice event,
                      const struct warm_found *found, int count);
/*
 * Compare and set: writes value, member and meta of each hold unless its key has this hold's id and
 * a newer version. The caller asks Postgres afterwards whether it still holds. False: Redis failed.
 */
bool warm_mend(struct warm *warm, const struct warm_hold *holds, int count);

#endif
