/* For which events Redis is trusted: by generation, by doubt, within bounds; and what it tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "warm_internal.h"

static char url[] = "redis://127.0.0.1:1";
static struct config config = { .redis_url = url, .redis_timeout_ms = 50 };
static struct warm_tier *tier;

#define ORG  SLICE_LITERAL("acme")
#define SHOW SLICE_LITERAL("show")

static int
up(void **state)
{
    (void)state;
    log_init(LOG_ERROR + 1, "test");
    tier = warm_tier_new(&config);
    return tier == NULL;
}

static int
down(void **state)
{
    (void)state;
    warm_tier_free(&tier);
    return 0;
}

static void
rebuild(struct slice org, struct slice event)
{
    warm_tier_rebuilt(tier, org, event, warm_tier_ticket(tier, org, event));
}

/* --- trust -------------------------------------------------------------------------------- */

static void
no_event_is_trusted_before_it_was_rebuilt(void **state)
{
    (void)state;
    assert_false(warm_tier_trusts(tier, ORG, SHOW));
    rebuild(ORG, SHOW);
    assert_true(warm_tier_trusts(tier, ORG, SHOW));
    assert_false(warm_tier_trusts(tier, ORG, SLICE_LITERAL("other")));
    assert_false(warm_tier_trusts(tier, SLICE_LITERAL("acne"), SHOW));
    assert_false(warm_tier_trusts(tier, SHOW, ORG));
}

static void
a_distrust_voids_all_and_counts_up(void **state)
{
    (void)state;
    assert_int_equal(warm_tier_generation(tier), 1);
    rebuild(ORG, SHOW);
    warm_tier_distrust(tier, "a test says so");
    assert_int_equal(warm_tier_generation(tier), 2);
    assert_false(warm_tier_trusts(tier, ORG, SHOW));
    rebuild(ORG, SHOW);
    assert_true(warm_tier_trusts(tier, ORG, SHOW));
}

static void
a_rebuild_that_began_before_a_distrust_or_a_doubt_is_void(void **state)
{
    (void)state;
    uint64_t ticket = warm_tier_ticket(tier, ORG, SHOW);
    warm_tier_distrust(tier, "a test says so");
    warm_tier_rebuilt(tier, ORG, SHOW, ticket);
    assert_false(warm_tier_trusts(tier, ORG, SHOW));

    ticket = warm_tier_ticket(tier, ORG, SHOW);
    warm_tier_doubt(tier, ORG, SHOW);
    warm_tier_rebuilt(tier, ORG, SHOW, ticket);
    assert_false(warm_tier_trusts(tier, ORG, SHOW));
}

static void
a_doubt_is_about_one_event(void **state)
{
    (void)state;
    rebuild(ORG, SHOW);
    rebuild(ORG, SLICE_LITERAL("other"));
    warm_tier_doubt(tier, ORG, SHOW);
    assert_false(warm_tier_trusts(tier, ORG, SHOW));
    assert_true(warm_tier_trusts(tier, ORG, SLICE_LITERAL("other")));
    assert_int_equal(warm_tier_generation(tier), 1);
}

enum { MANY = 20000 };

static struct slice
numbered(char text[16], int i)
{
    return (struct slice){ text, (size_t)snprintf(text, 16, "e%d", i) };
}

static void
the_events_trusted_are_bounded_and_those_asked_for_stay(void **state)
{
    (void)state;
    char text[16];
    int trusted = 0;
    rebuild(ORG, SHOW);
    for (int i = 0; i < MANY; i++) {
        rebuild(ORG, numbered(text, i));
        assert_true(warm_tier_trusts(tier, ORG, SHOW)); /* asked for ever again */
        assert_true(warm_tier_trusts(tier, ORG, numbered(text, i)));
    }
    for (int i = 0; i < MANY; i++)
        trusted += warm_tier_trusts(tier, ORG, numbered(text, i));
    assert_true(trusted > 2000 && trusted <= 4096);
}

static void
repair_that_walks_all_events_does_not_push_out_those_that_are_read(void **state)
{
    (void)state;
    char text[16];
    rebuild(ORG, SHOW);
    assert_true(warm_tier_trusts(tier, ORG, SHOW));
    for (int i = 0; i < MANY; i++) {
        rebuild(ORG, numbered(text, i));
        assert_true(warm_tier_is_rebuilt(tier, ORG, numbered(text, i)));
    }
    assert_true(warm_tier_is_rebuilt(tier, ORG, SHOW));
}

