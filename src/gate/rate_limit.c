/*
 * rate_limit.c - counts requests by client address.
 *
 * The model. A set-associative table: stripes of sets of ways, one client a way,
 * bounded by its shape. A client has three counters (general, holds, burst), the
 * seat maps it asked for within the last two seconds, and perhaps a block.
 *
 * Counters are sliding windows of SLICES slices rather than token buckets: "20 a
 * minute" then means that no minute has more than 20 (but for the slice that is
 * running out), while a full bucket that refills lets 39 through. A window
 * begins with the first request after it was empty, so that a burst is counted
 * to the letter. Limits count what was let through, burst counts everything.
 *
 * Abuse events are written to their ring after the stripe's lock is dropped.
 */
#include "holdfast/rate_limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "holdfast/lock.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"

#define STRIPES   64
#define SETS      128
#define WAYS      16
#define SLICES    10

#define MINUTE_US (60 * INT64_C(1000000))
#define BURST_US  (5 * INT64_C(1000000))
#define MAPS_US   (2 * INT64_C(1000000))

_Static_assert(STRIPES *SETS *WAYS == RATE_ADDRESSES_MAX, "the header promises so many");
_Static_assert(STRIPES == 64 && SETS == 128, "places are cut from the hash by bits");

enum rule { RULE_GENERAL, RULE_HOLDS, RULE_BURST, RULE_MAPS, RULE_COUNT };

static const struct {
    const char *name;
    const char *event_type; /* the words of the table abuse_events */
    int64_t window_us;
} rules[RULE_COUNT] = {
    [RULE_GENERAL] = { "general", "rate_limit", MINUTE_US },
    [RULE_HOLDS] = { "holds", "rate_limit", MINUTE_US },
    [RULE_BURST] = { "burst", "burst_limit", BURST_US },
    [RULE_MAPS] = { "maps", "rapid_seatmap_access", MAPS_US },
};

struct window {
    int64_t begin_us; /* of slice 0: the first request after the window was empty */
    int64_t newest;   /* the slice that `now` was in last */
    uint32_t total;   /* the sum of counts */
    uint32_t counts[SLICES];
};

struct map_seen {
    uint64_t hash;
    int64_t at_us; /* last time */
};

struct client {
    struct address key;
    int64_t seen_us;
    int64_t blocked_until_us;
    int64_t reported_us; /* when its going over a limit was last written to the ring */
    enum rule blocked_by;
    int map_count;
    struct map_seen *maps; /* maps_limit + 1 places, or NULL: never asked for one */
    struct window windows[RULE_MAPS];
};

struct set {
    uint32_t tags[WAYS]; /* 0: the way is free; else part of the hash */
    struct client clients[WAYS];
};

struct stripe {
    struct lock lock; /* rank RATE; guards sets */
    struct set sets[SETS];
};

struct rate_limiter {
    /* fixed after start */
    bool on;
    int64_t limits[RULE_COUNT];
    int64_t block_us;

    struct lock events_lock; /* rank RATE, never taken with a stripe's; guards the ring */
    uint64_t events_written;
    struct abuse_event events[RATE_EVENTS_MAX];

    struct stripe stripes[STRIPES];
};

/* --- life -------------------------------------------------------------- */

struct rate_limiter *
rate_limiter_new(const struct config *config)
{
    /* calloc of a large piece comes from the kernel as zeros: places never used cost no memory. */
    struct rate_limiter *limiter = calloc(1, sizeof(*limiter));

    if (limiter == NULL)
        return NULL;
    limiter->on = config->rate_limits;
    limiter->limits[RULE_GENERAL] = config->rate_general_per_min;
    limiter->limits[RULE_HOLDS] = config->rate_holds_per_min;
    limiter->limits[RULE_BURST] = config->rate_burst_per_5s;
    limiter->limits[RULE_MAPS] = config->rate_maps_per_2s;
    limiter->block_us = config->block_duration;
    lock_init(&limiter->events_lock, LOCK_RATE);
    for (int i = 0; i < STRIPES; i++)
        lock_init(&limiter->stripes[i].lock, LOCK_RATE);
    return limiter;
}

static void
stripe_fini(struct stripe *stripe)
{
    for (int i = 0; i < SETS; i++) {
        for (int way = 0; way < WAYS; way++) {
            if (stripe->sets[i].tags[way] != 0)
                free(stripe->sets[i].clients[way].maps);
        }
    }
    lock_fini(&stripe->lock);
}

void
rate_limiter_free(struct rate_limiter **limiter)
{
    if (*limiter == NULL)
        return;
    for (int i = 0; i < STRIPES; i++)
        stripe_fini(&(*limiter)->stripes[i]);
    lock_fini(&(*limiter)->events_lock);
    free(*limiter);
    *limiter = NULL;
}

