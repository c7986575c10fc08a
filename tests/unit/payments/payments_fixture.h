/*
 * payments_fixture.h - a room with an engine that only notes what it is given, callers that note
 * what they are told, and a clock that a test moves (mono_now is wrapped by the linker).
 */
#ifndef PAYMENTS_FIXTURE_H
#define PAYMENTS_FIXTURE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "payments_internal.h"

#define WAIT_US    (10 * (int64_t)TIME_US_PER_S) /* real time; nothing here takes that long */
#define LOOK_US    1000
#define NOT_TOLD   (-1)
#define SETTLES    64
#define HOUR_LATER ((struct mono_time){ mono_now().us + 3600 * (int64_t)TIME_US_PER_S })

/* --- the clock ----------------------------------------------------------------------- */

static _Atomic int64_t moved_us;
static _Atomic int64_t stands_at_us; /* 0: it goes on by itself as well */

struct mono_time __real_mono_now(void);
struct mono_time __wrap_mono_now(void);

struct mono_time
__wrap_mono_now(void)
{
    int64_t stands_us = atomic_load(&stands_at_us);

    return (struct mono_time){ (stands_us != 0 ? stands_us : __real_mono_now().us) +
                               atomic_load(&moved_us) };
}

/* From now on only a test moves it, until the next room. */
static inline void
stop_clock(void)
{
    atomic_store(&stands_at_us, __real_mono_now().us);
}

static inline void
move_clock(struct payments *room, int64_t us)
{
    atomic_fetch_add(&moved_us, us);
    curl_multi_wakeup(room->multi);
}

/* --- the engine ------------------------------------------------------------------------ */

struct settled {
    struct uuid intent_id;
    enum payment_outcome outcome;
};

static struct settled settles[SETTLES];
static _Atomic int settle_count;
static _Atomic int settle_failures; /* how many fail before the others end well */
static enum hf_status settle_failure;

/* Answers at once. It runs on the room's thread, from where cmocka can't fail. */
void
engine_submit(struct engine *engine, struct op *op)
{
    int at = atomic_load(&settle_count);

    (void)engine;
    hf_assert(op->kind == OP_PAY_SETTLE && op->actor.len == 0 && op->provider_key.len == 0);
    hf_assert(slice_is(op->org, "acme") && slice_is(op->event, "gala"));
    hf_assert(slice_is(op->user, "ann") && op->deadline.us > mono_now().us && at < SETTLES);
    settles[at] = (struct settled){ op->intent_id, op->outcome };
    atomic_store(&settle_count, at + 1);
    op->status = at < atomic_load(&settle_failures) ? settle_failure : HF_OK;
    op->finish(op);
    op->send(op);
}

/* --- the room ---------------------------------------------------------------------------- */

static struct config config;
static struct node node;

static inline void
usual_config(void)
{
    static char provider[16] = "simulated";
    static char nothing[1] = "";

    memset(&config, 0, sizeof(config));
    config.payment_provider = provider;
    config.payment_url = nothing;
    config.payment_secret = nothing;
    config.payment_provider_timeout = 10 * (int64_t)TIME_US_PER_S;
    config.payments_max = 1000;
    config.request_timeout = 5 * (int64_t)TIME_US_PER_S;
}

static inline struct payments *
room_of_config(void)
{
    char error[256] = "";

    atomic_store(&stands_at_us, 0);
    memset(&node, 0, sizeof(node));
    node.config = &config;
    node.clock = db_clock_new();
    atomic_store(&settle_count, 0);
    atomic_store(&settle_failures, 0);
    struct payments *room = payments_start(&node, error, sizeof(error));
    if (room == NULL)
        fail_msg("%s", error);
    return room;
}

static inline void
end_room(struct payments **room)
{
    payments_stop(*room);
    payments_free(room);
    db_clock_free(&node.clock);
}

static inline struct payment
payment_by(const char *method)
{
    return (struct payment){
        .org = slice_of("acme"),
        .event = slice_of("gala"),
        .user = slice_of("ann"),
        .intent_id = uuid_v7_new(),
        .amount = 4250,
        .currency = slice_of("EUR"),
        .method = slice_of(method),
    };
}

/* --- callers --------------------------------------------------------------------------------- */

struct caller {
    _Atomic int outcome; /* NOT_TOLD until it was told */
    _Atomic int times;
};

static inline void
tell_caller(void *context, enum payment_outcome outcome)
{
    struct caller *caller = context;

    atomic_store(&caller->outcome, (int)outcome);
    atomic_fetch_add(&caller->times, 1);
}

static inline void
charge(struct payments *room, const struct payment *payment, struct mono_time patience,
       struct caller *caller)
{
    atomic_store(&caller->outcome, NOT_TOLD);
    atomic_store(&caller->times, 0);
    payments_charge(room, payment, patience, tell_caller, caller);
}

/* What it is told; NOT_TOLD: nothing came. */
static inline int
await_told(struct caller *caller)
{
    for (int64_t us = 0; us < WAIT_US && atomic_load(&caller->times) == 0; us += LOOK_US)
        usleep(LOOK_US);
    assert_true(atomic_load(&caller->times) <= 1);
    return atomic_load(&caller->outcome);
}

static inline int
outcome_of_charge(struct payments *room, const char *method)
{
    struct payment payment = payment_by(method);
    struct caller caller;

    charge(room, &payment, HOUR_LATER, &caller);
    return await_told(&caller);
}

/* The n-th settlement, which must be of this payment. */
static inline enum payment_outcome
await_settled(int n, const struct payment *payment)
{
    for (int64_t us = 0; us < WAIT_US && atomic_load(&settle_count) < n; us += LOOK_US)
        usleep(LOOK_US);
    assert_int_equal(atomic_load(&settle_count), n);
    assert_true(uuid_equal(&settles[n - 1].intent_id, &payment->intent_id));
    return settles[n - 1].outcome;
}

static inline void
await_nothing_under_way(struct payments *room)
{
    for (int64_t us = 0; us < WAIT_US && atomic_load(&room->under_way) > 0; us += LOOK_US)
        usleep(LOOK_US);
    assert_int_equal(atomic_load(&room->under_way), 0);
}

#endif
