/* Audiences, beginnings and turns, with the real feed and maps; connections are texts. No threads:
 * the test turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "fake_rows.h"
#include "holdfast/events.h"
#include "map_rows.h"
#include "streams_internal.h"

#define BACKLOG      2000
#define NOW_US       1000000000000LL
#define OWN          10

static const struct slice org = { "acme", 4 };
static const struct slice event = { "E1", 2 };

/* --- the acceptor's part --------------------------------------------------------------------- */

struct http_stream {
    struct buf got;
    struct http_body *last; /* the piece that came last; compared, never read */
    bool ended;
    void (*closed)(void *context);
    void *context;
};
static struct http_stream *opened; /* by the last beginning */
static bool nobody_may_stream;

struct http_body *
http_body_alloc(size_t room)
{
    struct http_body *body = malloc(sizeof(*body) + room);
    assert_non_null(body);
    atomic_init(&body->refs, 1);
    body->len = 0;
    return body;
}

struct http_body *
http_body_new(const void *bytes, size_t len)
{
    struct http_body *body = http_body_alloc(len);
    memcpy(body->bytes, bytes, len);
    body->len = len;
    return body;
}

struct http_body *
http_body_get(struct http_body *body)
{
    atomic_fetch_add(&body->refs, 1);
    return body;
}

void
http_body_put(struct http_body *body)
{
    if (atomic_fetch_sub(&body->refs, 1) == 1)
        free(body);
}

struct http_stream *
http_exchange_stream(struct http_exchange *exchange, size_t backlog_max, void (*closed)(void *),
                     void *context)
{
    (void)exchange;
    assert_int_equal(backlog_max, BACKLOG);
    if (nobody_may_stream)
        return NULL;
    opened = calloc(1, sizeof(*opened));
    opened->closed = closed;
    opened->context = context;
    return opened;
}

bool
http_stream_send(struct http_stream *stream, struct http_body *body)
{
    assert_false(stream->ended);
    assert_true(body->len > 0);
    buf_append(&stream->got, body->bytes, body->len);
    stream->last = body;
    return stream->closed != NULL;
}

void
http_stream_end(struct http_stream *stream)
{
    assert_false(stream->ended);
    stream->ended = true;
}

/* The connection goes; once per stream. */
static void
lose(struct http_stream *stream)
{
    stream->closed(stream->context);
    stream->closed = NULL;
}

static void
expect_told(struct http_stream *stream, const char *text)
{
    assert_string_equal(stream->got.data == NULL ? "" : stream->got.data, text);
    buf_clear(&stream->got);
    if (stream->got.data != NULL)
        stream->got.data[0] = '\0';
}

static bool
was_told(struct http_stream *stream, const char *piece)
{
    return stream->got.data != NULL && strstr(stream->got.data, piece) != NULL;
}

/* --- a node -------------------------------------------------------------------------- */

static struct config config;
static struct node node;
static struct streams *streams;

/* Seats S0 ... S4 and a map that is whole. */
static void
load(void)
{
    struct feed_position before;
    struct seat_map_reading reading;
    struct pg_result *seats = rows_new(SEAT_COLUMNS), *areas = rows_new(AREA_COLUMNS);
    for (int i = 0; i < 5; i++) {
        char id[8];
        snprintf(id, sizeof(id), "S%d", i);
        rows_add(seats, id, "main", "1", id, NULL, "1000", NULL, NULL, "available", "f", "0", NULL,
                 "f", "f", NULL, NULL, NULL);
    }
    feed_position(node.feed, &before);
    sleep_us(2); /* after whatever was done before */
    seat_map_reading_begin(&reading, node.clock, &before);
    assert_true(seat_maps_load(node.maps, org, event, seats, areas, &reading));
    pg_result_free(&seats);
    pg_result_free(&areas);
}

