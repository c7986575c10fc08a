/* A connection before a deadline: silence where the server should be, and what a session bounds. */
#include "live.h"
#include "silent.h"

#define SOON_US (300 * TIME_US_PER_MS)
#define SLACK_US                                                                                   \
    (1500 * TIME_US_PER_MS) /* of a busy machine; without a deadline it would be more */

static struct mono_time
soon(void)
{
    return (struct mono_time){ mono_now().us + SOON_US };
}

static void
assert_in_time(struct mono_time deadline)
{
    assert_in_range(mono_now().us, 0, deadline.us + SLACK_US);
}

/* Connections to `url`, with an identity of their own. */
struct side {
    struct config config;
    struct pg_identity *identity;
    char url[2048];
};

static void
side_open(struct side *side)
{
    side->config = live.config;
    side->config.database_url = side->url;
    side->identity = pg_identity_new();
}

static struct pg *
side_pg(struct side *side)
{
    struct pg *pg = pg_new(&side->config, "cold test", side->identity, live.clock);
    assert_non_null(pg);
    return pg;
}

/* The URL of a server of ours alone. */
static void
side_open_at(struct side *side, const struct silent *server)
{
    snprintf(side->url, sizeof(side->url),
             "postgresql://u@127.0.0.1:%d/d?sslmode=disable&gssencmode=disable", server->port);
    side_open(side);
}

static const char *
option_value(const PQconninfoOption *options, const char *keyword)
{
    while (options->keyword != NULL && strcmp(options->keyword, keyword) != 0) {
        options++;
    }
    return options->val != NULL ? options->val : "";
}

/* live.url as name='value' ..., where what comes later overrides what came before. */
static void
append_live(struct side *side, const PQconninfoOption *options)
{
    for (; options->keyword != NULL; options++) {
        size_t len = strlen(side->url);
        if (options->val != NULL) {
            snprintf(side->url + len, sizeof(side->url) - len, "%s='%s' ", options->keyword,
                     options->val);
        }
    }
}

/* The live server with other options. */
static void
side_open_with(struct side *side, const char *options, const char *more)
{
    PQconninfoOption *of_live = PQconninfoParse(live.url, NULL);
    assert_non_null(of_live);
    side->url[0] = '\0';
    append_live(side, of_live);
    size_t len = strlen(side->url);
    snprintf(side->url + len, sizeof(side->url) - len, "options='%s %s' %s",
             option_value(of_live, "options"), options, more);
    PQconninfoFree(of_live);
    side_open(side);
}

/* The live server behind a silent one. */
static void
side_open_behind(struct side *side, const struct silent *server)
{
    PQconninfoOption *of_live = PQconninfoParse(live.url, NULL);
    assert_non_null(of_live);
    char hosts[512];
    snprintf(hosts, sizeof(hosts), "host=127.0.0.1,%s port=%d,%s", option_value(of_live, "host"),
             server->port, option_value(of_live, "port"));
    PQconninfoFree(of_live);
    side_open_with(side, "", hosts);
}

static void
side_close(struct side *side)
{
    pg_identity_free(&side->identity);
}

/* --- silence --------------------------------------------------------------------- */

static void
a_silent_server_is_waited_for_until_the_deadline(void **state)
{
    (void)state;
    struct silent server = silent_open();
    struct side side;
    side_open_at(&side, &server);
    struct pg *pg = side_pg(&side);
    struct mono_time deadline = soon();
    assert_false(pg_ready_until(pg, deadline));
    assert_in_time(deadline);
    assert_int_equal(silent_visitors(&server), 1);

    pg->try_at.us = mono_now().us + 60 * (int64_t)TIME_US_PER_S; /* however slow this thread is */
    struct mono_time began = mono_now();
    assert_false(pg_ready_until(pg, live_deadline())); /* backing off: at once */
    assert_true(mono_now().us - began.us < PG_CONNECT_US);
    assert_int_equal(silent_visitors(&server), 0);
    pg_free(&pg);
    side_close(&side);
    silent_close(&server);
}

