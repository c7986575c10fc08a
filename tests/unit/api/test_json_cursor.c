/* The cursor finds what cJSON finds, in every text that the scanner takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "holdfast/json.h"
#include "json_cursor.h"

static struct arena arena;

static void
members_come_in_order_whatever_the_spaces(void **state)
{
    struct json_value name, value;
    struct json_cursor cursor = json_cursor_open(
        json_value_of(SLICE_LITERAL(" { \"a\" : 1 , \"b\":[1,{\"x\":\"]}\"}],\n\"c\" :null }\t")));

    (void)state;
    assert_true(json_cursor_member(&cursor, &name, &value));
    assert_true(slice_is(name.raw, "\"a\"") && slice_is(value.raw, "1"));
    assert_true(json_cursor_member(&cursor, &name, &value));
    assert_true(slice_is(value.raw, "[1,{\"x\":\"]}\"}]"));
    assert_int_equal(value.kind, JSON_ARRAY);
    assert_true(json_cursor_member(&cursor, &name, &value));
    assert_int_equal(value.kind, JSON_NULL);
    assert_false(json_cursor_member(&cursor, &name, &value));
}

static void
texts_without_escapes_stay_where_they_are(void **state)
{
    struct slice body = SLICE_LITERAL("\"seat\"");
    struct slice text;

    (void)state;
    assert_true(json_value_text(&arena, json_value_of(body), &text));
    assert_ptr_equal(text.ptr, body.ptr + 1);
    assert_null(arena.blocks);
}

static void
whole_numbers_are_whole_however_they_are_written(void **state)
{
    static const struct {
        const char *text;
        bool is_whole;
        int64_t value;
    } cases[] = {
        { "0", true, 0 },
        { "-0", true, 0 },
        { "12", true, 12 },
        { "-7", true, -7 },
        { "7.0", true, 7 },
        { "70e-1", true, 7 },
        { "7e0", true, 7 },
        { "9007199254740991", true, INT64_C(9007199254740991) },
        { "7.5", false, 0 },
        { "1e400", false, 0 },
        { "9007199254740993", false, 0 },
        { "\"7\"", false, 0 },
        { "true", false, 0 },
        { "123456789012345678901234567890", false, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t value = -1;
        bool is_whole = json_value_int(json_value_of(slice_of(cases[i].text)), -100,
                                       INT64_C(9007199254740991), &value);
        assert_int_equal(is_whole, cases[i].is_whole);
        if (is_whole)
            assert_int_equal(value, cases[i].value);
    }
    int64_t value;
    assert_false(json_value_int(json_value_of(SLICE_LITERAL("5")), 6, 7, &value));
}

static void
a_count_that_is_too_large_to_be_kept_is_the_largest(void **state)
{
    static const struct {
        const char *text;
        bool is_count;
        int64_t value;
    } cases[] = {
        { "1", true, 1 },
        { "2.0", true, 2 },
        { "9999999999999999", true, INT64_C(9999999999999999) },
        { "99999999999999999", true, INT64_MAX },
        { "99999999999999999999", true, INT64_MAX },
        { "1e30", true, INT64_MAX },
        { "1e400", true, INT64_MAX },
        { "1234567890123456789012345678901234567890123456789012345678901234567890", true,
          INT64_MAX },
        { "0", false, 0 },
        { "-1", false, 0 },
        { "1.5", false, 0 },
        { "-99999999999999999999", false, 0 },
        { "-1e30", false, 0 },
        { "\"99999999999999999999\"", false, 0 },
        { "null", false, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t value = -1;
        bool is_count = json_value_count(json_value_of(slice_of(cases[i].text)), 1, &value);
        assert_int_equal(is_count, cases[i].is_count);
        if (is_count)
            assert_int_equal(value, cases[i].value);
    }
}

/* --- beside cJSON ------------------------------------------------------------------------- */

static void compare(struct json_value value, const struct cJSON *item);

