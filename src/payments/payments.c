/*
 * payments.c - the room's thread: calls in, timers, and who is told what.
 *
 * A turn begins what arrived, ends what time ends, lets transfers go on, and sleeps until a socket,
 * a timer or somebody with a new call (curl_multi_wakeup) wakes it. Timers are looked at all
 * at once and at most every TIMERS_US, so that many calls cost no more than a few passes.
 *
 * A charge has a caller until its patience ends. What the provider says after that, and what it
 * says to an ask, the room settles by itself. What is paid keeps its place until that is stored: it
 * comes back with the arrivals, and is tried again, later and later.
 */
#include "holdfast/payments.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "holdfast/metrics.h"
#include "payments_internal.h"

#define TIMERS_US         (5 * (int64_t)TIME_US_PER_MS)
#define SLEEP_US          (1 * (int64_t)TIME_US_PER_S)
#define STACK_BYTES       (256 * 1024)

#define TRY_AGAIN_US      (200 * (int64_t)TIME_US_PER_MS)
#define TRY_AGAIN_MOST_US (5 * (int64_t)TIME_US_PER_S)
#define TRY_AGAIN_DOUBLES 5 /* from one to the other */
#define SETTLE_WITHIN_US  (600 * (int64_t)TIME_US_PER_S)

static const struct provider *const providers[] = { &provider_simulated, &provider_http };

static const struct provider *
find_provider(struct slice name)
{
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++) {
        if (slice_is(name, providers[i]->name))
            return providers[i];
    }
    return NULL;
}

/* --- one call ---------------------------------------------------------------------------- */

static bool
copy_payment(struct payment_call *call, const struct payment *payment)
{
    struct payment *copy = &call->payment;

    *copy = *payment;
    copy->org = arena_copy(&call->arena, payment->org);
    copy->event = arena_copy(&call->arena, payment->event);
    copy->user = arena_copy(&call->arena, payment->user);
    copy->currency = arena_copy(&call->arena, payment->currency);
    copy->method = arena_copy(&call->arena, payment->method);
    return copy->org.ptr != NULL && copy->event.ptr != NULL && copy->user.ptr != NULL &&
           copy->currency.ptr != NULL && copy->method.ptr != NULL;
}

static void
call_free(struct payment_call *call)
{
    atomic_fetch_sub(&call->room->under_way, 1);
    metric_adjust(METRIC_PAYMENTS_UNDER_WAY, -1);
    arena_fini(&call->arena);
    free(call);
}

/* NULL: there are too many, or no memory. */
static struct payment_call *
call_new(struct payments *room, const struct provider *provider, const struct payment *payment)
{
    int64_t before = atomic_fetch_add(&room->under_way, 1);
    struct payment_call *call =
        before < room->node->config->payments_max ? calloc(1, sizeof(*call)) : NULL;
    if (call == NULL) {
        atomic_fetch_sub(&room->under_way, 1);
        return NULL;
    }
    metric_adjust(METRIC_PAYMENTS_UNDER_WAY, 1);
    call->room = room;
    call->provider = provider;
    if (!copy_payment(call, payment)) {
        call_free(call);
        return NULL;
    }
    return call;
}

/* False: the room is about to stop; the call is still the caller's. */
static bool
hand_over(struct payment_call *call)
{
    struct payments *room = call->room;

    lock_take(&room->lock);
    bool stopping = room->stopping;
    if (!stopping)
        DL_APPEND(room->arrivals, call);
    lock_drop(&room->lock);
    if (!stopping)
        curl_multi_wakeup(room->multi);
    return !stopping;
}

/* --- what callers hear --------------------------------------------------------------------- */

static enum metric_counter
counter_of(bool is_ask, enum payment_outcome outcome)
{
    switch (outcome) {
    case PAYMENT_PAID:
        return is_ask ? METRIC_PAYMENT_ASKS_PAID_TOTAL : METRIC_PAYMENTS_PAID_TOTAL;
    case PAYMENT_DECLINED:
        return is_ask ? METRIC_PAYMENT_ASKS_DECLINED_TOTAL : METRIC_PAYMENTS_DECLINED_TOTAL;
    case PAYMENT_UNREACHED:
        return is_ask ? METRIC_PAYMENT_ASKS_UNREACHED_TOTAL : METRIC_PAYMENTS_UNREACHED_TOTAL;
    case PAYMENT_UNDECIDED:
    case PAYMENT_TIMED_OUT: /* no provider says this */
        break;
    }
    return is_ask ? METRIC_PAYMENT_ASKS_UNDECIDED_TOTAL : METRIC_PAYMENTS_UNDECIDED_TOTAL;
}

static void
tell(struct payment_call *call, enum payment_outcome outcome)
{
    void (*told)(void *context, enum payment_outcome outcome) = call->told;

    call->told = NULL;
    told(call->context, outcome);
}

