/*
 * batch.c - one transaction for many ops, and what each kind of outcome means.
 *
 * The statements go out as one pipeline: BEGIN, batch id, locks that are waited for
 * (users, holds, areas), areas, seats, changes, COMMIT, one Sync. Each op succeeds or
 * fails alone by the verdicts of the statements; only an error of a whole statement
 * concerns all, and then the batch is halved until the culprit stands alone. Where a policy
 * leaves no single seat alone, the seating rows are locked and read on the way (gap.c).
 */
#include "engine_internal.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"

#define SETTLE_PAUSE_US (20 * TIME_US_PER_MS)

/* --- sending ------------------------------------------------------------------ */

static int
compare_keys(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Adds the keys in rising order, each once. */
static void
add_sorted(struct pg_array *array, int64_t *keys, int count)
{
    if (count == 0)
        return; /* keys may be NULL then, which qsort may not be given */
    qsort(keys, (size_t)count, sizeof(*keys), compare_keys);
    for (int i = 0; i < count; i++)
        if (i == 0 || keys[i] != keys[i - 1])
            pg_array_int(array, keys[i]);
}

void
send_lock_keys(struct batch *batch, int64_t *users, int user_count, int64_t *holds, int hold_count)
{
    struct pg_array *keys = worker_array(batch->worker, 0, PG_INT8);
    struct pg_params params;
    if (user_count + hold_count == 0)
        return;
    add_sorted(keys, users, user_count);
    add_sorted(keys, holds, hold_count);
    pg_params_init(&params);
    pg_param_array(&params, keys);
    pg_tx_send(batch->worker->pg, STATEMENT_LOCK_KEYS, &params);
}

/* The locks of users and holds, of which there may be none. */
static void
send_locks(struct batch *batch)
{
    int64_t users[BATCH_MOST], holds[BATCH_MOST];
    int user_count = 0, hold_count = 0;
    for (int i = 0; i < batch->count; i++) {
        const struct op *op = batch->ops[i];
        if (op_needs_user_lock(op))
            users[user_count++] =
                user_lock_key(op->org, op->kind == OP_TRANSFER ? op->to_user : op->user);
        if (op_is_change(op))
            holds[hold_count++] = hold_lock_key(&op->hold_id);
    }
    send_lock_keys(batch, users, user_count, holds, hold_count);
    batch->due += user_count + hold_count > 0;
}

static bool
batch_has(const struct batch *batch, bool (*is)(const struct op *op))
{
    for (int i = 0; i < batch->count; i++)
        if (is(batch->ops[i]))
            return true;
    return false;
}

void
send_lock_areas(struct batch *batch)
{
    struct worker *worker = batch->worker;
    struct pg_array *org = worker_array(worker, 0, PG_TEXT),
                    *event = worker_array(worker, 1, PG_TEXT);
    struct pg_array *area = worker_array(worker, 2, PG_TEXT),
                    *hold_org = worker_array(worker, 3, PG_TEXT);
    struct pg_array *hold = worker_array(worker, 4, PG_UUID);
    struct pg_params params;

    for (int i = 0; i < batch->count; i++) {
        const struct op *op = batch->ops[i];
        for (int a = 0; a < op->area_count; a++) {
            pg_array_text(org, op->org);
            pg_array_text(event, op->event.len > 0 ? op->event : op->hold_event);
            pg_array_text(area, op->areas[a].id);
        }
        if (op->kind != OP_HOLD || op->grow) {
            pg_array_text(hold_org, op->org);
            pg_array_uuid(hold, op->grow ? &op->grow_hold : &op->hold_id);
        }
    }
    pg_params_init(&params);
    pg_param_array(&params, org);
    pg_param_array(&params, event);
    pg_param_array(&params, area);
    pg_param_array(&params, hold_org);
    pg_param_array(&params, hold);
    pg_tx_send(worker->pg, STATEMENT_LOCK_AREAS, &params);
}

void
send_read_holds(struct batch *batch, const struct slice *orgs, const struct uuid *holds, int count)
{
    struct pg_array *org = worker_array(batch->worker, 0, PG_TEXT);
    struct pg_array *hold = worker_array(batch->worker, 1, PG_UUID);
    struct pg_params params;
    for (int i = 0; i < count; i++) {
        pg_array_text(org, orgs[i]);
        pg_array_uuid(hold, &holds[i]);
    }
    pg_params_init(&params);
    pg_param_array(&params, org);
    pg_param_array(&params, hold);
    pg_tx_send(batch->worker->pg, STATEMENT_READ_HOLDS, &params);
}

/* The holds of the changes, as they are after them; pos in the result is the op's place among the
 * changes. */
static void
send_views(struct batch *batch)
{
    struct slice orgs[BATCH_MOST];
    struct uuid holds[BATCH_MOST];
    int count = 0;
    for (int i = 0; i < batch->count; i++) {
        if (!op_is_change(batch->ops[i]))
            continue;
        orgs[count] = batch->ops[i]->org;
        holds[count++] = batch->ops[i]->hold_id;
    }
    send_read_holds(batch, orgs, holds, count);
}

/* The seating rows of what is to be taken, and how each op stands with the rule. */
static bool
decide_gaps(struct batch *batch)
{
    batch->rows.gaps = gaps_new(batch->count);
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        if (op_has_gap_rule(op))
            gaps_add(batch->rows.gaps, op, op->user, NULL, op->seat_count);
    }
    return gaps_decide(batch);
}

