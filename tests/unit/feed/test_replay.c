/* What a reader has missed: all of it, once, in order, or a plain no. */
#include "feed_fixture.h"

#define SMALL_LOG 4096

static int
set_up_started(void **state)
{
    (void)state;
    if (set_up_with(LOG_BYTES) != 0)
        return 1;
    feed_start(feed, OWN);
    return 0;
}

static int
set_up_small(void **state)
{
    (void)state;
    if (set_up_with(SMALL_LOG) != 0)
        return 1;
    feed_start(feed, OWN);
    return 0;
}

#define STARTED(name) cmocka_unit_test_setup_teardown(name, set_up_started, tear_down)
#define SMALL(name)   cmocka_unit_test_setup_teardown(name, set_up_small, tear_down)

/* "A1:3 A2:4 ...": what was visited. */
static const char *
visited(void)
{
    static char text[4096];
    int len = 0;
    text[0] = '\0';
    for (int i = 0; i < told_count; i++)
        len += snprintf(text + len, sizeof(text) - (size_t)len, "%s%s:%d", i > 0 ? " " : "",
                        told[i].item, (int)told[i].version);
    return text;
}

static void
nothing_is_told_to_who_begins(void **state)
{
    (void)state;
    tell("gig", "A1", 1);
    assert_true(replay("gig", NULL));
    assert_int_equal(told_count, 0);
}

static void
nothing_is_told_to_who_has_all(void **state)
{
    (void)state;
    tell("gig", "A1", 1);
    assert_true(replay("gig", "2s.1"));
    assert_int_equal(told_count, 0);
}

static void
what_was_missed_of_the_event_is_told_in_order(void **state)
{
    (void)state;
    tell("gig", "A1", 1);
    tell("gig", "A2", 1);
    tell("play", "A1", 5);
    tell("gig", "A1", 2);
    assert_true(replay("gig", "2s.1"));
    assert_string_equal(visited(), "A2:1 A1:2");
    assert_string_equal(told[0].after, "2s.2");
    assert_string_equal(told[1].after, "2s.4"); /* the play's is in, though it isn't told */
    assert_true(replay("play", "2s.0"));
    assert_string_equal(visited(), "A1:5");
    assert_true(replay("other", "2s.0"));
    assert_int_equal(told_count, 0);
}

static void
orgs_are_worlds_apart(void **state)
{
    (void)state;
    struct feed_change change = seat_change("gig", "A1", 1);
    change.org = slice_of("other");
    feed_tell(feed, &change, 1);
    assert_true(replay("gig", "2s.0"));
    assert_int_equal(told_count, 0);
}

static void
peers_are_told_of_in_the_order_of_this_node(void **state)
{
    (void)state;
    feed_hear_last(feed, PEER, 0);
    tell("gig", "A1", 1);
    hear(PEER, 1, "gig", "B1", 1);
    tell("gig", "A2", 1);
    hear(PEER, 2, "gig", "B2", 1);
    assert_true(replay("gig", "2s.1_5k.0"));
    assert_string_equal(visited(), "B1:1 A2:1 B2:1");
    assert_string_equal(told[0].after, "2s.1_5k.1");
    assert_string_equal(told[1].after, "2s.2_5k.1");
    assert_string_equal(told[2].after, "2s.2_5k.2");
    /* A reader of the peer, who has it all from there and nothing from here. */
    assert_true(replay("gig", "2s.0_5k.2"));
    assert_string_equal(visited(), "A1:1 A2:1");
    assert_string_equal(told[1].after, "2s.2_5k.2");
    /* One who never heard of the peer. */
    assert_true(replay("gig", "2s.2"));
    assert_string_equal(visited(), "B1:1 B2:1");
}

/* He read where more had come; what comes to us later he is told again. */
static void
a_reader_may_be_ahead(void **state)
{
    (void)state;
    feed_hear_last(feed, PEER, 0);
    hear(PEER, 1, "gig", "B1", 1);
    tell("gig", "A1", 1);
    assert_true(replay("gig", "2s.0_5k.9"));
    assert_string_equal(visited(), "A1:1");
    assert_string_equal(told[0].after, "2s.1_5k.9");
}

