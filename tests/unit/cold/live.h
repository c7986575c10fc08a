/*
 * live.h - a schema of its own in a real Postgres, for the tests test_live_*.c.
 *
 * They ask HOLDFAST_TEST_DATABASE_URL for the server (`make test` starts a private one) and skip
 * themselves without it. Each program migrates a schema named after its process, reached by
 * the search_path in the URL, and drops it at its end, so that programs may run side by side.
 */
#ifndef HOLDFAST_TESTS_COLD_LIVE_H
#define HOLDFAST_TESTS_COLD_LIVE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cold_internal.h"
#include "holdfast/log.h"

#define LIVE_TIMEOUT_US (10 * INT64_C(1000000)) /* nothing here takes that long */

struct live {
    struct config config;
    struct pg_identity *identity;
    struct db_clock *clock;
    char schema[32];
    char url[1024];
    PGconn *admin; /* a plain session beside those under test */
};

static struct live live;

static const char *
live_server(void)
{
    const char *url = getenv("HOLDFAST_TEST_DATABASE_URL");
    return url != NULL && url[0] != '\0' ? url : NULL;
}

#define LIVE_OR_SKIP()                                                                             \
    do {                                                                                           \
        if (live_server() == NULL) {                                                               \
            print_message("skipped: HOLDFAST_TEST_DATABASE_URL is not set\n");                     \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

static struct mono_time
live_deadline(void)
{
    return (struct mono_time){ mono_now().us + LIVE_TIMEOUT_US };
}

static void
live_exec(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    }
    PQclear(result);
}

/* One number; the query gives one row of one column. */
__attribute__((unused)) static long
live_count(const char *sql)
{
    PGresult *result = PQexec(live.admin, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(live.admin));
    }
    long count = atol(PQgetvalue(result, 0, 0));
    PQclear(result);
    return count;
}

/* The server's URL, or key=value string, with our search_path. */
static void
live_build_url(const char *server)
{
    if (strstr(server, "://") != NULL) {
        snprintf(live.url, sizeof(live.url), "%s%coptions=-csearch_path%%3D%s", server,
                 strchr(server, '?') != NULL ? '&' : '?', live.schema);
    } else {
        snprintf(live.url, sizeof(live.url), "%s options='-csearch_path=%s'", server, live.schema);
    }
}

static void
live_fresh_schema(void)
{
    char sql[128];
    snprintf(sql, sizeof(sql), "DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s", live.schema,
             live.schema);
    live_exec(live.admin, sql);
}

static void
live_ignore_notice(void *context, const char *message)
{
    (void)context;
    (void)message;
}

/* A group set-up: an empty schema, and the settings of a server. */
static int
live_open(void **state)
{
    (void)state;
    log_init(LOG_ERROR + 1, "test"); /* failures are what these tests are about */
    if (live_server() == NULL) {
        return 0;
    }
    snprintf(live.schema, sizeof(live.schema), "cold_test_%d", (int)getpid());
    live_build_url(live_server());
    live.config.database_url = live.url;
    live.config.request_timeout = 5 * TIME_US_PER_S;
    live.config.allow_unsafe_durability = true;
    live.identity = pg_identity_new();
    live.clock = db_clock_new();
    live.admin = PQconnectdb(live.url);
    assert_int_equal(PQstatus(live.admin), CONNECTION_OK);
    PQsetNoticeProcessor(live.admin, live_ignore_notice, NULL);
    live_fresh_schema();
    return 0;
}

/* As live_open, with all migrations. */
__attribute__((unused)) static int
live_open_migrated(void **state)
{
    live_open(state);
    if (live_server() != NULL) {
        int applied = 0;
        char error[512] = "";
        if (!pg_migrate(&live.config, &applied, error, sizeof(error))) {
            fail_msg("%s", error);
        }
    }
    return 0;
}

static int
live_close(void **state)
{
    (void)state;
    if (live_server() == NULL) {
        return 0;
    }
    char sql[64];
    snprintf(sql, sizeof(sql), "DROP SCHEMA %s CASCADE", live.schema);
    live_exec(live.admin, sql);
    PQfinish(live.admin);
    pg_identity_free(&live.identity);
    db_clock_free(&live.clock);
    return 0;
}

__attribute__((unused)) static struct pg *
live_connect(void)
{
    struct pg *pg = pg_new(&live.config, live.schema, live.identity, live.clock);
    assert_non_null(pg);
    if (!pg_ready(pg)) {
        fail_msg("not ready: %s %s", pg_last_sqlstate(pg), pg_last_error(pg));
    }
    return pg;
}

#endif
