/*
 * What json_scan takes for JSON: its own rules case by case, then every file of
 * JSONTestSuite (corpora/json).
 */
#include <dirent.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "holdfast/json.h"

/*
 * The suite's must-accept files that holdfast refuses all the same, and why:
 * RFC 8259 leaves both open ("SHOULD be unique"; "implementations may limit").
 */
static const char *const refused_by_contract[] = {
    "y_object_duplicated_key.json",           /* API.md, Strictness: duplicate keys are refused */
    "y_object_duplicated_key_and_value.json", /* the same */
    "y_object_escaped_null_in_key.json",      /* \u0000 would cut the text in C */
    "y_string_null_escape.json",              /* the same */
};

static bool
takes(const char *text)
{
    struct json_error error;

    return json_scan(slice_of(text), &error);
}

static void
assert_refused_at(const char *text, size_t offset, const char *reason)
{
    struct json_error error = { 0, NULL };

    assert_false(json_scan(slice_of(text), &error));
    assert_string_equal(error.reason, reason);
    assert_int_equal(error.offset, offset);
}

static void
scan_takes_every_kind_of_value(void **state)
{
    (void)state;
    assert_true(takes("null"));
    assert_true(takes(" true\t\r\n"));
    assert_true(takes("-0.5e+10"));
    assert_true(takes("\"\""));
    assert_true(takes("[]"));
    assert_true(takes("{}"));
    assert_true(takes("{\"a\":[1,{\"a\":2},\"\\ud834\\udd1e\"],\"b\":{\"a\":null}}"));
}

static void
scan_tells_what_is_wrong_and_where(void **state)
{
    (void)state;
    assert_refused_at("", 0, "the text ends too early");
    assert_refused_at("{\"a\":1", 6, "the text ends too early");
    assert_refused_at("[1,]", 3, "unexpected character");
    assert_refused_at("{\"a\":1,}", 7, "unexpected character");
    assert_refused_at("[1}", 2, "unexpected character");
    assert_refused_at("1 2", 2, "something follows the value");
    assert_refused_at("\xEF\xBB\xBF{}", 0, "unexpected character");
    assert_refused_at("[tru]", 1, "unexpected word");
    assert_refused_at("\"a\tb\"", 2, "control character in a string");
    assert_refused_at("\"\\x\"", 1, "unknown escape");
    assert_refused_at("\"\\u00g0\"", 1, "\\u needs four hexadecimal digits");
}

static void
scan_refuses_what_is_not_a_number_of_the_grammar(void **state)
{
    static const char *const bad[] = { "01",  "-",   "+1",  ".5",  "1.",       "1e",
                                       "1e+", "0x1", "-01", "NaN", "Infinity", "1_000" };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(takes(bad[i]));
}

static void
scan_refuses_bytes_that_are_not_utf8(void **state)
{
    static const char *const bad[] = {
        "\"\x80\"",             /* a continuation alone */
        "\"\xC0\xAF\"",         /* overlong, two bytes */
        "\"\xC1\xBF\"",         /* overlong, two bytes */
        "\"\xE0\x9F\xBF\"",     /* overlong, three bytes */
        "\"\xF0\x8F\xBF\xBF\"", /* overlong, four bytes */
        "\"\xED\xA0\x80\"",     /* a surrogate */
        "\"\xF4\x90\x80\x80\"", /* above U+10FFFF */
        "\"\xF5\x80\x80\x80\"", /* above U+10FFFF */
        "\"\xE2\x82\"",         /* cut */
        "\"\xE2\x82",           /* cut at the end of the text */
    };
    static const char *const good[] = { "\"\xC2\x80\"",         "\"\xE0\xA0\x80\"",
                                        "\"\xED\x9F\xBF\"",     "\"\xEE\x80\x80\"",
                                        "\"\xF0\x90\x80\x80\"", "\"\xF4\x8F\xBF\xBF\"" };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused_at(bad[i], 1, "not UTF-8");
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(takes(good[i]));
}

