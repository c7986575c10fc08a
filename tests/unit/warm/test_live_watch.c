/*
 * The watcher and the half-open trial, against a Redis of this program's own that is stopped,
 * flushed, killed and started with an old dump. Skipped without HOLDFAST_TEST_REDIS_URL.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "holdfast/metrics.h"
#include "live.h"
#include "own_server.h"

/* Two nodes, each with a tier; the first has a second connection. */
static struct warm_tier *tier_a, *tier_b;
static struct warm *a1, *a2, *b1;

static int
open_nodes(void **state)
{
    (void)state;
    if (server() == NULL)
        return 0;
    config.redis_url = own_url;
    config.redis_timeout_ms = 500;
    own_command("FLUSHALL");
    event = SLICE_LITERAL("show");
    tier_a = warm_tier_new(&config);
    tier_b = warm_tier_new(&config);
    a1 = warm_new(&config, tier_a);
    a2 = warm_new(&config, tier_a);
    b1 = warm_new(&config, tier_b);
    return a1 == NULL || a2 == NULL || b1 == NULL;
}

static int
close_nodes(void **state)
{
    (void)state;
    if (server() == NULL)
        return 0;
    warm_free(&a1);
    warm_free(&a2);
    warm_free(&b1);
    warm_tier_free(&tier_a);
    warm_tier_free(&tier_b);
    return 0;
}

static enum breaker_state
state_of(struct warm_tier *tier_of)
{
    return breaker_state(warm_tier_breaker(tier_of));
}

static void
open_breaker(struct warm_tier *tier_of)
{
    for (int i = 0; i < 5; i++)
        breaker_failed(warm_tier_breaker(tier_of), mono_now());
    assert_int_equal(state_of(tier_of), BREAKER_OPEN);
}

static void
half_open_breaker(struct warm_tier *tier_of)
{
    open_breaker(tier_of);
    breaker_probed(warm_tier_breaker(tier_of), mono_now(), true);
    assert_int_equal(state_of(tier_of), BREAKER_HALF_OPEN);
}

static uint64_t
fallbacks(void)
{
    struct buf out = { 0 };
    metrics_write(&out);
    assert_false(out.failed);
    const char *at = strstr(out.data, "\nholdfast_redis_fallbacks_total ");
    assert_non_null(at);
    uint64_t number = strtoull(strchr(at, ' '), NULL, 10);
    buf_fini(&out);
    return number;
}

/* --- one trial ----------------------------------------------------------------------- */

static void
one_batch_has_the_trial_through_all_its_calls(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    assert_true(warm_ping(a1) && warm_ping(a2));
    half_open_breaker(tier_a);
    uint64_t before = fallbacks();
    assert_true(warm_put(a1, &hold, 1));
    assert_false(warm_ping(a2)); /* somebody else's */
    assert_int_equal(fallbacks(), before + 1);
    assert_true(warm_remove(a1, &hold, 1));
    assert_true(warm_put(a1, &hold, 1));
    assert_int_equal(state_of(tier_a), BREAKER_HALF_OPEN);
    assert_true(warm_collect(a1));
    assert_int_equal(state_of(tier_a), BREAKER_CLOSED);
    assert_true(warm_ping(a2));
    assert_int_equal(warm_count(a1, ORG, event), 1);
}

static void
a_trial_that_fails_opens_it_again_for_everybody(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    half_open_breaker(tier_a);
    assert_true(warm_put(a1, &hold, 1));
    kill(own_server, SIGSTOP);
    bool collected = warm_remove(a1, &hold, 1) && warm_collect(a1);
    enum breaker_state after = state_of(tier_a);
    bool any = false;
    int64_t best_us = TIME_US_PER_S; /* of some: a thread may be held up */
    for (int tries = 0; tries < 10; tries++) {
        struct mono_time began = mono_now();
        any = any || warm_put(a1, &hold, 1) || warm_remove(a1, &hold, 1) || warm_ping(a2);
        int64_t took_us = mono_now().us - began.us;
        best_us = took_us < best_us ? took_us : best_us;
    }
    kill(own_server, SIGCONT);
    assert_false(collected || any);
    assert_int_equal(after, BREAKER_OPEN);
    assert_true(best_us < 20 * TIME_US_PER_MS);
    assert_null(a1->link.context);
}

