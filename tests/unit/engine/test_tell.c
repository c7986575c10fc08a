/* What engine and desk tell: every change once, in order, as one record; memory learns its part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine_internal.h"

#define MANY 2000

/* --- the map is a list ------------------------------------------------------------ */

struct told {
    struct feed_change change;
    uint64_t number; /* of the record */
};
static struct told told[MANY + 1];
static int told_count;

void __wrap_seat_maps_take(struct seat_maps *maps, const struct feed_change *change,
                           struct feed_mark from, const struct feed_position *after);
void
__wrap_seat_maps_take(struct seat_maps *maps, const struct feed_change *change,
                      struct feed_mark from, const struct feed_position *after)
{
    (void)maps;
    (void)after;
    assert_true(told_count <= MANY);
    told[told_count++] = (struct told){ *change, from.number };
}

void __wrap_seat_maps_distrust(struct seat_maps *maps);
void
__wrap_seat_maps_distrust(struct seat_maps *maps)
{
    (void)maps;
}

static struct node node;
static struct worker worker;

static int
set_up(void **state)
{
    (void)state;
    struct hot_table_limits limits = { .shards = 1, .seats_max = 10, .parked_max = 10 };
    node = (struct node){ .hot = hot_table_new(&limits), .events = events_new() };
    node.feed = feed_new(&node, 1024 * 1024);
    worker = (struct worker){ .node = &node };
    told_count = 0;
    if (node.hot == NULL || node.events == NULL || node.feed == NULL)
        return 1;
    feed_start(node.feed, 7);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    free(worker.changes);
    feed_free(&node.feed);
    events_free(&node.events);
    hot_table_free(&node.hot);
    return 0;
}

static struct seat_key
key_of(const char *seat)
{
    return (struct seat_key){ slice_of("acme"), slice_of("gig"), slice_of(seat) };
}

static void
tell_held(const char *seat, int64_t version)
{
    struct seat_key key = key_of(seat);
    struct seat_view view = { .status = SEAT_HELD,
                              .version = version,
                              .hold_id = { { 1 } },
                              .held_until = { 1700000300000000 } };
    tell_seat(&worker, &key, &view, slice_of("ann"), FEED_REASON_NONE,
              (struct db_time){ 1700000000000000 });
}

/* --- cases -------------------------------------------------------------------------- */

static void
one_transaction_is_one_record(void **state)
{
    (void)state;
    struct area_counts area = { slice_of("acme"), slice_of("gig"), slice_of("floor"), 3, 4, 5 };
    tell_held("A1", 2);
    tell_held("A2", 9);
    tell_area(&worker, &area, (struct db_time){ 1700000000000001 });
    assert_int_equal(told_count, 0); /* not before it is known to be committed */
    tell_send(&worker);
    assert_int_equal(told_count, 3);
    assert_true(told[0].number == 1 && told[1].number == 1 && told[2].number == 1);
    assert_true(slice_is(told[1].change.item, "A2"));
    assert_int_equal(told[1].change.version, 9);
    assert_int_equal(told[1].change.status, SEAT_HELD);
    assert_true(slice_is(told[1].change.user, "ann"));
    assert_true(told[1].change.at.us == 1700000000000000);
    assert_int_equal(told[2].change.kind, FEED_AREA);
    assert_true(told[2].change.held == 3 && told[2].change.sold == 4);
    assert_int_equal(told[2].change.version, 5);
    tell_held("A3", 1);
    tell_send(&worker);
    assert_int_equal(told_count, 4); /* each once */
    assert_int_equal(told[3].number, 2);
    tell_send(&worker);
    assert_int_equal(told_count, 4);
}

static void
a_take_over_is_two_changes(void **state)
{
    (void)state;
    struct seat_key key = key_of("A1");
    tell_takeover(&worker, &key, 4, FEED_TTL_EXPIRED, (struct db_time){ 1700000000000000 });
    tell_held("A1", 5);
    tell_send(&worker);
    assert_int_equal(told_count, 2);
    assert_int_equal(told[0].change.version, 4);
    assert_int_equal(told[0].change.status, SEAT_AVAILABLE);
    assert_int_equal(told[0].change.reason, FEED_TTL_EXPIRED);
    assert_int_equal(told[0].change.user.len, 0);
    assert_int_equal(told[1].change.version, 5);
    assert_int_equal(told[1].change.reason, FEED_REASON_NONE);
}

static void
a_batch_may_change_much_and_the_list_stays(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++)
        tell_held("A1", i);
    tell_send(&worker);
    assert_int_equal(told_count, MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(told[i].change.version, i);
    const struct feed_change *list = worker.changes;
    told_count = 0;
    for (int i = 0; i < MANY; i++)
        tell_held("A1", i);
    assert_ptr_equal(worker.changes, list); /* nothing is allocated any more */
    tell_send(&worker);
    assert_int_equal(told_count, MANY);
}

static void
the_desks_changes_are_learned_and_told(void **state)
{
    (void)state;
    struct event_info info = { .version = 3 };
    struct seat_view view;
    struct seat_key key = key_of("A1");
    struct feed_change changes[3] = {
        { .kind = FEED_EVENT, .org = key.org, .event = key.event, .version = 4 },
        { .kind = FEED_SEAT,
          .status = SEAT_BLOCKED,
          .org = key.org,
          .event = key.event,
          .item = key.seat,
          .version = 6 },
        { .kind = FEED_SEATS, .org = key.org, .event = key.event },
    };
    events_learn(node.events, key.org, key.event, &info);
    hot_table_set_trusted(node.hot, true);
    engine_tell(&node, changes, 3, (struct mono_time){ mono_now().us + 1 });
    assert_false(events_find(node.events, key.org, key.event, &info));
    assert_true(hot_table_read(node.hot, &key, (struct db_time){ 0 }, 0, mono_now(), &view));
    assert_int_equal(view.status, SEAT_BLOCKED);
    assert_int_equal(view.version, 6);
    assert_int_equal(told_count, 2); /* maps know nothing of an event's row */
    assert_int_equal(told[0].change.kind, FEED_SEAT);
    assert_int_equal(told[1].change.kind, FEED_SEATS);
    assert_true(told[0].number == 1 && told[1].number == 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(one_transaction_is_one_record),
        CASE(a_take_over_is_two_changes),
        CASE(a_batch_may_change_much_and_the_list_stays),
        CASE(the_desks_changes_are_learned_and_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
