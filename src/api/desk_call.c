/*
 * desk_call.c - a call that goes to the desk, and what it does with Postgres there.
 */
#include "api_internal.h"
#include "holdfast/log.h"

struct desk_call {
    struct desk_job job; /* first: the desk gives it back */
    struct api_call *call;
    desk_run *run;
    desk_fail *fail;
};

static void
desk_call_run(struct desk_job *job, struct desk_tools *tools)
{
    struct desk_call *self = (struct desk_call *)job;
    self->run(self->call, tools);
}

static void
desk_call_fail(struct desk_job *job, struct desk_tools *tools, enum hf_status status)
{
    struct desk_call *self = (struct desk_call *)job;
    self->fail(self->call, tools, status);
}

static void
refuse(struct api_call *call, struct desk_tools *tools, enum hf_status status)
{
    (void)tools;
    respond_refusal(call, status, NULL);
}

static void
submit(struct api_call *call, bool is_long, desk_run *run, desk_fail *fail)
{
    struct desk_call *self = arena_alloc(&call->arena, sizeof(*self));
    if (self == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    self->job.deadline = call->deadline;
    self->job.not_before.us = 0;
    self->job.is_long = is_long;
    self->job.run = desk_call_run;
    self->job.fail = desk_call_fail;
    self->call = call;
    self->run = run;
    self->fail = fail;
    if (!desk_submit(call->api->node->desk, &self->job))
        fail(call, NULL, HF_OVERLOADED);
}

void
call_on_desk_or(struct api_call *call, desk_run *run, desk_fail *fail)
{
    submit(call, false, run, fail);
}

void
call_on_desk(struct api_call *call, desk_run *run)
{
    submit(call, false, run, refuse);
}

void
call_on_desk_long(struct api_call *call, desk_run *run)
{
    submit(call, true, run, refuse);
}

enum pg_outcome
call_read(struct api_call *call, struct desk_tools *tools, enum pg_statement statement,
          const struct pg_params *params, struct pg_result **rows)
{
    enum pg_outcome outcome = pg_run(tools->pg, statement, params, call->deadline, rows);

    /* An idle connection's death shows only when it is used; a read may simply ask again. */
    if (outcome == PG_UNAVAILABLE && pg_ready_until(tools->pg, call->deadline))
        outcome = pg_run(tools->pg, statement, params, call->deadline, rows);
    return outcome;
}

enum hf_status
call_outcome(struct api_call *call, enum pg_outcome outcome, const struct pg *pg)
{
    switch (outcome) {
    case PG_DONE:
        return HF_OK;
    case PG_UNAVAILABLE:
        return HF_STORE_UNAVAILABLE;
    case PG_UNKNOWN:
        return HF_OUTCOME_UNKNOWN;
    case PG_REPEAT:
        return HF_OVERLOADED;
    case PG_DATA_ERROR:
    case PG_BUG:
        LOG_EVENT(LOG_ERROR, "statement_failed",
                  log_text("route", call->route != NULL ? call->route->name : ""),
                  log_text("request_id", call->exchange->request.request_id),
                  log_text("sqlstate", pg_last_sqlstate(pg)), log_text("error", pg_last_error(pg)));
        return HF_INTERNAL;
    }
    return HF_INTERNAL;
}
