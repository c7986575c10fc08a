/*
 * timer_wheel.h - many timers, each armed and disarmed in a few steps.
 *
 * The model. Time is cut into ticks of 10 ms. Level 0 has a slot for each of the
 * 64 ticks of the block that the wheel is in, level 1 for each of the 64 blocks
 * of the next larger block, and so on: nine levels name every tick that an
 * int64_t of microseconds can, so no timer is too far. A timer sits in the level
 * of the highest digit (base 64) in which its tick differs from the wheel's; when
 * the wheel comes to a slot above level 0, the timers of that slot move down.
 * A bit per slot says whether it is empty: a jump over any time costs a step for
 * each slot in use on the way, none for empty ones.
 *
 * The clock is an estimate of the database's and may be set back. The wheel never
 * turns back: it turns by what the clock moved forward, `behind` sums up what it
 * moved back, and a timer is looked at again when its slot comes up: one that is
 * not due by the clock of then is placed anew. So a timer never fires before its
 * time, and at most one tick after it.
 *
 * Callers:  a shard of the hot table.
 * Threads, locks: none of its own; the owner's lock guards wheel and nodes.
 * Memory:   intrusive; the wheel links nodes and never owns or frees them.
 * Limits:   timer_wheel_turn moves at most as many timers as it is told to.
 * Source:   Varghese & Lauck 1987; bits per level as in W. Ahern's timeout.c;
 *           validate as in H2O's timerwheel.c.
 */
#ifndef HOLDFAST_HOT_TIMER_WHEEL_H
#define HOLDFAST_HOT_TIMER_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/clock.h"
#include "link.h"

#define TIMER_TICK_US   10000
#define TIMER_SLOT_BITS 6
#define TIMER_SLOTS     (1 << TIMER_SLOT_BITS)
#define TIMER_LEVELS    9

/* Embed it. While it is not armed, its owner may use `link` and `at` for something else. */
struct timer_node {
    struct link link;
    struct db_time at;
};

struct timer_wheel {
    struct db_time now; /* what the clock said last */
    int64_t behind_us;  /* the sum of all its steps back */
    int64_t tick;       /* where the wheel is; every slot in use begins later */
    int64_t tick_goal;  /* where it has to turn to: the tick of `now` */
    int64_t armed;
    struct link moving;          /* timers of the slot that was just reached */
    struct link due;             /* fired, not popped yet */
    uint64_t used[TIMER_LEVELS]; /* a bit per slot */
    struct link slots[TIMER_LEVELS][TIMER_SLOTS];
};

void timer_wheel_init(struct timer_wheel *wheel);

/* The node must not be armed. A time that has come already fires with the next tick, not in this
 * one. */
void timer_wheel_arm(struct timer_wheel *wheel, struct timer_node *node, struct db_time at);

/* The node must be armed; also one that fired and was not popped. */
void timer_wheel_disarm(struct timer_wheel *wheel, struct timer_node *node);

/*
 * Turns towards `now` in at most `steps` steps (a step looks at one timer or one slot).
 * False: it is not there yet, turn again; what is due so far can be popped already.
 */
HF_MUST_CHECK bool timer_wheel_turn(struct timer_wheel *wheel, struct db_time now, int steps);

/* The next timer that is due at the time of the last turn, disarmed; NULL: none. */
struct timer_node *timer_wheel_pop(struct timer_wheel *wheel);

/* Asserts the shape of everything. For tests. */
void timer_wheel_validate(const struct timer_wheel *wheel);

#endif
