/* Transactions against a real Postgres: outcomes, pipelines, and what is left of a session. */
#include "live.h"

#include <sys/socket.h>

static bool
batch_is_there(const struct uuid *id)
{
    char text[UUID_TEXT_BYTES], sql[128];
    uuid_format(id, text);
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM batches WHERE batch_id = '%s'", text);
    return live_count(sql) == 1;
}

static void
a_ready_session_has_the_settings_of_the_laws(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct pg_result *result = NULL;
    const char *sql =
        "SELECT current_setting('synchronous_commit'), current_setting('lock_timeout'), "
        "current_setting('plan_cache_mode'), current_setting('transaction_isolation')";
    assert_int_equal(pg_run_text(pg, sql, 0, NULL, live_deadline(), &result), PG_DONE);
    assert_true(slice_is(pg_get_text(result, 0, 0), "on"));
    assert_true(slice_is(pg_get_text(result, 0, 1), "500ms"));
    assert_true(slice_is(pg_get_text(result, 0, 2), "force_generic_plan"));
    assert_true(slice_is(pg_get_text(result, 0, 3), "read committed"));
    pg_result_free(&result);

    struct db_time now;
    int64_t error_us;
    assert_true(db_clock_read(live.clock, mono_now(), &now, &error_us));
    assert_int_equal(pg_replan(pg), PG_DONE);
    pg_free(&pg);
    assert_null(pg);
}

static int64_t
count_prepared(struct pg *pg)
{
    static const char sql[] = "SELECT count(*) FROM pg_prepared_statements";
    struct pg_result *result = NULL;
    assert_int_equal(pg_run_text(pg, sql, 0, NULL, live_deadline(), &result), PG_DONE);
    int64_t count = pg_get_int(result, 0, 0);
    pg_result_free(&result);
    return count;
}

static void
read_clocks(struct pg *pg, const char *first, enum pg_outcome outcome)
{
    struct uuid id = uuid_v7_new();
    struct pg_params none;

    pg_params_init(&none);
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_send_text(pg, first, 0, NULL);
    pg_tx_send(pg, STATEMENT_READ_CLOCK, &none);
    pg_tx_flush(pg);
    pg_tx_send(pg, STATEMENT_READ_CLOCK, &none);
    pg_tx_commit(pg);
    for (int i = 0; i < 3; i++) {
        struct pg_result *result = pg_tx_next(pg);
        assert_int_equal(result != NULL, outcome == PG_DONE);
        pg_result_free(&result);
    }
    assert_int_equal(pg_tx_end(pg), outcome);
    assert_int_equal(batch_is_there(&id), outcome == PG_DONE);
}

/* Only what begins every transaction is there before. */
static void
a_statement_is_prepared_once_with_its_first_use(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct pg_params none;

    pg_params_init(&none);
    assert_int_equal(count_prepared(pg), 1);
    for (int i = 0; i < 2; i++) {
        struct pg_result *result = NULL;
        assert_int_equal(pg_run(pg, STATEMENT_READ_CLOCK, &none, live_deadline(), &result),
                         PG_DONE);
        assert_int_equal(pg_rows(result), 1);
        pg_result_free(&result);
        assert_int_equal(count_prepared(pg), 2);
    }
    pg_drop(pg);
    assert_true(pg_ready(pg));
    read_clocks(pg, "SELECT 1", PG_DONE);
    read_clocks(pg, "SELECT 2", PG_DONE);
    assert_int_equal(count_prepared(pg), 2);
    assert_true(pg_prepare_all(pg));
    assert_int_equal(count_prepared(pg), STATEMENT_COUNT);
    pg_free(&pg);
}

static void
a_statement_that_was_skipped_is_prepared_the_next_time(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();

    read_clocks(pg, "SELECT 1/0", PG_DATA_ERROR);
    assert_true(pg_is_connected(pg));
    assert_int_equal(count_prepared(pg), 1);
    read_clocks(pg, "SELECT 1", PG_DONE);
    assert_int_equal(count_prepared(pg), 2);
    pg_free(&pg);
}

