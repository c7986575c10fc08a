/*
 * events_tx.c - one transaction of the desk: run, repeated where that may help, its outcome
 * learned.
 *
 * Law 7: once COMMIT was sent, a lost connection says nothing; the batch id tells what
 * became of it. What the body read before the commit is then its answer. From the loss on memory
 * is doubted, and the engine asks as well: for as long as it takes, also when nobody waits here.
 * Memory is doubted as well while the answer to COMMIT is long in coming.
 */
#include "events_internal.h"

#include "holdfast/ids.h"
#include "holdfast/log.h"
#include "holdfast/thread.h"

#define TRIES_MAX       4
#define SETTLE_SHARE    4 /* one part in so many of the time left is kept to learn a lost outcome */
#define SETTLE_PAUSE_US (50 * TIME_US_PER_MS)

/* 23505: somebody made the same row at the same time; the next try finds it. */
#define SQLSTATE_UNIQUE "23505"

/* About 10, 20, 40 ms, with a random part so that two nodes don't meet again. */
static void
pause_before_try(int tries)
{
    struct uuid random = uuid_v7_new();

    sleep_us(((10 << (tries - 1)) + random.bytes[15] % 10) * TIME_US_PER_MS);
}

static bool
is_late(struct mono_time deadline)
{
    return mono_now().us >= deadline.us;
}

/* Asks until it is known, or nobody waits any more: PG_UNKNOWN. */
static enum pg_outcome
settle(struct pg *pg, const struct uuid *batch_id, struct mono_time deadline)
{
    bool committed;

    while (!is_late(deadline)) {
        if (pg_settle_outcome(pg, batch_id, deadline, &committed) == PG_DONE)
            return committed ? PG_DONE : PG_REPEAT;
        sleep_us(SETTLE_PAUSE_US);
    }
    return PG_UNKNOWN;
}

static enum pg_outcome
end_tx(struct node *node, struct pg *pg, const struct uuid *batch_id, bool commits)
{
    bool watched = commits && node != NULL;
    int place = watched ? engine_commit_begins(node->engine) : -1;
    if (commits)
        pg_tx_commit(pg);
    else
        pg_tx_rollback(pg);
    enum pg_outcome outcome = pg_tx_end(pg);
    if (node != NULL && outcome == PG_UNKNOWN)
        engine_doubts(node->engine, batch_id);
    if (watched)
        engine_commit_ends(node->engine, place);
    return outcome;
}

static enum pg_outcome
run_once(struct node *node, struct pg *pg, struct mono_time deadline, tx_body *body, void *context,
         enum hf_status *status)
{
    struct uuid batch_id = uuid_v7_new();
    int64_t left_us = deadline.us - mono_now().us;
    struct mono_time end = { deadline.us - left_us / SETTLE_SHARE };

    if (node != NULL && !engine_may_doubt(node->engine))
        return PG_UNAVAILABLE;
    pg_tx_begin(pg, &batch_id, end);
    *status = body(pg, context);
    enum pg_outcome outcome = end_tx(node, pg, &batch_id, *status == HF_OK);
    return outcome == PG_UNKNOWN ? settle(pg, &batch_id, deadline) : outcome;
}

static enum hf_status
final_status(struct pg *pg, enum pg_outcome outcome, enum hf_status status)
{
    switch (outcome) {
    case PG_DONE:
        return status;
    case PG_REPEAT:
        return HF_OVERLOADED;
    case PG_UNAVAILABLE:
        return HF_STORE_UNAVAILABLE;
    case PG_UNKNOWN:
        return HF_OUTCOME_UNKNOWN;
    case PG_DATA_ERROR:
    case PG_BUG:
        break;
    }
    LOG_EVENT(LOG_ERROR, "desk_transaction_failed", log_text("sqlstate", pg_last_sqlstate(pg)),
              log_text("error", pg_last_error(pg)));
    return HF_INTERNAL;
}

static bool
may_help_to_repeat(struct pg *pg, enum pg_outcome outcome, enum hf_status status)
{
    switch (outcome) {
    case PG_DONE:
        return status == HF_SEAT_CONTENDED;
    case PG_REPEAT:
        return true;
    case PG_DATA_ERROR:
        return slice_is(slice_of(pg_last_sqlstate(pg)), SQLSTATE_UNIQUE);
    case PG_UNAVAILABLE: /* an idle connection may have died unseen: nothing was changed */
    case PG_UNKNOWN:
    case PG_BUG:
        break;
    }
    return outcome == PG_UNAVAILABLE;
}

enum hf_status
tx_run(struct node *node, struct pg *pg, struct mono_time deadline, tx_body *body, void *context)
{
    enum hf_status status = HF_STORE_UNAVAILABLE;
    enum pg_outcome outcome = PG_UNAVAILABLE;

    for (int tries = 1; tries <= TRIES_MAX; tries++) {
        if (pg_ready_until(pg, deadline))
            outcome = run_once(node, pg, deadline, body, context, &status);
        if (!may_help_to_repeat(pg, outcome, status) || is_late(deadline))
            break;
        if (tries < TRIES_MAX)
            pause_before_try(tries);
    }
    return final_status(pg, outcome, status);
}

void
tx_replan(struct pg *pg)
{
    /* A connection that broke has new plans anyway when it is opened again. */
    if (pg_replan(pg) != PG_DONE)
        LOG_EVENT(LOG_DEBUG, "replan_failed", log_text("error", pg_last_error(pg)));
}
