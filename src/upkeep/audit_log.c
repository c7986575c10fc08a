/*
 * audit_log.c - the audit log's months are made ahead, dropped when they are old enough, and
 * their indexes brought up to date (0005_audit.sql).
 *
 * Work of the desk, since a summary may take seconds: one job at a time, on whichever node comes
 * first. Whatever fails is tried again by the next one.
 */
#include "holdfast/desk.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "upkeep_internal.h"

#define JOB_US       (3 * (int64_t)TIME_US_PER_S) /* a node that drains waits for it */
#define MONTHS_AHEAD 3

/* Columns of summarize_audit_log. */
enum { RANGES, ASTRAY };

static struct pg_result *
run(struct desk_tools *tools, enum pg_statement statement, const struct pg_params *params)
{
    struct mono_time deadline = { mono_now().us + JOB_US };
    struct pg_result *rows = NULL;

    if (!pg_ready_until(tools->pg, deadline))
        return NULL;
    enum pg_outcome outcome = pg_run(tools->pg, statement, params, deadline, &rows);
    if (outcome != PG_DONE) /* a month that a reader has in use is dropped later */
        LOG_EVENT(outcome == PG_REPEAT ? LOG_DEBUG : LOG_WARN, "audit_log_not_tended",
                  log_text("error", pg_last_error(tools->pg)));
    return outcome == PG_DONE ? rows : NULL;
}

static void
make_months(struct desk_tools *tools)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_int4(&params, MONTHS_AHEAD);
    struct pg_result *rows = run(tools, STATEMENT_MAKE_AUDIT_MONTHS, &params);
    if (rows != NULL && pg_get_int(rows, 0, 0) > 0)
        LOG_EVENT(LOG_INFO, "audit_months_made", log_int("months", pg_get_int(rows, 0, 0)));
    pg_result_free(&rows);
}

static void
drop_months(struct desk_tools *tools)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_int8(&params, tools->node->config->audit_retention);
    struct pg_result *rows = run(tools, STATEMENT_DROP_AUDIT_MONTHS, &params);
    for (int row = 0; rows != NULL && row < pg_rows(rows); row++)
        LOG_EVENT(LOG_INFO, "audit_month_dropped", log_slice("table", pg_get_text(rows, row, 0)));
    pg_result_free(&rows);
}

static void
summarize(struct desk_tools *tools)
{
    struct pg_params params;

    pg_params_init(&params);
    struct pg_result *rows = run(tools, STATEMENT_SUMMARIZE_AUDIT_LOG, &params);
    if (rows == NULL)
        return;
    int64_t astray = pg_get_int(rows, 0, ASTRAY);
    metric_set(METRIC_AUDIT_ASTRAY_BYTES, astray);
    if (astray > 0)
        LOG_EVENT(LOG_WARN, "audit_month_missing", log_int("astray_bytes", astray));
    pg_result_free(&rows);
}

static void
tended(struct desk_job *job)
{
    struct upkeep *upkeep =
        (struct upkeep *)((char *)job - offsetof(struct upkeep, audit_job)); /* it is part of it */
    atomic_store(&upkeep->tending, false);
}

static void
job_run(struct desk_job *job, struct desk_tools *tools)
{
    make_months(tools);
    drop_months(tools);
    summarize(tools);
    tended(job);
}

static void
job_fail(struct desk_job *job, struct desk_tools *tools, enum hf_status status)
{
    (void)tools;
    (void)status;
    tended(job);
}

void
audit_log_tend(struct upkeep *upkeep)
{
    if (upkeep->node->desk == NULL || atomic_exchange(&upkeep->tending, true))
        return;
    upkeep->audit_job = (struct desk_job){
        .deadline = { mono_now().us + JOB_US }, .is_long = true, .run = job_run, .fail = job_fail
    };
    if (!desk_submit(upkeep->node->desk, &upkeep->audit_job))
        atomic_store(&upkeep->tending, false);
}