/* --- windows ----------------------------------------------------------- */

static int64_t
slice_us(enum rule rule)
{
    return rules[rule].window_us / SLICES;
}

/* Forgets what is older than the window. A `now` that another thread overtook changes nothing. */
static void
window_advance(struct window *window, enum rule rule, int64_t now_us)
{
    int64_t slice = (now_us - window->begin_us) / slice_us(rule);

    if (window->total > 0 && slice - window->newest < SLICES) {
        for (; window->newest < slice; window->newest++) {
            uint32_t *oldest = &window->counts[(window->newest + 1) % SLICES];
            window->total -= *oldest;
            *oldest = 0;
        }
    } else if (window->total > 0) {
        memset(window->counts, 0, sizeof(window->counts));
        window->total = 0;
    }
    if (window->total == 0) {
        window->begin_us = now_us;
        window->newest = 0;
    }
}

static void
window_count(struct window *window)
{
    window->counts[window->newest % SLICES]++;
    window->total++;
}

/* Until the oldest of what is counted is forgotten; the whole window when nothing is. */
static int64_t
window_reset_us(const struct window *window, enum rule rule, int64_t now_us)
{
    int64_t oldest = window->newest - SLICES + 1;

    if (window->total == 0)
        return rules[rule].window_us;
    if (oldest < 0)
        oldest = 0;
    while (window->counts[oldest % SLICES] == 0)
        oldest++;
    return window->begin_us + (oldest + SLICES) * slice_us(rule) - now_us;
}

/* --- the table --------------------------------------------------------- */

struct place {
    struct stripe *stripe;
    struct set *set;
    uint32_t tag;
};

static struct place
place_of(struct rate_limiter *limiter, const struct address *key)
{
    uint64_t hash = hash_seeded(key->bytes, sizeof(key->bytes));
    struct place place;

    place.stripe = &limiter->stripes[hash >> 58];
    place.set = &place.stripe->sets[hash & (SETS - 1)];
    place.tag = (uint32_t)(hash >> 16) | 1; /* 0 means free */
    return place;
}

static struct client *
find_client_locked(const struct place *place, const struct address *key)
{
    for (int way = 0; way < WAYS; way++) {
        struct client *client = &place->set->clients[way];
        if (place->set->tags[way] == place->tag &&
            memcmp(client->key.bytes, key->bytes, sizeof(key->bytes)) == 0)
            return client;
    }
    return NULL;
}

/*
 * Whether `a` should make room rather than `b`: who has no living block before
 * who has one; among the former the longest silence, among the latter the block
 * that ends first.
 */
static bool
goes_before(const struct client *a, const struct client *b, int64_t now_us)
{
    bool a_blocked = a->blocked_until_us > now_us, b_blocked = b->blocked_until_us > now_us;

    if (a_blocked != b_blocked)
        return b_blocked;
    return a_blocked ? a->blocked_until_us < b->blocked_until_us : a->seen_us < b->seen_us;
}

static int
choose_way_locked(const struct set *set, int64_t now_us)
{
    int chosen = 0;

    for (int way = 0; way < WAYS; way++) {
        if (set->tags[way] == 0)
            return way;
        if (goes_before(&set->clients[way], &set->clients[chosen], now_us))
            chosen = way;
    }
    return chosen;
}

/* The client's place, made if need be; what had to go keeps only its array of maps. */
static struct client *
get_client_locked(const struct place *place, const struct address *key, int64_t now_us)
{
    struct client *client = find_client_locked(place, key);
    struct map_seen *maps;
    int way;

    if (client != NULL)
        return client;
    way = choose_way_locked(place->set, now_us);
    client = &place->set->clients[way];
    maps = client->maps;
    memset(client, 0, sizeof(*client));
    client->maps = maps;
    client->key = *key;
    place->set->tags[way] = place->tag;
    return client;
}

/* --- judging ----------------------------------------------------------- */

/* Seconds, rounded up, so that who waits as long as told is let through. */
static int64_t
ceil_s(int64_t us)
{
    return us <= TIME_US_PER_S ? 1 : (us + TIME_US_PER_S - 1) / TIME_US_PER_S;
}

/* Forgets maps older than the window; returns how many are left. */
static int
maps_prune(struct client *client, int64_t now_us)
{
    int kept = 0;

    for (int i = 0; i < client->map_count; i++) {
        if (now_us - client->maps[i].at_us < MAPS_US)
            client->maps[kept++] = client->maps[i];
    }
    client->map_count = kept;
    return kept;
}

