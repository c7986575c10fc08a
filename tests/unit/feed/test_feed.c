/* The feed: numbers, what memory learns, positions, the outbox, incarnations that come and go. */
#include "feed_fixture.h"
#include "holdfast/metrics.h"

static int
set_up_started(void **state)
{
    if (set_up(state) != 0)
        return 1;
    feed_start(feed, OWN);
    return 0;
}

#define STARTED(name) cmocka_unit_test_setup_teardown(name, set_up_started, tear_down)

static struct feed_numbers
numbers(void)
{
    struct feed_numbers now;
    feed_numbers(feed, &now);
    return now;
}

static void
put_all(struct feed_record *record)
{
    while (record != NULL) {
        struct feed_record *next = record->next;
        feed_record_put(record);
        record = next;
    }
}

/* --- telling ------------------------------------------------------------------------- */

static void
before_the_start_only_memory_moves(void **state)
{
    (void)state;
    uint64_t last;
    tell("gig", "A1", 1);
    assert_int_equal(told_count, 1);
    assert_string_equal(told[0].after, "none");
    assert_int_equal(told[0].from.incarnation, 0);
    assert_string_equal(position_text(), "0");
    assert_int_equal(numbers().log_records + numbers().outbox_records, 0);
    assert_null(feed_take(feed, 1000, 0, &last));
    assert_int_equal(last, 0);
}

static void
records_are_numbered_from_1(void **state)
{
    (void)state;
    assert_string_equal(position_text(), "2s.0");
    tell("gig", "A1", 1);
    tell("gig", "A2", 1);
    assert_int_equal(told[0].from.number, 1);
    assert_int_equal(told[1].from.number, 2);
    assert_int_equal(told[1].from.incarnation, OWN);
    assert_string_equal(told[0].after, "2s.1");
    assert_string_equal(told[1].after, "2s.2");
    assert_string_equal(position_text(), "2s.2");
}

static void
the_changes_of_a_record_have_positions_within_it(void **state)
{
    (void)state;
    struct feed_change changes[4];
    for (int i = 0; i < 4; i++)
        changes[i] = seat_change("gig", "A1", i + 1);
    changes[2] = (struct feed_change){
        .kind = FEED_EVENT, .org = slice_of("acme"), .event = slice_of("gig"), .version = 9
    }; /* maps don't want it */
    tell("gig", "A0", 1);
    feed_tell(feed, changes, 4);
    assert_int_equal(told_count, 4);
    assert_string_equal(told[1].after, "2s.1-2s.2.1");
    assert_string_equal(told[2].after, "2s.1-2s.2.2");
    assert_string_equal(told[3].after, "2s.2");
    assert_string_equal(position_text(), "2s.2");
}

static void
nothing_told_is_no_record(void **state)
{
    (void)state;
    feed_tell(feed, NULL, 0);
    assert_string_equal(position_text(), "2s.0");
}

/* An import of everything: more than one record may be, in order, none too large. */
static void
a_large_transaction_is_several_records(void **state)
{
    (void)state;
    enum { MANY = 6000 };
    struct feed_change *changes = calloc(MANY, sizeof(*changes));
    uint64_t last, number = 0;
    uint32_t count = 0;
    told_is_counted_only = true;
    for (int i = 0; i < MANY; i++) {
        changes[i] =
            seat_change("an-event-with-a-rather-long-name-of-its-own", "a-seat-1234567", i);
        changes[i].at.us = i % 2; /* nothing may be left out */
    }
    feed_tell(feed, changes, MANY);
    assert_int_equal(told_count, MANY);
    struct feed_record *records = feed_take(feed, SIZE_MAX, 0, &last);
    for (const struct feed_record *record = records; record != NULL; record = record->next) {
        assert_int_equal(record->number, ++number);
        assert_true(record->len <= FEED_RECORD_BYTES_MAX);
        count += record->change_count;
    }
    assert_true(number > 1 && number == last);
    assert_int_equal(count, MANY);
    put_all(records);
    free(changes);
}

