/*
 * identity.c - which server answers behind the address.
 *
 * A fail-over or a restore shows as another system identifier or another timeline. Who notices it
 * first calls back, under the lock: all others that reach the new server wait there, so no
 * answer of it is used while anything learned from the old one still stands. Sessions opened
 * before have an older generation and are closed when they are used next (connect.c).
 *
 * What one connection learns is of use to all: which host took it, and why none does.
 */
#include "cold_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/log.h"

struct pg_identity {
    /* fixed after start */
    void (*changed)(void *context);
    void *context;

    /* guarded by lock */
    struct lock lock; /* rank IDENTITY */
    bool known;
    int64_t system_identifier;
    int64_t timeline;
    char trouble[PG_ERROR_BYTES]; /* why connecting failed last; empty: it works */

    /* atomic, any thread */
    _Atomic unsigned generation;
    _Atomic unsigned first_host;
};

struct pg_identity *
pg_identity_new(void)
{
    struct pg_identity *identity = calloc(1, sizeof(*identity));
    if (identity != NULL) {
        lock_init(&identity->lock, LOCK_IDENTITY);
    }
    return identity;
}

void
pg_identity_free(struct pg_identity **identity)
{
    if (*identity != NULL) {
        lock_fini(&(*identity)->lock);
        free(*identity);
        *identity = NULL;
    }
}

void
pg_identity_on_change(struct pg_identity *identity, void (*changed)(void *context), void *context)
{
    identity->changed = changed;
    identity->context = context;
}

unsigned
pg_identity_generation(struct pg_identity *identity)
{
    return atomic_load_explicit(&identity->generation, memory_order_acquire);
}

int64_t
pg_identity_system(struct pg_identity *identity)
{
    lock_take(&identity->lock);
    int64_t system_identifier = identity->system_identifier;
    lock_drop(&identity->lock);
    return system_identifier;
}

int64_t
pg_identity_timeline(struct pg_identity *identity)
{
    lock_take(&identity->lock);
    int64_t timeline = identity->timeline;
    lock_drop(&identity->lock);
    return timeline;
}

/* Another server: what its predecessor said is void, its clock too. */
static void
announce_locked(struct pg_identity *identity, struct db_clock *clock)
{
    atomic_fetch_add_explicit(&identity->generation, 1, memory_order_release);
    LOG_EVENT(LOG_WARN, "postgres_is_another",
              log_int("system_identifier", identity->system_identifier),
              log_int("timeline", identity->timeline));
    db_clock_reset(clock);
    if (identity->changed != NULL) {
        identity->changed(identity->context);
    }
}

/* 0: this session could not read it. */
static bool
differs(int64_t before, int64_t now)
{
    return before != 0 && now != 0 && before != now;
}

unsigned
pg_identity_saw(struct pg_identity *identity, struct db_clock *clock, int64_t system_identifier,
                int64_t timeline)
{
    lock_take(&identity->lock);
    bool another = identity->known && (differs(identity->system_identifier, system_identifier) ||
                                       differs(identity->timeline, timeline));
    identity->known = true;
    identity->system_identifier = system_identifier;
    identity->timeline = timeline;
    if (another) {
        announce_locked(identity, clock);
    }
    unsigned generation = pg_identity_generation(identity);
    lock_drop(&identity->lock);
    return generation;
}

/* --- what connections learn from each other -------------------------------------- */

unsigned
pg_identity_first_host(struct pg_identity *identity)
{
    return atomic_load_explicit(&identity->first_host, memory_order_relaxed);
}

void
pg_identity_prefer_host(struct pg_identity *identity, unsigned host)
{
    atomic_store_explicit(&identity->first_host, host, memory_order_relaxed);
}

bool
pg_identity_trouble_is_news(struct pg_identity *identity, const char *reason)
{
    lock_take(&identity->lock);
    bool news = strcmp(identity->trouble, reason) != 0;
    snprintf(identity->trouble, sizeof(identity->trouble), "%s", reason);
    lock_drop(&identity->lock);
    return news;
}

bool
pg_identity_trouble_is_over(struct pg_identity *identity)
{
    lock_take(&identity->lock);
    bool over = identity->trouble[0] != '\0';
    identity->trouble[0] = '\0';
    lock_drop(&identity->lock);
    return over;
}