static int
set_up(void **state)
{
    (void)state;
    config = (struct config){ .streams_max = 3,
                              .stream_backlog_max = BACKLOG,
                              .request_timeout = TIME_US_PER_S };
    struct hot_table_limits limits = {
        .shards = 4, .seats_max = 10000, .parked_max = 10, .lease_us = 1000000
    };
    node = (struct node){ .config = &config,
                          .clock = db_clock_new(),
                          .hot = hot_table_new(&limits),
                          .events = events_new(),
                          .maps = seat_maps_new(4) };
    struct mono_time now = mono_now();
    db_clock_observe(node.clock, now, now, (struct db_time){ NOW_US });
    node.feed = feed_new(&node, 1 << 20);
    feed_start(node.feed, OWN);
    seat_maps_set_trusted(node.maps, true);
    streams = calloc(1, sizeof(*streams));
    streams->node = &node;
    lock_init(&streams->lock, LOCK_AUDIENCES);
    lock_cond_init(&streams->keeper_cond);
    lock_cond_init(&streams->reader_cond);
    nobody_may_stream = false;
    /* The map is there before anybody comes: no test has a Postgres. */
    struct seat_map_request wish = { .org = org, .event = event, .may_render = true };
    struct seat_map_reply reply;
    assert_int_equal(seat_maps_get(node.maps, &wish, &reply), SEAT_MAP_LOAD);
    load();
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    streams_stop(&streams);
    feed_free(&node.feed);
    seat_maps_free(&node.maps);
    events_free(&node.events);
    hot_table_free(&node.hot);
    db_clock_free(&node.clock);
    return 0;
}

static void
turn(void)
{
    lock_take(&streams->lock);
    keeper_turn_locked(streams);
    lock_drop(&streams->lock);
}

/* The connection goes, and the next turn lets go of it. */
static void
drop(struct http_stream *stream)
{
    if (stream->closed != NULL)
        lose(stream);
    turn();
    assert_true(stream->ended);
    buf_fini(&stream->got);
    free(stream);
}

static enum hf_status
try_begin(const char *last_event_id, int64_t ends_us)
{
    struct http_exchange exchange = { 0 };
    return streams_begin(streams, NULL, &exchange, org, event, slice_of(last_event_id),
                         (struct db_time){ ends_us });
}

static struct http_stream *
begin(const char *last_event_id)
{
    opened = NULL;
    assert_int_equal(try_begin(last_event_id, INT64_MAX), HF_OK);
    assert_non_null(opened);
    return opened;
}

/* A stream that has been told all up to now. */
static struct http_stream *
begin_quietly(void)
{
    struct http_stream *stream = begin("");
    turn();
    buf_clear(&stream->got);
    stream->got.data[0] = '\0';
    return stream;
}

static void
change(const char *seat, enum seat_status status, int64_t version, enum feed_reason reason)
{
    struct feed_change one = { .kind = FEED_SEAT,
                               .reason = reason,
                               .status = status,
                               .org = org,
                               .event = event,
                               .item = slice_of(seat),
                               .version = version,
                               .held_until = { NOW_US + 60 * TIME_US_PER_S },
                               .at = { NOW_US } };
    feed_tell(node.feed, &one, 1);
}

#define AT "\"timestamp\":\"1970-01-12T13:46:40.000Z\"}\n\n"
#define HELD(seat, id, version)                                                                    \
    "event: seat_held\nid: " id "\ndata: {\"seat_id\":\"" seat                                     \
    "\",\"status\":\"held\",\"version\":" version "," AT

/* --- beginnings ---------------------------------------------------------------------- */

static void
a_stream_begins_with_counts_at_a_position(void **state)
{
    (void)state;
    struct http_stream *stream = begin("");
    const char *first = "retry: 1000\n\nevent: occupancy_changed\nid: a.0\ndata: {\"available\":5,";
    assert_memory_equal(stream->got.data, first, strlen(first));
    assert_int_equal(streams->open, 1);
    drop(stream);
}

