/*
 * run.c - one statement outside of a transaction block: a command and a Sync.
 */
#include "cold_internal.h"

#include <string.h>

/* All answers of our statements come in binary. */
#define BINARY 1

/* The connection is lost, and with it the answer to something that was sent. */
static enum pg_outcome
lost(const char *sql)
{
    return pg_sql_writes(sql) ? PG_UNKNOWN : PG_UNAVAILABLE;
}

/* What goes out before the Sync. */
struct command {
    const char *name;
    const char *sql;
    bool is_new; /* the statement is used for the first time: it is prepared ahead of the command */
    enum pg_statement statement;
};

/* The answer to the command, or why it was skipped. NULL: the connection is lost. */
static PGresult *
read_answer(struct pg *pg, const struct command *command, struct mono_time deadline)
{
    PGresult *result = pg_io_answer(pg, deadline);
    if (result == NULL || !command->is_new) {
        return result;
    }
    if (!pg_session_saw_parse(pg, command->statement, result)) {
        if (!pg_result_is_fatal(result)) {
            PQclear(pg_io_answer(pg, deadline)); /* skipped, says the server */
        }
        return result;
    }
    PQclear(result);
    return pg_io_answer(pg, deadline);
}

/* What the answer to the one command and to its Sync say; *result is the command's, if any. */
static enum pg_outcome
read_outcome(struct pg *pg, const struct command *command, struct mono_time deadline,
             PGresult **result)
{
    *result = read_answer(pg, command, deadline);
    if (*result == NULL) {
        return lost(command->sql);
    }
    ExecStatusType status = PQresultStatus(*result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        enum pg_outcome outcome = pg_note_result(pg, *result);
        if (pg_result_is_fatal(*result)) {
            pg_log_failure(pg, "postgres_lost", NULL);
            pg_drop(pg);
        } else if (pg->conn != NULL) {
            (void)pg_io_sync(pg, deadline); /* the first failure counts */
        }
        return outcome;
    }
    /* The Sync is what commits: without its answer a write may be done or not. */
    enum pg_outcome outcome = pg_io_sync(pg, deadline);
    return outcome == PG_UNKNOWN ? lost(command->sql) : outcome;
}

static enum pg_outcome
finish(struct pg *pg, const struct command *command, struct mono_time deadline,
       struct pg_result **result_out)
{
    PGresult *result = NULL;
    enum pg_outcome outcome = read_outcome(pg, command, deadline, &result);
    if (outcome == PG_DONE && result_out != NULL) {
        *result_out = pg_result_of(result);
        return PG_DONE;
    }
    PQclear(result);
    if (outcome == PG_BUG) {
        pg_log_failure(pg, "postgres_statement", command->name);
    }
    if (outcome != PG_DONE && pg_sqlstate_spoils_session(pg->sqlstate)) {
        pg_drop(pg);
    }
    return outcome;
}

/* `queued` tells whether the command went into the pipeline. */
static enum pg_outcome
run(struct pg *pg, bool queued, const struct command *command, struct mono_time deadline,
    struct pg_result **result)
{
    if (!queued || PQpipelineSync(pg->conn) != 1) {
        pg_io_lost(pg, PQerrorMessage(pg->conn));
        return lost(command->sql);
    }
    return finish(pg, command, deadline, result);
}

enum pg_outcome
pg_run(struct pg *pg, enum pg_statement statement, const struct pg_params *params,
       struct mono_time deadline, struct pg_result **result)
{
    hf_assert(!pg->tx.open);
    if (result != NULL) {
        *result = NULL;
    }
    if (pg->conn == NULL) {
        return PG_UNAVAILABLE;
    }
    if (params->failed) {
        pg_note_error(pg, "", "no memory for parameters");
        return PG_UNAVAILABLE;
    }
    const struct pg_statement_text *text = &pg_statements[statement];
    const struct command command = { text->name, text->sql, !pg->prepared[statement], statement };
    bool queued = (!command.is_new || pg_session_queue_parse(pg, statement)) &&
                  PQsendQueryPrepared(pg->conn, text->name, params->count, params->values,
                                      params->lengths, params->formats, BINARY) == 1;
    return run(pg, queued, &command, deadline, result);
}

enum pg_outcome
pg_run_text(struct pg *pg, const char *sql, int count, const char *const *values,
            struct mono_time deadline, struct pg_result **result)
{
    hf_assert(!pg->tx.open);
    if (result != NULL) {
        *result = NULL;
    }
    if (pg->conn == NULL) {
        return PG_UNAVAILABLE;
    }
    const struct command command = { .name = "text", .sql = sql };
    bool queued = PQsendQueryParams(pg->conn, sql, count, NULL, values, NULL, NULL, BINARY) == 1;
    return run(pg, queued, &command, deadline, result);
}

enum pg_outcome
pg_replan(struct pg *pg)
{
    struct mono_time deadline = { mono_now().us + PG_ASIDE_US };
    return pg_run_text(pg, "DISCARD PLANS", 0, NULL, deadline, NULL);
}

const char *
pg_report_text(enum pg_report report)
{
    hf_assert(report < REPORT_COUNT);
    return pg_reports[report].sql;
}
