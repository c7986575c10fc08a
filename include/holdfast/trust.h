/*
 * trust.h - whether memory is trusted, and what of it: one way for all that keep some.
 *
 * While trust holds, nothing can have been missed (fanout.h). It is given and taken by who hears
 * the other nodes, and lapses by the clock when nobody moves its end on: after a node stood still
 * no thread may rest on it before somebody has looked around. A distrust voids what rests on a
 * read or commit that began before it, whenever that is learned.
 *
 * Order: distrust, then give; and whoever reads asks trust_holds first. So who sees trust also
 * sees the distrust that came before it.
 *
 * Threads: any. Locks: none.
 */
#ifndef HOLDFAST_TRUST_H
#define HOLDFAST_TRUST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "holdfast/clock.h"

struct trust {
    _Atomic bool is_given;
    _Atomic int64_t until_us;      /* mono_time at which it lapses */
    _Atomic int64_t distrusted_us; /* mono_time: what began up to here is void */
};

/* None, nothing void, and no end. */
static inline void
trust_init(struct trust *trust)
{
    atomic_init(&trust->is_given, false);
    atomic_init(&trust->until_us, INT64_MAX);
    atomic_init(&trust->distrusted_us, INT64_MIN);
}

static inline void
trust_give(struct trust *trust, bool given)
{
    atomic_store(&trust->is_given, given);
}

static inline bool
trust_is_given(const struct trust *trust)
{
    return atomic_load(&trust->is_given);
}

static inline void
trust_until(struct trust *trust, struct mono_time until)
{
    atomic_store(&trust->until_us, until.us);
}

static inline bool
trust_holds(const struct trust *trust, struct mono_time now)
{
    return atomic_load(&trust->is_given) && now.us < atomic_load(&trust->until_us);
}

/* Two at once may come in either order: the later time stays. */
static inline void
trust_distrust(struct trust *trust, struct mono_time now)
{
    int64_t before_us = atomic_load(&trust->distrusted_us);

    while (before_us < now.us &&
           !atomic_compare_exchange_weak(&trust->distrusted_us, &before_us, now.us)) {
    }
}

static inline struct mono_time
trust_distrusted_at(const struct trust *trust)
{
    return (struct mono_time){ atomic_load(&trust->distrusted_us) };
}

/* Whether what began then is not void. */
static inline bool
trust_covers(const struct trust *trust, struct mono_time began)
{
    return began.us > atomic_load(&trust->distrusted_us);
}

#endif
