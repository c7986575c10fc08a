/*
 * clock.c - the estimate of the database's clock; and what is due by our own.
 *
 * A round trip tells: when the middle of it was here, it was `theirs` there,
 * give or take half of the round trip. Of the last eight the fastest is
 * believed, since the slow ones were slow for a reason that is seldom
 * symmetric; the older seven only wait for being the fastest of what is left.
 *
 * Round trips that can't all be true tell that one of the clocks jumped: only the newest counts
 * then.
 */
#include "holdfast/clock.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/assert.h"
#include "holdfast/lock.h"

#define SAMPLES_MAX 8
#define DRIFT_US    (20 * TIME_US_PER_MS) /* that two clocks may make between two of them */

struct sample {
    int64_t offset_us; /* database's clock minus ours */
    int64_t error_us;  /* half of the round trip, rounded up */
};

struct db_clock {
    struct lock lock; /* rank CLOCK */

    /* guarded by lock */
    struct sample samples[SAMPLES_MAX]; /* a ring */
    unsigned count;                     /* of samples, up to SAMPLES_MAX */
    unsigned next;                      /* where the next one goes */
    struct sample best;                 /* the fastest of them; valid if count > 0 */
};

struct db_clock *
db_clock_new(void)
{
    struct db_clock *clock = calloc(1, sizeof(*clock));

    if (clock != NULL)
        lock_init(&clock->lock, LOCK_CLOCK);
    return clock;
}

void
db_clock_free(struct db_clock **clock)
{
    if (*clock == NULL)
        return;
    lock_fini(&(*clock)->lock);
    free(*clock);
    *clock = NULL;
}

static struct sample
fastest_locked(const struct db_clock *clock)
{
    struct sample best = clock->samples[0];

    for (unsigned i = 1; i < clock->count; i++) {
        if (clock->samples[i].error_us < best.error_us)
            best = clock->samples[i];
    }
    return best;
}

static bool
agree(const struct sample *a, const struct sample *b)
{
    return llabs(a->offset_us - b->offset_us) <= a->error_us + b->error_us + DRIFT_US;
}

void
db_clock_observe(struct db_clock *clock, struct mono_time sent, struct mono_time received,
                 struct db_time theirs)
{
    hf_assert(sent.us <= received.us);
    int64_t trip_us = received.us - sent.us;
    struct sample sample = { .offset_us = theirs.us - (sent.us + trip_us / 2),
                             .error_us = (trip_us + 1) / 2 };

    lock_take(&clock->lock);
    if (clock->count > 0 && !agree(&clock->best, &sample))
        clock->count = clock->next = 0;
    clock->samples[clock->next] = sample;
    clock->next = (clock->next + 1) % SAMPLES_MAX;
    if (clock->count < SAMPLES_MAX)
        clock->count++;
    clock->best = fastest_locked(clock);
    lock_drop(&clock->lock);
}

void
db_clock_reset(struct db_clock *clock)
{
    lock_take(&clock->lock);
    clock->count = 0;
    clock->next = 0;
    lock_drop(&clock->lock);
}

bool
db_clock_read(struct db_clock *clock, struct mono_time now, struct db_time *time, int64_t *error_us)
{
    lock_take(&clock->lock);
    bool known = clock->count > 0;
    struct sample best = clock->best;
    lock_drop(&clock->lock);

    if (!known)
        return false;
    time->us = now.us + best.offset_us;
    *error_us = best.error_us;
    return true;
}

struct db_time
db_clock_surely_past(struct db_clock *clock, struct mono_time now)
{
    struct db_time time;
    int64_t error_us;

    if (!db_clock_read(clock, now, &time, &error_us))
        return (struct db_time){ 0 };
    return (struct db_time){ time.us - error_us };
}

bool
mono_is_due(struct mono_time *due, int64_t every_us)
{
    struct mono_time now = mono_now();

    if (now.us < due->us)
        return false;
    due->us = now.us + every_us;
    return true;
}
