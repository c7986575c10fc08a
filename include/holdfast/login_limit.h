/*
 * login_limit.h - how often a login may be wrong.
 *
 * Two counts of wrong tries: of a name that is tried (an organization and a PNR, whether or not
 * there is such a one), and of the client's address. Over either, every try is refused until the
 * window that began with the first wrong one is over: also the right one, or refusals would tell
 * which it is. A name's tries under way count as wrong until they are decided, so that a thousand
 * at once are no more than a few; an address has as many right ones under way as it likes.
 *
 * The address's count is one of the limits per client and off with rate_limits; that of a name
 * isn't: it guards the passenger, whoever asks. Counts are this node's own.
 *
 * Callers:  api. Threads: any. Locks: one (rank RATE), for a few compares.
 * Limits:   LOGIN_COUNTS_MAX counts; when a set of the table is full, one whose window is over
 * goes, then the one with the fewest wrong tries.
 */
#ifndef HOLDFAST_LOGIN_LIMIT_H
#define HOLDFAST_LOGIN_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/clock.h"
#include "holdfast/config.h"
#include "holdfast/slice.h"

#define LOGIN_COUNTS_MAX 65536

struct login_limit; /* opaque */

/* Keeps no pointer into config. NULL: no memory. */
HF_MUST_CHECK struct login_limit *login_limit_new(const struct config *config);
/* Takes it; *limit becomes NULL. NULL is fine. */
void login_limit_free(struct login_limit **limit);

/* One try, made by login_limit_begin and ended by login_limit_end. */
struct login_try {
    uint64_t name, address;
};

/*
 * name: what the tries are counted by, the same for every way to write it. 0: it may be made;
 * else the seconds after which it pays to come again, and nothing is to be ended.
 */
HF_MUST_CHECK int64_t login_limit_begin(struct login_limit *limit, struct slice name,
                                        struct slice address, struct mono_time now,
                                        struct login_try *attempt);
/*
 * was_wrong: it found nobody. What was never decided (the store is away) wasn't wrong. True: it was
 * the last one that the name, or the address, had.
 */
bool login_limit_end(struct login_limit *limit, const struct login_try *attempt, bool was_wrong,
                     struct mono_time now);

#endif