static void
a_reader_goes_on_where_they_were(void **state)
{
    (void)state;
    change("S1", SEAT_HELD, 1, FEED_REASON_NONE);
    change("S2", SEAT_HELD, 1, FEED_REASON_NONE);
    change("S1", SEAT_AVAILABLE, 2, FEED_USER_CANCELLED);
    struct http_stream *stream = begin("a.1");
    const char *missed = "retry: 1000\n\n" HELD(
        "S2", "a.2",
        "1") "event: seat_released\nid: a.3\ndata: {\"seat_id\":\"S1\",\"status\":\"available\","
             "\"version\":2,\"reason\":\"user_cancelled\"," AT
             "event: occupancy_changed\nid: a.3\n";
    assert_memory_equal(stream->got.data, missed, strlen(missed));
    drop(stream);
}

/* The reader was told the newer one first; what it had overtaken comes to nothing here as well. */
static void
an_older_version_is_not_told_behind_a_newer_one(void **state)
{
    (void)state;
    change("S1", SEAT_HELD, 6, FEED_REASON_NONE);
    change("S1", SEAT_AVAILABLE, 5, FEED_USER_CANCELLED);
    change("S2", SEAT_HELD, 1, FEED_REASON_NONE);
    struct http_stream *stream = begin("a.1");
    const char *missed = "retry: 1000\n\n" HELD("S2", "a.3", "1") "event: occupancy_changed\n";
    assert_memory_equal(stream->got.data, missed, strlen(missed));
    drop(stream);
}

static void
what_cannot_be_told_begins_with_a_reset(void **state)
{
    (void)state;
    const char *const bad[] = { "nonsense", "0", "b.0", "a.9-" };
    const char *reset = "retry: 1000\n\nevent: reset\nid: a.2\ndata: {}\n\n"
                        "event: occupancy_changed\nid: a.2\n";
    change("S1", SEAT_HELD, 1, FEED_REASON_NONE);
    feed_break(node.feed); /* nothing from before it, then: number 2 */
    load();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct http_stream *stream = begin(bad[i]);
        assert_memory_equal(stream->got.data, reset, strlen(reset));
        lose(stream);
        turn();
        drop(stream);
    }
}

static void
what_is_missed_beyond_the_backlog_begins_with_a_reset(void **state)
{
    (void)state;
    for (int version = 1; version < 40; version++)
        change("S1", SEAT_HELD, version, FEED_REASON_NONE);
    struct http_stream *stream = begin("a.0");
    assert_true(was_told(stream, "event: reset\nid: a.13\n"));
    assert_false(was_told(stream, "seat_held"));
    drop(stream);
}

static void
seats_that_were_added_begin_with_a_reset(void **state)
{
    (void)state;
    struct feed_change added = { .kind = FEED_SEATS, .org = org, .event = event };
    feed_tell(node.feed, &added, 1);
    load();
    struct http_stream *stream = begin("a.0");
    assert_true(was_told(stream, "event: reset\nid: a.1\n"));
    drop(stream);
}

static void
a_map_that_may_lack_something_gives_no_ids(void **state)
{
    (void)state;
    seat_maps_set_trusted(node.maps, false);
    struct http_stream *stream = begin("a.0");
    assert_true(was_told(stream, "event: reset\ndata: {}\n\nevent: occupancy_changed\ndata: {"));
    change("S1", SEAT_HELD, 1, FEED_REASON_NONE);
    turn();
    assert_true(was_told(stream, "event: seat_held\ndata: {"));
    drop(stream);
}

