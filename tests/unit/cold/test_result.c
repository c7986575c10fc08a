/* Reading rows; the results are libpq's own, filled by hand, so no server is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cold_internal.h"
#include "holdfast/log.h"

#define BOOL        16
#define INT2        21
#define INT4        23
#define INT8        20
#define FLOAT4      700
#define FLOAT8      701
#define TEXT        25
#define UUID        2950
#define UUIDS       2951
#define TIMESTAMPTZ 1184
#define JSONB       3802

/* One row of one column. len -1: null. */
static struct pg_result *
result_of(Oid type, const void *bytes, int len)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    PGresAttDesc column = { .name = (char *)"c", .format = 1, .typid = type, .typlen = -1 };
    assert_non_null(result);
    assert_int_equal(PQsetResultAttrs(result, 1, &column), 1);
    assert_int_equal(PQsetvalue(result, 0, 0, (char *)bytes, len), 1); /* it copies */
    return pg_result_of(result);
}

static int64_t
int_of(Oid type, const void *bytes, int len)
{
    struct pg_result *result = result_of(type, bytes, len);
    int64_t value = pg_get_int(result, 0, 0);
    pg_result_free(&result);
    assert_null(result);
    return value;
}

static void
integers_of_each_width_keep_their_sign(void **state)
{
    (void)state;
    assert_int_equal(int_of(INT2, "\xff\xfe", 2), -2);
    assert_int_equal(int_of(INT4, "\x00\x00\x01\x02", 4), 258);
    assert_true(int_of(INT8, "\x80\0\0\0\0\0\0\0", 8) == INT64_MIN);
    assert_int_equal(int_of(INT4, NULL, -1), 0);
}

static void
a_value_of_another_length_or_type_reads_as_empty(void **state)
{
    (void)state;
    assert_int_equal(int_of(INT4, "\x01\x02", 2), 0);
    assert_int_equal(int_of(TEXT, "1234", 4), 0);
    struct pg_result *result = result_of(UUID, "short", 5);
    struct uuid id = pg_get_uuid(result, 0, 0);
    assert_true(uuid_is_nil(&id));
    pg_result_free(&result);
    result = result_of(TIMESTAMPTZ, "short", 5);
    assert_true(pg_get_time(result, 0, 0).us == 0);
    pg_result_free(&result);
}

static void
times_come_back_on_the_unix_epoch(void **state)
{
    (void)state;
    struct pg_result *result = result_of(TIMESTAMPTZ, "\0\0\0\0\0\0\0\1", 8);
    assert_true(pg_get_time(result, 0, 0).us == INT64_C(946684800000001));
    pg_result_free(&result);
    result = result_of(TIMESTAMPTZ, "\x7f\xff\xff\xff\xff\xff\xff\xff", 8); /* infinity */
    assert_true(pg_get_time(result, 0, 0).us == INT64_MAX);
    pg_result_free(&result);
}

static void
text_and_jsonb_come_without_their_wrapping(void **state)
{
    (void)state;
    struct pg_result *result = result_of(TEXT, "held", 4);
    assert_true(slice_is(pg_get_text(result, 0, 0), "held"));
    pg_result_free(&result);
    result = result_of(JSONB, "\1{}", 3);
    assert_true(slice_is(pg_get_text(result, 0, 0), "{}"));
    pg_result_free(&result);
    result = result_of(TEXT, NULL, -1);
    assert_true(pg_is_null(result, 0, 0));
    assert_int_equal(pg_get_text(result, 0, 0).len, 0);
    pg_result_free(&result);
}

static void
floats_and_bools_are_read(void **state)
{
    (void)state;
    struct pg_result *result = result_of(FLOAT4, "\x3f\xc0\0\0", 4);
    assert_true(pg_get_double(result, 0, 0) == 1.5);
    pg_result_free(&result);
    result = result_of(FLOAT8, "\x3f\xf8\0\0\0\0\0\0", 8);
    assert_true(pg_get_double(result, 0, 0) == 1.5);
    pg_result_free(&result);
    result = result_of(BOOL, "\1", 1);
    assert_true(pg_get_bool(result, 0, 0));
    pg_result_free(&result);
}

#define UUIDS_HEADER "\0\0\0\1\0\0\0\0\0\0\x0b\x86\0\0\0\2\0\0\0\1"
#define ELEMENT(last)                                                                              \
    "\0\0\0\x10"                                                                                   \
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" last

static int
uuids_of(const void *bytes, int len, struct uuid *out, int max)
{
    struct pg_result *result = result_of(UUIDS, bytes, len);
    int count = pg_get_uuids(result, 0, 0, out, max);
    pg_result_free(&result);
    return count;
}

static void
arrays_of_uuids_are_read_up_to_the_room(void **state)
{
    (void)state;
    static const char two[] = UUIDS_HEADER ELEMENT("\1") ELEMENT("\2");
    struct uuid ids[2] = { 0 };
    assert_int_equal(uuids_of(two, sizeof(two) - 1, ids, 2), 2);
    assert_int_equal(ids[0].bytes[15], 1);
    assert_int_equal(ids[1].bytes[15], 2);
    ids[1].bytes[15] = 9;
    assert_int_equal(uuids_of(two, sizeof(two) - 1, ids, 1), 2); /* how many there are */
    assert_int_equal(ids[1].bytes[15], 9);
    assert_int_equal(uuids_of("\0\0\0\0\0\0\0\0\0\0\x0b\x86", 12, ids, 2), 0);
    assert_int_equal(uuids_of(NULL, -1, ids, 2), 0);
}

static void
broken_arrays_are_read_as_empty(void **state)
{
    (void)state;
    static const char two[] = UUIDS_HEADER ELEMENT("\1") ELEMENT("\2");
    struct uuid ids[2];
    for (int len = 0; len < (int)sizeof(two) - 1; len++) {
        assert_int_equal(uuids_of(two, len, ids, 2), 0);
    }
    static const char with_null[] = UUIDS_HEADER "\xff\xff\xff\xff" ELEMENT("\1");
    assert_int_equal(uuids_of(with_null, sizeof(with_null) - 1, ids, 2), 0);
    static const char of_text[] = "\0\0\0\1\0\0\0\0\0\0\0\x19\0\0\0\1\0\0\0\1";
    assert_int_equal(uuids_of(of_text, sizeof(of_text) - 1, ids, 2), 0);
    static const char huge[] = "\0\0\0\1\0\0\0\0\0\0\x0b\x86\x7f\xff\xff\xff\0\0\0\1";
    assert_int_equal(uuids_of(huge, sizeof(huge) - 1, ids, 2), 0);
}

static int
quiet(void **state)
{
    (void)state;
    log_init(LOG_ERROR + 1, "test"); /* mismatches are logged */
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_of_each_width_keep_their_sign),
        cmocka_unit_test(a_value_of_another_length_or_type_reads_as_empty),
        cmocka_unit_test(times_come_back_on_the_unix_epoch),
        cmocka_unit_test(text_and_jsonb_come_without_their_wrapping),
        cmocka_unit_test(floats_and_bools_are_read),
        cmocka_unit_test(arrays_of_uuids_are_read_up_to_the_room),
        cmocka_unit_test(broken_arrays_are_read_as_empty),
    };
    return cmocka_run_group_tests(tests, quiet, NULL);
}