/* False: the transaction has failed. */
static bool
send_statements(struct batch *batch)
{
    bool changes = batch_has(batch, op_is_change), areas = batch_has(batch, op_is_area_hold);
    send_locks(batch);
    if (changes || areas) {
        send_lock_areas(batch);
        batch->due++;
    }
    if (batch_has(batch, op_has_gap_rule) && !decide_gaps(batch))
        return false;
    if (areas) {
        send_reclaim_areas(batch);
        send_hold_areas(batch, NULL, NULL, 0);
    }
    if (batch_has(batch, op_is_seat_hold))
        send_hold_seats(batch, NULL, NULL, 0);
    if (changes) {
        send_change_holds(batch);
        send_views(batch);
    }
    return true;
}

/* --- reading ------------------------------------------------------------------- */

bool
batch_next(struct batch *batch, struct pg_result **slot)
{
    pg_result_free(slot);
    *slot = pg_tx_next(batch->worker->pg);
    return *slot != NULL;
}

static bool
skip_next(struct batch *batch)
{
    struct pg_result *ignored = NULL;
    bool more = batch_next(batch, &ignored);
    pg_result_free(&ignored);
    return more;
}

bool
batch_skip_due(struct batch *batch)
{
    for (; batch->due > 0; batch->due--)
        if (!skip_next(batch))
            return false;
    return true;
}

static bool
read_results(struct batch *batch)
{
    bool changes = batch_has(batch, op_is_change), areas = batch_has(batch, op_is_area_hold);
    if (!batch_skip_due(batch))
        return false;
    if (areas &&
        (!batch_next(batch, &batch->rows.reclaimed) || !batch_next(batch, &batch->rows.areas)))
        return false;
    if (batch_has(batch, op_is_seat_hold) && !batch_next(batch, &batch->rows.seats))
        return false;
    return !changes ||
           (batch_next(batch, &batch->rows.changes) && batch_next(batch, &batch->rows.views));
}

void
batch_rows_free(struct batch_rows *rows)
{
    pg_result_free(&rows->reclaimed);
    pg_result_free(&rows->areas);
    pg_result_free(&rows->seats);
    pg_result_free(&rows->changes);
    pg_result_free(&rows->views);
    pg_result_free(&rows->shown);
    gaps_free(&rows->gaps);
}

static void
judge(struct batch *batch)
{
    if (batch->rows.areas != NULL)
        judge_hold_areas(batch);
    if (batch->rows.seats != NULL)
        judge_hold_seats(batch);
    if (batch->rows.changes != NULL)
        judge_changes(batch);
    best_judge(batch);
}

