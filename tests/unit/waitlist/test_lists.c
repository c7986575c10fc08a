/* The table of the events at which somebody waits, and whose turn it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "waitlist_internal.h"

#define ORG SLICE_LITERAL("org")

/* Longer than a busy machine holds a test up. */
#define LONG_US (100 * (int64_t)TIME_US_PER_S)

static const struct news anything = { .whole = true };

static int
begin(void **state)
{
    static struct waitlist room;
    room = (struct waitlist){ .pass = 1 };
    lock_init(&room.lock, LOCK_WAITLIST);
    lock_cond_init(&room.wake);
    lock_take(&room.lock);
    *state = &room;
    return 0;
}

static int
end(void **state)
{
    struct waitlist *room = *state;
    lists_free(room);
    assert_int_equal(atomic_load(&room->list_count), 0);
    lock_drop(&room->lock);
    pthread_cond_destroy(&room->wake);
    lock_fini(&room->lock);
    return 0;
}

static struct list *
take(struct waitlist *room, int64_t in_us, struct mono_time *due)
{
    struct news news;
    struct mono_time ignored = { INT64_MAX };
    return list_take_locked(room, (struct mono_time){ mono_now().us + in_us }, &news,
                            due != NULL ? due : &ignored);
}

static void
an_event_has_one_list(void **state)
{
    struct waitlist *room = *state;
    assert_null(list_find_locked(room, ORG, SLICE_LITERAL("e1")));
    struct list *list = list_get_locked(room, ORG, SLICE_LITERAL("e1"));
    assert_non_null(list);
    assert_ptr_equal(list_get_locked(room, ORG, SLICE_LITERAL("e1")), list);
    assert_ptr_not_equal(list_get_locked(room, SLICE_LITERAL("other"), SLICE_LITERAL("e1")), list);
    assert_true(slice_is(list->org, "org") && slice_is(list->event, "e1"));
    assert_int_equal(atomic_load(&room->list_count), 2);
}

static void
without_news_nobody_has_a_turn(void **state)
{
    struct waitlist *room = *state;
    struct news nothing = { 0 };
    struct list *list = list_get_locked(room, ORG, SLICE_LITERAL("e1"));
    list_tell_locked(room, list, &nothing, 0);
    assert_null(take(room, 1000000, NULL));
}

static void
turns_come_in_order_of_coming(void **state)
{
    struct waitlist *room = *state;
    struct list *first = list_get_locked(room, ORG, SLICE_LITERAL("e1"));
    struct list *second = list_get_locked(room, ORG, SLICE_LITERAL("e2"));
    list_tell_locked(room, second, &anything, 0);
    list_tell_locked(room, first, &anything, 0);
    assert_ptr_equal(take(room, 0, NULL), second);
    assert_ptr_equal(take(room, 0, NULL), first);
    list_give_back_locked(room, first, &(struct news){ 0 }, 0);
    list_give_back_locked(room, second, &(struct news){ 0 }, 0);
}

static void
a_turn_to_come_tells_when(void **state)
{
    struct waitlist *room = *state;
    struct mono_time due = { INT64_MAX };
    struct list *list = list_get_locked(room, ORG, SLICE_LITERAL("e1"));
    int64_t now = mono_now().us;
    list_tell_locked(room, list, &anything, LONG_US);
    assert_null(take(room, 0, &due));
    assert_true(due.us >= now + LONG_US && due.us <= mono_now().us + LONG_US);
    list_tell_locked(room, list, &anything, 0); /* sooner counts */
    assert_ptr_equal(take(room, 0, NULL), list);
    list_give_back_locked(room, list, &(struct news){ 0 }, 0);
}

