/*
 * oracle.h - the invariants: what may be committed, what may be answered, what memory may believe.
 */
#ifndef HOLDFAST_SIM_ORACLE_H
#define HOLDFAST_SIM_ORACLE_H

#include "holdfast/engine.h"
#include "store.h"

/* --- the store tells ------------------------------------------------------ */

/* A commit is about to change a seat. */
void oracle_seat_changes(int seat, const struct seat_state *before, const struct seat_state *after);
/* A change that the request of this id asked for has been committed. */
void oracle_request_committed(const char *request);

/* --- the clients tell ----------------------------------------------------- */

/* The engine answers this op (in its finish, just before it is sent). */
void oracle_answer(const struct op *op, struct db_clock *clock);

/* --- looked at from time to time ------------------------------------------ */

/* What memory would say about every seat, against what the store has or had. */
void oracle_memory(struct node *node);
/* Faults were over long ago: every hold that was over has been ended; nothing is parked or claimed.
 */
void oracle_quiet(struct node *node, int64_t reaper_us);
/* The last time that somebody beside the node changed a seat, or memory was lost. */
void oracle_rival_was_here(void);

#endif
