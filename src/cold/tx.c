/*
 * tx.c - one transaction as one pipeline, and what became of it.
 *
 * The commands of a transaction and their answers, in order:
 *
 *   BEGIN | insert_batch | the caller's statements ... | COMMIT | Sync
 *
 * A statement's text goes ahead of the first command that uses it. Prepared statements outlive a
 * transaction that failed, but for those that the server skipped.
 *
 * One failure counts, the first. After it the server skips what follows up to the Sync, the COMMIT
 * too, and the transaction stays open in its failed state: pg_tx_end rolls it back.
 *
 * pg_tx_flush asks for answers by a Sync of its own, not by a Flush: within BEGIN it ends nothing,
 * and only after a Sync does the server watch idle_in_transaction_session_timeout. A node that is
 * stopped before its COMMIT would else keep its locks for as long as its socket lives.
 *
 * What a lost connection means depends on one thing: was COMMIT queued? Before, the server can't
 * have committed (PG_UNAVAILABLE). After, nobody here knows (PG_UNKNOWN); the bytes may have left
 * at any moment from then on. An error that was received says for certain that it did not commit.
 *
 * statement_timeout needs no care: Postgres stops its timer before it commits (finish_xact_command
 * in its postgres.c; a test holds that). What can cut COMMIT's wait for a synchronous standby short
 * is somebody's pg_cancel_backend: then COMMIT has its tag, but a warning came with it.
 */
#include "cold_internal.h"

#include <string.h>

#define BINARY   1
#define AT_BEGIN 0
#define AT_BATCH 1
#define NO_SYNC  (-1)

/* --- failing ------------------------------------------------------------------ */

static void
tx_fail(struct pg *pg, enum pg_outcome outcome)
{
    if (!pg->tx.failed) {
        pg->tx.failed = true;
        pg->tx.failure = outcome;
    }
}

/* The connection is gone (io.c has closed it). */
static void
tx_lost(struct pg *pg)
{
    tx_fail(pg, pg->tx.commit_sent ? PG_UNKNOWN : PG_UNAVAILABLE);
}

/* A command could not be queued: libpq has no memory or no connection. */
static void
tx_not_queued(struct pg *pg)
{
    if (pg->conn != NULL) {
        pg_io_lost(pg, PQerrorMessage(pg->conn));
    }
    tx_lost(pg);
}

/* The connection works, but this transaction is not what was asked for. */
static void
tx_wrong(struct pg *pg, enum pg_outcome outcome, const char *why)
{
    if (!pg->tx.failed) {
        pg_note_error(pg, "", why);
        pg_log_failure(pg, "postgres_transaction", NULL);
    }
    tx_fail(pg, outcome);
}

/* --- queueing ------------------------------------------------------------------- */

static void
queued(struct pg *pg, int sent, const char *name)
{
    if (sent != 1) {
        tx_not_queued(pg);
        return;
    }
    if (pg->tx.queued < PG_TX_NAMED_MAX) {
        pg->tx.names[pg->tx.queued] = name;
    }
    pg->tx.queued++;
    pg->tx.flushed = false;
}

static void
queue_text(struct pg *pg, const char *sql, int count, const char *const *values)
{
    queued(pg, PQsendQueryParams(pg->conn, sql, count, NULL, values, NULL, NULL, BINARY), sql);
}

/* Its answer comes right before that of the next command. */
static void
queue_parse(struct pg *pg, enum pg_statement statement)
{
    pg->tx.parses[pg->tx.parses_queued++] = (struct pg_parse){ pg->tx.queued, statement };
    if (!pg_session_queue_parse(pg, statement)) {
        tx_not_queued(pg);
    }
}

static void
queue_statement(struct pg *pg, enum pg_statement statement, const struct pg_params *params)
{
    if (!pg->prepared[statement]) {
        queue_parse(pg, statement);
    }
    if (pg->tx.failed) {
        return;
    }
    const char *name = pg_statements[statement].name;
    queued(pg,
           PQsendQueryPrepared(pg->conn, name, params->count, params->values, params->lengths,
                               params->formats, BINARY),
           name);
}

