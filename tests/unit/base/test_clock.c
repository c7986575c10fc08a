/*
 * The estimate of the database's clock, fed with round trips made up here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "holdfast/clock.h"

#define OFFSET_US 1700000000000000 /* between the two clocks of these tests */

static struct mono_time
mono(int64_t us)
{
    return (struct mono_time){ us };
}

static int
clock_setup(void **state)
{
    *state = db_clock_new();
    return *state == NULL;
}

static int
clock_teardown(void **state)
{
    struct db_clock *clock = *state;

    db_clock_free(&clock);
    assert_null(clock);
    db_clock_free(&clock); /* freeing nothing is allowed */
    return 0;
}

/* A round trip of trip_us that the database judged skew_us after its middle. */
static void
observe(struct db_clock *clock, int64_t sent_us, int64_t trip_us, int64_t skew_us)
{
    db_clock_observe(clock, mono(sent_us), mono(sent_us + trip_us),
                     (struct db_time){ sent_us + trip_us / 2 + OFFSET_US + skew_us });
}

static void
assert_estimate(struct db_clock *clock, int64_t now_us, int64_t expected_us, int64_t expected_error)
{
    struct db_time time;
    int64_t error_us;

    assert_true(db_clock_read(clock, mono(now_us), &time, &error_us));
    assert_int_equal(time.us, expected_us);
    assert_int_equal(error_us, expected_error);
    assert_int_equal(db_clock_surely_past(clock, mono(now_us)).us, expected_us - expected_error);
}

static void
clock_knows_nothing_before_the_first_round_trip(void **state)
{
    struct db_time time;
    int64_t error_us;

    assert_false(db_clock_read(*state, mono(5), &time, &error_us));
    assert_int_equal(db_clock_surely_past(*state, mono(5)).us, 0);
}

static void
clock_takes_the_middle_and_errs_by_half_a_round_trip(void **state)
{
    observe(*state, 1000, 400, 0);
    assert_estimate(*state, 1000000, 1000000 + OFFSET_US, 200);
}

static void
clock_rounds_its_error_up(void **state)
{
    observe(*state, 1000, 401, 0);
    assert_estimate(*state, 2000, 2000 + OFFSET_US, 201);
}

static void
clock_believes_the_fastest_round_trip(void **state)
{
    observe(*state, 1000, 4000, 1500);
    observe(*state, 9000, 100, 7);
    observe(*state, 20000, 3000, -1000);
    assert_estimate(*state, 50000, 50000 + OFFSET_US + 7, 50);
}

static void
clock_forgets_the_fastest_after_eight_others(void **state)
{
    observe(*state, 0, 100, 7);
    for (int i = 1; i <= 7; i++)
        observe(*state, i * 10000, 1000 + i, i);
    assert_estimate(*state, 90000, 90000 + OFFSET_US + 7, 50);
    observe(*state, 80000, 5000, 8);
    assert_estimate(*state, 90000, 90000 + OFFSET_US + 1, 501);
}

static void
clock_believes_only_what_it_saw_since_a_jump(void **state)
{
    const int64_t jump_us = 8 * (int64_t)TIME_US_PER_S;
    observe(*state, 1000, 100, 0);
    observe(*state, 2000, 4000, 0);
    observe(*state, 10000, 3000, -jump_us); /* ours went forward */
    assert_estimate(*state, 50000, 50000 + OFFSET_US - jump_us, 1500);
    observe(*state, 60000, 5000, 0); /* and theirs */
    assert_estimate(*state, 90000, 90000 + OFFSET_US, 2500);
}

static void
clock_takes_what_slow_round_trips_leave_open_for_no_jump(void **state)
{
    const int64_t slow_us = 4 * (int64_t)TIME_US_PER_S;
    observe(*state, 1000, 100, 0);
    observe(*state, 2000, slow_us, slow_us / 2);
    assert_estimate(*state, 50000, 50000 + OFFSET_US, 50);
}

static void
clock_forgets_all_when_reset(void **state)
{
    struct db_time time;
    int64_t error_us;

    observe(*state, 0, 10, 0);
    db_clock_reset(*state);
    assert_false(db_clock_read(*state, mono(100), &time, &error_us));
    observe(*state, 0, 800, 3);
    assert_estimate(*state, 100, 100 + OFFSET_US + 3, 400);
}

static void
mono_now_never_goes_back(void **state)
{
    struct mono_time last = mono_now();

    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct mono_time now = mono_now();
        assert_true(now.us >= last.us);
        last = now;
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
#define CLOCK_TEST(name) cmocka_unit_test_setup_teardown(name, clock_setup, clock_teardown)
        CLOCK_TEST(clock_knows_nothing_before_the_first_round_trip),
        CLOCK_TEST(clock_takes_the_middle_and_errs_by_half_a_round_trip),
        CLOCK_TEST(clock_rounds_its_error_up),
        CLOCK_TEST(clock_believes_the_fastest_round_trip),
        CLOCK_TEST(clock_forgets_the_fastest_after_eight_others),
        CLOCK_TEST(clock_believes_only_what_it_saw_since_a_jump),
        CLOCK_TEST(clock_takes_what_slow_round_trips_leave_open_for_no_jump),
        CLOCK_TEST(clock_forgets_all_when_reset),
        cmocka_unit_test(mono_now_never_goes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
