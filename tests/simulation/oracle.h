/*
 * oracle.h - the invariants: what may be committed, what may be answered, what memory may believe.
 */
#ifndef HOLDFAST_SIM_ORACLE_H
#define HOLDFAST_SIM_ORACLE_H

#include "node.h"
#include "store.h"

/* The seed has been drawn: how long what may be believed follows from it. */
void oracle_begin(bool calm);

/* --- the store tells ------------------------------------------------------ */

/* A commit is about to change a seat. */
void oracle_seat_changes(int seat, const struct seat_state *before, const struct seat_state *after);
/* A commit has changed seats; of one request, if it gave back what was sold. */
void oracle_sales(const struct seat_state before[], const char *request);
/* The seats of the house at one instant. */
struct house_state {
    int64_t at; /* by the database's clock */
    struct seat_state seats[SEATS_MAX];
};

/* What a request takes for its user, as bits by seat. */
struct house_choice {
    const char *request, *user;
    unsigned taken, given_up; /* given_up: held by the user before, in the same transaction */
};

/* Whether it leaves a single seat alone, and needn't. */
bool leaves_gap(const struct house_state *house, const struct house_choice *choice);
/* A commit is about to take seats that the rule of the single seat is about. The house is as the
 * transaction saw it under the locks of the rows, and with what it takes before; then this, too. */
void oracle_choice(struct house_state *house, const struct house_choice *choice);
/* A change that the request of this id asked for has been committed. */
void oracle_request_committed(const char *request);

/* A commit is about to move a payment. */
void oracle_intent_changes(const struct intent_row *row, const struct intent_state *before,
                           const struct intent_state *after);

/* --- the clients tell ----------------------------------------------------- */

/* A node is asked for this. */
void oracle_asked(const struct op *op);

/*
 * The node's engine answers this op, on its machine. In the world's time: when it was asked, and
 * since when what memory says may date (INT64_MAX: now).
 */
void oracle_answer(const struct op *op, const struct sim_node *node, int64_t asked_us,
                   int64_t looked_us);

/* --- looked at from time to time ------------------------------------------ */

/* What the node's memory would say about every seat, against what the store has or had. On its
 * machine. */
void oracle_memory(const struct sim_node *node);
/* Faults were over long ago: every hold that was over has been ended; nothing is parked or
 * claimed. */
void oracle_quiet(const struct sim_node *node, int64_t reaper_us);
/* Every payment has come to its end, and what it paid for is as it says. */
void oracle_payments(void);
/* While all rests, what memory says must be so in the store. */
void oracle_at_rest(bool rests);
/* The last time that the rival changed a seat, or a node's memory was lost. */
void oracle_rival_was_here(void);

#endif
