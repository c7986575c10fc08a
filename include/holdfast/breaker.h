/*
 * breaker.h - the circuit breaker around Redis, one for a node.
 *
 * Closed: everybody may use Redis. failures_to_open uses in a row that failed or timed out open it.
 * Open: nobody does; one caller (the prober) asks from time to time whether Redis lives, after a
 * pause that doubles from pause_min_us to pause_max_us. A probe that worked makes it half-open:
 * one use is let through, and what becomes of that closes it or opens it again.
 *
 * Threads:  any. While it is closed and nothing fails a call is one atomic load.
 * Source:   Nygard, Release It! (circuit breaker).
 */
#ifndef HOLDFAST_BREAKER_H
#define HOLDFAST_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/clock.h"

enum breaker_state { BREAKER_CLOSED, BREAKER_HALF_OPEN, BREAKER_OPEN };
const char *breaker_state_word(enum breaker_state state); /* "closed", "half_open", "open" */

struct breaker_limits {
    int failures_to_open; /* in a row: 5 */
    int64_t pause_min_us; /* before the first probe: 1 s */
    int64_t pause_max_us; /* 30 s */
    int64_t trial_us;     /* a half-open trial that nobody reported on is void after this long */
};

struct breaker; /* opaque */

/*
 * changed: called once for each change of state, from the thread that caused it, with no lock
 * taken; NULL: nobody is told. NULL result: no memory.
 */
struct breaker *breaker_new(const struct breaker_limits *limits,
                            void (*changed)(void *context, enum breaker_state state),
                            void *context);
void breaker_free(struct breaker **breaker);

enum breaker_state breaker_state(const struct breaker *breaker);

/*
 * True: go on, and report with worked or failed. Half-open this takes the one trial.
 * False: do without Redis.
 */
bool breaker_allows(struct breaker *breaker, struct mono_time now);
void breaker_worked(struct breaker *breaker, struct mono_time now);
void breaker_failed(struct breaker *breaker, struct mono_time now);

/* For the prober: true when it is open and the pause is over. */
bool breaker_probe_is_due(struct breaker *breaker, struct mono_time now);
/* Something else has heard of it: the next probe need not wait for the end of its pause. */
void breaker_may_be_back(struct breaker *breaker, struct mono_time now);
/* What the probe found: half-open, or open for twice as long. */
void breaker_probed(struct breaker *breaker, struct mono_time now, bool worked);

#endif
