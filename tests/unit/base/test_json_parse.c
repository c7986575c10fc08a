/*
 * The tree that handlers read, and which numbers count as whole ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cjson/cJSON.h>
#include <string.h>

#include <cmocka.h>

#include "holdfast/json.h"

static void
parse_builds_a_tree(void **state)
{
    struct json_error error;
    /* No NUL ends the text: the length alone counts. */
    struct slice text = { "{\"seat\":\"A\\u00e9\",\"n\":[1,2]}trailing", 28 };
    cJSON *tree = json_parse(text, &error);

    (void)state;
    assert_non_null(tree);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(tree, "seat")->valuestring, "A\xc3\xa9");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(tree, "n")), 2);
    cJSON_Delete(tree);
}

static void
parse_refuses_what_the_scanner_refuses(void **state)
{
    struct json_error error = { 0, NULL };

    (void)state;
    assert_null(json_parse(SLICE_LITERAL("{\"a\":1,\"a\":2}"), &error));
    assert_non_null(error.reason);
    assert_null(json_parse(SLICE_LITERAL("[1] x"), &error));
    assert_null(json_parse(SLICE_EMPTY, &error));
}

/* Some versions of cJSON read 63 characters of it and call that the number. */
static void
a_long_number_is_read_whole_or_refused(void **state)
{
    struct json_error error = { 0, NULL };
    char digits[100];
    cJSON *tree;

    (void)state;
    memset(digits, '1', sizeof(digits));
    tree = json_parse((struct slice){ digits, sizeof(digits) }, &error);
    if (tree == NULL)
        assert_string_equal(error.reason, "a number has too many digits");
    else
        assert_true(tree->valuedouble > 1e99);
    cJSON_Delete(tree);
}

static void
parse_takes_blanks_around_the_value(void **state)
{
    struct json_error error;
    cJSON *tree = json_parse(SLICE_LITERAL(" \r\n\t[1] \r\n\t"), &error);

    (void)state;
    assert_non_null(tree);
    cJSON_Delete(tree);
}

/* Parses `text` and asks for an integer between min and max. */
static bool
int_of(const char *text, int64_t min, int64_t max, int64_t *value)
{
    struct json_error error;
    cJSON *tree = json_parse(slice_of(text), &error);

    assert_non_null(tree);
    bool is_int = json_is_int(tree, min, max, value);
    cJSON_Delete(tree);
    return is_int;
}

static void
assert_int(const char *text, int64_t expected)
{
    int64_t value = -42;

    assert_true(int_of(text, INT64_MIN, INT64_MAX, &value));
    assert_int_equal(value, expected);
}

static void
assert_no_int(const char *text, int64_t min, int64_t max)
{
    int64_t value = 42;

    assert_false(int_of(text, min, max, &value));
    assert_int_equal(value, 42);
}

static void
whole_numbers_are_integers_however_written(void **state)
{
    (void)state;
    assert_int("0", 0);
    assert_int("-0", 0);
    assert_int("-17", -17);
    assert_int("3.0", 3);
    assert_int("12e2", 1200);
    assert_int("9007199254740991", 9007199254740991);
    assert_int("-9007199254740991", -9007199254740991);
}

static void
fractions_and_other_kinds_are_no_integers(void **state)
{
    (void)state;
    assert_no_int("1.5", 0, 10);
    assert_no_int("1e-1", 0, 10);
    assert_no_int("\"1\"", 0, 10);
    assert_no_int("true", 0, 10);
    assert_no_int("null", 0, 10);
    assert_no_int("[1]", 0, 10);
}

static void
numbers_outside_the_range_are_refused(void **state)
{
    int64_t value;

    (void)state;
    assert_no_int("0", 1, 10);
    assert_no_int("11", 1, 10);
    assert_true(int_of("1", 1, 10, &value));
    assert_true(int_of("10", 1, 10, &value));
}

static void
numbers_that_a_double_can_not_tell_apart_are_refused(void **state)
{
    (void)state;
    assert_no_int("9007199254740992", INT64_MIN, INT64_MAX);
    assert_no_int("9007199254740993", INT64_MIN, INT64_MAX);
    assert_no_int("-9007199254740993", INT64_MIN, INT64_MAX);
    assert_no_int("9223372036854775808", INT64_MIN, INT64_MAX);
    assert_no_int("1e300", INT64_MIN, INT64_MAX);
    assert_no_int("1e999", INT64_MIN, INT64_MAX);
}

static void
an_absent_item_is_no_integer(void **state)
{
    int64_t value;

    (void)state;
    assert_false(json_is_int(NULL, 0, 1, &value));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_builds_a_tree),
        cmocka_unit_test(parse_refuses_what_the_scanner_refuses),
        cmocka_unit_test(a_long_number_is_read_whole_or_refused),
        cmocka_unit_test(parse_takes_blanks_around_the_value),
        cmocka_unit_test(whole_numbers_are_integers_however_written),
        cmocka_unit_test(fractions_and_other_kinds_are_no_integers),
        cmocka_unit_test(numbers_outside_the_range_are_refused),
        cmocka_unit_test(numbers_that_a_double_can_not_tell_apart_are_refused),
        cmocka_unit_test(an_absent_item_is_no_integer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