static void
a_table_that_is_not_half_full_forgets_hardly_any(void **state)
{
    (void)state;
    enum { EVENTS = 1500 };
    char text[16];
    int trusted = 0;
    for (int i = 0; i < EVENTS; i++)
        rebuild(ORG, numbered(text, i));
    for (int i = 0; i < EVENTS; i++)
        trusted += warm_tier_trusts(tier, ORG, numbered(text, i));
    assert_true(trusted >= EVENTS - 15);
}

/* --- doubted ones, by name ----------------------------------------------------------------------
 */

static struct warm_events doubted;

static void
take_doubted(void)
{
    doubted = (struct warm_events){ 0 };
    warm_tier_take_doubted(tier, &doubted);
}

static void
doubted_events_are_handed_out_by_name_and_once(void **state)
{
    (void)state;
    take_doubted();
    assert_true(doubted.count == 0 && !doubted.all);
    for (int i = 0; i < 1000; i++) {
        warm_tier_doubt(tier, ORG, SHOW);
        warm_tier_doubt(tier, SHOW, ORG);
    }
    take_doubted();
    assert_true(doubted.count == 2 && !doubted.all);
    assert_true(warm_events_name(&doubted, ORG, SHOW) && warm_events_name(&doubted, SHOW, ORG));
    assert_false(warm_events_name(&doubted, ORG, ORG));
    take_doubted();
    assert_true(doubted.count == 0 && !doubted.all);
    warm_tier_distrust(tier, "a test says so"); /* that is told by the generation */
    take_doubted();
    assert_true(doubted.count == 0 && !doubted.all);
}

static void
more_doubted_events_than_have_names_are_all_events(void **state)
{
    (void)state;
    char text[16];
    for (int i = 0; i < WARM_EVENTS_MAX; i++)
        warm_tier_doubt(tier, ORG, numbered(text, i));
    take_doubted();
    assert_true(doubted.count == WARM_EVENTS_MAX && !doubted.all);
    warm_tier_doubt(tier, ORG, SHOW);
    warm_tier_take_doubted(tier, &doubted); /* beside those that were taken */
    assert_true(doubted.count == 0 && doubted.all);
    for (int i = 0; i <= WARM_EVENTS_MAX; i++)
        warm_tier_doubt(tier, ORG, numbered(text, i));
    take_doubted();
    assert_true(doubted.count == 0 && doubted.all);
    take_doubted();
    assert_true(doubted.count == 0 && !doubted.all);
}

/* --- the breaker ------------------------------------------------------------------------------ */

static void
open_it(void)
{
    for (int i = 0; i < 5; i++)
        warm_tier_failed(tier, "a test says so");
    assert_int_equal(breaker_state(warm_tier_breaker(tier)), BREAKER_OPEN);
}

/* The value of a gauge or counter in the text of /metrics. */
static long long
metric(const char *name)
{
    struct buf out = { 0 };
    char line[128];
    metrics_write(&out);
    assert_false(out.failed);
    snprintf(line, sizeof(line), "\n%s ", name);
    const char *at = strstr(out.data, line);
    assert_non_null(at);
    long long value = atoll(at + strlen(line));
    buf_fini(&out);
    return value;
}

static void
a_breaker_that_is_not_closed_trusts_nothing_and_closing_voids_all(void **state)
{
    (void)state;
    struct breaker *breaker = warm_tier_breaker(tier);
    rebuild(ORG, SHOW);
    open_it();
    assert_false(warm_tier_trusts(tier, ORG, SHOW));
    breaker_probed(breaker, mono_now(), true);
    assert_int_equal(breaker_state(breaker), BREAKER_HALF_OPEN);
    uint64_t ticket = warm_tier_ticket(tier, ORG, SHOW); /* others' writes are still left out */
    warm_tier_worked(tier);
    assert_int_equal(breaker_state(breaker), BREAKER_CLOSED);
    assert_false(warm_tier_trusts(tier, ORG, SHOW));
    warm_tier_rebuilt(tier, ORG, SHOW, ticket);
    assert_false(warm_tier_trusts(tier, ORG, SHOW));
    rebuild(ORG, SHOW);
    assert_true(warm_tier_trusts(tier, ORG, SHOW));
}

static void
its_state_is_a_metric(void **state)
{
    (void)state;
    long long opened = metric("holdfast_redis_breaker_transitions_total{to=\"open\"}");
    warm_tier_worked(tier);
    assert_int_equal(metric("holdfast_pool_up{pool=\"redis\"}"), 1);
    open_it();
    assert_int_equal(metric("holdfast_redis_breaker_state"), 2);
    assert_int_equal(metric("holdfast_pool_up{pool=\"redis\"}"), 0);
    breaker_probed(warm_tier_breaker(tier), mono_now(), true);
    assert_int_equal(metric("holdfast_redis_breaker_state"), 1);
    warm_tier_worked(tier);
    assert_int_equal(metric("holdfast_redis_breaker_state"), 0);
    assert_int_equal(metric("holdfast_pool_up{pool=\"redis\"}"), 1);
    assert_int_equal(metric("holdfast_redis_breaker_transitions_total{to=\"open\"}"), opened + 1);
}

