/*
 * metrics.c - counters, gauges and histograms, and their text for Prometheus.
 *
 * Each thread counts in one of STRIPES stripes, chosen when it first counts; a
 * stripe begins on its own cache line, so that threads don't take it from each
 * other. Reading sums the stripes. A gauge is set rather than counted, so it has
 * one place, on a cache line of its own.
 *
 * Requests are counted by (route, status). Which pair has which slot is decided
 * once, by a compare-and-swap in a fixed table that everybody then only reads;
 * the counts stand in the stripes. Pairs that find no room near their place are
 * counted with the route "other": the table never grows and nothing is lost.
 */
#include "holdfast/metrics.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/assert.h"
#include "holdfast/slice.h"

#define STRIPES        16
#define CACHE_LINE     64
#define BUCKETS_MAX    18   /* the last one is +Inf */
#define REQUEST_SLOTS  2048 /* a power of two; some 60 routes with a dozen codes each fit easily */
#define REQUEST_PROBES 32   /* slots looked at before a pair counts as "other" */

/* After the table one slot per status, for the route "other". */
#define REQUEST_COUNTS (REQUEST_SLOTS + HF_STATUS_COUNT)

/* Upper bounds, inclusive; microseconds, printed as seconds. */
static const uint64_t seconds_bounds[] = {
    50,    100,    200,    500,    1000,    2000,    5000,    10000,    20000,
    50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000,
};
static const uint64_t count_bounds[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 };

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
_Static_assert(COUNT_OF(seconds_bounds) < BUCKETS_MAX, "the last bucket is +Inf");
_Static_assert(COUNT_OF(count_bounds) < BUCKETS_MAX, "the last bucket is +Inf");

struct histogram {
    _Atomic uint64_t buckets[BUCKETS_MAX]; /* not cumulative; writing adds them up */
    _Atomic uint64_t sum;
};

struct stripe {
    _Alignas(CACHE_LINE) _Atomic uint64_t counters[METRIC_COUNTER_COUNT];
    struct histogram histograms[METRIC_HISTOGRAM_COUNT];
    _Atomic uint64_t requests[REQUEST_COUNTS];
};

struct gauge {
    _Alignas(CACHE_LINE) _Atomic int64_t value;
};

/* One line of metrics.def. */
struct metric_row {
    const char *name;   /* as in the enum, in capitals */
    const char *labels; /* the whole name with labels, or NULL */
    const char *help;
};

static const struct metric_row counter_rows[] = {
#define COUNTER(name, labels, text) { #name, labels, text },
#define GAUGE(name, labels, text)
#define HISTOGRAM(name, labels, text)
#include "holdfast/metrics.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
};

static const struct metric_row gauge_rows[] = {
#define COUNTER(name, labels, text)
#define GAUGE(name, labels, text) { #name, labels, text },
#define HISTOGRAM(name, labels, text)
#include "holdfast/metrics.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
};

static const struct metric_row histogram_rows[] = {
#define COUNTER(name, labels, text)
#define GAUGE(name, labels, text)
#define HISTOGRAM(name, labels, text) { #name, labels, text },
#include "holdfast/metrics.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
};

static struct stripe stripes[STRIPES];
static struct gauge gauges[METRIC_GAUGE_COUNT];
static _Atomic uint64_t request_keys[REQUEST_SLOTS]; /* 0: free */

/* ---- counting ---- */

static struct stripe *
own_stripe(void)
{
    static _Atomic unsigned next;
    static _Thread_local struct stripe *own;

    if (own == NULL)
        own = &stripes[atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % STRIPES];
    return own;
}

static void
count(_Atomic uint64_t *slot, uint64_t n)
{
    atomic_fetch_add_explicit(slot, n, memory_order_relaxed);
}

void
metric_add(enum metric_counter counter, uint64_t n)
{
    hf_assert((unsigned)counter < METRIC_COUNTER_COUNT);
    count(&own_stripe()->counters[counter], n);
}

