/*
 * flight_map.h - what the handlers of flights share: whether an event is one, and its seats as one
 * passenger sees them.
 *
 * The map in memory knows holders as hashes only, and equal hashes prove nothing: who may have
 * something is told from Postgres which of those seats are his, everybody else from memory alone.
 *
 * Threads: flight_known and flight_map_from_memory on a loop or at the desk, the others at the
 * desk. Memory:  slices are borrowed for the call.
 */
#ifndef HOLDFAST_FLIGHT_MAP_H
#define HOLDFAST_FLIGHT_MAP_H

#include "api_internal.h"
#include "holdfast/json.h"

/* What memory knows for certain; any_age: or knew once. */
enum flight_word { FLIGHT_UNKNOWN, FLIGHT_IS_ONE, FLIGHT_IS_NONE };
enum flight_word flight_known(const struct node *node, struct slice org, struct slice event,
                              bool any_age);
/* HF_OK: it is one. HF_EVENT_NOT_FOUND, or why that couldn't be found out. */
HF_MUST_CHECK enum hf_status flight_find(struct api_call *call, struct pg *pg, struct slice org,
                                         struct slice event);

/* The seed's word for a seat: AVAILABLE, HELD, CONFIRMED or CANCELLED. */
const char *flight_state_word(enum seat_status status);

/* A flight's map, as it is asked for and as it was found. */
struct flight_map {
    struct slice org, event;
    struct slice user;          /* whose seats are named */
    struct slice if_none_match; /* empty: none */
    bool any_age;               /* Postgres is away: what is in memory will do */

    char etag[SEAT_MAP_ETAG_BYTES]; /* of HF_OK and HF_NOT_MODIFIED */
};

/*
 * Writes it as a JSON array: [{seatId, state, heldBy, holdExpiresAt}], in the order of the cabin.
 * HF_NOT_MODIFIED: nothing was written, what the client has is true. Else why it can't be read.
 */
HF_MUST_CHECK enum hf_status flight_map_write(struct api_call *call, struct desk_tools *tools,
                                              struct flight_map *map, struct json_writer *w);
/* The same from memory, in microseconds. False: nothing was written, the desk has to be asked. */
HF_MUST_CHECK bool flight_map_from_memory(struct api_call *call, struct flight_map *map,
                                          struct json_writer *w, enum hf_status *status);

#endif
