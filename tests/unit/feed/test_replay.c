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

/* He was told in the order of a node that heard the newer version first. */
static void
what_may_have_overtaken_is_recalled(void **state)
{
    (void)state;
    feed_hear_last(feed, PEER, 0);
    tell("gig", "A0", 1);
    tell("play", "A1", 1);
    hear(PEER, 1, "gig", "A1", 6);
    tell("gig", "A1", 5);
    assert_true(replay("gig", "2s.2_5k.1"));
    assert_string_equal(visited(), "A1:5");
    assert_string_equal(recalled, "A0:1 A1:6 ");
    hear(PEER, 2, "gig", "A2", 9); /* the same where it stands behind */
    tell("play", "A1", 2);
    assert_true(replay("gig", "2s.2_5k.2"));
    assert_string_equal(visited(), "A1:5");
    assert_string_equal(recalled, "A0:1 A1:6 A2:9 ");
    assert_true(replay("gig", "2s.3_5k.2"));
    assert_string_equal(recalled, ""); /* of this event nothing is missed */
    tell_three();
    assert_true(replay("gig", "2s.4_5k.2-2s.5.2"));
    assert_string_equal(visited(), "A1:3");
    assert_string_equal(recalled, "A0:1 A1:6 A1:5 A2:9 A1:1 A1:2 ");
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
    feed->await_after = mono_now();
    assert_false(feed_await(feed, &ahead, 3 * TIME_US_PER_MS));
    feed->await_after = mono_now();
    assert_true(feed_position_parse(slice_of("2s.0_8c.1"), &ahead));
    assert_false(feed_await(feed, &ahead, 20 * (int64_t)TIME_US_PER_S)); /* at once: who is that? */
    assert_true(feed_position_parse(slice_of("2s.0_5k.0-5k.1.1"), &ahead));
    assert_true(thread_start(&hearer, 64 * 1024, hear_later, NULL));
    assert_true(feed_await(feed, &ahead, 20 * (int64_t)TIME_US_PER_S));
    thread_join(&hearer);
}

static void *
await_long(void *ahead)
{
    (void)feed_await(feed, ahead, TIME_US_PER_S);
    return NULL;
}

static bool
somebody_waits(void)
{
    lock_take(&feed->lock);
    bool waits = feed->is_awaited;
    lock_drop(&feed->lock);
    return waits;
}

static bool
returns_at_once(const char *ahead)
{
    struct feed_position position;
    struct mono_time began = mono_now();
    assert_true(feed_position_parse(slice_of(ahead), &position));
    assert_false(feed_await(feed, &position, 20 * (int64_t)TIME_US_PER_S));
    return mono_now().us - began.us < 10 * (int64_t)TIME_US_PER_S;
}

/* Whoever has a token may send any position. */
static void
nobody_waits_for_what_will_not_come(void **state)
{
    (void)state;
    struct thread waiter = { 0 };
    struct feed_position ahead;
    feed_hear_last(feed, PEER, 0);
    feed_hear_last(feed, 300, 0);
    feed_part(feed, 300);
    assert_true(returns_at_once("2s.0_5k.7ps"));    /* 10,000 ahead */
    assert_true(returns_at_once("2s.0_5k.0_8c.1")); /* it left */
    assert_true(returns_at_once("2s.1_5k.0"));      /* nobody is ahead of us in our own */
    assert_true(returns_at_once("2s.0_5k.0-5k.zz9.1"));
    assert_true(feed_position_parse(slice_of("2s.0_5k.1"), &ahead));
    assert_true(thread_start(&waiter, 64 * 1024, await_long, &ahead));
    while (!somebody_waits())
        sleep_us(TIME_US_PER_MS);
    assert_true(returns_at_once("2s.0_5k.1")); /* one waits already, or has waited in vain */
    thread_join(&waiter);
    assert_false(feed->is_awaited);
    assert_true(returns_at_once("2s.0_5k.1")); /* one has waited in vain */
    feed->await_after = mono_now();
    hear(PEER, 1, "gig", "A1", 1);
    assert_true(feed_await(feed, &ahead, 0));
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
    assert_false(replay("gig", "2s.0_5k.6")); /* from before the hearing began */
    assert_true(replay("gig", "2s.1_5k.6"));
    assert_string_equal(visited(), "B1:7");
}

