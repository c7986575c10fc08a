/*
 * What Prometheus reads. Counts are global to the process, so each test looks at
 * metrics of its own, or at the difference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "holdfast/metrics.h"

#define THREADS         24 /* more than there are stripes */
#define ADDS_PER_THREAD 1000
#define ROUTES_TOO_MANY 4000

static struct buf out;

static int
free_out(void **state)
{
    (void)state;
    buf_fini(&out);
    return 0;
}

static void
scrape(void)
{
    buf_clear(&out);
    metrics_write(&out);
    assert_false(out.failed);
}

/* The value behind "series " at the beginning of a line. -1: there is no such line. */
static double
value_in_last_scrape(const char *series)
{
    size_t len = strlen(series);

    for (const char *line = out.data; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, series, len) == 0 && line[len] == ' ')
            return strtod(line + len + 1, NULL);
    }
    return -1;
}

static double
value_of(const char *series)
{
    scrape();
    return value_in_last_scrape(series);
}

static void
counters_begin_at_zero_and_add_up(void **state)
{
    (void)state;
    assert_true(value_of("holdfast_parked_refused_total") == 0);
    metric_add(METRIC_PARKED_REFUSED_TOTAL, 1);
    metric_add(METRIC_PARKED_REFUSED_TOTAL, 41);
    assert_true(value_of("holdfast_parked_refused_total") == 42);
}

static void
a_counter_with_labels_has_its_own_series(void **state)
{
    (void)state;
    metric_add(METRIC_HOLDS_CREATED_TOTAL, 3);
    metric_add(METRIC_HOLDS_CONTENDED_TOTAL, 2);
    assert_true(value_of("holdfast_holds_total{outcome=\"created\"}") == 3);
    assert_true(value_of("holdfast_holds_total{outcome=\"contended\"}") == 2);
    assert_true(value_of("holdfast_holds_created_total") == -1);
}

static void
a_name_of_the_seed_stands_without_a_prefix(void **state)
{
    (void)state;
    metric_add(METRIC_SEAT_HOLD_CONFLICTS, 2);
    assert_true(value_of("seat_hold_conflicts") == 2);
    assert_non_null(strstr(out.data, "# TYPE seat_hold_conflicts counter\n"));
    assert_null(strstr(out.data, ":seat_hold_conflicts"));
    assert_null(strstr(out.data, "holdfast_seat_hold_conflicts"));
}

static void
gauges_are_set_and_adjusted(void **state)
{
    (void)state;
    metric_set(METRIC_QUEUE_DEPTH, 7);
    metric_adjust(METRIC_QUEUE_DEPTH, -10);
    assert_true(value_of("holdfast_queue_depth") == -3);
    metric_set(METRIC_REDIS_UP, 1);
    assert_true(value_of("holdfast_pool_up{pool=\"redis\"}") == 1);
    assert_true(value_of("holdfast_pool_up{pool=\"postgres\"}") == 0);
}

static void *
count_a_lot(void *unused)
{
    (void)unused;
    for (int i = 0; i < ADDS_PER_THREAD; i++) {
        metric_add(METRIC_RETRIES_TOTAL, 1);
        metric_adjust(METRIC_HOT_TIMERS, 1);
        metric_observe(METRIC_SETTLE_SECONDS, 100);
        metric_request("/threads", HF_OK);
    }
    return NULL;
}

static void
no_count_of_any_thread_is_lost(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_a_lot, NULL), 0);
    scrape(); /* reading while others count is allowed */
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    double expected = (double)THREADS * ADDS_PER_THREAD;
    scrape();
    assert_true(value_in_last_scrape("holdfast_retries_total") == expected);
    assert_true(value_in_last_scrape("holdfast_hot_timers") == expected);
    assert_true(value_in_last_scrape("holdfast_stage_seconds_count{stage=\"settle\"}") == expected);
    assert_true(value_in_last_scrape("holdfast_requests_total{route=\"/threads\",code=\"ok\"}") ==
                expected);
}

