/*
 * tier.c - what a node's connections to Redis share: the breaker, and which events are trusted.
 *
 * An event is trusted if it was rebuilt in the present generation. The table of such events is
 * small and of a fixed size: sets of a few places, an event's hash says which set. Where a set is
 * full, who comes last takes the place of the event that readers asked for least lately, and is
 * itself the next to go until somebody asks for it: so repair, which walks all events, doesn't
 * push out those that are read.
 */
#include "warm_internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/lock.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"

#define TRUSTED_MAX  4096 /* a power of two */
#define KINDS_LOGGED 8
#define UP_AFTER_US  TIME_US_PER_S
#define TRUSTED_WAYS 8 /* places of a set */

_Static_assert(TRUSTED_MAX % TRUSTED_WAYS == 0, "the table is made of whole sets");

struct trusted {
    uint64_t event; /* hash of org and event; 0: a free place */
    uint64_t generation;
    uint64_t asked; /* when a reader last asked for it, counted in questions; 0: never */
};

struct warm_tier {
    /* fixed after warm_tier_new */
    bool on;
    struct breaker *breaker;

    _Atomic uint64_t generation;
    _Atomic bool down;               /* it failed, and didn't work for a while since */
    _Atomic uint64_t fallbacks_told; /* in the log */

    struct lock lock; /* rank WARM_TIER */

    /* guarded by lock */
    uint64_t asked;
    struct trusted trusted[TRUSTED_MAX];
    uint64_t doubts[TRUSTED_MAX]; /* how often the events that share a place were doubted */
    struct warm_events doubted;   /* and not taken yet */
    struct mono_time failed_at;
    uint64_t logged[KINDS_LOGGED]; /* hashes of the errors that were logged since it worked */
    int logged_count;
};

/* --- what became of a use ------------------------------------------------------------ */

/* Each kind of error is a line of the log once, until it worked again; so are not more than a few.
 */
static bool
is_news_locked(struct warm_tier *tier, uint64_t kind)
{
    for (int i = 0; i < tier->logged_count; i++)
        if (tier->logged[i] == kind)
            return false;
    if (tier->logged_count == KINDS_LOGGED)
        return false;
    tier->logged[tier->logged_count++] = kind;
    return true;
}

void
warm_tier_failed(struct warm_tier *tier, const char *why)
{
    struct mono_time now = mono_now();

    metric_add(METRIC_REDIS_FAILURES_TOTAL, 1);
    metric_set(METRIC_REDIS_UP, 0);
    lock_take(&tier->lock);
    bool news = is_news_locked(tier, hash_seeded(why, strlen(why)));
    tier->failed_at = now;
    atomic_store_explicit(&tier->down, true, memory_order_relaxed);
    lock_drop(&tier->lock);
    if (news)
        LOG_EVENT(LOG_WARN, "redis_down", log_text("error", why));
    breaker_failed(tier->breaker, now);
}

/* One use that works between others that fail is no news: it has to work for a while. */
static void
note_up(struct warm_tier *tier, struct mono_time now)
{
    lock_take(&tier->lock);
    bool news = tier->down && now.us - tier->failed_at.us >= UP_AFTER_US;
    if (news) {
        tier->logged_count = 0;
        atomic_store_explicit(&tier->down, false, memory_order_relaxed);
    }
    lock_drop(&tier->lock);
    if (news)
        LOG_EVENT(LOG_INFO, "redis_up", log_text("error", ""));
}

void
warm_tier_worked(struct warm_tier *tier)
{
    struct mono_time now = mono_now();

    metric_set(METRIC_REDIS_UP, 1);
    breaker_worked(tier->breaker, now);
    if (atomic_load_explicit(&tier->down, memory_order_relaxed))
        note_up(tier, now);
}

/* --- the tier -------------------------------------------------------------------------- */

/* What was built is not to be trusted any more. */
static uint64_t
next_generation(struct warm_tier *tier)
{
    return atomic_fetch_add_explicit(&tier->generation, 1, memory_order_acq_rel) + 1;
}

/* Uses that did without Redis since this was asked last. */
static int64_t
take_fallbacks(struct warm_tier *tier)
{
    uint64_t now = metric_count(METRIC_REDIS_FALLBACKS_TOTAL);
    uint64_t told = atomic_exchange(&tier->fallbacks_told, now);
    return now > told ? (int64_t)(now - told) : 0;
}