/* --- ops that get a hold which exists already -------------------------------------- */

static bool
op_wants_show(const struct op *op)
{
    return op->kind == OP_HOLD && op->fate == FATE_ANSWER && op->hold == NULL &&
           (op->status == HF_OK || op->status == HF_CREATED);
}

static int
collect_shows(struct batch *batch, struct slice *orgs, struct uuid *holds)
{
    int count = 0;
    for (int i = 0; i < batch->count; i++) {
        if (!op_wants_show(batch->ops[i]))
            continue;
        orgs[count] = batch->ops[i]->org;
        holds[count++] = batch->ops[i]->grow_hold;
    }
    return count;
}

static void
show(struct batch *batch)
{
    int pos = 0;
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        if (!op_wants_show(op))
            continue;
        pos++;
        if (batch->rows.shown == NULL || !op_show(op, batch->rows.shown, pos))
            op_fail(op, op->status == HF_CREATED ? HF_OUTCOME_UNKNOWN : HF_STORE_UNAVAILABLE);
        else if (op->hold->status != HOLD_ACTIVE)
            op->fate = FATE_AGAIN; /* it ended between the two readings: judge anew */
    }
}

/* After the commit: a read of its own. */
static void
show_after(struct batch *batch)
{
    struct slice orgs[BATCH_MOST];
    struct uuid holds[BATCH_MOST];
    struct pg_params params;
    int count = collect_shows(batch, orgs, holds);
    if (count == 0)
        return;
    struct pg_array *org = worker_array(batch->worker, 0, PG_TEXT);
    struct pg_array *hold = worker_array(batch->worker, 1, PG_UUID);
    for (int i = 0; i < count; i++) {
        pg_array_text(org, orgs[i]);
        pg_array_uuid(hold, &holds[i]);
    }
    pg_params_init(&params);
    pg_param_array(&params, org);
    pg_param_array(&params, hold);
    if (pg_run(batch->worker->pg, STATEMENT_READ_HOLDS, &params,
               ops_deadline(batch->ops, batch->count), &batch->rows.shown) != PG_DONE)
        pg_result_free(&batch->rows.shown);
    show(batch);
}

/* Within the transaction of ops with keys, whose answers must be written before the commit. */
static bool
show_within(struct batch *batch)
{
    struct slice orgs[BATCH_MOST];
    struct uuid holds[BATCH_MOST];
    int count = collect_shows(batch, orgs, holds);
    if (count == 0)
        return true;
    send_read_holds(batch, orgs, holds, count);
    pg_tx_flush(batch->worker->pg);
    if (!batch_next(batch, &batch->rows.shown))
        return false;
    show(batch);
    return true;
}

/* --- outcomes ------------------------------------------------------------------------ */

void
batch_fail(struct batch *batch, enum hf_status status)
{
    for (int i = 0; i < batch->count; i++)
        engine_refuse(batch->worker->engine, batch->ops[i], status);
}

/* Who is answered leaves; the others close up. */
static void
batch_leave(struct batch *batch, bool (*may_stay)(const struct batch *batch, const struct op *op),
            enum hf_status (*status)(const struct engine *engine, const struct op *op))
{
    int left = 0;
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        if (may_stay(batch, op))
            batch->ops[left++] = op;
        else
            engine_refuse(batch->worker->engine, op, status(batch->worker->engine, op));
    }
    batch->torn = batch->torn || left < batch->count;
    batch->count = left;
}

static bool
may_run(const struct batch *batch, const struct op *op)
{
    return op_has_time(batch->worker->engine, op, batch->began);
}

bool
batch_has_time(struct batch *batch)
{
    batch->began = mono_now();
    batch_leave(batch, may_run, op_late_status);
    batch->torn = false; /* a transaction begins with those that are left */
    return batch->count > 0;
}

static bool
may_wait(const struct batch *batch, const struct op *op)
{
    (void)batch;
    return op->deadline.us > mono_now().us;
}

