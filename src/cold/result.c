/*
 * result.c - rows of Postgres' binary format, read one value at a time.
 *
 * What comes from the server is never trusted to have the length that its type says: a value of
 * another length or type reads as empty, and the log is told which column it was.
 */
#include "cold_internal.h"

#include <endian.h>
#include <limits.h>
#include <string.h>

#include "holdfast/log.h"

#define OID_INT8   20
#define OID_INT2   21
#define OID_INT4   23
#define OID_OID    26
#define OID_FLOAT4 700
#define OID_FLOAT8 701
#define OID_UUID   2950
#define OID_JSONB  3802

struct value {
    const char *bytes; /* NULL for null */
    size_t len;
    Oid type;
};

static const PGresult *
raw(const struct pg_result *result)
{
    return (const PGresult *)result;
}

static struct value
value_at(const struct pg_result *result, int row, int column)
{
    const PGresult *r = raw(result);
    hf_assert(row >= 0 && row < PQntuples(r) && column >= 0 && column < PQnfields(r));
    if (PQgetisnull(r, row, column)) {
        return (struct value){ NULL, 0, PQftype(r, column) };
    }
    return (struct value){ PQgetvalue(r, row, column), (size_t)PQgetlength(r, row, column),
                           PQftype(r, column) };
}

static void
mismatch(const struct pg_result *result, int column, const char *wanted)
{
    const char *name = PQfname(raw(result), column);
    LOG_EVENT(LOG_ERROR, "pg_column_type", log_text("column", name), log_text("wanted", wanted),
              log_int("oid", (int64_t)PQftype(raw(result), column)));
}

static uint16_t
get16(const char *bytes)
{
    uint16_t value;
    memcpy(&value, bytes, sizeof(value));
    return be16toh(value);
}

static uint32_t
get32(const char *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return be32toh(value);
}

static uint64_t
get64(const char *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof(value));
    return be64toh(value);
}

int
pg_rows(const struct pg_result *result)
{
    return PQntuples(raw(result));
}

bool
pg_is_null(const struct pg_result *result, int row, int column)
{
    return value_at(result, row, column).bytes == NULL;
}

bool
pg_get_bool(const struct pg_result *result, int row, int column)
{
    struct value value = value_at(result, row, column);
    if (value.bytes == NULL) {
        return false;
    }
    if (value.len != 1) {
        mismatch(result, column, "bool");
        return false;
    }
    return value.bytes[0] != 0;
}

int64_t
pg_get_int(const struct pg_result *result, int row, int column)
{
    struct value value = value_at(result, row, column);
    if (value.bytes == NULL) {
        return 0;
    }
    if (value.type == OID_INT2 && value.len == 2) {
        return (int16_t)get16(value.bytes);
    }
    if (value.type == OID_INT4 && value.len == 4) {
        return (int32_t)get32(value.bytes);
    }
    if (value.type == OID_INT8 && value.len == 8) {
        return (int64_t)get64(value.bytes);
    }
    if (value.type == OID_OID && value.len == 4) {
        return get32(value.bytes);
    }
    mismatch(result, column, "integer");
    return 0;
}

double
pg_get_double(const struct pg_result *result, int row, int column)
{
    struct value value = value_at(result, row, column);
    if (value.bytes == NULL) {
        return 0;
    }
    if (value.type == OID_FLOAT4 && value.len == 4) {
        uint32_t bits = get32(value.bytes);
        float number;
        memcpy(&number, &bits, sizeof(number));
        return number;
    }
    if (value.type == OID_FLOAT8 && value.len == 8) {
        uint64_t bits = get64(value.bytes);
        double number;
        memcpy(&number, &bits, sizeof(number));
        return number;
    }
    mismatch(result, column, "float");
    return 0;
}

struct slice
pg_get_text(const struct pg_result *result, int row, int column)
{
    struct value value = value_at(result, row, column);
    if (value.bytes == NULL) {
        return SLICE_EMPTY;
    }
    if (value.type == OID_JSONB && value.len > 0) {
        return (struct slice){ value.bytes + 1, value.len - 1 }; /* its version byte */
    }
    return (struct slice){ value.bytes, value.len };
}

struct uuid
pg_get_uuid(const struct pg_result *result, int row, int column)
{
    struct value value = value_at(result, row, column);
    struct uuid uuid = { { 0 } };
    if (value.bytes == NULL) {
        return uuid;
    }
    if (value.len != sizeof(uuid.bytes)) {
        mismatch(result, column, "uuid");
        return uuid;
    }
    memcpy(uuid.bytes, value.bytes, sizeof(uuid.bytes));
    return uuid;
}

/* Postgres' "infinity" is the largest number of either side; it stays that. */
static int64_t
unix_us(int64_t pg_us)
{
    return pg_us > INT64_MAX - PG_EPOCH_US ? INT64_MAX : pg_us + PG_EPOCH_US;
}

struct db_time
pg_get_time(const struct pg_result *result, int row, int column)
{
    struct value value = value_at(result, row, column);
    if (value.bytes == NULL) {
        return (struct db_time){ 0 };
    }
    if (value.len != 8) {
        mismatch(result, column, "timestamptz");
        return (struct db_time){ 0 };
    }
    int64_t us = (int64_t)get64(value.bytes);
    return (struct db_time){ us == INT64_MIN ? INT64_MIN : unix_us(us) };
}

/* How many elements the header of a one-dimensional uuid[] promises; -1: it is something else. */
static int
uuids_promised(struct value value)
{
    if (value.len < 12 || get32(value.bytes + 8) != OID_UUID) {
        return -1;
    }
    uint32_t dimensions = get32(value.bytes);
    if (dimensions == 0) {
        return 0;
    }
    if (dimensions != 1 || value.len < 20 || get32(value.bytes + 12) > INT_MAX) {
        return -1;
    }
    return (int)get32(value.bytes + 12);
}

int
pg_get_uuids(const struct pg_result *result, int row, int column, struct uuid *out, int max)
{
    struct value value = value_at(result, row, column);
    if (value.bytes == NULL) {
        return 0;
    }
    int count = uuids_promised(value);
    size_t at = 20;
    for (int i = 0; i < count; i++) {
        struct uuid uuid;
        if (value.len - at < 4 + sizeof(uuid.bytes) ||
            get32(value.bytes + at) != sizeof(uuid.bytes)) {
            count = -1; /* cut short, or a null among them */
            break;
        }
        memcpy(uuid.bytes, value.bytes + at + 4, sizeof(uuid.bytes));
        if (i < max) {
            out[i] = uuid;
        }
        at += 4 + sizeof(uuid.bytes);
    }
    if (count < 0) {
        mismatch(result, column, "uuid[]");
        return 0;
    }
    return count;
}

void
pg_result_free(struct pg_result **result)
{
    if (*result != NULL) {
        PQclear((PGresult *)*result);
        *result = NULL;
    }
}
