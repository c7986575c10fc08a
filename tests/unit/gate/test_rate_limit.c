/*
 * Rate limits and abuse blocks, with a clock that the tests move.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gate_fixture.h"
#include "holdfast/rate_limit.h"

#define ALICE "192.0.2.1"
#define BOB   "192.0.2.2"

static const struct mono_time start = { INT64_C(1000000000) };

static struct mono_time
after_ms(int64_t ms)
{
    return (struct mono_time){ start.us + ms * 1000 };
}

static struct rate_limiter *
limiter_of(const struct config *config)
{
    struct rate_limiter *limiter = rate_limiter_new(config);

    assert_non_null(limiter);
    return limiter;
}

static struct rate_limiter *
usual_limiter(void)
{
    struct config config = gate_config();

    return limiter_of(&config);
}

static struct rate_result
check(struct rate_limiter *limiter, const char *address, enum rate_kind kind, const char *map,
      int64_t at_ms)
{
    struct rate_result result;

    rate_limit_check(limiter, address, kind, slice_of(map), after_ms(at_ms), &result);
    return result;
}

/* How many of `count` requests at this moment pass. */
static int
passes(struct rate_limiter *limiter, enum rate_kind kind, int count, int64_t at_ms)
{
    int passed = 0;

    for (int i = 0; i < count; i++)
        passed += check(limiter, ALICE, kind, "", at_ms).status == HF_OK;
    return passed;
}

/* --- limits ------------------------------------------------------------ */

static void
sixty_requests_a_minute_pass_and_no_more(void **state)
{
    struct rate_limiter *limiter = usual_limiter();
    struct rate_result result;

    (void)state;
    for (int i = 0; i < 60; i++) {
        result = check(limiter, ALICE, RATE_GENERAL, "", i * 500);
        assert_int_equal(result.status, HF_OK);
        assert_string_equal(result.name, "general");
        assert_int_equal(result.limit, 60);
        assert_int_equal(result.window_s, 60);
        assert_int_equal(result.remaining, 59 - i);
        assert_int_equal(result.retry_after_s, 0);
    }
    result = check(limiter, ALICE, RATE_GENERAL, "", 30000);
    assert_int_equal(result.status, HF_RATE_LIMITED);
    assert_int_equal(result.remaining, 0);
    assert_int_equal(result.retry_after_s,
                     30); /* the first slice is forgotten 60 s after its begin */
    assert_int_equal(result.reset_s, 30);
    rate_limiter_free(&limiter);
    assert_null(limiter);
}

static void
who_waits_as_long_as_told_passes(void **state)
{
    struct rate_limiter *limiter = usual_limiter();
    int64_t now = 0;

    (void)state;
    for (int round = 0; round < 20; round++) {
        struct rate_result result;
        while ((result = check(limiter, ALICE, RATE_GENERAL, "", now)).status == HF_OK)
            now += 37;
        assert_int_equal(result.status, HF_RATE_LIMITED);
        now += result.retry_after_s * 1000;
        assert_int_equal(check(limiter, ALICE, RATE_GENERAL, "", now).status, HF_OK);
    }
    rate_limiter_free(&limiter);
}

static void
no_nine_tenths_of_a_minute_see_more_than_the_limit(void **state)
{
    enum { MINUTES = 5, STEP_MS = 150, STEPS = MINUTES * 60000 / STEP_MS };
    static bool passed[STEPS];
    struct rate_limiter *limiter = usual_limiter();

    (void)state;
    for (int i = 0; i < STEPS; i++)
        passed[i] = check(limiter, ALICE, RATE_GENERAL, "", (int64_t)i * STEP_MS).status == HF_OK;
    for (int from = 0; from + 54000 / STEP_MS <= STEPS; from++) {
        int count = 0;
        for (int i = from; i < from + 54000 / STEP_MS; i++)
            count += passed[i];
        assert_in_range(count, 0, 60);
    }
    rate_limiter_free(&limiter);
}

static void
all_that_holds_shares_twenty_a_minute_within_the_general_limit(void **state)
{
    struct rate_limiter *limiter = usual_limiter();
    struct rate_result result;

    (void)state;
    assert_int_equal(passes(limiter, RATE_HOLD, 20, 0), 20);
    result = check(limiter, ALICE, RATE_HOLD, "", 1000);
    assert_int_equal(result.status, HF_RATE_LIMITED);
    assert_string_equal(result.name, "holds");
    assert_int_equal(result.limit, 20);
    assert_int_equal(result.retry_after_s, 59);
    assert_int_equal(passes(limiter, RATE_GENERAL, 41, 2000),
                     40); /* the refused hold counts nowhere */
    result = check(limiter, ALICE, RATE_HOLD, "", 2000);
    assert_int_equal(result.status, HF_RATE_LIMITED);
    assert_string_equal(result.name, "general");
    assert_int_equal(passes(limiter, RATE_HOLD, 25, 60000), 20);
    rate_limiter_free(&limiter);
}

