/*
 * streams.h - live events of seat maps (Server-Sent Events), as the committed feed brings them.
 *
 * One AUDIENCE per event that somebody watches: it watches the event's seat map, writes each change
 * once, and every turn (STREAMS_TURN_US) hands what has gathered to all its streams as one shared
 * body. Per seat, events come in the order of versions; a change that a newer one has overtaken on
 * its way here is left out. Every event carries an id, a position of the feed, that any node can
 * resume from, except those that were found by comparing with Postgres (a peer was lost, or heard
 * with a gap): they have none, so the reader's last id stays before them.
 *
 *   event: seat_held | seat_released | seat_sold | seat_blocked | seat_removed | seat_added
 *   data:  {"seat_id","status","version","reason"?,"timestamp"}
 *   event: occupancy_changed   data: the counts of GET .../occupancy; at most once a second
 *   event: reset               what was missed can't be told: read the map anew
 *   ": alive"                  each 15 s
 *
 * The keeper, a thread of this room: turns; loads the map of an audience anew when it has to be
 * read again (distrusted, invalidated), and each second while this node isn't trusted, so that
 * changes that nobody told appear all the same; counts occupancy; ends streams whose token is over.
 *
 * Threads:  any. Locks: AUDIENCES before FEED and MAP.
 * Limits:   streams_max streams of the node (then 503 overloaded); a stream that lets
 *           stream_backlog_max bytes gather is ended, nobody waits for it.
 */
#ifndef HOLDFAST_STREAMS_H
#define HOLDFAST_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/clock.h"
#include "holdfast/http.h"
#include "holdfast/slice.h"
#include "holdfast/status.h"

struct streams; /* opaque */
struct node;

#define STREAMS_TURN_US (20 * TIME_US_PER_MS)

/* Starts the keeper. NULL: no memory or no thread. */
struct streams *streams_start(struct node *node);
/* Ends every stream (drain: clients come back elsewhere); new ones are refused from now on. */
void streams_close(struct streams *streams);
void streams_stop(struct streams **streams);

/*
 * Answers `exchange` with a stream of an event that exists; takes it if HF_OK. last_event_id: as
 * the client sent it, or empty. ends_at: when the token is over (database clock). May block on
 * Postgres through `pg` (the map is loaded): for the desk. HF_OVERLOADED: too many streams;
 * HF_STORE_UNAVAILABLE, HF_INTERNAL: the exchange is still the caller's.
 */
struct pg;
HF_MUST_CHECK enum hf_status streams_begin(struct streams *streams, struct pg *pg,
                                           struct http_exchange *exchange, struct slice org,
                                           struct slice event, struct slice last_event_id,
                                           struct db_time ends_at);
/* Streams that are open. */
int64_t streams_open(struct streams *streams);

#endif