/* As after a fail-over to a server that lacks a migration. */
static void
a_statement_that_the_server_cannot_take_fails_and_the_session_lives_on(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct pg_params none;

    pg_params_init(&none);
    live_exec(live.admin, "ALTER TABLE departed_nodes RENAME TO away");
    assert_false(pg_prepare_all(pg));
    assert_non_null(strstr(pg_last_error(pg), "departed_nodes"));
    assert_int_equal(pg_run(pg, STATEMENT_READ_DEPARTED, &none, live_deadline(), NULL), PG_BUG);
    assert_string_equal(pg_last_sqlstate(pg), "42P01");
    live_exec(live.admin, "ALTER TABLE away RENAME TO departed_nodes");
    assert_true(pg_ready(pg));
    assert_true(pg_prepare_all(pg));
    pg_free(&pg);
}

static void
values_come_back_as_they_went_out(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct pg_result *result = NULL;
    const char *const values[] = { "{\"a\": 1}" };
    const char *sql =
        "SELECT $1::jsonb, '2026-01-31T12:34:56.789012Z'::timestamptz, 1.5::float8, 7::int2, "
        "NULL::int4, ARRAY['01890000-0000-7000-8000-000000000001']::uuid[], true, ''::text";
    assert_int_equal(pg_run_text(pg, sql, 1, values, live_deadline(), &result), PG_DONE);
    assert_true(slice_is(pg_get_text(result, 0, 0), "{\"a\": 1}"));
    struct db_time time;
    assert_true(db_time_parse(SLICE_LITERAL("2026-01-31T12:34:56.789012Z"), &time));
    assert_true(pg_get_time(result, 0, 1).us == time.us);
    assert_true(pg_get_double(result, 0, 2) == 1.5);
    assert_int_equal(pg_get_int(result, 0, 3), 7);
    assert_true(pg_is_null(result, 0, 4));
    struct uuid id;
    assert_int_equal(pg_get_uuids(result, 0, 5, &id, 1), 1);
    assert_int_equal(id.bytes[15], 1);
    assert_true(pg_get_bool(result, 0, 6));
    assert_int_equal(pg_get_text(result, 0, 7).len, 0);
    pg_result_free(&result);
    pg_free(&pg);
}

static void
arrays_arrive_whole(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    live_exec(live.admin,
              "CREATE TABLE arrays (b bool[], i int4[], l int8[], f float8[], t text[], u uuid[], "
              "z timestamptz[], j jsonb[], e text[])");
    struct pg_array arrays[9];
    const enum pg_type types[9] = { PG_BOOL, PG_INT4,        PG_INT8,  PG_FLOAT8, PG_TEXT,
                                    PG_UUID, PG_TIMESTAMPTZ, PG_JSONB, PG_TEXT };
    struct pg_params params;
    pg_params_init(&params);
    struct uuid id = uuid_v7_new();
    for (int i = 0; i < 9; i++) {
        pg_array_init(&arrays[i], types[i]);
    }
    pg_array_bool(&arrays[0], true);
    pg_array_int(&arrays[1], -7);
    pg_array_int(&arrays[2], INT64_MIN);
    pg_array_double(&arrays[3], 0.25);
    pg_array_text(&arrays[4], SLICE_LITERAL("a\"b{},\\"));
    pg_array_null(&arrays[4]);
    pg_array_uuid(&arrays[5], &id);
    pg_array_time(&arrays[6], (struct db_time){ 1 });
    pg_array_text(&arrays[7], SLICE_LITERAL("[1]"));
    for (int i = 0; i < 9; i++) {
        pg_param_array(&params, &arrays[i]);
    }
    assert_false(params.failed);
    PGresult *result =
        PQexecParams(live.admin, "INSERT INTO arrays VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9)", 9, NULL,
                     params.values, params.lengths, params.formats, 0);
    assert_string_equal(PQresultErrorMessage(result), "");
    PQclear(result);
    assert_int_equal(
        live_count("SELECT count(*) FROM arrays WHERE b = '{t}' AND i = '{-7}' "
                   "AND l = '{-9223372036854775808}' AND f = '{0.25}' "
                   "AND t = ARRAY['a\"b{},\\', NULL] AND j = ARRAY['[1]'::jsonb] AND e = '{}' "
                   "AND z = ARRAY['1970-01-01T00:00:00.000001Z'::timestamptz]"),
        1);
    for (int i = 0; i < 9; i++) {
        pg_array_fini(&arrays[i]);
    }
    pg_free(&pg);
}

