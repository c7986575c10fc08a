/*
 * migrate.c - brings a database to the schema that this binary knows.
 *
 * Each migration is one transaction together with its row in schema_migrations, and each begins
 * with the same advisory lock, then looks again at what is missing: so nodes that start at once
 * take turns, and a crash leaves whole migrations only. The lock ends with the transaction,
 * so that a pooler is no obstacle. No VACUUM or ANALYZE: statistics of empty tables make
 * ruinous plans.
 *
 * Nodes of two versions run side by side while an installation is renewed: migrations only expand,
 * and what is no longer used is dropped by a later version. So migrations after our last are no
 * reason not to start, only to say so.
 *
 * Until the session is ours nothing waits for long: a server that is stopped takes connections,
 * too. A migration itself may take as long as its tables are large, and the lock as long as
 * another node's migration.
 */
#include "cold_internal.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/log.h"

#define LOCK_KEY                                                                                   \
    "7525352680829580148" /* "holdfast" as a number: whoever migrates it takes this                \
                           */

static const char settings_sql[] =
    "SET synchronous_commit = on; SET lock_timeout = 0; SET statement_timeout = 0;"
    "SET client_min_messages = warning";

static const char table_sql[] =
    "CREATE TABLE schema_migrations (number integer PRIMARY KEY, name text NOT NULL,"
    " checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())";

struct migrate {
    PGconn *conn;
    char *error;
    size_t error_bytes;
};

enum step { STEP_APPLIED, STEP_NOTHING_LEFT, STEP_FAILED };

static bool
fail(struct migrate *m, const char *what, const char *why)
{
    int len = (int)strcspn(why, "\n");
    snprintf(m->error, m->error_bytes, "%s: %.*s", what, len, why);
    return false;
}

/* Runs SQL that returns nothing of interest. */
static bool
run(struct migrate *m, const char *what, const char *sql)
{
    PGresult *result = PQexec(m->conn, sql);
    ExecStatusType status = PQresultStatus(result);
    bool done = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    if (!done) {
        fail(m, what, PQerrorMessage(m->conn));
    }
    PQclear(result);
    return done;
}

static bool
commit(struct migrate *m)
{
    PGresult *result = PQexec(m->conn, "COMMIT");
    bool done =
        PQresultStatus(result) == PGRES_COMMAND_OK && strcmp(PQcmdStatus(result), "COMMIT") == 0;
    if (!done) {
        fail(m, "COMMIT", PQerrorMessage(m->conn));
    }
    PQclear(result);
    return done;
}

/* The table may be there while this role may not create any: so it looks first. */
static bool
ensure_table(struct migrate *m)
{
    PGresult *result = PQexec(m->conn, "SELECT to_regclass('schema_migrations') IS NULL");
    bool asked = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1;
    bool missing = asked && strcmp(PQgetvalue(result, 0, 0), "t") == 0;
    if (!asked) {
        fail(m, "schema_migrations", PQerrorMessage(m->conn));
    }
    PQclear(result);
    return asked && (!missing || run(m, "schema_migrations", table_sql));
}

static int
find_known(int number)
{
    for (int i = 0; i < pg_migration_count; i++) {
        if (pg_migrations[i].number == number) {
            return i;
        }
    }
    return -1;
}

/* One row of schema_migrations; marks its migration as applied. */
static bool
check_row(struct migrate *m, const PGresult *rows, int row, bool *applied)
{
    const char *number = PQgetvalue(rows, row, 0);
    const char *name = PQgetvalue(rows, row, 1);
    int known = find_known(atoi(number));
    char what[128];
    snprintf(what, sizeof(what), "migration %s (%.80s)", number, name);

    if (known < 0 && atoi(number) > pg_migrations[pg_migration_count - 1].number) {
        LOG_EVENT(LOG_WARN, "schema_is_newer", log_text("migration", PQgetvalue(rows, row, 1)));
        return true;
    }
    if (known < 0) {
        return fail(m, what,
                    "is applied here but unknown to this binary, which has later ones: it was "
                    "made for another database");
    }
    if (strcmp(PQgetvalue(rows, row, 2), pg_migrations[known].checksum) != 0) {
        return fail(m, what,
                    "was applied with another text than this binary has: a migration must "
                    "not be edited; put the change into a new one");
    }
    applied[known] = true;
    return true;
}

