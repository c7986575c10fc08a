/*
 * csv.h - comma-separated values as RFC 4180 has them, record by record.
 *
 * Lines end in CRLF or LF; fields may be quoted, with "" for a quote; a byte order
 * mark at the start is passed over, and so are empty lines. A field is a slice of the
 * text, or, where quotes had to be undone, a copy in the arena.
 *
 * Threads: a reader has one user at a time.
 */
#ifndef HOLDFAST_CSV_H
#define HOLDFAST_CSV_H

#include <stdint.h>

#include "holdfast/arena.h"
#include "holdfast/slice.h"

#define CSV_FIELDS_MAX 64

struct csv {
    const char *at, *end;
    int64_t line; /* of `at`, counted from 1 */
};

struct csv_record {
    int64_t line; /* where it begins */
    int count;
    struct slice fields[CSV_FIELDS_MAX];
    const char *reason; /* of CSV_BAD: static text */
};

enum csv_answer {
    CSV_RECORD,
    CSV_BAD, /* this record is broken; the next call goes on behind its line */
    CSV_END,
    CSV_NO_MEMORY
};

void csv_init(struct csv *csv, struct slice text);
enum csv_answer csv_next(struct csv *csv, struct arena *arena, struct csv_record *record);

/* True: UTF-8 without NUL, as Postgres takes it. */
bool csv_text_is_valid(struct slice text);

#endif