/* What no peer could believe is not sent; its number is used up, so everybody reads anew. */
static void
what_cant_be_recorded_uses_up_its_number(void **state)
{
    (void)state;
    uint64_t last;
    struct feed_change bad = seat_change("gig", "A1", 1);
    bad.item = (struct slice){ "A\0B", 3 };
    tell("gig", "A0", 1);
    feed_tell(feed, &bad, 1);
    tell("gig", "A2", 1);
    assert_string_equal(position_text(), "2s.3");
    assert_int_equal(distrusts, 0); /* this node has it all */
    struct feed_record *records = feed_take(feed, 1000, 0, &last);
    assert_int_equal(records->number, 1);
    assert_int_equal(records->next->number, 3);
    assert_null(records->next->next);
    assert_int_equal(last, 3);
    put_all(records);
    assert_false(replay("gig", "2s.1"));
    assert_true(replay("gig", "2s.2"));
    assert_int_equal(told_count, 1);
}

static void
a_skip_is_a_gap_for_everybody(void **state)
{
    (void)state;
    uint64_t last;
    tell("gig", "A0", 1);
    feed_skip(feed);
    assert_string_equal(position_text(), "2s.2");
    put_all(feed_take(feed, 1000, 0, &last));
    assert_int_equal(last, 2);
    assert_false(replay("gig", "2s.1"));
    assert_true(replay("gig", "2s.2"));
}

/* --- the outbox ------------------------------------------------------------------------ */

static void
records_are_taken_in_order_up_to_so_many_bytes(void **state)
{
    (void)state;
    uint64_t last;
    for (int i = 0; i < 10; i++)
        tell("gig", "A1", i + 1);
    struct feed_record *one = feed_take(feed, 1, 0, &last);
    assert_non_null(one);
    assert_null(one->next);
    assert_int_equal(one->number, 1);
    assert_int_equal(one->incarnation, OWN);
    assert_int_equal(last, 10);
    struct feed_record *three = feed_take(feed, 3 * one->len + 2, 0, &last);
    assert_int_equal(three->number, 2);
    assert_int_equal(three->next->next->number, 4);
    assert_null(three->next->next->next);
    struct feed_record *rest = feed_take(feed, SIZE_MAX, 0, &last);
    assert_int_equal(rest->number, 5);
    assert_int_equal(numbers().outbox_records, 0);
    assert_null(feed_take(feed, SIZE_MAX, 1000, &last));
    put_all(one);
    put_all(three);
    put_all(rest);
}

/* Nobody sends: the oldest go, and peers see the gap. */
static void
the_outbox_is_bounded(void **state)
{
    (void)state;
    uint64_t last;
    struct feed_change changes[128];
    int64_t told_bytes = 0;
    uint64_t dropped = metric_count(METRIC_FEED_OUTBOX_DROPPED_TOTAL);
    told_is_counted_only = true;
    for (int i = 0; i < 128; i++)
        changes[i] = seat_change("gig", "a-seat-with-a-long-name", i);
    size_t one_bytes = 0;
    for (int round = 0; told_bytes < 2 * (int64_t)FEED_OUTBOX_BYTES_MAX; round++) {
        feed_tell(feed, changes, 128);
        if (round == 0) {
            struct feed_record *one = feed_take(feed, 1, 0, &last);
            one_bytes = one->len;
            put_all(one);
        }
        told_bytes += (int64_t)one_bytes;
    }
    dropped = metric_count(METRIC_FEED_OUTBOX_DROPPED_TOTAL) - dropped;
    assert_true(dropped > 0);
    struct feed_record *records = feed_take(feed, SIZE_MAX, 0, &last);
    size_t bytes = 0;
    for (const struct feed_record *record = records; record != NULL; record = record->next) {
        bytes += record->len;
        if (record->next != NULL)
            assert_int_equal(record->next->number, record->number + 1);
    }
    assert_true(bytes <= FEED_OUTBOX_BYTES_MAX && bytes > FEED_OUTBOX_BYTES_MAX - one_bytes - 1);
    assert_int_equal(records->number, 2 + dropped);
    put_all(records);
}

