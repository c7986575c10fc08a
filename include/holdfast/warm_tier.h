/*
 * warm_tier.h - what a node's connections to Redis share: the circuit breaker, and for which events
 * the tier may be trusted.
 *
 * Redis may come back empty, or with what it had long ago: a tier that was closed for a while,
 * restarted or wiped is a new generation, and no event is trusted in it before it was rebuilt from
 * Postgres (repair.h). An event that Redis may have missed something of is doubted, by its name.
 *
 * Threads:  any.
 * Locks:    takes WARM_TIER, never across I/O.
 * Memory:   a fixed size, however many events there are.
 */
#ifndef HOLDFAST_WARM_TIER_H
#define HOLDFAST_WARM_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/breaker.h"
#include "holdfast/config.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"

/* --- names of events ---------------------------------------------------------- */

#define WARM_EVENTS_MAX 64

/* Each once; zeroed: none. Where there were more than fit it is all events. */
struct warm_events {
    bool all;
    int count;
    struct warm_event {
        char org[ID_BYTES_MAX + 1];
        char event[ID_BYTES_MAX + 1];
    } event[WARM_EVENTS_MAX];
};

void warm_events_add(struct warm_events *events, struct slice org, struct slice event);
void warm_events_add_all(struct warm_events *to, const struct warm_events *from);
/* False for all of them where it is all events: then it has no names. */
bool warm_events_name(const struct warm_events *events, struct slice org, struct slice event);

/* --- the tier ------------------------------------------------------------------- */

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
/* Moves the events that were doubted since the last call to `doubted`, which keeps what it has. */
void warm_tier_take_doubted(struct warm_tier *tier, struct warm_events *doubted);
/*
 * True: closed, and rebuilt in this generation. For who is going to read it: the tier knows a
 * bounded number of events, and the one that is asked for least lately is forgotten first (it is
 * trusted again when it was compared).
 */
bool warm_tier_trusts(struct warm_tier *tier, struct slice org, struct slice event);
/* The same for repair, which asks for all of them: it doesn't count as a question. */
bool warm_tier_is_rebuilt(struct warm_tier *tier, struct slice org, struct slice event);

#endif