static void
an_old_trial_is_no_leave_for_a_new_half_open_state(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    half_open_breaker(tier_a);
    assert_true(warm_put(a1, &hold, 1)); /* and is never collected */
    breaker_failed(warm_tier_breaker(tier_a), mono_now());
    assert_false(warm_ping(a1));
    breaker_probed(warm_tier_breaker(tier_a), mono_now(), true);
    assert_true(warm_put(a2, &hold, 1));
    assert_false(warm_ping(a1));
    assert_true(warm_collect(a2));
    assert_int_equal(state_of(tier_a), BREAKER_CLOSED);
}

static void
what_was_idle_while_it_was_open_fails_nobody_afterwards(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    assert_true(warm_ping(a1) && warm_ping(a2));
    kill_server();
    start_server();
    half_open_breaker(tier_a);
    assert_true(warm_ping(a1)); /* its connection died with the old server */
    assert_int_equal(state_of(tier_a), BREAKER_CLOSED);
    assert_true(warm_ping(a2));
    assert_int_equal(state_of(tier_a), BREAKER_CLOSED);
}

/* --- the watcher --------------------------------------------------------------------- */

/* Both nodes have seen this Redis and trust the event. */
static void
watch_and_trust(void)
{
    assert_true(warm_watch(a1) && warm_watch(b1));
    warm_tier_rebuilt(tier_a, ORG, event, warm_tier_ticket(tier_a, ORG, event));
    warm_tier_rebuilt(tier_b, ORG, event, warm_tier_ticket(tier_b, ORG, event));
    assert_true(warm_watch(a1) && warm_watch(b1) && warm_watch(a1));
    assert_true(warm_tier_trusts(tier_a, ORG, event));
    assert_true(warm_tier_trusts(tier_b, ORG, event));
}

/* Each node distrusts once, whoever looks first. */
static void
assert_each_distrusts_once(void)
{
    uint64_t a = warm_tier_generation(tier_a), b = warm_tier_generation(tier_b);
    assert_true(warm_watch(b1) && warm_watch(a1));
    assert_int_equal(warm_tier_generation(tier_a), a + 1);
    assert_int_equal(warm_tier_generation(tier_b), b + 1);
    assert_false(warm_tier_trusts(tier_a, ORG, event));
    assert_false(warm_tier_trusts(tier_b, ORG, event));
    assert_true(warm_watch(a1) && warm_watch(b1) && warm_watch(a1));
    assert_int_equal(warm_tier_generation(tier_a), a + 1);
    assert_int_equal(warm_tier_generation(tier_b), b + 1);
}

static void
a_flush_is_noticed_by_each_node_once(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    watch_and_trust();
    assert_int_equal(own_command("FLUSHALL"), REDIS_REPLY_STATUS);
    assert_each_distrusts_once();
    watch_and_trust();
}

static void
a_mark_of_another_type_is_replaced(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    watch_and_trust();
    assert_int_equal(own_command("DEL holdfast:mark"), REDIS_REPLY_INTEGER);
    assert_int_equal(own_command("LPUSH holdfast:mark x"), REDIS_REPLY_INTEGER);
    assert_true(warm_watch(a1));
    assert_false(warm_tier_trusts(tier_a, ORG, event));
    assert_true(warm_watch(a1) && warm_watch(b1));
    watch_and_trust();
    assert_int_equal(own_command("GET holdfast:mark"), REDIS_REPLY_STRING);
    assert_int_equal(state_of(tier_a), BREAKER_CLOSED);
}

