/*
 * worker.c - the loop of one worker: take all that waits, prepare it, run it.
 */
#include "engine_internal.h"

#include "holdfast/log.h"
#include "holdfast/metrics.h"

#define LATER_BASE_US  10000 /* 10, 20, 40 ms ... */
#define LATER_MOST_US  320000
#define REPLAN_BATCHES 1000
#define LEAVE_PAUSE_US (20 * TIME_US_PER_MS) /* so that another takes what this one can't run */

/* xorshift64*: for jitter only. */
static uint64_t
random_next(struct worker *worker)
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
    pause_us += (int64_t)(random_next(worker) % (uint64_t)(pause_us / 2));
    op->locked_tries++;
    op->fate = FATE_ANSWER;
    op->finished = false;
    op->not_before.us = mono_now().us + pause_us;
    metric_add(METRIC_RETRIES_TOTAL, 1);
    op_queue_put_back(worker->engine->queue, op);
}

void
op_again(struct worker *worker, struct op *op)
{
    op->fate = FATE_ANSWER;
    op->finished = false;
    op->not_before.us = 0;
    op->prepared++;
    op_queue_put_back(worker->engine->queue, op);
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

/* Plans age: made on an empty table they are ruinous on a full one. */
static void
replan_when_due(struct worker *worker, unsigned *batches)
{
    unsigned asked = atomic_load(&worker->engine->replan);
    if (asked == worker->replan_seen && ++*batches < REPLAN_BATCHES)
        return;
    worker->replan_seen = asked;
    *batches = 0;
    if (pg_is_connected(worker->pg) && pg_replan(worker->pg) != PG_DONE)
        pg_drop(worker->pg);
}

/* True if a worker was connected when it last looked. */
static bool
somebody_is_up(const struct engine *engine)
{
    for (int i = 0; i < engine->worker_count; i++)
        if (atomic_load_explicit(&engine->workers[i].up, memory_order_relaxed))
            return true;
    return false;
}

/*
 * This worker has no connection. Is the store up for another one, the ops are left to it; it looks
 * again when it takes them. Else they are refused at once.
 */
static void
do_without_store(struct worker *worker, int count)
{
    if (!somebody_is_up(worker->engine)) {
        for (int i = 0; i < count; i++)
            engine_refuse(worker->engine, worker->ops[i], HF_STORE_UNAVAILABLE);
        return;
    }
    for (int i = count - 1; i >= 0; i--)
        op_queue_put_back(worker->engine->queue, worker->ops[i]);
    sleep_us(LEAVE_PAUSE_US);
}

static void
run(struct worker *worker, int count)
{
    struct engine *engine = worker->engine;
    bool up = pg_ready(worker->pg);
    atomic_store_explicit(&worker->up, up, memory_order_relaxed);
    atomic_store_explicit(&engine->store_up, up || somebody_is_up(engine), memory_order_relaxed);
    if (!up) {
        do_without_store(worker, count);
        return;
    }
    count = prepare(worker, worker->ops, count);
    if (count == 0)
        return;
    if (worker->ops[0]->solo)
        solo_run(worker, worker->ops[0]);
    else
        batch_run(worker, worker->ops, count);
}

void *worker_main(void *context);

void *
worker_main(void *context)
{
    struct worker *worker = context;
    struct engine *engine = worker->engine;
    int batch_max = (int)engine->node->config->batch_max;
    unsigned batches = 0;
    int count;

    if (!pg_ready(worker->pg))
        LOG_EVENT(LOG_WARN, "worker_waits_for_store", log_text("error", pg_last_error(worker->pg)));
    while ((count = op_queue_gather(engine->queue, worker->ops, batch_max)) > 0) {
        replan_when_due(worker, &batches);
        run(worker, count);
    }
    return NULL;
}
