/*
 * verify.c - one snapshot of everything, and the streams of it joined by seat.
 *
 * Three cursors, each sorted by (org, event, seat) in the "C" collation, which is how
 * strcmp sorts too: audit rows, rows of `seats`, lines of `seat_holds`. The smallest key
 * of the three is the next seat; each stream gives what it has of it.
 */
#include <string.h>

#include "audit_internal.h"

struct streams {
    struct stream entries, seats, lines;
};

static const struct audit_key *
smaller(const struct audit_key *key, const struct stream *stream)
{
    if (stream->ended)
        return key;
    return key == NULL || audit_key_compare(&stream->key, key) < 0 ? &stream->key : key;
}

/* The next seat of any stream. False: all are at their end. */
static bool
next_key(const struct streams *streams, struct audit_key *key)
{
    const struct audit_key *least = smaller(NULL, &streams->entries);

    least = smaller(least, &streams->seats);
    least = smaller(least, &streams->lines);
    if (least != NULL)
        *key = *least;
    return least != NULL;
}

static enum pg_outcome
worst(const struct streams *streams)
{
    if (streams->entries.outcome != PG_DONE)
        return streams->entries.outcome;
    return streams->seats.outcome != PG_DONE ? streams->seats.outcome : streams->lines.outcome;
}

static enum pg_outcome
replay(struct streams *streams, struct audit_report *report)
{
    struct story story = { 0 };
    struct audit_key key;

    while (worst(streams) == PG_DONE && !story.failed && next_key(streams, &key)) {
        story_begin(&story, report, &key);
        while (audit_stream_has(&streams->entries, &key)) {
            story_tell(&story, streams->entries.rows, streams->entries.at);
            audit_stream_next(&streams->entries);
        }
        ending_check(&story, &streams->seats, &streams->lines);
    }
    bool failed = story.failed;
    story_fini(&story);
    return failed ? PG_UNAVAILABLE : worst(streams);
}

static enum pg_outcome
replay_seats(struct pg *pg, struct slice org, struct slice event, struct mono_time deadline,
             struct audit_report *report)
{
    struct streams streams = { 0 };

    audit_stream_open(&streams.entries, pg, "audit_entries", pg_report_text(REPORT_AUDIT_ENTRIES),
                      org, event, deadline);
    if (streams.entries.outcome == PG_DONE)
        audit_stream_open(&streams.seats, pg, "audit_seats", pg_report_text(REPORT_AUDIT_SEATS),
                          org, event, deadline);
    if (worst(&streams) == PG_DONE)
        audit_stream_open(&streams.lines, pg, "audit_lines", pg_report_text(REPORT_AUDIT_LINES),
                          org, event, deadline);
    enum pg_outcome outcome = worst(&streams);
    if (outcome == PG_DONE)
        outcome = replay(&streams, report);
    audit_stream_close(&streams.entries);
    audit_stream_close(&streams.seats);
    audit_stream_close(&streams.lines);
    return outcome;
}

/* One unchanging view; sorting a large log may take longer than a request may. */
static enum pg_outcome
begin(struct pg *pg, struct mono_time deadline)
{
    enum pg_outcome outcome =
        pg_run_text(pg, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", 0, NULL, deadline, NULL);

    if (outcome == PG_DONE)
        outcome = pg_run_text(pg, "SET LOCAL statement_timeout = 0", 0, NULL, deadline, NULL);
    return outcome;
}

enum pg_outcome
audit_verify(struct pg *pg, struct slice org, struct slice event, struct mono_time deadline,
             struct audit_report *report)
{
    memset(report, 0, sizeof(*report));
    enum pg_outcome outcome = begin(pg, deadline);
    if (outcome == PG_DONE)
        outcome = replay_seats(pg, org, event, deadline, report);
    if (outcome == PG_DONE)
        outcome = areas_check(pg, org, event, deadline, report);
    if (pg_is_connected(pg) && pg_run_text(pg, "ROLLBACK", 0, NULL, deadline, NULL) != PG_DONE)
        pg_drop(pg); /* it must not go on in a transaction that nobody knows of */
    return outcome;
}