static void
seconds_are_observed_in_microseconds(void **state)
{
    (void)state;
    metric_observe(METRIC_REQUEST_SECONDS, 50);
    metric_observe(METRIC_REQUEST_SECONDS, 51);
    metric_observe(METRIC_REQUEST_SECONDS, 1500000);
    metric_observe(METRIC_REQUEST_SECONDS, 99000000);
    scrape();
    assert_true(value_in_last_scrape("holdfast_request_seconds_bucket{le=\"0.00005\"}") == 1);
    assert_true(value_in_last_scrape("holdfast_request_seconds_bucket{le=\"0.0001\"}") == 2);
    assert_true(value_in_last_scrape("holdfast_request_seconds_bucket{le=\"1\"}") == 2);
    assert_true(value_in_last_scrape("holdfast_request_seconds_bucket{le=\"2\"}") == 3);
    assert_true(value_in_last_scrape("holdfast_request_seconds_bucket{le=\"10\"}") == 3);
    assert_true(value_in_last_scrape("holdfast_request_seconds_bucket{le=\"+Inf\"}") == 4);
    assert_true(value_in_last_scrape("holdfast_request_seconds_count") == 4);
    assert_true(value_in_last_scrape("holdfast_request_seconds_sum") == 100.500101);
}

static void
plain_counts_are_observed_in_powers_of_two(void **state)
{
    (void)state;
    metric_observe(METRIC_BATCH_REQUESTS, 1);
    metric_observe(METRIC_BATCH_REQUESTS, 3);
    metric_observe(METRIC_BATCH_REQUESTS, 1024);
    metric_observe(METRIC_BATCH_REQUESTS, 1025);
    scrape();
    assert_true(value_in_last_scrape("holdfast_batch_requests_bucket{le=\"1\"}") == 1);
    assert_true(value_in_last_scrape("holdfast_batch_requests_bucket{le=\"4\"}") == 2);
    assert_true(value_in_last_scrape("holdfast_batch_requests_bucket{le=\"1024\"}") == 3);
    assert_true(value_in_last_scrape("holdfast_batch_requests_bucket{le=\"+Inf\"}") == 4);
    assert_true(value_in_last_scrape("holdfast_batch_requests_sum") == 2053);
}

static void
labels_of_a_histogram_stand_beside_le(void **state)
{
    (void)state;
    metric_observe(METRIC_QUEUE_SECONDS, 200);
    scrape();
    assert_true(
        value_in_last_scrape("holdfast_stage_seconds_bucket{stage=\"queue\",le=\"0.0002\"}") == 1);
    assert_true(value_in_last_scrape("holdfast_stage_seconds_sum{stage=\"queue\"}") == 0.0002);
}

static void
requests_are_counted_by_route_and_code(void **state)
{
    (void)state;
    metric_request("/api/holds", HF_SEAT_TAKEN);
    metric_request("/api/holds", HF_SEAT_TAKEN);
    metric_request("/api/holds", HF_CREATED);
    scrape();
    assert_true(value_in_last_scrape(
                    "holdfast_requests_total{route=\"/api/holds\",code=\"seat_taken\"}") == 2);
    assert_true(value_in_last_scrape(
                    "holdfast_requests_total{route=\"/api/holds\",code=\"created\"}") == 1);
}

/* Two files may each have their own copy of a literal. */
static void
one_route_at_two_addresses_is_one_series(void **state)
{
    static const char first[] = "/twice", second[] = "/twice";

    (void)state;
    metric_request(first, HF_OK);
    metric_request(second, HF_OK);
    assert_true(value_of("holdfast_requests_total{route=\"/twice\",code=\"ok\"}") == 2);
}

struct line {
    char family[64]; /* of a sample: its name without labels and histogram suffix */
    bool is_help, is_type;
};

static void
strip_suffix(char *name, const char *suffix)
{
    size_t len = strlen(name), suffix_len = strlen(suffix);

    if (len > suffix_len && strcmp(name + len - suffix_len, suffix) == 0)
        name[len - suffix_len] = '\0';
}

