/*
 * plans.c - are the statements' plans those that we count on?
 *
 * Two looks. With all ways made expensive that read a table as a whole (sequential scans, hash and
 * merge joins), a scan that is left means that no index can serve the statement, and an index
 * without a condition that all of it is walked: true on a table of any size, so tests can ask.
 * With the planner's free choice, either counts only on a table that has grown: on a small one it
 * is right.
 */
#include "cold_internal.h"

#include <stdio.h>
#include <string.h>

#include "holdfast/log.h"

#define CHECK_US    (30 * INT64_C(1000000))
#define GROWN_BYTES (8 * INT64_C(1024) * 1024)

static const char *const growing[] = { "seats", "seat_holds", "audit_log", "batches",
                                       "idempotency_keys" };
#define GROWING_COUNT (int)(sizeof(growing) / sizeof(growing[0]))

struct check {
    struct pg *pg;
    struct buf *report; /* may be NULL */
    struct mono_time deadline;
    bool free_choice;
};

/* The growing table that `line` scans in the way of `scan` ("Seq Scan on "); NULL: none. */
static const char *
scanned_table(struct slice line, const char *scan)
{
    const char *at = memmem(line.ptr, line.len, scan, strlen(scan));
    if (at == NULL) {
        return NULL;
    }
    at += strlen(scan);
    size_t left = line.len - (size_t)(at - line.ptr);
    for (int i = 0; i < GROWING_COUNT; i++) {
        size_t len = strlen(growing[i]); /* a partition's name begins with its table's */
        if (left >= len && memcmp(at, growing[i], len) == 0) {
            return growing[i];
        }
    }
    return NULL;
}

static bool
has_grown(struct check *check, const char *table, bool *grown)
{
    const char *const values[] = { table };
    struct pg_result *result = NULL;
    if (pg_run_text(check->pg, "SELECT pg_relation_size($1::regclass)", 1, values, check->deadline,
                    &result) != PG_DONE) {
        return false;
    }
    *grown = pg_get_int(result, 0, 0) >= GROWN_BYTES;
    pg_result_free(&result);
    return true;
}

/* "Index Scan using x on seats s" with no "Index Cond:" in the line below it. */
static const char *
walked_table(const struct pg_result *plan, int row)
{
    struct slice line = pg_get_text(plan, row, 0);
    if (memmem(line.ptr, line.len, "Index", 5) == NULL ||
        memmem(line.ptr, line.len, " using ", 7) == NULL) {
        return NULL;
    }
    if (row + 1 < pg_rows(plan)) {
        struct slice next = pg_get_text(plan, row + 1, 0);
        if (memmem(next.ptr, next.len, "Index Cond:", 11) != NULL) {
            return NULL;
        }
    }
    return scanned_table(line, " on ");
}

/* The growing table that this line of the plan reads as a whole; NULL: none. */
static const char *
read_whole(const struct pg_result *plan, int row)
{
    const char *table = scanned_table(pg_get_text(plan, row, 0), "Seq Scan on ");
    return table != NULL ? table : walked_table(plan, row);
}

/* 1: this line of the plan is bad; 0: it isn't; -1: couldn't ask. */
static int
judge_line(struct check *check, const struct pg_result *plan, int row)
{
    const char *table = read_whole(plan, row);
    if (table == NULL) {
        return 0;
    }
    bool grown = true;
    if (check->free_choice && !has_grown(check, table, &grown)) {
        return -1;
    }
    return grown ? 1 : 0;
}

static void
report_line(struct check *check, const char *statement, struct slice line)
{
    while (line.len > 0 && (line.ptr[0] == ' ' || line.ptr[0] == '-' || line.ptr[0] == '>')) {
        line.ptr++;
        line.len--;
    }
    LOG_EVENT(LOG_WARN, "postgres_bad_plan", log_text("statement", statement),
              log_slice("plan", line));
    if (check->report != NULL) {
        buf_printf(check->report, "%s: %.*s\n", statement, SLICE_ARG(line));
    }
}

/* "EXPLAIN (COSTS OFF) EXECUTE hold_seats(NULL, NULL)": the generic plan doesn't look at the
 * values. */
static bool
explain(struct check *check, const char *statement, int params, struct pg_result **plan)
{
    struct buf sql = { 0 };
    buf_printf(&sql, "EXPLAIN (COSTS OFF) EXECUTE %s", statement);
    for (int i = 0; i < params; i++) {
        buf_append_text(&sql, i == 0 ? "(NULL" : ", NULL");
    }
    buf_append_text(&sql, params > 0 ? ")" : "");
    bool done =
        !sql.failed && pg_run_text(check->pg, sql.data, 0, NULL, check->deadline, plan) == PG_DONE;
    buf_fini(&sql);
    return done;
}

static int
count_params(struct check *check, const char *statement)
{
    struct pg *pg = check->pg;
    if (PQsendDescribePrepared(pg->conn, statement) != 1 || PQpipelineSync(pg->conn) != 1) {
        return -1;
    }
    PGresult *result = pg_io_answer(pg, check->deadline);
    int params =
        result != NULL && PQresultStatus(result) == PGRES_COMMAND_OK ? PQnparams(result) : -1;
    PQclear(result);
    return pg->conn != NULL && pg_io_sync(pg, check->deadline) == PG_DONE ? params : -1;
}

/* 1: bad, 0: good, -1: couldn't ask. */
static int
check_statement(struct check *check, const char *statement)
{
    struct pg_result *plan = NULL;
    int params = count_params(check, statement);
    if (params < 0 || !explain(check, statement, params, &plan)) {
        return -1;
    }
    int bad = 0;
    for (int row = 0; row < pg_rows(plan) && bad >= 0; row++) {
        int line = judge_line(check, plan, row);
        if (line > 0) {
            report_line(check, statement, pg_get_text(plan, row, 0));
        }
        bad = line < 0 ? -1 : bad | line;
    }
    pg_result_free(&plan);
    return bad;
}

static int
look(struct check *check, bool free_choice)
{
    static const char sql[] = "SELECT set_config(name, $1, false) FROM pg_settings WHERE name IN "
                              "('enable_seqscan', 'enable_hashjoin', 'enable_mergejoin')";
    const char *const values[] = { free_choice ? "on" : "off" };
    check->free_choice = free_choice;
    if (pg_run_text(check->pg, sql, 1, values, check->deadline, NULL) != PG_DONE ||
        pg_replan(check->pg) != PG_DONE) {
        return -1;
    }
    int bad = 0;
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        int one = check_statement(check, pg_statements[i].name);
        if (one < 0) {
            return -1;
        }
        bad += one;
    }
    return bad;
}

int
pg_check_plans(struct pg *pg, struct buf *report)
{
    if (!pg_ready(pg) || !pg_prepare_all(pg)) {
        return -1;
    }
    struct check check = { .pg = pg, .report = report, .deadline = { mono_now().us + CHECK_US } };
    int forced = look(&check, false);
    int chosen = forced < 0 ? -1 : look(&check, true);
    if (chosen < 0) {
        pg_drop(pg); /* whatever was half set goes with the session */
        return -1;
    }
    return forced + chosen;
}