static void
a_restart_with_an_old_dump_is_noticed_though_the_mark_is_there(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    watch_and_trust();
    assert_true(warm_put(a2, &hold, 1) && warm_collect(a2));
    assert_int_equal(own_command("SAVE"), REDIS_REPLY_STATUS);
    assert_true(warm_remove(a2, &hold, 1) && warm_collect(a2));
    kill_server();
    start_server();
    assert_int_equal(warm_count(a2, ORG, event), 1); /* what was released is back */
    assert_each_distrusts_once();
    assert_int_equal(state_of(tier_a), BREAKER_CLOSED);
}

static void
an_empty_restart_is_one_distrust_not_two(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    watch_and_trust();
    assert_int_equal(own_command("FLUSHALL"), REDIS_REPLY_STATUS);
    assert_int_equal(own_command("SAVE"), REDIS_REPLY_STATUS);
    kill_server();
    start_server();
    assert_each_distrusts_once();
}

/* Watches until `wanted`, as its thread does but oftener; when the look that saw it began. */
static struct mono_time
watch_until(struct warm *watcher, enum breaker_state wanted)
{
    struct mono_time began = mono_now(), look = began;
    while (breaker_state(warm_tier_breaker(watcher->link.tier)) != wanted) {
        look = mono_now();
        assert_true(look.us - began.us < 20 * (int64_t)TIME_US_PER_S);
        (void)warm_watch(watcher);
        if (breaker_state(warm_tier_breaker(watcher->link.tier)) != wanted)
            pause_ms(20);
    }
    return look;
}

static void
the_watcher_probes_after_the_pause_and_takes_the_trial_if_nobody_does(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    bool in_time = false;
    for (int tries = 0; tries < 10 && !in_time; tries++) { /* a thread may be held up */
        struct mono_time before = mono_now();
        open_breaker(tier_a);
        struct mono_time probe = watch_until(a1, BREAKER_HALF_OPEN), probed = mono_now();
        assert_true(probed.us - before.us > 900 * TIME_US_PER_MS);
        uint64_t generation = warm_tier_generation(tier_a);
        (void)watch_until(a1, BREAKER_CLOSED);
        struct mono_time closed = mono_now();
        assert_true(closed.us - probe.us > 600 * TIME_US_PER_MS);
        assert_true(warm_tier_generation(tier_a) > generation);
        in_time = probed.us - before.us < 1500 * TIME_US_PER_MS &&
                  closed.us - probed.us < 1500 * TIME_US_PER_MS;
    }
    assert_true(in_time);
}

static void
the_trial_is_a_batchs_first(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct warm_hold hold = hold_of("A1", uuid_v7_new(), "ann", 1);
    open_breaker(tier_a);
    watch_until(a1, BREAKER_HALF_OPEN);
    assert_true(warm_put(a2, &hold, 1));
    assert_false(warm_watch(a1)); /* too early to take part */
    assert_int_equal(state_of(tier_a), BREAKER_HALF_OPEN);
    assert_true(warm_collect(a2));
    assert_int_equal(state_of(tier_a), BREAKER_CLOSED);
}

static void
a_stopped_redis_opens_it_by_the_watcher_alone_and_each_probe_comes_later(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    assert_true(warm_watch(a1));
    kill(own_server, SIGSTOP);
    int looks = 0;
    for (; looks < 20 && state_of(tier_a) != BREAKER_OPEN; looks++)
        (void)warm_watch(a1);
    bool due_at_once = warm_watch(a1);
    pause_ms(1050);
    struct mono_time before = mono_now();
    bool probed = warm_watch(a1); /* fails: the pause is 2 s now */
    struct mono_time after = mono_now();
    struct breaker *breaker = warm_tier_breaker(tier_a);
    bool due_soon =
        breaker_probe_is_due(breaker, (struct mono_time){ before.us + 1900 * TIME_US_PER_MS });
    bool due_later =
        breaker_probe_is_due(breaker, (struct mono_time){ after.us + 2100 * TIME_US_PER_MS });
    bool again = false;
    int64_t best_us = TIME_US_PER_S; /* of some: a thread may be held up */
    for (int tries = 0; tries < 10; tries++) {
        struct mono_time began = mono_now();
        again = again || warm_watch(a1);
        int64_t took_us = mono_now().us - began.us;
        best_us = took_us < best_us ? took_us : best_us;
    }
    kill(own_server, SIGCONT);
    assert_int_equal(looks, 5);
    assert_false(due_at_once || probed || again);
    assert_true(!due_soon && due_later);
    assert_true(best_us < 20 * TIME_US_PER_MS); /* not due: nothing was asked */
    watch_until(a1, BREAKER_CLOSED);
}