static void
a_committed_transaction_says_done_and_leaves_its_id(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_send_text(pg, "SELECT 41::int4 UNION ALL SELECT 42::int4 ORDER BY 1", 0, NULL);
    pg_tx_send_text(pg, "SELECT 'two'", 0, NULL);
    pg_tx_commit(pg);
    struct pg_result *result = pg_tx_next(pg);
    assert_non_null(result);
    assert_int_equal(pg_rows(result), 2);
    assert_int_equal(pg_get_int(result, 1, 0), 42);
    pg_result_free(&result);
    assert_int_equal(pg_tx_end(pg), PG_DONE); /* the second result was not asked for: fine */
    assert_true(batch_is_there(&id));
    pg_free(&pg);
}

static void
results_can_be_read_before_the_commit(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    for (int i = 0; i < 3; i++) {
        pg_tx_send_text(pg, "SELECT 1::int4", 0, NULL);
        if (i != 1) {
            pg_tx_flush(pg); /* in the middle the reader flushes by itself */
        }
        struct pg_result *result = pg_tx_next(pg);
        assert_non_null(result);
        assert_int_equal(pg_get_int(result, 0, 0), 1);
        pg_result_free(&result);
    }
    assert_false(batch_is_there(&id));
    pg_tx_commit(pg);
    assert_int_equal(pg_tx_end(pg), PG_DONE);
    assert_true(batch_is_there(&id));
    pg_free(&pg);
}

static void
a_rolled_back_transaction_leaves_nothing(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_rollback(pg);
    assert_int_equal(pg_tx_end(pg), PG_DONE);
    assert_false(batch_is_there(&id));
    assert_true(pg_is_connected(pg));
    pg_free(&pg);
}

/* What a statement's error means, and that the session goes on to the next transaction. */
static void
expect_failure(const char *sql, enum pg_outcome outcome, const char *sqlstate)
{
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_send_text(pg, sql, 0, NULL);
    pg_tx_send_text(pg, "SELECT 1", 0, NULL);
    pg_tx_commit(pg);
    struct pg_result *result = pg_tx_next(pg);
    assert_null(result);
    result = pg_tx_next(pg);
    assert_null(result);
    assert_int_equal(pg_tx_end(pg), outcome);
    assert_string_equal(pg_last_sqlstate(pg), sqlstate);
    assert_false(batch_is_there(&id));

    id = uuid_v7_new();
    assert_true(pg_ready(pg));
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_commit(pg);
    assert_int_equal(pg_tx_end(pg), PG_DONE);
    pg_free(&pg);
}

static void
errors_become_outcomes_and_the_session_lives_on(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    expect_failure("SELECT 1/0", PG_DATA_ERROR, "22012");
    expect_failure("INSERT INTO batches VALUES (NULL)", PG_DATA_ERROR, "23502");
    expect_failure("SELECT must_equal(1, 2, 'seats')", PG_DATA_ERROR, "P0001");
    expect_failure("SELECT nothing", PG_BUG, "42703");
}

