/* What readers are told, word by word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <string.h>

#include "streams_internal.h"

static void
assert_name(struct seat_map_news news, const char *name)
{
    struct buf text = { 0 };
    news.seat = SLICE_LITERAL("S1");
    event_write_seat(&text, &news);
    assert_memory_equal(text.data, "event: ", 7);
    assert_memory_equal(text.data + 7, name, strlen(name));
    assert_int_equal(text.data[7 + strlen(name)], '\n');
    buf_fini(&text);
}

static void
an_event_has_the_name_of_what_happened(void **state)
{
    (void)state;
    assert_name((struct seat_map_news){ .status = SEAT_HELD }, "seat_held");
    assert_name((struct seat_map_news){ .status = SEAT_SOLD }, "seat_sold");
    assert_name((struct seat_map_news){ .status = SEAT_BLOCKED }, "seat_blocked");
    assert_name((struct seat_map_news){ .status = SEAT_REMOVED }, "seat_removed");
    assert_name((struct seat_map_news){ .status = SEAT_AVAILABLE, .added = true }, "seat_added");
}

/* Another price makes a new version too, and nobody had the seat. */
static void
only_a_seat_that_was_not_free_is_released(void **state)
{
    (void)state;
    assert_name((struct seat_map_news){ .status = SEAT_AVAILABLE }, "seat_changed");
    assert_name((struct seat_map_news){ .status = SEAT_AVAILABLE, .freed = true }, "seat_released");
    assert_name((struct seat_map_news){ .status = SEAT_AVAILABLE, .reason = FEED_UNBLOCKED },
                "seat_released");
}

static void
what_has_no_position_has_no_id(void **state)
{
    struct feed_position at = { .count = 1, .marks = { { 10, 3 } } };
    struct seat_map_news news = {
        .seat = SLICE_LITERAL("S1"), .status = SEAT_HELD, .version = 2, .after = &at
    };
    struct buf text = { 0 };

    (void)state;
    event_write_seat(&text, &news);
    assert_non_null(strstr(text.data, "\nid: a.3\n"));
    buf_clear(&text);
    news.after = NULL;
    event_write_seat(&text, &news);
    assert_null(strstr(text.data, "\nid: "));
    buf_fini(&text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_has_the_name_of_what_happened),
        cmocka_unit_test(only_a_seat_that_was_not_free_is_released),
        cmocka_unit_test(what_has_no_position_has_no_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
