/*
 * doubts.c - transactions of other lanes whose outcome was lost: memory is doubted, and they are
 * asked about until it is known.
 *
 * A worker asks about its own and does nothing else meanwhile (worker.c). A thread of the desk has
 * reads to answer, so what it doesn't know any more is asked for here, on a connection that is open
 * only then. Until it is known this node trusts nobody, and nobody trusts what it says; and when it
 * is, memory is doubted once more: a commit that landed late was told to nobody.
 */
#include "engine_internal.h"

#include <stdlib.h>

#include "holdfast/lock.h"
#include "holdfast/metrics.h"

#define STACK_BYTES (256 * 1024)
#define ASK_US      (500 * TIME_US_PER_MS)
#define PAUSE_US    (50 * TIME_US_PER_MS)

/* From ENOUGH on no transaction is begun, and each desk may be within one then. */
#define DOUBTS_ENOUGH 64
#define DOUBTS_MAX    (DOUBTS_ENOUGH + DESKS_MAX + 1)

struct asker {
    struct engine *engine;
    struct pg *pg;
    struct thread thread;

    /* guarded by lock */
    struct lock lock;    /* rank QUEUE */
    pthread_cond_t work; /* there is an id, or it is over */
    struct uuid ids[DOUBTS_MAX];
    int count;
    bool stopping;
};

/* Peers hear of it at once: with the next frame, which needn't wait for its time. */
void
doubt_begins(struct node *node)
{
    atomic_fetch_add(&node->doubts, 1);
    feed_wake(node->feed);
}

void
doubt_is_over(struct node *node)
{
    int64_t before = atomic_fetch_sub(&node->doubts, 1);
    hf_assert(before > 0);
    feed_wake(node->feed);
}

static void
add(struct asker *asker, const struct uuid *batch_id)
{
    lock_take(&asker->lock);
    hf_assert(asker->count < DOUBTS_MAX);
    asker->ids[asker->count++] = *batch_id;
    pthread_cond_signal(&asker->work);
    lock_drop(&asker->lock);
}

/* Waits for an id and takes it off the list. False: it is over. */
static bool
take(struct asker *asker, struct uuid *batch_id)
{
    lock_take(&asker->lock);
    while (asker->count == 0 && !asker->stopping)
        lock_wait(&asker->lock, &asker->work, -1);
    bool going = !asker->stopping;
    if (going) {
        *batch_id = asker->ids[0];
        asker->count--;
        for (int i = 0; i < asker->count; i++)
            asker->ids[i] = asker->ids[i + 1];
    }
    lock_drop(&asker->lock);
    return going;
}

static bool
is_learned(struct asker *asker, const struct uuid *batch_id)
{
    struct mono_time deadline = { mono_now().us + ASK_US };
    bool committed;
    return pg_settle_outcome(asker->pg, batch_id, deadline, &committed) == PG_DONE;
}

static void *
asker_main(void *context)
{
    struct asker *asker = context;
    struct uuid batch_id;
    while (take(asker, &batch_id)) {
        if (is_learned(asker, &batch_id)) {
            metric_add(METRIC_OUTCOMES_SETTLED_TOTAL, 1);
            memory_doubts(asker->engine->node);
            doubt_is_over(asker->engine->node);
        } else {
            add(asker, &batch_id); /* the others have their turn first */
            sleep_us(PAUSE_US);
        }
        pg_drop(asker->pg);
    }
    return NULL;
}

/* --- for the desk ----------------------------------------------------------------- */

int
engine_commit_begins(struct engine *engine)
{
    int64_t now_us = mono_now().us;
    for (int i = 0; i < DESKS_MAX; i++) {
        int64_t none = 0;
        if (atomic_compare_exchange_strong(&engine->desk[i].since_us, &none, now_us))
            return i;
    }
    hf_assert(false); /* there are no more threads than places */
    return -1;
}

void
engine_commit_ends(struct engine *engine, int place)
{
    hf_assert(place >= 0 && place < DESKS_MAX);
    atomic_store(&engine->desk[place].since_us, 0);
}

bool
engine_may_doubt(struct engine *engine)
{
    lock_take(&engine->asker->lock);
    bool may = engine->asker->count < DOUBTS_ENOUGH;
    lock_drop(&engine->asker->lock);
    return may;
}

void
engine_doubts(struct engine *engine, const struct uuid *batch_id)
{
    doubt_begins(engine->node);
    memory_doubts(engine->node);
    add(engine->asker, batch_id);
}

/* --- start and stop ------------------------------------------------------------------ */

bool
asker_start(struct engine *engine)
{
    struct node *node = engine->node;
    struct asker *asker = calloc(1, sizeof(*asker));
    if (asker == NULL)
        return false;
    engine->asker = asker;
    asker->engine = engine;
    lock_init(&asker->lock, LOCK_QUEUE);
    lock_cond_init(&asker->work);
    asker->pg = pg_new(node->config, "holdfast doubts", node->identity, node->clock);
    return asker->pg != NULL && thread_start(&asker->thread, STACK_BYTES, asker_main, asker);
}

void
asker_stop(struct engine *engine)
{
    struct asker *asker = engine->asker;
    if (asker == NULL)
        return;
    lock_take(&asker->lock);
    asker->stopping = true;
    pthread_cond_broadcast(&asker->work);
    lock_drop(&asker->lock);
    thread_join(&asker->thread);
    if (asker->pg != NULL)
        pg_free(&asker->pg);
    pthread_cond_destroy(&asker->work);
    lock_fini(&asker->lock);
    free(asker);
    engine->asker = NULL;
}
