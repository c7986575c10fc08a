/*
 * watch.c - the answer to ops that nobody comes to in time, and doubt about transactions that hang.
 *
 * Who takes ops looks at their deadlines itself. But while a transaction hangs, its worker takes
 * none, and what waits in the queue may be older than what the transaction is for. So while nobody
 * takes anything, this thread answers those whose time is up. And so it does those that are parked
 * behind a claim, always: the claim may be that of an op with more time.
 *
 * A transaction whose answer doesn't come may have committed long ago, and whoever ran it waits for
 * the connection's deadline. So after a while its outcome counts as not known: neither here nor at
 * peers is memory trusted then.
 */
#include "engine_internal.h"

#include "holdfast/metrics.h"

#define LOOK_US  (20 * TIME_US_PER_MS)
#define STALL_US (50 * TIME_US_PER_MS)  /* a usual batch is through long before */
#define HANGS_US (500 * TIME_US_PER_MS) /* as long as a lock is waited for, at most */
#define AT_ONCE  256

static bool
is_stalled(const struct engine *engine, struct mono_time now)
{
    return op_queue_depth(engine->queue) > 0 &&
           now.us - atomic_load_explicit(&engine->moved_us, memory_order_relaxed) > STALL_US;
}

/*
 * Nothing of theirs was sent, or it is known that it had no effect: they may hear so. Where the
 * store is away all hear it.
 */
static void
answer_queued(struct engine *engine, struct mono_time now)
{
    struct op *ops[AT_ONCE];
    bool is_up = engine_store_is_up(engine);
    struct mono_time up_to = { is_up ? now.us + LOOK_US : INT64_MAX };
    int count;
    if (!is_up)
        store_had_trouble(engine);
    do {
        count = op_queue_take_late(engine->queue, up_to, ops, AT_ONCE);
        for (int i = 0; i < count; i++)
            engine_refuse(engine, ops[i],
                          is_up ? op_late_status(engine, ops[i]) : HF_STORE_UNAVAILABLE);
    } while (count == AT_ONCE);
}

static void
answer_parked(struct engine *engine, struct mono_time now)
{
    struct hot_waiter *late, *next;
    hot_table_take_late(engine->node->hot, (struct mono_time){ now.us + LOOK_US }, &late);
    for (; late != NULL; late = next) {
        struct op *op = (struct op *)late; /* the waiter is an op's first member */
        next = late->next;
        late->next = NULL;
        engine_refuse(engine, op, op_late_status(engine, op));
    }
}

static void
doubt_if_it_hangs(struct node *node, struct transacting *transacting, struct mono_time now)
{
    int64_t since_us = atomic_load(&transacting->since_us);
    bool hangs = since_us != 0 && now.us - since_us > HANGS_US;
    if (hangs == transacting->hangs)
        return;
    transacting->hangs = hangs;
    if (hangs)
        doubt_begins(node);
    else
        doubt_is_over(node);
}

static void
doubt_what_hangs(struct engine *engine, struct mono_time now)
{
    for (int i = 0; i < engine->worker_count; i++)
        doubt_if_it_hangs(engine->node, &engine->workers[i].transacting, now);
    for (int i = 0; i < DESKS_MAX; i++)
        doubt_if_it_hangs(engine->node, &engine->desk[i], now);
}

void *
watch_main(void *context)
{
    struct engine *engine = context;
    while (!atomic_load(&engine->stopping)) {
        struct mono_time now = mono_now();
        if (is_stalled(engine, now))
            answer_queued(engine, now);
        answer_parked(engine, now);
        doubt_what_hangs(engine, now);
        sleep_us(LOOK_US);
    }
    doubt_what_hangs(engine, mono_now()); /* desk and workers have ended */
    return NULL;
}