static void
tell_three(void)
{
    struct feed_change changes[3];
    for (int i = 0; i < 3; i++)
        changes[i] = seat_change("gig", "A1", i + 1);
    feed_tell(feed, changes, 3);
}

static void
a_record_is_resumed_in_its_middle(void **state)
{
    (void)state;
    tell_three();
    tell("gig", "A1", 4);
    assert_true(replay("gig", "2s.0"));
    assert_string_equal(visited(), "A1:1 A1:2 A1:3 A1:4");
    assert_string_equal(told[0].after, "2s.0-2s.1.1");
    assert_string_equal(told[1].after, "2s.0-2s.1.2");
    assert_string_equal(told[2].after, "2s.1");
    assert_true(replay("gig", "2s.0-2s.1.1"));
    assert_string_equal(visited(), "A1:2 A1:3 A1:4");
    assert_string_equal(told[0].after, "2s.0-2s.1.2");
    assert_true(replay("gig", "2s.0-2s.1.2"));
    assert_string_equal(visited(), "A1:3 A1:4");
    assert_true(replay("gig", "2s.0-2s.1.7")); /* nobody writes that */
    assert_string_equal(visited(), "A1:4");
}

/* Another node took the records in another order: where the reader was amidst one, it goes on. */
static void
a_record_is_ended_before_others_begin(void **state)
{
    (void)state;
    feed_hear_last(feed, PEER, 0);
    feed_hear(feed, PEER, 1, record_bytes_of("gig", "B1", 1, 2), mono_now());
    tell_three();
    tell("gig", "A1", 4);
    assert_true(replay("gig", "2s.0_5k.0-2s.1.2"));
    assert_string_equal(visited(), "A1:3 B1:1 B1:2 A1:4");
    assert_string_equal(told[0].after, "2s.1_5k.0");
    assert_string_equal(told[1].after, "2s.1_5k.0-5k.1.1");
    assert_string_equal(told[2].after, "2s.1_5k.1");
    assert_string_equal(told[3].after, "2s.2_5k.1");
    assert_true(
        replay("gig", "2s.0_5k.0-2s.2.1")); /* nobody writes that: what is before comes first */
    assert_string_equal(visited(), "B1:1 B1:2 A1:1 A1:2 A1:3 A1:4");
}

static void *
hear_later(void *context)
{
    (void)context;
    sleep_us(20 * TIME_US_PER_MS);
    hear(PEER, 1, "gig", "B1", 1);
    return NULL;
}

static void
a_reader_who_is_ahead_is_waited_for(void **state)
{
    (void)state;
    struct thread hearer = { 0 };
    struct feed_position ahead;
    assert_true(feed_position_parse(slice_of("2s.0_5k.0-5k.1.1"), &ahead));
    feed_hear_last(feed, PEER, 0);
    assert_false(feed_await(feed, &ahead, 0));
    assert_false(feed_await(feed, &ahead, 3 * TIME_US_PER_MS));
    assert_true(feed_position_parse(slice_of("2s.0_8c.1"), &ahead));
    assert_false(feed_await(feed, &ahead, 20 * (int64_t)TIME_US_PER_S)); /* at once: who is that? */
    assert_true(feed_position_parse(slice_of("2s.0_5k.0-5k.1.1"), &ahead));
    assert_true(thread_start(&hearer, 64 * 1024, hear_later, NULL));
    assert_true(feed_await(feed, &ahead, 20 * (int64_t)TIME_US_PER_S));
    thread_join(&hearer);
}