static void
scan_refuses_nul_in_every_form(void **state)
{
    struct json_error error;

    (void)state;
    assert_refused_at("\"a\\u0000\"", 2, "\\u0000 is not accepted");
    assert_refused_at("{\"\\u0000\":1}", 2, "\\u0000 is not accepted");
    assert_false(json_scan(SLICE_LITERAL("\"a\0b\""), &error));
    assert_false(json_scan(SLICE_LITERAL("1\0"), &error));
    assert_true(takes("\"\\\\u0000\"")); /* a backslash and five characters */
}

static void
scan_refuses_half_a_surrogate_pair(void **state)
{
    static const char *const bad[] = { "\"\\ud834\"",       "\"\\udd1e\"",  "\"\\ud834\\ud834\"",
                                       "\"\\ud834\\n\"",    "\"\\ud834x\"", "\"\\ud834\\u12\"",
                                       "\"\\udd1e\\ud834\"" };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(takes(bad[i]));
}

static void
scan_refuses_a_name_twice_in_one_object_only(void **state)
{
    (void)state;
    assert_refused_at("{\"a\":1,\"b\":2,\"a\":3}", 13, "the same name twice in an object");
    assert_refused_at("[{\"a\":{\"b\":{},\"b\":1}}]", 14, "the same name twice in an object");
    assert_refused_at("{\"a\":{\"a\":[{\"a\":1}]},\"a\":1}", 21,
                      "the same name twice in an object");
    assert_false(takes("{\"\":1,\"\":2}"));
    assert_true(takes("{\"a\":1,\"A\":2,\"aa\":3,\"\":4}"));
    assert_true(takes("[{\"a\":1},{\"a\":1}]"));
}

static void
scan_compares_names_as_what_they_mean(void **state)
{
    (void)state;
    assert_false(takes("{\"a\":1,\"\\u0061\":2}"));
    assert_false(takes("{\"/\":1,\"\\/\":2}"));
    assert_false(takes("{\"\\n\":1,\"\\u000A\":2}"));
    assert_false(takes("{\"\xC3\xA9\":1,\"\\u00e9\":2}"));
    assert_false(takes("{\"\xE2\x82\xAC\":1,\"\\u20AC\":2}"));
    assert_false(takes("{\"\xF0\x9D\x84\x9E\":1,\"\\uD834\\uDD1E\":2}"));
    assert_true(takes("{\"\\\\u0061\":1,\"a\":2}"));
    assert_true(takes("{\"\\u0061b\":1,\"a\":2}"));
}

/* An object of `count` names; the one at `twice` repeats the first, written with an escape. */
static char *
large_object(int count, int twice)
{
    char *text = malloc((size_t)count * 24 + 16);
    char *at = text;

    assert_non_null(text);
    *at++ = '{';
    for (int i = 0; i < count; i++) {
        if (i == twice)
            at += sprintf(at, "\"\\u006eame-0\":[],");
        else
            at += sprintf(at, "\"name-%d\":[],", i);
    }
    strcpy(at - 1, "}");
    return text;
}

static void
scan_finds_a_name_twice_among_very_many(void **state)
{
    static const int counts[] = { 16, 17, 18, 32, 33, 34, 1000, 200000 };

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        char *good = large_object(counts[i], -1);
        char *bad = large_object(counts[i], counts[i] - 1);

        assert_true(takes(good));
        assert_refused_at(bad, (size_t)(strstr(bad, "\"\\u006e") - bad),
                          "the same name twice in an object");
        free(good);
        free(bad);
    }
}

static void
scan_goes_as_deep_as_allowed_and_no_deeper(void **state)
{
    char text[4 * JSON_DEPTH_MAX + 8];

    (void)state;
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    text[2 * JSON_DEPTH_MAX] = '\0';
    assert_true(takes(text));

    memset(text, '[', JSON_DEPTH_MAX + 1);
    memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    text[2 * JSON_DEPTH_MAX + 2] = '\0';
    assert_refused_at(text, JSON_DEPTH_MAX, "nested too deep");
}

