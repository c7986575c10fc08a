/*
 * csv_table.c - the header line of a CSV file, and its lines one by one.
 */
#include "csv_table.h"

/* --- what is wrong --------------------------------------------------------------------- */

void
csv_table_wrong_line(struct csv_table *table, int64_t line, struct slice field, const char *reason)
{
    struct import_errors *errors = table->errors;

    if (errors->count < IMPORT_ERRORS_MAX)
        errors->items[errors->count] = (struct import_error){ line, field, reason };
    errors->count++;
}

void
csv_table_wrong(struct csv_table *table, int column, const char *reason)
{
    csv_table_wrong_line(table, table->record.line, slice_of(table->columns[column].name), reason);
}

/* --- the header line --------------------------------------------------------------------- */

static int
column_named(const struct csv_table *table, struct slice name)
{
    for (int i = 0; i < table->count; i++) {
        if (slice_is(name, table->columns[i].name))
            return i;
    }
    return -1;
}

static void
read_header(struct csv_table *table)
{
    const struct csv_record *record = &table->record;

    for (int i = 0; i < table->count; i++)
        table->place[i] = -1;
    for (int i = 0; i < record->count; i++) {
        int column = column_named(table, record->fields[i]);
        if (column < 0)
            csv_table_wrong_line(table, record->line, record->fields[i],
                                 "is not a column that is known here");
        else if (table->place[column] >= 0)
            csv_table_wrong_line(table, record->line, record->fields[i], "is a column twice");
        else
            table->place[column] = i;
    }
    for (int i = 0; i < table->count; i++) {
        if (table->columns[i].needed && table->place[i] < 0)
            csv_table_wrong(table, i, "is missing as a column");
    }
    table->width = record->count;
}

bool
csv_table_open(struct csv_table *table, struct arena *arena, const struct csv_column *columns,
               int count, struct slice text, struct import_errors *errors)
{
    hf_assert(count <= CSV_COLUMNS_MAX);
    *table =
        (struct csv_table){ .arena = arena, .errors = errors, .columns = columns, .count = count };
    errors->count = 0;
    csv_init(&table->csv, text);
    switch (csv_next(&table->csv, arena, &table->record)) {
    case CSV_NO_MEMORY:
        return false;
    case CSV_END:
        csv_table_wrong_line(table, 1, SLICE_EMPTY, "the file has no header line");
        break;
    case CSV_BAD:
        csv_table_wrong_line(table, table->record.line, SLICE_EMPTY, table->record.reason);
        break;
    case CSV_RECORD:
        read_header(table);
        break;
    }
    return true;
}

/* --- the lines --------------------------------------------------------------------------- */

enum csv_answer
csv_table_next(struct csv_table *table)
{
    for (;;) {
        enum csv_answer answer = csv_next(&table->csv, table->arena, &table->record);
        if (answer == CSV_BAD)
            csv_table_wrong_line(table, table->record.line, SLICE_EMPTY, table->record.reason);
        else if (answer == CSV_RECORD && table->record.count != table->width)
            csv_table_wrong_line(table, table->record.line, SLICE_EMPTY,
                                 "has not as many fields as the header line");
        else
            return answer;
    }
}

struct slice
csv_table_value(const struct csv_table *table, int column)
{
    int place = table->place[column];

    return place < 0 ? SLICE_EMPTY : table->record.fields[place];
}
