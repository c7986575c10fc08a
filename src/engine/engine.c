/*
 * engine.c - start, stop and answer: the frame around dispatch and workers.
 */
#include "engine_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"

#define WORKER_STACK_BYTES (1024 * 1024)
#define WATCH_STACK_BYTES  (256 * 1024)
#define HANG_US            (1 * (int64_t)TIME_US_PER_S)
#define STOP_LOOK_US       (2 * TIME_US_PER_MS)

static bool
worker_init(struct worker *worker, struct engine *engine)
{
    const struct config *config = engine->node->config;
    worker->engine = engine;
    worker->node = engine->node;
    struct uuid dice =
        uuid_v7_new(); /* no address: the same seed of a simulation, the same jitter */
    worker->random = hash_seeded(&dice, sizeof(dice)) | 1;
    worker->up = true; /* until its first try to connect has failed: ops wait for that */
    atomic_fetch_add(&engine->workers_up, 1);
    worker->pg = pg_new(config, "holdfast-worker", engine->node->identity, engine->node->clock);
    worker->warm = warm_new(config, engine->node->tier);
    worker->batch_max = (int)config->batch_max;
    worker->ops = calloc((size_t)config->batch_max, sizeof(*worker->ops));
    return worker->pg != NULL && worker->warm != NULL && worker->ops != NULL;
}

static void
worker_fini(struct worker *worker)
{
    for (int i = 0; i < ENGINE_ARRAYS; i++)
        pg_array_fini(&worker->arrays[i]);
    free(worker->ops);
    free(worker->warm_holds);
    free(worker->changes);
    warm_free(&worker->warm);
    pg_free(&worker->pg);
}

static bool
worker_start(struct worker *worker)
{
    return thread_start(&worker->thread, WORKER_STACK_BYTES, worker_main, worker);
}

struct engine *
engine_start(struct node *node)
{
    struct engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL)
        return NULL;
    engine->node = node;
    engine->moved_us = mono_now().us;
    engine->worker_count = (int)node->config->workers;
    engine->queue = op_queue_new(node->config->queue_max);
    engine->workers = calloc((size_t)engine->worker_count, sizeof(*engine->workers));
    bool ready = engine->queue != NULL && engine->workers != NULL && asker_start(engine) &&
                 thread_start(&engine->watch, WATCH_STACK_BYTES, watch_main, engine);
    for (int i = 0; ready && i < engine->worker_count; i++)
        ready = worker_init(&engine->workers[i], engine) && worker_start(&engine->workers[i]);
    if (!ready)
        engine_stop(&engine, mono_now());
    return engine;
}

void
engine_stop(struct engine **engine_pointer, struct mono_time deadline)
{
    struct engine *engine = *engine_pointer;
    if (engine == NULL)
        return;
    /* Parked ops come back through the workers, so they are waited for before the queue closes. */
    while (engine_outstanding(engine) > 0 && mono_now().us < deadline.us)
        sleep_us(STOP_LOOK_US);
    if (engine->queue != NULL)
        op_queue_close(engine->queue);
    for (int i = 0; engine->workers != NULL && i < engine->worker_count; i++) {
        thread_join(&engine->workers[i].thread);
        worker_fini(&engine->workers[i]);
    }
    atomic_store(&engine->stopping, true);
    thread_join(&engine->watch);
    asker_stop(engine);
    op_queue_free(&engine->queue);
    free(engine->workers);
    free(engine);
    *engine_pointer = NULL;
}

int64_t
engine_outstanding(struct engine *engine)
{
    return atomic_load(&engine->outstanding);
}

int64_t
engine_queue_depth(const struct engine *engine)
{
    return op_queue_depth(engine->queue);
}

static bool
hangs(const struct engine *engine)
{
    return atomic_load_explicit(&engine->silent, memory_order_relaxed) &&
           mono_now().us - atomic_load_explicit(&engine->moved_us, memory_order_relaxed) > HANG_US;
}

bool
engine_store_is_up(const struct engine *engine)
{
    return atomic_load_explicit(&engine->workers_up, memory_order_relaxed) > 0 && !hangs(engine);
}

void
store_had_trouble(struct engine *engine)
{
    atomic_store_explicit(&engine->trouble_us, mono_now().us, memory_order_relaxed);
}

void
engine_store_is_silent(struct engine *engine, bool silent)
{
    atomic_store_explicit(&engine->silent, silent, memory_order_relaxed);
}

void
engine_replan(struct engine *engine)
{
    atomic_fetch_add(&engine->replan, 1);
    op_queue_wake(engine->queue);
}

void
memory_doubts(struct node *node)
{
    hot_table_distrust(node->hot);
    seat_maps_distrust(node->maps);
    feed_skip(node->feed);
}

void
op_detail(struct op *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(op->detail, sizeof(op->detail), format, args);
    va_end(args);
}

void
op_fail(struct op *op, enum hf_status status)
{
    op->status = status;
    op->tier = TIER_POSTGRES;
    op->fate = FATE_ANSWER;
    op->hold = NULL;
    op->checkout = NULL;
    op->same = false;
    op->finished = false; /* an answer that was written before its commit failed is void */
    op->retry_after_s = status_http(status) == 503 || status == HF_SEAT_CONTENDED ? 1 : 0;
    for (int i = 0; status_http(status) == 503 && i < op->seat_count; i++)
        op->seats[i].code = HF_OK; /* it isn't about this seat or that */
}