static enum hf_status
unknown(const struct engine *engine, const struct op *op)
{
    (void)engine;
    (void)op;
    return HF_OUTCOME_UNKNOWN;
}

enum hf_status
batch_outcome(struct batch *batch)
{
    bool committed = false;
    for (;;) {
        batch_leave(batch, may_wait, unknown);
        if (batch->count == 0) {
            worker_doubts(batch->worker, &batch->id);
            return HF_OUTCOME_UNKNOWN;
        }
        struct mono_time deadline = ops_deadline(batch->ops, batch->count);
        if (pg_settle_outcome(batch->worker->pg, &batch->id, deadline, &committed) == PG_DONE)
            break;
        int64_t left_us = deadline.us - mono_now().us;
        sleep_us(left_us < SETTLE_PAUSE_US ? left_us : SETTLE_PAUSE_US);
    }
    metric_add(METRIC_OUTCOMES_SETTLED_TOTAL, 1);
    return committed ? HF_OK : HF_STORE_UNAVAILABLE;
}

void
batch_run_again(struct batch *batch, bool committed)
{
    if (committed) /* without its rows nobody can tell memory what it changed */
        memory_doubts(batch->worker->node);
    for (int i = batch->count - 1; i >= 0; i--) {
        struct op *op = batch->ops[i];
        /* What lost its race has committed nothing. */
        op->may_have_run = op->may_have_run || (committed && !best_is_lost(op));
        if (committed && op->kind == OP_EXTEND && !op->keyed)
            engine_refuse(batch->worker->engine, op,
                          HF_OUTCOME_UNKNOWN); /* twice would be too far */
        else
            op_again(batch->worker, op);
    }
}

/* The last one first, so that they stand in the queue in their order. */
static void
put_back(struct worker *worker, struct op **ops, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        if (ops[i]->fate == FATE_LATER)
            op_later(worker, ops[i]);
        else
            op_again(worker, ops[i]);
    }
}

/* What was committed, for memory and the feed. The claims of those that will be answered end. */
static void
settle_memory(struct batch *batch, struct waiter_list *waiters)
{
    if (batch->rows.areas != NULL)
        settle_area_rows(batch);
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        if (op->kind == OP_HOLD && batch->rows.seats != NULL && op->seat_count > 0)
            settle_hold_rows(batch, op, true, waiters);
        if (op->fate == FATE_ANSWER || best_is_lost(op))
            claims_drop(batch->worker->engine, op, waiters);
    }
    if (batch->rows.changes != NULL)
        settle_change_rows(batch, waiters);
    tell_send(batch->worker);
}

/* Takes those out of the batch that go on; how many. The others close up. */
static int
take_unanswered(struct batch *batch, struct op **ops)
{
    int count = 0, left = 0;
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        if (op->fate == FATE_ANSWER)
            batch->ops[left++] = op;
        else
            ops[count++] = op;
    }
    batch->count = left;
    return count;
}

static void
answer(struct engine *engine, struct op *op, struct waiter_list *waiters)
{
    if (op->fate == FATE_ANSWER) {
        engine_answer(engine, op);
        return;
    }
    /* What it was to show has ended; its claims have, too: it starts anew. */
    op->prepared++;
    op->fate = FATE_ANSWER;
    best_give_back(engine, op, false);
    op->waiter.next = NULL;
    waiter_list_add(waiters, &op->waiter);
}

void
batch_settle(struct batch *batch)
{
    struct worker *worker = batch->worker;
    struct op *unanswered[BATCH_MOST];
    struct mono_time start = mono_now();
    struct waiter_list waiters;

    waiter_list_init(&waiters);
    redis_settle(batch);
    settle_memory(batch, &waiters);
    int count = take_unanswered(batch, unanswered);
    show_after(batch);
    void_late_grants(batch);
    for (int i = 0; i < batch->count; i++)
        answer(worker->engine, batch->ops[i], &waiters);
    batch->count = 0;
    metric_observe(METRIC_SETTLE_SECONDS, (uint64_t)(mono_now().us - start.us));
    put_back(worker, unanswered, count);
    (void)warm_collect(batch->worker->warm); /* what Redis failed to take is repaired later */
    dispatch(worker->engine, &waiters);
}

