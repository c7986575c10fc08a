/*
 * clock.h - the two times of holdfast, as two types that can't be mixed.
 *
 * mono_time  this machine's CLOCK_BOOTTIME: timeouts, timers, durations.
 * db_time    the database's clock, Unix epoch: everything that grants or ends
 *            a hold. A node only estimates it, and knows by how much it may err.
 *
 * Threads:   db_clock functions may be called from any thread.
 * Source:    the estimate is Cristian's: the middle of the fastest of the last
 *            eight round trips; the error is half of that round trip.
 */
#ifndef HOLDFAST_CLOCK_H
#define HOLDFAST_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/slice.h"

struct mono_time {
    int64_t us;
};
struct db_time {
    int64_t us;
};

#define TIME_US_PER_MS     1000
#define TIME_US_PER_S      1000000
#define DB_TIME_TEXT_BYTES 25 /* "2026-01-31T12:34:56.789Z" and NUL */

struct mono_time mono_now(void);

/* True, once, when its time has come; it comes again after `every_us`. The caller owns *due. */
bool mono_is_due(struct mono_time *due, int64_t every_us);

/* Writes RFC 3339 UTC with milliseconds, rounded down. */
void db_time_format(struct db_time time, char text[DB_TIME_TEXT_BYTES]);

/* Reads RFC 3339 (any offset, up to 6 digits of a second). False: not a time. */
bool db_time_parse(struct slice text, struct db_time *time);

struct db_clock; /* opaque */

struct db_clock *db_clock_new(void);
void db_clock_free(struct db_clock **clock);

/* Takes in one round trip: the database said `theirs` between `sent` and `received`. */
void db_clock_observe(struct db_clock *clock, struct mono_time sent, struct mono_time received,
                      struct db_time theirs);

/* Forgets every round trip: another server answers now. */
void db_clock_reset(struct db_clock *clock);

/*
 * The estimate at `now`; *error_us tells by how much it may be wrong.
 * False before the first round trip: nothing may be judged by it then.
 */
bool db_clock_read(struct db_clock *clock, struct mono_time now, struct db_time *time,
                   int64_t *error_us);

/*
 * The latest time that has certainly come at `now`; 0 before the first round trip. What ends later
 * is not shown, counted or taken as over: within the clock's error of its end a hold lives.
 */
struct db_time db_clock_surely_past(struct db_clock *clock, struct mono_time now);

#endif
