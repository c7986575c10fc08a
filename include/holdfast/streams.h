/*
 * streams.h - live events of seat maps (Server-Sent Events), as the committed feed brings them.
 *
 * One AUDIENCE per event that somebody watches: it watches the event's seat map, writes each change
 * once, and every turn (STREAMS_TURN_US, with thousands of streams longer) hands what has gathered
 * to all its streams as one shared body: spread over the turn, not in a burst that would keep
 * the machine from whoever wants a seat in that moment. Per seat, events come in the order of
 * versions; a change that a newer one has overtaken on its way here is left out. An event's id is a
 * position of the feed that any node can resume from. Those that were found by comparing with
 * Postgres have none (a peer was lost, or heard with a gap), nor has any while the map may lack
 * something: the reader's last id stays before them. The same version of a seat comes twice if it
 * was found before its record came.
 *
 *   event: seat_held | seat_released | seat_sold | seat_blocked | seat_removed | seat_added |
 *          seat_changed (free as before; its price or place moved)
 *   data:  {"seat_id","status","version","reason"?,"timestamp"}
 *   event: occupancy_changed   data: the counts of GET .../occupancy; first of all (behind what was
 *                              missed), then at most once a second and only if they changed
 *   event: reset               data: {}; what was missed can't be told: read the map anew
 *   ": alive"                  each 15 s, with an id of now
 *
 * Two threads. The keeper: turns; counts occupancy; ends streams whose token is over; resets those
 * whose beginning is in doubt (keeper.c). The reader loads the map of an audience anew when it has
 * to be read again (distrusted, seats added), and each second while this node isn't trusted, so
 * that changes that nobody told appear all the same.
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

/*
 * From one turn to the next; longer where there are many streams: some 5,000 writes a second. What
 * a write costs beside its bytes is more than they do, until some 50 KB have gathered.
 */
#define STREAMS_TURN_US     (20 * TIME_US_PER_MS)
#define STREAMS_TURN_MAX_US (500 * TIME_US_PER_MS)
#define STREAM_SHARE_US     200
/* So often, within a turn, some of them get theirs. */
#define STREAMS_STEP_US (5 * TIME_US_PER_MS)
#define STREAMS_AT_ONCE 40

/* Starts both threads. NULL: no memory or no thread. */
struct streams *streams_start(struct node *node);
/* Ends every stream (drain: clients come back elsewhere); new ones are refused from now on. */
void streams_close(struct streams *streams);
void streams_stop(struct streams **streams);

/*
 * Whether one more may begin, for who has something to use up before: HF_OK, HF_DRAINING or
 * HF_OVERLOADED. It may have changed when it does.
 */
HF_MUST_CHECK enum hf_status streams_admit(struct streams *streams);
/*
 * Answers `exchange` with a stream of an event that exists; takes it if HF_OK. last_event_id: as
 * the client sent it, or empty. ends_at: when the token is over (database clock). May block on
 * Postgres through `pg` (the map is loaded): for the desk. Otherwise the exchange is still the
 * caller's. HF_OVERLOADED: too many streams, or events that are watched (seat_map.h); HF_DRAINING:
 * closed; HF_STORE_UNAVAILABLE, HF_INTERNAL: the map can't be read.
 */
struct pg;
HF_MUST_CHECK enum hf_status streams_begin(struct streams *streams, struct pg *pg,
                                           struct http_exchange *exchange, struct slice org,
                                           struct slice event, struct slice last_event_id,
                                           struct db_time ends_at);

#endif