/* True while commands may go out: the transaction is open, whole and connected. */
static bool
tx_usable(const struct pg *pg)
{
    hf_assert(pg->tx.open && !pg->tx.closed);
    return !pg->tx.failed;
}

void
pg_tx_begin(struct pg *pg, const struct uuid *batch_id, struct mono_time deadline)
{
    hf_assert(!pg->tx.open);
    pg->tx =
        (struct pg_tx){ .open = true, .deadline = deadline, .flushed = true, .sync_at = NO_SYNC };
    if (pg->conn == NULL) {
        tx_lost(pg);
        return;
    }
    queue_text(pg, "BEGIN", 0, NULL);
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, batch_id);
    if (tx_usable(pg)) {
        queue_statement(pg, STATEMENT_INSERT_BATCH, &params);
    }
}

void
pg_tx_send(struct pg *pg, enum pg_statement statement, const struct pg_params *params)
{
    if (!tx_usable(pg)) {
        return;
    }
    if (params->failed) {
        tx_wrong(pg, PG_UNAVAILABLE, "no memory for parameters");
        return;
    }
    queue_statement(pg, statement, params);
}

void
pg_tx_send_text(struct pg *pg, const char *sql, int count, const char *const *values)
{
    if (tx_usable(pg)) {
        queue_text(pg, sql, count, values);
    }
}

/* Reads the answer to the Sync of a flush. */
static void
read_sync(struct pg *pg)
{
    pg->tx.sync_at = NO_SYNC;
    enum pg_outcome outcome = pg_io_sync(pg, pg->tx.deadline);
    if (pg->conn == NULL) {
        tx_lost(pg);
    } else if (outcome != PG_DONE) {
        tx_fail(pg, outcome);
    }
}

/* One Sync is under way at most; while answers before it are unread a Flush has to do. */
static bool
queue_flush(struct pg *pg)
{
    if (pg->tx.sync_at != NO_SYNC) {
        return PQsendFlushRequest(pg->conn) == 1;
    }
    pg->tx.sync_at = pg->tx.queued;
    return PQpipelineSync(pg->conn) == 1;
}

void
pg_tx_flush(struct pg *pg)
{
    if (!tx_usable(pg) || pg->tx.flushed) {
        return;
    }
    if (pg->tx.sync_at == pg->tx.answered) {
        read_sync(pg); /* it came with the last answer: no wait */
    }
    if (pg->tx.failed) {
        return;
    }
    if (!queue_flush(pg)) {
        tx_not_queued(pg);
        return;
    }
    pg->tx.flushed = true;
    if (!pg_io_push(pg)) {
        tx_lost(pg);
    }
}

/* After a Sync the server answers all that came before it. */
static void
queue_sync(struct pg *pg)
{
    if (pg->conn == NULL) {
        return;
    }
    if (PQpipelineSync(pg->conn) != 1) {
        tx_not_queued(pg);
        return;
    }
    pg->tx.flushed = true;
}

static bool
tx_is_late(const struct pg *pg)
{
    return mono_now().us >= pg->tx.deadline.us;
}

void
pg_tx_commit(struct pg *pg)
{
    if (tx_usable(pg) && tx_is_late(pg)) {
        pg_io_lost(pg, "the deadline passed before COMMIT"); /* so it never commits */
        tx_lost(pg);
    }
    pg->tx.statements_end = pg->tx.queued;
    if (tx_usable(pg)) {
        pg->tx.commit_at = pg->tx.queued;
        pg->tx.commit_sent = true;
        queue_text(pg, "COMMIT", 0, NULL);
    }
    queue_sync(pg);
    pg->tx.closed = true;
}

void
pg_tx_rollback(struct pg *pg)
{
    pg->tx.statements_end = pg->tx.queued;
    if (tx_usable(pg)) {
        queue_text(pg, "ROLLBACK", 0, NULL);
    }
    queue_sync(pg);
    pg->tx.closed = true;
}