static void
a_hold_that_passes_tells_of_the_narrower_limit(void **state)
{
    struct rate_limiter *limiter = usual_limiter();
    struct rate_result result = check(limiter, ALICE, RATE_HOLD, "", 0);

    (void)state;
    assert_string_equal(result.name, "holds");
    assert_int_equal(result.remaining, 19);
    assert_int_equal(result.reset_s, 60);
    rate_limiter_free(&limiter);
}

static void
each_address_has_its_own_counts(void **state)
{
    struct rate_limiter *limiter = usual_limiter();

    (void)state;
    assert_int_equal(passes(limiter, RATE_GENERAL, 61, 0), 60);
    assert_int_equal(check(limiter, BOB, RATE_GENERAL, "", 0).status, HF_OK);
    assert_int_equal(check(limiter, "2001:db8::1", RATE_GENERAL, "", 0).status, HF_OK);
    assert_int_equal(rate_limit_addresses(limiter), 3);
    rate_limiter_free(&limiter);
}

static void
ipv6_is_counted_by_its_64(void **state)
{
    struct rate_limiter *limiter = usual_limiter();
    char address[64];

    (void)state;
    for (int i = 0; i < 60; i++) {
        snprintf(address, sizeof(address), "2001:db8:1:2::%x", i + 1);
        assert_int_equal(check(limiter, address, RATE_GENERAL, "", 0).status, HF_OK);
    }
    assert_int_equal(check(limiter, "2001:db8:1:2:ffff::", RATE_GENERAL, "", 0).status,
                     HF_RATE_LIMITED);
    assert_int_equal(check(limiter, "2001:db8:1:3::1", RATE_GENERAL, "", 0).status, HF_OK);
    rate_limiter_free(&limiter);
}

static void
a_clock_reading_that_was_overtaken_does_no_harm(void **state)
{
    struct rate_limiter *limiter = usual_limiter();

    (void)state;
    assert_int_equal(passes(limiter, RATE_GENERAL, 30, 10000), 30);
    assert_int_equal(passes(limiter, RATE_GENERAL, 31, 9000), 30);
    assert_int_equal(check(limiter, ALICE, RATE_GENERAL, "", 70000).status, HF_OK);
    rate_limiter_free(&limiter);
}

static void
off_means_no_limit_at_all(void **state)
{
    struct config config = gate_config();
    struct rate_limiter *limiter;

    (void)state;
    config.rate_limits = false;
    limiter = limiter_of(&config);
    assert_int_equal(passes(limiter, RATE_HOLD, 1000, 0), 1000);
    assert_int_equal(check(limiter, ALICE, RATE_HOLD, "", 0).limit, 0);
    assert_int_equal(rate_limit_addresses(limiter), 0);
    assert_false(rate_limit_unblock(limiter, slice_of(ALICE), after_ms(0)));
    rate_limiter_free(&limiter);
}

/* --- abuse ------------------------------------------------------------- */

static void
the_101st_request_in_5_s_blocks_for_an_hour(void **state)
{
    struct rate_limiter *limiter = usual_limiter();
    struct rate_result result;

    (void)state;
    for (int i = 0; i < 100; i++) /* refused ones count: 60 pass, 40 are over the limit */
        assert_int_not_equal(check(limiter, ALICE, RATE_GENERAL, "", i * 49).status, HF_BLOCKED);
    result = check(limiter, ALICE, RATE_GENERAL, "", 4999);
    assert_int_equal(result.status, HF_BLOCKED);
    assert_string_equal(result.name, "burst");
    assert_int_equal(result.limit, 100);
    assert_int_equal(result.window_s, 5);
    assert_int_equal(result.retry_after_s, 3600);
    result = check(limiter, ALICE, RATE_GENERAL, "", 4999 + 3599999);
    assert_int_equal(result.status, HF_BLOCKED);
    assert_int_equal(result.retry_after_s, 1);
    assert_int_equal(check(limiter, ALICE, RATE_GENERAL, "", 4999 + 3600000).status, HF_OK);
    rate_limiter_free(&limiter);
}

static void
a_hundred_in_each_5_s_never_block(void **state)
{
    struct config config = gate_config();
    struct rate_limiter *limiter;

    (void)state;
    config.rate_general_per_min = 1000000;
    limiter = limiter_of(&config);
    for (int i = 0; i < 50; i++)
        assert_int_equal(passes(limiter, RATE_GENERAL, 100, i * 5000), 100);
    rate_limiter_free(&limiter);
}

