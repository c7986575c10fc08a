/*
 * events.c - a bounded copy of the rows of `events`, the longest unused one goes first.
 *
 * One lock, one hash table, one list in order of use. A lookup is a hash, a compare
 * and a move to the list's end: short enough that one lock serves every thread.
 */
#include "holdfast/events.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/lock.h"

/* Ids come from clients: a hash that they can't foresee. */
#define HASH_FUNCTION(key, len, hash) ((hash) = (unsigned)hash_seeded((key), (len)))
#define uthash_fatal(message)         abort()
#define HASH_NONFATAL_OOM             1
#include <uthash.h>
#include <utlist.h>

struct known_event {
    UT_hash_handle hh;
    struct known_event *prev, *next; /* in order of use, the longest unused first */
    struct event_info info;          /* version 0: no row was learned yet */
    int64_t version_least;           /* the row has this one at least, for certain */
    unsigned key_len;
    char key[EVENT_KEY_BYTES];
};

struct events {
    /* guarded by lock */
    struct lock lock;
    struct known_event *table; /* uthash head; owns the entries */
    struct known_event *order; /* utlist head, links them */
};

struct events *
events_new(void)
{
    struct events *events = calloc(1, sizeof(*events));

    if (events != NULL)
        lock_init(&events->lock, LOCK_EVENTS);
    return events;
}

static void
drop(struct events *events, struct known_event *known)
{
    HASH_DEL(events->table, known);
    DL_DELETE(events->order, known);
    free(known);
}

void
events_free(struct events **events)
{
    if (*events == NULL)
        return;
    events_forget(*events);
    lock_fini(&(*events)->lock);
    free(*events);
    *events = NULL;
}

/* The entry, moved to the end of the order of use; NULL: not known. */
static struct known_event *
find_locked(struct events *events, const char *key, unsigned key_len)
{
    struct known_event *known;

    lock_assert_held(&events->lock);
    HASH_FIND(hh, events->table, key, key_len, known);
    if (known != NULL && known->next != NULL) {
        DL_DELETE(events->order, known);
        DL_APPEND(events->order, known);
    }
    return known;
}

bool
events_find(struct events *events, struct slice org, struct slice event, struct event_info *info)
{
    char key[EVENT_KEY_BYTES];
    unsigned key_len = event_key(key, org, event);
    bool is_known = false;

    *info = (struct event_info){ .version = 0 };
    if (key_len == 0)
        return false;
    lock_take(&events->lock);
    struct known_event *known = find_locked(events, key, key_len);
    if (known != NULL) {
        *info = known->info;
        is_known = info->version > 0 && info->version >= known->version_least;
    }
    lock_drop(&events->lock);
    return is_known;
}

/* NULL: no memory; nothing is learned, Postgres will be asked again. */
static struct known_event *
add_locked(struct events *events, const char *key, unsigned key_len)
{
    if (HASH_COUNT(events->table) >= EVENTS_MAX)
        drop(events, events->order);

    struct known_event *known = calloc(1, sizeof(*known));
    if (known == NULL)
        return NULL;
    memcpy(known->key, key, key_len);
    known->key_len = key_len;
    HASH_ADD(hh, events->table, key, key_len, known);
    if (known->hh.tbl == NULL) { /* uthash found no memory */
        free(known);
        return NULL;
    }
    DL_APPEND(events->order, known);
    return known;
}

static struct known_event *
find_or_add_locked(struct events *events, const char *key, unsigned key_len)
{
    struct known_event *known = find_locked(events, key, key_len);

    return known != NULL ? known : add_locked(events, key, key_len);
}

/* The same version renews the read; a row that was read earlier tells nothing new. */
static void
take_in(struct event_info *known, const struct event_info *news)
{
    if (news->version < known->version)
        return;
    if (news->version == known->version && news->read_at.us < known->read_at.us)
        return;
    *known = *news;
}

void
events_learn(struct events *events, struct slice org, struct slice event,
             const struct event_info *info)
{
    char key[EVENT_KEY_BYTES];
    unsigned key_len = event_key(key, org, event);
    if (key_len == 0)
        return;

    lock_take(&events->lock);
    struct known_event *known = find_or_add_locked(events, key, key_len);
    if (known != NULL)
        take_in(&known->info, info);
    lock_drop(&events->lock);
}

void
events_outdated(struct events *events, struct slice org, struct slice event, int64_t version)
{
    char key[EVENT_KEY_BYTES];
    unsigned key_len = event_key(key, org, event);
    if (key_len == 0)
        return;

    lock_take(&events->lock);
    struct known_event *known = find_or_add_locked(events, key, key_len);
    if (known != NULL && known->version_least < version)
        known->version_least = version;
    lock_drop(&events->lock);
}

void
events_forget(struct events *events)
{
    struct known_event *known, *next;

    lock_take(&events->lock);
    DL_FOREACH_SAFE(events->order, known, next)
    drop(events, known);
    lock_drop(&events->lock);
}

/* --- words ---------------------------------------------------------------- */

static const char *const status_words[] = {
    [EVENT_SCHEDULED] = "scheduled",
    [EVENT_ON_SALE] = "on_sale",
    [EVENT_CLOSED] = "closed",
    [EVENT_CANCELLED] = "cancelled",
};

static const char *const kind_words[] = {
    [EVENT_KIND_EVENT] = "event",
    [EVENT_KIND_SHOW] = "show",
    [EVENT_KIND_FLIGHT] = "flight",
};

static bool
find_word(const char *const *words, size_t count, struct slice word, size_t *at)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_is(word, words[i])) {
            *at = i;
            return true;
        }
    }
    return false;
}

const char *
event_status_word(enum event_status status)
{
    return status_words[status];
}

bool
event_status_parse(struct slice word, enum event_status *status)
{
    size_t at;

    if (!find_word(status_words, sizeof(status_words) / sizeof(status_words[0]), word, &at))
        return false;
    *status = (enum event_status)at;
    return true;
}

const char *
event_kind_word(enum event_kind kind)
{
    return kind_words[kind];
}

bool
event_kind_parse(struct slice word, enum event_kind *kind)
{
    size_t at;

    if (!find_word(kind_words, sizeof(kind_words) / sizeof(kind_words[0]), word, &at))
        return false;
    *kind = (enum event_kind)at;
    return true;
}
