/*
 * Frames: what is written is read back, and nothing else is taken for one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fanout_internal.h"

static struct frame
usual(uint64_t last)
{
    return (struct frame){ .node = "node-1",
                           .incarnation = 7,
                           .serial = 3,
                           .last = last,
                           .sent_at = { 1769863000 * INT64_C(1000000) } };
}

/* The caller frees it with buf_fini. */
static struct buf
written(struct frame frame, uint64_t first, int records)
{
    struct buf out = { 0 };
    frame_write(&out, &frame);
    for (int i = 0; i < records; i++)
        frame_add(&out, first + (uint64_t)i, SLICE_LITERAL("change"));
    assert_false(out.failed);
    return out;
}

static bool
is_taken(struct frame frame, uint64_t first, int records)
{
    struct buf out = written(frame, first, records);
    struct frame read;
    bool taken = frame_read(buf_slice(&out), &read);
    buf_fini(&out);
    return taken;
}

/* --- there and back ---------------------------------------------------------- */

static void
a_heartbeat_comes_back_as_it_was(void **state)
{
    (void)state;
    struct frame frame = usual(41), read;
    frame.in_doubt = frame.who = true;
    struct buf out = written(frame, 0, 0);
    assert_true(frame_read(buf_slice(&out), &read));
    assert_string_equal(read.node, "node-1");
    assert_int_equal(read.incarnation, 7);
    assert_int_equal(read.serial, 3);
    assert_int_equal(read.last, 41);
    assert_int_equal(read.sent_at.us, frame.sent_at.us);
    assert_true(read.in_doubt && read.who && !read.farewell);
    struct frame_record record;
    assert_false(frame_next(&read, &record));
    buf_fini(&out);
}

static void
records_come_back_in_order_with_their_bytes(void **state)
{
    (void)state;
    struct frame frame = usual(12), read;
    struct frame_record record;
    struct buf out = { 0 };
    frame_write(&out, &frame);
    frame_add(&out, 10, SLICE_LITERAL("a\0b")); /* any bytes */
    frame_add(&out, 12, SLICE_EMPTY);           /* a number was used up between */
    assert_true(frame_read(buf_slice(&out), &read));
    assert_true(frame_next(&read, &record));
    assert_int_equal(record.number, 10);
    assert_true(slice_equal(record.bytes, SLICE_LITERAL("a\0b")));
    assert_true(frame_next(&read, &record));
    assert_int_equal(record.number, 12);
    assert_int_equal(record.bytes.len, 0);
    assert_false(frame_next(&read, &record));
    buf_fini(&out);
}

static void
each_flag_stands_for_itself(void **state)
{
    (void)state;
    for (int flag = 0; flag < 3; flag++) {
        struct frame frame = usual(0), read;
        frame.in_doubt = flag == 0;
        frame.farewell = flag == 1;
        frame.who = flag == 2;
        struct buf out = written(frame, 0, 0);
        assert_true(frame_read(buf_slice(&out), &read));
        assert_int_equal(read.in_doubt, flag == 0);
        assert_int_equal(read.farewell, flag == 1);
        assert_int_equal(read.who, flag == 2);
        buf_fini(&out);
    }
}

static void
an_unknown_flag_is_ignored(void **state)
{
    (void)state;
    struct buf out = written(usual(1), 1, 1);
    struct frame read;
    out.data[4] |= 0x40;
    assert_true(frame_read(buf_slice(&out), &read));
    buf_fini(&out);
}

/* --- what is none --------------------------------------------------------------- */

static void
no_part_of_a_frame_is_a_frame(void **state)
{
    (void)state;
    struct buf out = written(usual(9), 7, 3);
    size_t head = out.len - 3 * (8 + 4 + 6);
    struct frame read;
    for (size_t len = 0; len < out.len; len++) {
        bool between = len >= head && (len - head) % (8 + 4 + 6) == 0;
        /* A copy of its own: a byte read beyond it is found by the sanitizer. */
        char *copy = malloc(len + (len == 0));
        assert_non_null(copy);
        memcpy(copy, out.data, len);
        assert_int_equal(frame_read((struct slice){ copy, len }, &read), between);
        free(copy);
    }
    buf_append_char(&out, 'x');
    assert_false(frame_read(buf_slice(&out), &read));
    buf_fini(&out);
}

static void
another_format_is_not_read(void **state)
{
    (void)state;
    struct buf out = written(usual(1), 1, 1);
    struct frame read;
    out.data[3] = '2';
    assert_false(frame_read(buf_slice(&out), &read));
    buf_fini(&out);
}

static void
numbers_must_rise_up_to_the_last(void **state)
{
    (void)state;
    assert_true(is_taken(usual(9), 7, 3));
    assert_false(is_taken(usual(8), 7, 3)); /* beyond the last */
    assert_false(is_taken(usual(9), 0, 1)); /* there is no record 0 */
    struct frame frame = usual(9), read;
    struct buf out = { 0 };
    frame_write(&out, &frame);
    frame_add(&out, 8, SLICE_LITERAL("x"));
    frame_add(&out, 8, SLICE_LITERAL("x"));
    assert_false(frame_read(buf_slice(&out), &read));
    buf_fini(&out);
}

static void
a_head_must_make_sense(void **state)
{
    (void)state;
    struct frame frame = usual(0);
    frame.incarnation = 0;
    assert_false(is_taken(frame, 0, 0));
    frame = usual(0);
    frame.serial = 0;
    assert_false(is_taken(frame, 0, 0));
    frame = usual(UINT64_MAX);
    assert_false(is_taken(frame, 0, 0));
    frame = usual(0);
    frame.sent_at.us = -1;
    assert_false(is_taken(frame, 0, 0));
    frame = usual(0);
    strcpy(frame.node, "no id");
    assert_false(is_taken(frame, 0, 0));
    strcpy(frame.node, "");
    assert_false(is_taken(frame, 0, 0));
}

/* Whatever bytes stand there: it is refused, or found whole. */
static void
any_byte_may_be_any_other(void **state)
{
    (void)state;
    struct buf out = written(usual(9), 7, 3);
    srandom(1);
    for (int i = 0; i < 20000; i++) {
        char *copy = malloc(out.len);
        assert_non_null(copy);
        memcpy(copy, out.data, out.len);
        for (int flips = 1 + (int)(random() % 3); flips > 0; flips--)
            copy[(size_t)random() % out.len] = (char)random();
        struct frame read;
        struct frame_record record;
        if (frame_read((struct slice){ copy, out.len }, &read))
            while (frame_next(&read, &record))
                assert_true(record.number <= read.last && record.bytes.len <= out.len);
        free(copy);
    }
    buf_fini(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_heartbeat_comes_back_as_it_was),
        cmocka_unit_test(records_come_back_in_order_with_their_bytes),
        cmocka_unit_test(each_flag_stands_for_itself),
        cmocka_unit_test(an_unknown_flag_is_ignored),
        cmocka_unit_test(no_part_of_a_frame_is_a_frame),
        cmocka_unit_test(another_format_is_not_read),
        cmocka_unit_test(numbers_must_rise_up_to_the_last),
        cmocka_unit_test(a_head_must_make_sense),
        cmocka_unit_test(any_byte_may_be_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