void
metric_set(enum metric_gauge gauge, int64_t value)
{
    hf_assert((unsigned)gauge < METRIC_GAUGE_COUNT);
    atomic_store_explicit(&gauges[gauge].value, value, memory_order_relaxed);
}

void
metric_adjust(enum metric_gauge gauge, int64_t delta)
{
    hf_assert((unsigned)gauge < METRIC_GAUGE_COUNT);
    atomic_fetch_add_explicit(&gauges[gauge].value, delta, memory_order_relaxed);
}

/* The unit of a histogram is the end of its name. */
static bool
is_in_seconds(const struct metric_row *row)
{
    static const char suffix[] = "_SECONDS";
    size_t len = strlen(row->name), suffix_len = sizeof(suffix) - 1;

    return len > suffix_len && memcmp(row->name + len - suffix_len, suffix, suffix_len) == 0;
}

static size_t
bounds_of(const struct metric_row *row, const uint64_t **bounds)
{
    bool seconds = is_in_seconds(row);

    *bounds = seconds ? seconds_bounds : count_bounds;
    return seconds ? COUNT_OF(seconds_bounds) : COUNT_OF(count_bounds);
}

void
metric_observe(enum metric_histogram histogram, uint64_t value)
{
    hf_assert((unsigned)histogram < METRIC_HISTOGRAM_COUNT);
    struct histogram *own = &own_stripe()->histograms[histogram];
    const uint64_t *bounds;
    size_t bounds_count = bounds_of(&histogram_rows[histogram], &bounds);
    size_t bucket = 0;

    while (bucket < bounds_count && value > bounds[bucket])
        bucket++;
    count(&own->buckets[bucket], 1);
    count(&own->sum, value);
}

/*
 * The address of the route's text and the status in one word, so that one
 * compare-and-swap takes a slot. The same text at two addresses has two slots;
 * writing puts them together.
 */
static uint64_t
request_key(const char *route, enum hf_status status)
{
    _Static_assert(HF_STATUS_COUNT <= 256, "the status has the key's last byte");
    _Static_assert(sizeof(uintptr_t) == 8, "an address of 56 bits and a status fit one word");
    return (uint64_t)(uintptr_t)route << 8 | (uint64_t)status;
}

/* True when slot `at` has this key, taking it if it was free. */
static bool
request_slot_is(size_t at, uint64_t key)
{
    uint64_t found = atomic_load_explicit(&request_keys[at], memory_order_relaxed);

    if (found == 0 &&
        atomic_compare_exchange_strong_explicit(&request_keys[at], &found, key,
                                                memory_order_relaxed, memory_order_relaxed))
        return true;
    return found == key;
}

static size_t
request_slot(const char *route, enum hf_status status)
{
    uint64_t key = request_key(route, status);
    size_t start = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32);

    for (size_t i = 0; i < REQUEST_PROBES; i++) {
        size_t at = (start + i) % REQUEST_SLOTS;
        if (request_slot_is(at, key))
            return at;
    }
    return REQUEST_SLOTS + (size_t)status;
}

void
metric_request(const char *route, enum hf_status status)
{
    hf_assert(route != NULL && (unsigned)status < HF_STATUS_COUNT);
    count(&own_stripe()->requests[request_slot(route, status)], 1);
}

uint64_t
metric_count(enum metric_counter counter)
{
    uint64_t sum = 0;

    hf_assert((unsigned)counter < METRIC_COUNTER_COUNT);
    for (size_t i = 0; i < STRIPES; i++)
        sum += atomic_load_explicit(&stripes[i].counters[counter], memory_order_relaxed);
    return sum;
}

/* ---- writing ---- */

static uint64_t
bucket_sum(size_t histogram, size_t bucket)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < STRIPES; i++)
        sum += atomic_load_explicit(&stripes[i].histograms[histogram].buckets[bucket],
                                    memory_order_relaxed);
    return sum;
}