static void
scan_survives_every_cut_of_a_text(void **state)
{
    static const char text[] =
        "{\"a\\u00e9\":[-1.5e+3,true,null,\"\\ud834\\udd1e\xF0\x9D\x84\x9E\"]}";
    struct json_error error;

    (void)state;
    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        char *cut = malloc(len + 1); /* of its own, so that a sanitizer sees a read too far */
        assert_non_null(cut);
        memcpy(cut, text, len);
        assert_false(json_scan((struct slice){ cut, len }, &error));
        assert_true(error.offset <= len);
        free(cut);
    }
    assert_true(takes(text));
}

/* --- JSONTestSuite ----------------------------------------------------- */

static const char *
corpus_folder(void)
{
    static char path[PATH_MAX];
    const char *root = getenv("HOLDFAST_CORPORA");

    snprintf(path, sizeof(path), "%s/json", root != NULL ? root : HOLDFAST_CORPORA);
    return path;
}

static char *
read_file(const char *folder, const char *name, size_t *len)
{
    char path[PATH_MAX + 256];
    char *bytes;
    long size;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    *len = fread(bytes, 1, (size_t)size, file);
    assert_int_equal(*len, size);
    fclose(file);
    return bytes;
}

static bool
is_refused_by_contract(const char *name)
{
    for (size_t i = 0; i < sizeof(refused_by_contract) / sizeof(refused_by_contract[0]); i++) {
        if (strcmp(name, refused_by_contract[i]) == 0)
            return true;
    }
    return false;
}

/* Returns 1 when the file was judged otherwise than it should be. */
static int
judge_file(const char *folder, const char *name)
{
    struct json_error error;
    size_t len;
    char *bytes = read_file(folder, name, &len);
    bool accepted = json_scan((struct slice){ bytes, len }, &error);
    bool wrong;

    free(bytes);
    if (name[0] == 'y')
        wrong = accepted == is_refused_by_contract(name);
    else
        wrong = name[0] == 'n' && accepted;
    if (wrong)
        print_error("%s: %s\n", name, accepted ? "accepted" : error.reason);
    return wrong;
}

static void
scan_judges_every_file_of_json_test_suite_right(void **state)
{
    const char *folder = corpus_folder();
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int files = 0, wrong = 0;

    (void)state;
    if (dir == NULL) {
        print_message("JSONTestSuite is not at %s (set HOLDFAST_CORPORA): nothing judged\n",
                      folder);
        skip();
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        files++;
        wrong += judge_file(folder, entry->d_name);
    }
    closedir(dir);
    assert_true(files >= 300);
    assert_int_equal(wrong, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scan_takes_every_kind_of_value),
        cmocka_unit_test(scan_tells_what_is_wrong_and_where),
        cmocka_unit_test(scan_refuses_what_is_not_a_number_of_the_grammar),
        cmocka_unit_test(scan_refuses_bytes_that_are_not_utf8),
        cmocka_unit_test(scan_refuses_nul_in_every_form),
        cmocka_unit_test(scan_refuses_half_a_surrogate_pair),
        cmocka_unit_test(scan_refuses_a_name_twice_in_one_object_only),
        cmocka_unit_test(scan_compares_names_as_what_they_mean),
        cmocka_unit_test(scan_finds_a_name_twice_among_very_many),
        cmocka_unit_test(scan_goes_as_deep_as_allowed_and_no_deeper),
        cmocka_unit_test(scan_survives_every_cut_of_a_text),
        cmocka_unit_test(scan_judges_every_file_of_json_test_suite_right),
    };

    return cmocka_run_group_tests_name("json_scan", tests, NULL, NULL);
}
