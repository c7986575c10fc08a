/*
 * params.c - values on their way to Postgres, in its binary format.
 *
 * An array is: int32 dimensions, int32 has-null flag, int32 element oid, int32 length,
 * int32 lower bound, then each element as int32 length (-1: null) and bytes; one of no
 * elements stops after the oid. The header is written when the array becomes a
 * parameter; until then its room stands at the front of the buffer.
 */
#include "cold_internal.h"

#include <endian.h>
#include <limits.h>
#include <string.h>

#define ARRAY_HEADER_BYTES       20
#define ARRAY_HEADER_EMPTY_BYTES 12
#define JSONB_VERSION            1

static uint32_t
type_oid(enum pg_type type)
{
    switch (type) {
    case PG_BOOL:
        return 16;
    case PG_INT4:
        return 23;
    case PG_INT8:
        return 20;
    case PG_FLOAT8:
        return 701;
    case PG_TEXT:
        return 25;
    case PG_UUID:
        return 2950;
    case PG_TIMESTAMPTZ:
        return 1184;
    case PG_JSONB:
        return 3802;
    }
    hf_assert(!"a pg_type without an oid");
    return 0;
}

static void
put32(char *at, uint32_t value)
{
    value = htobe32(value);
    memcpy(at, &value, sizeof(value));
}

static void
put64(char *at, uint64_t value)
{
    value = htobe64(value);
    memcpy(at, &value, sizeof(value));
}

/* --- arrays ---------------------------------------------------------------- */

void
pg_array_init(struct pg_array *array, enum pg_type type)
{
    *array = (struct pg_array){ .type = type };
    pg_array_reset(array);
}

void
pg_array_reset(struct pg_array *array)
{
    static const char header[ARRAY_HEADER_BYTES];

    array->count = 0;
    array->has_null = false;
    buf_clear(&array->bytes);
    buf_append(&array->bytes, header, sizeof(header));
}

void
pg_array_fini(struct pg_array *array)
{
    buf_fini(&array->bytes);
    *array = (struct pg_array){ .type = array->type };
}

static void
append_element(struct pg_array *array, const void *bytes, size_t len)
{
    char head[4];
    put32(head, (uint32_t)len);
    buf_append(&array->bytes, head, sizeof(head));
    buf_append(&array->bytes, bytes, len);
    array->count++;
}

void
pg_array_null(struct pg_array *array)
{
    char head[4];
    put32(head, UINT32_MAX);
    buf_append(&array->bytes, head, sizeof(head));
    array->has_null = true;
    array->count++;
}

void
pg_array_bool(struct pg_array *array, bool value)
{
    hf_assert(array->type == PG_BOOL);
    char byte = value ? 1 : 0;
    append_element(array, &byte, 1);
}

void
pg_array_int(struct pg_array *array, int64_t value)
{
    char bytes[8];
    if (array->type == PG_INT4) {
        hf_assert(value >= INT32_MIN && value <= INT32_MAX);
        put32(bytes, (uint32_t)(int32_t)value);
        append_element(array, bytes, 4);
        return;
    }
    hf_assert(array->type == PG_INT8);
    put64(bytes, (uint64_t)value);
    append_element(array, bytes, 8);
}

void
pg_array_double(struct pg_array *array, double value)
{
    hf_assert(array->type == PG_FLOAT8);
    uint64_t bits;
    char bytes[8];
    memcpy(&bits, &value, sizeof(bits));
    put64(bytes, bits);
    append_element(array, bytes, sizeof(bytes));
}

void
pg_array_text(struct pg_array *array, struct slice text)
{
    hf_assert(array->type == PG_TEXT || array->type == PG_JSONB);
    if (text.len >= INT32_MAX) {
        array->bytes.failed = true;
        return;
    }
    size_t prefix = array->type == PG_JSONB ? 1 : 0;
    char head[5] = { 0, 0, 0, 0, JSONB_VERSION };
    put32(head, (uint32_t)(text.len + prefix));
    buf_append(&array->bytes, head, 4 + prefix);
    buf_append_slice(&array->bytes, text);
    array->count++;
}