/* --- answers ---------------------------------------------------------------------- */

static const char *
name_at(const struct pg *pg, int at)
{
    return at < PG_TX_NAMED_MAX ? pg->tx.names[at] : NULL;
}

/* The command at `at` failed, the session lives on. */
static enum pg_outcome
error_at(struct pg *pg, int at)
{
    enum pg_outcome outcome = pg_classify(pg->sqlstate);
    if (at == AT_BATCH && outcome == PG_DATA_ERROR) {
        outcome =
            PG_BUG; /* this batch id was used before: no request's fault, splitting can't help */
    }
    if (outcome == PG_BUG) {
        pg_log_failure(pg, "postgres_statement", name_at(pg, at));
    }
    return outcome;
}

/*
 * The session ends with the answer at `at`. Was it said in place of a statement's answer, COMMIT
 * was never run; in place of COMMIT's, or made up by libpq (no memory for a result), who knows.
 */
static enum pg_outcome
fatal_at(struct pg *pg, int at)
{
    pg_log_failure(pg, "postgres_lost", name_at(pg, at));
    pg_drop(pg);
    if (!pg->tx.commit_sent) {
        return PG_UNAVAILABLE;
    }
    return pg->sqlstate[0] == '\0' || at >= pg->tx.commit_at ? PG_UNKNOWN : PG_UNAVAILABLE;
}

static void
fail_with(struct pg *pg, const PGresult *result, int at)
{
    if (PQresultStatus(result) == PGRES_PIPELINE_ABORTED) {
        return; /* a command before it failed and said why */
    }
    if (pg->tx.failed && !pg_result_is_fatal(result)) {
        return; /* the same, behind the Sync of a flush: 25P02 to each command */
    }
    pg_note_result(pg, result);
    tx_fail(pg, pg_result_is_fatal(result) ? fatal_at(pg, at) : error_at(pg, at));
}

/* NULL: the connection is gone. */
static PGresult *
read_answer(struct pg *pg)
{
    PGresult *result = pg->conn == NULL ? NULL : pg_io_answer(pg, pg->tx.deadline);
    if (result == NULL) {
        tx_lost(pg);
    }
    return result;
}

/* A statement that is used for the first time, before the command at `at`. */
static void
read_parse(struct pg *pg, int at)
{
    const struct pg_parse *parse = &pg->tx.parses[pg->tx.parses_answered];
    if (pg->tx.parses_answered == pg->tx.parses_queued || parse->before != at) {
        return;
    }
    pg->tx.parses_answered++;
    PGresult *result = read_answer(pg);
    if (result != NULL && !pg_session_saw_parse(pg, parse->statement, result)) {
        fail_with(pg, result, at);
    }
    PQclear(result);
}

/* The answer to the next command. NULL: the transaction has failed. */
static PGresult *
next_answer(struct pg *pg)
{
    int at = pg->tx.answered;
    if (pg->tx.sync_at == at) {
        read_sync(pg);
    }
    read_parse(pg, at);
    PGresult *result = read_answer(pg);
    if (result == NULL) {
        return NULL;
    }
    pg->tx.answered++;
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
        return result;
    }
    fail_with(pg, result, at);
    PQclear(result);
    return NULL;
}

static bool
tag_is(const PGresult *result, const char *tag)
{
    return strcmp(PQcmdStatus((PGresult *)result), tag) == 0; /* not const in libpq's header only */
}

/* Reads the answers to BEGIN and to the insert of the batch id. */
static void
read_opening(struct pg *pg)
{
    static const char *const tags[] = { [AT_BEGIN] = "BEGIN", [AT_BATCH] = "INSERT 0 1" };

    while (!pg->tx.failed && pg->tx.answered <= AT_BATCH) {
        const char *tag = tags[pg->tx.answered];
        PGresult *result = next_answer(pg);
        if (result != NULL && !tag_is(result, tag)) {
            tx_wrong(pg, pg->tx.commit_sent ? PG_UNKNOWN : PG_BUG, "it did not open as it should");
        }
        PQclear(result);
    }
}

