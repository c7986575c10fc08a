/*
 * log.c - records, and the bounded ring in which they stand in this node's order.
 *
 * A record is one allocation, shared by log, outbox and publisher. The ring grows by doubling: how
 * many records fit into log_bytes_max depends on what is sold.
 */
#include "feed_internal.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_LEAST 256

/* --- records ------------------------------------------------------------------ */

static struct feed_record *
record_new(size_t bytes)
{
    struct feed_record *record = malloc(sizeof(*record) + bytes);

    if (record != NULL)
        memset(record, 0, sizeof(*record));
    return record;
}

static uint64_t
events_of(const struct feed_change *changes, int count)
{
    uint64_t events = 0;

    for (int i = 0; i < count; i++) {
        if (i == 0 || changes[i].event.ptr != changes[i - 1].event.ptr)
            events |= codec_event_bit(changes[i].event);
    }
    return events;
}

struct feed_record *
record_of_changes(const struct feed_change *changes, int count, size_t bytes_max)
{
    struct feed_record *record = record_new(bytes_max);
    if (record == NULL)
        return NULL;
    size_t len = codec_write(record->bytes, changes, count);
    if (len == 0) {
        free(record);
        return NULL;
    }
    /* What it is known to need is about half of what it might have. */
    struct feed_record *fitting = realloc(record, sizeof(*record) + len);
    if (fitting != NULL)
        record = fitting;
    atomic_init(&record->refs, 1);
    record->len = (uint32_t)len;
    record->change_count = (uint32_t)count;
    record->events = events_of(changes, count);
    return record;
}

struct feed_record *
record_of_bytes(struct slice bytes, uint32_t change_count, uint64_t events)
{
    struct feed_record *record = record_new(bytes.len);
    if (record == NULL)
        return NULL;
    memcpy(record->bytes, bytes.ptr, bytes.len);
    atomic_init(&record->refs, 1);
    record->len = (uint32_t)bytes.len;
    record->change_count = change_count;
    record->events = events;
    return record;
}

struct feed_record *
record_get(struct feed_record *record)
{
    atomic_fetch_add_explicit(&record->refs, 1, memory_order_relaxed);
    return record;
}

void
feed_record_put(struct feed_record *record)
{
    if (atomic_fetch_sub_explicit(&record->refs, 1, memory_order_acq_rel) == 1)
        free(record);
}

/* --- the ring -------------------------------------------------------------------- */

static int64_t
cost(const struct feed_record *record)
{
    return (int64_t)(sizeof(*record) + record->len + sizeof(record));
}

static bool
grow(struct feed_log *log)
{
    size_t capacity = log->capacity == 0 ? CAPACITY_LEAST : 2 * log->capacity;
    struct feed_record **ring = malloc(capacity * sizeof(struct feed_record *));

    if (ring == NULL)
        return false;
    for (size_t i = 0; i < log->count; i++)
        ring[i] = log_at(log, i);
    free(log->ring);
    log->ring = ring;
    log->capacity = capacity;
    log->first = 0;
    return true;
}

bool
log_has_room(struct feed_log *log, const struct feed_record *record)
{
    return log->bytes + cost(record) <= log->bytes_max && (log->count < log->capacity || grow(log));
}

void
log_add(struct feed_log *log, struct feed_record *record)
{
    hf_assert(log->count < log->capacity);
    log->ring[(log->first + log->count) & (log->capacity - 1)] = record_get(record);
    log->count++;
    log->bytes += cost(record);
}

struct feed_record *
log_evict(struct feed_log *log)
{
    if (log->count == 0)
        return NULL;
    struct feed_record *record = log_at(log, 0);
    log->first = (log->first + 1) & (log->capacity - 1);
    log->count--;
    log->bytes -= cost(record);
    return record;
}

void
log_fini(struct feed_log *log)
{
    struct feed_record *record;

    while ((record = log_evict(log)) != NULL)
        feed_record_put(record);
    free(log->ring);
    *log = (struct feed_log){ .bytes_max = log->bytes_max };
}
