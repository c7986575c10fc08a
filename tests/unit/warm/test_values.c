/* What stands under the keys, when it may replace what was there, and the words that carry it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "warm_internal.h"

#define HOLD_A "01890000-0000-7000-8000-00000000000a"
#define HOLD_B "01890000-0000-7000-8000-00000000000b"

static struct warm_hold
hold(void)
{
    struct warm_hold h = { .org = SLICE_LITERAL("acme"),
                           .event = SLICE_LITERAL("show"),
                           .seat = SLICE_LITERAL("12A"),
                           .user = SLICE_LITERAL("ann"),
                           .cart_token = SLICE_LITERAL("a\"b"),
                           .version = 7,
                           .ttl_ms = 1000,
                           .held_at = { INT64_C(1769863000123456) },
                           .held_until = { INT64_C(1769863900999999) },
                           .as_of = { INT64_C(1769863200500000) } };
    assert_true(uuid_parse(SLICE_LITERAL(HOLD_A), &h.hold_id));
    return h;
}

static void
a_value_is_json_with_hold_first_and_version_last(void **state)
{
    (void)state;
    struct buf out = { 0 };
    struct warm_hold h = hold();
    warm_value(&out, &h);
    assert_string_equal(out.data,
                        "{\"hold_id\":\"" HOLD_A "\",\"user_id\":\"ann\",\"cart_token\":\"a\\\"b\","
                        "\"expires_at\":\"2026-01-31T12:51:40.999Z\","
                        "\"held_at\":\"2026-01-31T12:36:40.123Z\",\"seat\":\"acme/show/12A\","
                        "\"as_of\":\"2026-01-31T12:40:00.500Z\",\"version\":7}");
    buf_clear(&out);
    warm_member(&out, &h);
    assert_string_equal(out.data, "12A:" HOLD_A ":ann");
    buf_fini(&out);
}

/* --- reading ------------------------------------------------------------------------- */

static bool
reads(const char *text, struct warm_reading *reading)
{
    return warm_value_read(slice_of(text), SLICE_LITERAL("acme"), SLICE_LITERAL("show"),
                           SLICE_LITERAL("12A"), reading);
}

static void
what_was_written_is_read(void **state)
{
    (void)state;
    struct buf out = { 0 };
    struct warm_hold h = hold();
    struct warm_reading reading;
    warm_value(&out, &h);
    assert_true(reads(out.data, &reading));
    assert_true(uuid_equal(&reading.hold_id, &h.hold_id));
    assert_string_equal(reading.user, "ann");
    assert_int_equal(reading.version, 7);
    assert_int_equal(reading.held_until.us, INT64_C(1769863900999000)); /* in milliseconds */
    assert_int_equal(reading.as_of.us, h.as_of.us);
    buf_fini(&out);
}

#define WHOLE(seat, version)                                                                       \
    "{\"hold_id\":\"" HOLD_A "\",\"user_id\":\"ann\",\"expires_at\":\"2026-01-31T12:51:40.999Z\"," \
    "\"seat\":\"" seat "\",\"as_of\":\"2026-01-31T12:40:00.500Z\",\"version\":" version "}"

static void
nothing_but_a_whole_value_of_this_seat_is_read(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "",
        "nonsense",
        "[]",
        "{}",
        "7",
        WHOLE("acme/show/12B", "7"),
        WHOLE("acne/show/12A", "7"),
        WHOLE("acme/show/12A", "0"),
        WHOLE("acme/show/12A", "-7"),
        WHOLE("acme/show/12A", "7.5"),
        WHOLE("acme/show/12A", "\"7\""),
        WHOLE("acme/show/12A", "99999999999999999999"),
        WHOLE("acme/show/12A", "7") "}",
        WHOLE("acme/show/12A", "7,\"version\":8"),
        /* as issue 2 wrote it: without a seat and a time */
        "{\"hold_id\":\"" HOLD_A "\",\"user_id\":\"ann\",\"cart_token\":\"c\",\"expires_at\":"
        "\"2026-01-31T12:51:40.999Z\",\"held_at\":\"2026-01-31T12:36:40.123Z\",\"version\":7}",
        "{\"hold_id\":\"x\",\"user_id\":\"ann\",\"expires_at\":\"2026-01-31T12:51:40.999Z\","
        "\"seat\":\"acme/show/12A\",\"as_of\":\"2026-01-31T12:40:00.500Z\",\"version\":7}",
        "{\"hold_id\":\"" HOLD_A
        "\",\"user_id\":\"a b\",\"expires_at\":\"2026-01-31T12:51:40.999Z\","
        "\"seat\":\"acme/show/12A\",\"as_of\":\"2026-01-31T12:40:00.500Z\",\"version\":7}",
        "{\"hold_id\":\"" HOLD_A "\",\"user_id\":\"ann\",\"expires_at\":\"soon\","
        "\"seat\":\"acme/show/12A\",\"as_of\":\"2026-01-31T12:40:00.500Z\",\"version\":7}",
        "{\"hold_id\":\"" HOLD_A
        "\",\"user_id\":\"ann\",\"expires_at\":\"2026-01-31T12:51:40.999Z\","
        "\"seat\":\"acme/show/12A\",\"as_of\":7,\"version\":7}",
    };
    struct warm_reading reading;
    assert_true(reads(WHOLE("acme/show/12A", "7"), &reading));
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (reads(refused[i], &reading))
            fail_msg("read: %s", refused[i]);
}

