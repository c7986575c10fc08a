/*
 * feed.h - the committed changes of all nodes, as this one learns them, in one order.
 *
 * Each node numbers what it committed: record 1, 2, 3 ... of its incarnation (a number that no
 * other start of any node has). feed_tell takes in a record of this node, feed_hear one of a peer.
 * Either is moved into memory under one lock: seat maps (and the streams that watch them), what is
 * known about events, and for a peer's record the hot table too (the engine has settled its own).
 * Then it goes into a bounded log, from which a stream is resumed, and a record of this node into
 * the outbox, from which the publisher takes it (fanout.h). A record is kept as it is sent.
 *
 * A POSITION says for each incarnation up to which record its changes are in. It is written
 * compactly and is opaque to clients; any node can tell from it what a reader has not seen, or that
 * it can't tell. Since numbers are given after the commit, no change can appear before a position.
 *
 * Incarnations that left cleanly stay in positions for 10 minutes. One that was lost (killed, or
 * unheard) leaves at once: what it committed and never told is in no record, so no position from
 * before can be resumed from. One that was heard with a gap can be resumed from behind the gap.
 *
 * Callers:  engine and desk tell; fanout hears, takes and loses; maps, streams and the API read.
 * Threads:  any. Locks: FEED, then MAP_TABLE, MAP, EVENTS, SHARD; never across I/O.
 * Memory:   changes are borrowed for the call; records are counted.
 * Limits:   the log has at most log_bytes_max of records, the outbox FEED_OUTBOX_BYTES_MAX: beyond
 *           it the oldest record is dropped there, which its receivers see as a gap.
 *           FEED_NODES_MAX incarnations in a position; past it the one longest gone leaves.
 *           A replay walks over FEED_REPLAY_RECORDS_MAX records at most, and opens about
 *           FEED_REPLAY_BYTES_MAX of them: who missed more reads the map.
 */
#ifndef HOLDFAST_FEED_H
#define HOLDFAST_FEED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/clock.h"
#include "holdfast/feed_position.h"
#include "holdfast/hot_table.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"

#define FEED_OUTBOX_BYTES_MAX (8 * 1024 * 1024)
#define FEED_REPLAY_BYTES_MAX (1024 * 1024) /* some 15,000 changes */
/* Every commit waits meanwhile: a millisecond or two. */
#define FEED_REPLAY_RECORDS_MAX 16384

struct feed; /* opaque */
struct node;

/* --- changes ---------------------------------------------------------------------- */

enum feed_kind {
    FEED_SEAT,  /* a seat's row changed: version, status, hold, user, held_until */
    FEED_AREA,  /* an area's counts moved: version, held, sold */
    FEED_EVENT, /* the event's own row changed: version (status, policy, name) */
    FEED_SEATS /* seats or areas were added, or changed in what they are: maps must be read again */
};

/* Why a seat was freed, as API.md names it; FEED_REASON_NONE where there is none to tell. */
enum feed_reason {
    FEED_REASON_NONE,
    FEED_TTL_EXPIRED,
    FEED_USER_CANCELLED,
    FEED_PAYMENT_FAILED,
    FEED_ADMIN_OVERRIDE,
    FEED_WAITLIST_LAPSED,
    FEED_REPLACED,
    FEED_UNBLOCKED
};
const char *feed_reason_word(enum feed_reason reason); /* "ttl_expired", ...; NULL for none */
/* FEED_REASON_NONE for a word that is none of them. */
enum feed_reason feed_reason_parse(struct slice word);

/* Borrowed for the call. What a kind does not name above is zero. */
struct feed_change {
    enum feed_kind kind;
    enum feed_reason reason;
    enum seat_status status;
    bool in_payment;
    struct slice org, event, item; /* item: the seat or area; empty for an event */
    int64_t version;
    struct uuid hold_id;
    struct slice user; /* whose hold; empty: nobody's */
    struct db_time held_until;
    struct db_time at; /* the clock reading that judged the change */
    int64_t held, sold;
};

/* A seat's change as the hot table takes it in. */
struct seat_view feed_view(const struct feed_change *change);

/* --- life ------------------------------------------------------------------------- */

/* node's maps, hot table and events must be there. NULL: no memory. */
struct feed *feed_new(struct node *node, int64_t log_bytes_max);
void feed_free(struct feed **feed);
/* This node has joined as `incarnation`: its records count from 1. Before, feed_tell only moves
 * memory. Called once more if the node had to join again under another incarnation. */
void feed_start(struct feed *feed, int64_t incarnation);
/*
 * After feed_start: an incarnation that this node never heard left cleanly so long ago, having told
 * `last` records. Who has them all can be resumed here, if his position is younger than this node.
 */
void feed_adopt(struct feed *feed, int64_t incarnation, uint64_t last, int64_t age_us);
/* The number of this node's last record. */
uint64_t feed_last(struct feed *feed);

/* --- this node's changes ----------------------------------------------------------- */