/* A charge that couldn't even be begun. */
static void
refuse(void (*told)(void *context, enum payment_outcome outcome), void *context)
{
    metric_add(METRIC_PAYMENTS_UNREACHED_TOTAL, 1);
    told(context, PAYMENT_UNREACHED);
}

/* As what an answer that no caller waits for is to be settled. False: the intent stays as it is,
 * and due. */
static bool
settles_as(const struct payment_call *call, enum payment_outcome *outcome)
{
    switch (*outcome) {
    case PAYMENT_PAID:
    case PAYMENT_DECLINED:
    case PAYMENT_TIMED_OUT:
        return true;
    case PAYMENT_UNDECIDED:
        *outcome = PAYMENT_TIMED_OUT; /* it was asked because the time is over */
        return call->is_ask;
    case PAYMENT_UNREACHED:
        *outcome = PAYMENT_TIMED_OUT;
        return call->is_ask && call->last;
    }
    return false;
}

static void
call_end(struct payment_call *call)
{
    call->provider->end(call);
    DL_DELETE(call->room->calls, call);
    call_free(call);
}

/* The call is the op's from here on: the provider is done with it. */
static void
settle_paid(struct payment_call *call)
{
    DL_DELETE(call->room->calls, call);
    call->answer_at.us = 0;
    payments_settle_paid(call);
}

bool
payment_call_settled(struct payment_call *call, bool is_settled)
{
    if (!is_settled && mono_now().us < call->settle_until.us && hand_over(call))
        return true;
    call_free(call);
    return false;
}

void
payment_call_answer(struct payment_call *call, enum payment_outcome outcome)
{
    metric_add(counter_of(call->is_ask, outcome), 1);
    metric_observe(METRIC_PAYMENT_SECONDS, (uint64_t)(mono_now().us - call->begun.us));
    if (call->told == NULL && outcome == PAYMENT_PAID) {
        call->provider->end(call);
        call->settle_until.us = mono_now().us + SETTLE_WITHIN_US;
        settle_paid(call);
        return;
    }
    if (call->told != NULL)
        tell(call, outcome);
    else if (settles_as(call, &outcome))
        payments_settle(call->room, &call->payment, outcome);
    call_end(call);
}

/* --- timers -------------------------------------------------------------------------------- */

static void
note_timer(struct payments *room, struct mono_time at)
{
    if (at.us < room->timers_due.us)
        room->timers_due = at;
}

void
payment_call_answer_in(struct payment_call *call, int64_t us, enum payment_outcome outcome)
{
    call->answer_at.us = mono_now().us + us;
    call->answer = outcome;
    note_timer(call->room, call->answer_at);
}

/* It comes back from the engine, which could not store it. */
static void
settle_again_later(struct payment_call *call)
{
    int doubles = call->tries <= TRY_AGAIN_DOUBLES ? call->tries - 1 : TRY_AGAIN_DOUBLES;
    int64_t us = TRY_AGAIN_US << doubles;

    payment_call_answer_in(call, us < TRY_AGAIN_MOST_US ? us : TRY_AGAIN_MOST_US, PAYMENT_PAID);
}

static void
note_timers_of(struct payments *room, const struct payment_call *call)
{
    if (call->told != NULL)
        note_timer(room, call->patience);
    if (call->answer_at.us > 0)
        note_timer(room, call->answer_at);
}

static void
look_at_timers(struct payments *room)
{
    struct mono_time now = mono_now();
    struct payment_call *call, *next;

    if (now.us < room->timers_due.us)
        return;
    room->timers_due.us = INT64_MAX;
    DL_FOREACH_SAFE(room->calls, call, next)
    {
        if (call->answer_at.us > 0 && call->answer_at.us <= now.us) {
            if (call->tries > 0)
                settle_paid(call);
            else
                payment_call_answer(call, call->answer);
            continue;
        }
        if (call->told != NULL && call->patience.us <= now.us) {
            metric_add(METRIC_PAYMENTS_LATE_TOTAL, 1);
            tell(call, PAYMENT_UNDECIDED);
        }
        note_timers_of(room, call);
    }
    if (room->timers_due.us < now.us + TIMERS_US)
        room->timers_due.us = now.us + TIMERS_US;
}

/* --- the thread ------------------------------------------------------------------------------ */

static struct payment_call *
take_arrivals(struct payments *room, bool *stopping)
{
    lock_take(&room->lock);
    struct payment_call *arrivals = room->arrivals;
    room->arrivals = NULL;
    *stopping = room->stopping;
    lock_drop(&room->lock);
    return arrivals;
}

static void
begin(struct payments *room, struct payment_call *call)
{
    call->begun = mono_now();
    DL_APPEND(room->calls, call);
    if (call->tries > 0) {
        settle_again_later(call);
        return;
    }
    if (call->told != NULL && call->patience.us <= call->begun.us) {
        payment_call_answer(call, PAYMENT_UNREACHED); /* the provider was not asked yet */
        return;
    }
    if (call->told != NULL)
        note_timer(room, call->patience);
    call->provider->begin(call); /* call may be gone */
}