/* Counts a map and returns how many different ones the client saw within the window. */
static int
maps_count(struct client *client, uint64_t hash, int64_t limit, int64_t now_us)
{
    if (client->maps == NULL) {
        client->maps = malloc((size_t)(limit + 1) * sizeof(client->maps[0]));
        if (client->maps == NULL)
            return 0; /* no memory: this map goes uncounted */
    }
    maps_prune(client, now_us);
    for (int i = 0; i < client->map_count; i++) {
        if (client->maps[i].hash == hash) {
            client->maps[i].at_us = now_us;
            return client->map_count;
        }
    }
    if (client->map_count <= limit)
        client->maps[client->map_count++] = (struct map_seen){ hash, now_us };
    return client->map_count;
}

static void
client_block(struct client *client, enum rule rule, int64_t until_us)
{
    client->blocked_until_us = until_us;
    client->blocked_by = rule;
    client->map_count = 0; /* after the block it begins anew */
    memset(client->windows, 0, sizeof(client->windows));
}

static void
result_set(struct rate_result *result, const struct rate_limiter *limiter, enum rule rule)
{
    result->name = rules[rule].name;
    result->limit = limiter->limits[rule];
    result->window_s = rules[rule].window_us / TIME_US_PER_S;
}

static void
result_refuse(struct rate_result *result, const struct rate_limiter *limiter, enum rule rule,
              enum hf_status status, int64_t wait_us)
{
    result_set(result, limiter, rule);
    result->status = status;
    result->remaining = 0;
    result->reset_s = result->retry_after_s = ceil_s(wait_us);
}

/* What one request does to its client, and what is to be told about it afterwards. */
struct judgement {
    struct rate_result *result;
    bool report;
    enum rule rule;
    int64_t count;
    int64_t blocked_until_us;
};

static void
judge_abuse_block(struct rate_limiter *limiter, struct client *client, enum rule rule,
                  int64_t count, int64_t now_us, struct judgement *judgement)
{
    client_block(client, rule, now_us + limiter->block_us);
    result_refuse(judgement->result, limiter, rule, HF_BLOCKED, limiter->block_us);
    judgement->report = true;
    judgement->rule = rule;
    judgement->count = count;
    judgement->blocked_until_us = client->blocked_until_us;
}

/* False: the client is blocked, since now or since before. */
static bool
judge_abuse_locked(struct rate_limiter *limiter, struct client *client, enum rate_kind kind,
                   uint64_t map_hash, int64_t now_us, struct judgement *judgement)
{
    struct window *burst = &client->windows[RULE_BURST];
    int64_t maps_limit = limiter->limits[RULE_MAPS];

    if (client->blocked_until_us > now_us) {
        result_refuse(judgement->result, limiter, client->blocked_by, HF_BLOCKED,
                      client->blocked_until_us - now_us);
        return false;
    }
    window_advance(burst, RULE_BURST, now_us);
    window_count(burst);
    if (burst->total > limiter->limits[RULE_BURST]) {
        judge_abuse_block(limiter, client, RULE_BURST, burst->total, now_us, judgement);
        return false;
    }
    if (kind == RATE_MAP && maps_limit <= RATE_MAPS_MAX) {
        int maps = maps_count(client, map_hash, maps_limit, now_us);
        if (maps > maps_limit) {
            judge_abuse_block(limiter, client, RULE_MAPS, maps, now_us, judgement);
            return false;
        }
    }
    return true;
}

/* False: the limit of this rule is used up. Counts nothing yet. */
static bool
judge_limit_locked(struct rate_limiter *limiter, struct client *client, enum rule rule,
                   int64_t now_us, struct judgement *judgement)
{
    struct window *window = &client->windows[rule];

    window_advance(window, rule, now_us);
    if (window->total < limiter->limits[rule])
        return true;
    result_refuse(judgement->result, limiter, rule, HF_RATE_LIMITED,
                  window_reset_us(window, rule, now_us));
    if (client->reported_us == 0 || now_us - client->reported_us >= rules[rule].window_us) {
        client->reported_us = now_us; /* once a window, not once a request */
        judgement->report = true;
        judgement->rule = rule;
        judgement->count = (int64_t)window->total + 1;
    }
    return false;
}

static void
count_limit_locked(struct rate_limiter *limiter, struct client *client, enum rule rule,
                   int64_t now_us, struct rate_result *result)
{
    struct window *window = &client->windows[rule];

    window_count(window);
    result_set(result, limiter, rule);
    result->remaining = limiter->limits[rule] - window->total;
    result->reset_s = ceil_s(window_reset_us(window, rule, now_us));
}