/* --- one transaction ---------------------------------------------------------------------- */

void
batch_begin(struct batch *batch)
{
    batch->id = uuid_v7_new();
    batch->due = 0;
    batch->fallen = batch->stuck = false;
    for (int i = 0; i < batch->count; i++)
        best_begin(batch->ops[i]);
    batch->began = mono_now();
    atomic_store(&batch->worker->transacting.since_us, batch->began.us);
    batch->deadline = ops_store_deadline(batch->worker->engine, batch->ops, batch->count);
    metric_add(METRIC_BATCHES_TOTAL, 1);
    metric_observe(METRIC_BATCH_REQUESTS, (uint64_t)batch->count);
    pg_tx_begin(batch->worker->pg, &batch->id, batch->deadline);
}

/*
 * What must be known before the commit: the answers of ops with keys, which go into the same
 * transaction; and that verdicts of the rule that rest on one another stand. ok: it has gone well.
 */
static enum pg_outcome
judge_and_commit(struct batch *batch, bool ok)
{
    struct pg *pg = batch->worker->pg;
    if (ok) {
        pg_tx_flush(pg);
        ok = read_results(batch);
    }
    batch->fallen =
        ok && gaps_are_shared(batch->rows.gaps) && !gaps_hold(batch->rows.gaps, batch->rows.seats);
    if (ok && !batch->fallen) {
        judge(batch);
        ok = !batch->ops[0]->keyed || (show_within(batch) && keys_store(batch));
    }
    if (ok && !batch->fallen)
        pg_tx_commit(pg);
    else
        pg_tx_rollback(pg);
    return pg_tx_end(pg);
}

static enum pg_outcome
transact_keyed(struct batch *batch)
{
    batch_begin(batch);
    bool ok = keys_claim(batch);
    if (ok && batch->count == 0) {
        pg_tx_rollback(batch->worker->pg);
        return pg_tx_end(batch->worker->pg);
    }
    return judge_and_commit(batch, ok && send_statements(batch));
}

static enum pg_outcome
transact(struct batch *batch)
{
    struct pg *pg = batch->worker->pg;
    batch_begin(batch);
    bool ok = send_statements(batch);
    if (!ok || gaps_are_shared(batch->rows.gaps))
        return judge_and_commit(batch, ok);
    pg_tx_commit(pg);
    bool complete = read_results(batch);
    enum pg_outcome outcome = pg_tx_end(pg);
    if (complete)
        judge(batch);
    else
        batch_rows_free(&batch->rows);
    return outcome;
}

static bool
has_results(const struct batch *batch)
{
    return batch->rows.areas != NULL || batch->rows.seats != NULL || batch->rows.changes != NULL;
}

static void
batch_unknown(struct batch *batch)
{
    struct node *node = batch->worker->node;
    doubt_begins(node);
    enum hf_status outcome = batch_outcome(batch);
    if (outcome == HF_OK && has_results(batch) && !batch->torn)
        batch_settle(batch);
    else
        batch_run_again(batch, outcome == HF_OK);
    doubt_is_over(node);
}

/* The first half may have left the worker in doubt: it runs nothing then, so that another one may
 * take the rest. */
static void
batch_split(struct batch *batch)
{
    struct worker *worker = batch->worker;
    int half = batch->count / 2;
    struct batch rest = { .worker = worker,
                          .ops = batch->ops + half,
                          .count = batch->count - half };
    metric_add(METRIC_BATCHES_SPLIT_TOTAL, 1);
    batch_run(worker, batch->ops, half);
    if (worker->in_doubt)
        batch_run_again(&rest, false);
    else if (pg_ready_until(worker->pg, ops_store_deadline(worker->engine, rest.ops, rest.count)))
        batch_run(worker, rest.ops, rest.count);
    else
        batch_fail(&rest, HF_STORE_UNAVAILABLE);
}

