/* What a node knows about events: newest version wins, the longest unused goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "holdfast/events.h"

static const struct slice org = { "acme", 4 };

static int
set_up(void **state)
{
    *state = events_new();
    return *state == NULL;
}

static int
tear_down(void **state)
{
    struct events *events = *state;
    events_free(&events);
    assert_null(events);
    return 0;
}

static void
learn(struct events *events, const char *event, int64_t version, int64_t read_at)
{
    struct event_info info = { .version = version,
                               .status = EVENT_ON_SALE,
                               .read_at = { read_at } };
    events_learn(events, org, slice_of(event), &info);
}

static int64_t
version_of(struct events *events, const char *event)
{
    struct event_info info;
    return events_find(events, org, slice_of(event), &info) ? info.version : -1;
}

static void
what_was_learned_is_found(void **state)
{
    assert_int_equal(version_of(*state, "E"), -1);
    learn(*state, "E", 3, 100);
    assert_int_equal(version_of(*state, "E"), 3);
    assert_int_equal(version_of(*state, "F"), -1);
}

static void
orgs_are_worlds_apart(void **state)
{
    struct event_info info;
    learn(*state, "bE", 3, 100);
    assert_false(events_find(*state, slice_of("acmeb"), slice_of("E"), &info));
    assert_false(events_find(*state, slice_of("other"), slice_of("bE"), &info));
}

static void
an_older_version_is_ignored(void **state)
{
    learn(*state, "E", 3, 100);
    learn(*state, "E", 2, 900);
    assert_int_equal(version_of(*state, "E"), 3);
}

static void
the_same_version_renews_the_read(void **state)
{
    struct event_info info;
    learn(*state, "E", 3, 100);
    learn(*state, "E", 3, 900);
    learn(*state, "E", 3, 500);
    assert_true(events_find(*state, org, slice_of("E"), &info));
    assert_int_equal(info.read_at.us, 900);
}

static void
forgetting_forgets_all(void **state)
{
    learn(*state, "E", 3, 100);
    learn(*state, "F", 3, 100);
    events_forget(*state);
    assert_int_equal(version_of(*state, "E"), -1);
    learn(*state, "E", 1, 50); /* another server may be behind */
    assert_int_equal(version_of(*state, "E"), 1);
}

static void
past_the_limit_the_longest_unused_goes(void **state)
{
    char event[16];
    for (int i = 0; i < EVENTS_MAX; i++) {
        snprintf(event, sizeof(event), "E%d", i);
        learn(*state, event, 1, 1);
    }
    assert_int_equal(version_of(*state, "E0"), 1); /* used again */
    learn(*state, "new", 1, 1);
    assert_int_equal(version_of(*state, "E0"), 1);
    assert_int_equal(version_of(*state, "E1"), -1);
    assert_int_equal(version_of(*state, "new"), 1);
}

static void
an_outdated_row_is_void_until_a_newer_one_is_read(void **state)
{
    struct event_info info;
    learn(*state, "E", 3, 100);
    events_outdated(*state, org, slice_of("E"), 5);
    assert_false(events_find(*state, org, slice_of("E"), &info));
    assert_int_equal(info.version, 3); /* for statements that judge it themselves */
    learn(*state, "E", 4, 900);
    assert_false(events_find(*state, org, slice_of("E"), &info));
    assert_int_equal(info.version, 4);
    learn(*state, "E", 5, 800);
    assert_int_equal(version_of(*state, "E"), 5);
    events_outdated(*state, org, slice_of("E"), 4); /* old news */
    assert_int_equal(version_of(*state, "E"), 5);
}

static void
an_old_row_on_its_way_is_void_too(void **state)
{
    struct event_info info;
    events_outdated(*state, org, slice_of("E"), 2);
    assert_false(events_find(*state, org, slice_of("E"), &info));
    assert_int_equal(info.version, 0);
    learn(*state, "E", 1, 900);
    assert_int_equal(version_of(*state, "E"), -1);
    learn(*state, "E", 2, 900);
    assert_int_equal(version_of(*state, "E"), 2);
}

static void
an_id_that_is_too_long_is_never_known(void **state)
{
    char longest[ID_BYTES_MAX + 2];
    struct event_info info = { .version = 1 }, found;
    memset(longest, 'x', sizeof(longest));
    struct slice fits = { longest, ID_BYTES_MAX };
    struct slice too_long = { longest, ID_BYTES_MAX + 1 };
    events_learn(*state, fits, too_long, &info);
    assert_false(events_find(*state, fits, too_long, &found));
    events_learn(*state, fits, fits, &info);
    assert_true(events_find(*state, fits, fits, &found));
}

static void
words_are_read_as_they_are_written(void **state)
{
    (void)state;
    enum event_status status;
    enum event_kind kind;
    for (int i = EVENT_SCHEDULED; i <= EVENT_CANCELLED; i++) {
        assert_true(event_status_parse(slice_of(event_status_word((enum event_status)i)), &status));
        assert_int_equal(status, i);
    }
    for (int i = EVENT_KIND_EVENT; i <= EVENT_KIND_FLIGHT; i++) {
        assert_true(event_kind_parse(slice_of(event_kind_word((enum event_kind)i)), &kind));
        assert_int_equal(kind, i);
    }
    assert_false(event_status_parse(slice_of("onsale"), &status));
    assert_false(event_kind_parse(SLICE_EMPTY, &kind));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_was_learned_is_found),
        CASE(orgs_are_worlds_apart),
        CASE(an_older_version_is_ignored),
        CASE(the_same_version_renews_the_read),
        CASE(forgetting_forgets_all),
        CASE(past_the_limit_the_longest_unused_goes),
        CASE(an_outdated_row_is_void_until_a_newer_one_is_read),
        CASE(an_old_row_on_its_way_is_void_too),
        CASE(an_id_that_is_too_long_is_never_known),
        CASE(words_are_read_as_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
