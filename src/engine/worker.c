/*
 * worker.c - the loop of one worker: take all that waits, prepare it, run it.
 *
 * A worker is up while its connection works. It finds that out by itself, also with nothing to
 * do: an idle connection is asked twice a second, a lost one is opened again with backoff. While no
 * worker is up nothing is let into the queue, and what is there is refused.
 *
 * A worker whose transaction's outcome stayed unknown to its ops is down until it has learned it:
 * what can't be asked can't be written either.
 */
#include "engine_internal.h"

#include "holdfast/log.h"
#include "holdfast/metrics.h"

#define LATER_BASE_US 10000 /* 10, 20, 40 ms ... */
#define LATER_MOST_US 320000
_Static_assert(LATER_MOST_US + LATER_MOST_US / 2 <= OP_QUEUE_LATER_MOST_US,
               "the longest pause, with its jitter");
#define REPLAN_BATCHES 1000
#define IDLE_LOOK_US   (500 * TIME_US_PER_MS) /* how often an idle connection is looked at */
#define DOWN_LOOK_US   (20 * TIME_US_PER_MS)
#define PING_US        (700 * TIME_US_PER_MS) /* an answer that takes longer is none */
#define CONNECT_US     (1 * (int64_t)TIME_US_PER_S)

/* xorshift64*. */
uint64_t
worker_random(struct worker *worker)
{
    uint64_t x = worker->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    worker->random = x;
    return x * 0x2545F4914F6CDD1DULL;
}

void
op_later(struct worker *worker, struct op *op)
{
    int shift = op->locked_tries < 6 ? op->locked_tries : 5;
    int64_t pause_us = (int64_t)LATER_BASE_US << shift;
    if (pause_us > LATER_MOST_US)
        pause_us = LATER_MOST_US;
    pause_us += (int64_t)(worker_random(worker) % (uint64_t)(pause_us / 2));
    op->locked_tries++;
    op->fate = FATE_ANSWER;
    op->finished = false;
    op->not_before.us = mono_now().us + pause_us;
    if (!op_has_time(worker->engine, op, op->not_before)) {
        engine_refuse(worker->engine, op, op_late_status(worker->engine, op));
        return;
    }
    metric_add(METRIC_RETRIES_TOTAL, 1);
    op_queue_put_back(worker->engine->queue, op);
}

void
op_again(struct worker *worker, struct op *op)
{
    if (best_is_lost(op)) {
        best_again(worker, op);
        return;
    }
    op->fate = FATE_ANSWER;
    op->finished = false;
    op->not_before.us = 0;
    op->prepared++;
    op_queue_put_back(worker->engine->queue, op);
}

void
op_wait_for_row(struct worker *worker, struct op *op)
{
    op->row_waits = true;
    if (best_leaves(op))
        op_again(worker, op);
    else
        op_later(worker, op);
}

struct pg_array *
worker_array(struct worker *worker, int i, enum pg_type type)
{
    hf_assert(i >= 0 && i < ENGINE_ARRAYS);
    struct pg_array *array = &worker->arrays[i];
    array->type = type;
    pg_array_reset(array);
    return array;
}

void
worker_array_text(struct pg_array *array, struct slice text)
{
    if (text.len == 0)
        pg_array_null(array);
    else
        pg_array_text(array, text);
}

/* --- the connection ------------------------------------------------------------- */

/* Plans age: made on an empty table they are ruinous on a full one. Nobody's op waits meanwhile. */
static void
replan_when_due(struct worker *worker)
{
    unsigned asked = atomic_load(&worker->engine->replan);
    if (asked == worker->replan_seen && worker->batches < REPLAN_BATCHES)
        return;
    worker->replan_seen = asked;
    worker->batches = 0;
    if (pg_is_connected(worker->pg) && pg_replan(worker->pg) != PG_DONE)
        pg_drop(worker->pg);
}

static void
set_up(struct worker *worker, bool up)
{
    struct engine *engine = worker->engine;
    bool changes = worker->up != up;
    worker->up = up;
    if (changes)
        atomic_fetch_add(&engine->workers_up, up ? 1 : -1);
    /* One that can't come back while others work is nobody's reason to wait. */
    if (!up && (changes || !engine_store_is_up(engine)))
        store_had_trouble(engine);
}

void
worker_doubts(struct worker *worker, const struct uuid *batch_id)
{
    hf_assert(!worker->in_doubt);
    worker->in_doubt = true;
    worker->doubt = *batch_id;
    doubt_begins(worker->node);
    memory_doubts(worker->node);
    set_up(worker, false);
}

/* True: the transaction of before is over, for certain. */
static bool
learns_doubt(struct worker *worker, struct mono_time deadline)
{
    bool committed;
    if (pg_settle_outcome(worker->pg, &worker->doubt, deadline, &committed) != PG_DONE)
        return false;
    metric_add(METRIC_OUTCOMES_SETTLED_TOTAL, 1);
    memory_doubts(worker->node); /* its ops are gone, so nobody tells memory what it changed */
    worker->in_doubt = false;
    doubt_is_over(worker->node);
    return true;
}

static void
moved(struct worker *worker, struct mono_time now)
{
    atomic_store_explicit(&worker->engine->moved_us, now.us, memory_order_relaxed);
}