/* What a payment came to. */
static void
count_payment(const struct checkout_view *checkout)
{
    switch (checkout->intent_status) {
    case INTENT_SUCCEEDED:
        metric_add(METRIC_CHECKOUTS_COMPLETED_TOTAL, 1);
        break;
    case INTENT_FAILED:
    case INTENT_EXPIRED:
        metric_add(METRIC_CHECKOUTS_FAILED_TOTAL, 1);
        break;
    case INTENT_REFUND_REQUIRED:
        metric_add(METRIC_REFUNDS_REQUIRED_TOTAL, 1);
        break;
    case INTENT_PROCESSING:
    case INTENT_PENDING:
    case INTENT_VOID:
        break;
    }
}

static void
count_baggage(const struct checkout_view *settled)
{
    if (settled->intent_status == INTENT_SUCCEEDED)
        metric_add(METRIC_BAGGAGE_PAID_TOTAL, 1);
    else if (settled->intent_status == INTENT_REFUND_REQUIRED)
        metric_add(METRIC_REFUNDS_REQUIRED_TOTAL, 1);
    else
        metric_add(METRIC_BAGGAGE_NOT_PAID_TOTAL, 1);
}

static void
count_outcome(const struct op *op)
{
    if (op->kind == OP_CHECKOUT_START && op->status == HF_CREATED)
        metric_add(METRIC_CHECKOUTS_STARTED_TOTAL, 1);
    if (op->kind == OP_HOLD) {
        metric_add(METRIC_SEAT_HOLD_CONFLICTS, status_http(op->status) == 409);
        if (op->status == HF_CREATED)
            metric_add(METRIC_HOLDS_CREATED_TOTAL, 1);
        else if (op->status == HF_OK)
            metric_add(METRIC_HOLDS_SAME_TOTAL, 1);
        else if (op->status == HF_SEAT_CONTENDED)
            metric_add(METRIC_HOLDS_CONTENDED_TOTAL, 1);
        else if (status_http(op->status) >= 500)
            metric_add(METRIC_HOLDS_FAILED_TOTAL, 1);
        else
            metric_add(op->tier == TIER_HOT ? METRIC_HOLDS_REFUSED_HOT_TOTAL
                                            : METRIC_HOLDS_REFUSED_PG_TOTAL,
                       1);
        return;
    }
    if (op->status != HF_OK || op->same)
        return;
    switch (op->kind) {
    case OP_EXTEND:
        metric_add(METRIC_HOLDS_EXTENDED_TOTAL, 1);
        break;
    case OP_CANCEL:
        metric_add(METRIC_HOLDS_CANCELLED_TOTAL, 1);
        break;
    case OP_CONFIRM:
        metric_add(METRIC_HOLDS_CONVERTED_TOTAL, 1);
        break;
    case OP_REMOVE:
    case OP_PATCH:
    case OP_RETURN:
        metric_add(METRIC_HOLDS_CHANGED_TOTAL, 1);
        break;
    case OP_TRANSFER:
        metric_add(METRIC_HOLDS_TRANSFERRED_TOTAL, 1);
        break;
    case OP_EXPIRE:
        metric_add(METRIC_HOLDS_EXPIRED_TOTAL, 1);
        if (op->judged_at.us > op->ends_at.us && op->ends_at.us > 0)
            metric_observe(METRIC_EXPIRY_LAG_SECONDS,
                           (uint64_t)(op->judged_at.us - op->ends_at.us));
        break;
    case OP_CHECKOUT_START: /* counted before */
    case OP_CHECKOUT_CANCEL:
        metric_add(METRIC_CHECKOUTS_CANCELLED_TOTAL, 1);
        break;
    case OP_PAY:
        metric_add(METRIC_PAYMENTS_STARTED_TOTAL, 1);
        break;
    case OP_PAY_SETTLE:
        if (op->is_baggage)
            count_baggage(op->checkout);
        else
            count_payment(op->checkout);
        break;
    case OP_HOLD:
    case OP_ASSIGN:
    case OP_ANSWER:
        break;
    }
}

/*
 * Law 7: it ran once, its outcome was lost, and it committed. Whatever kept a second run from
 * seeing that, the op took effect; who asks again is told how.
 */
static void
refuse_no_effect(struct op *op)
{
    if (op->may_have_run && op->status != HF_OK && op->status != HF_CREATED)
        op_fail(op, HF_OUTCOME_UNKNOWN);
}

void
engine_finish(struct op *op)
{
    if (op->finished)
        return;
    refuse_no_effect(op);
    op->finish(op);
    op->finished = true;
}

void
engine_answer(struct engine *engine, struct op *op)
{
    hf_assert(op->claim_next == 0);
    engine_finish(op);
    best_give_back(engine, op, false);
    count_outcome(op);
    count_release(op);
    op->send(op); /* the op is gone */
    atomic_fetch_sub(&engine->outstanding, 1);
}

void
engine_refuse(struct engine *engine, struct op *op, enum hf_status status)
{
    struct waiter_list waiters;
    waiter_list_init(&waiters);
    claims_drop(engine, op, &waiters);
    op_fail(op, status);
    if (status == HF_OVERLOADED)
        metric_add(METRIC_OVERLOADED_TOTAL, 1);
    engine_answer(engine, op);
    dispatch(engine, &waiters);
}
