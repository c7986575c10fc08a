/*
 * audit_search.h - the newest audit entries that fit a question, quickly on any number of rows.
 *
 * Callers:  audit_page.c.
 * Threads:  any; the caller owns the connection.
 * Memory:   what is found is the caller's until audit_found_fini.
 * Limits:   no window looks at more rows than a sale of 100,000 seats writes.
 */
#ifndef HOLDFAST_AUDIT_SEARCH_H
#define HOLDFAST_AUDIT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/cold.h"
#include "holdfast/slice.h"

/* Entries are ordered by their time, then by their id. */
struct audit_place {
    int64_t at_us, id;
};

/* An empty text asks for nothing. All live as long as the search. */
struct audit_question {
    enum pg_report
        report; /* audit_find, or another that takes the same and gives AC_SEEN to AC_AT */
    struct slice org, event, seat, hold, user, action;
    int64_t from_us;
    struct audit_place before;
    int limit;
};

/* Columns of audit_find; the first three are those of any report here. */
enum audit_column {
    AC_SEEN,
    AC_ID,
    AC_AT,
    AC_ACTION,
    AC_EVENT,
    AC_SEAT,
    AC_AREA,
    AC_HOLD,
    AC_USER,
    AC_ACTOR,
    AC_REASON,
    AC_VERSION,
    AC_QUANTITY,
    AC_HELD_UNTIL,
    AC_REQUEST,
    AC_CLIENT_IP,
    AC_USER_AGENT,
    AC_META,
    AC_CHECKOUT,
    AC_HELD_SECONDS,
    AC_CHECKIN,
    AC_WAITLIST
};

#define AUDIT_PARTS_MAX 64

/* Newest first: the rows of part after part. */
struct audit_found {
    int count; /* at most `limit` */
    bool more; /* there are older ones that fit */
    int part_count;
    struct pg_result *parts[AUDIT_PARTS_MAX];
};

/* PG_DATA_ERROR: `action` is none. Other than PG_DONE: nothing was found out. */
HF_MUST_CHECK enum pg_outcome audit_search(struct pg *pg, const struct audit_question *question,
                                           struct mono_time deadline, struct audit_found *found);
void audit_found_fini(struct audit_found *found);

#endif
