/*
 * pace.c - how long an op would wait, and whether it is let in.
 *
 * The queue is bounded by time: an op that can't be served before its deadline is refused when it
 * comes, not when it is late. Its wait is what stands before it times what one op takes a worker.
 *
 * What one op takes is only known while there is a backlog: a worker with little to do takes
 * small batches, which cost more for each op. So the mean moves up only with batches that left a
 * backlog behind, by a batch that counts twice the mean at the most (a stall is no measure), and
 * down with any that was faster. It halves each second without a measurement, and the next few
 * batches are always let in: what was slow can't lock anybody out for long.
 */
#include "engine_internal.h"

#define MEAN_SHARE   8 /* one part in so many of the mean is the newest batch */
#define HALVINGS_MAX 30
#define NS_PER_US    1000

static int64_t
op_ns_at(const struct pace *pace, struct mono_time now)
{
    int64_t ns = atomic_load_explicit(&pace->op_ns, memory_order_relaxed);
    int64_t at_us = atomic_load_explicit(&pace->measured_us, memory_order_relaxed);
    int64_t halvings = now.us > at_us ? (now.us - at_us) / TIME_US_PER_S : 0;
    return ns >> (halvings < HALVINGS_MAX ? halvings : HALVINGS_MAX);
}

/* What workers may have in their next batches: it stands in nobody's way. */
static int64_t
next_batches(const struct engine *engine)
{
    return engine->node->config->batch_max * engine->worker_count;
}

void
pace_measure(struct engine *engine, int count, struct mono_time began, struct mono_time ended)
{
    struct pace *pace = &engine->pace;
    int64_t mean = op_ns_at(pace, ended);
    int64_t sample = (ended.us - began.us) * NS_PER_US / count;
    bool has_backlog = op_queue_depth(engine->queue) > next_batches(engine);

    if (!has_backlog && sample >= mean)
        return;
    if (mean > 0 && sample > 2 * mean)
        sample = 2 * mean;
    mean = mean == 0 ? sample : mean + (sample - mean) / MEAN_SHARE;
    /* Two workers at once: one of the measurements is lost, and another one comes. */
    atomic_store_explicit(&pace->op_ns, mean, memory_order_relaxed);
    atomic_store_explicit(&pace->measured_us, ended.us, memory_order_relaxed);
}

static int64_t
expected_wait_us(const struct engine *engine, struct mono_time now)
{
    int64_t before = op_queue_depth(engine->queue) - next_batches(engine);
    int64_t workers = atomic_load_explicit(&engine->workers_up, memory_order_relaxed);
    if (before <= 0)
        return 0;
    return before * op_ns_at(&engine->pace, now) / NS_PER_US / (workers > 0 ? workers : 1);
}

enum hf_status
engine_admits(const struct engine *engine, struct mono_time deadline, struct mono_time now,
              int32_t *retry_after_s)
{
    *retry_after_s = 1;
    if (!engine_store_is_up(engine))
        return HF_STORE_UNAVAILABLE;
    int64_t wait_us = expected_wait_us(engine, now);
    wait_us += wait_us / 4; /* an estimate that is too low costs a wait for nothing */
    int64_t too_long_us = wait_us - (deadline.us - now.us - op_time_least_us(engine));
    if (too_long_us <= 0)
        return HF_OK;
    *retry_after_s += (int32_t)(too_long_us / TIME_US_PER_S);
    return HF_OVERLOADED;
}
