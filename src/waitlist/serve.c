/*
 * serve.c - OP_ASSIGN: handed out while there is news, and what follows from how it ended.
 *
 *   HF_CREATED    somebody has a seat: the same news once more, there may be another
 *   HF_NOT_FOUND  what came free fits nobody who waits: the news is used up
 *   else          tried again, later and later: others are at it, or the store is away
 *
 * A look at all seats of a large house takes its time, so the next one comes after a pause: as long
 * where somebody got a seat, some times as long where nobody did. However many join, Postgres is
 * not kept busy by it.
 */
#include <stdlib.h>
#include <string.h>

#include "holdfast/metrics.h"
#include "waitlist_internal.h"

#define AT_ONCE         4 /* each takes a worker for its transaction */
#define LOOK_SHARE      4 /* a pause is so many times as long as the look that found nobody */
#define LOOK_PAUSE_MOST (250 * TIME_US_PER_MS)
#define CONTENDED_US    (10 * TIME_US_PER_MS)
#define TROUBLE_US      (100 * TIME_US_PER_MS)
#define DOUBLES_MAX     5

/* One op; it owns itself until the engine sends it. */
struct assignment {
    struct op op; /* first: the engine gives it back */
    struct waitlist *room;
    struct list *list; /* stays: it is busy */
    struct news news;
    struct slice seats[FREE_SEATS_MAX];
};

/* --- how it ended ------------------------------------------------------------------- */

static int64_t
pause_after_failure(struct list *list, enum hf_status status)
{
    int doubles = list->failures < DOUBLES_MAX ? list->failures : DOUBLES_MAX;
    struct uuid chance = uuid_v7_new();
    int64_t us = status == HF_SEAT_CONTENDED ? CONTENDED_US : TROUBLE_US;

    list->failures++;
    return (us << doubles) + chance.bytes[15] * us / 256; /* nodes don't meet again and again */
}

/* After a look at named seats there is none. */
static int64_t
pause_after_look(const struct assignment *one, int64_t share)
{
    int64_t us = share * (mono_now().us - one->op.received.us);

    if (!one->news.whole)
        return 0;
    return us < LOOK_PAUSE_MOST ? us : LOOK_PAUSE_MOST;
}

/* What is left of its news, and how long the list has no turn. */
static int64_t
judge_locked(struct assignment *one, struct news *left)
{
    struct list *list = one->list;

    *left = one->news;
    if (one->op.status != HF_CREATED && one->op.status != HF_NOT_FOUND)
        return pause_after_failure(list, one->op.status);
    list->failures = 0;
    if (one->op.status == HF_CREATED)
        return pause_after_look(one, 1);
    *left = (struct news){ 0 };
    return pause_after_look(one, LOOK_SHARE);
}

static void
count(const struct assignment *one)
{
    struct mono_time heard;

    if (status_http(one->op.status) >= 500)
        metric_add(METRIC_WAITLIST_ASSIGNMENTS_FAILED, 1);
    if (one->op.status == HF_CREATED && news_heard(&one->news, one->op.seats[0].id, &heard))
        metric_observe(METRIC_WAITLIST_ASSIGN_SECONDS, (uint64_t)(mono_now().us - heard.us));
}

static void
assignment_finish(struct op *op)
{
    (void)op; /* nobody waits for a text */
}

static void
assignment_send(struct op *op)
{
    struct assignment *one = (struct assignment *)op;
    struct waitlist *room = one->room;
    struct news left;

    count(one);
    lock_take(&room->lock);
    int64_t pause_us = judge_locked(one, &left);
    list_give_back_locked(room, one->list, &left, pause_us);
    arena_fini(&op->arena);
    free(one);
    room->under_way--;
    room->is_stirred = true;
    pthread_cond_signal(&room->wake);
    lock_drop(&room->lock);
}

/* --- handed out --------------------------------------------------------------------- */

static bool
name_seats(struct assignment *one)
{
    struct op *op = &one->op;

    op->org = arena_copy(&op->arena, one->list->org);
    op->event = arena_copy(&op->arena, one->list->event);
    op->free = one->seats;
    op->free_count = one->news.whole ? 0 : one->news.count;
    for (int i = 0; i < op->free_count; i++)
        one->seats[i] = slice_of(one->news.seats[i].id);
    return op->org.ptr != NULL && op->event.ptr != NULL;
}

static struct assignment *
assignment_new(struct waitlist *room, struct list *list, const struct news *news)
{
    struct assignment *one = calloc(1, sizeof(*one));
    if (one == NULL)
        return NULL;
    one->room = room;
    one->list = list;
    one->news = *news;
    struct op *op = &one->op;
    op->kind = OP_ASSIGN;
    op->privileged = true; /* for whom it is, the list says */
    op->received = mono_now();
    op->deadline.us = op->received.us + room->node->config->request_timeout;
    op->finish = assignment_finish;
    op->send = assignment_send;
    if (!name_seats(one)) {
        arena_fini(&op->arena);
        free(one);
        return NULL;
    }
    return one;
}

/* A worker is left to who doesn't wait, where there is another. */
static int
at_once_most(const struct waitlist *room)
{
    int64_t others = room->node->config->workers - 1;

    return others < 1 ? 1 : others < AT_ONCE ? (int)others : AT_ONCE;
}

/* NULL: none may be handed out now; *due: when one may. */
static struct assignment *
next_locked(struct waitlist *room, struct mono_time *due)
{
    struct news news;

    if (room->under_way >= at_once_most(room) || room->stopping)
        return NULL;
    struct list *list = list_take_locked(room, mono_now(), &news, due);
    if (list == NULL)
        return NULL;
    struct assignment *one = assignment_new(room, list, &news);
    if (one == NULL)
        list_give_back_locked(room, list, &news, TROUBLE_US);
    else
        room->under_way++;
    return one;
}

struct mono_time
serve_due(struct waitlist *room)
{
    struct mono_time due = { INT64_MAX };
    struct assignment *one;

    do {
        due.us = INT64_MAX;
        lock_take(&room->lock);
        room->is_stirred = false; /* what follows has seen it */
        one = next_locked(room, &due);
        lock_drop(&room->lock);
        if (one != NULL)
            engine_submit(room->node->engine, &one->op);
    } while (one != NULL);
    return due;
}
