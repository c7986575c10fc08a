/*
 * waitlist_internal.h - what the files of this room share.
 *
 *   waitlist.c   the thread: what is due when; start and stop
 *   news.c       what may have come free, and for which event
 *   lists.c      the table of the events at which somebody waits
 *   serve.c      OP_ASSIGN: handed out, and come back
 *   read.c       what Postgres is asked each second
 */
#ifndef HOLDFAST_WAITLIST_INTERNAL_H
#define HOLDFAST_WAITLIST_INTERNAL_H

#include <stdatomic.h>

#include "holdfast/cold.h"
#include "holdfast/lock.h"
#include "holdfast/thread.h"
#include "holdfast/waitlist.h"

#define HASH_FUNCTION(key, len, hash) ((hash) = (unsigned)hash_seeded((key), (len)))
#define HASH_NONFATAL_OOM             1
#include <uthash.h>
#include <utlist.h>

/* --- news.c -------------------------------------------------------------------- */

#define FREE_SEATS_MAX 8

/* What may have come free and was not looked at. Zeroed, it is nothing. */
struct news {
    bool whole; /* anything at all, or more than could be noted */
    int count;
    struct free_seat {
        char id[ID_BYTES_MAX + 1];
        struct mono_time heard; /* first */
    } seats[FREE_SEATS_MAX];
};

bool news_is_empty(const struct news *news);
/* seat.len == 0: anything. */
void news_add(struct news *news, struct slice seat, struct mono_time heard);
void news_merge(struct news *news, const struct news *more);
/* When it was heard that this seat is free. False: it isn't noted. */
bool news_heard(const struct news *news, struct slice seat, struct mono_time *heard);

/* --- lists.c --------------------------------------------------------------------- */

/* An event at which somebody waits. */
struct list {
    UT_hash_handle hh;
    struct list *prev, *next; /* of the ready ones */
    unsigned key_len;         /* fixed, as the key and the two below */
    char key[EVENT_KEY_BYTES];
    struct slice org, event;

    /* guarded by the room's lock */
    struct news news;
    int64_t newest;              /* the place of the last who came, as far as is known */
    unsigned pass;               /* of the reading that last saw it */
    bool is_ready;               /* there is news, and no op has it */
    bool is_busy;                /* an op is under way */
    int failures;                /* of its last ops, in a row */
    struct mono_time due;        /* of a ready one: when its turn comes */
    struct mono_time not_before; /* no turn of it does */
    struct mono_time sweep_due;  /* looked at then, whatever is heard */
};

struct waitlist {
    struct node *node; /* fixed */
    struct thread thread;

    /* guarded by lock */
    struct lock lock; /* rank WAITLIST */
    pthread_cond_t wake;
    bool stopping;
    struct list *lists; /* uthash head; owns them */
    struct list *ready; /* utlist head, in order of coming */
    unsigned pass;
    int under_way;   /* ops */
    bool is_stirred; /* something has changed since the thread last looked */

    /* the thread's own */
    struct pg *pg;
    char after_org[ID_BYTES_MAX + 1], after_event[ID_BYTES_MAX + 1]; /* how far the reading is */
    int64_t after_offer;
    struct mono_time read_due, count_due, replan_due;

    /* atomic, any thread */
    _Atomic int64_t list_count;
};

/* NULL: nobody waits there, as far as is known. */
struct list *list_find_locked(struct waitlist *room, struct slice org, struct slice event);
/* The same, or a new one. NULL: there is no room, or no memory. */
struct list *list_get_locked(struct waitlist *room, struct slice org, struct slice event);
/* News of it; its turn comes in delay_us. */
void list_tell_locked(struct waitlist *room, struct list *list, const struct news *news,
                      int64_t delay_us);
/* The first whose turn has come, with its news; it is busy then. NULL: none; *due: when. */
struct list *list_take_locked(struct waitlist *room, struct mono_time now, struct news *news,
                              struct mono_time *due);
/* It isn't busy any more; it has no turn for pause_us. */
void list_give_back_locked(struct waitlist *room, struct list *list, const struct news *left,
                           int64_t pause_us);
/* Those that the pass which ends now has not seen, and where nothing is to be done, go. */
void lists_end_pass_locked(struct waitlist *room);
void lists_free(struct waitlist *room);

/* --- serve.c ------------------------------------------------------------------------ */

/* Hands out ops as far as it may. When to look again. */
struct mono_time serve_due(struct waitlist *room);

/* --- read.c ------------------------------------------------------------------------- */

/* Where anybody waits. True: there is more to be read. */
bool read_events(struct waitlist *room);
/* Writes down what became of offers. True: there may be more. */
bool read_offers(struct waitlist *room);
void read_count(struct waitlist *room);

#endif