static void
there_are_limits_and_an_end(void **state)
{
    (void)state;
    struct http_stream *all[3];
    nobody_may_stream = true;
    assert_int_equal(try_begin("", INT64_MAX), HF_OVERLOADED);
    nobody_may_stream = false;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(streams_admit(streams), HF_OK);
        all[i] = begin("");
    }
    assert_int_equal(streams_admit(streams), HF_OVERLOADED);
    assert_int_equal(try_begin("", INT64_MAX), HF_OVERLOADED);
    lose(all[0]);
    turn();
    assert_true(all[0]->ended);
    struct http_stream *another = begin("");
    change("S1", SEAT_HELD, 1, FEED_REASON_NONE);
    streams_close(streams);
    assert_true(was_told(another, "seat_held")); /* all that had gathered, then the end */
    assert_true(another->ended && all[1]->ended && all[2]->ended);
    assert_int_equal(streams->open, 0);
    assert_int_equal(streams_admit(streams), HF_DRAINING);
    assert_int_equal(try_begin("", INT64_MAX), HF_DRAINING);
    for (int i = 0; i < 3; i++)
        drop(all[i]);
    drop(another);
}

/* --- turns --------------------------------------------------------------------------- */

static void
all_are_told_by_one_body(void **state)
{
    (void)state;
    struct http_stream *a = begin_quietly(), *b = begin_quietly();
    change("S1", SEAT_HELD, 1, FEED_REASON_NONE);
    change("S2", SEAT_HELD, 1, FEED_REASON_NONE);
    turn();
    assert_ptr_equal(a->last, b->last);
    expect_told(a, HELD("S1", "a.1", "1") HELD("S2", "a.2", "1"));
    expect_told(b, HELD("S1", "a.1", "1") HELD("S2", "a.2", "1"));
    turn();
    expect_told(a, "");
    drop(a);
    drop(b);
}

static void
who_begins_between_is_told_nothing_twice(void **state)
{
    (void)state;
    struct http_stream *a = begin_quietly();
    change("S1", SEAT_HELD, 1, FEED_REASON_NONE);
    struct http_stream *b = begin("a.0");
    assert_true(was_told(b, HELD("S1", "a.1", "1"))); /* missed, and written for all as well */
    buf_clear(&b->got);
    change("S2", SEAT_HELD, 1, FEED_REASON_NONE);
    turn();
    expect_told(a, HELD("S1", "a.1", "1") HELD("S2", "a.2", "1"));
    expect_told(b, HELD("S2", "a.2", "1"));
    change("S3", SEAT_HELD, 1, FEED_REASON_NONE);
    turn();
    expect_told(b, HELD("S3", "a.3", "1"));
    drop(a);
    drop(b);
}

/* A burst of writes would keep the machine from whoever wants a seat meanwhile. */
static void
a_crowd_is_told_by_and_by_and_nobody_twice(void **state)
{
    (void)state;
    enum { CROWD = 250 };
    struct http_stream *crowd[CROWD];
    int told = 0;

    config.streams_max = CROWD + 1;
    for (int i = 0; i < CROWD; i++)
        crowd[i] = begin_quietly();
    change("S1", SEAT_HELD, 1, FEED_REASON_NONE);
    turn();
    for (int i = 0; i < CROWD; i++)
        told += was_told(crowd[i], "S1");
    assert_int_equal(told, STREAMS_AT_ONCE);

    struct http_stream *late = begin("");
    change("S2", SEAT_HELD, 1, FEED_REASON_NONE);
    for (int i = 0; i * STREAMS_AT_ONCE < 3 * CROWD; i++)
        turn();
    for (int i = 0; i < CROWD; i++) {
        expect_told(crowd[i], HELD("S1", "a.1", "1") HELD("S2", "a.2", "1"));
        drop(crowd[i]);
    }
    assert_false(was_told(late, "S1"));
    assert_true(was_told(late, HELD("S2", "a.2", "1")));
    drop(late);
}

static void
too_much_becomes_a_reset_for_all(void **state)
{
    (void)state;
    struct http_stream *a = begin_quietly();
    change("S2", SEAT_HELD, 1, FEED_REASON_NONE);
    struct http_stream *b = begin("");
    buf_clear(&b->got);
    for (int version = 1; version < 20; version++)
        change("S1", SEAT_HELD, version, FEED_REASON_NONE);
    turn();
    assert_memory_equal(a->got.data, "event: reset\nid: a.", 19);
    assert_true(was_told(a, HELD("S1", "a.k", "19"))); /* what came behind it is told */
    assert_string_equal(a->got.data, b->got.data);
    assert_true(a->got.len <= BACKLOG);
    drop(a);
    drop(b);
}

