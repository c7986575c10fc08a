/*
 * fake_warm.h - what the world does to the fake Redis, and what its two files share.
 */
#ifndef HOLDFAST_SIM_FAKE_WARM_H
#define HOLDFAST_SIM_FAKE_WARM_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/warm.h"

/* --- for the world ---------------------------------------------------------- */

void redis_goes_away(int64_t us);
/* One machine doesn't reach it, alone. */
void redis_loses(int machine, int64_t us);
void redis_is_wiped(void);

/* Subscriptions of this machine (NOWHERE: all) break; silently: their owners find out late. */
void pubsub_break(int machine, bool silently);
/* The node of this group is gone. */
void pubsub_forget_group(int group);

/* --- shared ------------------------------------------------------------------ */

/* Whether the running fiber's machine gets an answer. */
bool redis_is_reached(void);
/* A message that Redis took, to everybody who is subscribed. */
void pubsub_send(struct slice channel, struct slice message);

#endif
