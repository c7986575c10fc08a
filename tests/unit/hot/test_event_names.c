/* Names of events: one per (org, event), as long as a seat refers to it. */
#include "event_names.h"
#include "hot_fixture.h"

static void
names_are_shared_and_told_in_their_parts(void **state)
{
    (void)state;
    struct event_names names;
    event_names_init(&names);
    uint32_t first, again, other;
    assert_true(event_names_get(&names, SLICE_LITERAL("demo\0show-1"), &first));
    assert_true(event_names_get(&names, SLICE_LITERAL("demo\0show-1"), &again));
    assert_true(event_names_get(&names, SLICE_LITERAL("demoshow\0-1"), &other));
    assert_int_equal(first, again);
    assert_int_not_equal(first, other);
    assert_int_equal(event_names_references(&names, first), 2);

    struct slice org, event;
    event_names_tell(&names, other, &org, &event);
    assert_true(slice_is(org, "demoshow"));
    assert_true(slice_is(event, "-1"));
    event_names_fini(&names);
}

static void
names_go_with_their_last_reference(void **state)
{
    (void)state;
    struct event_names names;
    event_names_init(&names);
    uint32_t number, found;
    struct slice text = SLICE_LITERAL("demo\0show-1");
    assert_false(event_names_find(&names, text, &found));
    assert_true(event_names_get(&names, text, &number));
    assert_true(event_names_get(&names, text, &number));
    event_names_put(&names, number);
    assert_true(event_names_find(&names, text, &found));
    assert_int_equal(found, number);
    event_names_put(&names, number);
    assert_false(event_names_find(&names, text, &found));
    assert_int_equal(event_names_references(&names, number), 0);
    event_names_fini(&names);
}

static void
names_use_free_numbers_again(void **state)
{
    (void)state;
    enum { EVENTS = 500 };
    struct event_names names;
    event_names_init(&names);
    uint32_t numbers[EVENTS];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < EVENTS; i++) {
            char text[32] = "demo";
            int bytes = 5 + snprintf(text + 5, sizeof(text) - 5, "show-%d-%d", round, i);
            assert_true(
                event_names_get(&names, (struct slice){ text, (size_t)bytes }, &numbers[i]));
            assert_int_equal(event_names_references(&names, numbers[i]), 1);
        }
        assert_in_range(names.numbers, EVENTS, 2 * EVENTS);
        for (int i = 0; i < EVENTS; i++) {
            event_names_put(&names, numbers[(i * 7) % EVENTS]);
        }
        assert_null(names.by_text);
    }
    event_names_fini(&names);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_shared_and_told_in_their_parts),
        cmocka_unit_test(names_go_with_their_last_reference),
        cmocka_unit_test(names_use_free_numbers_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