static void
a_wait_ends_when_it_is_woken(void **state)
{
    (void)state;
    uint64_t last;
    struct mono_time began = mono_now();
    feed_wake(feed);
    assert_null(feed_take(feed, 1000, 20 * (int64_t)TIME_US_PER_S, &last));
    assert_true(mono_now().us - began.us < 10 * (int64_t)TIME_US_PER_S);
    assert_null(feed_take(feed, 1000, 1000, &last)); /* once */
}

/* --- peers -------------------------------------------------------------------------------- */

static bool
memory_knows(const char *event, const char *seat, struct seat_view *view)
{
    struct seat_key key = { slice_of("acme"), slice_of(event), slice_of(seat) };
    hot_table_set_trusted(node.hot, true);
    return hot_table_read(node.hot, &key, (struct db_time){ 1700000000000000 }, 0, mono_now(),
                          view);
}

static void
a_peers_change_is_learned(void **state)
{
    (void)state;
    struct seat_view view;
    hot_table_set_trusted(node.hot, true);
    assert_int_equal(feed_hear_last(feed, PEER, 0), FEED_GAP); /* its hearing begins */
    assert_int_equal(hear(PEER, 1, "gig", "A1", 7), FEED_HEARD);
    assert_true(memory_knows("gig", "A1", &view));
    assert_int_equal(view.status, SEAT_HELD);
    assert_int_equal(view.version, 7);
    assert_true(view.user_hash == hash_seeded("ann", 3));
    assert_true(view.held_until.us == 1700000300000000);
    assert_int_equal(told_count, 1);
    assert_string_equal(told[0].after, "2s.0_5k.1");
    assert_int_equal(told[0].from.incarnation, PEER);
    assert_string_equal(position_text(), "2s.0_5k.1");
}

/* What rests on a sending before a distrust is void, also if it comes later. */
static void
a_peers_change_is_as_old_as_its_sending(void **state)
{
    (void)state;
    struct seat_view view;
    struct mono_time sent = mono_now();
    hot_table_set_trusted(node.hot, true);
    hot_table_distrust(node.hot);
    feed_hear(feed, PEER, 1, record_bytes_of("gig", "A1", 7, 1), sent);
    assert_false(memory_knows("gig", "A1", &view));
}

/* Its node stood still for a second between commit and sending; we distrusted meanwhile. */
static void
a_peers_change_is_as_old_as_its_judging(void **state)
{
    (void)state;
    struct seat_view view;
    struct mono_time now = mono_now();
    db_clock_observe(node.clock, now, now, (struct db_time){ 1700000001000007 });
    hot_table_set_trusted(node.hot, true);
    hot_table_distrust(node.hot);
    sleep_us(TIME_US_PER_MS);
    assert_int_equal(hear(PEER, 1, "gig", "A1", 7), FEED_GAP);
    assert_false(memory_knows("gig", "A1", &view));
    assert_int_equal(hear(PEER, 2, "gig", "A1", 2000000), FEED_HEARD); /* judged just now */
    assert_true(memory_knows("gig", "A1", &view));
}

static void
a_peers_event_voids_what_is_known(void **state)
{
    (void)state;
    struct event_info info = { .version = 3 };
    struct feed_change change = {
        .kind = FEED_EVENT, .org = slice_of("acme"), .event = slice_of("gig"), .version = 4
    };
    char bytes[200];
    size_t len = codec_write(bytes, &change, 1);
    events_learn(node.events, change.org, change.event, &info);
    feed_hear(feed, PEER, 1, (struct slice){ bytes, len }, mono_now());
    assert_false(events_find(node.events, change.org, change.event, &info));
    assert_int_equal(told_count, 0);
    assert_string_equal(position_text(), "2s.0_5k.1");
}

/* Our own events and seats are learned by who tells of them. */
static void
our_own_change_moves_maps_only(void **state)
{
    (void)state;
    struct seat_view view;
    tell("gig", "A1", 7);
    assert_false(memory_knows("gig", "A1", &view));
    assert_int_equal(told_count, 1);
}

