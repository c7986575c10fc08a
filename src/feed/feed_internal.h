/*
 * feed_internal.h - what the files of the feed share.
 *
 *   reason.c   the words for why a seat was freed
 *   codec.c    changes to bytes and back
 *   log.c      records: counted, and the bounded log of them
 *   feed.c     the order of all changes: told, heard, taken by the publisher
 *   replay.c   what a reader has missed
 */
#ifndef HOLDFAST_FEED_INTERNAL_H
#define HOLDFAST_FEED_INTERNAL_H

#include <pthread.h>

#include "holdfast/feed.h"
#include "holdfast/lock.h"

/* --- codec.c ------------------------------------------------------------------ */

#define FEED_RECORD_BYTES_MAX (512 * 1024) /* what takes more is several records */

/* How many of them surely fit into one record (at least one), and the most bytes that they take. */
int codec_fit(const struct feed_change *changes, int count, size_t *bytes_max);
/* Returns how many bytes; 0: one of them is no sound change. `out` has room for bytes_max. */
size_t codec_write(char *out, const struct feed_change *changes, int count);

struct codec_reader {
    const uint8_t *at, *end;
    struct feed_change last; /* what the next one may leave out */
};
enum codec_read { CODEC_CHANGE, CODEC_END, CODEC_GARBLED };
/* bytes: a record's. The changes point into it. */
void codec_begin(struct codec_reader *reader, struct slice bytes);
enum codec_read codec_next(struct codec_reader *reader, struct feed_change *change);

/* The bit of an event in feed_record.events. */
uint64_t codec_event_bit(struct slice event);
/* Reads it through. False: garbled. */
HF_MUST_CHECK bool codec_check(struct slice bytes, uint32_t *change_count, uint64_t *events);

/* --- log.c ----------------------------------------------------------------------- */

/* Records with one reference for the caller; NULL: no memory (or an unsound change). */
struct feed_record *record_of_changes(const struct feed_change *changes, int count,
                                      size_t bytes_max);
struct feed_record *record_of_bytes(struct slice bytes, uint32_t change_count, uint64_t events);
struct feed_record *record_get(struct feed_record *record);
static inline struct slice
record_bytes(const struct feed_record *record)
{
    return (struct slice){ record->bytes, record->len };
}

/* A ring of records, the oldest first. Zeroed but for bytes_max, it is empty. */
struct feed_log {
    int64_t bytes_max;
    int64_t bytes;
    struct feed_record **ring;
    size_t capacity; /* a power of two, or 0 */
    size_t first, count;
};
static inline struct feed_record *
log_at(const struct feed_log *log, size_t i)
{
    return log->ring[(log->first + i) & (log->capacity - 1)];
}
/* Whether there is room for it; if not, one of the oldest has to go. */
bool log_has_room(struct feed_log *log, const struct feed_record *record);
/* Shares the record; log_has_room has said so. */
void log_add(struct feed_log *log, struct feed_record *record);
/* Gives the oldest; NULL: it is empty. */
struct feed_record *log_evict(struct feed_log *log);
void log_fini(struct feed_log *log);

/* --- the feed ---------------------------------------------------------------------- */

struct incarnation {
    uint64_t floor;        /* what is behind it is in the log */
    struct mono_time gone; /* when it left cleanly; 0: it lives */
};

struct feed {
    struct node *node; /* fixed */

    /* guarded by lock (rank FEED) */
    struct lock lock;
    int64_t incarnation;      /* our own; 0: not started */
    struct feed_position now; /* what memory has: its part while a record is taken in */
    struct incarnation known[FEED_NODES_MAX]; /* beside now.marks */
    struct feed_log log;
    feed_hearer *hear; /* NULL: nobody listens */
    void *hear_context;

    /* the outbox, also guarded by lock */
    pthread_cond_t work;
    struct feed_record *first, **end; /* linked by next; a reference each */
    int64_t out_records, out_bytes;
    bool woken;

    /* for feed_await, also guarded by lock */
    bool is_awaited;              /* somebody waits */
    struct mono_time await_after; /* nobody does before: the last one waited in vain */
};

#endif
