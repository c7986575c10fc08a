/*
 * seat_map.h - the seat map of events, ready to send.
 *
 * Per event: its seats in display order (section, row, number) as Postgres had them,
 * moved forward by every change that the feed brings, with a position that counts
 * changes. A map's public version is "<boot>-<position>[-<time>-<feed position>]": opaque. This
 * node and start tells a difference by the first two, any other node by the rest, or gives the
 * whole (version.c says when it can tell). While this node isn't trusted (fanout.h) the map is
 * compared with Postgres again when it is old (the caller's fresh_since), and what differs counts
 * as a change.
 *
 * A body (and its gzip) is rendered once per position and shared by all readers. One thread at a
 * time writes a map, and rests as long as it took: however many ask while it changes, it costs half
 * a thread at the most.
 *
 * Threads:  any. Locks: MAP_TABLE, then MAP; never across I/O: loading is done by
 *           the caller between seat_maps_get and seat_maps_load.
 * Memory:   72 bytes a seat, and what never changes about it: its JSON and some 60 bytes. Where
 *           best seats are chosen, five bits a seat, and 4 for each of at most 20 numbers of seats
 *           that are asked for.
 * Limits:   maps_max events; the one longest unused goes, but none that is watched. At most three
 *           quarters are watched: those that nobody follows can still be read.
 */
#ifndef HOLDFAST_SEAT_MAP_H
#define HOLDFAST_SEAT_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/clock.h"
#include "holdfast/cold.h"
#include "holdfast/feed.h"
#include "holdfast/hot_table.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"

struct buf;
struct http_body;
struct seat_maps; /* opaque */

struct seat_maps *seat_maps_new(int maps_max);
void seat_maps_free(struct seat_maps **maps);

/* Trusted: nothing can have been missed, so a map in memory that the feed moved forward is the
 * truth, however old. */
void seat_maps_set_trusted(struct seat_maps *maps, bool trusted);
bool seat_maps_trusted(const struct seat_maps *maps);
/* Trust lapses by itself then, if it isn't moved on (trust.h). Never called: it doesn't lapse. */
void seat_maps_trust_until(struct seat_maps *maps, struct mono_time until);

/*
 * Takes in a change as the feed brings it (a seat's, an area's, or FEED_SEATS: the map has to be
 * read again). Ignored for events whose map is not in memory, and for older versions. from: the
 * record that it came in; 0: none. after: what a reader has who was told it too; NULL: that can't
 * be said (something was missed). The feed's lock is held.
 */
void seat_maps_take(struct seat_maps *maps, const struct feed_change *change, struct feed_mark from,
                    const struct feed_position *after);

/* --- who wants to know of every change --------------------------------------------------- */

/* A seat that moved forward. Borrowed for the call. */
struct seat_map_news {
    struct slice seat;
    enum seat_status status;
    int64_t version;
    enum feed_reason reason;
    struct db_time at; /* when it was judged; 0: not known (found by reading the map) */
    bool added;        /* it was not there before */
    bool freed;        /* it was not available before, as far as is known */
    const struct feed_position *after; /* as above; NULL: found by reading, or not sayable */
};
struct seat_map_counts {
    int64_t available, held, sold, blocked, total;
    int64_t area_held; /* what of `held` is in areas */
};
/* As GET .../occupancy says them. */
void seat_map_counts_write(struct buf *out, const struct seat_map_counts *counts,
                           struct db_time now);
/*
 * One for an event, embedded in the watcher's own. All are called under the map's lock (rank MAP),
 * and may take only higher ones. A map that is watched stays in memory.
 */
struct seat_map_watcher {
    /*
     * Per seat in the order of versions. One that was read before its record came is told when it
     * comes, though the map had it already, and may have been told then too.
     */
    void (*moved)(struct seat_map_watcher *watcher, const struct seat_map_news *news);
    /* Counts of areas moved. */
    void (*counted)(struct seat_map_watcher *watcher);
    /* Another server answers now: what was told is void, and the map has to be loaded. */
    void (*forgotten)(struct seat_map_watcher *watcher);
};
/* Makes the map if there is none (it has to be loaded then). False: no memory, or as many are
 * watched as may be. */
HF_MUST_CHECK bool seat_maps_watch(struct seat_maps *maps, struct slice org, struct slice event,
                                   struct seat_map_watcher *watcher);