static void
what_was_heard_is_not_heard_twice(void **state)
{
    (void)state;
    assert_int_equal(hear(PEER, 5, "gig", "A1", 7), FEED_GAP); /* the first */
    assert_int_equal(hear(PEER, 6, "gig", "A1", 8), FEED_HEARD);
    assert_int_equal(hear(PEER, 6, "gig", "A1", 8), FEED_REPEATED);
    assert_int_equal(hear(PEER, 5, "gig", "A1", 7), FEED_REPEATED);
    assert_int_equal(hear(PEER, 1, "gig", "A1", 3), FEED_REPEATED);
    assert_int_equal(feed_hear_last(feed, PEER, 6), FEED_HEARD);
    assert_int_equal(feed_hear_last(feed, PEER, 5), FEED_REPEATED);
    assert_int_equal(told_count, 2);
    assert_string_equal(position_text(), "2s.1_5k.6"); /* a break: it had told before */
    assert_int_equal(numbers().log_records, 2);
}

static void
our_own_records_come_back_unheard(void **state)
{
    (void)state;
    tell("gig", "A1", 7);
    assert_int_equal(hear(OWN, 1, "gig", "A1", 7), FEED_REPEATED);
    assert_int_equal(hear(OWN, 9, "gig", "A1", 9), FEED_REPEATED);
    assert_int_equal(feed_hear_last(feed, OWN, 9), FEED_REPEATED);
    assert_string_equal(position_text(), "2s.1");
}

static void
a_gap_is_noticed_and_heard_over(void **state)
{
    (void)state;
    assert_int_equal(feed_hear_last(feed, PEER, 0), FEED_GAP);
    assert_int_equal(hear(PEER, 1, "gig", "A1", 1), FEED_HEARD);
    assert_int_equal(distrusts, 1); /* its hearing began */
    assert_int_equal(hear(PEER, 4, "gig", "A1", 4), FEED_GAP);
    assert_int_equal(distrusts, 2);
    assert_int_equal(told_at_distrust, 1); /* before what came behind the gap */
    assert_string_equal(told[1].after, "2s.0_5k.4");
    assert_int_equal(feed_hear_last(feed, PEER, 6), FEED_GAP);
    assert_int_equal(distrusts, 3);
    assert_string_equal(position_text(), "2s.0_5k.6");
    assert_int_equal(hear(PEER, 6, "gig", "A1", 6), FEED_REPEATED); /* late: it was given up */
    assert_int_equal(hear(PEER, 7, "gig", "A1", 7), FEED_HEARD);
    assert_int_equal(distrusts, 3);
}

static void
garbled_bytes_do_nothing(void **state)
{
    (void)state;
    struct slice good = record_bytes_of("gig", "A1", 7, 3);
    struct slice cut = { good.ptr, good.len - 1 };
    assert_int_equal(feed_hear(feed, PEER, 1, cut, mono_now()), FEED_GARBLED);
    assert_int_equal(feed_hear(feed, PEER, 1, SLICE_EMPTY, mono_now()), FEED_GARBLED);
    assert_int_equal(feed_hear(feed, PEER, 0, good, mono_now()), FEED_GARBLED);
    assert_int_equal(feed_hear(feed, 0, 1, good, mono_now()), FEED_GARBLED);
    assert_int_equal(feed_hear(feed, -5, 1, good, mono_now()), FEED_GARBLED);
    assert_int_equal(feed_hear_last(feed, -5, 1), FEED_GARBLED);
    assert_int_equal(told_count, 0);
    assert_string_equal(position_text(), "2s.0");
}

static void
the_largest_number_is_survived(void **state)
{
    (void)state;
    assert_int_equal(hear(PEER, UINT64_MAX, "gig", "A1", 7), FEED_GAP);
    assert_string_equal(position_text(), "2s.1_5k.3w5e11264sgsf");
    assert_int_equal(hear(PEER, 1, "gig", "A1", 8), FEED_REPEATED);
    assert_int_equal(feed_hear_last(feed, PEER, UINT64_MAX), FEED_HEARD);
    assert_false(replay("gig", "2s.0"));
}