static struct line
line_read(const char *text)
{
    struct line line = { .is_help = strncmp(text, "# HELP ", 7) == 0,
                         .is_type = strncmp(text, "# TYPE ", 7) == 0 };
    const char *name = text + (line.is_help || line.is_type ? 7 : 0);

    snprintf(line.family, sizeof(line.family), "%.*s", (int)strcspn(name, " {\n"), name);
    strip_suffix(line.family, "_bucket");
    strip_suffix(line.family, "_sum");
    strip_suffix(line.family, "_count");
    return line;
}

/* Under the names that seed 003 gives them, and no others, stands no prefix. */
static bool
is_named_by_the_seed(const char *family)
{
    static const char *const names[] = {
        "seatmap_cache_hits",         "seatmap_cache_misses",         "seat_hold_conflicts",
        "hold_expirations_total",     "waitlist_assignments_success", "waitlist_assignments_failed",
        "payment_webhooks_processed", "abuse_events_detected",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(family, names[i]) == 0)
            return true;
    }
    return false;
}

/* The text format: HELP, TYPE, then all samples of that name, and never that name again. */
static void
lines_of_one_name_stand_together_under_one_help(void **state)
{
    static char families[128][64];
    size_t count = 0;
    struct line last = { .family = "" };

    (void)state;
    scrape();
    assert_true(out.len > 0 && out.data[out.len - 1] == '\n');
    for (const char *text = out.data; *text != '\0'; text = strchr(text, '\n') + 1) {
        struct line line = line_read(text);
        assert_true(strncmp(line.family, "holdfast_", 9) == 0 || is_named_by_the_seed(line.family));
        if (line.is_help) {
            for (size_t i = 0; i < count; i++)
                assert_string_not_equal(families[i], line.family);
            assert_true(count < 128);
            strcpy(families[count++], line.family);
        } else {
            assert_string_equal(line.family, last.family);
            assert_int_equal(line.is_type, last.is_help);
        }
        last = line;
    }
    assert_true(count > 30);
}

static double
all_requests(void)
{
    double sum = 0;

    scrape();
    for (const char *line = out.data; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, "holdfast_requests_total{", 24) == 0)
            sum += strtod(strstr(line, "} ") + 2, NULL);
    }
    return sum;
}

/* Last, since it fills the table of the whole process. */
static void
routes_beyond_the_table_are_counted_as_other(void **state)
{
    static char routes[ROUTES_TOO_MANY][16];
    double before = all_requests();

    (void)state;
    for (int i = 0; i < ROUTES_TOO_MANY; i++) {
        snprintf(routes[i], sizeof(routes[i]), "/r/%d", i);
        metric_request(routes[i], HF_NOT_FOUND);
    }
    assert_true(all_requests() == before + ROUTES_TOO_MANY);
    double other =
        value_in_last_scrape("holdfast_requests_total{route=\"other\",code=\"not_found\"}");
    assert_true(other >= ROUTES_TOO_MANY - 2048);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_begin_at_zero_and_add_up),
        cmocka_unit_test(a_counter_with_labels_has_its_own_series),
        cmocka_unit_test(a_name_of_the_seed_stands_without_a_prefix),
        cmocka_unit_test(gauges_are_set_and_adjusted),
        cmocka_unit_test(no_count_of_any_thread_is_lost),
        cmocka_unit_test(seconds_are_observed_in_microseconds),
        cmocka_unit_test(plain_counts_are_observed_in_powers_of_two),
        cmocka_unit_test(labels_of_a_histogram_stand_beside_le),
        cmocka_unit_test(requests_are_counted_by_route_and_code),
        cmocka_unit_test(one_route_at_two_addresses_is_one_series),
        cmocka_unit_test(lines_of_one_name_stand_together_under_one_help),
        cmocka_unit_test(routes_beyond_the_table_are_counted_as_other),
    };

    return cmocka_run_group_tests(tests, NULL, free_out);
}
