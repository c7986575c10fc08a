/* Lost outcomes (law 7), with the old transaction held open where it hurts. */
#include "live.h"

#include <pthread.h>
#include <sys/socket.h>

#define GATE_KEY "4711" /* an advisory lock that the old transaction's COMMIT must pass */

/* A deferred trigger keeps COMMIT waiting, until the admin's session lets go of the gate. */
static int
open_with_gate(void **state)
{
    live_open_migrated(state);
    if (live_server() != NULL) {
        live_exec(live.admin,
                  "CREATE TABLE gated (a int);"
                  "CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS "
                  "$$ BEGIN PERFORM pg_advisory_xact_lock(" GATE_KEY "); RETURN NULL; END $$;"
                  "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON gated DEFERRABLE INITIALLY DEFERRED "
                  "FOR EACH ROW EXECUTE FUNCTION pass()");
    }
    return 0;
}

static void
wait_for(const char *sql, long wanted)
{
    struct mono_time deadline = live_deadline();
    while (live_count(sql) != wanted) {
        if (mono_now().us > deadline.us) {
            fail_msg("never %ld: %s", wanted, sql);
        }
        usleep(1000);
    }
}

static void
wait_at_gate(void)
{
    wait_for("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = " GATE_KEY
             " AND NOT granted",
             1);
}

/* A transaction whose COMMIT stands at the closed gate, and whose connection is lost. */
static struct uuid
lose_a_commit(struct pg *pg)
{
    struct uuid id = uuid_v7_new();
    live_exec(live.admin, "SELECT pg_advisory_lock(" GATE_KEY ")");
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_send_text(pg, "SELECT set_config('lock_timeout', '60s', true)", 0, NULL);
    pg_tx_send_text(pg, "INSERT INTO gated VALUES (1)", 0, NULL);
    pg_tx_commit(pg);
    wait_at_gate();
    shutdown(PQsocket(pg->conn), SHUT_RDWR);
    assert_int_equal(pg_tx_end(pg), PG_UNKNOWN);
    assert_false(pg_is_connected(pg));
    return id;
}

static void
open_gate(void)
{
    live_exec(live.admin, "SELECT pg_advisory_unlock(" GATE_KEY ")");
}

static void
while_the_old_transaction_lives_nothing_is_known(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = lose_a_commit(pg);
    bool committed = true;
    struct mono_time deadline;
    enum pg_outcome outcome;
    int tries = 0;
    do { /* the server gives up 50 ms before we hang up: on a busy machine not each time */
        assert_true(pg_ready_until(pg, live_deadline()));
        deadline.us = mono_now().us + (tries + 1) * 300 * TIME_US_PER_MS;
        outcome = pg_settle_outcome(pg, &id, deadline, &committed);
        assert_true(outcome == PG_REPEAT || outcome == PG_UNAVAILABLE);
    } while ((outcome != PG_REPEAT || mono_now().us >= deadline.us + 500 * TIME_US_PER_MS) &&
             ++tries < 10);
    assert_true(tries < 10);
    assert_true(pg_is_connected(pg));
    open_gate();
    assert_int_equal(pg_settle_outcome(pg, &id, live_deadline(), &committed), PG_DONE);
    assert_true(committed);
    assert_int_equal(pg_settle_outcome(pg, &id, live_deadline(), &committed), PG_DONE);
    assert_true(committed); /* and the answer stays */
    pg_free(&pg);
}

struct asker {
    struct pg *pg;
    struct uuid id;
    enum pg_outcome outcome;
    bool committed;
};

static void *
ask(void *arg)
{
    struct asker *asker = arg;
    asker->outcome = pg_settle_outcome(asker->pg, &asker->id, live_deadline(), &asker->committed);
    return NULL;
}

static void
the_question_waits_for_the_old_transactions_end(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct asker asker = { .pg = live_connect() };
    asker.id = lose_a_commit(asker.pg);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask, &asker), 0);
    wait_for("SELECT count(*) FROM pg_stat_activity WHERE application_name = current_schema() AND "
             "wait_event = "
             "'transactionid'",
             1);
    open_gate();
    pthread_join(thread, NULL);
    assert_int_equal(asker.outcome, PG_DONE);
    assert_true(asker.committed);
    pg_free(&asker.pg);
}

static void
a_transaction_that_rolls_back_meanwhile_never_committed(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct asker asker = { .pg = live_connect() };
    asker.id = lose_a_commit(asker.pg);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask, &asker), 0);
    wait_for("SELECT count(*) FROM pg_stat_activity WHERE application_name = current_schema() AND "
             "wait_event = "
             "'transactionid'",
             1);
    live_exec(live.admin,
              "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND "
              "objid = " GATE_KEY " AND NOT granted");
    pthread_join(thread, NULL);
    open_gate();
    assert_int_equal(asker.outcome, PG_DONE);
    assert_false(asker.committed);
    pg_free(&asker.pg);
}

static void
a_settled_id_keeps_the_old_transaction_from_committing(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    bool committed = true;
    assert_int_equal(pg_settle_outcome(pg, &id, live_deadline(), &committed), PG_DONE);
    assert_false(committed);
    /* The old transaction's bytes arrive only now. */
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_send_text(pg, "INSERT INTO gated VALUES (2)", 0, NULL);
    pg_tx_commit(pg);
    assert_int_not_equal(pg_tx_end(pg), PG_DONE);
    assert_int_equal(live_count("SELECT count(*) FROM gated WHERE a = 2"), 0);
    pg_free(&pg);
}

static void
asking_twice_does_not_take_the_first_question_for_the_transaction(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    for (int i = 0; i < 3; i++) { /* as if the answer to the first questions had been lost */
        bool committed = true;
        assert_int_equal(pg_settle_outcome(pg, &id, live_deadline(), &committed), PG_DONE);
        assert_false(committed);
    }
    pg_free(&pg);
}

static void
two_who_ask_at_once_hear_the_same(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct asker askers[2];
    for (int i = 0; i < 2; i++) {
        askers[i] = (struct asker){ .pg = live_connect() };
    }
    askers[0].id = askers[1].id = lose_a_commit(askers[0].pg);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    wait_for("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = " GATE_KEY
             " AND NOT granted",
             1);
    live_exec(live.admin,
              "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND "
              "objid = " GATE_KEY " AND NOT granted");
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        bool settled = askers[i].outcome == PG_DONE;
        if (!settled) { /* it waited for the other's mark longer than lock_timeout: ask again */
            assert_int_equal(askers[i].outcome, PG_REPEAT);
            ask(&askers[i]);
        }
        assert_int_equal(askers[i].outcome, PG_DONE);
        assert_false(askers[i].committed);
        pg_free(&askers[i].pg);
    }
    open_gate();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_the_old_transaction_lives_nothing_is_known),
        cmocka_unit_test(the_question_waits_for_the_old_transactions_end),
        cmocka_unit_test(a_transaction_that_rolls_back_meanwhile_never_committed),
        cmocka_unit_test(a_settled_id_keeps_the_old_transaction_from_committing),
        cmocka_unit_test(asking_twice_does_not_take_the_first_question_for_the_transaction),
        cmocka_unit_test(two_who_ask_at_once_hear_the_same),
    };
    return cmocka_run_group_tests(tests, open_with_gate, live_close);
}
