/*
 * node.c - starts, stops and kills nodes; their acceptor loops hand ops to the engine.
 *
 * The order of start and stop is command_serve.c's. A killed node's fibers never run again and its
 * memory is left as it is: the next start has memory of its own. What the rooms of one process
 * share (metrics, the log, the hash's seed, where ids come from) the nodes share here; it decides
 * nothing.
 */
#include "node.h"

#include <stdio.h>
#include <stdlib.h>

#include "clients.h"
#include "fake_warm.h"
#include "faults.h"
#include "holdfast/fanout.h"
#include "holdfast/feed.h"
#include "holdfast/upkeep.h"
#include "oracle.h"
#include "store.h"
#include "wire.h"

#define LOOPS           2
#define LOOP_STACK      (256 * 1024)
#define START_RETRY_US  (300 * MS)
#define AWAIT_TRUST_US  (1 * S)
#define DRAIN_US        (8 * S)
#define LOOK_US         (37 * MS)
#define SHARDS          "4"

struct sim_node sim_nodes[MACHINES];
int sim_node_count;
struct config sim_config;
bool sim_redis;

static void
configure(bool calm)
{
    static char settings[][40] = { "--config=/dev/null", "--hot_shards=" SHARDS };
    char *words[] = { settings[0], settings[1], NULL };
    char error[CONFIG_ERROR_BYTES];
    int rest = 0;

    clearenv();
    if (!config_load(&sim_config, 2, words, &rest, error))
        violation("config: %s", error);
    sim_config.request_timeout = chance_one_in(3) ? 5 * S : 2 * S;
    sim_config.workers = chance_between(1, 3);
    sim_config.batch_max = chance_one_in(3) ? chance_between(1, 4) : 128;
    sim_config.parked_max = chance_one_in(8) ? 2 : 1000;
    sim_config.queue_max = chance_one_in(8) ? 4 : 1000;
    /* In a calm seed the wheels alone have to end every hold. */
    sim_config.reaper_interval_ms = calm ? 600000 : chance_between(500, 3000);
}

void
nodes_configure(int count, bool calm)
{
    configure(calm);
    sim_node_count = count;
    for (int i = 0; i < count; i++)
        sim_nodes[i] = (struct sim_node){ .machine = i };
}

bool
nodes_are(enum node_phase phase)
{
    for (int i = 0; i < sim_node_count; i++)
        if (sim_nodes[i].phase != phase)
            return false;
    return true;
}

/* --- acceptor loops ------------------------------------------------------- */

void
node_submit(struct sim_node *node, struct op *op)
{
    op->next = NULL;
    *node->inbox_end = op;
    node->inbox_end = &op->next;
    fiber_wake_one(&node->inbox);
}

static void *
loop_main(void *argument)
{
    struct sim_node *node = argument;

    while (node->phase == NODE_UP || node->inbox != NULL) {
        if (node->inbox == NULL) {
            fiber_wait(&node->inbox, INT64_MAX);
            continue;
        }
        struct op *op = node->inbox;
        node->inbox = op->next;
        if (node->inbox == NULL)
            node->inbox_end = &node->inbox;
        op->next = NULL;
        engine_submit(node->node.engine, op);
        fiber_sleep(chance_below(50));
    }
    return NULL;
}

/* --- start ---------------------------------------------------------------- */

static void
forget_everything(void *context)
{
    struct node *node = context;

    trace("%s: Postgres is another one", node->id);
    oracle_rival_was_here();
    hot_table_distrust(node->hot);
    events_forget(node->events);
    seat_maps_forget(node->maps);
    feed_break(node->feed);
    if (node->fanout != NULL)
        fanout_another_postgres(node->fanout);
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
    node->feed = feed_new(node, sim_config.feed_log_max);
    hf_assert(node->hot != NULL && node->events != NULL && node->maps != NULL &&
              node->feed != NULL);
    node->tier = sim_redis ? warm_tier_new(&sim_config) : NULL;
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
    struct sim_node *node = argument;
    struct warm *warm = warm_new(&sim_config, node->node.tier);

    while (node->phase == NODE_UP) {
        (void)warm_watch(warm);
        fiber_sleep(chance_between(100 * MS, 300 * MS));
    }
    warm_free(&warm);
    return NULL;
}

