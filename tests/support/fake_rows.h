/*
 * fake_rows.h - rows as Postgres would send them, without a Postgres. For unit tests.
 *
 *   struct pg_result *rows = rows_new("seat:text version:int8 until:time");
 *   rows_add(rows, "A1", "7", "1000000");   // NULL is null; times in Unix microseconds
 */
#ifndef HOLDFAST_FAKE_ROWS_H
#define HOLDFAST_FAKE_ROWS_H

#include <endian.h>
#include <libpq-fe.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/cold.h"

#define FAKE_COLUMNS_MAX 40
#define FAKE_PG_EPOCH_US (946684800LL * 1000000)

static const struct {
    const char *name;
    Oid oid;
} fake_types[] = { { "text", 25 },    { "int8", 20 },   { "int4", 23 },  { "bool", 16 },
                   { "float4", 700 }, { "uuid", 2950 }, { "time", 1184 } };

static inline Oid
fake_type(const char *name)
{
    for (size_t i = 0; i < sizeof(fake_types) / sizeof(fake_types[0]); i++) {
        if (strcmp(name, fake_types[i].name) == 0)
            return fake_types[i].oid;
    }
    abort();
}

/* columns: "name:type name:type ..." */
static inline struct pg_result *
rows_new(const char *columns)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    PGresAttDesc attributes[FAKE_COLUMNS_MAX] = { { 0 } };
    char text[1024];
    char *rest = text;
    char *column;
    int count = 0;

    snprintf(text, sizeof(text), "%s", columns);
    while ((column = strsep(&rest, " ")) != NULL) {
        char *type = strchr(column, ':');
        *type = '\0';
        attributes[count].name = column;
        attributes[count].typid = fake_type(type + 1);
        attributes[count++].format = 1;
    }
    if (!PQsetResultAttrs(result, count, attributes))
        abort();
    return (struct pg_result *)result;
}

static inline void
fake_set(PGresult *result, int row, int column, const char *text)
{
    char bytes[16];
    int len;
    uint64_t eight = htobe64((uint64_t)(text == NULL ? 0 : atoll(text)));
    uint32_t four = htobe32((uint32_t)(text == NULL ? 0 : atoll(text)));
    struct uuid uuid;
    float number;

    if (text == NULL) {
        PQsetvalue(result, row, column, NULL, -1);
        return;
    }
    switch (PQftype(result, column)) {
    case 20:
        memcpy(bytes, &eight, len = 8);
        break;
    case 23:
        memcpy(bytes, &four, len = 4);
        break;
    case 16:
        bytes[0] = text[0] == 't';
        len = 1;
        break;
    case 700:
        number = strtof(text, NULL);
        memcpy(&four, &number, 4);
        four = htobe32(four);
        memcpy(bytes, &four, len = 4);
        break;
    case 2950:
        if (!uuid_parse(slice_of(text), &uuid))
            abort();
        memcpy(bytes, uuid.bytes, len = 16);
        break;
    case 1184:
        eight = htobe64((uint64_t)(atoll(text) - FAKE_PG_EPOCH_US));
        memcpy(bytes, &eight, len = 8);
        break;
    default:
        PQsetvalue(result, row, column, (char *)(uintptr_t)text, (int)strlen(text));
        return;
    }
    PQsetvalue(result, row, column, bytes, len);
}

/* As many texts as there are columns. */
static inline void
rows_add(struct pg_result *rows, ...)
{
    PGresult *result = (PGresult *)rows;
    int row = PQntuples(result);
    va_list texts;

    va_start(texts, rows);
    for (int column = 0; column < PQnfields(result); column++)
        fake_set(result, row, column, va_arg(texts, const char *));
    va_end(texts);
}

#endif
