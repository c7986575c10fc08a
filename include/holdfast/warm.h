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
 *   holdfast:{org:<org>:event:<event>}:occupancy        STRING, JSON, 10 s
 *   holdfast:mark                                       STRING, a random id, no TTL (warm_watch)
 */
#ifndef HOLDFAST_WARM_H
#define HOLDFAST_WARM_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/clock.h"
#include "holdfast/config.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"
#include "holdfast/warm_tier.h"

struct warm; /* opaque */

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
 * empty), and drops the event's counts. Where no reply is needed none is sent: what Redis refuses
 * there is left to repair. Sends without waiting for the other replies; warm_collect reads them.
 * False: not sent.
 */
bool warm_put(struct warm *warm, const struct warm_hold *holds, int count);

/*
 * After a release, a sale, or a failed transaction: removes key, ZSET member and meta of
 * each seat, if the key still has this hold's id (script), and the event's counts. Sends without
 * waiting.
 */
bool warm_remove(struct warm *warm, const struct warm_hold *holds, int count);

/* Reads the replies that are still due. False: Redis failed. */
bool warm_collect(struct warm *warm);

/*
 * PUBLISHes a message and reads the reply. False: Redis did not take it (or the breaker is open).
 */
bool warm_publish(struct warm *warm, struct slice channel, struct slice message);

/* --- the subscription: a connection of its own, of one thread ------------------------ */

struct warm_listener; /* opaque */

/* `channel` is copied. NULL: no memory. */
struct warm_listener *warm_listener_new(const struct config *config, struct warm_tier *tier,
                                        const char *channel);
void warm_listener_free(struct warm_listener **listener);

enum warm_heard {
    WARM_MESSAGE, /* *message is valid until the next call */
    WARM_NOTHING, /* none came within the time */
    WARM_JOINED,  /* a new subscription stands: what was sent before it was missed */
    WARM_DEAF     /* there is none: lost, or it can't be had; the next call tries again, with a
                     backoff of 10 ms to 1 s during which it says so at once after a wait */
};
/*
 * Waits up to wait_us for a message. A connection that says nothing is PINGed and given up when no
 * reply comes (redis_timeout_ms), so that a dead one is known within half a second.
 */
enum warm_heard warm_listen(struct warm_listener *listener, int64_t wait_us, struct slice *message);

/* GET of one seat's key for a read. True: *json_out (caller frees with free()) has the value. */
bool warm_get_seat(struct warm *warm, struct slice org, struct slice event, struct slice seat,
                   char **json_out, size_t *json_len);

/* The same of an event's counts. */
bool warm_get_occupancy(struct warm *warm, struct slice org, struct slice event, char **json_out,
                        size_t *json_len);
/* Writes them, whatever stands there; gone after ttl_ms. False: Redis didn't take them. */
bool warm_put_occupancy(struct warm *warm, struct slice org, struct slice event, struct slice json,
                        int64_t ttl_ms);

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

#endif
