/*
 * cells.c - stands in for src/cold/params.c and result.c: values stay what they are, there is no
 * wire.
 */
#include "cells.h"

#include <stdlib.h>

/* --- arrays --------------------------------------------------------------- */

void
pg_array_init(struct pg_array *array, enum pg_type type)
{
    *array = (struct pg_array){ .type = type };
}

void
pg_array_reset(struct pg_array *array)
{
    array->count = 0;
    array->has_null = false;
    buf_clear(&array->bytes);
}

void
pg_array_fini(struct pg_array *array)
{
    buf_fini(&array->bytes);
}

/* A cell, then its text, padded so that the next cell is aligned. The text is copied, as cold.h has
 * it: only what is a parameter by itself is borrowed until it is sent. */
static size_t
padded(size_t len)
{
    return (len + sizeof(int64_t) - 1) / sizeof(int64_t) * sizeof(int64_t);
}

static void
append(struct pg_array *array, struct cell cell)
{
    static const char padding[sizeof(int64_t)];

    buf_append(&array->bytes, &cell, sizeof(cell));
    buf_append(&array->bytes, cell.text.ptr, cell.text.len);
    buf_append(&array->bytes, padding, padded(cell.text.len) - cell.text.len);
    array->count++;
    array->has_null |= cell.null;
}

void
pg_array_null(struct pg_array *array)
{
    append(array, (struct cell){ .null = true });
}

void
pg_array_bool(struct pg_array *array, bool value)
{
    append(array, (struct cell){ .number = value });
}

void
pg_array_int(struct pg_array *array, int64_t value)
{
    append(array, (struct cell){ .number = value });
}

void
pg_array_text(struct pg_array *array, struct slice text)
{
    append(array, (struct cell){ .text = text });
}

void
pg_array_uuid(struct pg_array *array, const struct uuid *uuid)
{
    append(array, (struct cell){ .uuid = *uuid });
}

void
pg_array_time(struct pg_array *array, struct db_time time)
{
    append(array, (struct cell){ .number = time.us });
}

/* --- parameters: formats[] tells what values[] points at ------------------ */

enum { IS_ARRAY, IS_TEXT, IS_NULL, IS_NUMBER, IS_UUID };

static void
add(struct pg_params *params, int kind, const void *value, size_t len)
{
    hf_assert(params->count < PG_PARAMS_MAX);
    params->formats[params->count] = kind;
    params->values[params->count] = value;
    params->lengths[params->count++] = (int)len;
}

static void
add_scratch(struct pg_params *params, int kind, const void *value, size_t len)
{
    char *room = params->scratch[params->count];

    memcpy(room, value, len);
    add(params, kind, room, len);
}

void
pg_params_init(struct pg_params *params)
{
    params->count = 0;
    params->failed = false;
}

void
pg_param_array(struct pg_params *params, struct pg_array *array)
{
    add(params, IS_ARRAY, array, sizeof(*array));
}

void
pg_param_text(struct pg_params *params, struct slice text)
{
    add(params, IS_TEXT, text.ptr, text.len);
}

void
pg_param_null(struct pg_params *params)
{
    add(params, IS_NULL, NULL, 0);
}

void
pg_param_optional(struct pg_params *params, struct slice text)
{
    if (text.len == 0)
        pg_param_null(params);
    else
        pg_param_text(params, text);
}

void
pg_param_int8(struct pg_params *params, int64_t value)
{
    add_scratch(params, IS_NUMBER, &value, sizeof(value));
}

void
pg_param_int4(struct pg_params *params, int32_t value)
{
    pg_param_int8(params, value);
}

void
pg_param_bool(struct pg_params *params, bool value)
{
    pg_param_int8(params, value);
}

void
pg_param_uuid(struct pg_params *params, const struct uuid *uuid)
{
    add_scratch(params, IS_UUID, uuid, sizeof(*uuid));
}

void
pg_param_time(struct pg_params *params, struct db_time time)
{
    pg_param_int8(params, time.us);
}

/* --- calls ---------------------------------------------------------------- */

static void
copy_array(struct call *call, const struct pg_array *array, struct cell *cells)
{
    const char *from = array->bytes.data;

    for (int i = 0; i < array->count; i++) {
        memcpy(&cells[i], from, sizeof(cells[i]));
        from += sizeof(cells[i]);
        if (cells[i].text.ptr != NULL)
            cells[i].text = arena_copy(&call->arena, (struct slice){ from, cells[i].text.len });
        from += padded(cells[i].text.len);
    }
}

static void
scalar(struct call *call, const struct pg_params *params, int i, struct cell *cell)
{
    const char *value = params->values[i];

    switch (params->formats[i]) {
    case IS_TEXT:
        cell->text = arena_copy(&call->arena, (struct slice){ value, (size_t)params->lengths[i] });
        break;
    case IS_NUMBER:
        memcpy(&cell->number, value, sizeof(cell->number));
        break;
    case IS_UUID:
        memcpy(&cell->uuid, value, sizeof(cell->uuid));
        break;
    default:
        cell->null = true;
    }
}

