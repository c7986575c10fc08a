/* The binary format, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cold_internal.h"

#define BYTES(...) ((const uint8_t[]){ __VA_ARGS__ })

static void
assert_param(const struct pg_params *params, int i, const uint8_t *bytes, size_t len)
{
    assert_int_equal(params->formats[i], 1);
    assert_int_equal(params->lengths[i], len);
    assert_memory_equal(params->values[i], bytes, len);
}
#define ASSERT_PARAM(params, i, ...)                                                               \
    assert_param(params, i, BYTES(__VA_ARGS__), sizeof((const uint8_t[]){ __VA_ARGS__ }))

static void
scalars_are_big_endian(void **state)
{
    (void)state;
    struct pg_params params;
    struct uuid id = { { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } };
    pg_params_init(&params);
    pg_param_int4(&params, -2);
    pg_param_int8(&params, 258);
    pg_param_bool(&params, true);
    pg_param_uuid(&params, &id);
    pg_param_text(&params, SLICE_LITERAL("abc"));
    assert_false(params.failed);
    assert_int_equal(params.count, 5);
    ASSERT_PARAM(&params, 0, 0xff, 0xff, 0xff, 0xfe);
    ASSERT_PARAM(&params, 1, 0, 0, 0, 0, 0, 0, 1, 2);
    ASSERT_PARAM(&params, 2, 1);
    assert_param(&params, 3, id.bytes, 16);
    ASSERT_PARAM(&params, 4, 'a', 'b', 'c');
}

static void
times_count_from_the_year_2000(void **state)
{
    (void)state;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_time(&params, (struct db_time){ INT64_C(946684800000001) });
    ASSERT_PARAM(&params, 0, 0, 0, 0, 0, 0, 0, 0, 1);
}

static void
empty_text_is_not_null(void **state)
{
    (void)state;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_text(&params, (struct slice){ NULL, 0 });
    pg_param_null(&params);
    assert_non_null(params.values[0]);
    assert_int_equal(params.lengths[0], 0);
    assert_null(params.values[1]);
}

static void
an_array_has_header_and_elements(void **state)
{
    (void)state;
    struct pg_array array;
    pg_array_init(&array, PG_INT4);
    pg_array_int(&array, 7);
    pg_array_null(&array);
    struct pg_params params;
    pg_params_init(&params);
    pg_param_array(&params, &array);
    ASSERT_PARAM(&params, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0,
                 1, /* header */
                 0, 0, 0, 4, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff);
    pg_array_fini(&array);
}

static void
an_array_of_nothing_has_no_dimension(void **state)
{
    (void)state;
    struct pg_array array;
    pg_array_init(&array, PG_TEXT);
    struct pg_params params;
    pg_params_init(&params);
    pg_param_array(&params, &array);
    ASSERT_PARAM(&params, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25);
    pg_array_fini(&array);
}

static void
jsonb_elements_carry_their_version(void **state)
{
    (void)state;
    struct pg_array array;
    pg_array_init(&array, PG_JSONB);
    pg_array_text(&array, SLICE_LITERAL("1"));
    assert_int_equal(array.bytes.len, 20 + 4 + 2);
    assert_memory_equal(array.bytes.data + 20,
                        "\0\0\0\2\1"
                        "1",
                        6);
    pg_array_fini(&array);
}

static void
a_reset_array_starts_anew_in_the_same_memory(void **state)
{
    (void)state;
    struct pg_array array;
    pg_array_init(&array, PG_INT8);
    for (int i = 0; i < 100; i++) {
        pg_array_int(&array, i);
    }
    pg_array_null(&array);
    size_t capacity = array.bytes.capacity;
    pg_array_reset(&array);
    assert_int_equal(array.bytes.capacity, capacity);
    assert_int_equal(array.count, 0);
    assert_false(array.has_null);
    pg_array_int(&array, 1);
    assert_int_equal(array.bytes.len, 20 + 4 + 8);
    pg_array_fini(&array);
}

static void
an_array_that_ran_out_of_memory_fails_its_statement(void **state)
{
    (void)state;
    struct pg_array array;
    pg_array_init(&array, PG_INT8);
    array.bytes.failed = true;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_array(&params, &array);
    assert_true(params.failed);
    pg_array_fini(&array);
}

static void
too_many_parameters_are_noticed(void **state)
{
    (void)state;
    struct pg_params params;
    pg_params_init(&params);
    for (int i = 0; i < PG_PARAMS_MAX; i++) {
        pg_param_int4(&params, i);
    }
    assert_false(params.failed);
    pg_param_int4(&params, 0);
    assert_true(params.failed);
    assert_int_equal(params.count, PG_PARAMS_MAX);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_big_endian),
        cmocka_unit_test(times_count_from_the_year_2000),
        cmocka_unit_test(empty_text_is_not_null),
        cmocka_unit_test(an_array_has_header_and_elements),
        cmocka_unit_test(an_array_of_nothing_has_no_dimension),
        cmocka_unit_test(jsonb_elements_carry_their_version),
        cmocka_unit_test(a_reset_array_starts_anew_in_the_same_memory),
        cmocka_unit_test(an_array_that_ran_out_of_memory_fails_its_statement),
        cmocka_unit_test(too_many_parameters_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