static void
ten_maps_in_2_s_pass_and_the_eleventh_blocks(void **state)
{
    struct rate_limiter *limiter = usual_limiter();
    struct rate_result result;
    char map[16];

    (void)state;
    for (int i = 0; i < 10; i++) {
        snprintf(map, sizeof(map), "event-%d", i);
        assert_int_equal(check(limiter, ALICE, RATE_MAP, map, i * 190).status, HF_OK);
        assert_int_equal(check(limiter, ALICE, RATE_MAP, map, i * 190).status,
                         HF_OK); /* the same */
    }
    result = check(limiter, ALICE, RATE_MAP, "event-10", 1999);
    assert_int_equal(result.status, HF_BLOCKED);
    assert_string_equal(result.name, "maps");
    assert_int_equal(result.window_s, 2);
    assert_int_equal(check(limiter, ALICE, RATE_GENERAL, "", 2000).status, HF_BLOCKED);
    assert_int_equal(check(limiter, BOB, RATE_MAP, "event-10", 2000).status, HF_OK);
    rate_limiter_free(&limiter);
}

static void
a_map_is_forgotten_after_2_s(void **state)
{
    struct rate_limiter *limiter = usual_limiter();
    char map[16];

    (void)state;
    for (int i = 0; i < 40; i++) { /* ten in any 2 s */
        snprintf(map, sizeof(map), "event-%d", i);
        assert_int_equal(check(limiter, ALICE, RATE_MAP, map, i * 200).status, HF_OK);
    }
    rate_limiter_free(&limiter);
}

static void
a_map_limit_above_what_is_tracked_is_off(void **state)
{
    struct config config = gate_config();
    struct rate_limiter *limiter;
    char map[16];

    (void)state;
    config.rate_general_per_min = config.rate_burst_per_5s = 1000000;
    config.rate_maps_per_2s = RATE_MAPS_MAX + 1;
    limiter = limiter_of(&config);
    for (int i = 0; i < 1000; i++) {
        snprintf(map, sizeof(map), "event-%d", i);
        assert_int_equal(check(limiter, ALICE, RATE_MAP, map, 0).status, HF_OK);
    }
    rate_limiter_free(&limiter);
}

static void
an_admin_can_end_a_block(void **state)
{
    struct rate_limiter *limiter = usual_limiter();

    (void)state;
    assert_false(rate_limit_unblock(limiter, slice_of(ALICE), after_ms(0)));
    passes(limiter, RATE_GENERAL, 101, 0);
    assert_int_equal(check(limiter, ALICE, RATE_GENERAL, "", 1).status, HF_BLOCKED);
    assert_false(rate_limit_unblock(limiter, SLICE_LITERAL("no address"), after_ms(1)));
    assert_false(rate_limit_unblock(limiter, slice_of(BOB), after_ms(1)));
    assert_true(rate_limit_unblock(limiter, slice_of(ALICE), after_ms(1)));
    assert_false(rate_limit_unblock(limiter, slice_of(ALICE), after_ms(1)));
    assert_int_equal(passes(limiter, RATE_GENERAL, 61, 1), 60); /* it begins anew */
    rate_limiter_free(&limiter);
}

static void
abuse_is_recorded_once_with_what_an_admin_needs(void **state)
{
    struct rate_limiter *limiter = usual_limiter();
    struct abuse_event events[8];

    (void)state;
    assert_int_equal(rate_limit_recent(limiter, events, 8), 0);
    passes(limiter, RATE_GENERAL, 150, 0); /* the 61st is over the limit, the 101st blocks */
    assert_int_equal(rate_limit_recent(limiter, events, 8), 2);

    assert_string_equal(events[0].event_type, "burst_limit");
    assert_string_equal(events[0].ip, ALICE);
    assert_int_equal(events[0].detected.us, start.us);
    assert_int_equal(events[0].blocked_until.us, start.us + INT64_C(3600) * 1000000);
    assert_int_equal(events[0].request_count, 101);
    assert_int_equal(events[0].time_window_ms, 5000);
    assert_string_equal(events[0].details, "limit burst: more than 100 in 5 s");
    assert_false(uuid_is_nil(&events[0].id));

    assert_string_equal(events[1].event_type, "rate_limit");
    assert_int_equal(events[1].blocked_until.us, 0);
    assert_int_equal(events[1].request_count, 61);
    assert_false(uuid_equal(&events[0].id, &events[1].id));
    assert_int_equal(rate_limit_recent(limiter, events, 1), 1);
    assert_string_equal(events[0].event_type, "burst_limit");
    rate_limiter_free(&limiter);
}