/* After the return no callback runs any more. */
void seat_maps_unwatch(struct seat_maps *maps, struct slice org, struct slice event);
/* True: the map is in memory, loaded, this node is trusted, and nothing was missed as far as is
 * known: what the map has been told and will be told is all there is. */
bool seat_maps_is_whole(struct seat_maps *maps, struct slice org, struct slice event);
bool seat_maps_is_loaded(struct seat_maps *maps, struct slice org, struct slice event);
/*
 * Seats and areas counted, seats whose hold is over at `now` (which has passed for sure) as
 * available; quantities of areas are held until they were given back. No walk over the seats.
 * False: not loaded.
 */
bool seat_maps_count(struct seat_maps *maps, struct slice org, struct slice event,
                     struct db_time now, struct seat_map_counts *counts);

/* Other nodes may have changed anything: every map is compared with Postgres before it is served
 * again. */
void seat_maps_distrust(struct seat_maps *maps);
/* When they last may have. */
struct mono_time seat_maps_distrusted_at(const struct seat_maps *maps);
/* Everything is void (another server answers now). */
void seat_maps_forget(struct seat_maps *maps);

enum seat_map_answer {
    SEAT_MAP_BODY,         /* *body (one reference) is the answer */
    SEAT_MAP_NOT_MODIFIED, /* the client's If-None-Match is still true */
    SEAT_MAP_LOAD,  /* not in memory, or too old: load it (see seat_maps_load), then ask again */
    SEAT_MAP_RENDER /* it takes too long to write here: ask again from a thread that may
                       (may_render) */
};

struct seat_map_request {
    struct slice org, event;
    struct slice since;           /* empty: the whole map */
    struct slice if_none_match;   /* empty: none */
    bool gzip;                    /* the client takes it */
    struct db_time now;           /* database clock: what is over shows as available */
    struct mono_time fresh_since; /* a map that rests on an older read must be loaded; 0: any age */
    /*
     * When the request came: a map that rests on a read begun since then will do, whatever
     * was invalidated meanwhile. 0: it doesn't count.
     */
    struct mono_time arrived;
    /*
     * False on a loop: only what is ready or small is answered. True: the caller may spend
     * milliseconds, has made sure that the event exists, and may wait for another's rendering.
     */
    bool may_render;
    /* The position that a SEAT_MAP_RENDER named: a body made since then will do. 0: only the
     * newest. */
    uint64_t at_least;
    /* What the feed had before this call, so what the answer has. Needed with `since` and with
     * may_render only; without it other nodes can't tell a difference from the answer's version. */
    const struct feed_position *feed;
    /*
     * The map as GET /api/shows/{event}/seats has it, always the whole: which version of the
     * event's row it speaks of at the least (0: the map alone), and what it says of the show, as
     * JSON. The text is needed with may_render only.
     */
    int64_t show_version;
    struct slice show;
    /* seat_maps_copy: stands for the reader in the tag, where what is made of a copy differs by it.
     */
    uint64_t reader;
};

/* W/"<event>-<version>", of a show W/"<event>.<version of its row>-<version>" */
#define SEAT_MAP_ETAG_BYTES (ID_BYTES_MAX + FEED_POSITION_TEXT_BYTES + 96)

struct seat_map_reply {
    struct http_body *body; /* one reference, the caller's */
    bool gzip;              /* body is gzip */
    uint64_t position;      /* with SEAT_MAP_RENDER: see at_least */
    char etag[SEAT_MAP_ETAG_BYTES];
};

enum seat_map_answer seat_maps_get(struct seat_maps *maps, const struct seat_map_request *request,
                                   struct seat_map_reply *reply);

/* --- a copy, for who writes it in another way ---------------------------------------- */

struct seat_map_seat {
    struct slice seat;       /* lives as long as the copy */
    enum seat_status status; /* a hold that is over shows as available */
    int64_t version;
    struct db_time until; /* of a held one */
    uint64_t user_hash;   /* hash_seeded of who has it; 0: nobody, or that isn't known */
};

/* All seats that are not removed, by row and number, as they were at one moment. */
struct seat_map_copy {
    int count;
    struct seat_map_seat *seats;
    struct layout *layout; /* the map's own */
};

/*
 * As seat_maps_get, and SEAT_MAP_BODY gives the copy instead of a body: the caller's, until
 * seat_map_copy_free. On a loop (may_render is false) only of some hundred seats, else
 * SEAT_MAP_RENDER. `since` and `show` don't count. SEAT_MAP_LOAD: no memory, too.
 */