/* --- those that go ---------------------------------------------------------------------------- */

/* It says something of its own without changes: positions of before lack that. */
static void
a_lost_peer_leaves_positions_at_once(void **state)
{
    (void)state;
    uint64_t last;
    hear(PEER, 1, "gig", "A1", 1);
    int before = distrusts;
    feed_lose(feed, PEER);
    assert_string_equal(position_text(), "2s.1");
    assert_int_equal(distrusts, before + 1);
    struct feed_record *empty = feed_take(feed, 1000, 0, &last);
    assert_int_equal(empty->number, 1);
    assert_int_equal(empty->change_count, 0);
    assert_int_equal(last, 1);
    feed_lose(feed, PEER); /* it is gone already */
    feed_lose(feed, OWN);
    assert_string_equal(position_text(), "2s.1");
    assert_int_equal(hear(PEER, 2, "gig", "A1", 2), FEED_GAP); /* heard again, anew */

    /* A peer takes the record without changes as any other. */
    feed_hear_last(feed, 300, 0);
    assert_int_equal(
        feed_hear(feed, 300, 1, (struct slice){ empty->bytes, empty->len }, mono_now()),
        FEED_HEARD);
    assert_string_equal(position_text(), "2s.2_5k.2_8c.1");
    put_all(empty);
}

static void
one_that_left_cleanly_stays_in_positions(void **state)
{
    (void)state;
    uint64_t last;
    hear(PEER, 1, "gig", "A1", 1);
    feed_part(feed, PEER);
    feed_part(feed, 300); /* never heard of */
    put_all(feed_take(feed, 1000, 0, &last));
    assert_string_equal(position_text(), "2s.0_5k.1");
    feed->known[1].gone.us -= 599 * (int64_t)TIME_US_PER_S; /* what a clock does */
    put_all(feed_take(feed, 1000, 0, &last));
    assert_string_equal(position_text(), "2s.0_5k.1");
    feed->known[1].gone.us -= 1 * (int64_t)TIME_US_PER_S;
    struct feed_record *empty = feed_take(feed, 1000, 0, &last);
    assert_string_equal(position_text(), "2s.1");
    put_all(empty);
}

static void
one_that_was_read_of_leaves_ten_minutes_after_it_left(void **state)
{
    (void)state;
    uint64_t last;
    feed_adopt(feed, PEER, 7, 590 * (int64_t)TIME_US_PER_S);
    assert_int_equal(feed_last(feed), 1);
    put_all(feed_take(feed, 1000, 0, &last));
    assert_string_equal(position_text(), "2s.1_5k.7");
    feed->known[1].gone.us -= 10 * (int64_t)TIME_US_PER_S;
    put_all(feed_take(feed, 1000, 0, &last));
    assert_string_equal(position_text(), "2s.2");
}

static void
past_the_limit_the_longest_gone_leaves(void **state)
{
    (void)state;
    for (int i = 1; i < FEED_NODES_MAX; i++)
        feed_hear_last(feed, OWN + i, 0);
    struct feed_position position;
    feed_position(feed, &position);
    assert_int_equal(position.count, FEED_NODES_MAX);
    assert_int_equal(hear(1000, 1, "gig", "A1", 1), FEED_GAP); /* all live: it can't be named */
    assert_int_equal(told_count, 1);
    assert_string_equal(told[0].after, "none");
    assert_int_equal(numbers().log_records, 0);
    feed_part(feed, OWN + 7);
    feed->known[7].gone.us -= 2;
    feed_part(feed, OWN + 3);
    assert_int_equal(hear(1000, 2, "gig", "A1", 2), FEED_GAP);
    assert_int_equal(hear(1000, 3, "gig", "A1", 3), FEED_HEARD);
    feed_position(feed, &position);
    assert_int_equal(position.count, FEED_NODES_MAX);
    assert_int_equal(feed_position_find(&position, OWN + 7), -1);
    assert_true(feed_position_find(&position, OWN + 3) > 0);
    assert_int_equal(feed_position_of(&position, 1000), 3);
}