/* Looks at the node's memory, on its machine. */
static void *
inspect_main(void *argument)
{
    struct sim_node *node = argument;

    while (node->phase == NODE_UP) {
        oracle_memory(node);
        fiber_sleep(chance_below(2 * LOOK_US));
    }
    return NULL;
}

static void
serve(struct sim_node *node)
{
    trace("%s: serves", node->node.id);
    node->phase = NODE_UP;
    for (int i = 0; i < LOOPS; i++)
        fiber_start("loop", node->group, LOOP_STACK, loop_main, node);
    fiber_start("inspector", node->group, LOOP_STACK, inspect_main, node);
    if (node->node.tier != NULL)
        fiber_start("watch", node->group, LOOP_STACK, watch_main, node);
}

static bool
start_among_peers(struct sim_node *self)
{
    struct node *node = &self->node;
    char error[200] = "";

    self->upkeep = upkeep_join(node, error, sizeof(error));
    if (self->upkeep == NULL) {
        trace("%s: does not start: %s", node->id, error);
        return false;
    }
    feed_start(node->feed, upkeep_incarnation(self->upkeep));
    node->fanout = fanout_start(node, upkeep_incarnation(self->upkeep), error, sizeof(error));
    hf_assert(node->fanout != NULL);
    bool started = upkeep_start(self->upkeep);
    hf_assert(started);
    (void)fanout_await_trust(node->fanout, AWAIT_TRUST_US);
    return true;
}

static void *
start_main(void *argument)
{
    struct sim_node *self = argument;
    struct node *node = &self->node;

    *node = (struct node){ .config = &sim_config };
    snprintf(node->id, sizeof(node->id), "n%d", self->machine + 1);
    node->clock = db_clock_new();
    node->identity = pg_identity_new();
    await_session(node);
    start_memory(node);
    node->engine = engine_start(node);
    hf_assert(node->engine != NULL);
    if (start_among_peers(self)) {
        (void)upkeep_warm_start(node);
        serve(self);
    } else {
        self->phase = NODE_FAILED;
    }
    return NULL;
}

void
node_start(struct sim_node *node)
{
    hf_assert(node->phase == NODE_DOWN);
    node->phase = NODE_STARTING;
    node->group = machine_group(node->machine, node->starts++);
    node->upkeep = NULL;
    node->inbox = NULL;
    node->inbox_end = &node->inbox;
    fiber_start("start", node->group, LOOP_STACK, start_main, node);
}

/* --- end ------------------------------------------------------------------ */

void
node_crash(struct sim_node *node)
{
    trace("%s: killed", node->node.id);
    fibers_kill(node->group);
    cold_cut_group(node->group);
    pubsub_forget_group(node->group);
    node->phase = NODE_DOWN;
    oracle_rival_was_here();
    clients_node_died(node);
}

void
node_stand_still(struct sim_node *node, int64_t us)
{
    trace("%s: stands still for %.3f s", node->node.id, (double)us / 1e6);
    if (node->still_until_us < sim_now_us() + us)
        node->still_until_us = sim_now_us() + us;
    fibers_stand_still(node->machine, us);
    clients_node_stands_still(node);
}

/* As stop_rooms of command_serve.c. */
static void *
drain_main(void *argument)
{
    struct sim_node *self = argument;
    struct node *node = &self->node;
    struct mono_time deadline = { mono_now().us + DRAIN_US };

    while (clients_unanswered(self) > 0)
        fiber_sleep(10 * MS);
    upkeep_stop(&self->upkeep);
    engine_stop(&node->engine, deadline);
    fanout_stop(&node->fanout, !node_is_in_doubt(node));
    fiber_sleep(1 * S); /* watch and inspector end */
    feed_free(&node->feed);
    seat_maps_free(&node->maps);
    events_free(&node->events);
    hot_table_free(&node->hot);
    if (node->tier != NULL)
        warm_tier_free(&node->tier);
    pg_identity_free(&node->identity);
    db_clock_free(&node->clock);
    trace("%s: ended", node->id);
    self->phase = NODE_DOWN;
    return NULL;
}

void
node_drain(struct sim_node *node)
{
    hf_assert(node->phase == NODE_UP);
    trace("%s: told to end", node->node.id);
    node->phase = NODE_DRAINING;
    fiber_wake_all(&node->inbox);
    fiber_start("drain", node->group, 1024 * 1024, drain_main, node);
}