/* Every position that anybody was given leads, on this node, to exactly the rest. */
static void
every_position_leads_to_the_rest(void **state)
{
    (void)state;
    static struct told all[200];
    unsigned seed = 5;
    uint64_t peer = 0;
    feed_hear_last(feed, PEER, 0);
    for (int i = 0; i < 40; i++) {
        struct feed_change changes[4];
        int count = 1 + rand_r(&seed) % 4;
        for (int k = 0; k < count; k++)
            changes[k] = seat_change(rand_r(&seed) % 3 ? "gig" : "play", "A1", told_count + k);
        if (rand_r(&seed) % 2) {
            feed_tell(feed, changes, count);
        } else {
            char bytes[1000];
            size_t len = codec_write(bytes, changes, count);
            feed_hear(feed, PEER, ++peer, (struct slice){ bytes, len }, mono_now());
        }
    }
    assert_true(replay("gig", "2s.0_5k.0"));
    int count = told_count;
    assert_in_range(count, 30, 160);
    memcpy(all, told, sizeof(all));
    for (int i = 0; i < count; i++) {
        assert_true(replay("gig", all[i].after));
        assert_int_equal(told_count, count - i - 1);
        for (int k = 0; k < told_count; k++) {
            assert_int_equal(told[k].version, all[i + 1 + k].version);
            assert_string_equal(told[k].after, all[i + 1 + k].after);
        }
    }
}

/* --- no -------------------------------------------------------------------------------- */

static void
the_log_does_not_reach_back_for_ever(void **state)
{
    (void)state;
    struct feed_numbers numbers;
    char text[FEED_POSITION_TEXT_BYTES];
    int floor = 0;
    for (int i = 0; i < 100; i++)
        tell("gig", "A1", i + 1);
    feed_numbers(feed, &numbers);
    assert_true(numbers.log_bytes <= SMALL_LOG && numbers.log_bytes > SMALL_LOG - 300);
    assert_in_range(numbers.log_records, 10, 90);
    for (int i = 0; i <= 100; i++) {
        struct feed_position since = { .count = 1, .marks = { { OWN, (uint64_t)i } } };
        feed_position_write(&since, text);
        bool can = i >= 100 - (int)numbers.log_records;
        assert_int_equal(replay("gig", text), can);
        if (can)
            assert_int_equal(told_count, 100 - i);
        floor += !can;
    }
    assert_int_equal(floor, 100 - (int)numbers.log_records);
}

/* One talks, another is silent: what the log loses it loses of each for itself. */
static void
each_incarnation_has_a_floor_of_its_own(void **state)
{
    (void)state;
    feed_hear_last(feed, PEER, 0);
    hear(PEER, 1, "gig", "B1", 1);
    for (int i = 0; i < 100; i++)
        tell("gig", "A1", i + 1);
    assert_true(replay("gig", "2s.2r_5k.1"));
    assert_int_equal(told_count, 1);
    assert_false(replay("gig", "2s.2r_5k.0"));
    assert_false(replay("gig", "2s.2r"));
}

static void
a_record_that_is_larger_than_the_log_is_missed(void **state)
{
    (void)state;
    struct feed_change changes[200];
    for (int i = 0; i < 200; i++)
        changes[i] = seat_change("gig", "A1", i);
    tell("gig", "A1", 1);
    feed_tell(feed, changes, 200);
    tell("gig", "A1", 1000);
    assert_false(replay("gig", "2s.0"));
    assert_false(replay("gig", "2s.1"));
    assert_true(replay("gig", "2s.2"));
    assert_string_equal(visited(), "A1:1000");
}

static void
a_gap_can_be_resumed_from_behind_it(void **state)
{
    (void)state;
    feed_hear_last(feed, PEER, 0);
    hear(PEER, 1, "gig", "B1", 1);
    hear(PEER, 4, "gig", "B1", 4);
    hear(PEER, 5, "gig", "B1", 5);
    assert_false(replay("gig", "2s.0_5k.1"));
    assert_false(replay("gig", "2s.0_5k.2")); /* it heard more elsewhere, not enough */
    assert_true(replay("gig", "2s.0_5k.3"));
    assert_string_equal(visited(), "B1:4 B1:5");
    assert_true(replay("gig", "2s.0_5k.4"));
    assert_string_equal(visited(), "B1:5");
}

static void
what_was_told_before_the_hearing_began_is_not_known(void **state)
{
    (void)state;
    hear(PEER, 7, "gig", "B1", 7);
    assert_false(replay("gig", "2s.0"));
    assert_false(replay("gig", "2s.0_5k.5"));
    assert_true(replay("gig", "2s.0_5k.6"));
    assert_string_equal(visited(), "B1:7");
}

