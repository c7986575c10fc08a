/*
 * fanout.h - what this node commits, told to its peers over Redis; what they tell, heard; and
 * whether anything can have been missed.
 *
 * Two threads. The publisher takes records from the feed's outbox and sends them, all that wait as
 * one message (a frame), and a heartbeat (a frame without records) FANOUT_HEARTBEAT_US after the
 * last frame. The subscriber hears every node's frames, its own too, on one channel of this
 * database: "holdfast:feed:<system identifier>:<timeline>:<database oid>". So nobody hears of a
 * database what was done in a clone of it or in its predecessor; where one node has noticed a
 * fail-over and another one hasn't, neither hears the other, and neither is trusted.
 *
 * A frame says: which node, which incarnation, the number of its last record, when it was sent (the
 * database's clock), whether its outcome of some commit is unknown (then it may have changed what
 * it can't tell yet), and its records. Redis loses frames: when it doesn't take one, the numbers
 * are used up all the same, so that everybody sees the gap.
 *
 * TRUST. Memory refuses without a lease while nothing can have been missed: the table of nodes in
 * Postgres was read at most 2 s ago and has this very incarnation, this node is in no doubt about a
 * commit of its own, and every other node was heard less than FANOUT_SILENCE_US ago, in no doubt,
 * over a subscription that hears this node's own heartbeats as well. The others are those of the
 * table and those who speak, without those who said farewell; with none of them nothing needs to be
 * heard. Otherwise (not trusted) a refusal rests on a read of Postgres begun at most hot_lease ago.
 *
 * To become trusted is a distrust: what memory knew rests on reads before that. So it is when
 * something was missed while trusted: a gap, a node that fell silent outside the table or came back
 * under another incarnation without a farewell, an incarnation that was drawn and not heard from
 * its first record on. One that was needs no distrust, nor does one that said farewell.
 *
 * So a stale refusal lasts at most a second after a change by a node that was heard (the longer of
 * FANOUT_SILENCE_US and hot_lease), and 2 s after one by a newcomer that couldn't be heard. A grant
 * never comes from here.
 *
 * Threads:  fanout_know_nodes and fanout_judge from upkeep's; the readers from any.
 * Locks:    NODES, then FEED and what lies behind it; never across I/O.
 * Limits:   FEED_NODES_MAX peers (the table never has so many); frames of FRAME_BYTES_MAX.
 */
#ifndef HOLDFAST_FANOUT_H
#define HOLDFAST_FANOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/clock.h"
#include "holdfast/feed.h"
#include "holdfast/ids.h"

#define FANOUT_HEARTBEAT_US (200 * TIME_US_PER_MS)
#define FANOUT_SILENCE_US   (700 * TIME_US_PER_MS)

struct fanout; /* opaque */
struct node;

/* Starts both threads; the node has joined as `incarnation` and node->feed is started. NULL: error
 * says why. Without Redis (redis_url empty) it runs, hears nobody and is trusted only while alone.
 */
struct fanout *fanout_start(struct node *node, int64_t incarnation, char *error,
                            size_t error_bytes);
/*
 * Says farewell (clean: all was told, so peers need not distrust; after the last commit and the
 * last feed_tell), stops the threads, frees. *fanout becomes NULL.
 */
void fanout_stop(struct fanout **fanout, bool clean);

/* One row of the table of living nodes. */
struct fanout_node {
    char id[ID_BYTES_MAX + 1];
    int64_t incarnation;
};
/* What one read of the table said. */
struct fanout_table {
    struct mono_time began;             /* the read */
    int64_t system, timeline, database; /* which database it was: the server's two, and its oid */
    int64_t incarnation;                /* this node's own, another one after it had to join anew */
    bool mine;                          /* the table has this node under that incarnation */
    bool too_many;                      /* there are more than FEED_NODES_MAX others */
    int64_t newest; /* the last incarnation that was ever drawn: moved, somebody was here, be it for
                       a moment */
    int count;
    struct fanout_node others[FEED_NODES_MAX];
};
/* Before the first one nothing is told or heard. */
void fanout_know_nodes(struct fanout *fanout, const struct fanout_table *table);
/* Another Postgres answers now: its nodes have another channel, and until its table was read nobody
 * is told or heard. Under the lock IDENTITY. */
void fanout_another_postgres(struct fanout *fanout);
/* The table can't be read: not trusted until it was. */
void fanout_table_unreadable(struct fanout *fanout);
/* Looks whether trust still stands: silence and age are noticed here. Every few milliseconds. */
void fanout_judge(struct fanout *fanout);
/*
 * Waits until this node is trusted, at most that long: before the warm start, and before the front
 * opens, so that peers know of a newcomer before it can commit anything. True: it is.
 */
bool fanout_await_trust(struct fanout *fanout, int64_t us);
bool fanout_is_trusted(struct fanout *fanout);
/* Trusted, and no other node is there that could be killed between its commit and its telling. */
bool fanout_is_alone(struct fanout *fanout);

#define FANOUT_CHANNEL_BYTES 80
/* The channel: it names the database that answers. False: it is not known yet. */
HF_MUST_CHECK bool fanout_channel(struct fanout *fanout, char channel[FANOUT_CHANNEL_BYTES]);

/* One peer, as /metrics and the registry show it. */
struct fanout_peer {
    char id[ID_BYTES_MAX + 1];
    int64_t incarnation;
    uint64_t number;   /* up to which of its records we have */
    int64_t lag_us;    /* from its sending to our hearing, of its last frame; -1: never heard */
    int64_t silent_us; /* since it was last heard; -1: never */
    int64_t gaps;
    bool heard; /* whole: in the table, not silent, no doubt */
};
/* Up to `max` peers, those of the table first; returns how many. */
int fanout_peers(struct fanout *fanout, struct fanout_peer *peers, int max);

#endif