static uint64_t
histogram_sum(size_t histogram)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < STRIPES; i++)
        sum += atomic_load_explicit(&stripes[i].histograms[histogram].sum, memory_order_relaxed);
    return sum;
}

static uint64_t
request_sum(size_t slot)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < STRIPES; i++)
        sum += atomic_load_explicit(&stripes[i].requests[slot], memory_order_relaxed);
    return sum;
}

/* The name without its labels: of the name given with labels, or of the row. ':' stands before one
 * that is whole. */
static struct slice
family_of(const struct metric_row *row)
{
    if (row->labels == NULL)
        return slice_of(row->name);
    return (struct slice){ row->labels, strcspn(row->labels, "{") };
}

/* What stands between the braces, or nothing. */
static struct slice
labels_of(const struct metric_row *row)
{
    const char *brace = row->labels != NULL ? strchr(row->labels, '{') : NULL;

    if (brace == NULL)
        return SLICE_EMPTY;
    return (struct slice){ brace + 1, strcspn(brace + 1, "}") };
}

static void
write_family(struct buf *out, struct slice family)
{
    bool is_whole = family.ptr[0] == ':';

    if (!is_whole)
        buf_append_text(out, "holdfast_");
    for (size_t i = is_whole; i < family.len; i++)
        buf_append_char(out, (char)tolower((unsigned char)family.ptr[i]));
}

static void
write_header(struct buf *out, struct slice family, const char *help, const char *type)
{
    buf_append_text(out, "# HELP ");
    write_family(out, family);
    buf_printf(out, " %s\n# TYPE ", help);
    write_family(out, family);
    buf_printf(out, " %s\n", type);
}

/* name_suffix{labels,le="..."}; `le` may be empty. */
static void
write_series(struct buf *out, const struct metric_row *row, const char *suffix, const char *le)
{
    struct slice labels = labels_of(row);
    bool both = labels.len > 0 && le[0] != '\0';

    write_family(out, family_of(row));
    buf_append_text(out, suffix);
    if (labels.len > 0 || le[0] != '\0')
        buf_printf(out, "{%.*s%s%s}", SLICE_ARG(labels), both ? "," : "", le);
    buf_append_char(out, ' ');
}

static void
write_counter(struct buf *out, const struct metric_row *row, size_t counter)
{
    write_series(out, row, "", "");
    buf_append_int(out, (long long)metric_count((enum metric_counter)counter));
    buf_append_char(out, '\n');
}

static void
write_gauge(struct buf *out, const struct metric_row *row, size_t gauge)
{
    write_series(out, row, "", "");
    buf_append_int(out, atomic_load_explicit(&gauges[gauge].value, memory_order_relaxed));
    buf_append_char(out, '\n');
}

/* Microseconds as seconds, exactly, without the zeros at the end. */
static void
format_seconds(uint64_t us, char *text, size_t room)
{
    int len = snprintf(text, room, "%llu.%06llu", (unsigned long long)(us / 1000000),
                       (unsigned long long)(us % 1000000));

    while (text[len - 1] == '0')
        len--;
    if (text[len - 1] == '.')
        len--;
    text[len] = '\0';
}

static void
format_value(bool seconds, uint64_t value, char *text, size_t room)
{
    if (seconds)
        format_seconds(value, text, room);
    else
        snprintf(text, room, "%llu", (unsigned long long)value);
}

/* The count is the sum of the buckets that were read, so that they agree. */
static void
write_histogram(struct buf *out, const struct metric_row *row, size_t histogram)
{
    bool seconds = is_in_seconds(row);
    const uint64_t *bounds;
    size_t bounds_count = bounds_of(row, &bounds);
    uint64_t cumulated = 0;
    char number[32], le[48];

    for (size_t i = 0; i <= bounds_count; i++) {
        if (i < bounds_count)
            format_value(seconds, bounds[i], number, sizeof(number));
        else
            snprintf(number, sizeof(number), "+Inf");
        snprintf(le, sizeof(le), "le=\"%s\"", number);
        cumulated += bucket_sum(histogram, i);
        write_series(out, row, "_bucket", le);
        buf_printf(out, "%llu\n", (unsigned long long)cumulated);
    }
    format_value(seconds, histogram_sum(histogram), number, sizeof(number));
    write_series(out, row, "_sum", "");
    buf_printf(out, "%s\n", number);
    write_series(out, row, "_count", "");
    buf_printf(out, "%llu\n", (unsigned long long)cumulated);
}