static void
a_value_is_compared_to_the_letter_but_for_its_as_of(void **state)
{
    (void)state;
    struct buf out = { 0 };
    struct warm_hold h = hold(), other = h;
    warm_value(&out, &h);
    other.as_of.us += 12345678;
    assert_true(warm_value_is(buf_slice(&out), &other));
    other.version = 8;
    assert_false(warm_value_is(buf_slice(&out), &other));
    other = h;
    other.held_until.us += 1000;
    assert_false(warm_value_is(buf_slice(&out), &other));
    other = h;
    other.cart_token = SLICE_LITERAL("b");
    assert_false(warm_value_is(buf_slice(&out), &other));
    other = h;
    other.seat = SLICE_LITERAL("12B");
    assert_false(warm_value_is(buf_slice(&out), &other));
    for (size_t len = 0; len < out.len; len++)
        assert_false(warm_value_is((struct slice){ out.data, len }, &h));
    out.data[out.len - 20] = 'x'; /* within as_of */
    assert_false(warm_value_is(buf_slice(&out), &h));
    buf_fini(&out);
}

static void
keys_outlive_their_hold_by_a_minute(void **state)
{
    (void)state;
    struct warm_hold h = hold();
    assert_int_equal(warm_keep_ms(&h), 61000);
    h.ttl_ms = -59999;
    assert_int_equal(warm_keep_ms(&h), 1);
    h.ttl_ms = INT64_MIN;
    assert_int_equal(warm_keep_ms(&h), 1); /* PX 0 or less would be an error */
}

static bool
replaces(const char *value, const char *old)
{
    return warm_value_replaces(slice_of(value), slice_of(old));
}

#define VALUE(hold, version) "{\"hold_id\":\"" hold "\",\"user_id\":\"u\",\"version\":" version "}"

static void
an_older_or_equal_version_of_the_same_hold_is_replaced(void **state)
{
    (void)state;
    assert_true(replaces(VALUE(HOLD_A, "7"), VALUE(HOLD_A, "0")));
    assert_true(replaces(VALUE(HOLD_A, "7"), VALUE(HOLD_A, "7")));
    assert_false(replaces(VALUE(HOLD_A, "7"), VALUE(HOLD_A, "8")));
    assert_false(replaces(VALUE(HOLD_A, "99"), VALUE(HOLD_A, "100")));
}

static void
whatever_else_was_there_is_looked_at(void **state)
{
    (void)state;
    assert_false(replaces(VALUE(HOLD_A, "7"), VALUE(HOLD_B, "1")));
    assert_false(replaces(VALUE(HOLD_A, "7"), ""));
    assert_false(replaces(VALUE(HOLD_A, "7"), "nonsense"));
}

static void
a_version_that_is_no_number_counts_as_none(void **state)
{
    (void)state;
    assert_true(replaces(VALUE(HOLD_A, "7"), VALUE(HOLD_A, "x")));
    assert_true(replaces(VALUE(HOLD_A, "7"), VALUE(HOLD_A, "99999999999999999999")));
    /* Half a value names no user: it is looked at. */
    assert_false(replaces(VALUE(HOLD_A, "7"), "{\"hold_id\":\"" HOLD_A "\""));
}

static void
commands_are_words_with_their_lengths(void **state)
{
    (void)state;
    struct buf out = { 0 };
    warm_command(&out, 4, "SET");
    warm_word(&out, (struct slice){ "a\r\n\0b", 5 });
    warm_word(&out, SLICE_EMPTY);
    warm_word_int(&out, -12);
    static const char wanted[] = "*4\r\n$3\r\nSET\r\n$5\r\na\r\n\0b\r\n$0\r\n\r\n$3\r\n-12\r\n";
    assert_int_equal(out.len, sizeof(wanted) - 1);
    assert_memory_equal(out.data, wanted, out.len);

    struct slice command = buf_slice(&out);
    assert_true(slice_is(warm_word_at(command, 0), "SET"));
    assert_true(slice_equal(warm_word_at(command, 1), (struct slice){ "a\r\n\0b", 5 }));
    assert_int_equal(warm_word_at(command, 2).len, 0);
    assert_true(slice_is(warm_word_at(command, 3), "-12"));
    assert_int_equal(warm_word_at(command, 4).len, 0);
    buf_fini(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_json_with_hold_first_and_version_last),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(nothing_but_a_whole_value_of_this_seat_is_read),
        cmocka_unit_test(a_value_is_compared_to_the_letter_but_for_its_as_of),
        cmocka_unit_test(keys_outlive_their_hold_by_a_minute),
        cmocka_unit_test(an_older_or_equal_version_of_the_same_hold_is_replaced),
        cmocka_unit_test(whatever_else_was_there_is_looked_at),
        cmocka_unit_test(a_version_that_is_no_number_counts_as_none),
        cmocka_unit_test(commands_are_words_with_their_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
