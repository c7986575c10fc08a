/*
 * What the writer writes; json_scan is the judge of whether it is JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dies.h"
#include "holdfast/json.h"

static struct buf out;
static struct json_writer w;

static int
writer_setup(void **state)
{
    (void)state;
    json_writer_init(&w, &out);
    return 0;
}

static int
writer_teardown(void **state)
{
    (void)state;
    buf_fini(&out);
    return 0;
}

static void
assert_written(const char *expected)
{
    struct json_error error;

    assert_false(out.failed);
    assert_string_equal(out.data, expected);
    assert_true(json_scan(buf_slice(&out), &error));
}

/* Writes one text alone and compares what stands between the quotes. */
static void
assert_text(const char *bytes, size_t len, const char *expected)
{
    char quoted[256];

    buf_clear(&out);
    json_writer_init(&w, &out);
    json_text(&w, (struct slice){ bytes, len });
    snprintf(quoted, sizeof(quoted), "\"%s\"", expected);
    assert_written(quoted);
}

#define ASSERT_TEXT(literal, expected) assert_text(literal, sizeof(literal) - 1, expected)

static void
commas_stand_between_values_and_nowhere_else(void **state)
{
    (void)state;
    json_object_begin(&w);
    json_field_int(&w, "a", 1);
    json_name(&w, "b");
    json_array_begin(&w);
    json_array_begin(&w);
    json_array_end(&w);
    json_object_begin(&w);
    json_object_end(&w);
    json_int(&w, -2);
    json_null(&w);
    json_raw(&w, SLICE_LITERAL("[3]"));
    json_array_end(&w);
    json_field_bool(&w, "c", true);
    json_field_text(&w, "d", SLICE_LITERAL("x"));
    json_name(&w, "e");
    json_object_begin(&w);
    json_field_bool(&w, "f", false);
    json_object_end(&w);
    json_object_end(&w);
    assert_written("{\"a\":1,\"b\":[[],{},-2,null,[3]],"
                   "\"c\":true,\"d\":\"x\",\"e\":{\"f\":false}}");
}

static void
an_empty_object_has_no_comma(void **state)
{
    (void)state;
    json_object_begin(&w);
    json_object_end(&w);
    assert_written("{}");
}

static void
integers_are_written_to_their_ends(void **state)
{
    (void)state;
    json_array_begin(&w);
    json_int(&w, INT64_MAX);
    json_int(&w, INT64_MIN);
    json_array_end(&w);
    assert_written("[9223372036854775807,-9223372036854775808]");
}

static void
doubles_have_the_decimals_asked_for(void **state)
{
    (void)state;
    json_array_begin(&w);
    json_double(&w, 33.35, 1);
    json_double(&w, 100, 1);
    json_double(&w, -0.04, 1);
    json_double(&w, -0.06, 1);
    json_double(&w, 2.5, 0);
    json_double(&w, 0.000000001, 9);
    json_array_end(&w);
    assert_string_equal(out.data, "[33.4,100.0,0.0,-0.1,3,0.000000001]");
}

static void
doubles_that_json_lacks_are_null(void **state)
{
    (void)state;
    json_array_begin(&w);
    json_double(&w, NAN, 1);
    json_double(&w, INFINITY, 1);
    json_double(&w, -1e300, 1);
    json_array_end(&w);
    assert_written("[null,null,null]");
}

static void
floats_are_short_and_those_that_json_lacks_are_null(void **state)
{
    (void)state;
    json_array_begin(&w);
    json_float(&w, 12.1F);
    json_float(&w, -0.5F);
    json_float(&w, 3.0F);
    json_float(&w, 16777217.0F / 3);
    json_float(&w, 1e20F);
    json_float(&w, (float)NAN);
    json_float(&w, (float)INFINITY);
    json_float(&w, -(float)INFINITY);
    json_array_end(&w);
    assert_written("[12.1,-0.5,3,5592405.5,1e+20,null,null,null]");
}

static void
a_float_has_a_point_in_every_locale(void **state)
{
    static const char *const with_comma[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "pt_BR.UTF-8",
                                              "de_DE.utf8",  "ps_AF",       "fa_IR" };
    bool is_set = false;

    (void)state;
    for (size_t i = 0; i < sizeof(with_comma) / sizeof(with_comma[0]) && !is_set; i++)
        is_set = setlocale(LC_NUMERIC, with_comma[i]) != NULL;
    if (!is_set)
        skip();
    json_array_begin(&w);
    json_float(&w, 12.1F);
    json_float(&w, -1.5e20F);
    json_array_end(&w);
    setlocale(LC_NUMERIC, "C");
    assert_written("[12.1,-1.5e+20]");
}

