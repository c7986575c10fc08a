/*
 * Messages and the subscription, against a real Redis: heard, lost, frozen, and had again.
 * Skipped without HOLDFAST_TEST_REDIS_URL.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "holdfast/thread.h"
#include "own_server.h"

#define SECOND (1 * (int64_t)TIME_US_PER_S)
#define TRIES  10 /* of what is timed: a machine may stand still now and then, not each time */

static struct warm_listener *listener;

#define CHANNEL SLICE_LITERAL("holdfast:feed:1:2")

static int
open_listener(void **state)
{
    (void)state;
    if (server() == NULL)
        return 0;
    config.redis_url = own_url;
    config.redis_timeout_ms = 1000;
    tier = warm_tier_new(&config);
    warm = warm_new(&config, tier);
    listener = warm_listener_new(&config, tier, CHANNEL.ptr);
    return tier == NULL || warm == NULL || listener == NULL;
}

static int
close_listener(void **state)
{
    (void)state;
    if (server() == NULL)
        return 0;
    warm_listener_free(&listener);
    assert_null(listener);
    warm_free(&warm);
    warm_tier_free(&tier);
    return 0;
}

/* Listens until something else than WARM_NOTHING is heard; at most five seconds. */
static enum warm_heard
next_heard(struct slice *message)
{
    struct mono_time end = { mono_now().us + 5 * SECOND };
    enum warm_heard heard = WARM_NOTHING;
    while (heard == WARM_NOTHING && mono_now().us < end.us)
        heard = warm_listen(listener, 50 * TIME_US_PER_MS, message);
    return heard;
}

static void
join(void)
{
    struct slice message;
    enum warm_heard heard = next_heard(&message);
    for (int tries = 0; heard == WARM_DEAF && tries < 100; tries++)
        heard = next_heard(&message);
    assert_int_equal(heard, WARM_JOINED);
}

static void
publish(const char *text)
{
    assert_true(warm_publish(warm, CHANNEL, slice_of(text)));
}

static void
assert_heard(struct slice text)
{
    struct slice message;
    assert_int_equal(next_heard(&message), WARM_MESSAGE);
    assert_true(slice_equal(message, text));
}

static void
kill_subscribers(void)
{
    assert_int_equal(own_command("CLIENT KILL TYPE pubsub"), REDIS_REPLY_INTEGER);
}

/* --- cases ------------------------------------------------------------------------- */

static void
messages_are_heard_in_order(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    publish("before it listens");
    join();
    publish("one");
    publish("two");
    assert_heard(slice_of("one"));
    assert_heard(slice_of("two"));
}

static void
a_message_may_be_any_bytes_and_long(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    static char bytes[3 * 1024 * 1024];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7);
    struct slice text = { bytes, sizeof(bytes) };
    join();
    assert_true(warm_publish(warm, CHANNEL, text));
    assert_heard(text);
    assert_true(warm_publish(warm, CHANNEL, SLICE_EMPTY));
    assert_heard(SLICE_EMPTY);
}

static void
other_channels_are_not_heard(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct slice message;
    join();
    assert_true(warm_publish(warm, SLICE_LITERAL("test:another"), SLICE_LITERAL("x")));
    assert_int_equal(warm_listen(listener, 50 * TIME_US_PER_MS, &message), WARM_NOTHING);
}

static void
it_waits_no_longer_than_it_is_told(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct slice message;
    join();
    int in_time = 0;
    for (int i = 0; i < TRIES; i++) {
        struct mono_time start = mono_now();
        assert_int_equal(warm_listen(listener, 20 * TIME_US_PER_MS, &message), WARM_NOTHING);
        int64_t took_us = mono_now().us - start.us;
        assert_true(took_us >= 19 * TIME_US_PER_MS);
        in_time += took_us < 500 * TIME_US_PER_MS;
    }
    assert_true(in_time >= TRIES / 2);
}

static void
a_quiet_connection_that_lives_stays(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct slice message;
    struct mono_time end = { mono_now().us + SECOND }; /* more than two questions long */
    join();
    while (mono_now().us < end.us)
        assert_int_equal(warm_listen(listener, 50 * TIME_US_PER_MS, &message), WARM_NOTHING);
    publish("still there");
    assert_heard(slice_of("still there"));
}

static void
a_subscription_that_was_killed_is_told_and_had_again(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct slice message;
    join();
    for (int i = 0; i < 5; i++) {
        kill_subscribers();
        publish("missed");
        assert_int_equal(next_heard(&message), WARM_DEAF);
        join();
        publish("heard");
        assert_heard(slice_of("heard"));
    }
}

static void
its_losses_are_no_failures_of_redis(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct slice message;
    join();
    for (int i = 0; i < 10; i++) { /* as many as would open the breaker twice */
        kill_subscribers();
        assert_int_equal(next_heard(&message), WARM_DEAF);
        join();
    }
    assert_int_equal(breaker_state(warm_tier_breaker(tier)), BREAKER_CLOSED);
    publish("x");
}