static void
the_ring_of_events_keeps_the_newest(void **state)
{
    static struct abuse_event events[RATE_EVENTS_MAX + 8];
    struct config config = gate_config();
    struct rate_limiter *limiter;
    char address[32];

    (void)state;
    config.rate_general_per_min = 1;
    limiter = limiter_of(&config);
    for (int i = 0; i < RATE_EVENTS_MAX + 5; i++) {
        snprintf(address, sizeof(address), "10.0.%d.%d", i / 256, i % 256);
        check(limiter, address, RATE_GENERAL, "", i);
        check(limiter, address, RATE_GENERAL, "", i);
    }
    assert_int_equal(rate_limit_recent(limiter, events, RATE_EVENTS_MAX + 8), RATE_EVENTS_MAX);
    assert_string_equal(events[0].ip, address);
    assert_int_equal(events[RATE_EVENTS_MAX - 1].detected.us, after_ms(5).us);
    rate_limiter_free(&limiter);
}

/* --- a full table ------------------------------------------------------ */

static void
a_flood_of_addresses_stays_within_the_table_and_refuses_nobody(void **state)
{
    struct rate_limiter *limiter = usual_limiter();
    char address[32];

    (void)state;
    for (int i = 0; i < 2 * RATE_ADDRESSES_MAX; i++) {
        snprintf(address, sizeof(address), "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
        assert_int_equal(check(limiter, address, RATE_MAP, "event", i / 100).status, HF_OK);
    }
    assert_in_range(rate_limit_addresses(limiter), RATE_ADDRESSES_MAX * 9 / 10, RATE_ADDRESSES_MAX);
    rate_limiter_free(&limiter);
}

static void
a_block_outlives_a_flood_of_addresses(void **state)
{
    struct rate_limiter *limiter = usual_limiter();
    char address[32];

    (void)state;
    passes(limiter, RATE_GENERAL, 101, 0);
    for (int i = 0; i < 2 * RATE_ADDRESSES_MAX; i++) {
        snprintf(address, sizeof(address), "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
        check(limiter, address, RATE_GENERAL, "", i / 100);
    }
    assert_int_equal(check(limiter, ALICE, RATE_GENERAL, "", 10000).status, HF_BLOCKED);
    rate_limiter_free(&limiter);
}

/* --- threads ----------------------------------------------------------- */

#define THREADS 4

struct crowd {
    struct rate_limiter *limiter;
    _Atomic int passed;
};

static void *
crowd_run(void *context)
{
    struct crowd *crowd = context;
    struct abuse_event events[4];

    for (int i = 0; i < 500; i++) {
        struct rate_result result;
        rate_limit_check(crowd->limiter, ALICE, RATE_HOLD, SLICE_EMPTY, start, &result);
        crowd->passed += result.status == HF_OK;
        rate_limit_recent(crowd->limiter, events, 4);
    }
    return NULL;
}

static void
many_threads_share_one_limit(void **state)
{
    struct config config = gate_config();
    struct crowd crowd = { NULL, 0 };
    pthread_t threads[THREADS];

    (void)state;
    config.rate_general_per_min = config.rate_burst_per_5s = 1000000;
    config.rate_holds_per_min = 777;
    crowd.limiter = limiter_of(&config);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(crowd.passed, 777);
    rate_limiter_free(&crowd.limiter);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixty_requests_a_minute_pass_and_no_more),
        cmocka_unit_test(who_waits_as_long_as_told_passes),
        cmocka_unit_test(no_nine_tenths_of_a_minute_see_more_than_the_limit),
        cmocka_unit_test(all_that_holds_shares_twenty_a_minute_within_the_general_limit),
        cmocka_unit_test(a_hold_that_passes_tells_of_the_narrower_limit),
        cmocka_unit_test(each_address_has_its_own_counts),
        cmocka_unit_test(ipv6_is_counted_by_its_64),
        cmocka_unit_test(a_clock_reading_that_was_overtaken_does_no_harm),
        cmocka_unit_test(off_means_no_limit_at_all),
        cmocka_unit_test(the_101st_request_in_5_s_blocks_for_an_hour),
        cmocka_unit_test(a_hundred_in_each_5_s_never_block),
        cmocka_unit_test(ten_maps_in_2_s_pass_and_the_eleventh_blocks),
        cmocka_unit_test(a_map_is_forgotten_after_2_s),
        cmocka_unit_test(a_map_limit_above_what_is_tracked_is_off),
        cmocka_unit_test(an_admin_can_end_a_block),
        cmocka_unit_test(abuse_is_recorded_once_with_what_an_admin_needs),
        cmocka_unit_test(the_ring_of_events_keeps_the_newest),
        cmocka_unit_test(a_flood_of_addresses_stays_within_the_table_and_refuses_nobody),
        cmocka_unit_test(a_block_outlives_a_flood_of_addresses),
        cmocka_unit_test(many_threads_share_one_limit),
    };

    return cmocka_run_group_tests_name("rate_limit", tests, NULL, NULL);
}
