/*
 * feed_fixture.h - a feed whose map is a list: what seat_maps_take is told is kept for the test.
 *
 * The test's own seat_maps_take and seat_maps_distrust stand in for the map room's, which is then
 * never pulled in.
 */
#ifndef HOLDFAST_TESTS_FEED_FIXTURE_H
#define HOLDFAST_TESTS_FEED_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "feed_internal.h"
#include "holdfast/engine.h"
#include "holdfast/events.h"
#include "holdfast/seat_map.h"
#include "holdfast/thread.h"

#define OWN       100
#define PEER      200
#define LOG_BYTES (1024 * 1024)
#define TOLD_MAX  4096

struct told {
    enum feed_kind kind;
    char item[ID_BYTES_MAX + 1];
    int64_t version;
    struct feed_mark from;
    char after[FEED_POSITION_TEXT_BYTES]; /* "none": NULL */
};

static struct node node;
static struct feed *feed;
static struct told told[TOLD_MAX];
static int told_count;
static bool told_is_counted_only;
static char recalled[1024];             /* "A1:3 A2:4 ": what a replay says that the reader has */
static int distrusts, told_at_distrust; /* of maps; what was told by then */

static inline void
keep(const struct feed_change *change, struct feed_mark from, const struct feed_position *after)
{
    if (told_is_counted_only) {
        told_count++;
        return;
    }
    assert_true(told_count < TOLD_MAX);
    struct told *one = &told[told_count++];
    one->kind = change->kind;
    snprintf(one->item, sizeof(one->item), "%.*s", SLICE_ARG(change->item));
    one->version = change->version;
    one->from = from;
    if (after == NULL)
        strcpy(one->after, "none");
    else
        feed_position_write(after, one->after);
}

void
seat_maps_take(struct seat_maps *maps, const struct feed_change *change, struct feed_mark from,
               const struct feed_position *after)
{
    (void)maps;
    keep(change, from, after);
}

void
seat_maps_distrust(struct seat_maps *maps)
{
    (void)maps;
    distrusts++;
    told_at_distrust = told_count;
}

static inline int
set_up_with(int64_t log_bytes)
{
    struct hot_table_limits limits = {
        .shards = 4, .seats_max = 10000, .parked_max = 10, .lease_us = 1000000
    };
    node = (struct node){ .hot = hot_table_new(&limits),
                          .events = events_new(),
                          .clock = db_clock_new() };
    feed = node.feed = feed_new(&node, log_bytes);
    told_count = distrusts = 0;
    told_is_counted_only = false;
    return node.hot == NULL || node.events == NULL || node.clock == NULL || feed == NULL;
}

static inline int
set_up(void **state)
{
    (void)state;
    return set_up_with(LOG_BYTES);
}

static inline int
tear_down(void **state)
{
    (void)state;
    feed_free(&node.feed);
    events_free(&node.events);
    hot_table_free(&node.hot);
    db_clock_free(&node.clock);
    return 0;
}

/* --- changes -------------------------------------------------------------------- */

static inline struct feed_change
seat_change(const char *event, const char *seat, int64_t version)
{
    return (struct feed_change){ .kind = FEED_SEAT,
                                 .status = SEAT_HELD,
                                 .org = slice_of("acme"),
                                 .event = slice_of(event),
                                 .item = slice_of(seat),
                                 .version = version,
                                 .hold_id = { { 1, 2, 3, (uint8_t)version } },
                                 .user = slice_of("ann"),
                                 .held_until = { 1700000300000000 },
                                 .at = { 1700000000000000 + version } };
}

static inline void
tell(const char *event, const char *seat, int64_t version)
{
    struct feed_change change = seat_change(event, seat, version);
    feed_tell(feed, &change, 1);
}

/* A peer's record of `count` seats: seat, seat, seat ..., their versions from `version` on. */
static inline struct slice
record_bytes_of(const char *event, const char *seat, int64_t version, int count)
{
    static char bytes[8192];
    struct feed_change changes[32];
    size_t most;
    assert_true(count <= 32);
    for (int i = 0; i < count; i++)
        changes[i] = seat_change(event, seat, version + i);
    assert_int_equal(codec_fit(changes, count, &most), count);
    assert_true(most <= sizeof(bytes));
    size_t len = codec_write(bytes, changes, count);
    assert_true(len > 0);
    return (struct slice){ bytes, len };
}

static inline enum feed_hearing
hear(int64_t incarnation, uint64_t number, const char *event, const char *seat, int64_t version)
{
    struct mono_time behind = { mono_now().us + 1 }; /* any distrust of this microsecond */
    return feed_hear(feed, incarnation, number, record_bytes_of(event, seat, version, 1), behind);
}

/* --- looking ---------------------------------------------------------------------- */

static inline const char *
position_text(void)
{
    static char text[FEED_POSITION_TEXT_BYTES];
    struct feed_position position;
    feed_position(feed, &position);
    feed_position_write(&position, text);
    return text;
}

static inline void
was_ready(void *context, const struct feed_position *now)
{
    feed_position_write(now, context);
}

static inline void
was_visited(void *context, const struct feed_change *change, const struct feed_position *after)
{
    (void)context;
    if (after != NULL) {
        keep(change, (struct feed_mark){ 0, 0 }, after);
        return;
    }
    size_t len = strlen(recalled);
    snprintf(recalled + len, sizeof(recalled) - len, "%.*s:%d ", SLICE_ARG(change->item),
             (int)change->version);
}

/* The visited changes are in told[] then. */
static inline bool
replay(const char *event, const char *since)
{
    char now[FEED_POSITION_TEXT_BYTES] = "";
    struct feed_position position;
    if (since != NULL && !feed_position_parse(slice_of(since), &position))
        fail_msg("%s is no position", since);
    told_count = 0;
    recalled[0] = '\0';
    bool done = feed_replay(feed, slice_of("acme"), slice_of(event),
                            since == NULL ? NULL : &position, was_visited, was_ready, now);
    assert_string_equal(now, position_text());
    if (!done)
        assert_int_equal(told_count, 0);
    return done;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
