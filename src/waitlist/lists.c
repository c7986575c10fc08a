/*
 * lists.c - the table of the events at which somebody waits, and whose turn it is.
 *
 * A list with news is ready, unless an op of it is under way: then its news wait until that comes
 * back. So there is never more than one op of an event, and no news is lost while one runs.
 */
#include <stdlib.h>

#include "waitlist_internal.h"

struct list *
list_find_locked(struct waitlist *room, struct slice org, struct slice event)
{
    char key[EVENT_KEY_BYTES];
    struct list *list = NULL;
    unsigned key_len = event_key(key, org, event);

    if (key_len > 0)
        HASH_FIND(hh, room->lists, key, key_len, list);
    return list;
}

static void
remove_locked(struct waitlist *room, struct list *list)
{
    HASH_DEL(room->lists, list);
    if (list->is_ready)
        DL_DELETE(room->ready, list);
    atomic_store(&room->list_count, (int64_t)HASH_COUNT(room->lists));
    free(list);
}

/* One where nothing is to be done, the oldest such. False: there is none. */
static bool
make_room_locked(struct waitlist *room)
{
    struct list *list, *next;

    HASH_ITER(hh, room->lists, list, next)
    {
        if (!list->is_busy && !list->is_ready) {
            remove_locked(room, list);
            return true;
        }
    }
    return false;
}

static struct list *
add_locked(struct waitlist *room, struct slice org, struct slice event)
{
    if (HASH_COUNT(room->lists) >= WAITLISTS_MAX && !make_room_locked(room))
        return NULL;
    struct list *list = calloc(1, sizeof(*list));
    if (list == NULL)
        return NULL;
    list->key_len = event_key(list->key, org, event);
    hf_assert(list->key_len > 0);
    list->org = (struct slice){ list->key, org.len };
    list->event = (struct slice){ list->key + list->key_len - event.len, event.len };
    HASH_ADD(hh, room->lists, key, list->key_len, list);
    if (list->hh.tbl == NULL) {
        free(list);
        return NULL;
    }
    list->pass = room->pass;
    atomic_store(&room->list_count, (int64_t)HASH_COUNT(room->lists));
    return list;
}

struct list *
list_get_locked(struct waitlist *room, struct slice org, struct slice event)
{
    struct list *list = list_find_locked(room, org, event);

    return list != NULL ? list : add_locked(room, org, event);
}

/* --- turns --------------------------------------------------------------------------- */

static void
be_ready_locked(struct waitlist *room, struct list *list, struct mono_time at)
{
    if (at.us < list->not_before.us)
        at = list->not_before;
    if (!list->is_ready) {
        list->is_ready = true;
        list->due = at;
        DL_APPEND(room->ready, list);
    } else if (at.us < list->due.us) {
        list->due = at;
    }
    room->is_stirred = true;
    pthread_cond_signal(&room->wake);
}

void
list_tell_locked(struct waitlist *room, struct list *list, const struct news *news,
                 int64_t delay_us)
{
    news_merge(&list->news, news);
    if (!list->is_busy && !news_is_empty(&list->news))
        be_ready_locked(room, list, (struct mono_time){ mono_now().us + delay_us });
}

struct list *
list_take_locked(struct waitlist *room, struct mono_time now, struct news *news,
                 struct mono_time *due)
{
    struct list *list;

    DL_FOREACH(room->ready, list)
    {
        if (list->due.us <= now.us) {
            DL_DELETE(room->ready, list);
            list->is_ready = false;
            list->is_busy = true;
            *news = list->news;
            list->news = (struct news){ 0 };
            return list;
        }
        if (list->due.us < due->us)
            *due = list->due;
    }
    return NULL;
}

void
list_give_back_locked(struct waitlist *room, struct list *list, const struct news *left,
                      int64_t pause_us)
{
    struct mono_time now = mono_now();

    hf_assert(list->is_busy);
    list->is_busy = false;
    list->not_before.us = now.us + pause_us;
    list_tell_locked(room, list, left, 0);
}

/* --- passes ---------------------------------------------------------------------------- */

void
lists_end_pass_locked(struct waitlist *room)
{
    struct list *list, *next;

    HASH_ITER(hh, room->lists, list, next)
    {
        if (list->pass != room->pass && !list->is_busy && !list->is_ready)
            remove_locked(room, list);
    }
    room->pass++;
}

void
lists_free(struct waitlist *room)
{
    struct list *list, *next;

    HASH_ITER(hh, room->lists, list, next)
    {
        hf_assert(!list->is_busy);
        remove_locked(room, list);
    }
}
