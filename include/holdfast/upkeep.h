/*
 * upkeep.h - what a node does without being asked: live, expire, reap, ask about payments, purge,
 * re-plan.
 *
 * One thread with a Postgres connection of its own. Each 10 ms it turns the hot table's
 * wheels and hands what is over to the engine; beside that it tells Postgres that this
 * node lives, reads the database's clock, sweeps for holds that nobody expired, has
 * providers asked about payments past their time, forgets old batch ids and answers,
 * has the desk write down how full events are, and the workers plan their statements anew.
 *
 * Callers:  main.
 * Threads:  all from one thread.
 * Limits:   as many expiries under way as the engine's queue takes; each hold once.
 */
#ifndef HOLDFAST_UPKEEP_H
#define HOLDFAST_UPKEEP_H

#include <stdbool.h>
#include <stddef.h>

#include "holdfast/assert.h"
#include "holdfast/engine.h"

struct upkeep; /* opaque */

/*
 * Enters this node into the table of living nodes. NULL: error says why: another living node has
 * this name, Postgres can't be reached, no memory.
 */
HF_MUST_CHECK struct upkeep *upkeep_join(struct node *node, char *error, size_t error_bytes);
/* Under which number it joined: before upkeep_start. */
int64_t upkeep_incarnation(const struct upkeep *upkeep);
/* Starts the thread. The node's engine, desk and fan-out must run. False: no thread; upkeep_stop is
 * needed in any case. */
HF_MUST_CHECK bool upkeep_start(struct upkeep *upkeep);

/*
 * Fills the hot table with what is held and sold at events on sale, with timers for holds:
 * after a restart nobody else would expire them promptly. Before the node listens.
 * False: Postgres failed half-way; what was read is in the table, the rest comes by and by.
 */
bool upkeep_warm_start(struct node *node);

/*
 * Stops the thread, waits for the expiries that it handed out, takes this node out of the
 * table; *upkeep becomes NULL. Engine and fan-out must still run. If something is still under way
 * in engine or desk the row is left to die by itself: what commits later was this node's.
 */
void upkeep_stop(struct upkeep **upkeep);

#endif
