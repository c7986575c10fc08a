/*
 * waitlist.h - gives seats that come free to those who wait for them.
 *
 * One thread per node. It knows at which events anybody waits (asked of Postgres each second),
 * hears from the feed of every seat that comes free there, on this node or another, and of every
 * event or house that changes, and submits OP_ASSIGN until nobody is left whom a free seat fits:
 * one at a time for each event, a few events side by side. Every node does so; the engine's lock of
 * the event's waitlist keeps two from serving one list at once. What no news told of (its node
 * died, a message was lost) is found by a look at each event now and then.
 *
 * It also writes down what became of offers whose hold has ended, and has the next one asked.
 *
 * Callers:  api (somebody joined), main. Threads: any. Locks: rank WAITLIST.
 * Limits:   WAITLISTS_MAX events are known at once; past it those where nothing is to be done make
 *           room, and are looked at as the reading of Postgres comes by. A few free seats are noted
 *           by name for each event; if there are more, all its seats are looked at.
 */
#ifndef HOLDFAST_WAITLIST_H
#define HOLDFAST_WAITLIST_H

#include "holdfast/engine.h"

#define WAITLISTS_MAX 10000

struct waitlist; /* opaque */

/* Engine and feed must run. NULL: no memory or no thread. */
HF_MUST_CHECK struct waitlist *waitlist_start(struct node *node);
/* Somebody waits there now, committed: a seat may be free already. NULL: nothing is done. */
void waitlist_joined(struct waitlist *waitlist, struct slice org, struct slice event);
/* The node is on its way out: nothing more is handed out. NULL is fine. */
void waitlist_close(struct waitlist *waitlist);
/* Ends the thread; waits until the deadline for the ops that it handed out. The engine must still
 * run. NULL is fine. */
void waitlist_stop(struct waitlist *waitlist, struct mono_time deadline);
/* When the engine has ended what was left of those ops, and nobody joins any more. *waitlist
 * becomes NULL. */
void waitlist_free(struct waitlist **waitlist);

#endif
