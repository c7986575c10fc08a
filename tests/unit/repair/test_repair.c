/*
 * The thread's turns: which event is compared when, and that one which can't be made equal keeps
 * nobody waiting. Its stores are the test's own; the tier is the real one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_rows.h"
#include "holdfast/log.h"
#include "holdfast/thread.h"
#include "repair_internal.h"

#define EVENTS  6
#define SECOND  ((int64_t)TIME_US_PER_S)
#define PATIENT (20 * SECOND)

#define ORG     SLICE_LITERAL("acme")

/* --- the world ----------------------------------------------------------------------- */

static char url[] = "redis://127.0.0.1:1";
static struct config config = { .redis_url = url, .redis_timeout_ms = 50 };
static struct node node = { .config = &config };

/* Atomic: the thread under test reads and counts them. */
static _Atomic int outcome[EVENTS];  /* what comparing it ends with: an hf_status */
static _Atomic bool unequal[EVENTS]; /* HF_OK, and yet it differs */
static _Atomic int compared[EVENTS];
static _Atomic int walks, busy_scans;
static _Atomic bool connected;

static struct slice
event_named(int i, char text[16])
{
    return (struct slice){ text, (size_t)snprintf(text, 16, "event-%d", i) };
}

static bool
is_trusted(int i)
{
    char text[16];
    return warm_tier_is_rebuilt(node.tier, ORG, event_named(i, text));
}

static void
doubt(int i)
{
    char text[16];
    warm_tier_doubt(node.tier, ORG, event_named(i, text));
}

/* --- what stands in for compare.c, cold and the connection to Redis ----------------------- */

enum hf_status
compare_event(struct comparison *c)
{
    int i = c->event.ptr[c->event.len - 1] - '0';
    uint64_t ticket = warm_tier_ticket(node.tier, c->org, c->event);

    compared[i]++;
    c->trusted = is_trusted(i);
    enum hf_status status = (enum hf_status)outcome[i];
    *c->report = (struct repair_report){ .equal = status == HF_OK && !unequal[i] };
    if (c->report->equal)
        warm_tier_rebuilt(node.tier, c->org, c->event, ticket);
    return status;
}

static struct pg_result *
events_after(struct slice last)
{
    struct pg_result *rows = rows_new("org:text event:text");
    char text[16];

    for (int i = last.len > 0 ? last.ptr[last.len - 1] - '0' + 1 : 0; i < EVENTS; i++) {
        (void)event_named(i, text);
        rows_add(rows, "acme", text);
    }
    return rows;
}

enum pg_outcome
pg_run(struct pg *pg, enum pg_statement statement, const struct pg_params *params,
       struct mono_time deadline, struct pg_result **result)
{
    (void)pg, (void)deadline;
    assert_int_equal(statement, STATEMENT_WARM_EVENTS);
    struct slice last = { params->values[3], (size_t)params->lengths[3] };
    walks += last.len == 0;
    *result = events_after(last);
    return PG_DONE;
}

const char *
pg_report_text(enum pg_report report)
{
    assert_int_equal(report, REPORT_WARM_BUSY_EVENTS);
    return "";
}

enum pg_outcome
pg_run_text(struct pg *pg, const char *text, int count, const char *const *values,
            struct mono_time deadline, struct pg_result **result)
{
    (void)pg, (void)text, (void)count, (void)values, (void)deadline;
    busy_scans++;
    *result = rows_new("org:text event:text");
    rows_add(*result, "acme", "event-5");
    return PG_DONE;
}

struct pg *
pg_new(const struct config *settings, const char *name, struct pg_identity *identity,
       struct db_clock *clock)
{
    (void)settings, (void)name, (void)identity, (void)clock;
    return malloc(1);
}

void
pg_free(struct pg **pg)
{
    free(*pg);
    *pg = NULL;
}

bool
pg_ready(struct pg *pg)
{
    (void)pg;
    return connected;
}

bool
pg_is_connected(const struct pg *pg)
{
    (void)pg;
    return connected;
}

struct warm *
warm_new(const struct config *settings, struct warm_tier *tier)
{
    (void)settings, (void)tier;
    return malloc(1);
}

void
warm_free(struct warm **warm)
{
    free(*warm);
    *warm = NULL;
}

bool
warm_watch(struct warm *warm)
{
    (void)warm;
    return breaker_state(warm_tier_breaker(node.tier)) == BREAKER_CLOSED;
}

/* --- the thread --------------------------------------------------------------------------------
 */

static struct repair *repair;

static int
start(void **state)
{
    (void)state;
    log_init(LOG_ERROR + 1, "test");
    config.repair_interval = 3600 * SECOND;
    connected = true;
    walks = busy_scans = 0;
    for (int i = 0; i < EVENTS; i++) {
        outcome[i] = HF_OK;
        unequal[i] = false;
        compared[i] = 0;
    }
    node.tier = warm_tier_new(&config);
    return node.tier == NULL;
}

static int
stop(void **state)
{
    (void)state;
    repair_stop(&repair);
    warm_tier_free(&node.tier);
    return 0;
}

