/*
 * connect.c - opening and dropping a connection, and not trying too often.
 *
 * Whoever asks for a connection gives the time that it has. With too little left nothing is tried:
 * a try that is broken off halfway helps nobody and would have to be paid for with a backoff.
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

/* One line for all connections and tries, until the reason is another one or it works again. */
static void
log_trouble(struct pg *pg, const char *event)
{
    if (pg_identity_trouble_is_news(pg->identity, pg->error)) {
        LOG_EVENT(LOG_ERROR, event, log_text("connection", pg->application_name),
                  log_text("host", pg->conn != NULL ? PQhost(pg->conn) : NULL),
                  log_text("port", pg->conn != NULL ? PQport(pg->conn) : NULL),
                  log_text("sqlstate", pg->sqlstate), log_text("error", pg->error));
    }
}

static void
connect_failed(struct pg *pg, const char *event)
{
    log_trouble(pg, event);
    metric_add(METRIC_PG_FAILURES_TOTAL, 1);
    metric_set(METRIC_PG_UP, 0);
    pg_drop(pg);
    back_off(pg);
}

static void
connected(struct pg *pg)
{
    bool was_lost = pg->logged[0] != '\0';
    if (pg_identity_trouble_is_over(pg->identity) || was_lost) {
        LOG_EVENT(LOG_INFO, "postgres_connected", log_text("connection", pg->application_name));
    }
    pg->logged[0] = '\0';
    pg->backoff_us = 0;
    metric_set(METRIC_PG_UP, 1);
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

static struct mono_time
sooner(struct mono_time deadline, int64_t limit_us)
{
    int64_t us = mono_now().us + limit_us;
    return (struct mono_time){ us < deadline.us ? us : deadline.us };
}

static bool
open_connection(struct pg *pg, unsigned *host, struct mono_time deadline)
{
    char error[PG_ERROR_BYTES];
    PGconn *conn = pg_dial(pg->config->database_url, pg->application_name, host, deadline, error);
    if (conn == NULL) {
        pg_note_error(pg, "", error);
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
refresh_clock(struct pg *pg, struct mono_time deadline)
{
    if (mono_now().us - pg->clock_at.us < PG_CLOCK_EVERY_US) {
        return true;
    }
    return pg_session_observe_clock(pg, sooner(deadline, PG_ASIDE_US));
}

/* A server may take connections, but none that we can use: then the next host is tried next. */
static bool
connect_anew(struct pg *pg, struct mono_time deadline)
{
    unsigned host = pg_identity_first_host(pg->identity);
    if (!open_connection(pg, &host, sooner(deadline, PG_CONNECT_US))) {
        connect_failed(pg, "postgres_unavailable");
        return false;
    }
    bool usable = pg_session_open(pg, deadline);
    pg_identity_prefer_host(pg->identity, usable ? host : host + 1);
    if (!usable) {
        connect_failed(pg, pg->conn != NULL ? "postgres_unusable" : "postgres_unavailable");
        return false;
    }
    connected(pg);
    return true;
}

static bool
has_time(struct mono_time deadline)
{
    return deadline.us - mono_now().us >= PG_TRY_LEAST_US;
}

bool
pg_ready_until(struct pg *pg, struct mono_time deadline)
{
    hf_assert(!pg->tx.open);
    if (pg->conn != NULL && !still_good(pg)) {
        pg_log_failure(pg, "postgres_lost", NULL);
        pg_drop(pg);
    }
    if (pg->conn != NULL && (!has_time(deadline) || refresh_clock(pg, deadline))) {
        return true;
    }
    pg_drop(pg); /* a session that is silent is as good as lost */
    return has_time(deadline) && mono_now().us >= pg->try_at.us && connect_anew(pg, deadline);
}

bool
pg_ready(struct pg *pg)
{
    return pg_ready_until(pg, (struct mono_time){ mono_now().us + PG_READY_US });
}
