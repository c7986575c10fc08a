/*
 * warm_repair.h - what stands in Redis, and making it right.
 *
 * For who compares Redis with Postgres: what is there is read whole, what is wrong goes by compare
 * and delete, and what is missing is written.
 */
#ifndef HOLDFAST_WARM_REPAIR_H
#define HOLDFAST_WARM_REPAIR_H

#include "holdfast/warm.h"

/* ZCARD of the event's holds; -1: not known. */
int64_t warm_count(struct warm *warm, struct slice org, struct slice event);

/* One key or member as it was found. */
struct warm_found {
    struct slice seat; /* the seat that the key (or member) is about; empty: it names none */
    struct slice text; /* what stands there: a value (cut at 4 KB, ours are shorter), a member.
                          Empty: an empty one, or a key of another type than ours */
};
/* Called for each; false stops the walk. The slices live for this call; it must not use `warm`. */
typedef bool warm_visit(void *context, const struct warm_found *found);

/* The keys of `count` seats: visits those that exist (not an empty text). False: Redis failed. */
bool warm_read_seats(struct warm *warm, struct slice org, struct slice event,
                     const struct slice *seats, int count, warm_visit *visit, void *context);
/* Every member of seat_holds, perhaps one twice (a key of another type: visited once with empty
 * text). False: Redis failed. */
bool warm_read_members(struct warm *warm, struct slice org, struct slice event, warm_visit *visit,
                       void *context);
/*
 * Every seat key of the event, found by SCAN in steps, perhaps one twice: for orphans whose seat
 * Postgres doesn't know. It walks all keys of this Redis: on demand only. False: Redis failed, or
 * `deadline` passed.
 */
bool warm_scan_seats(struct warm *warm, struct slice org, struct slice event,
                     struct mono_time deadline, warm_visit *visit, void *context);

/*
 * The rest of what `holds` (of one event, seats of a hold side by side) have there: right[i] if its
 * member has the right score and the hold's meta (unless `source` is empty) is what warm_put would
 * have written. False: Redis failed.
 */
bool warm_read_details(struct warm *warm, const struct warm_hold *holds, int count, bool *right);

/* True if this is what warm_put would have written for `hold`, to the letter but for as_of (any
 * time). Its TTL isn't known. */
bool warm_value_is(struct slice text, const struct warm_hold *hold);

/*
 * Compare and delete, in one step of Redis each: the key of `seat` if it still reads `text` (or is
 * of another type, for an empty text); a member of seat_holds by its text (empty: the key too, if
 * it is no sorted set). Returns how many went; -1: Redis failed.
 * Read Redis first and Postgres then: what Redis has by a later commit reads differently.
 */
int warm_drop_seats(struct warm *warm, struct slice org, struct slice event,
                    const struct warm_found *found, int count);
int warm_drop_members(struct warm *warm, struct slice org, struct slice event,
                      const struct warm_found *found, int count);
/*
 * warm_put, and its replies: writes value, member and meta of each hold unless its key has this
 * hold's id and a newer version. What is wrong is dropped first, or a wrong version would stay.
 * The caller asks Postgres afterwards whether it still holds. False: Redis failed.
 */
bool warm_mend(struct warm *warm, const struct warm_hold *holds, int count);

#endif
