/*
 * audit.h - does the audit log tell one possible story? (laws 1, 2 and 6, after the fact)
 *
 * Replays the audit rows of each seat in order of its version: versions are dense, two
 * holds never overlap, a sale is by the living hold before its end, an expiry not before
 * it; and compares the end of the story with `seats` and `seat_holds`, and areas' counts
 * with the sums of their lines.
 *
 * Callers:  `holdfast verify`, GET /api/admin/verify/{event}.
 * Threads:  any; the connection is used by one thread at a time, and blocks it.
 * Memory:   a few thousand rows at a time, whatever the size of the log.
 * Source:   one snapshot (REPEATABLE READ READ ONLY), so the nodes may be running.
 */
#ifndef HOLDFAST_AUDIT_H
#define HOLDFAST_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/buf.h"
#include "holdfast/clock.h"
#include "holdfast/cold.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"

#define AUDIT_VIOLATIONS_MAX 100
#define AUDIT_DETAIL_BYTES   160

struct audit_violation {
    const char *kind; /* static: "overlap", "version_gap", ... */
    char org[ID_BYTES_MAX + 1];
    char event[ID_BYTES_MAX + 1];
    char seat[ID_BYTES_MAX + 1]; /* a seat's, or an area's id */
    int hold_count;
    struct uuid holds[2]; /* those concerned */
    char detail[AUDIT_DETAIL_BYTES];
};

struct audit_report {
    int64_t seats;           /* that were looked at */
    int64_t holds;           /* that have lines */
    int64_t entries;         /* audit rows replayed */
    int64_t violation_count; /* all; the first AUDIT_VIOLATIONS_MAX of them are kept */
    struct audit_violation violations[AUDIT_VIOLATIONS_MAX];
};

/* Empty org or event: all of them. PG_DONE: the report is whole. */
HF_MUST_CHECK enum pg_outcome audit_verify(struct pg *pg, struct slice org, struct slice event,
                                           struct mono_time deadline, struct audit_report *report);

/* {"ok":…,"seats":…,"holds":…,"violations":[{"kind":…,"seat_id":…,"hold_ids":[…],…}]} */
void audit_report_write(struct buf *out, const struct audit_report *report);

#endif