struct pg_result *
pg_tx_next(struct pg *pg)
{
    hf_assert(pg->tx.open);
    if (!pg->tx.closed && !pg->tx.failed) {
        pg_tx_flush(pg); /* a no-op if the caller did: the server would never answer else */
    }
    read_opening(pg);
    if (pg->tx.failed) {
        return NULL;
    }
    int end = pg->tx.closed ? pg->tx.statements_end : pg->tx.queued;
    hf_assert(pg->tx.answered < end); /* more results than statements were asked for */
    return pg_result_of(next_answer(pg));
}

/* --- the end ---------------------------------------------------------------------- */

static void
check_commit(struct pg *pg, const PGresult *result)
{
    if (!tag_is(result, "COMMIT")) {
        tx_wrong(pg, PG_BUG, "COMMIT was answered with another tag");
    }
}

/* Reads every answer that is due before the Sync's, failed or not, so that the session stays in
 * step. */
static void
read_rest(struct pg *pg)
{
    if (!pg->tx.failed) {
        read_opening(pg);
    }
    while (pg->conn != NULL && pg->tx.answered < pg->tx.queued) {
        bool is_commit = pg->tx.commit_sent && pg->tx.answered == pg->tx.commit_at;
        PGresult *result = next_answer(pg);
        if (result != NULL && is_commit) {
            check_commit(pg, result);
        }
        PQclear(result);
    }
    if (pg->conn != NULL && pg->tx.sync_at != NO_SYNC) {
        read_sync(pg);
    }
    if (pg->conn == NULL || pg_io_sync(pg, pg->tx.deadline) == PG_DONE) {
        return;
    }
    /* COMMIT's tag comes before its Sync's answer: when it was read, the outcome is known already.
     */
    if (!pg->tx.commit_sent || pg->tx.answered <= pg->tx.commit_at) {
        tx_lost(pg);
    }
}

/* A failed transaction is still open on the server. Best effort: without a connection it is over
 * too. */
static void
roll_back_failed(struct pg *pg)
{
    if (pg->conn == NULL || PQtransactionStatus(pg->conn) == PQTRANS_IDLE) {
        return;
    }
    if (PQsendQueryParams(pg->conn, "ROLLBACK", 0, NULL, NULL, NULL, NULL, BINARY) != 1 ||
        PQpipelineSync(pg->conn) != 1) {
        pg_drop(pg);
        return;
    }
    PGresult *result = pg_io_answer(pg, pg->tx.deadline);
    bool done = result != NULL && PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    if (!done || pg_io_sync(pg, pg->tx.deadline) != PG_DONE) {
        pg_drop(pg);
    }
}

/* Leaves the session fit for the next transaction, or closed; the error stays that of the failure.
 */
static void
clean_up_failed(struct pg *pg)
{
    char sqlstate[PG_SQLSTATE_BYTES], error[PG_ERROR_BYTES];
    memcpy(sqlstate, pg->sqlstate, sizeof(sqlstate));
    memcpy(error, pg->error, sizeof(error));

    if (pg->tx.failure == PG_UNKNOWN || pg_sqlstate_spoils_session(sqlstate)) {
        pg_drop(pg);
    }
    roll_back_failed(pg);
    memcpy(pg->sqlstate, sqlstate, sizeof(sqlstate));
    memcpy(pg->error, error, sizeof(error));
}

enum pg_outcome
pg_tx_end(struct pg *pg)
{
    hf_assert(pg->tx.open && pg->tx.closed);
    read_rest(pg);
    if (!pg->tx.failed && pg->tx.warned) {
        tx_fail(pg, PG_UNKNOWN); /* committed here, but not as durably as was asked for */
        pg_log_failure(pg, "postgres_commit_warning", NULL);
    }
    if (pg->tx.failed) {
        clean_up_failed(pg);
    }
    pg->tx.open = false;
    return pg->tx.failed ? pg->tx.failure : PG_DONE;
}
