/*
 * A buffer that grows, and remembers when it could not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <limits.h>
#include <string.h>

#include <cmocka.h>

#include "holdfast/buf.h"

static void
an_empty_buffer_is_an_empty_slice(void **state)
{
    struct buf buf = { 0 };

    (void)state;
    assert_true(slice_equal(buf_slice(&buf), SLICE_EMPTY));
    buf_clear(&buf);
    buf_append(&buf, NULL, 0);
    assert_null(buf.data);
    assert_false(buf.failed);
    buf_fini(&buf);
}

static void
appends_add_up_and_end_in_nul(void **state)
{
    struct buf buf = { 0 };

    (void)state;
    buf_append(&buf, "ab\0c", 4);
    assert_int_equal(buf.len, 4);
    buf_clear(&buf);
    buf_append_text(&buf, "row ");
    buf_append_slice(&buf, (struct slice){ "12 and more", 2 });
    buf_append_char(&buf, '/');
    buf_printf(&buf, "%s-%03d", "A", 7);
    buf_printf(&buf, "%s", "");
    assert_string_equal(buf.data, "row 12/A-007");
    assert_int_equal(buf.len, strlen(buf.data));
    buf_fini(&buf);
    assert_null(buf.data);
}

static void
numbers_are_written_up_to_their_ends(void **state)
{
    struct buf buf = { 0 };

    (void)state;
    buf_append_int(&buf, 0);
    buf_append_char(&buf, ' ');
    buf_append_int(&buf, -10);
    buf_append_char(&buf, ' ');
    buf_append_int(&buf, LLONG_MAX);
    buf_append_char(&buf, ' ');
    buf_append_int(&buf, LLONG_MIN);
    assert_string_equal(buf.data, "0 -10 9223372036854775807 -9223372036854775808");
    buf_fini(&buf);
}

static void
growth_keeps_what_was_there(void **state)
{
    struct buf buf = { 0 };

    (void)state;
    for (int i = 0; i < 10000; i++)
        buf_append_char(&buf, (char)('a' + i % 26));
    buf_printf(&buf, "%5000d", 1);
    assert_int_equal(buf.len, 15000);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(buf.data[i], 'a' + i % 26);
    assert_int_equal(buf.data[14999], '1');
    assert_int_equal(buf.data[15000], '\0');
    buf_fini(&buf);
}

static void
reserved_room_is_used_without_moving(void **state)
{
    struct buf buf = { 0 };

    (void)state;
    assert_true(buf_reserve(&buf, 5000));
    const char *before = buf.data;
    for (int i = 0; i < 5000; i++)
        buf_append_char(&buf, 'x');
    assert_ptr_equal(buf.data, before);
    buf_fini(&buf);
}

static void
a_failed_buffer_takes_nothing_until_it_is_cleared(void **state)
{
    struct buf buf = { 0 };

    (void)state;
    buf_append_text(&buf, "kept");
    assert_false(buf_reserve(&buf, SIZE_MAX));
    assert_true(buf.failed);
    buf_append_text(&buf, "lost");
    buf_append_char(&buf, 'x');
    buf_printf(&buf, "%d", 1);
    assert_false(buf_reserve(&buf, 1));
    assert_string_equal(buf.data, "kept");

    buf_clear(&buf);
    assert_false(buf.failed);
    buf_append_text(&buf, "again");
    assert_string_equal(buf.data, "again");
    buf_fini(&buf);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_is_an_empty_slice),
        cmocka_unit_test(appends_add_up_and_end_in_nul),
        cmocka_unit_test(numbers_are_written_up_to_their_ends),
        cmocka_unit_test(growth_keeps_what_was_there),
        cmocka_unit_test(reserved_room_is_used_without_moving),
        cmocka_unit_test(a_failed_buffer_takes_nothing_until_it_is_cleared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
