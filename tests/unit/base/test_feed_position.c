/* Positions of the feed: what is written is read back, and nothing else is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "holdfast/feed_position.h"

static struct feed_position
position_of(const char *text)
{
    struct feed_position position;
    if (!feed_position_parse(slice_of(text), &position))
        fail_msg("%s is no position", text);
    return position;
}

static bool
is_position(const char *text)
{
    struct feed_position position;
    return feed_position_parse(slice_of(text), &position);
}

static void
marks_are_kept_in_order(void **state)
{
    (void)state;
    struct feed_position position = { 0 };
    assert_int_equal(feed_position_add(&position, (struct feed_mark){ 40, 1 }), 0);
    assert_int_equal(feed_position_add(&position, (struct feed_mark){ 7, 35 }), 0);
    assert_int_equal(feed_position_add(&position, (struct feed_mark){ 35, 36 }), 1);
    assert_int_equal(feed_position_add(&position, (struct feed_mark){ 40, 1295 }), 2);
    char text[FEED_POSITION_TEXT_BYTES];
    assert_int_equal(feed_position_write(&position, text), 14);
    assert_string_equal(text, "7.z_z.10_14.zz");
    assert_int_equal(feed_position_of(&position, 35), 36);
    assert_int_equal(feed_position_of(&position, 36), 0);
    assert_int_equal(feed_position_find(&position, 40), 2);
    assert_int_equal(feed_position_find(&position, 41), -1);
}

static void
there_is_room_for_so_many_and_no_more(void **state)
{
    (void)state;
    struct feed_position position = { 0 };
    for (int64_t i = FEED_NODES_MAX; i > 0; i--)
        assert_int_equal(feed_position_add(&position, (struct feed_mark){ i, 1 }), 0);
    assert_int_equal(feed_position_add(&position, (struct feed_mark){ 1000, 1 }), -1);
    assert_int_equal(feed_position_add(&position, (struct feed_mark){ 3, 9 }), 2);
    assert_int_equal(position.count, FEED_NODES_MAX);
    assert_int_equal(feed_position_of(&position, 3), 9);
}

static void
what_is_written_is_read_back(void **state)
{
    (void)state;
    static const char *const texts[] = { "0",
                                         "1.0",
                                         "1.1",
                                         "a.z_b.0_c.10",
                                         "0-5.1.1",
                                         "1.5-1.6.3",
                                         "1.5_2.7-1.9.1z141z3",
                                         "1y2p0ij32e8e7.3w5e11264sgsf" };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct feed_position position = position_of(texts[i]);
        char text[FEED_POSITION_TEXT_BYTES];
        assert_int_equal(feed_position_write(&position, text), strlen(texts[i]));
        assert_string_equal(text, texts[i]);
    }
}

static void
the_longest_is_read_back(void **state)
{
    (void)state;
    struct feed_position position = { 0 }, read;
    char text[FEED_POSITION_TEXT_BYTES];
    for (int i = 0; i < FEED_NODES_MAX; i++)
        feed_position_add(&position, (struct feed_mark){ INT64_MAX - i, UINT64_MAX - 1 });
    position.part = (struct feed_mark){ INT64_MAX, UINT64_MAX };
    position.part_count = UINT32_MAX;
    size_t len = feed_position_write(&position, text);
    assert_true(len < FEED_POSITION_TEXT_BYTES && len > 1700);
    assert_true(feed_position_parse((struct slice){ text, len }, &read));
    assert_true(feed_position_covers(&position, &read) && feed_position_covers(&read, &position));
    assert_int_equal(read.part_count, UINT32_MAX);
}

static void
hostile_text_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "x",
        "00",
        "0_1.1",
        "1",
        "1.",
        ".1",
        "1.1_",
        "_1.1",
        "1.1__2.1",
        "1.1.1",
        "1.1 ",
        "1.1\n",
        "A.1",
        "1.Z",
        "1,1",
        "-1.1",
        "1.-1",
        "+1.1",
        "0.1",
        "01.1",
        "1.01",
        "1.00",
        "2.1_1.1",         /* not sorted */
        "1.1_1.2",         /* twice */
        "1y2p0ij32e8e8.1", /* past 63 bits */
        "1.3w5e11264sgsg", /* past 64 bits */
        "1.zzzzzzzzzzzzz",
        "zzzzzzzzzzzzzzzzzzzz.1",
        "1.1-",
        "1.1-1",
        "1.1-1.2",
        "1.1-1.2.",
        "1.1-1.2.0",
        "1.1-1.2.01",
        "1.1-1.2.3-1.2.3",
        "1.1-1.2.3_4.5",
        "1.1-1.2.1z141z4", /* past 32 bits */
        "1.5-1.5.1",
        "1.5-1.4.1",
        "0-0.1.1",
        "0-",
        "-",
        "-1.1.1",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (is_position(texts[i]))
            fail_msg("'%s' was taken", texts[i]);
    }
}

