/* How long Redis is left alone after failures; and a warm tier that is off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "warm_internal.h"

static struct mono_time
at_ms(int64_t ms)
{
    return (struct mono_time){ 1000000000 + ms * TIME_US_PER_MS };
}

static void
the_first_use_is_allowed_but_proves_nothing_yet(void **state)
{
    (void)state;
    struct warm_breaker breaker = { 0 };
    assert_true(warm_breaker_allows(&breaker, at_ms(0)));
    assert_false(breaker.worked);
}

static void
pauses_double_up_to_a_second(void **state)
{
    (void)state;
    struct warm_breaker breaker = { 0 };
    static const int pauses[] = { 100, 200, 400, 800, 1000, 1000 };
    int64_t now = 0;
    for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
        warm_breaker_note(&breaker, at_ms(now), false);
        assert_false(warm_breaker_allows(&breaker, at_ms(now + pauses[i] - 1)));
        assert_true(warm_breaker_allows(&breaker, at_ms(now + pauses[i])));
        now += pauses[i];
    }
}

static void
a_success_ends_the_pause(void **state)
{
    (void)state;
    struct warm_breaker breaker = { 0 };
    warm_breaker_note(&breaker, at_ms(0), false);
    warm_breaker_note(&breaker, at_ms(1), false);
    warm_breaker_note(&breaker, at_ms(2), true);
    assert_true(breaker.worked);
    assert_true(warm_breaker_allows(&breaker, at_ms(2)));
    warm_breaker_note(&breaker, at_ms(3), false);
    assert_true(warm_breaker_allows(&breaker, at_ms(103)));
}

static void
without_a_url_everything_is_off_and_harmless(void **state)
{
    (void)state;
    char empty[] = "";
    struct config config = { .redis_url = empty, .redis_timeout_ms = 50 };
    struct warm *warm = warm_new(&config);
    struct warm_hold hold = { .seat = SLICE_LITERAL("1") };
    char *json;
    size_t len;
    assert_non_null(warm);
    assert_false(warm_is_on(warm));
    assert_true(warm_is_up(warm));
    assert_false(warm_ping(warm));
    assert_false(warm_put(warm, &hold, 1));
    assert_false(warm_remove(warm, &hold, 1));
    assert_true(warm_collect(warm));
    assert_false(warm_get_seat(warm, SLICE_LITERAL("o"), SLICE_LITERAL("e"), SLICE_LITERAL("s"),
                               &json, &len));
    assert_int_equal(warm_count(warm, SLICE_LITERAL("o"), SLICE_LITERAL("e")), -1);
    warm_free(&warm);
    assert_null(warm);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_use_is_allowed_but_proves_nothing_yet),
        cmocka_unit_test(pauses_double_up_to_a_second),
        cmocka_unit_test(a_success_ends_the_pause),
        cmocka_unit_test(without_a_url_everything_is_off_and_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
