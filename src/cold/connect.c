/*
 * connect.c - opening and dropping a connection, and not trying too often.
 *
 * libpq's own blocking connect is used, because only it goes on to the next host and address of
 * DATABASE_URL when one doesn't answer in time; it runs on threads that may block.
 */
#include "cold_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"

struct pg *
pg_new(const struct config *config, const char *application_name, struct pg_identity *identity,
       struct db_clock *clock)
{
    struct pg *pg = calloc(1, sizeof(*pg));
    if (pg == NULL) {
        return NULL;
    }
    pg->config = config;
    pg->identity = identity;
    pg->clock = clock;
    snprintf(pg->application_name, sizeof(pg->application_name), "%s", application_name);
    return pg;
}

void
pg_free(struct pg **pg)
{
    if (*pg != NULL) {
        pg_drop(*pg);
        free(*pg);
        *pg = NULL;
    }
}

bool
pg_is_connected(const struct pg *pg)
{
    return pg->conn != NULL;
}

void
pg_drop(struct pg *pg)
{
    if (pg->conn == NULL) {
        return;
    }
    PQfinish(pg->conn);
    pg->conn = NULL;
    metric_adjust(METRIC_PG_CONNECTIONS, -1);
}

const char *
pg_last_error(const struct pg *pg)
{
    return pg->error;
}

const char *
pg_last_sqlstate(const struct pg *pg)
{
    return pg->sqlstate;
}

PGconn *
pg_connect_plain(const struct config *config, const char *application_name)
{
    /* What stands before dbname (where libpq expands the URL) is a default that the URL may
     * override; what stands after it is not for the URL to say. */
    const char *const parameters[][2] = {
        { "application_name", application_name },
        { "connect_timeout", PG_CONNECT_TIMEOUT_S },
        { "keepalives_idle", "5" },
        { "keepalives_interval", "2" },
        { "keepalives_count", "3" },
        { "tcp_user_timeout", "5000" },
        { "target_session_attrs", "read-write" },
        { "dbname", config->database_url },
        { "client_encoding", "UTF8" },
        { NULL, NULL },
    };
    const char *names[sizeof(parameters) / sizeof(parameters[0])];
    const char *values[sizeof(parameters) / sizeof(parameters[0])];
    for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
        names[i] = parameters[i][0];
        values[i] = parameters[i][1];
    }
    return PQconnectdbParams(names, values, 1);
}

/* --- backoff ------------------------------------------------------------------ */

/* A second failure waits twice as long, up to a limit; the jitter keeps workers and nodes apart. */
static void
back_off(struct pg *pg)
{
    int64_t us = pg->backoff_us == 0 ? PG_BACKOFF_MIN_US : pg->backoff_us * 2;
    pg->backoff_us = us < PG_BACKOFF_MAX_US ? us : PG_BACKOFF_MAX_US;

    struct uuid dice = uuid_v7_new(); /* its last bytes are random */
    int64_t jitter = pg->backoff_us / 2 * dice.bytes[15] / 255;
    pg->try_at.us = mono_now().us + pg->backoff_us / 2 + jitter;
}

static void
connect_failed(struct pg *pg)
{
    pg_log_failure(pg, "postgres_unavailable", NULL);
    metric_add(METRIC_PG_FAILURES_TOTAL, 1);
    metric_set(METRIC_PG_UP, 0);
    pg_drop(pg);
    back_off(pg);
}

/* --- connecting ----------------------------------------------------------------- */

/*
 * Warnings during COMMIT mean that it isn't what it seems (tx.c); the rest is of no interest.
 * libpq parses notices ahead of the results that its user has taken, by one command at most.
 */
static void
notice(void *context, const PGresult *result)
{
    struct pg *pg = context;
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity == NULL || strcmp(severity, "WARNING") != 0) {
        return;
    }
    if (pg->tx.open && pg->tx.commit_sent && pg->tx.answered + 1 >= pg->tx.commit_at) {
        pg->tx.warned = true;
        pg_note_result(pg, result);
    }
}

static bool
open_connection(struct pg *pg)
{
    PGconn *conn = pg_connect_plain(pg->config, pg->application_name);
    if (conn == NULL || PQstatus(conn) != CONNECTION_OK) {
        pg_note_error(pg, "", conn != NULL ? PQerrorMessage(conn) : "no memory");
        PQfinish(conn);
        return false;
    }
    PQsetNoticeReceiver(conn, notice, pg);
    pg->conn = conn;
    metric_add(METRIC_PG_CONNECTS_TOTAL, 1);
    metric_adjust(METRIC_PG_CONNECTIONS, 1);
    if (PQsetnonblocking(conn, 1) != 0 || PQenterPipelineMode(conn) != 1) {
        pg_note_error(pg, "", PQerrorMessage(conn));
        return false;
    }
    return true;
}

/* True: nothing speaks against this session. A server that went away left word in the socket. */
static bool
still_good(struct pg *pg)
{
    if (pg->generation != pg_identity_generation(pg->identity)) {
        pg_note_error(pg, "", "the session belongs to the server of before");
        return false;
    }
    /* Its last words, then its end: two reads. Anything else is a notice or a changed parameter. */
    struct pollfd fd = { .fd = PQsocket(pg->conn), .events = POLLIN };
    for (int reads = 0; reads < 8 && poll(&fd, 1, 0) > 0; reads++) {
        if (PQconsumeInput(pg->conn) == 0) {
            pg_note_error(pg, "", PQerrorMessage(pg->conn));
            return false;
        }
    }
    return true;
}

static bool
refresh_clock(struct pg *pg)
{
    struct mono_time now = mono_now();
    if (now.us - pg->clock_at.us < PG_CLOCK_EVERY_US) {
        return true;
    }
    struct mono_time deadline = { now.us + PG_SESSION_US };
    return pg_session_observe_clock(pg, deadline);
}

bool
pg_ready(struct pg *pg)
{
    hf_assert(!pg->tx.open);
    if (pg->conn != NULL && !still_good(pg)) {
        pg_log_failure(pg, "postgres_lost", NULL);
        pg_drop(pg);
    }
    if (pg->conn != NULL) {
        return refresh_clock(pg);
    }
    if (mono_now().us < pg->try_at.us) {
        return false;
    }
    if (!open_connection(pg) || !pg_session_open(pg)) {
        connect_failed(pg);
        return false;
    }
    if (pg->logged[0] != '\0') {
        LOG_EVENT(LOG_INFO, "postgres_connected", log_text("connection", pg->application_name));
    }
    pg->logged[0] = '\0';
    pg->backoff_us = 0;
    metric_set(METRIC_PG_UP, 1);
    return true;
}