static void
too_many_marks_are_refused(void **state)
{
    (void)state;
    char text[1024];
    int len = 0;
    for (int i = 1; i <= FEED_NODES_MAX + 1; i++) {
        int digits = i < 36 ? 1 : 2;
        if (digits == 1)
            len += snprintf(text + len, sizeof(text) - (size_t)len, "%s%c.1", i > 1 ? "_" : "",
                            "0123456789abcdefghijklmnopqrstuvwxyz"[i]);
        else
            len += snprintf(text + len, sizeof(text) - (size_t)len, "_1%c.1",
                            "0123456789abcdefghijklmnopqrstuvwxyz"[i - 36]);
        if (i < 72 && i == FEED_NODES_MAX)
            assert_true(is_position(text));
    }
    assert_false(is_position(text));
}

static void
every_cut_and_every_flipped_byte_is_survived(void **state)
{
    (void)state;
    static const char whole[] = "a.z_b.0_c.10-c.11.3";
    struct feed_position position;
    for (size_t len = 0; len < sizeof(whole) - 1; len++) {
        char *cut = malloc(len + 1); /* the sanitizer watches its end */
        memcpy(cut, whole, len);
        bool taken = feed_position_parse((struct slice){ cut, len }, &position);
        free(cut);
        if (taken)
            assert_in_range(position.count, 1, 3);
    }
    for (size_t at = 0; at < sizeof(whole) - 1; at++) {
        for (int byte = 0; byte < 256; byte++) {
            char text[sizeof(whole)], again[FEED_POSITION_TEXT_BYTES];
            memcpy(text, whole, sizeof(whole));
            text[at] = (char)byte;
            struct slice slice = { text, sizeof(whole) - 1 };
            if (!feed_position_parse(slice, &position))
                continue;
            assert_int_equal(feed_position_write(&position, again), slice.len);
            assert_memory_equal(again, text, slice.len);
        }
    }
}

static bool
covers(const char *a, const char *b)
{
    struct feed_position left = position_of(a), right = position_of(b);
    return feed_position_covers(&left, &right);
}

static void
one_position_covers_another_if_it_has_all_of_it(void **state)
{
    (void)state;
    assert_true(covers("1.5_2.7", "1.5_2.7"));
    assert_true(covers("1.5_2.7", "1.4"));
    assert_true(covers("1.5", "0"));
    assert_true(covers("1.5", "1.5_2.0")); /* 2 has told nothing yet */
    assert_false(covers("1.5", "1.6"));
    assert_false(covers("1.5", "1.5_2.1"));
    assert_false(covers("0", "1.1"));
}

static void
a_part_is_covered_by_as_much_of_it(void **state)
{
    (void)state;
    assert_true(covers("1.6", "1.5-1.6.3"));
    assert_true(covers("1.5-1.6.3", "1.5-1.6.3"));
    assert_true(covers("1.5-1.6.4", "1.5-1.6.3"));
    assert_true(covers("1.5-1.6.3", "1.5"));
    assert_false(covers("1.5-1.6.2", "1.5-1.6.3"));
    assert_false(covers("1.5", "1.5-1.6.1"));
    assert_false(covers("1.5-2.6.3", "1.5-1.6.3"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_are_kept_in_order),
        cmocka_unit_test(there_is_room_for_so_many_and_no_more),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(the_longest_is_read_back),
        cmocka_unit_test(hostile_text_is_refused),
        cmocka_unit_test(too_many_marks_are_refused),
        cmocka_unit_test(every_cut_and_every_flipped_byte_is_survived),
        cmocka_unit_test(one_position_covers_another_if_it_has_all_of_it),
        cmocka_unit_test(a_part_is_covered_by_as_much_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