/* Every wait of a session's set-up, and the question for a lost outcome. */
static void
a_server_that_greets_and_goes_silent_is_no_better(void **state)
{
    (void)state;
    struct silent server = silent_open();
    pthread_t greeter;
    hf_must(pthread_create(&greeter, NULL, silent_greeter, &server));
    struct side side;
    side_open_at(&side, &server);

    struct pg *pg = side_pg(&side);
    struct mono_time deadline = soon();
    assert_false(pg_ready_until(pg, deadline));
    assert_in_time(deadline);
    assert_string_equal(pg_last_error(pg), "no answer before the deadline"); /* it had connected */
    pg_free(&pg);

    pg = side_pg(&side);
    struct uuid id = uuid_v7_new();
    bool committed;
    deadline = soon();
    assert_int_equal(pg_settle_outcome(pg, &id, deadline, &committed), PG_UNAVAILABLE);
    assert_in_time(deadline);
    pg_free(&pg);

    int applied;
    char error[256];
    deadline.us = mono_now().us + PG_CONNECT_US;
    assert_false(pg_migrate(&side.config, &applied, error, sizeof(error)));
    assert_in_time(deadline);
    assert_string_equal(error, "connect: no answer in time"); /* `serve` then tries again */

    hf_must(shutdown(server.listener, SHUT_RDWR));
    pthread_join(greeter, NULL);
    side_close(&side);
    silent_close(&server);
}

static void
a_silent_host_is_passed_by_and_not_tried_first_again(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct silent server = silent_open();
    struct side side;
    side_open_behind(&side, &server);
    struct pg *first = side_pg(&side);
    if (!pg_ready_until(first, live_deadline())) {
        fail_msg("not ready: %s", pg_last_error(first));
    }
    assert_int_equal(silent_visitors(&server), 1);

    struct pg *second = side_pg(&side); /* it knows what the first has learned */
    assert_true(pg_ready_until(second, (struct mono_time){ mono_now().us + PG_READY_US }));
    assert_int_equal(silent_visitors(&server), 0);
    pg_free(&first);
    pg_free(&second);
    side_close(&side);
    silent_close(&server);
}

/* A stopped server's, or one behind a network that swallows packets: the socket looks well. */
static void
a_session_that_fell_silent_is_replaced_in_the_same_call(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct silent server = silent_open();
    struct pg *pg = live_connect();
    int end = silent_connect(&server);
    assert_int_equal(dup2(end, PQsocket(pg->conn)), PQsocket(pg->conn));
    close(end);
    pg->clock_at.us = 0; /* it is time to ask for the time */
    struct mono_time began = mono_now();
    assert_true(pg_ready(pg));
    assert_in_range(mono_now().us - began.us, PG_ASIDE_US, PG_READY_US + SLACK_US);
    assert_int_equal(pg_run_text(pg, "SELECT 1", 0, NULL, live_deadline(), NULL), PG_DONE);
    pg_free(&pg);
    silent_close(&server);
}

static void
with_too_little_time_nothing_is_tried(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = pg_new(&live.config, "cold test", live.identity, live.clock);
    assert_non_null(pg);
    assert_false(pg_ready_until(pg, (struct mono_time){ mono_now().us + 10 * TIME_US_PER_MS }));
    assert_true(pg_ready(pg)); /* so it has nothing to back off from */
    assert_true(pg_ready_until(pg, mono_now()));
    pg_free(&pg);
}

static void
after_a_failure_the_next_try_waits_a_second_at_most(void **state)
{
    (void)state;
    struct side side = { .url = "postgresql:///x?host=/nonexistent" };
    side_open(&side);
    struct pg *pg = side_pg(&side);
    int64_t longest_us = 0;
    for (int tries = 0; tries < 12; tries++) {
        pg->try_at.us = 0;
        assert_false(pg_ready(pg));
        int64_t pause_us = pg->try_at.us - mono_now().us;
        longest_us = pause_us > longest_us ? pause_us : longest_us;
    }
    assert_in_range(longest_us, 400 * TIME_US_PER_MS, PG_BACKOFF_MAX_US);
    pg_free(&pg);
    side_close(&side);
}

