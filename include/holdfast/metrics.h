/*
 * metrics.h - counters, gauges and histograms, each one line of metrics.def.
 *
 * Threads: any; updates are relaxed atomics on a slot of the calling thread's
 * stripe, so that they cost no shared cache line.
 */
#ifndef HOLDFAST_METRICS_H
#define HOLDFAST_METRICS_H

#include <stdint.h>

#include "holdfast/buf.h"
#include "holdfast/status.h"

enum metric_counter {
#define COUNTER(name, labels, text) METRIC_##name,
#define GAUGE(name, labels, text)
#define HISTOGRAM(name, labels, text)
#include "holdfast/metrics.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
    METRIC_COUNTER_COUNT
};

enum metric_gauge {
#define COUNTER(name, labels, text)
#define GAUGE(name, labels, text) METRIC_##name,
#define HISTOGRAM(name, labels, text)
#include "holdfast/metrics.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
    METRIC_GAUGE_COUNT
};

enum metric_histogram {
#define COUNTER(name, labels, text)
#define GAUGE(name, labels, text)
#define HISTOGRAM(name, labels, text) METRIC_##name,
#include "holdfast/metrics.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
    METRIC_HISTOGRAM_COUNT
};

void metric_add(enum metric_counter counter, uint64_t n);
void metric_set(enum metric_gauge gauge, int64_t value);
void metric_adjust(enum metric_gauge gauge, int64_t delta);

uint64_t metric_count(enum metric_counter counter);

/* value: microseconds for *_seconds histograms, else a plain count. */
void metric_observe(enum metric_histogram histogram, uint64_t value);

/* Counts a finished request: holdfast_requests_total{route,code}; route is static text. */
void metric_request(const char *route, enum hf_status status);

/* The whole in Prometheus text format 0.0.4. */
void metrics_write(struct buf *out);

#endif
