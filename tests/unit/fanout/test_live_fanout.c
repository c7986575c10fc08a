/*
 * Nodes that tell each other over a real Redis: two of them in this program, each with memory of
 * its own; the table of nodes is the test's. Skipped without HOLDFAST_TEST_REDIS_URL.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fanout_internal.h"
#include "holdfast/events.h"
#include "holdfast/hot_table.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "holdfast/seat_map.h"

#define MS       TIME_US_PER_MS
#define TIME_0   1700000000000000 /* the database's clock, when the test began */
#define MEMBERS  2
#define AWAIT_US (20 * (int64_t)TIME_US_PER_S)

static struct config config;
static struct mono_time began;
static int64_t database;     /* each case has a channel of its own */
static int64_t drawn_unseen; /* incarnations that were here, and nobody heard */

static struct member {
    struct node node;
    bool in_table;
    int64_t incarnation, timeline;
} members[MEMBERS];

#define REDIS_OR_SKIP()                                                                            \
    do {                                                                                           \
        if (config.redis_url == NULL) {                                                            \
            print_message("skipped: HOLDFAST_TEST_REDIS_URL is not set\n");                        \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

/* --- nodes ----------------------------------------------------------------------- */

static void
read_table(struct member *self)
{
    struct fanout_table table = { .began = mono_now(),
                                  .system = 1,
                                  .timeline = self->timeline,
                                  .database = database,
                                  .incarnation = self->incarnation,
                                  .mine = true };
    for (int i = 0; i < MEMBERS; i++) {
        const struct member *member = &members[i];
        if (member->incarnation + drawn_unseen > table.newest)
            table.newest = member->incarnation + drawn_unseen;
        if (member == self || !member->in_table)
            continue;
        struct fanout_node *other = &table.others[table.count++];
        snprintf(other->id, sizeof(other->id), "%s", member->node.id);
        other->incarnation = member->incarnation;
    }
    fanout_know_nodes(self->node.fanout, &table);
}

static void
make_memory(struct node *node)
{
    struct hot_table_limits limits = {
        .shards = 4, .seats_max = 1000, .parked_max = 10, .lease_us = TIME_US_PER_S
    };
    node->config = &config;
    node->clock = db_clock_new();
    node->tier = warm_tier_new(&config);
    node->hot = hot_table_new(&limits);
    node->events = events_new();
    node->maps = seat_maps_new(4);
    node->feed = feed_new(node, 65536);
    assert_true(node->clock != NULL && node->tier != NULL && node->hot != NULL &&
                node->events != NULL && node->maps != NULL && node->feed != NULL);
    db_clock_observe(node->clock, began, began, (struct db_time){ TIME_0 });
}

static struct member *
start(int number)
{
    static int64_t incarnations;
    struct member *member = &members[number];
    char error[100] = "";
    snprintf(member->node.id, sizeof(member->node.id), "node-%d", number);
    make_memory(&member->node);
    member->incarnation = ++incarnations;
    member->in_table = true;
    feed_start(member->node.feed, member->incarnation);
    member->node.fanout = fanout_start(&member->node, member->incarnation, error, sizeof(error));
    assert_non_null(member->node.fanout);
    read_table(member);
    return member;
}

static void
stop(struct member *member, bool clean)
{
    struct node *node = &member->node;
    fanout_stop(&node->fanout, clean);
    feed_free(&node->feed);
    seat_maps_free(&node->maps);
    events_free(&node->events);
    hot_table_free(&node->hot);
    warm_tier_free(&node->tier);
    db_clock_free(&node->clock);
    memset(node, 0, sizeof(*node));
}

/* Lets time pass, in which everybody reads the table. */
static void
pass(int64_t us)
{
    struct mono_time end = { mono_now().us + us };
    do {
        for (int i = 0; i < MEMBERS; i++)
            if (members[i].node.fanout != NULL)
                read_table(&members[i]);
        sleep_us(2 * MS);
    } while (mono_now().us < end.us);
}

static bool
is_trusted(struct member *member)
{
    return fanout_is_trusted(member->node.fanout);
}

/* How long it takes; fails after a while. */
static int64_t
await_trust(struct member *member, bool trusted)
{
    struct mono_time start_at = mono_now();
    while (is_trusted(member) != trusted && mono_now().us < start_at.us + AWAIT_US)
        pass(0);
    assert_int_equal(is_trusted(member), trusted);
    return mono_now().us - start_at.us;
}

/* Until then it is trusted because it is alone. */
static void
await_company(struct member *member)
{
    struct mono_time end = { mono_now().us + AWAIT_US };
    struct fanout_peer peer = { .heard = false };
    while (mono_now().us < end.us &&
           (fanout_peers(member->node.fanout, &peer, 1) == 0 || !peer.heard))
        pass(0);
    assert_true(peer.heard);
    await_trust(member, true);
}

static void
start_both(void)
{
    (void)start(0);
    (void)start(1);
    await_company(&members[0]);
    await_company(&members[1]);
}

static struct db_time
db_now(void)
{
    return (struct db_time){ TIME_0 + mono_now().us - began.us };
}

static void
hold(struct member *member, const char *seat, int64_t version)
{
    struct feed_change change = { .kind = FEED_SEAT,
                                  .status = SEAT_HELD,
                                  .org = SLICE_LITERAL("acme"),
                                  .event = SLICE_LITERAL("gig"),
                                  .item = slice_of(seat),
                                  .version = version,
                                  .user = SLICE_LITERAL("ann"),
                                  .held_until = { db_now().us + 60 * (int64_t)TIME_US_PER_S },
                                  .at = db_now() };
    feed_tell(member->node.feed, &change, 1);
}

static bool
knows(struct member *member, const char *seat, int64_t version)
{
    struct seat_key key = { SLICE_LITERAL("acme"), SLICE_LITERAL("gig"), slice_of(seat) };
    struct seat_view view;
    return hot_table_read(member->node.hot, &key, db_now(), MS, mono_now(), &view) &&
           view.version == version;
}

static void
await_known(struct member *member, const char *seat, int64_t version)
{
    struct mono_time end = { mono_now().us + AWAIT_US };
    while (!knows(member, seat, version) && mono_now().us < end.us)
        pass(0);
    assert_true(knows(member, seat, version));
}

static void
await_count(enum metric_counter counter, uint64_t least)
{
    struct mono_time end = { mono_now().us + AWAIT_US };
    while (metric_count(counter) < least && mono_now().us < end.us)
        pass(0);
    assert_true(metric_count(counter) >= least);
}

static uint64_t
trust_lost(void)
{
    return metric_count(METRIC_TRUST_LOST_TOTAL) + metric_count(METRIC_DISTRUSTS_TOTAL);
}

/* --- cases -------------------------------------------------------------------------- */

static void
who_is_alone_is_trusted_and_sends_no_records(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct member *lone = start(0);
    await_trust(lone, true);
    uint64_t frames = metric_count(METRIC_FRAMES_PUBLISHED_TOTAL);
    uint64_t sent = metric_count(METRIC_RECORDS_PUBLISHED_TOTAL);
    struct feed_numbers numbers;
    hold(lone, "A1", 1);
    pass(500 * MS);
    await_count(METRIC_FRAMES_PUBLISHED_TOTAL, frames + 1); /* it lives */
    assert_int_equal(metric_count(METRIC_RECORDS_PUBLISHED_TOTAL), sent);
    feed_numbers(lone->node.feed, &numbers);
    assert_int_equal(numbers.outbox_records, 0); /* nor does it keep them */
}

/* An import draws an incarnation, changes seats, and tells nobody what. */
static void
what_nobody_told_breaks_the_feed(void **state)
{
    (void)state;
    struct feed_position before, after;
    static char nothing[] = "";
    char *url = config.redis_url;
    config.redis_url = nothing;
    struct member *lone = start(0);
    await_trust(lone, true);
    feed_position(lone->node.feed, &before);
    pass(0);
    feed_position(lone->node.feed, &after);
    assert_true(feed_position_covers(&before, &after));
    drawn_unseen++;
    pass(0);
    feed_position(lone->node.feed, &after);
    assert_true(is_trusted(lone));
    assert_false(feed_position_covers(&before, &after)); /* those from before lack something */
    stop(lone, true);
    config.redis_url = url;
}

/* Trust that nobody moves on lapses; each judging moves on that of all memory. */
static void
judging_moves_the_end_of_trust_on(void **state)
{
    (void)state;
    static char nothing[] = "";
    char *url = config.redis_url;
    config.redis_url = nothing;
    struct member *lone = start(0);
    await_trust(lone, true);
    seat_maps_trust_until(lone->node.maps, mono_now());
    fanout_judge(lone->node.fanout);
    assert_true(seat_maps_trusted(lone->node.maps));
    stop(lone, true);
    config.redis_url = url;
}

static void
two_hear_each_other(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    start_both();
    uint64_t lost = trust_lost();
    hold(&members[0], "A1", 7);
    hold(&members[1], "B1", 3);
    await_known(&members[1], "A1", 7);
    await_known(&members[0], "B1", 3);
    for (int i = 1; i <= 500; i++)
        hold(&members[0], "A2", i);
    await_known(&members[1], "A2", 500);
    assert_int_equal(trust_lost(), lost);
    struct fanout_peer peer;
    assert_int_equal(fanout_peers(members[1].node.fanout, &peer, 1), 1);
    assert_string_equal(peer.id, "node-0");
    assert_true(peer.heard && peer.gaps == 0 && peer.number >= 501);
    assert_in_range(peer.lag_us, 0, TIME_US_PER_S);
}

/* It asks who is there, and need not wait for anybody's next heartbeat. */
static void
a_newcomer_is_soon_trusted_and_disturbs_nobody(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    struct member *old = start(0);
    await_trust(old, true);
    for (int i = 0; i < 3; i++) {
        uint64_t lost = metric_count(METRIC_TRUST_LOST_TOTAL);
        struct member *newcomer = start(1);
        assert_true(fanout_await_trust(newcomer->node.fanout, TIME_US_PER_S));
        await_company(old);
        hold(newcomer, "A1", i + 1);
        await_known(old, "A1", i + 1);
        pass(300 * MS);
        assert_true(is_trusted(old));
        members[1].in_table = false;
        stop(newcomer, true);
        pass(FANOUT_SILENCE_US + 100 * MS);
        assert_true(is_trusted(old));
        assert_true(metric_count(METRIC_TRUST_LOST_TOTAL) <=
                    lost + 1); /* the table may be quicker */
    }
}

static void
a_farewell_disturbs_nobody(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    start_both();
    uint64_t lost = trust_lost();
    hold(&members[0], "A1", 1); /* told before it leaves */
    stop(&members[0], true);
    pass(FANOUT_SILENCE_US + 100 * MS); /* the table has it still */
    members[0].in_table = false;
    pass(100 * MS);
    assert_true(is_trusted(&members[1]));
    assert_true(knows(&members[1], "A1", 1));
    assert_int_equal(trust_lost(), lost);
}

static void
one_that_is_killed_is_missed_until_its_row_is_gone(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    start_both();
    hold(&members[0], "A1", 1);
    await_known(&members[1], "A1", 1);
    stop(&members[0], false);
    int64_t took_us = await_trust(&members[1], false);
    assert_in_range(took_us, FANOUT_SILENCE_US / 2, FANOUT_SILENCE_US + 2000 * MS);
    pass(300 * MS);
    assert_false(is_trusted(&members[1]));
    members[0].in_table = false;
    await_trust(&members[1], true);
    assert_false(knows(&members[1], "A1", 1)); /* void: it may have changed that, and not told */
}

static void
a_doubt_is_told_at_once(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    start_both();
    struct node *doubter = &members[0].node;
    int in_time = 0; /* nearly always: a thread may be held up */
    for (int i = 0; i < 10; i++) {
        atomic_fetch_add(&doubter->doubts, 1);
        feed_wake(doubter->feed);
        in_time += await_trust(&members[1], false) < FANOUT_HEARTBEAT_US / 2;
        await_trust(&members[0], false);
        atomic_fetch_sub(&doubter->doubts, 1);
        feed_wake(doubter->feed);
        in_time += await_trust(&members[1], true) < FANOUT_HEARTBEAT_US / 2;
        await_trust(&members[0], true);
    }
    assert_true(in_time >= 15);
}

static void
a_number_that_is_used_up_is_a_distrust(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    start_both();
    hold(&members[0], "A1", 1);
    await_known(&members[1], "A1", 1);
    feed_skip(members[0].node.feed); /* it committed what it can't tell */
    for (int i = 0; i < 1000 && knows(&members[1], "A1", 1); i++)
        pass(0);
    assert_false(knows(&members[1], "A1", 1));
    pass(100 * MS);
    assert_true(is_trusted(&members[1]));
    struct fanout_peer peer;
    assert_int_equal(fanout_peers(members[1].node.fanout, &peer, 1), 1);
    assert_int_equal(peer.gaps, 1);
}

static void
what_is_no_frame_is_counted_and_ignored(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    start_both();
    char channel[FANOUT_CHANNEL_BYTES];
    uint64_t garbled = metric_count(METRIC_FRAMES_GARBLED_TOTAL), lost = trust_lost();
    struct warm *stranger = warm_new(&config, members[0].node.tier);
    assert_true(fanout_channel(members[0].node.fanout, channel));
    assert_true(warm_publish(stranger, slice_of(channel), SLICE_LITERAL("hello")));
    assert_true(warm_publish(stranger, slice_of(channel), SLICE_EMPTY));
    warm_free(&stranger);
    await_count(METRIC_FRAMES_GARBLED_TOTAL, garbled + 4);
    pass(100 * MS);
    assert_int_equal(metric_count(METRIC_FRAMES_GARBLED_TOTAL), garbled + 4); /* both heard both */
    assert_int_equal(trust_lost(), lost);
    assert_true(is_trusted(&members[0]) && is_trusted(&members[1]));
}

static void
another_database_has_another_channel(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    start_both();
    database++; /* both follow */
    pass(100 * MS);
    await_trust(&members[0], true);
    await_trust(&members[1], true);
    hold(&members[0], "A1", 1);
    await_known(&members[1], "A1", 1);
}

/* A standby was promoted, and the primary of before lives on: one has noticed, the other hasn't. */
static void
who_is_at_another_timeline_hears_nothing_until_the_other_follows(void **state)
{
    (void)state;
    REDIS_OR_SKIP();
    start_both();
    fanout_another_postgres(members[0].node.fanout);
    assert_false(is_trusted(&members[0])); /* at once, before it has read the new one's table */
    hold(&members[1], "A1", 1);
    sleep_us(100 * MS);
    assert_false(knows(&members[0], "A1", 1));
    members[0].timeline = 1;
    await_trust(&members[1], false);
    hold(&members[0], "A2", 1);
    hold(&members[1], "A3", 1);
    pass(300 * MS);
    assert_false(is_trusted(&members[0]) || is_trusted(&members[1]));
    assert_false(knows(&members[1], "A2", 1) || knows(&members[0], "A3", 1));
    members[1].timeline = 1;
    await_company(&members[0]);
    await_company(&members[1]);
    hold(&members[0], "A4", 1);
    await_known(&members[1], "A4", 1);
}

static void
without_redis_only_who_is_alone_is_trusted(void **state)
{
    (void)state;
    static char nothing[] = "";
    char *url = config.redis_url;
    config.redis_url = nothing;
    struct member *member = start(0);
    await_trust(member, true);
    members[1] = (struct member){ .node = { .id = "node-1" }, .in_table = true, .incarnation = 99 };
    read_table(member);
    assert_false(is_trusted(member));
    members[1] = (struct member){ .in_table = false };
    read_table(member);
    assert_true(is_trusted(member));
    stop(member, true);
    config.redis_url = url;
}

/* --- the program -------------------------------------------------------------------------- */

static int
open_case(void **state)
{
    (void)state;
    memset(members, 0, sizeof(members));
    database = (int64_t)getpid() * 1000000 + mono_now().us % 1000000;
    drawn_unseen = 0;
    return 0;
}

static int
close_case(void **state)
{
    (void)state;
    for (int i = 0; i < MEMBERS; i++)
        if (members[i].node.fanout != NULL)
            stop(&members[i], false);
    return 0;
}

int
main(void)
{
    static char url[512];
    const char *server = getenv("HOLDFAST_TEST_REDIS_URL");
    log_init(LOG_ERROR + 1, "test");
    signal(SIGPIPE, SIG_IGN);
    began = mono_now();
    config.redis_timeout_ms = 2000;
    if (server != NULL && server[0] != '\0') {
        snprintf(url, sizeof(url), "%s", server);
        config.redis_url = url;
    }
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_case, close_case)
    const struct CMUnitTest tests[] = {
        CASE(who_is_alone_is_trusted_and_sends_no_records),
        CASE(what_nobody_told_breaks_the_feed),
        CASE(judging_moves_the_end_of_trust_on),
        CASE(two_hear_each_other),
        CASE(a_newcomer_is_soon_trusted_and_disturbs_nobody),
        CASE(a_farewell_disturbs_nobody),
        CASE(one_that_is_killed_is_missed_until_its_row_is_gone),
        CASE(a_doubt_is_told_at_once),
        CASE(a_number_that_is_used_up_is_a_distrust),
        CASE(what_is_no_frame_is_counted_and_ignored),
        CASE(another_database_has_another_channel),
        CASE(who_is_at_another_timeline_hears_nothing_until_the_other_follows),
        CASE(without_redis_only_who_is_alone_is_trusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