static void
breaker_changed(void *context, enum breaker_state state)
{
    struct warm_tier *tier = context;

    /* Not `state`: two changes in a row may be told in either order. */
    metric_set(METRIC_REDIS_BREAKER_STATE, (int64_t)breaker_state(tier->breaker));
    metric_set(METRIC_REDIS_UP, breaker_state(tier->breaker) == BREAKER_CLOSED);
    LOG_EVENT(state == BREAKER_OPEN ? LOG_WARN : LOG_INFO, "redis_breaker",
              log_text("state", breaker_state_word(state)),
              log_int("fallbacks", take_fallbacks(tier)));
    switch (state) {
    case BREAKER_OPEN:
        metric_add(METRIC_BREAKER_OPENED_TOTAL, 1);
        (void)next_generation(tier); /* now, for it may close a moment before that is told */
        break;
    case BREAKER_HALF_OPEN:
        metric_add(METRIC_BREAKER_HALF_OPENED_TOTAL, 1);
        break;
    case BREAKER_CLOSED:
        metric_add(METRIC_BREAKER_CLOSED_TOTAL, 1);
        warm_tier_distrust(tier, "it was away");
        break;
    }
}

struct warm_tier *
warm_tier_new(const struct config *config)
{
    static const struct breaker_limits limits = { .failures_to_open = 5,
                                                  .pause_min_us = 1 * TIME_US_PER_S,
                                                  .pause_max_us = 30 * (int64_t)TIME_US_PER_S,
                                                  .trial_us = 2 * TIME_US_PER_S };
    struct warm_tier *tier = calloc(1, sizeof(*tier));
    if (tier == NULL)
        return NULL;
    lock_init(&tier->lock, LOCK_WARM_TIER);
    tier->on = config->redis_url != NULL && config->redis_url[0] != '\0';
    tier->generation = 1;
    tier->breaker = breaker_new(&limits, breaker_changed, tier);
    if (tier->breaker == NULL)
        warm_tier_free(&tier);
    return tier;
}

void
warm_tier_free(struct warm_tier **tier)
{
    if (*tier == NULL)
        return;
    breaker_free(&(*tier)->breaker);
    lock_fini(&(*tier)->lock);
    free(*tier);
    *tier = NULL;
}

bool
warm_tier_is_on(const struct warm_tier *tier)
{
    return tier->on;
}

struct breaker *
warm_tier_breaker(struct warm_tier *tier)
{
    return tier->breaker;
}

uint64_t
warm_tier_generation(const struct warm_tier *tier)
{
    return atomic_load_explicit(&tier->generation, memory_order_acquire);
}

void
warm_tier_distrust(struct warm_tier *tier, const char *why)
{
    if (!tier->on)
        return;
    uint64_t generation = next_generation(tier);
    LOG_EVENT(LOG_WARN, "warm_tier_distrusted", log_text("why", why),
              log_int("generation", (int64_t)generation));
}

/* --- names of events ----------------------------------------------------------------- */

static bool
is_named(const struct warm_event *name, struct slice org, struct slice event)
{
    return slice_is(event, name->event) && slice_is(org, name->org);
}

bool
warm_events_name(const struct warm_events *events, struct slice org, struct slice event)
{
    for (int i = 0; i < events->count; i++)
        if (is_named(&events->event[i], org, event))
            return true;
    return false;
}

void
warm_events_add(struct warm_events *events, struct slice org, struct slice event)
{
    if (events->all || warm_events_name(events, org, event))
        return;
    if (events->count == WARM_EVENTS_MAX) {
        events->all = true;
        events->count = 0;
        return;
    }
    struct warm_event *name = &events->event[events->count++];
    snprintf(name->org, sizeof(name->org), "%.*s", SLICE_ARG(org));
    snprintf(name->event, sizeof(name->event), "%.*s", SLICE_ARG(event));
}

void
warm_events_add_all(struct warm_events *to, const struct warm_events *from)
{
    for (int i = 0; i < from->count; i++)
        warm_events_add(to, slice_of(from->event[i].org), slice_of(from->event[i].event));
    if (from->all) {
        to->all = true;
        to->count = 0;
    }
}