static void
a_failure_after_a_flush_is_rolled_back_too(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_send_text(pg, "SELECT 1/0", 0, NULL);
    pg_tx_flush(pg);
    struct pg_result *result = pg_tx_next(pg);
    assert_null(result);
    pg_tx_send_text(pg, "SELECT 1", 0, NULL); /* not sent any more */
    pg_tx_commit(pg);
    assert_int_equal(pg_tx_end(pg), PG_DATA_ERROR);
    assert_true(pg_is_connected(pg));
    assert_int_equal(pg_run_text(pg, "SELECT 1", 0, NULL, live_deadline(), NULL), PG_DONE);
    pg_free(&pg);
}

static void
a_deferred_trigger_that_fails_at_commit_is_an_error_of_data(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    live_exec(live.admin,
              "CREATE TABLE IF NOT EXISTS deferred (a int);"
              "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
              "$$ BEGIN RAISE EXCEPTION 'no'; END $$;"
              "CREATE OR REPLACE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS "
              "$$ BEGIN RAISE WARNING 'hm'; RETURN NULL; END $$;"
              "DROP TRIGGER IF EXISTS t ON deferred;"
              "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED "
              "FOR EACH ROW EXECUTE FUNCTION refuse()");
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_send_text(pg, "INSERT INTO deferred VALUES (1) RETURNING a", 0, NULL);
    pg_tx_commit(pg);
    struct pg_result *result = pg_tx_next(pg);
    assert_non_null(result); /* the statement itself worked */
    pg_result_free(&result);
    assert_int_equal(pg_tx_end(pg), PG_DATA_ERROR);
    assert_string_equal(pg_last_sqlstate(pg), "P0001");
    assert_false(batch_is_there(&id));

    /* Without a transaction block it fails at the Sync. */
    assert_int_equal(
        pg_run_text(pg, "INSERT INTO deferred VALUES (2)", 0, NULL, live_deadline(), NULL),
        PG_DATA_ERROR);
    assert_true(pg_is_connected(pg));
    assert_int_equal(pg_run_text(pg, "SELECT 1", 0, NULL, live_deadline(), NULL), PG_DONE);
    assert_int_equal(live_count("SELECT count(*) FROM deferred"), 0);
    pg_free(&pg);
}

static void
a_warning_during_commit_makes_the_outcome_unknown(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    live_exec(live.admin,
              "DROP TRIGGER t ON deferred;"
              "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED "
              "FOR EACH ROW EXECUTE FUNCTION warn()");
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_send_text(pg, "INSERT INTO deferred VALUES (1)", 0, NULL);
    pg_tx_commit(pg);
    assert_int_equal(pg_tx_end(pg), PG_UNKNOWN);
    assert_false(pg_is_connected(pg));
    bool committed = false;
    assert_int_equal(pg_settle_outcome(pg, &id, live_deadline(), &committed), PG_DONE);
    assert_true(committed);
    pg_free(&pg);
}

static void
statement_timeout_does_not_strike_in_commit(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    live_exec(live.admin,
              "CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS "
              "$$ BEGIN PERFORM pg_sleep(0.2); RETURN NULL; END $$;"
              "DROP TRIGGER t ON deferred;"
              "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED "
              "FOR EACH ROW EXECUTE FUNCTION nap()");
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_send_text(pg, "INSERT INTO deferred VALUES (1)", 0, NULL);
    pg_tx_send_text(pg, "SELECT set_config('statement_timeout', '50ms', true)", 0, NULL);
    pg_tx_commit(pg);
    assert_int_equal(pg_tx_end(pg), PG_DONE);
    pg_free(&pg);
}

static void
a_warning_of_an_early_statement_is_none_of_the_commit(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_send_text(pg, "DO $$ BEGIN RAISE WARNING 'hm'; END $$", 0, NULL);
    pg_tx_send_text(pg, "SELECT 1", 0, NULL);
    pg_tx_send_text(pg, "SELECT 1", 0, NULL);
    pg_tx_commit(pg);
    assert_int_equal(pg_tx_end(pg), PG_DONE);
    pg_free(&pg);
}

