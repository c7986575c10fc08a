/* Wrong logins: counted per name and per address, with a clock that the tests move. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gate_fixture.h"
#include "holdfast/login_limit.h"

#define TRIES    5
#define BY_ONE   20 /* of one address */
#define WINDOW_S 900
#define MANY     (4 * LOGIN_COUNTS_MAX)

static struct mono_time
at_s(int64_t s)
{
    return (struct mono_time){ INT64_C(5000000) + s * TIME_US_PER_S };
}

static struct login_limit *
usual_limit(bool rate_limits)
{
    struct config config = gate_config();

    config.rate_limits = rate_limits;
    config.login_tries = TRIES;
    config.login_tries_per_address = BY_ONE;
    config.login_window = WINDOW_S * (int64_t)TIME_US_PER_S;
    struct login_limit *limit = login_limit_new(&config);
    assert_non_null(limit);
    return limit;
}

static bool last_was_last; /* what the try that ended last told */

/* The seconds to wait; 0: it was tried, and was wrong or right. */
static int64_t
try_at(struct login_limit *limit, const char *name, const char *address, bool is_wrong, int64_t s)
{
    struct login_try attempt;
    int64_t wait_s = login_limit_begin(limit, slice_of(name), slice_of(address), at_s(s), &attempt);

    if (wait_s == 0)
        last_was_last = login_limit_end(limit, &attempt, is_wrong, at_s(s));
    return wait_s;
}

static void
so_many_wrong_tries_of_a_name_and_none_more_until_the_window_ends(void **state)
{
    struct login_limit *limit = usual_limit(true);

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        assert_int_equal(try_at(limit, "o/A", "192.0.2.1", true, i * 10), 0);
        assert_int_equal(last_was_last, i == TRIES - 1);
    }
    assert_int_equal(try_at(limit, "o/A", "192.0.2.1", true, 50), WINDOW_S - 50);
    assert_int_equal(try_at(limit, "o/A", "192.0.2.2", false, 60), WINDOW_S - 60);
    assert_int_equal(try_at(limit, "o/B", "192.0.2.1", false, 60), 0);
    assert_int_equal(try_at(limit, "o/A", "192.0.2.1", false, WINDOW_S - 1), 1);
    assert_int_equal(try_at(limit, "o/A", "192.0.2.1", false, WINDOW_S), 0);
    login_limit_free(&limit);
}

static void
right_ones_are_not_counted(void **state)
{
    struct login_limit *limit = usual_limit(true);

    (void)state;
    for (int i = 0; i < 10 * BY_ONE; i++)
        assert_int_equal(try_at(limit, "o/A", "192.0.2.1", false, 0), 0);
    for (int i = 0; i < TRIES; i++)
        assert_int_equal(try_at(limit, "o/A", "192.0.2.1", true, 0), 0);
    assert_true(try_at(limit, "o/A", "192.0.2.1", false, 0) > 0);
    login_limit_free(&limit);
}

static void
tries_under_way_count_until_they_are_decided(void **state)
{
    struct login_limit *limit = usual_limit(true);
    struct login_try tries[TRIES], another;

    (void)state;
    for (int i = 0; i < TRIES; i++)
        assert_int_equal(
            login_limit_begin(limit, slice_of("o/A"), slice_of("192.0.2.1"), at_s(0), &tries[i]),
            0);
    assert_int_equal(
        login_limit_begin(limit, slice_of("o/A"), slice_of("192.0.2.1"), at_s(0), &another), 1);
    assert_false(login_limit_end(limit, &tries[0], false, at_s(0)));
    assert_int_equal(
        login_limit_begin(limit, slice_of("o/A"), slice_of("192.0.2.1"), at_s(0), &tries[0]), 0);
    for (int i = 0; i < TRIES; i++)
        (void)login_limit_end(limit, &tries[i], true, at_s(0));
    assert_int_equal(try_at(limit, "o/A", "192.0.2.1", false, 0), WINDOW_S);
    login_limit_free(&limit);
}

static void
an_address_has_a_count_over_all_names_unless_rate_limits_are_off(void **state)
{
    char name[16];

    (void)state;
    for (int on = 0; on < 2; on++) {
        struct login_limit *limit = usual_limit(on == 1);
        for (int i = 0; i < BY_ONE; i++) {
            snprintf(name, sizeof(name), "o/%d", i);
            assert_int_equal(try_at(limit, name, "192.0.2.1", true, 0), 0);
        }
        assert_int_equal(try_at(limit, "o/new", "192.0.2.1", false, 10), on ? WINDOW_S - 10 : 0);
        assert_int_equal(try_at(limit, "o/new", "192.0.2.2", false, 10), 0);
        assert_int_equal(try_at(limit, "o/new", "192.0.2.1", false, WINDOW_S), 0);
        login_limit_free(&limit);
    }
}

static void
ipv6_is_counted_by_its_64(void **state)
{
    struct login_limit *limit = usual_limit(true);
    char name[16], address[64];

    (void)state;
    for (int i = 0; i < BY_ONE; i++) {
        snprintf(name, sizeof(name), "o/%d", i);
        snprintf(address, sizeof(address), "2001:db8:0:7:%x::1", i);
        assert_int_equal(try_at(limit, name, address, true, 0), 0);
    }
    assert_int_equal(try_at(limit, "o/new", "2001:db8:0:7:ffff::", false, 0), WINDOW_S);
    assert_int_equal(try_at(limit, "o/new", "2001:db8:0:8::1", false, 0), 0);
    login_limit_free(&limit);
}

/* The table has places for a quarter of them. */
static void
more_names_than_there_is_room_for_refuse_nobody_who_was_not_wrong(void **state)
{
    struct login_limit *limit = usual_limit(false);
    char name[32];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "o/%d", i);
        assert_int_equal(try_at(limit, name, "192.0.2.1", true, 0), 0);
    }
    for (int i = 0; i < TRIES; i++)
        assert_int_equal(try_at(limit, "o/A", "192.0.2.1", true, 1), 0);
    for (int i = 0; i < MANY / 16; i++) {
        snprintf(name, sizeof(name), "p/%d", i);
        assert_int_equal(try_at(limit, name, "192.0.2.1", true, 1), 0);
    }
    assert_true(try_at(limit, "o/A", "192.0.2.1", false, 2) > 0); /* most wrong tries stay */
    login_limit_free(&limit);
}

static void
a_name_that_is_longer_than_any_is_counted_too(void **state)
{
    struct login_limit *limit = usual_limit(true);
    char name[2000];

    (void)state;
    memset(name, 'A', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < TRIES; i++)
        assert_int_equal(try_at(limit, name, "192.0.2.1", true, 0), 0);
    assert_true(try_at(limit, name, "192.0.2.1", true, 0) > 0);
    login_limit_free(&limit);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_wrong_tries_of_a_name_and_none_more_until_the_window_ends),
        cmocka_unit_test(right_ones_are_not_counted),
        cmocka_unit_test(tries_under_way_count_until_they_are_decided),
        cmocka_unit_test(an_address_has_a_count_over_all_names_unless_rate_limits_are_off),
        cmocka_unit_test(ipv6_is_counted_by_its_64),
        cmocka_unit_test(more_names_than_there_is_room_for_refuse_nobody_who_was_not_wrong),
        cmocka_unit_test(a_name_that_is_longer_than_any_is_counted_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