static void
judge_locked(struct rate_limiter *limiter, struct client *client, enum rate_kind kind,
             uint64_t map_hash, int64_t now_us, struct judgement *judgement)
{
    if (client->seen_us < now_us)
        client->seen_us = now_us;
    if (!judge_abuse_locked(limiter, client, kind, map_hash, now_us, judgement))
        return;
    if (!judge_limit_locked(limiter, client, RULE_GENERAL, now_us, judgement))
        return;
    if (kind == RATE_HOLD && !judge_limit_locked(limiter, client, RULE_HOLDS, now_us, judgement))
        return;
    count_limit_locked(limiter, client, RULE_GENERAL, now_us, judgement->result);
    if (kind == RATE_HOLD) /* tells of the narrower limit */
        count_limit_locked(limiter, client, RULE_HOLDS, now_us, judgement->result);
}

static void
report(struct rate_limiter *limiter, const char *address, const struct judgement *judgement,
       int64_t now_us)
{
    bool blocks = judgement->blocked_until_us != 0;
    struct abuse_event event = {
        .id = uuid_v7_new(),
        .event_type = rules[judgement->rule].event_type,
        .detected = { now_us },
        .blocked_until = { judgement->blocked_until_us },
        .request_count = judgement->count,
        .time_window_ms = rules[judgement->rule].window_us / TIME_US_PER_MS,
    };

    snprintf(event.ip, sizeof(event.ip), "%s", address);
    snprintf(event.details, sizeof(event.details),
             "limit %s: more than %" PRId64 " in %" PRId64 " s", rules[judgement->rule].name,
             limiter->limits[judgement->rule], rules[judgement->rule].window_us / TIME_US_PER_S);
    lock_take(&limiter->events_lock);
    limiter->events[limiter->events_written++ % RATE_EVENTS_MAX] = event;
    lock_drop(&limiter->events_lock);
    metric_add(METRIC_ABUSE_EVENTS_DETECTED, 1);
    LOG_EVENT(blocks ? LOG_WARN : LOG_INFO, blocks ? "address_blocked" : "address_limited",
              log_text("ip", address), log_text("limit", rules[judgement->rule].name),
              log_int("request_count", judgement->count));
}

void
rate_limit_check(struct rate_limiter *limiter, const char *address, enum rate_kind kind,
                 struct slice map, struct mono_time now, struct rate_result *result)
{
    struct judgement judgement = { .result = result };
    struct address key;
    struct place place;
    uint64_t map_hash = kind == RATE_MAP ? hash_seeded(map.ptr, map.len) : 0;

    *result = (struct rate_result){ .status = HF_OK, .name = rules[RULE_GENERAL].name };
    if (!limiter->on)
        return;
    (void)address_key(slice_of(address), &key);
    place = place_of(limiter, &key);

    lock_take(&place.stripe->lock);
    judge_locked(limiter, get_client_locked(&place, &key, now.us), kind, map_hash, now.us,
                 &judgement);
    lock_drop(&place.stripe->lock);

    if (result->status != HF_OK)
        metric_add(METRIC_RATE_LIMITED_TOTAL, 1);
    if (judgement.report)
        report(limiter, address, &judgement, now.us);
}

/* --- for admins -------------------------------------------------------- */

int
rate_limit_recent(struct rate_limiter *limiter, struct abuse_event *events, int max)
{
    int count = 0;

    lock_take(&limiter->events_lock);
    while (count < max && count < RATE_EVENTS_MAX && (uint64_t)count < limiter->events_written) {
        uint64_t at = limiter->events_written - 1 - (uint64_t)count;
        events[count++] = limiter->events[at % RATE_EVENTS_MAX];
    }
    lock_drop(&limiter->events_lock);
    return count;
}

bool
rate_limit_unblock(struct rate_limiter *limiter, struct slice ip, struct mono_time now)
{
    struct address key;
    struct place place;
    struct client *client;
    bool was_blocked = false;

    if (!limiter->on || !address_key(ip, &key))
        return false;
    place = place_of(limiter, &key);
    lock_take(&place.stripe->lock);
    client = find_client_locked(&place, &key);
    if (client != NULL && client->blocked_until_us > now.us) {
        was_blocked = true;
        client_block(client, client->blocked_by, 0);
    }
    lock_drop(&place.stripe->lock);
    return was_blocked;
}

int64_t
rate_limit_addresses(struct rate_limiter *limiter)
{
    int64_t count = 0;

    for (int i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &limiter->stripes[i];
        lock_take(&stripe->lock);
        for (int j = 0; j < SETS * WAYS; j++)
            count += stripe->sets[j / WAYS].tags[j % WAYS] != 0;
        lock_drop(&stripe->lock);
    }
    return count;
}