/* --- one deadline -------------------------------------------------------------------- */

struct dripper {
    int listener;
    _Atomic bool stop;
};

/* Answers each connection with a digest's first bytes, one every 20 ms, so that no read is slow. */
static void *
drip(void *argument)
{
    struct dripper *dripper = argument;
    int fd = accept(dripper->listener, NULL, NULL);
    while (!dripper->stop && fd >= 0) {
        static const char digits[] = "$4000000000\r\n";
        for (size_t i = 0; i < sizeof(digits) - 1 && !dripper->stop; i++) {
            (void)!write(fd, i == 0 ? "$" : &digits[i], 1);
            pause_ms(20);
        }
        static const char more = 'a';
        while (!dripper->stop && write(fd, &more, 1) == 1)
            pause_ms(20);
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* How long one that drips is waited for, where 150 ms are the most. */
static int64_t
wait_for_one_that_drips(void)
{
    char url[128];
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/drip.sock", folder);
    snprintf(url, sizeof(url), "unix:%s", address.sun_path);
    struct dripper dripper = { .listener = socket(AF_UNIX, SOCK_STREAM, 0) };
    assert_int_equal(bind(dripper.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(dripper.listener, 1), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, drip, &dripper), 0);

    struct config slow = config;
    slow.redis_url = url;
    slow.redis_timeout_ms = 150;
    struct warm_tier *its_tier = warm_tier_new(&slow);
    struct warm *its_warm = warm_new(&slow, its_tier);
    struct mono_time began = mono_now();
    bool answered = warm_ping(its_warm);
    int64_t took_us = mono_now().us - began.us;
    warm_free(&its_warm);
    warm_tier_free(&its_tier);
    dripper.stop = true;
    pthread_join(thread, NULL);
    close(dripper.listener);
    unlink(address.sun_path);
    assert_false(answered);
    assert_true(took_us >= 140 * TIME_US_PER_MS);
    return took_us;
}

static void
connecting_greeting_and_scripts_have_one_deadline_together(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    bool in_time = false;
    for (int tries = 0; tries < 20 && !in_time; tries++) /* a thread may be held up */
        in_time = wait_for_one_that_drips() < 290 * TIME_US_PER_MS;
    assert_true(in_time);
}

int
main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, open_nodes, close_nodes)
    const struct CMUnitTest tests[] = {
        CASE(one_batch_has_the_trial_through_all_its_calls),
        CASE(a_trial_that_fails_opens_it_again_for_everybody),
        CASE(an_old_trial_is_no_leave_for_a_new_half_open_state),
        CASE(what_was_idle_while_it_was_open_fails_nobody_afterwards),
        CASE(a_flush_is_noticed_by_each_node_once),
        CASE(a_mark_of_another_type_is_replaced),
        CASE(a_restart_with_an_old_dump_is_noticed_though_the_mark_is_there),
        CASE(an_empty_restart_is_one_distrust_not_two),
        CASE(the_watcher_probes_after_the_pause_and_takes_the_trial_if_nobody_does),
        CASE(the_trial_is_a_batchs_first),
        CASE(a_stopped_redis_opens_it_by_the_watcher_alone_and_each_probe_comes_later),
        CASE(connecting_greeting_and_scripts_have_one_deadline_together),
    };
    return cmocka_run_group_tests(tests, open_program, close_program);
}
