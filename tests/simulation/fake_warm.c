/*
 * fake_warm.c - the contract of warm.h over a Redis that is a few values in memory, and fails.
 *
 * The breaker is the real one. What is put must be committed already (law 5), and an open breaker
 * must keep everybody away. Publishing and subscribing have a file of their own (fake_pubsub.c).
 */
#include "fake_warm.h"

#include <stdlib.h>

#include "faults.h"
#include "sim.h"
#include "store.h"

#define TIMEOUT_US (50 * MS)

struct value {
    struct uuid hold;
    int64_t version; /* 0: no such key */
};

struct warm_tier {
    struct breaker *breaker;
    uint64_t generation, wipes_seen;
};

struct warm {
    struct warm_tier *tier;
    bool due; /* replies are still to be read */
};

static struct value values[SEATS_MAX];
static int64_t away_until_us, lost_until_us[MACHINES];
static uint64_t wipes;

bool
redis_is_reached(void)
{
    int machine = machine_here();

    return sim_now_us() >= away_until_us &&
           (machine == NOWHERE || sim_now_us() >= lost_until_us[machine]);
}

void
redis_goes_away(int64_t us)
{
    trace("redis: away for %.3f s", (double)us / 1e6);
    away_until_us = sim_now_us() + us;
    pubsub_break(NOWHERE, chance_one_in(2));
}

void
redis_loses(int machine, int64_t us)
{
    trace("redis: n%d is cut off for %.3f s", machine + 1, (double)us / 1e6);
    lost_until_us[machine] = sim_now_us() + us;
    pubsub_break(machine, !chance_one_in(4));
}

void
redis_is_wiped(void)
{
    trace("redis: wiped");
    memset(values, 0, sizeof(values));
    wipes++;
}

/* --- the tier ------------------------------------------------------------- */

static void
breaker_changed(void *context, enum breaker_state state)
{
    struct warm_tier *tier = context;

    trace("breaker: %s", breaker_state_word(state));
    if (state == BREAKER_CLOSED)
        warm_tier_distrust(tier, "it was away");
}

struct warm_tier *
warm_tier_new(const struct config *config)
{
    static const struct breaker_limits limits = {
        .failures_to_open = 5, .pause_min_us = 200 * MS, .pause_max_us = 2 * S, .trial_us = 1 * S
    };
    struct warm_tier *tier = calloc(1, sizeof(*tier));

    (void)config;
    hf_assert(tier != NULL);
    tier->breaker = breaker_new(&limits, breaker_changed, tier);
    tier->generation = 1;
    tier->wipes_seen = wipes;
    hf_assert(tier->breaker != NULL);
    return tier;
}

void
warm_tier_free(struct warm_tier **tier)
{
    breaker_free(&(*tier)->breaker);
    free(*tier);
    *tier = NULL;
}

bool
warm_tier_is_on(const struct warm_tier *tier)
{
    return tier != NULL;
}

struct breaker *
warm_tier_breaker(struct warm_tier *tier)
{
    return tier->breaker;
}

void
warm_tier_distrust(struct warm_tier *tier, const char *why)
{
    (void)why;
    tier->generation++;
}

/* --- one use -------------------------------------------------------------- */

static bool
round_trip(struct warm *warm)
{
    bool answers = redis_is_reached() && !chance_one_in(faults.redis_fails_one_in);

    fiber_sleep(answers ? chance_delay(faults.redis_trip_us / 4, faults.redis_trip_us)
                        : TIMEOUT_US);
    if (answers)
        breaker_worked(warm->tier->breaker, mono_now());
    else
        breaker_failed(warm->tier->breaker, mono_now());
    return answers;
}

static bool
may_use(struct warm *warm)
{
    return breaker_allows(warm->tier->breaker, mono_now());
}

struct warm *
warm_new(const struct config *config, struct warm_tier *tier)
{
    struct warm *warm = calloc(1, sizeof(*warm));

    (void)config;
    hf_assert(warm != NULL);
    warm->tier = tier;
    return warm;
}

void
warm_free(struct warm **warm)
{
    free(*warm);
    *warm = NULL;
}

bool
warm_is_on(const struct warm *warm)
{
    return warm->tier != NULL;
}

bool
warm_watch(struct warm *warm)
{
    struct breaker *breaker = warm->tier->breaker;

    if (breaker_probe_is_due(breaker, mono_now())) {
        bool answers = redis_is_reached();
        fiber_sleep(answers ? faults.redis_trip_us : TIMEOUT_US);
        breaker_probed(breaker, mono_now(), answers);
        return answers;
    }
    if (breaker_state(breaker) != BREAKER_CLOSED)
        return false;
    bool answers = round_trip(warm);
    if (answers && warm->tier->wipes_seen != wipes) {
        warm->tier->wipes_seen = wipes;
        warm_tier_distrust(warm->tier, "it was wiped");
    }
    return answers;
}

/* --- values --------------------------------------------------------------- */

static bool
was_committed(int seat, const struct warm_hold *hold)
{
    const struct history *history = &store.histories[seat];

    for (int i = 0; i < history->count; i++)
        if (history->pasts[i].state.version == hold->version &&
            uuid_equal(&history->pasts[i].state.hold, &hold->hold_id))
            return true;
    return false;
}

bool
warm_put(struct warm *warm, const struct warm_hold *holds, int count)
{
    bool allowed = may_use(warm);

    for (int i = 0; i < count; i++) {
        int seat = store_find_seat(holds[i].seat);
        if (seat < 0 || !was_committed(seat, &holds[i]))
            violation("Redis is told of v%d of seat %.*s, which is not committed",
                      (int)holds[i].version, SLICE_ARG(holds[i].seat));
        struct value *value = &values[seat];
        bool newer =
            uuid_equal(&value->hold, &holds[i].hold_id) && value->version > holds[i].version;
        if (allowed && redis_is_reached() && !newer)
            *value = (struct value){ holds[i].hold_id, holds[i].version };
    }
    warm->due |= allowed;
    return allowed;
}

bool
warm_remove(struct warm *warm, const struct warm_hold *holds, int count)
{
    bool allowed = may_use(warm);

    for (int i = 0; i < count && allowed && redis_is_reached(); i++) {
        int seat = store_find_seat(holds[i].seat);
        if (seat >= 0 && uuid_equal(&values[seat].hold, &holds[i].hold_id))
            values[seat] = (struct value){ .version = 0 };
    }
    warm->due |= allowed;
    return allowed;
}

bool
warm_collect(struct warm *warm)
{
    bool due = warm->due;

    warm->due = false;
    return !due || round_trip(warm);
}

/* Who hears no reply can't tell whether Redis took it. */
bool
warm_publish(struct warm *warm, struct slice channel, struct slice message)
{
    if (!may_use(warm))
        return false;
    if (redis_is_reached() && !chance_one_in(faults.redis_fails_one_in))
        pubsub_send(channel, message);
    return round_trip(warm);
}
