/*
 * baggage.c - the rules of the settings, the room's thread, and who is told what.
 *
 * The thread runs for scales that are asked over a wire: a turn begins what arrived, lets transfers
 * go on, and sleeps until a socket, a timeout of libcurl's or a new call (curl_multi_wakeup) wakes
 * it.
 */
#include "holdfast/baggage.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "holdfast/decimal.h"
#include "holdfast/metrics.h"
#include "scales.h"

#define SLEEP_MS       1000
#define PAUSE_US       (5 * TIME_US_PER_MS)
#define STACK_BYTES    (256 * 1024)
#define KG_MAX         INT64_C(999999) /* hundredths: what checkins.baggage_weight holds */
#define CURRENCY_BYTES 3

static const struct scales *const all_scales[] = { &scales_simulated, &scales_http };

static const struct scales *
find_scales(const char *name)
{
    for (size_t i = 0; i < sizeof(all_scales) / sizeof(all_scales[0]); i++) {
        if (strcmp(name, all_scales[i]->name) == 0)
            return all_scales[i];
    }
    return NULL;
}

/* --- rules ------------------------------------------------------------------------------- */

/* At most two decimals: rounding a limit would move it. */
static bool
read_kg(const char *name, const char *text, int64_t *weight, char *error, size_t error_bytes)
{
    const char *point = strchr(text, '.');
    bool is_plain =
        strspn(text, "0123456789.") == strlen(text) && (point == NULL || strlen(point + 1) <= 2);

    if (is_plain && decimal_hundredths_up(slice_of(text), weight) && *weight <= KG_MAX)
        return true;
    snprintf(error, error_bytes, "%s: '%s' is no weight in kilograms up to 9999.99", name, text);
    return false;
}

static bool
currency_is_good(const char *text)
{
    return strlen(text) == CURRENCY_BYTES &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == CURRENCY_BYTES;
}

static bool
read_rules(const struct config *config, struct baggage_rules *rules, char *error,
           size_t error_bytes)
{
    if (!read_kg("baggage_limit_kg", config->baggage_limit_kg, &rules->limit, error, error_bytes) ||
        !read_kg("baggage_max_kg", config->baggage_max_kg, &rules->max, error, error_bytes))
        return false;
    rules->surcharge = config->baggage_surcharge;
    rules->currency = config->baggage_currency;
    if (currency_is_good(rules->currency))
        return true;
    snprintf(error, error_bytes, "baggage_currency: '%s' is not three capital letters",
             rules->currency);
    return false;
}

bool
baggage_check(const struct config *config, char *error, size_t error_bytes)
{
    const struct scales *scales = find_scales(config->baggage_provider);
    struct baggage_rules rules;

    if (scales == NULL) {
        snprintf(error, error_bytes, "baggage_provider: '%s' is neither simulated nor http",
                 config->baggage_provider);
        return false;
    }
    return read_rules(config, &rules, error, error_bytes) &&
           scales->check(config, error, error_bytes);
}

const struct baggage_rules *
baggage_rules(const struct baggage *baggage)
{
    return &baggage->rules;
}

/* --- one call ------------------------------------------------------------------------------ */

static void
call_free(struct weighing_call *call)
{
    atomic_fetch_sub(&call->room->under_way, 1);
    arena_fini(&call->arena);
    free(call);
}

static bool
copy_bag(struct weighing_call *call, const struct bag *bag)
{
    struct bag *copy = &call->bag;

    *copy = *bag;
    copy->org = arena_copy(&call->arena, bag->org);
    copy->event = arena_copy(&call->arena, bag->event);
    copy->passenger = arena_copy(&call->arena, bag->passenger);
    return copy->org.ptr != NULL && copy->event.ptr != NULL && copy->passenger.ptr != NULL;
}

/* NULL: there are too many, or no memory. */
static struct weighing_call *
call_new(struct baggage *room, const struct bag *bag)
{
    int64_t before = atomic_fetch_add(&room->under_way, 1);
    struct weighing_call *call = before < BAGGAGE_CALLS_MAX ? calloc(1, sizeof(*call)) : NULL;

    if (call == NULL) {
        atomic_fetch_sub(&room->under_way, 1);
        return NULL;
    }
    call->room = room;
    if (!copy_bag(call, bag)) {
        call_free(call);
        return NULL;
    }
    return call;
}

void
weighing_answer(struct weighing_call *call, enum weighing outcome, int64_t weight)
{
    void (*told)(void *context, enum weighing outcome, int64_t weight) = call->told;
    void *context = call->context;

    metric_add(outcome == WEIGHED ? METRIC_BAGS_WEIGHED_TOTAL : METRIC_BAGS_UNWEIGHED_TOTAL, 1);
    call->room->scales->end(call);
    if (call->room->scales->is_asked)
        DL_DELETE(call->room->calls, call);
    call_free(call);
    told(context, outcome, weight);
}

