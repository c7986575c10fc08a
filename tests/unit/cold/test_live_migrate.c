/* Migrations against a real Postgres, and the check of the statements' plans. */
#include "live.h"

#include <pthread.h>

struct migration {
    bool done;
    int applied;
    char error[512];
};

static struct migration
migrate(void)
{
    struct migration m = { .applied = -1 };
    m.done = pg_migrate(&live.config, &m.applied, m.error, sizeof(m.error));
    return m;
}

static int
empty_schema(void **state)
{
    (void)state;
    if (live_server() != NULL) {
        live_fresh_schema();
    }
    return 0;
}

static void
an_empty_database_gets_all_and_then_nothing(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct migration m = migrate();
    assert_string_equal(m.error, "");
    assert_true(m.done);
    assert_int_equal(m.applied, pg_migration_count);
    assert_int_equal(live_count("SELECT count(*) FROM schema_migrations"), pg_migration_count);
    m = migrate();
    assert_true(m.done);
    assert_int_equal(m.applied, 0);
}

static void *
migrate_thread(void *arg)
{
    *(struct migration *)arg = migrate();
    return NULL;
}

static void
nodes_that_start_at_once_take_turns(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    enum { NODES = 4 };
    struct migration m[NODES];
    pthread_t threads[NODES];
    int applied = 0;
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, migrate_thread, &m[i]), 0);
    }
    for (int i = 0; i < NODES; i++) {
        pthread_join(threads[i], NULL);
        assert_string_equal(m[i].error, "");
        assert_true(m[i].done);
        applied += m[i].applied;
    }
    assert_int_equal(applied, pg_migration_count);
}

static void
an_edited_migration_is_refused(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    assert_true(migrate().done);
    live_exec(live.admin, "UPDATE schema_migrations SET checksum = 'x' WHERE number = 1");
    struct migration m = migrate();
    assert_false(m.done);
    assert_non_null(strstr(m.error, "migration 1 ("));
    assert_non_null(strstr(m.error, "another text"));
}

static void
a_newer_database_is_taken_as_it_is(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    assert_true(migrate().done);
    live_exec(live.admin, "INSERT INTO schema_migrations VALUES (9999, '9999_future', 'x')");
    struct migration m = migrate();
    assert_true(m.done);
    assert_int_equal(m.applied, 0);
}

static void
a_database_of_another_history_is_refused(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    assert_true(migrate().done);
    live_exec(live.admin, "INSERT INTO schema_migrations VALUES (0, '0000_other', 'x')");
    struct migration m = migrate();
    assert_false(m.done);
    assert_non_null(strstr(m.error, "0000_other"));
}

static void
a_migration_that_fails_leaves_nothing_of_itself(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    live_exec(live.admin, "CREATE TABLE batches (in_the_way int)");
    struct migration m = migrate();
    assert_false(m.done);
    assert_non_null(strstr(m.error, pg_migrations[0].name));
    assert_int_equal(
        live_count("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"), 1);
}

static void
without_a_server_the_reason_is_told(void **state)
{
    (void)state;
    char url[] = "postgresql:///x?host=/nonexistent";
    struct config config = { .database_url = url };
    int applied = -1;
    char error[512] = "";
    assert_false(pg_migrate(&config, &applied, error, sizeof(error)));
    assert_int_equal(applied, 0);
    assert_non_null(strstr(error, "/nonexistent"));
}

static void
every_statement_is_served_by_an_index(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    assert_true(migrate().done);
    struct pg *pg = live_connect();
    struct buf report = { 0 };
    int bad = pg_check_plans(pg, &report);
    if (bad != 0) {
        print_message("%s%s\n", report.len > 0 ? report.data : "", pg_last_error(pg));
    }
    assert_int_equal(bad, 0);
    assert_true(pg_ready(pg)); /* and the session is as it was */
    struct pg_result *result = NULL;
    assert_int_equal(pg_run_text(pg, "SELECT current_setting('enable_seqscan')", 0, NULL,
                                 live_deadline(), &result),
                     PG_DONE);
    assert_true(slice_is(pg_get_text(result, 0, 0), "on"));
    pg_result_free(&result);
    buf_fini(&report);
    pg_free(&pg);
}

static void
a_statement_without_its_index_is_reported(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    assert_true(migrate().done);
    live_exec(live.admin, "DROP INDEX idempotency_keys_age");
    struct pg *pg = live_connect();
    struct buf report = { 0 };
    assert_true(pg_check_plans(pg, &report) > 0);
    assert_non_null(strstr(report.data, "purge_idempotency_keys: "));
    buf_fini(&report);
    pg_free(&pg);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_database_gets_all_and_then_nothing, empty_schema),
        cmocka_unit_test_setup(nodes_that_start_at_once_take_turns, empty_schema),
        cmocka_unit_test_setup(an_edited_migration_is_refused, empty_schema),
        cmocka_unit_test_setup(a_newer_database_is_taken_as_it_is, empty_schema),
        cmocka_unit_test_setup(a_database_of_another_history_is_refused, empty_schema),
        cmocka_unit_test_setup(a_migration_that_fails_leaves_nothing_of_itself, empty_schema),
        cmocka_unit_test(without_a_server_the_reason_is_told),
        cmocka_unit_test_setup(every_statement_is_served_by_an_index, empty_schema),
        cmocka_unit_test_setup(a_statement_without_its_index_is_reported, empty_schema),
    };
    return cmocka_run_group_tests(tests, live_open, live_close);
}