static void
a_batch_id_that_was_used_is_no_requests_fault(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    for (int i = 0; i < 2; i++) {
        pg_tx_begin(pg, &id, live_deadline());
        pg_tx_commit(pg);
        assert_int_equal(pg_tx_end(pg), i == 0 ? PG_DONE : PG_BUG);
    }
    pg_free(&pg);
}

/* --- lost connections --------------------------------------------------------- */

static void
a_connection_lost_before_commit_means_nothing_was_changed(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_send_text(pg, "SELECT 1", 0, NULL);
    pg_tx_flush(pg);
    struct pg_result *result = pg_tx_next(pg);
    assert_non_null(result);
    pg_result_free(&result);
    shutdown(PQsocket(pg->conn), SHUT_RDWR);
    pg_tx_send_text(pg, "SELECT 2", 0, NULL);
    result = pg_tx_next(pg);
    assert_null(result);
    pg_tx_commit(pg);
    assert_int_equal(pg_tx_end(pg), PG_UNAVAILABLE);
    assert_false(pg_is_connected(pg));
    assert_true(pg_ready(pg)); /* the first try comes at once */
    assert_false(batch_is_there(&id));
    pg_free(&pg);
}

static void
a_session_that_the_server_ends_is_unavailable_then_back(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    char sql[128];
    snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d, 5000)", PQbackendPID(pg->conn));
    live_exec(live.admin, sql);
    assert_true(pg_ready(pg)); /* it saw the end before it used the session */
    pg_tx_begin(pg, &id, live_deadline());
    snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d, 5000)", PQbackendPID(pg->conn));
    live_exec(live.admin, sql);
    pg_tx_send_text(pg, "SELECT 1", 0, NULL);
    struct pg_result *result = pg_tx_next(pg);
    assert_null(result);
    pg_tx_commit(pg);
    assert_int_equal(pg_tx_end(pg), PG_UNAVAILABLE);
    assert_true(pg_ready(pg));
    pg_free(&pg);
}

static void
a_late_answer_drops_the_connection(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct mono_time soon = { mono_now().us + 50 * TIME_US_PER_MS };
    assert_int_equal(pg_run_text(pg, "SELECT pg_sleep(3)", 0, NULL, soon, NULL), PG_UNAVAILABLE);
    assert_false(pg_is_connected(pg));
    assert_true(pg_ready(pg));
    soon.us = mono_now().us + 50 * TIME_US_PER_MS;
    const char *sql = "INSERT INTO batches SELECT gen_random_uuid() FROM pg_sleep(2)";
    assert_int_equal(pg_run_text(pg, sql, 0, NULL, soon, NULL), PG_UNKNOWN);
    pg_free(&pg);
}

static void
a_transaction_whose_deadline_has_passed_is_not_committed(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, (struct mono_time){ mono_now().us - 1 });
    pg_tx_commit(pg);
    assert_int_equal(pg_tx_end(pg), PG_UNAVAILABLE);
    bool committed = true;
    assert_int_equal(pg_settle_outcome(pg, &id, live_deadline(), &committed), PG_DONE);
    assert_false(committed);
    pg_free(&pg);
}

static void
without_a_server_everything_says_so_at_once(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct config nowhere = live.config;
    char url[] = "postgresql:///x?host=/nonexistent";
    nowhere.database_url = url;
    struct pg *pg = pg_new(&nowhere, "cold test", live.identity, live.clock);
    assert_non_null(pg);
    assert_false(pg_ready(pg));
    pg->try_at.us = mono_now().us + 60 * (int64_t)TIME_US_PER_S; /* however slow this thread is */
    int64_t best_us = TIME_US_PER_S;
    for (int tries = 0; tries < 10; tries++) {
        struct mono_time began = mono_now();
        assert_false(pg_ready(pg)); /* backing off */
        int64_t took_us = mono_now().us - began.us;
        best_us = took_us < best_us ? took_us : best_us;
    }
    assert_true(best_us < 10 * TIME_US_PER_MS);

    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_commit(pg);
    struct pg_result *result = pg_tx_next(pg);
    assert_null(result);
    assert_int_equal(pg_tx_end(pg), PG_UNAVAILABLE);
    assert_int_equal(pg_run_text(pg, "SELECT 1", 0, NULL, live_deadline(), NULL), PG_UNAVAILABLE);
    bool committed;
    assert_int_equal(pg_settle_outcome(pg, &id, live_deadline(), &committed), PG_UNAVAILABLE);
    pg_free(&pg);
}