/* --- events ------------------------------------------------------------------------ */

uint64_t
warm_event_hash(struct slice org, struct slice event)
{
    uint64_t hash = hash_seeded(event.ptr, event.len) ^ hash_seeded(org.ptr, org.len) * UINT64_C(3);
    return hash != 0 ? hash : 1;
}

static struct trusted *
set_locked(struct warm_tier *tier, uint64_t event)
{
    return &tier->trusted[event % (TRUSTED_MAX / TRUSTED_WAYS) * TRUSTED_WAYS];
}

/* The event's place, or NULL. */
static struct trusted *
find_locked(struct warm_tier *tier, uint64_t event)
{
    struct trusted *set = set_locked(tier, event);

    for (int way = 0; way < TRUSTED_WAYS; way++)
        if (set[way].event == event)
            return &set[way];
    return NULL;
}

/* Its own place, a free one, or that of the least lately asked, which it takes as a newcomer. */
static struct trusted *
place_locked(struct warm_tier *tier, uint64_t event)
{
    struct trusted *set = set_locked(tier, event), *place = find_locked(tier, event);

    if (place != NULL)
        return place;
    place = &set[0];
    for (int way = 1; way < TRUSTED_WAYS && place->event != 0; way++)
        if (set[way].event == 0 || set[way].asked < place->asked)
            place = &set[way];
    *place = (struct trusted){ .event = event };
    return place;
}

static uint64_t
ticket_locked(const struct warm_tier *tier, uint64_t event)
{
    /* Both only grow, so the sum is another one as soon as one of them is. */
    return warm_tier_generation(tier) + tier->doubts[event % TRUSTED_MAX];
}

uint64_t
warm_tier_ticket(struct warm_tier *tier, struct slice org, struct slice event)
{
    lock_take(&tier->lock);
    uint64_t ticket = ticket_locked(tier, warm_event_hash(org, event));
    lock_drop(&tier->lock);
    return ticket;
}

void
warm_tier_rebuilt(struct warm_tier *tier, struct slice org, struct slice event, uint64_t ticket)
{
    uint64_t hash = warm_event_hash(org, event);
    lock_take(&tier->lock);
    uint64_t generation = warm_tier_generation(tier);
    if (ticket == ticket_locked(tier, hash))
        place_locked(tier, hash)->generation = generation;
    lock_drop(&tier->lock);
}

void
warm_tier_doubt(struct warm_tier *tier, struct slice org, struct slice event)
{
    uint64_t hash = warm_event_hash(org, event);
    lock_take(&tier->lock);
    struct trusted *place = find_locked(tier, hash);
    if (place != NULL)
        *place = (struct trusted){ 0 };
    tier->doubts[hash % TRUSTED_MAX]++;
    warm_events_add(&tier->doubted, org, event);
    lock_drop(&tier->lock);
}

void
warm_tier_take_doubted(struct warm_tier *tier, struct warm_events *doubted)
{
    lock_take(&tier->lock);
    warm_events_add_all(doubted, &tier->doubted);
    tier->doubted.all = false;
    tier->doubted.count = 0;
    lock_drop(&tier->lock);
}

static struct trusted *
trusted_locked(struct warm_tier *tier, struct slice org, struct slice event)
{
    struct trusted *place = find_locked(tier, warm_event_hash(org, event));
    return place != NULL && place->generation == warm_tier_generation(tier) ? place : NULL;
}

static bool
is_usable(const struct warm_tier *tier)
{
    return tier->on && breaker_state(tier->breaker) == BREAKER_CLOSED;
}

bool
warm_tier_is_rebuilt(struct warm_tier *tier, struct slice org, struct slice event)
{
    if (!is_usable(tier))
        return false;
    lock_take(&tier->lock);
    bool rebuilt = trusted_locked(tier, org, event) != NULL;
    lock_drop(&tier->lock);
    return rebuilt;
}

bool
warm_tier_trusts(struct warm_tier *tier, struct slice org, struct slice event)
{
    if (!is_usable(tier))
        return false;
    lock_take(&tier->lock);
    struct trusted *place = trusted_locked(tier, org, event);
    if (place != NULL)
        place->asked = ++tier->asked;
    lock_drop(&tier->lock);
    return place != NULL;
}