/* --- the log ------------------------------------------------------------------------------------
 */

/* Lines with `word` that `act` writes to stderr. */
static int
lines_of(void (*act)(void), const char *word)
{
    int count = 0;
    char line[512];
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int before = dup(2);
    assert_true(before >= 0 && dup2(fileno(file), 2) == 2);
    log_init(LOG_INFO, "test");
    act();
    fflush(stderr);
    log_init(LOG_ERROR + 1, "test");
    assert_true(dup2(before, 2) == 2);
    close(before);
    rewind(file);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, word) != NULL;
    fclose(file);
    return count;
}

static void
fail_often(void)
{
    for (int i = 0; i < 100; i++) {
        warm_tier_failed(tier, "Connection refused");
        warm_tier_failed(tier, "too slow");
    }
}

static void
fail_in_many_ways(void)
{
    char why[32];
    for (int i = 0; i < 100; i++) {
        snprintf(why, sizeof(why), "MOVED %d", i);
        warm_tier_failed(tier, why);
    }
}

static void
fail_and_work_in_turn(void)
{
    for (int i = 0; i < 100; i++) {
        warm_tier_failed(tier, "too slow");
        warm_tier_worked(tier);
    }
}

static void
each_kind_of_failure_is_logged_once(void **state)
{
    (void)state;
    assert_int_equal(lines_of(fail_often, "redis_down"), 2);
    assert_int_equal(lines_of(fail_often, "redis"), 0);
}

static void
many_kinds_are_not_many_lines(void **state)
{
    (void)state;
    assert_int_equal(lines_of(fail_in_many_ways, "redis_down"), 8);
}

static void
flapping_is_no_flood(void **state)
{
    (void)state;
    assert_int_equal(lines_of(fail_and_work_in_turn, "redis"), 1);
}

/* --- off ----------------------------------------------------------------------------------------
 */

static void
without_an_address_there_is_nothing_to_trust(void **state)
{
    (void)state;
    static char none[] = "";
    struct config off = { .redis_url = none };
    struct warm_tier *absent = warm_tier_new(&off);
    assert_non_null(absent);
    assert_false(warm_tier_is_on(absent));
    warm_tier_rebuilt(absent, ORG, SHOW, warm_tier_ticket(absent, ORG, SHOW));
    assert_false(warm_tier_trusts(absent, ORG, SHOW));
    warm_tier_distrust(absent, "a test says so");
    assert_int_equal(warm_tier_generation(absent), 1);

    struct warm *warm = warm_new(&off, absent);
    struct warm_hold hold = { .org = ORG, .event = SHOW, .seat = SLICE_LITERAL("A1") };
    char *json;
    size_t len;
    assert_false(warm_is_on(warm));
    assert_false(warm_put(warm, &hold, 1) || warm_remove(warm, &hold, 1) || warm_ping(warm) ||
                 warm_watch(warm));
    assert_false(warm_get_seat(warm, ORG, SHOW, SLICE_LITERAL("A1"), &json, &len));
    assert_int_equal(warm_count(warm, ORG, SHOW), -1);
    warm_free(&warm);
    warm_tier_free(&absent);
}

int
main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, up, down)
    const struct CMUnitTest tests[] = {
        CASE(no_event_is_trusted_before_it_was_rebuilt),
        CASE(a_distrust_voids_all_and_counts_up),
        CASE(a_rebuild_that_began_before_a_distrust_or_a_doubt_is_void),
        CASE(a_doubt_is_about_one_event),
        CASE(the_events_trusted_are_bounded_and_those_asked_for_stay),
        CASE(repair_that_walks_all_events_does_not_push_out_those_that_are_read),
        CASE(a_table_that_is_not_half_full_forgets_hardly_any),
        CASE(doubted_events_are_handed_out_by_name_and_once),
        CASE(more_doubted_events_than_have_names_are_all_events),
        CASE(a_breaker_that_is_not_closed_trusts_nothing_and_closing_voids_all),
        CASE(its_state_is_a_metric),
        CASE(each_kind_of_failure_is_logged_once),
        CASE(many_kinds_are_not_many_lines),
        CASE(flapping_is_no_flood),
        CASE(without_an_address_there_is_nothing_to_trust),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
