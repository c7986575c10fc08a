/*
 * audit_internal.h - what the files of the audit room share.
 *
 * stream.c   rows of a cursor, a portion at a time, grouped by seat
 * story.c    the replay of one seat: what each audit row may do, and what it leaves
 * ending.c   the end of the story against `seats` and `seat_holds`
 * areas.c    areas: dense versions, and counts that are sums of lines
 * report.c   violations, and the report as JSON
 * verify.c   one snapshot, three streams joined by seat
 */
#ifndef HOLDFAST_AUDIT_INTERNAL_H
#define HOLDFAST_AUDIT_INTERNAL_H

#include "holdfast/audit.h"
#include "holdfast/hot_table.h"

/* --- stream.c --------------------------------------------------------------- */

/* Whose row it is; rows of every stream begin with these three columns. */
struct audit_key {
    char org[ID_BYTES_MAX + 1];
    char event[ID_BYTES_MAX + 1];
    char seat[ID_BYTES_MAX + 1];
};
enum { KEY_ORG, KEY_EVENT, KEY_SEAT, KEY_COLUMNS };

int audit_key_compare(const struct audit_key *a, const struct audit_key *b);

struct stream {
    struct pg *pg;
    const char *cursor; /* its name: static */
    struct mono_time deadline;
    struct pg_result *rows;
    int at, count;
    bool ended;
    struct audit_key key;    /* of the row at `at` */
    enum pg_outcome outcome; /* PG_DONE while all is well */
};

/* Declares `cursor` for `sql` with two text parameters (org, event; empty: all). */
void audit_stream_open(struct stream *stream, struct pg *pg, const char *cursor, const char *sql,
                       struct slice org, struct slice event, struct mono_time deadline);
void
audit_stream_close(struct stream *stream); /* frees rows; the cursor ends with the transaction */
/* True: there is a row at stream->at of stream->rows, and it is of `key` (NULL: of any). */
bool audit_stream_has(const struct stream *stream, const struct audit_key *key);
void audit_stream_next(struct stream *stream);

/* --- story.c ------------------------------------------------------------------ */

enum life_end { LIFE_ACTIVE, LIFE_SOLD, LIFE_ENDED };

/* What one hold had of the seat. */
struct life {
    struct uuid hold;
    enum life_end end;
};

struct story {
    struct audit_report *report;
    const struct audit_key *key;
    bool born; /* an audit row was seen */
    enum seat_status status;
    int64_t version;
    struct uuid hold;     /* nil: nobody */
    struct db_time until; /* of a held seat */
    bool paying;          /* it is in payment: only that ends its hold */
    struct db_time last_at;
    char user[ID_BYTES_MAX + 1];
    struct life *lives; /* grows, is kept for the next seat */
    int life_count, life_room;
    bool failed; /* no memory */
};

/* Columns of the entries after the key. */
enum {
    ENTRY_VERSION = KEY_COLUMNS,
    ENTRY_ACTION,
    ENTRY_HOLD,
    ENTRY_USER,
    ENTRY_AT,
    ENTRY_UNTIL,
    ENTRY_REASON,
    ENTRY_ID
};

void story_begin(struct story *story, struct audit_report *report, const struct audit_key *key);
void story_tell(struct story *story, const struct pg_result *rows, int row);
void story_fini(struct story *story);
void story_wrong(struct story *story, const char *kind, const struct uuid *other,
                 const char *format, ...) HF_PRINTF(4, 5);

/* --- ending.c -------------------------------------------------------------------- */

enum {
    SEAT_COLUMN_VERSION = KEY_COLUMNS,
    SEAT_COLUMN_STATUS,
    SEAT_COLUMN_HOLD,
    SEAT_COLUMN_USER,
    SEAT_COLUMN_UNTIL,
    SEAT_COLUMN_IN_PAYMENT
};
enum { LINE_HOLD = KEY_COLUMNS, LINE_USER, LINE_STATUS, LINE_UNTIL, LINE_IN_PAYMENT };

/* Takes the rows of story->key from both streams. */
void ending_check(struct story *story, struct stream *seats, struct stream *lines);

/* --- areas.c ---------------------------------------------------------------------- */

HF_MUST_CHECK enum pg_outcome areas_check(struct pg *pg, struct slice org, struct slice event,
                                          struct mono_time deadline, struct audit_report *report);

/* --- report.c ---------------------------------------------------------------------- */

/* A place for one more violation; NULL: there are AUDIT_VIOLATIONS_MAX already (it is counted). */
struct audit_violation *report_add(struct audit_report *report, const char *kind, struct slice org,
                                   struct slice event, struct slice seat);

#endif
