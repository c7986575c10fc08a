/*
 * occupancy_internal.h - how full an event is, between the files that find it out.
 *
 *   occupancy.c        GET .../occupancy, and which of the ways below may answer it
 *   occupancy_count.c  one count in Postgres at a time for all who wait for it
 *   occupancy_value.c  what was counted, as Redis keeps it, and until when it stands
 */
#ifndef HOLDFAST_OCCUPANCY_INTERNAL_H
#define HOLDFAST_OCCUPANCY_INTERNAL_H

#include "api_internal.h"
#include "holdfast/fanout.h"

/* --- occupancy_value.c --------------------------------------------------------- */

#define OCCUPANCY_KEEP_MS 10000 /* in Redis, and no value is told when it is older */

/* What one statement counted. */
struct occupancy_value {
    struct seat_map_counts counts;
    struct db_time as_of;        /* the statement's clock */
    struct db_time ends_at;      /* from then on time alone has changed it */
    struct db_time areas_end_at; /* the same of quantities of areas; 0: some are over already */
    char source[FANOUT_CHANNEL_BYTES]; /* which database counted */
    struct feed_position position;     /* all of this is in */
};

/* To be noted before the statement: what this node has, and which database answers. */
void occupancy_value_begin(struct occupancy_value *value, const struct node *node);
/* The row of STATEMENT_OCCUPANCY. False: there is no such event. */
HF_MUST_CHECK bool occupancy_value_read(struct occupancy_value *value,
                                        const struct pg_result *rows);
/*
 * Whether it may still be told: time has not moved it, and nothing that this node knows of, or
 * could have missed, has. position: of this node's feed.
 */
bool occupancy_value_stands(const struct occupancy_value *value, const struct node *node,
                            const struct feed_position *position);
/* The JSON that Redis keeps. Nothing if it can't be sealed. */
void occupancy_value_write(const struct occupancy_value *value, struct slice org,
                           struct slice event, struct buf *out);
/* False: it is none of this event that a node of this Postgres wrote. */
HF_MUST_CHECK bool occupancy_value_parse(struct occupancy_value *value, const struct node *node,
                                         struct slice org, struct slice event, struct slice text);

/* --- occupancy_count.c --------------------------------------------------------- */

/* Answers the call with this node's last count if it stands, else when the next one is made. */
void occupancy_await(struct api_call *call);
/* Whether no quantity of the event's areas is over at `now` that an area's row still has as held.
 */
bool occupancy_areas_stand(struct occupancies *occupancies, struct slice org, struct slice event,
                           struct db_time now);

/* --- occupancy.c ----------------------------------------------------------------- */

struct occupancy_answer {
    struct seat_map_counts counts;
    struct db_time at;
    bool is_stale; /* Postgres is away, and this may be over */
};
/* From the seat map in memory. False: it isn't there, or can't be believed. */
HF_MUST_CHECK bool occupancy_from_map(struct api_call *call, struct occupancy_answer *answer);
/* The map as it is, whatever may have passed it by. False: there is none. */
HF_MUST_CHECK bool occupancy_from_old_map(struct api_call *call, struct occupancy_answer *answer);
void occupancy_answer(struct api_call *call, const struct occupancy_answer *answer);

#endif