static void
begin(void)
{
    repair = repair_start(&node);
    assert_non_null(repair);
}

static void
wait_for(bool (*holds)(void))
{
    struct mono_time end = { mono_now().us + PATIENT };
    while (!holds() && mono_now().us < end.us)
        sleep_us(5 * TIME_US_PER_MS);
    assert_true(holds());
}

static bool
all_are_trusted(void)
{
    int count = 0;
    for (int i = 0; i < EVENTS; i++)
        count += is_trusted(i);
    return count == EVENTS;
}

static bool
all_but_0_and_5_are_trusted(void)
{
    int count = 0;
    for (int i = 1; i < EVENTS - 1; i++)
        count += is_trusted(i);
    return count == EVENTS - 2;
}

static bool
all_were_compared_twice(void)
{
    int count = 0;
    for (int i = 0; i < EVENTS; i++)
        count += compared[i] >= 2;
    return count == EVENTS;
}

static void
an_event_that_can_not_be_made_equal_stops_no_other(void **state)
{
    (void)state;
    const int ways[] = { HF_OVERLOADED, HF_INTERNAL, HF_STORE_UNAVAILABLE };
    for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++) {
        outcome[0] = outcome[5] = ways[way]; /* the first of the walk, and of the busy ones */
        struct mono_time began = mono_now();
        begin();
        wait_for(all_but_0_and_5_are_trusted);
        assert_false(is_trusted(0) || is_trusted(5));
        int most[2] = { compared[0], compared[5] }; /* not again and again: in its first second */
        int seconds = (int)((mono_now().us - began.us) / SECOND); /* twice, in each later one once */
        assert_true(most[0] <= 2 + seconds && most[1] <= 2 + seconds);
        outcome[0] = outcome[5] = HF_OK;
        wait_for(all_are_trusted);
        (void)stop(state);
        assert_int_equal(start(state), 0);
    }
    unequal[0] = unequal[5] = true;
    begin();
    wait_for(all_but_0_and_5_are_trusted);
    unequal[0] = unequal[5] = false;
    wait_for(all_are_trusted);
    assert_int_equal(busy_scans, 1);
    assert_int_equal(walks, 1);
}

static void
an_event_that_can_not_be_compared_stops_no_comparison(void **state)
{
    (void)state;
    config.repair_interval = SECOND;
    outcome[0] = HF_OVERLOADED;
    begin();
    wait_for(all_were_compared_twice);
}

static void
a_doubt_is_mended_within_a_second_without_a_look_at_the_others(void **state)
{
    (void)state;
    begin();
    wait_for(all_are_trusted);
    int rounds = 0;
    int64_t best_us = PATIENT; /* of some rounds, two at least: a thread may be held up */
    for (; rounds < 2 || (best_us >= 2 * SECOND && rounds < 8); rounds++) {
        struct mono_time began = mono_now();
        doubt(3);
        assert_false(is_trusted(3));
        wait_for(all_are_trusted);
        int64_t took_us = mono_now().us - began.us;
        best_us = took_us < best_us ? took_us : best_us;
    }
    assert_true(best_us < 2 * SECOND);
    assert_int_equal(compared[3], 1 + rounds);
    assert_int_equal(compared[2], 1);
    assert_int_equal(busy_scans, 1);
    assert_int_equal(walks, 1);
}

static void
more_doubts_than_have_names_are_found_by_a_walk_that_scans_no_lines(void **state)
{
    (void)state;
    char text[16];
    begin();
    wait_for(all_are_trusted);
    for (int i = 0; i < 2 * WARM_EVENTS_MAX; i++) {
        struct slice name = { text, (size_t)snprintf(text, sizeof(text), "other-%d", i) };
        warm_tier_doubt(node.tier, ORG, name);
    }
    doubt(2);
    wait_for(all_are_trusted);
    assert_int_equal(compared[1], 1);
    assert_int_equal(walks, 2);
    assert_int_equal(busy_scans, 1);
}

static void
a_distrust_makes_all_due_the_busy_ones_first(void **state)
{
    (void)state;
    begin();
    wait_for(all_are_trusted);
    warm_tier_distrust(node.tier, "a test says so");
    wait_for(all_are_trusted);
    assert_int_equal(busy_scans, 2);
    assert_true(all_were_compared_twice());
}

static void
a_store_that_is_away_makes_all_wait(void **state)
{
    (void)state;
    connected = false;
    begin();
    sleep_us(2 * SECOND + SECOND / 2);
    for (int i = 0; i < EVENTS; i++)
        assert_int_equal(compared[i], 0);
    connected = true;
    wait_for(all_are_trusted);
}

int
main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(an_event_that_can_not_be_made_equal_stops_no_other),
        CASE(an_event_that_can_not_be_compared_stops_no_comparison),
        CASE(a_doubt_is_mended_within_a_second_without_a_look_at_the_others),
        CASE(more_doubts_than_have_names_are_found_by_a_walk_that_scans_no_lines),
        CASE(a_distrust_makes_all_due_the_busy_ones_first),
        CASE(a_store_that_is_away_makes_all_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