void
pg_array_uuid(struct pg_array *array, const struct uuid *uuid)
{
    hf_assert(array->type == PG_UUID);
    append_element(array, uuid->bytes, sizeof(uuid->bytes));
}

static uint64_t
time_bits(struct db_time time)
{
    return (uint64_t)time.us - (uint64_t)PG_EPOCH_US; /* unsigned: no time can overflow */
}

void
pg_array_time(struct pg_array *array, struct db_time time)
{
    hf_assert(array->type == PG_TIMESTAMPTZ);
    char bytes[8];
    put64(bytes, time_bits(time));
    append_element(array, bytes, sizeof(bytes));
}

static int
finish_array(struct pg_array *array)
{
    char *head = array->bytes.data;
    put32(head, array->count > 0 ? 1 : 0);
    put32(head + 4, array->has_null ? 1 : 0);
    put32(head + 8, type_oid(array->type));
    put32(head + 12, (uint32_t)array->count);
    put32(head + 16, 1);
    return array->count > 0 ? (int)array->bytes.len : ARRAY_HEADER_EMPTY_BYTES;
}

/* --- parameters -------------------------------------------------------------- */

void
pg_params_init(struct pg_params *params)
{
    params->count = 0;
    params->failed = false;
}

/* The place of the next parameter; -1 when there is no room. */
static int
next_param(struct pg_params *params)
{
    if (params->count == PG_PARAMS_MAX) {
        params->failed = true;
        return -1;
    }
    params->formats[params->count] = 1;
    return params->count++;
}

static void
add_param(struct pg_params *params, const char *bytes, size_t len)
{
    int i = next_param(params);
    if (i < 0) {
        return;
    }
    params->values[i] = bytes;
    params->lengths[i] = (int)len;
}

static void
add_scalar(struct pg_params *params, const void *bytes, size_t len)
{
    int i = next_param(params);
    if (i < 0) {
        return;
    }
    memcpy(params->scratch[i], bytes, len);
    params->values[i] = params->scratch[i];
    params->lengths[i] = (int)len;
}

void
pg_param_array(struct pg_params *params, struct pg_array *array)
{
    if (array->bytes.failed || array->bytes.len < ARRAY_HEADER_BYTES ||
        array->bytes.len > INT_MAX) {
        params->failed = true;
        return;
    }
    int len = finish_array(array);
    add_param(params, array->bytes.data, (size_t)len);
}

void
pg_param_text(struct pg_params *params, struct slice text)
{
    if (text.len > INT_MAX) {
        params->failed = true;
        return;
    }
    add_param(params, text.len > 0 ? text.ptr : "", text.len); /* a NULL pointer would be a null */
}

void
pg_param_null(struct pg_params *params)
{
    add_param(params, NULL, 0);
}

void
pg_param_optional(struct pg_params *params, struct slice text)
{
    if (text.len > 0) {
        pg_param_text(params, text);
    } else {
        pg_param_null(params);
    }
}

void
pg_param_int8(struct pg_params *params, int64_t value)
{
    char bytes[8];
    put64(bytes, (uint64_t)value);
    add_scalar(params, bytes, sizeof(bytes));
}

void
pg_param_int4(struct pg_params *params, int32_t value)
{
    char bytes[4];
    put32(bytes, (uint32_t)value);
    add_scalar(params, bytes, sizeof(bytes));
}

void
pg_param_bool(struct pg_params *params, bool value)
{
    char byte = value ? 1 : 0;
    add_scalar(params, &byte, 1);
}

void
pg_param_uuid(struct pg_params *params, const struct uuid *uuid)
{
    _Static_assert(sizeof(uuid->bytes) <= sizeof(params->scratch[0]),
                   "a UUID fits the scratch room");
    add_scalar(params, uuid->bytes, sizeof(uuid->bytes));
}

void
pg_param_time(struct pg_params *params, struct db_time time)
{
    pg_param_int8(params, (int64_t)time_bits(time));
}
