/*
 * sim.h - what the files of the simulation share: chance, time, fibers, the trace.
 *
 * One process plays one seed and ends with it: what a crashed node leaves in memory goes with the
 * process. Nothing here knows a thread: whoever runs, runs alone until it waits.
 */
#ifndef HOLDFAST_SIM_H
#define HOLDFAST_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/clock.h"

#define MS ((int64_t)TIME_US_PER_MS)
#define S  ((int64_t)TIME_US_PER_S)

/* --- chance.c: all of it comes from the seed ------------------------------ */

void chance_seed(uint64_t seed);
uint64_t chance_next(void);
int64_t chance_below(int64_t n);                     /* 0 .. n-1 */
int64_t chance_between(int64_t least, int64_t most); /* both included */
bool chance_one_in(int64_t n);                       /* 0: never */
/* Mostly short, now and then up to `most`. */
int64_t chance_delay(int64_t usual_us, int64_t most_us);

/* --- trace.c: what happened, and its digest ------------------------------- */

void trace_start(uint64_t seed, bool aloud);
void trace(const char *format, ...) HF_PRINTF(1, 2);
/* Into the digest only: too much to read. */
void trace_mix(uint64_t word);
uint64_t trace_digest(void);
/* An invariant does not hold: tells seed, reason and the last of the trace, and ends the
 * process. */
_Noreturn void violation(const char *format, ...) HF_PRINTF(1, 2);

/* --- fibers.c: who runs next ---------------------------------------------- */

/* Groups die together. A node has another one at each start (machine_group). */
enum { GROUP_WORLD, GROUP_STORE, GROUP_NODE };

struct fiber; /* opaque */

struct fiber *fiber_start(const char *name, int group, size_t stack_bytes, void *(*run)(void *),
                          void *argument);
bool fiber_is_over(const struct fiber *fiber);
/* Runs fibers until one calls fibers_stop. */
void fibers_run(void);
void fibers_stop(void);
/* Ends every fiber of the group where it stands. The caller's is another one. */
void fibers_kill(int group);
/* Nobody runs on this machine for a while (SIGSTOP, or its host gives it no time). */
void fibers_stand_still(int machine, int64_t us);

int64_t sim_now_us(void); /* the world's time; what a node's clock shows is machine.c's */
int fiber_group(void);    /* of the running fiber */
bool fiber_is_running(void);
void fiber_sleep(int64_t us);
/* Waits for a wake of `channel`, at most until `end_us` (INT64_MAX: for ever). True: it was
 * woken. */
bool fiber_wait(const void *channel, int64_t end_us);
void fiber_wake_one(const void *channel);
void fiber_wake_all(const void *channel);

/* --- machine.c: each node runs on a machine of its own, with clocks of its own --------- */

#define MACHINES 3
#define NOWHERE  (-1) /* the world and the store: their clock is sim_now_us */

/* Draws what the machines' clocks show. */
void machines_draw(void);
/* The group of the n-th start on a machine, and the machine of a group. */
int machine_group(int machine, int start);
int machine_of(int group);
int machine_here(void); /* of the running fiber */
/* What mono_now says there at a time of the world, and back, for the running fiber. */
struct mono_time machine_time(int machine, int64_t sim_us);
int64_t machine_sim_us(struct mono_time time);

/* No lock may be held by whoever waits. */
void machine_assert_no_lock(void);

#endif
