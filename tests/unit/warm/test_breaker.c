/* How the breaker opens, probes and closes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "holdfast/breaker.h"

static const struct breaker_limits limits = {
    .failures_to_open = 5, .pause_min_us = 1000, .pause_max_us = 30000, .trial_us = 500
};
static struct breaker *breaker;
static int told[3];

static void
count(void *context, enum breaker_state state)
{
    (void)context;
    told[state]++;
}

static struct mono_time
at(int64_t us)
{
    return (struct mono_time){ 1000000000 + us };
}

static int
up(void **state)
{
    (void)state;
    told[0] = told[1] = told[2] = 0;
    breaker = breaker_new(&limits, count, NULL);
    return breaker == NULL;
}

static int
down(void **state)
{
    (void)state;
    breaker_free(&breaker);
    return 0;
}

static void
fail_times(int times, int64_t us)
{
    for (int i = 0; i < times; i++)
        breaker_failed(breaker, at(us));
}

static void
five_failures_in_a_row_open_it(void **state)
{
    (void)state;
    fail_times(4, 0);
    assert_true(breaker_allows(breaker, at(0)));
    breaker_worked(breaker, at(0));
    fail_times(4, 0);
    assert_int_equal(breaker_state(breaker), BREAKER_CLOSED);
    fail_times(1, 0);
    assert_int_equal(breaker_state(breaker), BREAKER_OPEN);
    assert_false(breaker_allows(breaker, at(1000000)));
    fail_times(3, 0); /* those that were under way */
    assert_int_equal(told[BREAKER_OPEN], 1);
}

static void
probes_come_after_pauses_that_double_up_to_the_longest(void **state)
{
    (void)state;
    static const int64_t pauses[] = { 1000, 2000, 4000, 8000, 16000, 30000, 30000 };
    int64_t now = 0;
    fail_times(5, now);
    for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
        assert_false(breaker_probe_is_due(breaker, at(now + pauses[i] - 1)));
        now += pauses[i];
        assert_true(breaker_probe_is_due(breaker, at(now)));
        breaker_probed(breaker, at(now), false);
    }
}

static void
a_sign_of_life_ends_the_pause(void **state)
{
    (void)state;
    fail_times(5, 0);
    breaker_may_be_back(breaker, at(500));
    assert_int_equal(breaker_state(breaker), BREAKER_OPEN); /* it proves nothing */
    assert_true(breaker_probe_is_due(breaker, at(500)));
    breaker_probed(breaker, at(500), false);
    assert_false(breaker_probe_is_due(breaker, at(500 + 1999))); /* and the next pause is longer */
    assert_true(breaker_probe_is_due(breaker, at(500 + 2000)));
}

static void
half_open_lets_one_use_try(void **state)
{
    (void)state;
    fail_times(5, 0);
    breaker_probed(breaker, at(1000), true);
    assert_int_equal(breaker_state(breaker), BREAKER_HALF_OPEN);
    assert_true(breaker_allows(breaker, at(1000)));
    assert_false(breaker_allows(breaker, at(1000)));
    breaker_worked(breaker, at(1010));
    assert_int_equal(breaker_state(breaker), BREAKER_CLOSED);
    assert_true(breaker_allows(breaker, at(1010)));
    assert_int_equal(told[BREAKER_HALF_OPEN] + told[BREAKER_CLOSED], 2);
}

static void
a_trial_that_fails_opens_it_for_longer(void **state)
{
    (void)state;
    fail_times(5, 0);
    breaker_probed(breaker, at(1000), true);
    assert_true(breaker_allows(breaker, at(1000)));
    breaker_failed(breaker, at(1010));
    assert_int_equal(breaker_state(breaker), BREAKER_OPEN);
    assert_false(breaker_probe_is_due(breaker, at(1010 + 1999)));
    assert_true(breaker_probe_is_due(breaker, at(1010 + 2000)));
}

static void
a_trial_that_nobody_reports_on_is_given_to_another(void **state)
{
    (void)state;
    fail_times(5, 0);
    breaker_probed(breaker, at(1000), true);
    assert_true(breaker_allows(breaker, at(1000)));
    assert_false(breaker_allows(breaker, at(1499)));
    assert_true(breaker_allows(breaker, at(1500)));
}

static void
a_success_of_before_does_not_close_what_opened_since(void **state)
{
    (void)state;
    fail_times(5, 0);
    breaker_worked(breaker, at(10));
    assert_int_equal(breaker_state(breaker), BREAKER_OPEN);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(five_failures_in_a_row_open_it, up, down),
        cmocka_unit_test_setup_teardown(probes_come_after_pauses_that_double_up_to_the_longest, up,
                                        down),
        cmocka_unit_test_setup_teardown(a_sign_of_life_ends_the_pause, up, down),
        cmocka_unit_test_setup_teardown(half_open_lets_one_use_try, up, down),
        cmocka_unit_test_setup_teardown(a_trial_that_fails_opens_it_for_longer, up, down),
        cmocka_unit_test_setup_teardown(a_trial_that_nobody_reports_on_is_given_to_another, up,
                                        down),
        cmocka_unit_test_setup_teardown(a_success_of_before_does_not_close_what_opened_since, up,
                                        down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
