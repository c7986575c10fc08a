/*
 * io.c - waiting for Postgres, never past a deadline.
 *
 * The socket is non-blocking and the connection in pipeline mode, where libpq hands out, for each
 * command, one result and then NULL, and for a Sync one result alone. A connection on which
 * something was lost, late or out of order is closed here at once: whoever waits for an answer
 * sees NULL, and tx.c and run.c know what that means for what they had sent.
 */
#include "cold_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"

/* --- errors ---------------------------------------------------------------- */

void
pg_copy_line(char *out, size_t bytes, const char *text)
{
    size_t n = 0;
    for (; *text != '\0' && n + 1 < bytes; text++) {
        char c = *text == '\n' || *text == '\t' ? ' ' : *text;
        if (c != ' ' || n == 0 || out[n - 1] != ' ') {
            out[n++] = c;
        }
    }
    while (n > 0 && out[n - 1] == ' ') {
        n--;
    }
    out[n] = '\0';
}

void
pg_note_error(struct pg *pg, const char *sqlstate, const char *text)
{
    snprintf(pg->sqlstate, sizeof(pg->sqlstate), "%s", sqlstate != NULL ? sqlstate : "");
    pg_copy_line(pg->error, sizeof(pg->error), text != NULL ? text : "");
}

enum pg_outcome
pg_note_result(struct pg *pg, const PGresult *result)
{
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    pg_note_error(pg, PQresultErrorField(result, PG_DIAG_SQLSTATE),
                  text != NULL ? text : PQresultErrorMessage(result));
    return pg_classify(pg->sqlstate);
}

bool
pg_result_is_fatal(const PGresult *result)
{
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    return severity == NULL || strcmp(severity, "ERROR") != 0;
}

void
pg_log_failure(struct pg *pg, const char *what, const char *statement)
{
    if (strcmp(pg->logged, pg->error) == 0) {
        return;
    }
    snprintf(pg->logged, sizeof(pg->logged), "%s", pg->error);
    LOG_EVENT(LOG_ERROR, what, log_text("connection", pg->application_name),
              log_text("statement", statement), log_text("sqlstate", pg->sqlstate),
              log_text("error", pg->error));
}

void
pg_io_lost(struct pg *pg, const char *why)
{
    if (pg->conn == NULL) {
        return;
    }
    pg_note_error(pg, "", why);
    pg_log_failure(pg, "postgres_lost", NULL);
    metric_add(METRIC_PG_FAILURES_TOTAL, 1);
    metric_set(METRIC_PG_UP, 0);
    pg_drop(pg);
}

/* --- waiting --------------------------------------------------------------- */

int
pg_io_ms_left(struct mono_time deadline)
{
    int64_t us = deadline.us - mono_now().us;
    if (us <= 0) {
        return 0;
    }
    int64_t ms = (us + TIME_US_PER_MS - 1) / TIME_US_PER_MS;
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* Sends and receives what the socket allows, waiting until it allows something. */
static bool
step(struct pg *pg, struct mono_time deadline)
{
    int unsent = PQflush(pg->conn);
    if (unsent < 0) {
        pg_io_lost(pg, PQerrorMessage(pg->conn));
        return false;
    }
    struct pollfd fd = { .fd = PQsocket(pg->conn), .events = POLLIN };
    if (unsent > 0) {
        fd.events |= POLLOUT;
    }
    int ready = poll(&fd, 1, pg_io_ms_left(deadline));
    if (ready == 0) {
        pg_io_lost(pg, "no answer before the deadline");
        return false;
    }
    if (ready < 0 && errno != EINTR) {
        pg_io_lost(pg, strerror(errno));
        return false;
    }
    if (ready > 0 && (fd.revents & ~POLLOUT) != 0 && PQconsumeInput(pg->conn) == 0) {
        pg_io_lost(pg, PQerrorMessage(pg->conn));
        return false;
    }
    return true;
}

bool
pg_io_push(struct pg *pg)
{
    if (PQflush(pg->conn) < 0) {
        pg_io_lost(pg, PQerrorMessage(pg->conn));
        return false;
    }
    return true; /* what is left goes out while the answers are waited for */
}

PGresult *
pg_io_result(struct pg *pg, struct mono_time deadline)
{
    if (pg->conn == NULL) {
        return NULL;
    }
    while (PQisBusy(pg->conn)) {
        if (!step(pg, deadline)) {
            return NULL;
        }
    }
    return PQgetResult(pg->conn);
}

PGresult *
pg_io_answer(struct pg *pg, struct mono_time deadline)
{
    PGresult *result = pg_io_result(pg, deadline);
    if (result == NULL) {
        pg_io_lost(pg, "an answer is missing");
        return NULL;
    }
    PGresult *more = pg_io_result(pg, deadline);
    if (more != NULL) {
        PQclear(more);
        PQclear(result);
        pg_io_lost(pg, "an answer too many");
        return NULL;
    }
    return result;
}

enum pg_outcome
pg_io_sync(struct pg *pg, struct mono_time deadline)
{
    enum pg_outcome outcome = PG_DONE;
    PGresult *result = pg_io_result(pg, deadline);
    if (result != NULL && PQresultStatus(result) == PGRES_FATAL_ERROR &&
        !pg_result_is_fatal(result)) {
        outcome = pg_note_result(pg, result);
        PQclear(result);
        PQclear(pg_io_result(pg, deadline)); /* the NULL behind it */
        result = pg_io_result(pg, deadline);
    }
    if (result != NULL && PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
        PQclear(result);
        return outcome;
    }
    PQclear(result);
    pg_io_lost(pg, "the answer to a Sync is missing");
    return outcome == PG_DONE ? PG_UNKNOWN : outcome;
}