static void
another_postgres_is_a_reset(void **state)
{
    (void)state;
    struct http_stream *a = begin_quietly();
    change("S1", SEAT_HELD, 1, FEED_REASON_NONE);
    seat_maps_forget(node.maps);
    turn();
    expect_told(a, "event: reset\ndata: {}\n\n");
    drop(a);
}

static void
who_began_just_before_trust_ended_begins_anew(void **state)
{
    (void)state;
    struct http_stream *old = begin_quietly();
    lock_take(&streams->lock);
    streams->audiences->streams->began_at.us -= 6 * TIME_US_PER_S;
    lock_drop(&streams->lock);
    turn();
    seat_maps_distrust(node.maps);
    turn();
    expect_told(old, "");
    load();
    struct http_stream *young = begin_quietly();
    sleep_us(2);
    seat_maps_distrust(node.maps);
    turn();
    expect_told(young, "event: reset\ndata: {}\n\n");
    drop(old);
    drop(young);
}

static void
a_stream_ends_with_its_token(void **state)
{
    (void)state;
    opened = NULL;
    assert_int_equal(try_begin("", NOW_US - 1), HF_OK);
    struct http_stream *over = opened, *stays = begin("");
    streams->second_due.us = 0;
    turn();
    assert_true(over->ended);
    assert_false(stays->ended);
    drop(over);
    drop(stays);
}

static void
counts_are_told_when_they_changed(void **state)
{
    (void)state;
    struct http_stream *a = begin_quietly();
    change("S1", SEAT_SOLD, 1, FEED_REASON_NONE);
    streams->second_due.us = 0;
    turn();
    assert_true(was_told(
        a, "event: occupancy_changed\nid: a.1\ndata: {\"available\":4,\"held\":0,\"sold\":1,"));
    buf_clear(&a->got);
    streams->second_due.us = 0;
    turn();
    assert_false(was_told(a, "occupancy"));
    drop(a);
}

static void
a_heartbeat_has_an_id(void **state)
{
    (void)state;
    struct http_stream *a = begin_quietly();
    change("S1", SEAT_HELD, 1, FEED_REASON_NONE);
    turn();
    buf_clear(&a->got);
    streams->second_due.us = 0;
    streams->audiences->alive_due.us = 0;
    turn();
    assert_true(was_told(a, ": alive\nid: a.1\n\n"));
    drop(a);
}

static void
an_event_that_nobody_watches_is_let_go(void **state)
{
    (void)state;
    struct http_stream *a = begin("");
    assert_non_null(streams->audiences);
    lose(a);
    streams->second_due.us = 0;
    turn();
    assert_null(streams->audiences);
    assert_int_equal(streams->open, 0);
    drop(a);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_stream_begins_with_counts_at_a_position),
        CASE(a_reader_goes_on_where_they_were),
        CASE(an_older_version_is_not_told_behind_a_newer_one),
        CASE(what_cannot_be_told_begins_with_a_reset),
        CASE(what_is_missed_beyond_the_backlog_begins_with_a_reset),
        CASE(seats_that_were_added_begin_with_a_reset),
        CASE(a_map_that_may_lack_something_gives_no_ids),
        CASE(there_are_limits_and_an_end),
        CASE(all_are_told_by_one_body),
        CASE(who_begins_between_is_told_nothing_twice),
        CASE(a_crowd_is_told_by_and_by_and_nobody_twice),
        CASE(too_much_becomes_a_reset_for_all),
        CASE(another_postgres_is_a_reset),
        CASE(who_began_just_before_trust_ended_begins_anew),
        CASE(a_stream_ends_with_its_token),
        CASE(counts_are_told_when_they_changed),
        CASE(a_heartbeat_has_an_id),
        CASE(an_event_that_nobody_watches_is_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