static void
compare_text(struct json_value value, const char *expected)
{
    struct slice text;

    assert_int_equal(value.kind, JSON_STRING);
    assert_true(json_value_text(&arena, value, &text));
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.ptr, expected, text.len);
}

static void
compare_children(struct json_value value, const struct cJSON *item)
{
    struct json_cursor cursor = json_cursor_open(value);
    struct json_value name, child;

    for (const struct cJSON *at = item->child; at != NULL; at = at->next) {
        if (cJSON_IsObject(item)) {
            assert_true(json_cursor_member(&cursor, &name, &child));
            compare_text(name, at->string);
        } else {
            assert_true(json_cursor_element(&cursor, &child));
        }
        compare(child, at);
    }
    assert_false(json_cursor_element(&cursor, &child));
}

static void
compare(struct json_value value, const struct cJSON *item)
{
    if (cJSON_IsObject(item) || cJSON_IsArray(item)) {
        assert_int_equal(value.kind, cJSON_IsObject(item) ? JSON_OBJECT : JSON_ARRAY);
        compare_children(value, item);
    } else if (cJSON_IsString(item)) {
        compare_text(value, item->valuestring);
    } else if (cJSON_IsNumber(item)) {
        assert_int_equal(value.kind, JSON_NUMBER);
    } else {
        assert_int_equal(value.kind, cJSON_IsTrue(item)    ? JSON_TRUE
                                     : cJSON_IsFalse(item) ? JSON_FALSE
                                                           : JSON_NULL);
    }
}

/* Texts of random pieces; those that the scanner takes are walked. The seed is printed. */
static size_t
random_text(char *out, size_t room, int depth)
{
    static const char *const scalars[] = { "1",
                                           "-2.5e3",
                                           "true",
                                           "false",
                                           "null",
                                           "\"\"",
                                           "\"a b\"",
                                           "\"\\\"\\\\\\n\"",
                                           "\"\\u00fc\\ud83d\\ude00\"",
                                           "\"]},{\"",
                                           "\"\xc3\xbc\"" };
    size_t len = 0;
    int kind = rand() % (depth > 4 ? 1 : 3);

    if (kind == 0)
        return (size_t)snprintf(out, room, "%s",
                                scalars[(size_t)rand() % (sizeof(scalars) / sizeof(scalars[0]))]);
    len += (size_t)snprintf(out, room, kind == 1 ? "[ " : "{");
    int count = rand() % 4;
    for (int i = 0; i < count; i++) {
        if (kind == 2)
            len += (size_t)snprintf(out + len, room - len, "\"%c\\u006%d\" :", 'a' + i, i);
        len += random_text(out + len, room - len, depth + 1);
        if (i + 1 < count)
            len += (size_t)snprintf(out + len, room - len, rand() % 2 ? "," : " ,\t");
    }
    len += (size_t)snprintf(out + len, room - len, kind == 1 ? "]" : "}");
    return len;
}

static void
it_agrees_with_a_tree_on_random_texts(void **state)
{
    static char text[1 << 16];
    unsigned seed = (unsigned)time(NULL);
    struct json_error error;

    (void)state;
    print_message("seed %u\n", seed);
    srand(seed);
    for (int i = 0; i < 2000; i++) {
        size_t len = random_text(text, sizeof(text), 0);
        struct slice body = { text, len };
        struct cJSON *tree = json_parse(body, &error);
        if (tree == NULL)
            fail_msg("%s at %zu: %s", error.reason, error.offset, text);
        compare(json_value_of(body), tree);
        cJSON_Delete(tree);
        arena_fini(&arena);
    }
}

static int
free_arena(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_come_in_order_whatever_the_spaces),
        cmocka_unit_test(texts_without_escapes_stay_where_they_are),
        cmocka_unit_test(whole_numbers_are_whole_however_they_are_written),
        cmocka_unit_test(a_count_that_is_too_large_to_be_kept_is_the_largest),
        cmocka_unit_test(it_agrees_with_a_tree_on_random_texts),
    };
    return cmocka_run_group_tests(tests, NULL, free_arena);
}
