/*
 * feed_position.h - how far in the feeds of all nodes somebody has read.
 *
 * For each incarnation of a node up to which record its changes are in (feed.h). Compact in text,
 * opaque to clients, readable by any node.
 *
 * Threads: any. Memory: plain values. Limits: FEED_NODES_MAX incarnations.
 */
#ifndef HOLDFAST_FEED_POSITION_H
#define HOLDFAST_FEED_POSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/slice.h"

#define FEED_NODES_MAX           64
#define FEED_POSITION_TEXT_BYTES 1856 /* of the longest position, and NUL */

/*
 * "All of `incarnation` up to record `number` is in." Sorted by incarnation. Number 0: it is known,
 * and has told nothing yet; that is more than not to be named at all.
 */
struct feed_mark {
    int64_t incarnation;
    uint64_t number;
};
struct feed_position {
    int count;
    struct feed_mark marks[FEED_NODES_MAX];
    /*
     * A reader was told the first `part_count` changes of a further record and not the rest.
     * part_count 0: no such record.
     */
    struct feed_mark part;
    uint32_t part_count;
};

/* Letters, digits, '.', '_' and '-' only, NUL-terminated. Returns the length. */
size_t feed_position_write(const struct feed_position *position,
                           char text[FEED_POSITION_TEXT_BYTES]);
/* False: it is no position. */
HF_MUST_CHECK bool feed_position_parse(struct slice text, struct feed_position *position);
/* Up to which record of `incarnation`; 0: none. */
uint64_t feed_position_of(const struct feed_position *position, int64_t incarnation);
/* Where it is among the marks; -1: it isn't. */
int feed_position_find(const struct feed_position *position, int64_t incarnation);
/* Sets its mark, or adds one in its place. Returns where; -1: there is no room. */
int feed_position_add(struct feed_position *position, struct feed_mark mark);
/*
 * Says what `position` leaves unsaid. Who made it was trusted and named everybody who was there. So
 * an incarnation of `left` that it doesn't name, though it names a later one, had left before, and
 * what it did was read: the position has all of it. Not of one that came back since: the caller
 * knows that none of them did.
 */
void feed_position_complete(struct feed_position *position, const struct feed_position *left);
/* Whether `a` has everything that `b` has. */
bool feed_position_covers(const struct feed_position *a, const struct feed_position *b);

#endif