static struct mono_time
after(int64_t us)
{
    return (struct mono_time){ mono_now().us + us };
}

/*
 * True: there is a connection that works. One that was lost is no outage yet: ops go on being
 * taken in while the next one is opened.
 */
static bool
is_connected_by(struct worker *worker, struct mono_time deadline)
{
    bool up = (!worker->in_doubt || learns_doubt(worker, deadline)) &&
              pg_ready_until(worker->pg, deadline);
    set_up(worker, up);
    return up;
}

bool
worker_reads_clock(struct worker *worker, struct mono_time deadline)
{
    struct pg_params params;
    struct pg_result *rows = NULL;
    struct mono_time sent = mono_now();
    pg_params_init(&params);
    bool done = pg_run(worker->pg, STATEMENT_READ_CLOCK, &params, deadline, &rows) == PG_DONE;
    if (done) {
        struct mono_time received = mono_now();
        db_clock_observe(worker->node->clock, sent, received, pg_get_time(rows, 0, 0));
        moved(worker, received);
    }
    pg_result_free(&rows);
    return done;
}

/* An idle connection may hang, and nobody would know. */
static bool
answers(struct worker *worker)
{
    return worker_reads_clock(worker, after(PING_US)) || pg_is_connected(worker->pg);
}

static void
keep_connected(struct worker *worker)
{
    if (!is_connected_by(worker, after(CONNECT_US)))
        return;
    if (!answers(worker))
        is_connected_by(worker, after(CONNECT_US));
    replan_when_due(worker);
}

/* --- without a connection ---------------------------------------------------------- */

/* Ops that this worker can't run: others may; where nobody can they are refused at once. */
static void
give_away(struct worker *worker, int count)
{
    struct engine *engine = worker->engine;
    bool others = engine_store_is_up(engine);
    for (int i = count - 1; i >= 0; i--) {
        if (others)
            op_queue_put_back(engine->queue, worker->ops[i]);
        else
            engine_refuse(engine, worker->ops[i], HF_STORE_UNAVAILABLE);
    }
}

/*
 * Takes ops while no worker is connected, to refuse them, then tries to connect. It lets go of the
 * queue as soon as another worker is up, and tries in any case after a while: under load a queue
 * never runs empty.
 */
static void
be_down(struct worker *worker)
{
    struct engine *engine = worker->engine;
    if (engine_store_is_up(engine)) {
        sleep_us(DOWN_LOOK_US);
    } else {
        struct mono_time until = { mono_now().us + DOWN_LOOK_US };
        int count;
        while (!engine_store_is_up(engine) && mono_now().us < until.us &&
               (count = op_queue_gather(engine->queue, worker->ops, worker->batch_max, until)) > 0)
            give_away(worker, count);
    }
    keep_connected(worker);
}

/* --- the loop ------------------------------------------------------------------------ */

/* With ops in hand a connection is waited for no longer than they can wait. */
static bool
is_connected_for(struct worker *worker, int count)
{
    struct mono_time least = ops_store_deadline(worker->engine, worker->ops, count);
    struct mono_time most = after(CONNECT_US);
    return is_connected_by(worker, least.us < most.us ? least : most);
}

static void
run(struct worker *worker, int count)
{
    struct mono_time began = mono_now();
    moved(worker, began);
    worker->reading_us = 0;
    count = refuse_late(worker, worker->ops, count, began);
    if (count > 0 && !is_connected_for(worker, count)) {
        give_away(worker, count);
        return;
    }
    count = prepare(worker, worker->ops, count);
    if (count == 0)
        return;
    worker->batches++;
    if (worker->ops[0]->solo)
        solo_run(worker, worker->ops[0]);
    else
        batch_run(worker, worker->ops, count);
    atomic_store(&worker->transacting.since_us, 0);
    if (!pg_is_connected(worker->pg)) { /* a loss measures something else */
        store_had_trouble(worker->engine);
        return;
    }
    struct mono_time ended = mono_now();
    moved(worker, ended);
    began.us += worker->reading_us; /* others need not do it again */
    pace_measure(worker->engine, count, began, ended);
}

/* Ops until there are none for a while, or a reason to look elsewhere. */
static void
be_up(struct worker *worker)
{
    struct op_queue *queue = worker->engine->queue;
    struct mono_time until = { mono_now().us + IDLE_LOOK_US };
    int count;
    while ((count = op_queue_gather(queue, worker->ops, worker->batch_max, until)) > 0) {
        run(worker, count);
        if (!worker->up || !pg_is_connected(worker->pg))
            return;
        replan_when_due(worker);
        until.us = mono_now().us + IDLE_LOOK_US;
    }
}

void *
worker_main(void *context)
{
    struct worker *worker = context;
    struct op_queue *queue = worker->engine->queue;

    keep_connected(worker);
    if (!worker->up)
        LOG_EVENT(LOG_WARN, "worker_waits_for_store", log_text("error", pg_last_error(worker->pg)));
    while (!op_queue_is_over(queue)) {
        if (worker->up) {
            be_up(worker);
            keep_connected(worker);
        } else {
            be_down(worker);
        }
    }
    return NULL;
}
