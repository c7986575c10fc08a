/*
 * clients.h - people who want the same seats, and expect an answer in time.
 */
#ifndef HOLDFAST_SIM_CLIENTS_H
#define HOLDFAST_SIM_CLIENTS_H

#include <stdint.h>

struct sim_node;

void clients_start(int count);
/* They finish what they wait for and ask no more. */
void clients_stop(void);
int clients_alive(void);
/* Asks for every payment that is undecided, as upkeep does, until none is. In a fiber. */
void clients_settle_payments(void);
/* Requests that the node has and has not answered. */
int64_t clients_unanswered(const struct sim_node *node);
/* The node was killed: what it had is never answered. */
void clients_node_died(const struct sim_node *node);
/* It answers later. */
void clients_node_stands_still(const struct sim_node *node);
/* One after the other takes every seat that is not sold, at any node; each must be granted, unless
 * it would leave a single seat alone. In a fiber. */
void clients_take_all(void);

/* What came of all requests, for the sum over the seeds. */
struct client_counts {
    uint64_t asked, created, done, refused_hot, refused, unknown, unavailable, lost;
    /* of the seats refused from memory: while the node was trusted beside others; as a peer's
     * change */
    uint64_t refused_trusted, refused_by_news;
    uint64_t checkouts, payments; /* begun */
    uint64_t lonely;              /* refused: they would have left a single seat alone */
    uint64_t returned;            /* seats, by whoever had them */
    uint64_t replaced;            /* seats that were sold, by others that their users bought */
};
extern struct client_counts client_counts;

#endif