struct call *
call_new(enum pg_statement statement, const struct pg_params *params)
{
    struct call *call = calloc(1, sizeof(*call));

    hf_assert(call != NULL);
    call->statement = statement;
    call->count = params->count;
    for (int i = 0; i < params->count; i++) {
        const struct pg_array *array = (const void *)params->values[i];
        bool is_array = params->formats[i] == IS_ARRAY;
        int count = is_array ? array->count : 1;
        struct cell *cells = arena_alloc(&call->arena, ((size_t)count + 1) * sizeof(*cells));
        if (is_array)
            copy_array(call, array, cells);
        else
            scalar(call, params, i, &cells[0]);
        call->params[i].count = count;
        call->params[i].cells = cells;
    }
    return call;
}

void
call_free(struct call *call)
{
    if (call != NULL)
        arena_fini(&call->arena);
    free(call);
}

const struct cell *
call_cell(const struct call *call, int param, int i)
{
    hf_assert(param < call->count && i < call->params[param].count);
    return &call->params[param].cells[i];
}

int64_t
call_number(const struct call *call, int param, int i)
{
    return call_cell(call, param, i)->number;
}

/* Ends in NUL; never NULL. */
struct slice
call_text(const struct call *call, int param, int i)
{
    const struct cell *cell = call_cell(call, param, i);

    return cell->text.ptr != NULL ? cell->text : SLICE_EMPTY;
}

struct uuid
call_uuid(const struct call *call, int param, int i)
{
    return call_cell(call, param, i)->uuid;
}

/* --- results -------------------------------------------------------------- */

struct pg_result {
    int rows, columns, capacity;
    struct cell *cells;
    struct arena arena;
};

struct pg_result *
rows_new(int columns)
{
    struct pg_result *rows = calloc(1, sizeof(*rows));

    hf_assert(rows != NULL);
    rows->columns = columns;
    return rows;
}

void
rows_add(struct pg_result *rows)
{
    if (rows->rows == rows->capacity) {
        rows->capacity = rows->capacity * 2 + 4;
        size_t bytes = (size_t)rows->capacity * (size_t)rows->columns * sizeof(*rows->cells);
        rows->cells = realloc(rows->cells, bytes);
        hf_assert(rows->cells != NULL);
    }
    rows->rows++;
    for (int i = 0; i < rows->columns; i++)
        rows->cells[(rows->rows - 1) * rows->columns + i] = (struct cell){ .null = true };
}

static struct cell *
last_cell(struct pg_result *rows, int column)
{
    hf_assert(rows->rows > 0 && column < rows->columns);
    struct cell *cell = &rows->cells[(rows->rows - 1) * rows->columns + column];
    cell->null = false;
    return cell;
}

void
rows_number(struct pg_result *rows, int column, int64_t number)
{
    last_cell(rows, column)->number = number;
}

void
rows_text(struct pg_result *rows, int column, const char *text)
{
    last_cell(rows, column)->text = arena_copy(&rows->arena, slice_of(text));
}

void
rows_uuid(struct pg_result *rows, int column, const struct uuid *uuid)
{
    last_cell(rows, column)->uuid = *uuid;
}

int
pg_rows(const struct pg_result *result)
{
    return result->rows;
}

static const struct cell *
cell_at(const struct pg_result *result, int row, int column)
{
    hf_assert(row >= 0 && row < result->rows && column >= 0 && column < result->columns);
    return &result->cells[row * result->columns + column];
}

bool
pg_is_null(const struct pg_result *result, int row, int column)
{
    return cell_at(result, row, column)->null;
}

bool
pg_get_bool(const struct pg_result *result, int row, int column)
{
    return cell_at(result, row, column)->number != 0;
}

int64_t
pg_get_int(const struct pg_result *result, int row, int column)
{
    return cell_at(result, row, column)->number;
}

double
pg_get_double(const struct pg_result *result, int row, int column)
{
    return (double)cell_at(result, row, column)->number;
}

struct slice
pg_get_text(const struct pg_result *result, int row, int column)
{
    const struct cell *cell = cell_at(result, row, column);

    return cell->text.ptr != NULL ? cell->text : SLICE_EMPTY;
}

struct uuid
pg_get_uuid(const struct pg_result *result, int row, int column)
{
    return cell_at(result, row, column)->uuid;
}

struct db_time
pg_get_time(const struct pg_result *result, int row, int column)
{
    return (struct db_time){ cell_at(result, row, column)->number };
}

/* Holds of the simulation have no tickets to show. */
int
pg_get_uuids(const struct pg_result *result, int row, int column, struct uuid *out, int max)
{
    (void)out;
    (void)max;
    hf_assert(cell_at(result, row, column)->null);
    return 0;
}

void
pg_result_free(struct pg_result **result)
{
    if (*result == NULL)
        return;
    arena_fini(&(*result)->arena);
    free((*result)->cells);
    free(*result);
    *result = NULL;
}
