/*
 * repair_internal.h - what the files of the repair room share.
 *
 * compare.c  one event: its steps, and what they ask Postgres
 * seats.c    what stands under the keys of its seats, in portions and rounds
 * strays.c   members of seat_holds, and keys, that nothing in Postgres explains
 * memory.c   what the hot table believes
 * repair.c   the thread: which event when
 */
#ifndef HOLDFAST_REPAIR_INTERNAL_H
#define HOLDFAST_REPAIR_INTERNAL_H

#include <stdatomic.h>

#include "holdfast/arena.h"
#include "holdfast/repair.h"
#include "holdfast/warm_repair.h"

#define PORTION    1000                  /* seats, or members, that are compared at a time */
#define MOMENT_US  (20 * TIME_US_PER_MS) /* the engine tells Redis well within it */
#define YIELD_US   500                   /* between two portions */
#define BUSY_SHARE 5 /* while people buy, repair takes one part in so many of the time */

/* One event under comparison. */
struct comparison {
    struct node *node;
    struct pg *pg;
    struct warm *warm;
    struct slice org, event;
    enum repair_mode mode;
    struct mono_time deadline;
    const _Atomic bool *stopping; /* NULL: nobody stops it */
    bool trusted;                 /* it was, when we began */
    int64_t left;                 /* what differs and could not be mended */
    struct repair_report *report;
};

/* As repair_event, for a thread that may be told to stop. */
HF_MUST_CHECK enum hf_status compare_event(struct comparison *c);

/* HF_OK while there is time left. */
enum hf_status compare_goes_on(const struct comparison *c);
/* Stands still that long, unless it is to stop. */
void compare_rest(const struct comparison *c, int64_t us);
/* After a portion that began then: the hot path goes first. */
void compare_yield(const struct comparison *c, struct mono_time began);

/* --- what Postgres says of a seat (rows of warm_seats and warm_seat_page) ------------ */

enum warm_need {
    NEED_UNKNOWN, /* a row written by hand: nothing can be said */
    NEED_NOTHING, /* not held */
    NEED_MAYBE,   /* a hold that is over: its key may be gone already */
    NEED_HOLD
};

struct warm_want {
    enum warm_need need;
    bool exists;           /* Postgres has such a seat, be it a removed one */
    struct warm_hold hold; /* of NEED_MAYBE and NEED_HOLD; texts point into the rows */
};

/* The columns of both statements. */
enum {
    WS_SEAT,
    WS_STATUS,
    WS_HOLD,
    WS_USER,
    WS_VERSION,
    WS_UNTIL,
    WS_NOW,
    WS_CART,
    WS_SOURCE,
    WS_BORN
};

void warm_want_read(const struct comparison *c, const struct pg_result *rows, int row,
                    struct warm_want *want);

/* Asks for these seats. `seats` is a text[]. */
HF_MUST_CHECK enum hf_status compare_ask_seats(const struct comparison *c, struct pg_array *seats,
                                               struct pg_result **rows);
/* Asks for the next page of the event's seats. */
HF_MUST_CHECK enum hf_status compare_ask_page(const struct comparison *c, struct slice after,
                                              struct pg_result **rows);

/* --- the steps --------------------------------------------------------------------- */

HF_MUST_CHECK enum hf_status compare_seats(struct comparison *c);
/* Members of seat_holds whose seat Postgres doesn't have with that hold and user. */
HF_MUST_CHECK enum hf_status compare_stray_members(struct comparison *c);
/* Keys of seats that Postgres never had. */
HF_MUST_CHECK enum hf_status compare_stray_keys(struct comparison *c);

#endif
