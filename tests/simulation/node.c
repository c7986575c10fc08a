/*
 * node.c - starts, stops and kills the node; its acceptor loops hand ops to the engine.
 *
 * The order of start and stop is command_serve.c's. A killed node's fibers never run again and its
 * memory is left as it is: the next start has memory of its own.
 */
#include "node.h"

#include <stdlib.h>

#include "clients.h"
#include "faults.h"
#include "holdfast/upkeep.h"
#include "oracle.h"
#include "sim.h"
#include "store.h"
#include "wire.h"

#define LOOPS           2
#define LOOP_STACK      (256 * 1024)
#define START_RETRY_US  (300 * MS)
#define DRAIN_US        (8 * S)
#define SHARDS          "4"
#define REQUEST_TIMEOUT "2s"

struct sim_node sim_node;
struct config sim_config;

/* What came in and no loop has taken yet. */
static struct op *inbox, **inbox_end = &inbox;
static struct upkeep *upkeep;
static int groups = GROUP_NODE;

void
node_configure(bool calm)
{
    static char settings[][40] = { "--config=/dev/null", "--hot_shards=" SHARDS,
                                   "--request_timeout=" REQUEST_TIMEOUT, "--node_id=n1" };
    char *words[] = { settings[0], settings[1], settings[2], settings[3], NULL };
    char error[CONFIG_ERROR_BYTES];
    int rest = 0;

    clearenv();
    if (!config_load(&sim_config, 4, words, &rest, error))
        violation("config: %s", error);
    sim_config.workers = chance_between(1, 3);
    sim_config.batch_max = chance_one_in(3) ? chance_between(1, 4) : 128;
    sim_config.parked_max = chance_one_in(8) ? 2 : 1000;
    sim_config.queue_max = chance_one_in(8) ? 4 : 1000;
    /* In a calm seed the wheels alone have to end every hold. */
    sim_config.reaper_interval_ms = calm ? 600000 : chance_between(500, 3000);
}

/* --- acceptor loops ------------------------------------------------------- */

void
node_submit(struct op *op)
{
    op->next = NULL;
    *inbox_end = op;
    inbox_end = &op->next;
    fiber_wake_one(&inbox);
}

static void *
loop_main(void *argument)
{
    struct engine *engine = argument;

    while (sim_node.phase == NODE_UP || inbox != NULL) {
        if (inbox == NULL) {
            fiber_wait(&inbox, INT64_MAX);
            continue;
        }
        struct op *op = inbox;
        inbox = op->next;
        if (inbox == NULL)
            inbox_end = &inbox;
        op->next = NULL;
        engine_submit(engine, op);
        fiber_sleep(chance_below(50));
    }
    return NULL;
}

/* --- start ---------------------------------------------------------------- */

static void
forget_everything(void *context)
{
    struct node *node = context;

    trace("node: Postgres is another one");
    oracle_rival_was_here();
    hot_table_distrust(node->hot);
    events_forget(node->events);
    seat_maps_forget(node->maps);
    if (node->tier != NULL)
        warm_tier_distrust(node->tier, "another Postgres");
}

static void
start_memory(struct node *node)
{
    struct hot_table_limits limits = { .shards = (uint32_t)sim_config.hot_shards,
                                       .seats_max = sim_config.hot_seats_max,
                                       .parked_max = sim_config.parked_max,
                                       .lease_us = sim_config.hot_lease,
                                       .tombstone_us = 10 * S };

    node->hot = hot_table_new(&limits);
    node->events = events_new();
    node->maps = seat_maps_new((int)sim_config.maps_max);
    hf_assert(node->hot != NULL && node->events != NULL && node->maps != NULL);
    node->tier = sim_node.warm ? warm_tier_new(&sim_config) : NULL;
    pg_identity_on_change(node->identity, forget_everything, node);
}

static void
await_session(struct node *node)
{
    struct pg *pg = pg_new(&sim_config, "start", node->identity, node->clock);

    while (!pg_ready(pg))
        fiber_sleep(START_RETRY_US);
    pg_free(&pg);
}

static void *
watch_main(void *argument)
{
    struct warm *warm = warm_new(&sim_config, argument);

    while (sim_node.phase == NODE_UP) {
        (void)warm_watch(warm);
        fiber_sleep(chance_between(100 * MS, 300 * MS));
    }
    warm_free(&warm);
    return NULL;
}

static void *
start_main(void *argument)
{
    struct node *node = &sim_node.node;
    char error[200] = "";

    (void)argument;
    *node = (struct node){ .config = &sim_config, .id = "n1" };
    node->clock = db_clock_new();
    node->identity = pg_identity_new();
    await_session(node);
    start_memory(node);
    node->engine = engine_start(node);
    hf_assert(node->engine != NULL);
    upkeep = upkeep_start(node, error, sizeof(error));
    if (upkeep == NULL) {
        trace("node: does not start: %s", error);
        sim_node.phase = NODE_FAILED;
        return NULL;
    }
    (void)upkeep_warm_start(node);
    trace("node: serves");
    sim_node.phase = NODE_UP;
    for (int i = 0; i < LOOPS; i++)
        fiber_start("loop", sim_node.group, LOOP_STACK, loop_main, node->engine);
    if (node->tier != NULL)
        fiber_start("watch", sim_node.group, LOOP_STACK, watch_main, node->tier);
    return NULL;
}

void
node_start(void)
{
    hf_assert(sim_node.phase == NODE_DOWN);
    sim_node.phase = NODE_STARTING;
    sim_node.group = groups++;
    upkeep = NULL;
    inbox = NULL;
    inbox_end = &inbox;
    fiber_start("start", sim_node.group, LOOP_STACK, start_main, NULL);
}

/* --- end ------------------------------------------------------------------ */

void
node_crash(void)
{
    trace("node: killed");
    fibers_kill(sim_node.group);
    cold_cut_group(sim_node.group);
    sim_node.phase = NODE_DOWN;
    oracle_rival_was_here();
    clients_node_died();
}

/* As stop_rooms of command_serve.c. */
static void *
drain_main(void *argument)
{
    struct node *node = &sim_node.node;
    struct mono_time deadline = { sim_now_us() + DRAIN_US };

    (void)argument;
    while (clients_unanswered() > 0)
        fiber_sleep(10 * MS);
    upkeep_stop(&upkeep);
    engine_stop(&node->engine, deadline);
    seat_maps_free(&node->maps);
    events_free(&node->events);
    hot_table_free(&node->hot);
    if (node->tier != NULL)
        fiber_sleep(1 * S); /* the watch ends */
    if (node->tier != NULL)
        warm_tier_free(&node->tier);
    pg_identity_free(&node->identity);
    db_clock_free(&node->clock);
    trace("node: ended");
    sim_node.phase = NODE_DOWN;
    return NULL;
}

void
node_drain(void)
{
    hf_assert(sim_node.phase == NODE_UP);
    trace("node: told to end");
    sim_node.phase = NODE_DRAINING;
    fiber_wake_all(&inbox);
    fiber_start("drain", sim_node.group, 1024 * 1024, drain_main, NULL);
}