/* Nothing that begins from now on is waited for; what was sent may still be paid. */
static void
give_all_up(struct payments *room, struct payment_call *arrivals)
{
    struct payment_call *call, *next;

    DL_FOREACH_SAFE(arrivals, call, next)
    {
        if (call->told != NULL)
            refuse(call->told, call->context);
        call_free(call);
    }
    DL_FOREACH_SAFE(room->calls, call, next)
    {
        if (call->told != NULL)
            tell(call, PAYMENT_UNDECIDED);
        call_end(call);
    }
}

static void
sleep_until_news(struct payments *room)
{
    int64_t us = room->timers_due.us - mono_now().us;

    us = us < 0 ? 0 : us > SLEEP_US ? SLEEP_US : us;
    int ms = (int)((us + TIME_US_PER_MS - 1) / TIME_US_PER_MS);
    if (curl_multi_poll(room->multi, NULL, 0, ms, NULL) != CURLM_OK)
        sleep_us(TIMERS_US); /* no memory: not in a circle without a pause */
}

static void *
payments_main(void *context)
{
    struct payments *room = context;
    struct payment_call *arrivals, *call, *next;
    bool stopping;

    for (arrivals = take_arrivals(room, &stopping); !stopping;
         arrivals = take_arrivals(room, &stopping)) {
        DL_FOREACH_SAFE(arrivals, call, next)
        {
            begin(room, call);
        }
        look_at_timers(room);
        http_turn(room);
        sleep_until_news(room);
    }
    give_all_up(room, arrivals);
    return NULL;
}

/* --- callers ------------------------------------------------------------------------------------
 */

void
payments_charge(struct payments *payments, const struct payment *payment, struct mono_time patience,
                void (*told)(void *context, enum payment_outcome outcome), void *context)
{
    struct payment_call *call = call_new(payments, payments->provider, payment);

    if (call == NULL) {
        refuse(told, context);
        return;
    }
    call->patience = patience;
    call->told = told;
    call->context = context;
    if (!hand_over(call)) {
        call_free(call);
        refuse(told, context);
    }
}

void
payments_ask(struct payments *payments, struct slice provider, const struct payment *payment,
             bool last)
{
    const struct provider *asked = find_provider(provider);
    struct payment_call *call = asked != NULL ? call_new(payments, asked, payment) : NULL;

    if (asked == NULL && last)
        payments_settle(payments, payment, PAYMENT_TIMED_OUT); /* nobody is left to be asked */
    if (call == NULL)
        return;
    call->is_ask = true;
    call->last = last;
    if (!hand_over(call))
        call_free(call);
}

const char *
payments_provider(const struct payments *payments)
{
    return payments->provider->name;
}

/* --- start and stop
 * ------------------------------------------------------------------------------- */

bool
payments_check(const struct config *config, char *error, size_t error_bytes)
{
    const struct provider *provider = find_provider(slice_of(config->payment_provider));

    if (provider == NULL) {
        snprintf(error, error_bytes, "payment_provider: '%s' is neither simulated nor http",
                 config->payment_provider);
        return false;
    }
    return provider->check(config, error, error_bytes);
}

static struct payments *
room_new(struct node *node)
{
    struct payments *room = calloc(1, sizeof(*room));
    if (room == NULL)
        return NULL;
    room->node = node;
    room->provider = find_provider(slice_of(node->config->payment_provider));
    room->timers_due.us = INT64_MAX;
    lock_init(&room->lock, LOCK_PAYMENTS);
    room->curl_is_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    room->multi = room->curl_is_ready ? curl_multi_init() : NULL;
    if (room->multi == NULL)
        payments_free(&room);
    return room;
}

struct payments *
payments_start(struct node *node, char *error, size_t error_bytes)
{
    if (!payments_check(node->config, error, error_bytes))
        return NULL;
    struct payments *room = room_new(node);
    if (room == NULL || !thread_start(&room->thread, STACK_BYTES, payments_main, room)) {
        snprintf(error, error_bytes, "no memory or no thread for payments");
        payments_free(&room);
    }
    return room;
}

void
payments_stop(struct payments *payments)
{
    if (payments == NULL)
        return;
    lock_take(&payments->lock);
    payments->stopping = true;
    lock_drop(&payments->lock);
    curl_multi_wakeup(payments->multi);
    thread_join(&payments->thread);
}

void
payments_free(struct payments **payments)
{
    struct payments *room = *payments;

    if (room == NULL)
        return;
    hf_assert(room->calls == NULL && room->arrivals == NULL);
    if (room->multi != NULL)
        curl_multi_cleanup(room->multi);
    if (room->curl_is_ready)
        curl_global_cleanup();
    lock_fini(&room->lock);
    free(room);
    *payments = NULL;
}