/* --- the thread ------------------------------------------------------------------------------ */

static struct weighing_call *
take_arrivals(struct baggage *room, bool *stopping)
{
    lock_take(&room->lock);
    struct weighing_call *arrivals = room->arrivals;
    room->arrivals = NULL;
    *stopping = room->stopping;
    lock_drop(&room->lock);
    return arrivals;
}

static void
begin_all(struct baggage *room, struct weighing_call *arrivals)
{
    struct weighing_call *call, *next;

    DL_FOREACH_SAFE(arrivals, call, next)
    {
        DL_APPEND(room->calls, call);
        room->scales->begin(call); /* call may be gone */
    }
}

static void
give_all_up(struct baggage *room, struct weighing_call *arrivals)
{
    struct weighing_call *call, *next;

    DL_CONCAT(room->calls, arrivals);
    DL_FOREACH_SAFE(room->calls, call, next)
    {
        weighing_answer(call, UNWEIGHED, 0);
    }
}

static void *
baggage_main(void *context)
{
    struct baggage *room = context;
    struct weighing_call *arrivals;
    bool stopping;

    for (arrivals = take_arrivals(room, &stopping); !stopping;
         arrivals = take_arrivals(room, &stopping)) {
        begin_all(room, arrivals);
        scales_http_turn(room);
        if (curl_multi_poll(room->multi, NULL, 0, SLEEP_MS, NULL) != CURLM_OK)
            sleep_us(PAUSE_US); /* no memory: not in a circle without a pause */
    }
    give_all_up(room, arrivals);
    return NULL;
}

/* --- callers --------------------------------------------------------------------------- */

/* False: the room is about to stop; the call is still the caller's. */
static bool
hand_over(struct weighing_call *call)
{
    struct baggage *room = call->room;

    lock_take(&room->lock);
    bool stopping = room->stopping;
    if (!stopping)
        DL_APPEND(room->arrivals, call);
    lock_drop(&room->lock);
    if (!stopping)
        curl_multi_wakeup(room->multi);
    return !stopping;
}

void
baggage_weigh(struct baggage *baggage, const struct bag *bag, struct mono_time patience,
              void (*told)(void *context, enum weighing outcome, int64_t weight), void *context)
{
    struct weighing_call *call = call_new(baggage, bag);

    if (call == NULL) {
        metric_add(METRIC_BAGS_UNWEIGHED_TOTAL, 1);
        told(context, UNWEIGHED, 0);
        return;
    }
    call->patience = patience;
    call->told = told;
    call->context = context;
    if (!baggage->scales->is_asked) {
        baggage->scales->begin(call);
    } else if (!hand_over(call)) {
        call_free(call);
        metric_add(METRIC_BAGS_UNWEIGHED_TOTAL, 1);
        told(context, UNWEIGHED, 0);
    }
}

/* --- start and stop -------------------------------------------------------------------- */

static bool
thread_is_started(struct baggage *room)
{
    if (!room->scales->is_asked)
        return true;
    room->curl_is_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    room->multi = room->curl_is_ready ? curl_multi_init() : NULL;
    return room->multi != NULL && thread_start(&room->thread, STACK_BYTES, baggage_main, room);
}

struct baggage *
baggage_start(const struct config *config, char *error, size_t error_bytes)
{
    if (!baggage_check(config, error, error_bytes))
        return NULL;
    struct baggage *room = calloc(1, sizeof(*room));
    if (room != NULL) {
        room->config = config;
        room->scales = find_scales(config->baggage_provider);
        lock_init(&room->lock, LOCK_SCALES);
        hf_assert(read_rules(config, &room->rules, error, error_bytes));
    }
    if (room == NULL || !thread_is_started(room)) {
        snprintf(error, error_bytes, "no memory or no thread for the scales");
        baggage_free(&room);
    }
    return room;
}

void
baggage_stop(struct baggage *baggage)
{
    if (baggage == NULL)
        return;
    lock_take(&baggage->lock);
    baggage->stopping = true;
    lock_drop(&baggage->lock);
    if (baggage->multi != NULL)
        curl_multi_wakeup(baggage->multi);
    thread_join(&baggage->thread);
}

void
baggage_free(struct baggage **baggage)
{
    struct baggage *room = *baggage;

    if (room == NULL)
        return;
    hf_assert(room->calls == NULL && room->arrivals == NULL);
    if (room->multi != NULL)
        curl_multi_cleanup(room->multi);
    if (room->curl_is_ready)
        curl_global_cleanup();
    lock_fini(&room->lock);
    free(room);
    *baggage = NULL;
}