/*
 * Somebody has a seating row and keeps it. Whoever is about seating rows tries again alone, without
 * waiting for them; what isn't doesn't wait any longer.
 */
static void
batch_part(struct batch *batch)
{
    struct worker *worker = batch->worker;
    int left = 0;
    for (int i = 0; i < batch->count; i++) {
        if (op_has_gap_rule(batch->ops[i]))
            op_wait_for_row(worker, batch->ops[i]);
        else
            batch->ops[left++] = batch->ops[i];
    }
    batch->count = left;
    if (left > 0 &&
        pg_ready_until(worker->pg, ops_store_deadline(worker->engine, batch->ops, left)))
        batch_run(worker, batch->ops, left);
    else
        batch_fail(batch, HF_STORE_UNAVAILABLE);
}

static void
log_failure(const struct batch *batch, const char *event)
{
    LOG_EVENT(LOG_ERROR, event, log_text("sqlstate", pg_last_sqlstate(batch->worker->pg)),
              log_text("error", pg_last_error(batch->worker->pg)),
              log_int("requests", batch->count),
              log_slice("request_id", batch->ops[0]->request_id));
}

/* What no repetition helped: halve it, or tell the one that is left. */
static void
batch_give_up(struct batch *batch, enum hf_status alone)
{
    if (batch->count > 1) {
        batch_split(batch);
        return;
    }
    log_failure(batch, "request_failed");
    batch_fail(batch, alone);
}

bool
batch_may_repeat(const struct batch *batch, enum pg_outcome outcome, int repeats)
{
    if (batch->count == 0 || batch->stuck)
        return false; /* all have their answers, or others keep what they need */
    const char *state = pg_last_sqlstate(batch->worker->pg);
    bool again = outcome == PG_REPEAT && repeats < REPEATS_MAX;
    /* A line that came in, or was closed, after the statement's snapshot: once more sees it. */
    if (outcome == PG_DATA_ERROR && repeats == 0)
        again = strcmp(state, "23505") == 0 || strcmp(state, "P0001") == 0;
    if (!again || !pg_ready_until(batch->worker->pg, ops_store_deadline(batch->worker->engine,
                                                                        batch->ops, batch->count)))
        return false;
    metric_add(METRIC_BATCHES_REPEATED_TOTAL, 1);
    return true;
}

static void
batch_end(struct batch *batch, enum pg_outcome outcome)
{
    switch (outcome) {
    case PG_DONE:
        if (batch->stuck)
            batch_part(batch);
        else if (batch->fallen)
            batch_split(batch); /* until no verdict rests on another one */
        else
            batch_settle(batch);
        return;
    case PG_DATA_ERROR:
    case PG_BUG:
        batch_give_up(batch, HF_INTERNAL);
        return;
    case PG_REPEAT:
        if (batch->stuck)
            batch_part(batch);
        else
            batch_give_up(batch, HF_SEAT_CONTENDED);
        return;
    case PG_UNAVAILABLE:
        batch_fail(batch, HF_STORE_UNAVAILABLE);
        return;
    case PG_UNKNOWN:
        batch_unknown(batch);
        return;
    }
}

void
batch_run(struct worker *worker, struct op **ops, int count)
{
    struct batch batch = { .worker = worker, .ops = ops, .count = count };
    enum pg_outcome outcome = PG_DONE;

    for (int repeats = 0;; repeats++) {
        batch_rows_free(&batch.rows);
        if (!batch_has_time(&batch))
            break;
        struct mono_time start = mono_now();
        outcome = ops[0]->keyed ? transact_keyed(&batch) : transact(&batch);
        metric_observe(METRIC_PG_SECONDS, (uint64_t)(mono_now().us - start.us));
        if (!batch_may_repeat(&batch, outcome, repeats))
            break;
    }
    if (batch.count > 0)
        batch_end(&batch, outcome);
    batch_rows_free(&batch.rows);
}
