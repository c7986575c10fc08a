/*
 * node.h - the nodes under test: the rooms of each as command_serve.c starts and stops them.
 */
#ifndef HOLDFAST_SIM_NODE_H
#define HOLDFAST_SIM_NODE_H

#include "holdfast/engine.h"
#include "sim.h"

enum node_phase { NODE_DOWN, NODE_STARTING, NODE_UP, NODE_DRAINING, NODE_FAILED };

struct sim_node {
    struct node node;
    int machine; /* its place among sim_nodes, too */
    enum node_phase phase;
    int group; /* of its fibers, another one at each start */
    int starts;
    struct upkeep *upkeep;
    struct op *inbox, **inbox_end; /* what came in and no loop has taken yet */
    int64_t still_until_us;        /* it stands still; or did, until then */
};
extern struct sim_node sim_nodes[MACHINES];
extern int sim_node_count;

extern struct config sim_config; /* what every start of every node gets */
extern bool sim_redis;           /* there is a Redis */

/* Fills sim_config: defaults, and what this seed wants; so many nodes, all down. */
void nodes_configure(int count, bool calm);
/* Begins a start; the phase tells what becomes of it. */
void node_start(struct sim_node *node);
/* kill -9. */
void node_crash(struct sim_node *node);
/* SIGSTOP, and SIGCONT after a while. */
void node_stand_still(struct sim_node *node, int64_t us);
/* SIGTERM: done when the phase is NODE_DOWN. */
void node_drain(struct sim_node *node);
/* Gives an op to one of its loops, as the acceptor would. */
void node_submit(struct sim_node *node, struct op *op);
/* Whether all are in this phase. */
bool nodes_are(enum node_phase phase);

#endif