typedef void write_row(struct buf *out, const struct metric_row *row, size_t index);

static bool
family_came_before(const struct metric_row *rows, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (slice_equal(family_of(&rows[i]), family_of(&rows[index])))
            return true;
    }
    return false;
}

/* The format wants all lines of one name together, under one HELP and TYPE. */
static void
write_rows(struct buf *out, const struct metric_row *rows, size_t rows_count, const char *type,
           write_row *write)
{
    for (size_t i = 0; i < rows_count; i++) {
        if (family_came_before(rows, i))
            continue;
        write_header(out, family_of(&rows[i]), rows[i].help, type);
        for (size_t k = i; k < rows_count; k++) {
            if (slice_equal(family_of(&rows[k]), family_of(&rows[i])))
                write(out, &rows[k], k);
        }
    }
}

struct request_line {
    const char *route;
    enum hf_status status;
    uint64_t count;
};

static int
request_line_compare(const void *a, const void *b)
{
    const struct request_line *x = a, *y = b;
    int by_route = strcmp(x->route, y->route);

    return by_route != 0 ? by_route : (int)x->status - (int)y->status;
}

static size_t
request_lines_collect(struct request_line lines[REQUEST_COUNTS])
{
    size_t lines_count = 0;

    for (size_t i = 0; i < REQUEST_COUNTS; i++) {
        uint64_t sum = request_sum(i);
        if (sum == 0)
            continue;
        struct request_line line = { "other", (enum hf_status)(i - REQUEST_SLOTS), sum };
        if (i < REQUEST_SLOTS) {
            uint64_t key = atomic_load_explicit(&request_keys[i], memory_order_relaxed);
            if (key == 0)
                continue; /* a count seen before its key: the next reading has both */
            line.route = (const char *)(uintptr_t)(key >> 8);
            line.status = (enum hf_status)(key & 0xff);
        }
        lines[lines_count++] = line;
    }
    return lines_count;
}

/* Routes are our own static text: nothing in them needs an escape. */
static void
write_request_lines(struct buf *out, struct request_line *lines, size_t lines_count)
{
    qsort(lines, lines_count, sizeof(lines[0]), request_line_compare);
    write_header(out, SLICE_LITERAL("requests_total"), "Finished requests by route and outcome",
                 "counter");
    for (size_t i = 0; i < lines_count;) {
        const struct request_line *first = &lines[i];
        uint64_t sum = 0;
        for (; i < lines_count && request_line_compare(first, &lines[i]) == 0; i++)
            sum += lines[i].count;
        buf_printf(out, "holdfast_requests_total{route=\"%s\",code=\"%s\"} %llu\n", first->route,
                   status_code(first->status), (unsigned long long)sum);
    }
}

static void
write_requests(struct buf *out)
{
    struct request_line *lines = calloc(REQUEST_COUNTS, sizeof(lines[0]));

    if (lines == NULL) {
        out->failed = true;
        return;
    }
    write_request_lines(out, lines, request_lines_collect(lines));
    free(lines);
}

void
metrics_write(struct buf *out)
{
    write_rows(out, counter_rows, COUNT_OF(counter_rows), "counter", write_counter);
    write_rows(out, gauge_rows, COUNT_OF(gauge_rows), "gauge", write_gauge);
    write_rows(out, histogram_rows, COUNT_OF(histogram_rows), "histogram", write_histogram);
    write_requests(out);
}