/* --- what a session bounds ---------------------------------------------------------- */

static void
a_server_that_takes_no_writes_is_refused_for_that(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct side side;
    side_open_with(&side, "-cdefault_transaction_read_only=on", "target_session_attrs=any");
    struct pg *pg = side_pg(&side);
    assert_false(pg_ready(pg));
    assert_non_null(strstr(pg_last_error(pg), "transaction_read_only is 'on'"));
    pg_free(&pg);
    side_close(&side);
}

static void
a_statement_ends_at_the_sessions_statement_timeout(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct config impatient = live.config;
    impatient.request_timeout = 1500 * TIME_US_PER_MS; /* each statement of the set-up has it, too */
    struct pg *pg = pg_new(&impatient, "cold test", live.identity, live.clock);
    assert_true(pg_ready(pg));
    struct mono_time began = mono_now();
    assert_int_equal(pg_run_text(pg, "SELECT pg_sleep(8)", 0, NULL, live_deadline(), NULL),
                     PG_REPEAT);
    assert_string_equal(pg_last_sqlstate(pg), "57014");
    assert_in_range(mono_now().us - began.us, 1500 * TIME_US_PER_MS, 6 * INT64_C(1000000));
    assert_true(pg_is_connected(pg));
    pg_free(&pg);
}

static void
a_wait_for_a_lock_ends_at_the_sessions_lock_timeout(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    live_exec(live.admin, "BEGIN; LOCK TABLE batches IN ACCESS EXCLUSIVE MODE");
    struct mono_time began = mono_now();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_commit(pg);
    assert_int_equal(pg_tx_end(pg), PG_REPEAT);
    assert_string_equal(pg_last_sqlstate(pg), "55P03");
    assert_in_range(mono_now().us - began.us, 500 * TIME_US_PER_MS, 5 * INT64_C(1000000));
    live_exec(live.admin, "ROLLBACK");
    pg_free(&pg);
}

/* As of a node that is stopped with locks in its hands. */
static void
a_transaction_that_stands_idle_is_ended_by_the_server(void **state)
{
    (void)state;
    LIVE_OR_SKIP();
    struct pg *pg = live_connect();
    struct uuid id = uuid_v7_new();
    pg_tx_begin(pg, &id, live_deadline());
    pg_tx_send_text(pg, "SELECT 1", 0, NULL);
    struct mono_time before = mono_now(); /* it doesn't stand idle yet */
    struct pg_result *result = pg_tx_next(pg);
    pg_result_free(&result);
    struct pollfd fd = { .fd = PQsocket(pg->conn), .events = POLLIN };
    pg_tx_send_text(pg, "SELECT 1", 0, NULL); /* queued, not sent: the server waits for it */
    assert_int_equal(poll(&fd, 1, 10000), 1);
    assert_in_range(mono_now().us - before.us, 1500 * TIME_US_PER_MS, 8 * INT64_C(1000000));
    pg_tx_commit(pg);
    assert_int_equal(pg_tx_end(pg), PG_UNAVAILABLE);
    assert_string_equal(pg_last_sqlstate(pg), "25P03");
    pg_free(&pg);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_server_is_waited_for_until_the_deadline),
        cmocka_unit_test(a_server_that_greets_and_goes_silent_is_no_better),
        cmocka_unit_test(a_silent_host_is_passed_by_and_not_tried_first_again),
        cmocka_unit_test(a_session_that_fell_silent_is_replaced_in_the_same_call),
        cmocka_unit_test(with_too_little_time_nothing_is_tried),
        cmocka_unit_test(after_a_failure_the_next_try_waits_a_second_at_most),
        cmocka_unit_test(a_server_that_takes_no_writes_is_refused_for_that),
        cmocka_unit_test(a_statement_ends_at_the_sessions_statement_timeout),
        cmocka_unit_test(a_wait_for_a_lock_ends_at_the_sessions_lock_timeout),
        cmocka_unit_test(a_transaction_that_stands_idle_is_ended_by_the_server),
    };
    return cmocka_run_group_tests(tests, live_open_migrated, live_close);
}
