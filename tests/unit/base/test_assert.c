/*
 * A broken invariant ends the process, and says which one it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "dies.h"
#include "holdfast/assert.h"

static void
break_an_invariant(void)
{
    const char *word = "no";

    hf_assert(strcmp(word, "\"yes\"\\") == 0);
}

static void
fail_a_must(void)
{
    hf_must(1);
}

static void
use_a_foreign_object(void)
{
    struct {
        unsigned magic;
    } object = { 0xdead }, *pointer = &object;

    HF_MAGIC_CHECK(pointer, 0xbeefU);
}

static void
keep_all_invariants(void)
{
    hf_assert(1 + 1 == 2);
    hf_must(0);
}

static int
open_nowhere(void)
{
    FILE *file = tmpfile();

    assert_non_null(file);
    return dup(fileno(file));
}

static void
a_broken_invariant_aborts(void **state)
{
    int nowhere = open_nowhere();

    (void)state;
    assert_true(dies(break_an_invariant, nowhere));
    assert_true(dies(fail_a_must, nowhere));
    assert_true(dies(use_a_foreign_object, nowhere));
    assert_false(dies(keep_all_invariants, nowhere));
    close(nowhere);
}

static void
a_broken_invariant_is_logged_as_json_with_its_place(void **state)
{
    int log = open_nowhere();
    char line[2048];

    (void)state;
    assert_true(dies(break_an_invariant, log));
    ssize_t len = pread(log, line, sizeof(line), 0);
    assert_true(len > 0 && line[len - 1] == '\n');

    cJSON *tree = cJSON_ParseWithLength(line, (size_t)len);
    assert_non_null(tree);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(tree, "event")->valuestring,
                        "assertion_failed");
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(tree, "invariant")->valuestring,
                        "strcmp(word, \"\\\"yes\\\"\\\\\") == 0");
    assert_non_null(
        strstr(cJSON_GetObjectItemCaseSensitive(tree, "file")->valuestring, "test_assert.c"));
    assert_true(cJSON_GetObjectItemCaseSensitive(tree, "line")->valueint > 0);
    cJSON_Delete(tree);
    close(log);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_invariant_aborts),
        cmocka_unit_test(a_broken_invariant_is_logged_as_json_with_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