/* Its row was taken away: it is somebody else now, and what was not sent never will be. */
static void
a_node_may_join_again_under_another_incarnation(void **state)
{
    (void)state;
    uint64_t last;
    tell("gig", "A1", 1);
    feed_start(feed, OWN + 1);
    assert_null(feed_take(feed, 1000, 0, &last));
    assert_int_equal(last, 0);
    tell("gig", "A2", 1);
    assert_string_equal(position_text(), "2s.1_2t.1");
    struct feed_record *record = feed_take(feed, 1000, 0, &last);
    assert_int_equal(record->incarnation, OWN + 1);
    assert_int_equal(record->number, 1);
    put_all(record);
    assert_true(replay("gig", "2s.1_2t.0"));
    assert_int_equal(told_count, 1);
    assert_string_equal(told[0].item, "A2");
}

/* --- one who listens -------------------------------------------------------------------- */

struct heard {
    int count, ours;
    int64_t last;
};

static void
note(void *context, const struct feed_change *change, bool ours)
{
    struct heard *heard = context;
    heard->count++;
    heard->ours += ours;
    heard->last = change->version;
    assert_true(change->kind == FEED_EVENT || told[told_count - 1].version == change->version);
}

static void
a_listener_hears_all_that_memory_has_learned(void **state)
{
    (void)state;
    struct heard heard = { 0 };
    struct feed_change event = {
        .kind = FEED_EVENT, .org = slice_of("acme"), .event = slice_of("gig"), .version = 9
    };
    tell("gig", "A1", 1); /* nobody listens yet */
    feed_watch(feed, note, &heard);
    tell("gig", "A1", 2);
    feed_tell(feed, &event, 1);
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.ours, 2);
    (void)hear(PEER, 1, "gig", "A1", 7);
    assert_int_equal(heard.count, 3);
    assert_int_equal(heard.ours, 2);
    assert_int_equal(heard.last, 7);
    (void)hear(PEER, 1, "gig", "A1", 7); /* repeated: nothing was learned */
    assert_int_equal(heard.count, 3);
    feed_watch(feed, NULL, NULL);
    tell("gig", "A1", 8);
    assert_int_equal(heard.count, 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(before_the_start_only_memory_moves),
        STARTED(records_are_numbered_from_1),
        STARTED(the_changes_of_a_record_have_positions_within_it),
        STARTED(nothing_told_is_no_record),
        STARTED(a_large_transaction_is_several_records),
        STARTED(what_cant_be_recorded_uses_up_its_number),
        STARTED(a_skip_is_a_gap_for_everybody),
        STARTED(records_are_taken_in_order_up_to_so_many_bytes),
        STARTED(the_outbox_is_bounded),
        STARTED(a_wait_ends_when_it_is_woken),
        STARTED(a_peers_change_is_learned),
        STARTED(a_peers_change_is_as_old_as_its_sending),
        STARTED(a_peers_change_is_as_old_as_its_judging),
        STARTED(a_peers_event_voids_what_is_known),
        STARTED(our_own_change_moves_maps_only),
        STARTED(what_was_heard_is_not_heard_twice),
        STARTED(our_own_records_come_back_unheard),
        STARTED(a_gap_is_noticed_and_heard_over),
        STARTED(garbled_bytes_do_nothing),
        STARTED(the_largest_number_is_survived),
        STARTED(a_lost_peer_leaves_positions_at_once),
        STARTED(one_that_left_cleanly_stays_in_positions),
        STARTED(one_that_was_read_of_leaves_ten_minutes_after_it_left),
        STARTED(past_the_limit_the_longest_gone_leaves),
        STARTED(a_node_may_join_again_under_another_incarnation),
        STARTED(a_listener_hears_all_that_memory_has_learned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
