/*
 * What the rows of status.def promise to those who read them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ctype.h>
#include <string.h>

#include <cmocka.h>

#include "holdfast/status.h"

static void
status_tells_http_code_and_text(void **state)
{
    (void)state;
    assert_int_equal(status_http(HF_SEAT_TAKEN), 409);
    assert_string_equal(status_code(HF_SEAT_TAKEN), "seat_taken");
    assert_string_equal(status_text(HF_SEAT_TAKEN), "Somebody else has this seat.");
    assert_int_equal(status_http(HF_OK), 200);
}

static void
status_is_found_by_its_code(void **state)
{
    (void)state;
    for (int i = 0; i < HF_STATUS_COUNT; i++) {
        enum hf_status found = HF_STATUS_COUNT;
        assert_true(status_from_code(status_code((enum hf_status)i), &found));
        assert_int_equal(found, i); /* also: no code stands twice */
    }
}

static void
status_of_an_unknown_code_is_none(void **state)
{
    enum hf_status found = HF_INTERNAL;

    (void)state;
    assert_false(status_from_code("seat_eaten", &found));
    assert_false(status_from_code("", &found));
    assert_int_equal(found, HF_INTERNAL);
}

/* Codes are part of URLs and metric labels, which nobody escapes. */
static void
status_codes_are_snake_case_words(void **state)
{
    (void)state;
    for (int i = 0; i < HF_STATUS_COUNT; i++) {
        const char *code = status_code((enum hf_status)i);
        assert_true(strlen(code) > 0);
        for (; *code != '\0'; code++)
            assert_true(islower((unsigned char)*code) || *code == '_');
        assert_in_range(status_http((enum hf_status)i), 200, 599);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_tells_http_code_and_text),
        cmocka_unit_test(status_is_found_by_its_code),
        cmocka_unit_test(status_of_an_unknown_code_is_none),
        cmocka_unit_test(status_codes_are_snake_case_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