/*
 * It stood still, was lost, and its row went; who read meanwhile doesn't name it. Now it is back
 * under its old number, lower than another's, and has told a thing or two that nobody here heard.
 */
static void
no_position_from_before_one_came_back_is_resumed_from(void **state)
{
    (void)state;
    feed_hear_last(feed, PEER, 0);
    feed_hear_last(feed, OWN - 1, 99);
    feed_lose(feed, OWN - 1);
    char meanwhile[FEED_POSITION_TEXT_BYTES];
    strcpy(meanwhile, position_text());
    assert_true(replay("gig", meanwhile));
    hear(OWN - 1, 101, "gig", "A1", 7);
    hear(OWN - 1, 102, "gig", "A2", 7);
    assert_false(replay("gig", meanwhile));
    assert_true(replay("gig", position_text()));

    feed_lose(feed, OWN - 1);
    strcpy(meanwhile, position_text());
    feed_hear_last(feed, OWN - 1, 103); /* a heartbeat is the first that comes */
    assert_false(replay("gig", meanwhile));
}

/* Only who left may have been left out: it is not known to have what one tells who lives. */
static void
one_who_lives_and_is_not_named_is_unread(void **state)
{
    (void)state;
    feed_hear_last(feed, PEER, 0);
    feed_hear_last(feed, OWN - 1, 0);
    hear(OWN - 1, 1, "gig", "A1", 7);
    assert_true(replay("gig", "2s.0_5k.0"));
    assert_string_equal(visited(), "A1:7");
    feed_part(feed, OWN - 1);
    assert_true(replay("gig", "2s.0_5k.0"));
    assert_string_equal(visited(), "");
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

/* Who was told by another node, which heard it to its end, may name it here. */
static void
one_that_left_before_this_node_came_can_be_named_once_it_was_read(void **state)
{
    (void)state;
    feed_adopt(feed, 300, 5, 0);
    feed_adopt(feed, 300, 9, 0); /* known already */
    tell("gig", "A1", 1);        /* record 1 was the break */
    assert_true(replay("gig", "2s.1_8c.5"));
    assert_string_equal(visited(), "A1:1");
    assert_false(replay("gig", "2s.1_8c.4")); /* what it told last is in no log here */
    assert_false(replay("gig", "2s.0_8c.5")); /* from before this node came */
    assert_false(replay("gig", "8c.5"));
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

/* However small they are: each is looked at, and the feed stands still meanwhile. */
static void
too_many_are_not_walked_over(void **state)
{
    (void)state;
    told_is_counted_only = true;
    feed->log.bytes_max = 100 * LOG_BYTES;
    tell("gig", "A1", 1);
    for (int i = 1; i < FEED_REPLAY_RECORDS_MAX; i++)
        tell("play", "A1", i);
    assert_true(replay("gig", "2s.0"));
    assert_int_equal(told_count, 1);
    tell("play", "A1", 1);
    assert_false(replay("gig", "2s.0"));
    assert_true(replay("gig", "2s.1"));
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
        STARTED(what_may_have_overtaken_is_recalled),
        STARTED(a_reader_who_is_ahead_is_waited_for),
        STARTED(nobody_waits_for_what_will_not_come),
        STARTED(every_position_leads_to_the_rest),
        SMALL(the_log_does_not_reach_back_for_ever),
        SMALL(each_incarnation_has_a_floor_of_its_own),
        SMALL(a_record_that_is_larger_than_the_log_is_missed),
        STARTED(a_gap_can_be_resumed_from_behind_it),
        STARTED(what_was_told_before_the_hearing_began_is_not_known),
        STARTED(unknown_incarnations_can_not_be_resumed_from),
        STARTED(one_that_left_before_this_node_came_can_be_named_once_it_was_read),
        STARTED(no_position_from_before_a_loss_is_resumed_from),
        STARTED(no_position_from_before_a_break_is_resumed_from),
        STARTED(no_position_from_before_one_came_back_is_resumed_from),
        STARTED(one_who_lives_and_is_not_named_is_unread),
        STARTED(too_much_is_not_told),
        STARTED(too_many_are_not_walked_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
