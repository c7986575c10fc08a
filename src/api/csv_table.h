/*
 * csv_table.h - a CSV file with a header line: which columns it has, its lines, and all that is
 * wrong.
 *
 * The columns may come in any order; each line has as many fields as the header. Errors are kept
 * with their line (up to IMPORT_ERRORS_MAX), so that a client hears of all its mistakes at once.
 *
 * Memory: slices point into the text, or into the arena where quotes had to be undone.
 */
#ifndef HOLDFAST_CSV_TABLE_H
#define HOLDFAST_CSV_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "csv.h"
#include "holdfast/assert.h"
#include "holdfast/seat_import.h"

#define CSV_COLUMNS_MAX 16

struct csv_column {
    const char *name;
    bool needed;
};

struct csv_table {
    struct arena *arena;
    struct import_errors *errors;
    const struct csv_column *columns;
    int count; /* of columns that are known */

    struct csv csv;
    struct csv_record record;   /* the line that was read last */
    int place[CSV_COLUMNS_MAX]; /* of a known column in the file; -1: it isn't there */
    int width;                  /* columns of the file */
};

/*
 * Reads the header line. False: no memory. What is wrong with it is in `errors`; then no line is to
 * be read, since each would only be wrong the same way.
 */
HF_MUST_CHECK bool csv_table_open(struct csv_table *table, struct arena *arena,
                                  const struct csv_column *columns, int count, struct slice text,
                                  struct import_errors *errors);

/* CSV_RECORD: the next line, with as many fields as the header; the others were told as errors. */
enum csv_answer csv_table_next(struct csv_table *table);

/* A field of the line; empty when the file has no such column. */
struct slice csv_table_value(const struct csv_table *table, int column);

/* Something is wrong in the line that was read last, */
void csv_table_wrong(struct csv_table *table, int column, const char *reason);
/* or in another one; field may be empty. */
void csv_table_wrong_line(struct csv_table *table, int64_t line, struct slice field,
                          const char *reason);

#endif
