/* What may have come free: a few seats by name, else anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "waitlist_internal.h"

static struct mono_time
at(int64_t us)
{
    return (struct mono_time){ us };
}

static void
nothing_is_nothing(void **state)
{
    (void)state;
    struct news news = { 0 };
    assert_true(news_is_empty(&news));
    struct news none = { 0 };
    news_merge(&news, &none);
    assert_true(news_is_empty(&news));
}

static void
seats_are_noted_by_name_as_first_heard(void **state)
{
    (void)state;
    struct news news = { 0 };
    struct mono_time heard = { 0 };
    news_add(&news, SLICE_LITERAL("A-1"), at(10));
    news_add(&news, SLICE_LITERAL("A-2"), at(20));
    news_add(&news, SLICE_LITERAL("A-1"), at(30));
    assert_int_equal(news.count, 2);
    assert_false(news.whole);
    assert_true(news_heard(&news, SLICE_LITERAL("A-1"), &heard));
    assert_int_equal(heard.us, 10);
    assert_false(news_heard(&news, SLICE_LITERAL("A"), &heard));
}

static void
more_than_can_be_noted_is_anything(void **state)
{
    (void)state;
    struct news news = { 0 };
    char id[16];
    for (int i = 0; i < FREE_SEATS_MAX; i++) {
        snprintf(id, sizeof(id), "A-%d", i);
        news_add(&news, slice_of(id), at(i));
    }
    assert_false(news.whole);
    news_add(&news, SLICE_LITERAL("A-0"), at(99)); /* is noted already */
    assert_false(news.whole);
    news_add(&news, SLICE_LITERAL("B-1"), at(99));
    assert_true(news.whole);
    assert_int_equal(news.count, FREE_SEATS_MAX);
}

static void
no_name_is_anything(void **state)
{
    (void)state;
    struct news news = { 0 };
    news_add(&news, SLICE_EMPTY, at(1));
    assert_true(news.whole);
    assert_int_equal(news.count, 0);
}

static void
the_longest_name_is_noted_whole(void **state)
{
    (void)state;
    struct news news = { 0 };
    struct mono_time heard;
    char id[ID_BYTES_MAX];
    memset(id, 'x', sizeof(id));
    news_add(&news, (struct slice){ id, sizeof(id) }, at(1));
    assert_true(news_heard(&news, (struct slice){ id, sizeof(id) }, &heard));
}

static void
merged_news_are_both(void **state)
{
    (void)state;
    struct news news = { 0 }, more = { 0 };
    news_add(&news, SLICE_LITERAL("A-1"), at(1));
    news_add(&more, SLICE_LITERAL("A-1"), at(2));
    news_add(&more, SLICE_LITERAL("A-2"), at(3));
    news_merge(&news, &more);
    assert_int_equal(news.count, 2);
    assert_false(news.whole);
    more.whole = true;
    news_merge(&news, &more);
    assert_true(news.whole);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_nothing),
        cmocka_unit_test(seats_are_noted_by_name_as_first_heard),
        cmocka_unit_test(more_than_can_be_noted_is_anything),
        cmocka_unit_test(no_name_is_anything),
        cmocka_unit_test(the_longest_name_is_noted_whole),
        cmocka_unit_test(merged_news_are_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