/* The first migration that is missing; pg_migration_count: none. False: something is wrong. */
static bool
find_missing(struct migrate *m, int *missing)
{
    bool *applied = calloc((size_t)pg_migration_count + 1, sizeof(*applied));
    if (applied == NULL) {
        return fail(m, "migrate", "no memory");
    }
    PGresult *rows =
        PQexec(m->conn, "SELECT number, name, checksum FROM schema_migrations ORDER BY number");
    bool good = PQresultStatus(rows) == PGRES_TUPLES_OK;
    if (!good) {
        fail(m, "schema_migrations", PQerrorMessage(m->conn));
    }
    for (int row = 0; good && row < PQntuples(rows); row++) {
        good = check_row(m, rows, row, applied);
    }
    *missing = 0;
    while (*missing < pg_migration_count && applied[*missing]) {
        (*missing)++;
    }
    PQclear(rows);
    free(applied);
    return good;
}

static bool
apply(struct migrate *m, const struct pg_migration *migration)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", migration->number);
    const char *const values[] = { number, migration->name, migration->checksum };

    if (!run(m, migration->name, migration->sql)) {
        return false;
    }
    PGresult *result = PQexecParams(
        m->conn,
        "INSERT INTO schema_migrations (number, name, checksum) VALUES ($1::integer, $2, $3)", 3,
        NULL, values, NULL, NULL, 0);
    bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!done) {
        fail(m, migration->name, PQerrorMessage(m->conn));
    }
    PQclear(result);
    return done;
}

/* One transaction: at most one migration. */
static enum step
migrate_step(struct migrate *m)
{
    int missing = 0;
    if (!run(m, "BEGIN", "BEGIN") ||
        !run(m, "lock", "SELECT pg_advisory_xact_lock(" LOCK_KEY ")") || !ensure_table(m) ||
        !find_missing(m, &missing)) {
        return STEP_FAILED;
    }
    if (missing == pg_migration_count) {
        return commit(m) ? STEP_NOTHING_LEFT : STEP_FAILED;
    }
    if (!apply(m, &pg_migrations[missing]) || !commit(m)) {
        return STEP_FAILED;
    }
    LOG_EVENT(LOG_INFO, "migration_applied", log_text("name", pg_migrations[missing].name));
    return STEP_APPLIED;
}

/* Without a receiver libpq prints notices on stderr, between our JSON lines. */
static void
ignore_notice(void *context, const PGresult *result)
{
    (void)context;
    (void)result;
}

/* Waits until libpq has the next result whole. */
static bool
await_result(struct migrate *m, struct mono_time deadline)
{
    while (PQisBusy(m->conn)) {
        struct pollfd fd = { .fd = PQsocket(m->conn), .events = POLLIN };
        if (poll(&fd, 1, pg_io_ms_left(deadline)) == 0) {
            return fail(m, "connect", "no answer in time");
        }
        if (PQconsumeInput(m->conn) == 0) {
            return fail(m, "connect", PQerrorMessage(m->conn));
        }
    }
    return true;
}

/* Makes the settings, and waits for the answers no longer than for the connection. */
static bool
set_up(struct migrate *m, struct mono_time deadline)
{
    bool good = PQsendQuery(m->conn, settings_sql) == 1;
    while (good && await_result(m, deadline)) {
        PGresult *result = PQgetResult(m->conn);
        if (result == NULL) {
            return true;
        }
        good = PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
    }
    return good ? false : fail(m, "settings", PQerrorMessage(m->conn));
}

static bool
open_session(struct migrate *m, const struct config *config)
{
    struct mono_time deadline = { mono_now().us + PG_CONNECT_US };
    char why[PG_ERROR_BYTES];
    unsigned host = 0;
    m->conn = pg_dial(config->database_url, "holdfast migrate", &host, deadline, why);
    if (m->conn == NULL) {
        return fail(m, "connect", why);
    }
    PQsetNoticeReceiver(m->conn, ignore_notice, NULL);
    return set_up(m, deadline);
}

bool
pg_migrate(const struct config *config, int *applied, char *error, size_t error_bytes)
{
    struct migrate m = { .error = error, .error_bytes = error_bytes };
    *applied = 0;
    for (int i = 1; i < pg_migration_count; i++) {
        hf_assert(pg_migrations[i - 1].number < pg_migrations[i].number); /* a number used twice */
    }
    enum step step = open_session(&m, config) ? STEP_APPLIED : STEP_FAILED;
    while (step == STEP_APPLIED) {
        step = migrate_step(&m);
        *applied += step == STEP_APPLIED ? 1 : 0;
    }
    if (step == STEP_FAILED && m.conn != NULL && PQstatus(m.conn) == CONNECTION_BAD) {
        fail(&m, "connect", "the server went away during a migration"); /* the next try goes on */
    }
    PQfinish(m.conn); /* rolls back what is open */
    return step == STEP_NOTHING_LEFT;
}