/*
 * Takes in what one committed transaction changed, as one record. Order: as the transaction made
 * them (a take-over is two changes of its seat). count 0: nothing happens. What can't be recorded
 * for want of memory uses up its number all the same: readers see a gap, never a lie.
 */
void feed_tell(struct feed *feed, const struct feed_change *changes, int count);

/*
 * Something was committed, or may have been, that can't be told (its rows were lost): it uses up a
 * number, so every reader and peer sees a gap. Memory is the caller's to distrust.
 */
void feed_skip(struct feed *feed);
/*
 * What was missed up to now is in no record, and won't be: no position from before can be resumed
 * from, on this node. Peers see no gap. For whoever becomes trusted again, or missed something
 * while trusted (an import told nothing), and another Postgres.
 */
void feed_break(struct feed *feed);

/* A record as it is sent and kept: the changes of one transaction, encoded. Counted. */
struct feed_record {
    atomic_int refs;
    int64_t incarnation;
    uint64_t number;
    struct feed_record *next; /* its owner's, while one list has it */
    uint32_t change_count;
    uint32_t len;
    uint64_t events; /* a bit for each event that it is about */
    char bytes[];
};
void feed_record_put(struct feed_record *record);

/*
 * For the publisher: waits up to wait_us for records, then gives up to bytes_max of them in order
 * (at least one if there is any), linked by `next`, each with a reference of the caller's.
 * *last: the number of the newest record of this node now, published or not. NULL: there are none.
 * feed_wake ends a wait early.
 */
struct feed_record *feed_take(struct feed *feed, size_t bytes_max, int64_t wait_us, uint64_t *last);
void feed_wake(struct feed *feed);

/* --- peers' changes ---------------------------------------------------------------- */

enum feed_hearing {
    FEED_HEARD,    /* it was the next one */
    FEED_REPEATED, /* it is in already: nothing was done */
    FEED_GAP,      /* records between are missing; it was taken in all the same */
    FEED_GARBLED   /* its bytes are no record: nothing was done */
};
/*
 * Takes in record `number` of a peer. began: the latest time at which it is known that what it says
 * was true (its sending, by this machine's clock): what memory's trust in it rests on; or on when
 * it was judged, if that is earlier, which it is by much where its node stood still before it told.
 * The first record or feed_hear_last of an incarnation is where its hearing begins: FEED_GAP. If it
 * told something before, no position from before its hearing can be resumed from.
 * Whatever may have been missed, maps are distrusted before anything from behind it is told.
 */
enum feed_hearing feed_hear(struct feed *feed, int64_t incarnation, uint64_t number,
                            struct slice bytes, struct mono_time began);
/* The peer says that `number` was its last record so far. FEED_GAP: some are missing. */
enum feed_hearing feed_hear_last(struct feed *feed, int64_t incarnation, uint64_t number);
/* The peer was lost: killed, cut off or silent. Heard again, its hearing begins anew. */
void feed_lose(struct feed *feed, int64_t incarnation);
/* The peer left cleanly, having told everything. */
void feed_part(struct feed *feed, int64_t incarnation);

/* --- one who listens ------------------------------------------------------------------ */

/*
 * Has `hear` called for every change from now on, of this node (ours) and of peers, as soon as
 * memory has it: under the feed's lock, so it is brief and may not call the feed. There is one
 * place for it; NULL empties it, and then no call is under way any more.
 */
typedef void feed_hearer(void *context, const struct feed_change *change, bool ours);
void feed_watch(struct feed *feed, feed_hearer *hear, void *context);

/* --- readers ------------------------------------------------------------------------ */

/* What this node has in memory now. */
void feed_position(struct feed *feed, struct feed_position *position);

/*
 * Waits until memory has all that `position` has: another node, where a reader comes from, may be
 * ahead of this one. False: not in that time. Sleeps. Positions come from clients, so it is false
 * at once where the rest will hardly come (it is of none who lives, or of many records), while
 * another waits, and for a second after one waited in vain.
 */
bool feed_await(struct feed *feed, const struct feed_position *position, int64_t wait_us);

/*
 * For a stream that begins: everything of an event that is in the log and not in `since` is given
 * to `visit`, in this node's order, and then `ready` is called, all under the feed's lock: no
 * change can slip between. since NULL: nothing is visited. Neither may call the feed. False: the
 * log does not reach back that far, or `since` names what can't be known: nothing was visited,
 * `ready` was called.
 * after NULL: the reader has this change. Those that may have overtaken one that is missed, on
 * their way to the node where he was told, are given before it.
 */
bool feed_replay(struct feed *feed, struct slice org, struct slice event,
                 const struct feed_position *since,
                 void (*visit)(void *context, const struct feed_change *change,
                               const struct feed_position *after),
                 void (*ready)(void *context, const struct feed_position *now), void *context);

/* For /metrics. */
struct feed_numbers {
    int64_t log_records, log_bytes, outbox_records;
};
void feed_numbers(struct feed *feed, struct feed_numbers *numbers);

#endif
