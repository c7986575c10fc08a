/* Decimal numbers as hundredths, rounded up and never through a binary fraction. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "holdfast/decimal.h"

static void
expect(const char *text, int64_t hundredths)
{
    int64_t got = -1;

    if (!decimal_hundredths_up(slice_of(text), &got))
        fail_msg("'%s' was refused", text);
    if (got != hundredths)
        fail_msg("'%s' is %lld, not %lld", text, (long long)got, (long long)hundredths);
}

static void
whole_numbers_and_two_decimals_are_exact(void **state)
{
    (void)state;
    expect("0", 0);
    expect("25", 2500);
    expect("25.0", 2500);
    expect("25.00", 2500);
    expect("25.01", 2501);
    expect("0.01", 1);
    expect("0.1", 10);
    expect("1.1", 110);
    expect("123456789.99", 12345678999);
    /* In binary each of these is a little less or more. */
    expect("0.29", 29);
    expect("1.15", 115);
    expect("4.35", 435);
    expect("64.41", 6441);
}

static void
what_is_more_is_rounded_up_however_little(void **state)
{
    (void)state;
    expect("25.001", 2501);
    expect("25.000000000000000000000000000001", 2501);
    expect("24.999", 2500);
    expect("24.991", 2500);
    expect("24.990", 2499);
    expect("0.000000000000000000000000000000000000000000001", 1);
    expect("25.0000000000000000000000000000000000000000000", 2500);
    expect("99.999", 10000);
}

static void
exponents_move_the_point(void **state)
{
    (void)state;
    expect("2.5e1", 2500);
    expect("2.5E+1", 2500);
    expect("250e-1", 2500);
    expect("2501e-2", 2501);
    expect("25001e-3", 2501);
    expect("0e999999999999", 0);
    expect("0.0e-999999999999", 0);
    expect("1e-400", 1);
    expect("1e9", INT64_C(100000000000));
    expect("1e10", HUNDREDTHS_MAX);
    expect("1e400", HUNDREDTHS_MAX);
    expect("1e99999999999999999999", HUNDREDTHS_MAX);
    expect("123456789012345678901234567890", HUNDREDTHS_MAX);
    expect("10000000000.001", HUNDREDTHS_MAX);
}

static void
what_is_below_zero_is_refused_and_minus_zero_is_zero(void **state)
{
    static const char *const below[] = { "-1", "-0.01", "-0.001", "-1e-400", "-1e400" };
    int64_t got;

    (void)state;
    expect("-0", 0);
    expect("-0.00", 0);
    expect("-0e5", 0);
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++)
        assert_false(decimal_hundredths_up(slice_of(below[i]), &got));
}

static void
what_is_no_number_is_refused(void **state)
{
    static const char *const none[] = { "",      "-",   ".",  ".5", "5.", "1e",   "1e+", "e1",
                                        "1.2.3", "NaN", "+1", "1 ", " 1", "0x10", "1,5", "--1" };
    int64_t got;

    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        if (decimal_hundredths_up(slice_of(none[i]), &got))
            fail_msg("'%s' was taken for %lld", none[i], (long long)got);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_and_two_decimals_are_exact),
        cmocka_unit_test(what_is_more_is_rounded_up_however_little),
        cmocka_unit_test(exponents_move_the_point),
        cmocka_unit_test(what_is_below_zero_is_refused_and_minus_zero_is_zero),
        cmocka_unit_test(what_is_no_number_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