enum seat_map_answer seat_maps_copy(struct seat_maps *maps, const struct seat_map_request *request,
                                    struct seat_map_reply *reply, struct seat_map_copy *copy);
void seat_map_copy_free(struct seat_map_copy *copy);

/* --- reading a map -------------------------------------------------------------------- */

/* What is noted before a map is read. */
struct seat_map_reading {
    struct mono_time began;
    struct db_time now;               /* it is not later than this; 0: not known */
    const struct feed_position *feed; /* what the feed had; NULL: not known */
};
void seat_map_reading_begin(struct seat_map_reading *reading, struct db_clock *clock,
                            const struct feed_position *feed);
/*
 * Takes in the rows of read_seat_map and read_areas, read in that order by a read that began at
 * `reading`, after seat_maps_get (with may_render) said SEAT_MAP_LOAD; seats that the feed has
 * moved past meanwhile stay ahead (versions only go forward). Who watches is told what differs.
 * Changes that came while nothing was in memory yet can be missing: then the next get says
 * SEAT_MAP_LOAD once more. False: no memory.
 */
HF_MUST_CHECK bool seat_maps_load(struct seat_maps *maps, struct slice org, struct slice event,
                                  const struct pg_result *seats, const struct pg_result *areas,
                                  const struct seat_map_reading *reading);
/* Reads them and takes them in. PG_REPEAT: no memory, too. */
HF_MUST_CHECK enum pg_outcome seat_maps_read(struct seat_maps *maps, struct pg *pg,
                                             struct slice org, struct slice event,
                                             const struct seat_map_reading *reading,
                                             struct mono_time deadline);

/* --- the best seats ------------------------------------------------------------------ */

#define SEATS_CHOSEN_MAX 500 /* max_seats_per_hold can't be set higher */

/* What is wished of the seats. */
struct seat_wish {
    int quantity;                 /* 1 .. SEATS_CHOSEN_MAX */
    struct slice section, type;   /* empty: any */
    bool adjacent;                /* side by side, or none; else in as few groups as may be */
    bool accessible;              /* accessible seats; else none but by their type */
    int64_t price_min, price_max; /* INT64_MIN, INT64_MAX: any, also seats without a price */
    bool no_gap;                  /* only what the gap rule allows (seating.h) */
    uint32_t among;               /* 1: the best; more: one of so many good choices, by `random` */
    uint64_t random;
    struct db_time now;      /* as seat_map_request has it */
    struct db_time now_most; /* it is not later: nothing is denied while a hold may be over */
    struct mono_time fresh_since, arrived;
    bool is_reader; /* SEAT_CHOICE_LOAD was the answer before, and nothing was loaded yet */
};

enum seat_choice {
    SEAT_CHOICE_MADE,
    SEAT_CHOICE_LATER,   /* only seats that are under way would do; or nothing can be said yet:
                            another one loads the map, or a hold may be over */
    SEAT_CHOICE_LOAD,    /* the map is not there, or must be read first: it is the caller's to load
                            it (seat_maps_read) and to ask again as is_reader */
    SEAT_CHOICE_TOO_FEW, /* fewer free seats of the kind than asked for */
    SEAT_CHOICE_APART,   /* enough, but not side by side, or only with a gap */
    SEAT_CHOICE_NO_MEMORY
};

/*
 * Chooses the best free seats: of least mean distance to the event's focal point, ties (and all,
 * where not every seat has x and y) in display order. Whatever is said rests on what Postgres had
 * committed, as far as this node knows: the seats have to be taken there.
 *
 * MADE: ids[0 .. quantity-1] are the seats, in display order. They are under way, and not chosen
 * again, until they are given back: on every way that their try ends. Of a map that was dropped
 * meanwhile nothing is remembered; then they may be chosen twice, and Postgres decides.
 *
 * Takes MAP_TABLE, then MAP: microseconds; some 20 for each 10,000 seats when the best of them are
 * gone and others were freed. The first choice of a number of seats sorts them without a lock.
 */
HF_MUST_CHECK enum seat_choice seat_maps_choose(struct seat_maps *maps, struct slice org,
                                                struct slice event, const struct seat_wish *wish,
                                                char (*ids)[ID_BYTES_MAX + 1]);
/* is_doubtful: somebody was in the way, so they are not chosen for a moment (of 0.2 s at most). */
void seat_maps_give_back(struct seat_maps *maps, struct slice org, struct slice event,
                         char (*ids)[ID_BYTES_MAX + 1], int count, bool is_doubtful);

#endif
