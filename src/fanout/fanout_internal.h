/*
 * fanout_internal.h - what the files of the fan-out room share.
 *
 *   frame.c       a message of the channel, to bytes and back
 *   peers.c       who is heard, and whether anything can have been missed: plain state
 *   publisher.c   the thread that sends records and heartbeats
 *   subscriber.c  the thread that hears frames
 *   fanout.c      start, stop, trust, and what others ask
 */
#ifndef HOLDFAST_FANOUT_INTERNAL_H
#define HOLDFAST_FANOUT_INTERNAL_H

#include <stdatomic.h>

#include "holdfast/buf.h"
#include "holdfast/engine.h" /* struct node */
#include "holdfast/fanout.h"
#include "holdfast/lock.h"
#include "holdfast/thread.h"

/* --- frame.c ------------------------------------------------------------------------- */

#define FRAME_TAKE_BYTES (256 * 1024) /* of records that one frame takes, if there are several */
#define FRAME_BYTES_MAX  (4 * 1024 * 1024) /* Redis drops a subscriber that lags 8 MiB behind */

struct frame {
    char node[ID_BYTES_MAX + 1];
    int64_t incarnation;
    uint64_t serial; /* counts the frames of this incarnation: Redis may have kept an old one */
    uint64_t last;   /* the sender's last record: it is in here, or was sent or lost before */
    struct db_time sent_at; /* not before this; 0: the sender didn't know the time */
    bool in_doubt;          /* it doesn't know the outcome of some commit */
    bool farewell;          /* it leaves, and has told everything */
    bool who;               /* it has just come, or may have missed something: speak up, all */
    struct slice records;   /* not read yet; see frame_next */
};

struct frame_record {
    uint64_t number;
    struct slice bytes;
};

/* Appends a frame's head (records is ignored), and one record after the other behind it. */
void frame_write(struct buf *out, const struct frame *frame);
void frame_add(struct buf *out, uint64_t number, struct slice bytes);
/*
 * False: it is no frame of ours. Else it is whole: numbers rise, up to frame->last, and
 * frame_next will find each record. Points into `bytes`.
 */
HF_MUST_CHECK bool frame_read(struct slice bytes, struct frame *frame);
/* Takes the next record off frame->records. False: there is none. */
bool frame_next(struct frame *frame, struct frame_record *record);

/* --- peers.c ------------------------------------------------------------------------- */

#define PEERS_MAX    FEED_NODES_MAX
#define TABLE_AGE_US (2 * (int64_t)TIME_US_PER_S) /* the table of nodes is read each second */
#define NEVER_US     (INT64_MIN / 2)

struct peer {
    char id[ID_BYTES_MAX + 1];
    int64_t incarnation;
    bool in_table;
    bool followed; /* what it says is known up to `number` */
    bool all_life; /* from its first record on, without a gap */
    bool parted;   /* it said farewell */
    bool in_doubt;
    bool lost;       /* it was followed; the feed is still to be told that it isn't */
    uint64_t serial; /* of its newest frame */
    uint64_t number;
    struct mono_time heard_at; /* when a frame of it last came */
    struct mono_time fresh_at; /* when one was sent that came over this subscription */
    int64_t lag_us;            /* of its last frame; -1: not known */
    int64_t gaps;
};

struct peers {
    /* this node */
    char id[ID_BYTES_MAX + 1];
    int64_t incarnation, former; /* former: our last one, if we had to join anew; 0: none */

    /* the table */
    bool table_is_known, mine, too_many;
    struct mono_time table_at; /* when the read began */
    int64_t newest;            /* 0: not read yet */

    /* the channel */
    bool subscribed;
    struct mono_time own_at;     /* when our own frame was sent that last came back */
    struct mono_time foreign_at; /* when another's frame last came */
    struct mono_time strange_at; /* when one came that can't be kept apart from others */

    bool missed; /* something that memory would have had to know */
    bool trusted;
    int count;
    struct peer peer[PEERS_MAX];
};

void peers_init(struct peers *peers, const char *id, int64_t incarnation);

void peers_know_table(struct peers *peers, const struct fanout_table *table);
void peers_table_is_unreadable(struct peers *peers);
/* The subscription: a new one stands, or there is none. */
void peers_joined(struct peers *peers);
void peers_deaf(struct peers *peers);

enum peers_hearing {
    PEERS_OWN,  /* this node's own */
    PEERS_OLD,  /* an older one than was heard already, or of nobody: nothing was taken in */
    PEERS_HEARD /* its records are news */
};
/*
 * Takes in a frame that came at `now`. sent_at: when it was sent at the earliest, by this machine's
 * clock; NEVER_US: not known.
 */
enum peers_hearing peers_hear(struct peers *peers, const struct frame *frame,
                              struct mono_time sent_at, struct mono_time now);
/* A record of this peer could not be read: so it is missing. */
void peers_garbled(struct peers *peers, int64_t incarnation);

struct peers_verdict {
    bool trusted;
    bool alone;             /* trusted, and there is nobody to be heard */
    struct mono_time until; /* trusted: so long, if nothing is heard or read any more */
    bool changed;           /* it was not so before */
    bool missed; /* trusted as before, but something was missed: what memory knows is void */
    int lost_count;
    int64_t lost[PEERS_MAX]; /* incarnations that aren't followed any more */
};
/* The one place where trust is decided. in_doubt: this node, about a commit of its own. */
void peers_judge(struct peers *peers, bool in_doubt, struct mono_time now,
                 struct peers_verdict *verdict);
/* Whether anybody may want to hear our records. */
bool peers_has_audience(const struct peers *peers, struct mono_time now);
/* Followed, not silent, in no doubt. */
bool peer_is_whole(const struct peer *peer, struct mono_time now);

/* --- fanout.c ------------------------------------------------------------------------- */

struct fanout {
    /* fixed after start */
    struct node *node;
    struct thread publisher, subscriber;
    struct warm *warm;                     /* the publisher's */
    struct warm_listener *listener;        /* the subscriber's; NULL: no channel yet */
    struct buf message;                    /* the publisher's */
    char listens_to[FANOUT_CHANNEL_BYTES]; /* the subscriber's: its listener's channel */

    /* guarded by lock */
    struct lock lock; /* rank NODES */
    struct peers peers;
    char channel[FANOUT_CHANNEL_BYTES]; /* "": not known yet, or not any more */
    struct mono_time another_at;        /* when another Postgres was last seen */

    /* atomic, any thread */
    _Atomic bool trusted;
    _Atomic bool alone; /* and there is nobody to be heard */
    _Atomic bool speak; /* a frame is wanted at once */
    _Atomic bool ask;   /* and it shall ask the others for one */
    _Atomic bool stopping;
    _Atomic bool farewell; /* the publisher says so when it ends */
};

/* A frame goes out at once; ask: it wants an answer of everybody. */
void fanout_speak(struct fanout *fanout, bool ask);
/* Judges under the lock, which the caller has; drops it, then says what came of it. */
void fanout_judge_and_drop(struct fanout *fanout, struct mono_time now);

void *publisher_main(void *context);
void *subscriber_main(void *context);

#endif