static void
uuid_is_written_as_text(void **state)
{
    struct uuid uuid;

    (void)state;
    assert_true(uuid_parse(SLICE_LITERAL("0190163d-8694-739b-aea5-966c26f8ad91"), &uuid));
    json_object_begin(&w);
    json_field_uuid(&w, "id", &uuid);
    json_object_end(&w);
    assert_written("{\"id\":\"0190163d-8694-739b-aea5-966c26f8ad91\"}");
}

static void
text_is_escaped_where_json_demands_it(void **state)
{
    (void)state;
    ASSERT_TEXT("", "");
    ASSERT_TEXT("plain / text \x7f", "plain / text \x7f");
    ASSERT_TEXT("\"\\", "\\\"\\\\");
    ASSERT_TEXT("\b\f\n\r\t", "\\b\\f\\n\\r\\t");
    ASSERT_TEXT("a\x01z\x1f", "a\\u0001z\\u001f");
    /* json_scan refuses \u0000, so this one is compared without it */
    buf_clear(&out);
    json_writer_init(&w, &out);
    json_text(&w, (struct slice){ "a\0b", 3 });
    assert_string_equal(out.data, "\"a\\u0000b\"");
}

static void
good_utf8_is_left_alone(void **state)
{
    (void)state;
    ASSERT_TEXT("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8e\xab",
                "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8e\xab");
    ASSERT_TEXT("\xc2\x80\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
                "\xc2\x80\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
}

#define BAD "\xEF\xBF\xBD"

static void
bad_utf8_is_replaced(void **state)
{
    (void)state;
    ASSERT_TEXT("a\x80z", "a" BAD "z");
    ASSERT_TEXT("\xff\xfe", BAD BAD);
    ASSERT_TEXT("\xc0\xaf", BAD BAD);                 /* overlong */
    ASSERT_TEXT("\xe0\x80\xaf", BAD BAD BAD);         /* overlong */
    ASSERT_TEXT("\xed\xa0\x80", BAD BAD BAD);         /* a surrogate */
    ASSERT_TEXT("\xf4\x90\x80\x80", BAD BAD BAD BAD); /* beyond U+10FFFF */
    ASSERT_TEXT("\xf5\x80", BAD BAD);
    ASSERT_TEXT("\xe2\x82", BAD); /* cut off at the end: one start, replaced once */
    ASSERT_TEXT("\xf0\x9f\x8e", BAD);
    ASSERT_TEXT("\xe2\x82\"", BAD "\\\""); /* cut off by something else */
    ASSERT_TEXT("\xc3\xc3\xa9", BAD "\xc3\xa9");
}

/* Whatever the bytes are, what comes out is JSON. */
static void
any_bytes_become_json(void **state)
{
    unsigned seed = 20260131;
    struct json_error error;

    (void)state;
    print_message("seed %u\n", seed);
    for (int round = 0; round < 2000; round++) {
        char bytes[40];
        for (size_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (char)(rand_r(&seed) >> 8);
            if (bytes[i] == 0)
                bytes[i] = 1; /* json_scan refuses \u0000 by contract */
        }
        buf_clear(&out);
        json_writer_init(&w, &out);
        json_text(&w, (struct slice){ bytes, sizeof(bytes) });
        assert_true(json_scan(buf_slice(&out), &error));
    }
}

static void
nest_too_deep(void)
{
    for (int i = 0; i <= JSON_NEST_MAX; i++)
        json_array_begin(&w);
}

static void
close_what_is_not_open(void)
{
    json_array_end(&w);
}

static void
wrong_nesting_is_our_own_bug_and_aborts(void **state)
{
    FILE *nowhere = tmpfile();

    (void)state;
    assert_non_null(nowhere);
    assert_true(dies(nest_too_deep, fileno(nowhere)));
    assert_true(dies(close_what_is_not_open, fileno(nowhere)));
    fclose(nowhere);
    for (int i = 0; i < JSON_NEST_MAX; i++)
        json_array_begin(&w);
    for (int i = 0; i < JSON_NEST_MAX; i++)
        json_array_end(&w);
    assert_written("[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
#define WRITER_TEST(name) cmocka_unit_test_setup_teardown(name, writer_setup, writer_teardown)
        WRITER_TEST(commas_stand_between_values_and_nowhere_else),
        WRITER_TEST(an_empty_object_has_no_comma),
        WRITER_TEST(integers_are_written_to_their_ends),
        WRITER_TEST(doubles_have_the_decimals_asked_for),
        WRITER_TEST(doubles_that_json_lacks_are_null),
        WRITER_TEST(floats_are_short_and_those_that_json_lacks_are_null),
        WRITER_TEST(a_float_has_a_point_in_every_locale),
        WRITER_TEST(uuid_is_written_as_text),
        WRITER_TEST(text_is_escaped_where_json_demands_it),
        WRITER_TEST(good_utf8_is_left_alone),
        WRITER_TEST(bad_utf8_is_replaced),
        WRITER_TEST(any_bytes_become_json),
        WRITER_TEST(wrong_nesting_is_our_own_bug_and_aborts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
