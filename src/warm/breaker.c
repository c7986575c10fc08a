/*
 * breaker.c - when Redis may be used, and when it is left alone.
 *
 * One word says the state, so that a use of a healthy Redis looks at nothing else. Everything that
 * moves the state is rare and goes through the lock.
 */
#include "holdfast/breaker.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "holdfast/assert.h"
#include "holdfast/lock.h"

struct breaker {
    /* fixed after breaker_new */
    struct breaker_limits limits;
    void (*changed)(void *context, enum breaker_state state);
    void *context;

    /* atomic, written under lock */
    _Atomic int state;
    _Atomic int failures; /* in a row, while it is closed */

    struct lock lock; /* rank BREAKER */

    /* guarded by lock */
    int64_t pause_us; /* the present one, while it is open */
    struct mono_time probe_at;
    struct mono_time trial_end; /* half-open: until then the trial is somebody's; 0: it is free */
};

const char *
breaker_state_word(enum breaker_state state)
{
    static const char *const words[] = {
        [BREAKER_CLOSED] = "closed", [BREAKER_HALF_OPEN] = "half_open", [BREAKER_OPEN] = "open"
    };
    return words[state];
}

struct breaker *
breaker_new(const struct breaker_limits *limits,
            void (*changed)(void *context, enum breaker_state state), void *context)
{
    struct breaker *breaker = calloc(1, sizeof(*breaker));
    if (breaker == NULL)
        return NULL;
    hf_assert(limits->failures_to_open > 0 && limits->pause_min_us > 0 &&
              limits->pause_min_us <= limits->pause_max_us);
    breaker->limits = *limits;
    breaker->changed = changed;
    breaker->context = context;
    lock_init(&breaker->lock, LOCK_BREAKER);
    return breaker;
}

void
breaker_free(struct breaker **breaker)
{
    if (*breaker == NULL)
        return;
    lock_fini(&(*breaker)->lock);
    free(*breaker);
    *breaker = NULL;
}

enum breaker_state
breaker_state(const struct breaker *breaker)
{
    return (enum breaker_state)atomic_load_explicit(&breaker->state, memory_order_acquire);
}

/* Moves on; true if that is news. */
static bool
move_locked(struct breaker *breaker, enum breaker_state state)
{
    enum breaker_state before = breaker_state(breaker);
    breaker->trial_end.us = 0;
    atomic_store_explicit(&breaker->failures, 0, memory_order_relaxed);
    atomic_store_explicit(&breaker->state, (int)state, memory_order_release);
    return before != state;
}

static bool
open_locked(struct breaker *breaker, struct mono_time now)
{
    int64_t pause_us =
        breaker->pause_us == 0 ? breaker->limits.pause_min_us : breaker->pause_us * 2;
    breaker->pause_us =
        pause_us < breaker->limits.pause_max_us ? pause_us : breaker->limits.pause_max_us;
    breaker->probe_at.us = now.us + breaker->pause_us;
    return move_locked(breaker, BREAKER_OPEN);
}

static void
tell(const struct breaker *breaker, bool news, enum breaker_state state)
{
    if (news && breaker->changed != NULL)
        breaker->changed(breaker->context, state);
}

bool
breaker_allows(struct breaker *breaker, struct mono_time now)
{
    enum breaker_state state = breaker_state(breaker);
    if (state != BREAKER_HALF_OPEN)
        return state == BREAKER_CLOSED;
    lock_take(&breaker->lock);
    bool mine = breaker_state(breaker) == BREAKER_HALF_OPEN && now.us >= breaker->trial_end.us;
    if (mine)
        breaker->trial_end.us = now.us + breaker->limits.trial_us;
    lock_drop(&breaker->lock);
    return mine;
}

void
breaker_worked(struct breaker *breaker, struct mono_time now)
{
    (void)now;
    enum breaker_state state = breaker_state(breaker);
    if (state == BREAKER_CLOSED &&
        atomic_load_explicit(&breaker->failures, memory_order_relaxed) == 0)
        return;
    bool closes = false;
    lock_take(&breaker->lock);
    switch (breaker_state(breaker)) {
    case BREAKER_CLOSED:
        atomic_store_explicit(&breaker->failures, 0, memory_order_relaxed);
        break;
    case BREAKER_HALF_OPEN:
        breaker->pause_us = 0;
        closes = move_locked(breaker, BREAKER_CLOSED);
        break;
    case BREAKER_OPEN:
        break; /* it began before it opened: what it found is old */
    }
    lock_drop(&breaker->lock);
    tell(breaker, closes, BREAKER_CLOSED);
}

void
breaker_failed(struct breaker *breaker, struct mono_time now)
{
    bool opens = false;
    lock_take(&breaker->lock);
    switch (breaker_state(breaker)) {
    case BREAKER_CLOSED:
        if (atomic_fetch_add_explicit(&breaker->failures, 1, memory_order_relaxed) + 1 >=
            breaker->limits.failures_to_open)
            opens = open_locked(breaker, now);
        break;
    case BREAKER_HALF_OPEN:
        opens = open_locked(breaker, now);
        break;
    case BREAKER_OPEN:
        break;
    }
    lock_drop(&breaker->lock);
    tell(breaker, opens, BREAKER_OPEN);
}

bool
breaker_probe_is_due(struct breaker *breaker, struct mono_time now)
{
    if (breaker_state(breaker) != BREAKER_OPEN)
        return false;
    lock_take(&breaker->lock);
    bool due = now.us >= breaker->probe_at.us;
    lock_drop(&breaker->lock);
    return due;
}

void
breaker_may_be_back(struct breaker *breaker, struct mono_time now)
{
    lock_take(&breaker->lock);
    if (breaker->probe_at.us > now.us)
        breaker->probe_at = now;
    lock_drop(&breaker->lock);
}

void
breaker_probed(struct breaker *breaker, struct mono_time now, bool worked)
{
    bool news = false;
    lock_take(&breaker->lock);
    if (breaker_state(breaker) == BREAKER_OPEN) {
        if (worked)
            news = move_locked(breaker, BREAKER_HALF_OPEN);
        else
            (void)open_locked(breaker, now);
    }
    lock_drop(&breaker->lock);
    tell(breaker, news, BREAKER_HALF_OPEN);
}
