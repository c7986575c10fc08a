/*
 * streams_internal.h - what the files of the streams room share.
 *
 *   event_text.c  what readers are told, as Server-Sent Events
 *   audience.c    one event's readers: what gathers for them, and its handing over
 *   begin.c       how a stream begins: anew, resumed, or with a reset
 *   keeper.c      turns, ends, counts, and when a map has to be read again
 *   streams.c     start, stop, and the thread that reads maps
 *
 * Locks. AUDIENCES guards who is there; a change comes under the feed's and the map's lock and only
 * adds to the text of its audience (AUDIENCE). So who holds AUDIENCES knows that no text is handed
 * over meanwhile, and who holds FEED too, that only what is read from Postgres may be added.
 */
#ifndef HOLDFAST_STREAMS_INTERNAL_H
#define HOLDFAST_STREAMS_INTERNAL_H

#include <stdatomic.h>

#include "holdfast/buf.h"
#include "holdfast/engine.h"
#include "holdfast/feed.h"
#include "holdfast/http.h"
#include "holdfast/lock.h"
#include "holdfast/seat_map.h"
#include "holdfast/streams.h"
#include "holdfast/thread.h"

/* Org and event ids come from clients: a hash that they can't foresee. */
#define HASH_FUNCTION(key, len, hash) ((hash) = (unsigned)hash_seeded((key), (len)))
#define HASH_NONFATAL_OOM             1
#include <uthash.h>
#include <utlist.h>

/* One reader. */
struct stream {
    struct stream *prev, *next; /* in its audience; guarded by AUDIENCES, as the next five */
    struct http_stream *http;
    struct mono_time began_at;
    struct db_time ends_at;
    size_t owed_from; /* where in the audience's text what it is owed begins */
    uint64_t turn;    /* the audience's, whose text it had last */
    atomic_int refs;  /* the audience's and the connection's */
    _Atomic bool gone;
    _Atomic int64_t *gone_count; /* of all streams: somebody has to be taken out */
};

struct audience {
    UT_hash_handle hh;
    unsigned key_len; /* fixed, as the key and the two below */
    char key[EVENT_KEY_BYTES];
    struct slice org, event;
    struct streams *owner;
    struct seat_map_watcher watcher;

    /* guarded by AUDIENCES */
    struct stream *streams; /* those that have not had the text that leaves come first */
    uint64_t turn;          /* +1 with each text that leaves */
    struct buf leaving;
    struct http_body *body; /* of it; NULL: nothing is leaving */
    int users;              /* those who begin or read its map now */
    bool must_read;         /* its map; whoever does it counts among the users */
    struct mono_time read_due;
    struct mono_time alive_due;
    bool has_counts; /* what was told last */
    struct seat_map_counts counts;

    /* guarded by lock */
    struct lock lock; /* rank AUDIENCE */
    struct buf text;  /* what all are about to be told */
    bool is_void;     /* text was thrown away: whoever is there is owed all of it */
    bool is_stirred;  /* counts may have moved */
};

struct streams {
    /* fixed */
    struct node *node;
    struct pg *pg; /* the reader's */
    struct thread keeper, reader;

    struct lock lock;           /* rank AUDIENCES */
    pthread_cond_t keeper_cond; /* somebody is there, or the end */
    pthread_cond_t reader_cond; /* a map has to be read, or the end */
    struct audience *audiences; /* uthash head */
    int64_t open;               /* streams and those who begin */
    bool is_closed;             /* new ones are refused */
    bool is_ending;             /* the threads end */
    int64_t handed;             /* how many got what leaves, of those whose turn it is */
    struct mono_time second_due;
    struct mono_time trusted_until; /* nothing can have been missed up to then */
    struct mono_time distrusted_at; /* as the maps said when we last looked */
    bool was_trusted;

    _Atomic int64_t gone_count;
};

/* --- event_text.c ---------------------------------------------------------------- */

/* news->at says when it was; after, id: NULL: none can be said. */
void event_write_seat(struct buf *out, const struct seat_map_news *news);
void event_write_counts(struct buf *out, const struct seat_map_counts *counts,
                        const struct feed_position *id, struct db_time now);
void event_write_reset(struct buf *out, const struct feed_position *id);
/* Nothing happened; id: a position to resume from all the same. */
void event_write_alive(struct buf *out, const struct feed_position *id);

/* --- audience.c ------------------------------------------------------------------- */

/* The event's audience, counted as used; NULL: no memory, or too many events are watched. */
struct audience *audience_get_locked(struct streams *streams, struct slice org, struct slice event);
void audience_put_locked(struct streams *streams, struct audience *audience);
/* Nobody is there and nobody uses it. */
bool audience_is_empty_locked(const struct audience *audience);
void audience_free_locked(struct streams *streams, struct audience *audience);
/* What has gathered is to leave; whoever has not had what left before gets that now. */
void audience_take_locked(struct streams *streams, struct audience *audience);
/* Hands what leaves to *left streams at the most, and counts them off. True: all have it. */
bool audience_hand_locked(struct streams *streams, struct audience *audience, int64_t *left);
/* Hands over what has gathered to all. */
void audience_flush_locked(struct streams *streams, struct audience *audience);
/* Runs `write` where the text stands at a position that can be said (id NULL: it can't be). */
void audience_write_locked(struct streams *streams, struct audience *audience,
                           void (*write)(struct audience *audience,
                                         const struct feed_position *id));

/* Takes the stream out of its audience and puts the audience's reference. */
void stream_remove_locked(struct streams *streams, struct audience *audience,
                          struct stream *stream);
/* When the connection is gone; context: the stream. */
void stream_closed(void *context);
void stream_put(struct stream *stream);

/* --- keeper.c --------------------------------------------------------------------- */

void *keeper_run(void *context);
/* One turn of it, and its first step. True: all have what left. */
bool keeper_turn_locked(struct streams *streams);

struct db_time streams_now(struct streams *streams);
/* Reads the map of an audience that the caller uses; no lock is held. */
enum pg_outcome streams_read_map(struct streams *streams, struct pg *pg,
                                 const struct audience *audience, struct mono_time deadline);

#endif