static void
a_large_batch_does_not_choke_the_pipeline(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    /* Answers of 1 MB each while the commands, 100 kB each, still go out. */
    char *text = malloc(100001);
    assert_non_null(text);
    memset(text, 'x', 100000);
    text[100000] = '\0';
    const char *const values[] = { text };
    for (int i = 0; i < 40; i++) {
        pg_tx_send_text(pg, "SELECT repeat($1, 10)", 1, values);
    }
    pg_tx_commit(pg);
    for (int i = 0; i < 40; i++) {
        struct pg_result *result = pg_tx_next(pg);
        assert_non_null(result);
        assert_int_equal(pg_get_text(result, 0, 0).len, 1000000);
        pg_result_free(&result);
    }
    assert_int_equal(pg_tx_end(pg), PG_DONE);
    free(text);
    pg_free(&pg);
}

static void
another_server_is_announced_and_old_sessions_end(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    int backend = PQbackendPID(pg->conn);
    assert_true(pg_ready(pg));
    assert_int_equal(PQbackendPID(pg->conn), backend);
    (void)pg_identity_saw(live.identity, live.clock, 1,
                          1); /* as a session to another server would */
    assert_true(pg_ready(pg));
    assert_int_not_equal(PQbackendPID(pg->conn), backend);
    pg_free(&pg);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ready_session_has_the_settings_of_the_laws),
        cmocka_unit_test(a_statement_is_prepared_once_with_its_first_use),
        cmocka_unit_test(a_statement_that_was_skipped_is_prepared_the_next_time),
        cmocka_unit_test(a_statement_that_the_server_cannot_take_fails_and_the_session_lives_on),
        cmocka_unit_test(values_come_back_as_they_went_out),
        cmocka_unit_test(arrays_arrive_whole),
        cmocka_unit_test(a_committed_transaction_says_done_and_leaves_its_id),
        cmocka_unit_test(results_can_be_read_before_the_commit),
        cmocka_unit_test(a_rolled_back_transaction_leaves_nothing),
        cmocka_unit_test(errors_become_outcomes_and_the_session_lives_on),
        cmocka_unit_test(a_failure_after_a_flush_is_rolled_back_too),
        cmocka_unit_test(a_deferred_trigger_that_fails_at_commit_is_an_error_of_data),
        cmocka_unit_test(a_warning_during_commit_makes_the_outcome_unknown),
        cmocka_unit_test(statement_timeout_does_not_strike_in_commit),
        cmocka_unit_test(a_warning_of_an_early_statement_is_none_of_the_commit),
        cmocka_unit_test(a_batch_id_that_was_used_is_no_requests_fault),
        cmocka_unit_test(a_connection_lost_before_commit_means_nothing_was_changed),
        cmocka_unit_test(a_session_that_the_server_ends_is_unavailable_then_back),
        cmocka_unit_test(a_late_answer_drops_the_connection),
        cmocka_unit_test(a_transaction_whose_deadline_has_passed_is_not_committed),
        cmocka_unit_test(without_a_server_everything_says_so_at_once),
        cmocka_unit_test(a_large_batch_does_not_choke_the_pipeline),
        cmocka_unit_test(another_server_is_announced_and_old_sessions_end),
    };
    return cmocka_run_group_tests(tests, live_open_migrated, live_close);
}