static void
unknown_incarnations_can_not_be_resumed_from(void **state)
{
    (void)state;
    tell("gig", "A1", 1);
    assert_false(replay("gig", "2s.1_5k.0"));
    assert_false(replay("gig", "1.1_2s.1"));
    assert_false(replay("gig", "2s.1-5k.1.1"));
}

/*
 * What a lost peer committed and never told is in no record. Whoever's position is from before may
 * lack it, whether the position names the peer, or was made before the peer came.
 */
static void
no_position_from_before_a_loss_is_resumed_from(void **state)
{
    (void)state;
    tell("gig", "A1", 1);
    const char *before_it_came = "2s.1";
    feed_hear_last(feed, PEER, 0);
    const char *while_it_lived = "2s.1_5k.0";
    assert_true(replay("gig", before_it_came));
    assert_true(replay("gig", while_it_lived));
    feed_lose(feed, PEER);
    assert_false(replay("gig", before_it_came));
    assert_false(replay("gig", while_it_lived));
    assert_true(replay("gig", "2s.2"));
    tell("gig", "A1", 2);
    assert_true(replay("gig", "2s.2"));
    assert_string_equal(visited(), "A1:2");
}

static void
no_position_from_before_a_break_is_resumed_from(void **state)
{
    (void)state;
    tell("gig", "A1", 1);
    feed_hear_last(feed, PEER, 0);
    feed_break(feed);
    assert_false(replay("gig", "2s.1_5k.0"));
    assert_true(replay("gig", "2s.2_5k.0"));
}

/* The map is cheaper than so many changes, and the feed stands still meanwhile. */
static void
too_much_is_not_told(void **state)
{
    (void)state;
    struct feed_change changes[128];
    struct feed_numbers numbers;
    for (int i = 0; i < 128; i++)
        changes[i] = seat_change("gig", "A1", i);
    told_is_counted_only = true;
    feed->log.bytes_max = 100 * LOG_BYTES;
    do {
        feed_tell(feed, changes, 128);
        feed_numbers(feed, &numbers);
    } while (numbers.log_bytes < FEED_REPLAY_BYTES_MAX + FEED_REPLAY_BYTES_MAX / 4);
    assert_false(replay("gig", "2s.0"));
    assert_true(replay("play", "2s.0")); /* records of other events cost nothing */
    struct feed_position half = { .count = 1,
                                  .marks = { { OWN, (uint64_t)numbers.log_records / 2 } } };
    char text[FEED_POSITION_TEXT_BYTES];
    feed_position_write(&half, text);
    assert_true(replay("gig", text));
    assert_int_equal(told_count, 128 * (numbers.log_records - (int64_t)half.marks[0].number));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        STARTED(nothing_is_told_to_who_begins),
        STARTED(nothing_is_told_to_who_has_all),
        STARTED(what_was_missed_of_the_event_is_told_in_order),
        STARTED(orgs_are_worlds_apart),
        STARTED(peers_are_told_of_in_the_order_of_this_node),
        STARTED(a_reader_may_be_ahead),
        STARTED(a_record_is_resumed_in_its_middle),
        STARTED(a_record_is_ended_before_others_begin),
        STARTED(a_reader_who_is_ahead_is_waited_for),
        STARTED(every_position_leads_to_the_rest),
        SMALL(the_log_does_not_reach_back_for_ever),
        SMALL(each_incarnation_has_a_floor_of_its_own),
        SMALL(a_record_that_is_larger_than_the_log_is_missed),
        STARTED(a_gap_can_be_resumed_from_behind_it),
        STARTED(what_was_told_before_the_hearing_began_is_not_known),
        STARTED(unknown_incarnations_can_not_be_resumed_from),
        STARTED(no_position_from_before_a_loss_is_resumed_from),
        STARTED(no_position_from_before_a_break_is_resumed_from),
        STARTED(too_much_is_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
