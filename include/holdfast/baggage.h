/*
 * baggage.h - what a bag weighs and costs: the rules of the settings, and the scales that are
 * asked.
 *
 * Scales stand behind one small interface (src/baggage/scales.h): `simulated` believes the
 * passenger and answers at once; `http` is asked with a libcurl multi handle on a thread of the
 * room's own, so that no loop, worker or desk ever waits for it.
 *
 * Callers:  api, main.
 * Threads:  baggage_weigh from any. `told` is called on the room's thread, or at once on the
 * caller's (simulated, or the room is full or stopped); it must not block. Limits:
 * BAGGAGE_CALLS_MAX under way; one more hears that the scales can't be reached.
 */
#ifndef HOLDFAST_BAGGAGE_H
#define HOLDFAST_BAGGAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/clock.h"
#include "holdfast/config.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"

#define BAGGAGE_CALLS_MAX 1000

struct baggage; /* opaque */

/* Whether the settings will do. False: error says why. */
HF_MUST_CHECK bool baggage_check(const struct config *config, char *error, size_t error_bytes);

/* NULL: error says why (bad settings, no thread). `config` must outlive it. */
HF_MUST_CHECK struct baggage *baggage_start(const struct config *config, char *error,
                                            size_t error_bytes);
/* Ends the thread; who waits, and all that come from now on, hear that nothing was asked. NULL is
 * fine. */
void baggage_stop(struct baggage *baggage);
/* When it has stopped and nobody weighs any more. *baggage becomes NULL. */
void baggage_free(struct baggage **baggage);

/* --- the rules; weights in hundredths of a kilogram ---------------------------------------- */

struct baggage_rules {
    int64_t limit, max; /* above the limit a bag costs the surcharge; above max it is none */
    int64_t surcharge;  /* in the minor unit */
    const char *currency;
};
const struct baggage_rules *baggage_rules(const struct baggage *baggage);

/* --- the scales ------------------------------------------------------------------------------ */

enum weighing {
    WEIGHED,   /* *weight of the answer counts */
    UNWEIGHED, /* the scales couldn't be reached, or said nothing that we know */
};

/* Everything is copied. */
struct bag {
    struct slice org, event, passenger;
    struct uuid checkin;
    int64_t weight; /* as the passenger says */
};

/* told: exactly once, by `patience` or a little later; it may be over before this returns. */
void baggage_weigh(struct baggage *baggage, const struct bag *bag, struct mono_time patience,
                   void (*told)(void *context, enum weighing outcome, int64_t weight),
                   void *context);

#endif
