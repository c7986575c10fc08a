/*
 * import_rows.c - from the records of a CSV file to seats, with every error and its line.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "csv.h"
#include "events_internal.h"
#include "holdfast/ids.h"
#include "holdfast/seat_import.h"

#define PRICE_MAX INT64_C(1000000000000) /* no checkout's sum passes an int64 */

enum field { SEAT, SECTION, ROW, NUMBER, TYPE, PRICE, X, Y, ATTRIBUTES, FIELD_COUNT };

static const struct {
    const char *name;
    bool needed;
} fields[FIELD_COUNT] = {
    [SEAT] = { "seat_id", true },
    [SECTION] = { "section", true },
    [ROW] = { "row", true },
    [NUMBER] = { "number", true },
    [TYPE] = { "type", false },
    [PRICE] = { "price", false },
    [X] = { "x", false },
    [Y] = { "y", false },
    [ATTRIBUTES] = { "attributes", false },
};

struct import {
    struct arena *arena;
    struct csv csv;
    struct csv_record record;
    struct import_errors *errors;
    int column_of[FIELD_COUNT]; /* -1: the file doesn't have it */
    int column_count;
};

static void
wrong_slice(struct import *import, int64_t line, struct slice field, const char *reason)
{
    struct import_errors *errors = import->errors;

    if (errors->count < IMPORT_ERRORS_MAX)
        errors->items[errors->count] = (struct import_error){ line, field, reason };
    errors->count++;
}

static void
wrong(struct import *import, enum field field, const char *reason)
{
    wrong_slice(import, import->record.line, slice_of(fields[field].name), reason);
}

/* --- the header line --------------------------------------------------------------- */

static int
field_named(struct slice name)
{
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (slice_is(name, fields[i].name))
            return i;
    }
    return -1;
}

static void
read_header(struct import *import)
{
    const struct csv_record *record = &import->record;

    for (int i = 0; i < FIELD_COUNT; i++)
        import->column_of[i] = -1;
    for (int i = 0; i < record->count; i++) {
        int field = field_named(record->fields[i]);
        if (field < 0)
            wrong_slice(import, record->line, record->fields[i],
                        "is not a column that is known here");
        else if (import->column_of[field] >= 0)
            wrong_slice(import, record->line, record->fields[i], "is a column twice");
        else
            import->column_of[field] = i;
    }
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (fields[i].needed && import->column_of[i] < 0)
            wrong(import, (enum field)i, "is missing as a column");
    }
    import->column_count = record->count;
}

/* --- a line -------------------------------------------------------------------------- */

/* Empty when the file has no such column. */
static struct slice
value_of(const struct import *import, enum field field)
{
    int column = import->column_of[field];

    return column < 0 ? SLICE_EMPTY : import->record.fields[column];
}

static struct slice
read_text(struct import *import, enum field field)
{
    struct slice text = value_of(import, field);

    if (text.len == 0 && fields[field].needed)
        wrong(import, field, "is missing");
    else if (text.len > SEAT_TEXT_BYTES_MAX)
        wrong(import, field, "is too long");
    else if (!csv_text_is_valid(text))
        wrong(import, field, "is not UTF-8 text");
    return text;
}

static bool
read_price(struct import *import, int64_t *price)
{
    struct slice text = value_of(import, PRICE);
    int64_t number = 0;

    if (text.len == 0)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || text.len > 16) {
            wrong(import, PRICE, "is not a whole number in the minor unit of the currency");
            return false;
        }
        number = number * 10 + (text.ptr[i] - '0');
    }
    if (number > PRICE_MAX)
        wrong(import, PRICE, "is too large");
    *price = number;
    return true;
}

/* strspn for a text that does not end in NUL. */
static bool
consists_of(struct slice text, const char *characters)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\0' || strchr(characters, text.ptr[i]) == NULL)
            return false;
    }
    return true;
}

static bool
read_double(struct import *import, enum field field, double *value)
{
    struct slice text = value_of(import, field);
    char copy[40];
    char *end;

    if (text.len == 0)
        return false;
    if (text.len < sizeof(copy) && consists_of(text, "0123456789+-.eE")) {
        memcpy(copy, text.ptr, text.len);
        copy[text.len] = '\0';
        *value = strtod(copy, &end);
        if (*end == '\0' && fabs(*value) <= 1e9)
            return true;
    }
    wrong(import, field, "is not a number that it can be");
    return false;
}

static struct slice
read_attributes(struct import *import)
{
    struct slice text = value_of(import, ATTRIBUTES);
    struct json_error error;

    if (text.len == 0)
        return (struct slice){ NULL, 0 };
    if (text.len > ATTRIBUTES_BYTES_MAX)
        wrong(import, ATTRIBUTES, "is too long");
    else if (text.ptr[0] != '{' || !json_scan(text, &error))
        wrong(import, ATTRIBUTES, "is not a JSON object");
    return text;
}

static void
read_row(struct import *import, struct seat_row *row)
{
    *row = (struct seat_row){ 0 };
    row->seat = value_of(import, SEAT);
    if (row->seat.len == 0)
        wrong(import, SEAT, "is missing");
    else if (!id_is_valid(row->seat))
        wrong(import, SEAT, "is not 1-64 characters of [A-Za-z0-9._-]");
    row->section = read_text(import, SECTION);
    row->row = read_text(import, ROW);
    row->number = read_text(import, NUMBER);
    row->type = read_text(import, TYPE);
    if (row->type.len == 0)
        row->type.ptr = NULL;
    row->has_price = read_price(import, &row->price);
    row->has_x = read_double(import, X, &row->x);
    row->has_y = read_double(import, Y, &row->y);
    row->attributes = read_attributes(import);
}

static void
read_line(struct import *import, struct seat_batch *batch)
{
    struct seat_row row;
    int64_t before = import->errors->count;

    if (import->record.count != import->column_count) {
        wrong_slice(import, import->record.line, SLICE_EMPTY,
                    "has not as many fields as the header line");
        return;
    }
    read_row(import, &row);
    if (import->errors->count == before && !seat_batch_add(batch, &row))
        wrong(import, SEAT, "duplicate_seat");
}

/* --- the file -------------------------------------------------------------------------- */

static bool
read_lines(struct import *import, struct seat_batch *batch)
{
    enum csv_answer answer;

    while ((answer = csv_next(&import->csv, import->arena, &import->record)) != CSV_END) {
        if (answer == CSV_NO_MEMORY || batch->failed)
            return false;
        if (answer == CSV_BAD)
            wrong_slice(import, import->record.line, SLICE_EMPTY, import->record.reason);
        else
            read_line(import, batch);
    }
    return !batch->failed;
}

bool
import_read_csv(struct arena *arena, struct slice csv, struct seat_batch *batch,
                struct import_errors *errors)
{
    struct import import = { .arena = arena, .errors = errors };

    errors->count = 0;
    csv_init(&import.csv, csv);
    enum csv_answer answer = csv_next(&import.csv, arena, &import.record);
    if (answer == CSV_NO_MEMORY)
        return false;
    if (answer == CSV_END) {
        wrong_slice(&import, 1, SLICE_EMPTY, "the file has no header line");
        return true;
    }
    if (answer == CSV_BAD) {
        wrong_slice(&import, import.record.line, SLICE_EMPTY, import.record.reason);
        return true;
    }
    read_header(&import);
    /* Without knowing the columns, every line would only be wrong the same way. */
    return errors->count > 0 || read_lines(&import, batch);
}
