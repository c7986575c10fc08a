/*
 * stream.c - the rows of a cursor, a portion at a time.
 *
 * The log may have millions of rows: Postgres sorts them once (on disk, if need be), and
 * only a portion of each stream is here.
 */
#include <stdio.h>
#include <string.h>

#include "audit_internal.h"

#define PORTION "5000"

int
audit_key_compare(const struct audit_key *a, const struct audit_key *b)
{
    int order = strcmp(a->org, b->org);

    if (order == 0)
        order = strcmp(a->event, b->event);
    return order != 0 ? order : strcmp(a->seat, b->seat);
}

/* Ids are short and have no NUL; a longer text (rows written by hand) is cut. */
static void
read_id(char to[ID_BYTES_MAX + 1], const struct pg_result *rows, int row, int column)
{
    struct slice text = pg_get_text(rows, row, column);
    size_t len = text.len < ID_BYTES_MAX ? text.len : ID_BYTES_MAX;

    memcpy(to, text.ptr, len);
    to[len] = '\0';
}

static void
read_key(struct stream *stream)
{
    read_id(stream->key.org, stream->rows, stream->at, KEY_ORG);
    read_id(stream->key.event, stream->rows, stream->at, KEY_EVENT);
    read_id(stream->key.seat, stream->rows, stream->at, KEY_SEAT);
}

static void
stream_end(struct stream *stream, enum pg_outcome outcome)
{
    stream->ended = true;
    stream->outcome = outcome;
}

static void
fetch(struct stream *stream)
{
    char sql[96];

    pg_result_free(&stream->rows);
    snprintf(sql, sizeof(sql), "FETCH " PORTION " FROM %s", stream->cursor);
    enum pg_outcome outcome =
        pg_run_text(stream->pg, sql, 0, NULL, stream->deadline, &stream->rows);
    stream->at = 0;
    stream->count = outcome == PG_DONE ? pg_rows(stream->rows) : 0;
    if (stream->count == 0)
        stream_end(stream, outcome);
    else
        read_key(stream);
}

void
audit_stream_open(struct stream *stream, struct pg *pg, const char *cursor, const char *sql,
                  struct slice org, struct slice event, struct mono_time deadline)
{
    char text[2048];
    char org_text[ID_BYTES_MAX + 1], event_text[ID_BYTES_MAX + 1];
    const char *values[] = { org_text, event_text };

    *stream = (struct stream){ .pg = pg, .cursor = cursor, .deadline = deadline };
    hf_assert(org.len <= ID_BYTES_MAX && event.len <= ID_BYTES_MAX);
    snprintf(org_text, sizeof(org_text), "%.*s", SLICE_ARG(org));
    snprintf(event_text, sizeof(event_text), "%.*s", SLICE_ARG(event));
    int len = snprintf(text, sizeof(text), "DECLARE %s NO SCROLL CURSOR FOR %s", cursor, sql);
    hf_assert(len > 0 && (size_t)len < sizeof(text));
    enum pg_outcome outcome = pg_run_text(pg, text, 2, values, deadline, NULL);
    if (outcome == PG_DONE)
        fetch(stream);
    else
        stream_end(stream, outcome);
}

void
audit_stream_close(struct stream *stream)
{
    pg_result_free(&stream->rows);
}

bool
audit_stream_has(const struct stream *stream, const struct audit_key *key)
{
    return !stream->ended && (key == NULL || audit_key_compare(&stream->key, key) == 0);
}

void
audit_stream_next(struct stream *stream)
{
    if (++stream->at < stream->count)
        read_key(stream);
    else
        fetch(stream);
}
