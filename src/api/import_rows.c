/*
 * import_rows.c - from the records of a CSV file to seats, with every error and its line.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "csv_table.h"
#include "events_internal.h"
#include "holdfast/ids.h"
#include "holdfast/seat_import.h"

#define PRICE_MAX INT64_C(1000000000000) /* no checkout's sum passes an int64 */

enum field { SEAT, SECTION, ROW, NUMBER, TYPE, PRICE, X, Y, ATTRIBUTES, FIELD_COUNT };

static const struct csv_column columns[FIELD_COUNT] = {
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

static struct slice
read_text(struct csv_table *table, enum field field)
{
    struct slice text = csv_table_value(table, field);

    if (text.len == 0 && columns[field].needed)
        csv_table_wrong(table, field, "is missing");
    else if (text.len > SEAT_TEXT_BYTES_MAX)
        csv_table_wrong(table, field, "is too long");
    else if (!csv_text_is_valid(text))
        csv_table_wrong(table, field, "is not UTF-8 text");
    return text;
}

static bool
read_price(struct csv_table *table, int64_t *price)
{
    struct slice text = csv_table_value(table, PRICE);
    int64_t number = 0;

    if (text.len == 0)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || text.len > 16) {
            csv_table_wrong(table, PRICE,
                            "is not a whole number in the minor unit of the currency");
            return false;
        }
        number = number * 10 + (text.ptr[i] - '0');
    }
    if (number > PRICE_MAX)
        csv_table_wrong(table, PRICE, "is too large");
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
read_double(struct csv_table *table, enum field field, double *value)
{
    struct slice text = csv_table_value(table, field);
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
    csv_table_wrong(table, field, "is not a number that it can be");
    return false;
}

static struct slice
read_attributes(struct csv_table *table)
{
    struct slice text = csv_table_value(table, ATTRIBUTES);
    struct json_error error;

    if (text.len == 0)
        return (struct slice){ NULL, 0 };
    if (text.len > ATTRIBUTES_BYTES_MAX)
        csv_table_wrong(table, ATTRIBUTES, "is too long");
    else if (text.ptr[0] != '{' || !json_scan(text, &error))
        csv_table_wrong(table, ATTRIBUTES, "is not a JSON object");
    return text;
}

static void
read_row(struct csv_table *table, struct seat_row *row)
{
    *row = (struct seat_row){ 0 };
    row->seat = csv_table_value(table, SEAT);
    if (row->seat.len == 0)
        csv_table_wrong(table, SEAT, "is missing");
    else if (!id_is_valid(row->seat))
        csv_table_wrong(table, SEAT, "is not 1-64 characters of [A-Za-z0-9._-]");
    row->section = read_text(table, SECTION);
    row->row = read_text(table, ROW);
    row->number = read_text(table, NUMBER);
    row->type = read_text(table, TYPE);
    if (row->type.len == 0)
        row->type.ptr = NULL;
    row->has_price = read_price(table, &row->price);
    row->has_x = read_double(table, X, &row->x);
    row->has_y = read_double(table, Y, &row->y);
    row->attributes = read_attributes(table);
}

bool
import_read_csv(struct arena *arena, struct slice csv, struct seat_batch *batch,
                struct import_errors *errors)
{
    struct csv_table table;
    enum csv_answer answer = CSV_END;

    if (!csv_table_open(&table, arena, columns, FIELD_COUNT, csv, errors))
        return false;
    bool is_good = errors->count == 0;
    while (is_good && (answer = csv_table_next(&table)) == CSV_RECORD) {
        struct seat_row row;
        int64_t before = errors->count;
        read_row(&table, &row);
        if (errors->count == before && !seat_batch_add(batch, &row))
            csv_table_wrong(&table, SEAT, "duplicate_seat");
        if (batch->failed)
            return false;
    }
    return answer != CSV_NO_MEMORY;
}