static void
a_busy_list_has_no_turn_and_keeps_its_news(void **state)
{
    struct waitlist *room = *state;
    struct news news = { 0 };
    struct mono_time due = { INT64_MAX };
    struct list *list = list_get_locked(room, ORG, SLICE_LITERAL("e1"));
    list_tell_locked(room, list, &anything, 0);
    assert_ptr_equal(take(room, 0, NULL), list);
    news_add(&news, SLICE_LITERAL("A-1"), mono_now());
    list_tell_locked(room, list, &news, 0);
    assert_null(take(room, 1000000, NULL));
    list_give_back_locked(room, list, &(struct news){ 0 }, 0);
    assert_ptr_equal(list_take_locked(room, mono_now(), &news, &due), list);
    assert_false(news.whole);
    assert_int_equal(news.count, 1);
    list_give_back_locked(room, list, &(struct news){ 0 }, 0);
}

static void
what_failed_has_no_turn_before_its_pause_is_over(void **state)
{
    struct waitlist *room = *state;
    struct list *list = list_get_locked(room, ORG, SLICE_LITERAL("e1"));
    list_tell_locked(room, list, &anything, 0);
    assert_ptr_equal(take(room, 0, NULL), list);
    list_give_back_locked(room, list, &anything, 2 * LONG_US);
    list_tell_locked(room, list, &anything, 0);
    assert_null(take(room, LONG_US, NULL));
    assert_ptr_equal(take(room, 3 * LONG_US, NULL), list);
    list_give_back_locked(room, list, &(struct news){ 0 }, 0);
}

static void
who_was_not_seen_in_a_pass_goes_unless_there_is_something_to_do(void **state)
{
    struct waitlist *room = *state;
    struct list *ready = list_get_locked(room, ORG, SLICE_LITERAL("ready"));
    struct list *busy = list_get_locked(room, ORG, SLICE_LITERAL("busy"));
    struct list *seen = list_get_locked(room, ORG, SLICE_LITERAL("seen"));
    assert_non_null(list_get_locked(room, ORG, SLICE_LITERAL("idle")));
    lists_end_pass_locked(room); /* all came in this one */
    assert_int_equal(atomic_load(&room->list_count), 4);
    list_tell_locked(room, busy, &anything, 0);
    assert_ptr_equal(take(room, 0, NULL), busy);
    list_tell_locked(room, ready, &anything, 0);
    seen->pass = room->pass;
    lists_end_pass_locked(room);
    assert_null(list_find_locked(room, ORG, SLICE_LITERAL("idle")));
    assert_int_equal(atomic_load(&room->list_count), 3);
    list_give_back_locked(room, busy, &(struct news){ 0 }, 0);
}

static void
there_are_only_so_many_and_idle_ones_make_room(void **state)
{
    struct waitlist *room = *state;
    char event[16];
    for (int i = 0; i < WAITLISTS_MAX; i++) {
        snprintf(event, sizeof(event), "e%d", i);
        struct list *list = list_get_locked(room, ORG, slice_of(event));
        assert_non_null(list);
        if (i > 0)
            list_tell_locked(room, list, &anything, 0);
    }
    struct list *late = list_get_locked(room, ORG, SLICE_LITERAL("late")); /* in place of e0 */
    assert_non_null(late);
    assert_null(list_find_locked(room, ORG, SLICE_LITERAL("e0")));
    list_tell_locked(room, late, &anything, 0);
    assert_null(list_get_locked(room, ORG, SLICE_LITERAL("later")));
    assert_int_equal(atomic_load(&room->list_count), WAITLISTS_MAX);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_event_has_one_list, begin, end),
        cmocka_unit_test_setup_teardown(without_news_nobody_has_a_turn, begin, end),
        cmocka_unit_test_setup_teardown(turns_come_in_order_of_coming, begin, end),
        cmocka_unit_test_setup_teardown(a_turn_to_come_tells_when, begin, end),
        cmocka_unit_test_setup_teardown(a_busy_list_has_no_turn_and_keeps_its_news, begin, end),
        cmocka_unit_test_setup_teardown(what_failed_has_no_turn_before_its_pause_is_over, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            who_was_not_seen_in_a_pass_goes_unless_there_is_something_to_do, begin, end),
        cmocka_unit_test_setup_teardown(there_are_only_so_many_and_idle_ones_make_room, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
