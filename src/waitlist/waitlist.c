/*
 * waitlist.c - the thread: what is due when; and the news that wake it.
 */
#include <stdlib.h>

#include "holdfast/feed.h"
#include "holdfast/log.h"
#include "waitlist_internal.h"

#define READ_US      (1 * (int64_t)TIME_US_PER_S)
#define AT_ONCE_US   (100 * TIME_US_PER_MS) /* when a reading left something */
#define COUNT_US     (15 * (int64_t)TIME_US_PER_S)
#define REPLAN_US    (10 * (int64_t)TIME_US_PER_S) /* plans made on small tables are ruinous later */
#define PEER_US      (50 * TIME_US_PER_MS)         /* its own node is at it */
#define STOP_LOOK_US (2 * TIME_US_PER_MS)
#define STACK_BYTES  (256 * 1024)

/* --- news ---------------------------------------------------------------------------------- */

static bool
may_free_seats(const struct feed_change *change)
{
    return change->kind == FEED_SEATS || change->kind == FEED_EVENT ||
           (change->kind == FEED_SEAT && change->status == SEAT_AVAILABLE);
}

/* Under the feed's lock, and for every change: where nobody waits it is one load. */
static void
hear(void *context, const struct feed_change *change, bool ours)
{
    struct waitlist *room = context;
    struct news news = { 0 };

    if (atomic_load(&room->list_count) == 0 || !may_free_seats(change))
        return;
    news_add(&news, change->kind == FEED_SEAT ? change->item : SLICE_EMPTY, mono_now());
    lock_take(&room->lock);
    struct list *list = list_find_locked(room, change->org, change->event);
    if (list != NULL)
        list_tell_locked(room, list, &news, ours ? 0 : PEER_US);
    lock_drop(&room->lock);
}

void
waitlist_joined(struct waitlist *room, struct slice org, struct slice event)
{
    static const struct news anything = { .whole = true };

    if (room == NULL)
        return;
    lock_take(&room->lock);
    struct list *list = list_get_locked(room, org, event);
    if (list != NULL)
        list_tell_locked(room, list, &anything, 0);
    lock_drop(&room->lock);
}

/* --- the thread ------------------------------------------------------------------------------ */

static void
read_what_is_due(struct waitlist *room)
{
    if (!mono_is_due(&room->read_due, READ_US) || !pg_ready(room->pg))
        return;
    bool more = read_events(room);
    if (read_offers(room) || more)
        room->read_due.us = mono_now().us + AT_ONCE_US;
    if (mono_is_due(&room->count_due, COUNT_US))
        read_count(room);
    if (mono_is_due(&room->replan_due, REPLAN_US) && pg_is_connected(room->pg) &&
        pg_replan(room->pg) != PG_DONE)
        LOG_EVENT(LOG_DEBUG, "replan_failed", log_text("error", pg_last_error(room->pg)));
}

/* Until then, or until something has changed since the last look. False: it is to stop. */
static bool
wait_for_news(struct waitlist *room, struct mono_time due)
{
    lock_take(&room->lock);
    int64_t us = due.us - mono_now().us;
    if (!room->stopping && !room->is_stirred && us > 0)
        lock_wait(&room->lock, &room->wake, (long)us);
    bool stopping = room->stopping;
    lock_drop(&room->lock);
    return !stopping;
}

static void *
waitlist_main(void *context)
{
    struct waitlist *room = context;
    struct mono_time due;

    do {
        read_what_is_due(room);
        due = serve_due(room);
        if (room->read_due.us < due.us)
            due = room->read_due;
    } while (wait_for_news(room, due));
    return NULL;
}

/* --- start and stop ----------------------------------------------------------------------------
 */

static void
room_free(struct waitlist *room)
{
    lists_free(room);
    if (room->pg != NULL)
        pg_free(&room->pg);
    pthread_cond_destroy(&room->wake);
    lock_fini(&room->lock);
    free(room);
}

struct waitlist *
waitlist_start(struct node *node)
{
    struct waitlist *room = calloc(1, sizeof(*room));
    if (room == NULL)
        return NULL;
    room->node = node;
    lock_init(&room->lock, LOCK_WAITLIST);
    lock_cond_init(&room->wake);
    room->read_due.us = mono_now().us + READ_US; /* others connect first */
    room->pg = pg_new(node->config, "holdfast waitlist", node->identity, node->clock);
    if (room->pg == NULL || !thread_start(&room->thread, STACK_BYTES, waitlist_main, room)) {
        room_free(room);
        return NULL;
    }
    feed_watch(node->feed, hear, room);
    return room;
}

/* What has not come back by then is ended by the engine, when it stops. */
static void
wait_for_ops(struct waitlist *room, struct mono_time deadline)
{
    bool under_way = true;

    while (under_way && mono_now().us < deadline.us) {
        lock_take(&room->lock);
        under_way = room->under_way > 0;
        lock_drop(&room->lock);
        if (under_way)
            sleep_us(STOP_LOOK_US);
    }
}

void
waitlist_close(struct waitlist *room)
{
    if (room == NULL)
        return;
    lock_take(&room->lock);
    room->stopping = true;
    pthread_cond_signal(&room->wake);
    lock_drop(&room->lock);
}

void
waitlist_stop(struct waitlist *room, struct mono_time deadline)
{
    if (room == NULL)
        return;
    feed_watch(room->node->feed, NULL, NULL);
    waitlist_close(room);
    thread_join(&room->thread);
    wait_for_ops(room, deadline);
}

void
waitlist_free(struct waitlist **waitlist)
{
    struct waitlist *room = *waitlist;

    if (room == NULL)
        return;
    hf_assert(room->under_way == 0);
    room_free(room);
    *waitlist = NULL;
}
