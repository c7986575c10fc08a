/* What Postgres' error codes mean, and which texts write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cold_internal.h"

static void
errors_of_data_split_the_batch(void **state)
{
    (void)state;
    assert_int_equal(pg_classify("22012"), PG_DATA_ERROR); /* division by zero */
    assert_int_equal(pg_classify("23505"), PG_DATA_ERROR); /* unique_violation */
    assert_int_equal(pg_classify("P0001"), PG_DATA_ERROR); /* RAISE EXCEPTION */
}

static void
what_may_work_the_next_time_is_repeated(void **state)
{
    (void)state;
    assert_int_equal(pg_classify("40001"), PG_REPEAT);
    assert_int_equal(pg_classify("40P01"), PG_REPEAT); /* deadlock */
    assert_int_equal(pg_classify("55P03"), PG_REPEAT); /* lock_timeout */
    assert_int_equal(pg_classify("57014"),
                     PG_REPEAT); /* statement_timeout, though class 57 is not */
    assert_int_equal(pg_classify("0A000"), PG_REPEAT);
    assert_int_equal(pg_classify("26000"), PG_REPEAT);
}

static void
a_store_in_trouble_is_unavailable(void **state)
{
    (void)state;
    assert_int_equal(pg_classify("08006"), PG_UNAVAILABLE);
    assert_int_equal(pg_classify("53300"), PG_UNAVAILABLE); /* too many connections */
    assert_int_equal(pg_classify("53100"), PG_UNAVAILABLE); /* disk full */
    assert_int_equal(pg_classify("57P01"), PG_UNAVAILABLE);
    assert_int_equal(pg_classify("57P03"), PG_UNAVAILABLE); /* starting up */
    assert_int_equal(pg_classify("25006"), PG_UNAVAILABLE); /* a standby now */
    assert_int_equal(pg_classify("25P03"), PG_UNAVAILABLE);
    assert_int_equal(pg_classify("58030"), PG_UNAVAILABLE);
    assert_int_equal(pg_classify(""), PG_UNAVAILABLE);
    assert_int_equal(pg_classify(NULL), PG_UNAVAILABLE);
}

static void
all_else_is_a_bug_of_ours(void **state)
{
    (void)state;
    assert_int_equal(pg_classify("42703"), PG_BUG); /* undefined column */
    assert_int_equal(pg_classify("25P02"), PG_BUG); /* in a failed transaction */
    assert_int_equal(pg_classify("XX000"), PG_BUG);
    assert_int_equal(pg_classify("55000"), PG_BUG);
}

static void
a_session_is_spoilt_by_a_standby_and_by_lost_statements(void **state)
{
    (void)state;
    assert_true(pg_sqlstate_spoils_session("25006"));
    assert_true(pg_sqlstate_spoils_session("26000"));
    assert_true(pg_sqlstate_spoils_session("0A000"));
    assert_false(pg_sqlstate_spoils_session("23505"));
    assert_false(pg_sqlstate_spoils_session(""));
}

static void
texts_that_write_are_told_from_those_that_read(void **state)
{
    (void)state;
    assert_true(pg_sql_writes("INSERT INTO batches (batch_id) VALUES ($1)"));
    assert_true(pg_sql_writes("-- a comment\nWITH u AS (UPDATE seats s SET a = 1) SELECT 1"));
    assert_true(pg_sql_writes("DELETE FROM batches"));
    assert_false(pg_sql_writes("SELECT 1 -- INSERT INTO batches"));
    assert_false(pg_sql_writes("-- DELETE FROM batches"));
    assert_false(pg_sql_writes("SELECT * FROM seats FOR NO KEY UPDATE OF s SKIP LOCKED"));
    assert_false(pg_sql_writes(""));
}

static void
every_statement_and_migration_is_embedded(void **state)
{
    (void)state;
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        assert_true(pg_statements[i].name[0] != '\0' && pg_statements[i].sql[0] != '\0');
    }
    assert_string_equal(pg_statements[STATEMENT_INSERT_BATCH].name, "insert_batch");
    assert_true(pg_migration_count > 0);
    for (int i = 0; i < pg_migration_count; i++) {
        assert_int_equal(strlen(pg_migrations[i].checksum), 64);
        assert_true(i == 0 || pg_migrations[i - 1].number < pg_migrations[i].number);
    }
    assert_int_equal(pg_migrations[0].number, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_of_data_split_the_batch),
        cmocka_unit_test(what_may_work_the_next_time_is_repeated),
        cmocka_unit_test(a_store_in_trouble_is_unavailable),
        cmocka_unit_test(all_else_is_a_bug_of_ours),
        cmocka_unit_test(a_session_is_spoilt_by_a_standby_and_by_lost_statements),
        cmocka_unit_test(texts_that_write_are_told_from_those_that_read),
        cmocka_unit_test(every_statement_and_migration_is_embedded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
