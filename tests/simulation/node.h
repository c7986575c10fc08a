/*
 * node.h - the one node under test: the rooms as command_serve.c starts and stops them.
 */
#ifndef HOLDFAST_SIM_NODE_H
#define HOLDFAST_SIM_NODE_H

#include "holdfast/engine.h"

enum node_phase { NODE_DOWN, NODE_STARTING, NODE_UP, NODE_DRAINING, NODE_FAILED };

extern struct sim_node {
    struct node node;
    enum node_phase phase;
    int group; /* of its fibers, another one at each start */
    bool warm; /* has a Redis */
} sim_node;

extern struct config sim_config; /* what every start gets */

/* Fills sim_config: defaults, and what this seed wants. */
void node_configure(bool calm);
/* Begins a start; the phase tells what becomes of it. */
void node_start(void);
/* kill -9. */
void node_crash(void);
/* SIGTERM: done when the phase is NODE_DOWN. */
void node_drain(void);
/* Gives an op to one of its loops, as the acceptor would. */
void node_submit(struct op *op);

#endif
