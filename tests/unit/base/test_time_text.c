/*
 * RFC 3339 out and in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "holdfast/clock.h"

static void
assert_writes(int64_t us, const char *expected)
{
    char text[DB_TIME_TEXT_BYTES];

    db_time_format((struct db_time){ us }, text);
    assert_string_equal(text, expected);
}

static void
assert_reads(const char *text, int64_t expected_us)
{
    struct db_time time = { -1 };

    assert_true(db_time_parse(slice_of(text), &time));
    assert_int_equal(time.us, expected_us);
}

static void
assert_refuses(const char *text)
{
    struct db_time time = { 42 };

    if (db_time_parse(slice_of(text), &time))
        fail_msg("took '%s' for a time", text);
    assert_int_equal(time.us, 42);
}

static void
time_is_written_in_utc_with_milliseconds(void **state)
{
    (void)state;
    assert_writes(0, "1970-01-01T00:00:00.000Z");
    assert_writes(1769862896789000, "2026-01-31T12:34:56.789Z");
    assert_writes(951782400000000, "2000-02-29T00:00:00.000Z");
    assert_writes(4107542399999999, "2100-02-28T23:59:59.999Z");
    assert_writes(4107542400000000, "2100-03-01T00:00:00.000Z");
}

static void
time_is_rounded_down_also_before_the_epoch(void **state)
{
    (void)state;
    assert_writes(1999, "1970-01-01T00:00:00.001Z");
    assert_writes(-1, "1969-12-31T23:59:59.999Z");
}

static void
time_stays_within_four_digits_of_a_year(void **state)
{
    (void)state;
    assert_writes(INT64_MAX, "9999-12-31T23:59:59.999Z");
    assert_writes(INT64_MIN, "0000-01-01T00:00:00.000Z");
}

static void
time_is_read_with_any_offset(void **state)
{
    (void)state;
    assert_reads("2026-01-31T12:34:56Z", 1769862896000000);
    assert_reads("2026-01-31t12:34:56z", 1769862896000000);
    assert_reads("2026-01-31T14:04:56+01:30", 1769862896000000);
    assert_reads("2026-01-31T00:34:56-12:00", 1769862896000000);
    assert_reads("1970-01-01T00:30:00+01:00", -1800000000);
    assert_reads("2026-01-31T12:34:56-00:00", 1769862896000000);
}

static void
time_is_read_with_up_to_six_digits_of_a_second(void **state)
{
    (void)state;
    assert_reads("1970-01-01T00:00:00.5Z", 500000);
    assert_reads("1970-01-01T00:00:00.000001Z", 1);
    assert_reads("1970-01-01T00:00:00.123456Z", 123456);
    assert_refuses("1970-01-01T00:00:00.1234567Z");
    assert_refuses("1970-01-01T00:00:00.Z");
}

static void
a_leap_second_is_the_first_of_the_next_minute(void **state)
{
    (void)state;
    assert_reads("1970-01-01T00:00:60Z", 60000000);
    assert_refuses("1970-01-01T00:00:61Z");
}

static void
what_is_no_time_is_refused(void **state)
{
    static const char *const refused[] = {
        "",
        "now",
        "2026-01-31",
        "2026-01-31T12:34:56",
        "2026-01-31T12:34Z",
        "2026-01-31 12:34:56Z",
        "2026-1-31T12:34:56Z",
        "2026-13-01T12:34:56Z",
        "2026-00-01T12:34:56Z",
        "2026-02-29T12:34:56Z",
        "2100-02-29T12:34:56Z",
        "2026-04-31T12:34:56Z",
        "2026-01-00T12:34:56Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:34:56+24:00",
        "2026-01-31T12:34:56+0100",
        "2026-01-31T12:34:56+01",
        "2026-01-31T12:34:56ZZ",
        "2026-01-31T12:34:56Z ",
        " 2026-01-31T12:34:56Z",
        "+026-01-31T12:34:56Z",
        "2026-01-31T12:34:-6Z",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        assert_refuses(refused[i]);
}

/* The C library is the second opinion, every 61 days from year 0 to 9999. */
static void
times_agree_with_the_c_library_and_come_back(void **state)
{
    (void)state;
    for (int64_t day = -719528; day < 2932896; day += 61) {
        time_t seconds = (time_t)(day * 86400 + 45296);
        struct tm tm;
        char expected[64], text[DB_TIME_TEXT_BYTES];
        assert_non_null(gmtime_r(&seconds, &tm));
        snprintf(expected, sizeof(expected), "%04d-%02d-%02dT%02d:%02d:%02d.250Z",
                 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        db_time_format((struct db_time){ seconds * TIME_US_PER_S + 250000 }, text);
        assert_string_equal(text, expected);
        assert_reads(text, seconds * TIME_US_PER_S + 250000);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_is_written_in_utc_with_milliseconds),
        cmocka_unit_test(time_is_rounded_down_also_before_the_epoch),
        cmocka_unit_test(time_stays_within_four_digits_of_a_year),
        cmocka_unit_test(time_is_read_with_any_offset),
        cmocka_unit_test(time_is_read_with_up_to_six_digits_of_a_second),
        cmocka_unit_test(a_leap_second_is_the_first_of_the_next_minute),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(times_agree_with_the_c_library_and_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