/* Nothing answers there; the pauses grow, and no call takes longer than it may. */
static void
without_a_redis_it_is_deaf_and_tries_again(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    static char nobody[] = "unix:/nowhere/redis.sock";
    struct config nowhere = config;
    struct slice message;
    nowhere.redis_url = nobody;
    warm_listener_free(&listener);
    listener = warm_listener_new(&nowhere, tier, CHANNEL.ptr);
    struct mono_time began = mono_now();
    int in_time = 0;
    for (int tries = 0; tries < 60; tries++) {
        struct mono_time start = mono_now();
        assert_int_equal(warm_listen(listener, 20 * TIME_US_PER_MS, &message), WARM_DEAF);
        in_time += mono_now().us - start.us < 100 * TIME_US_PER_MS;
    }
    assert_true(mono_now().us - began.us >= SECOND); /* it waits, but for a try now and then */
    assert_true(in_time >= 10);
    assert_int_equal(breaker_state(warm_tier_breaker(tier)), BREAKER_CLOSED);
}

static void
without_a_warm_tier_it_is_deaf(void **state)
{
    (void)state;
    static char nothing[] = "";
    struct config off = { .redis_url = nothing, .redis_timeout_ms = 50 };
    struct warm_tier *none = warm_tier_new(&off);
    struct warm_listener *deaf = warm_listener_new(&off, none, "x");
    struct warm *mute = warm_new(&off, none);
    struct slice message;
    assert_true(none != NULL && deaf != NULL && mute != NULL);
    struct mono_time start = mono_now();
    assert_int_equal(warm_listen(deaf, 20 * TIME_US_PER_MS, &message), WARM_DEAF);
    assert_true(mono_now().us - start.us >= 19 * TIME_US_PER_MS);
    assert_false(warm_publish(mute, SLICE_LITERAL("x"), SLICE_LITERAL("y")));
    warm_listener_free(&deaf);
    warm_free(&mute);
    warm_tier_free(&none);
}

static void
an_open_breaker_keeps_messages_back(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct breaker *breaker = warm_tier_breaker(tier);
    while (breaker_state(breaker) == BREAKER_CLOSED)
        breaker_failed(breaker, mono_now());
    int64_t best_us = SECOND;
    for (int tries = 0; tries < TRIES; tries++) {
        struct mono_time start = mono_now();
        assert_false(warm_publish(warm, CHANNEL, SLICE_LITERAL("x")));
        int64_t took_us = mono_now().us - start.us;
        best_us = took_us < best_us ? took_us : best_us;
    }
    assert_true(best_us < 10 * TIME_US_PER_MS);
}

static void
a_subscription_that_stands_is_a_sign_of_life(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct breaker *breaker = warm_tier_breaker(tier);
    while (breaker_state(breaker) == BREAKER_CLOSED)
        breaker_failed(breaker, mono_now());
    assert_false(breaker_probe_is_due(breaker, mono_now()));
    join();
    assert_int_equal(breaker_state(breaker), BREAKER_OPEN);
    assert_true(breaker_probe_is_due(breaker, mono_now()));
}

static void
a_connection_that_is_dead_is_known_within_half_a_second(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct slice message;
    struct config impatient = config;
    impatient.redis_timeout_ms = 100;
    warm_listener_free(&listener);
    listener = warm_listener_new(&impatient, tier, CHANNEL.ptr);
    int64_t best_us = 10 * SECOND;
    for (int tries = 0; tries < TRIES && best_us >= SECOND / 2; tries++) {
        join();
        assert_int_equal(kill(own_server, SIGSTOP), 0);
        struct mono_time start = mono_now();
        enum warm_heard first = next_heard(&message);
        int64_t took_us = mono_now().us - start.us;
        enum warm_heard then = next_heard(&message); /* it takes connections, and says nothing */
        assert_int_equal(kill(own_server, SIGCONT), 0);
        assert_true(first == WARM_DEAF && then == WARM_DEAF);
        best_us = took_us < best_us ? took_us : best_us;
    }
    assert_true(best_us < SECOND / 2);
    join();
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_listener, close_listener)
    const struct CMUnitTest tests[] = {
        CASE(messages_are_heard_in_order),
        CASE(a_message_may_be_any_bytes_and_long),
        CASE(other_channels_are_not_heard),
        CASE(it_waits_no_longer_than_it_is_told),
        CASE(a_quiet_connection_that_lives_stays),
        CASE(a_subscription_that_was_killed_is_told_and_had_again),
        CASE(its_losses_are_no_failures_of_redis),
        CASE(without_a_redis_it_is_deaf_and_tries_again),
        CASE(without_a_warm_tier_it_is_deaf),
        CASE(an_open_breaker_keeps_messages_back),
        CASE(a_subscription_that_stands_is_a_sign_of_life),
        CASE(a_connection_that_is_dead_is_known_within_half_a_second),
    };
    return cmocka_run_group_tests(tests, open_program, close_program);
}
