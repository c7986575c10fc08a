/*
 * feed.c - one order for what this node commits and what its peers tell.
 *
 * The floor of an incarnation is the number behind which all its records that we took in are in
 * the log; a reader whose position is below a floor can't be told what it missed. Evicting a record
 * raises its floor, a gap does, and a record that could not be kept.
 *
 * An incarnation that leaves positions (lost, or gone long ago) is BROKEN with: a position made
 * before it came and one made after it left would look alike, and only the second one misses
 * nothing. So the log begins anew, and this node gives a number to a record without changes:
 * positions from before lack it. The same with one that comes with records which this node didn't
 * hear: it may have been lost before, and those who read meanwhile don't name it.
 */
#include "feed_internal.h"

#include <stdlib.h>

#include "holdfast/engine.h"
#include "holdfast/events.h"
#include "holdfast/metrics.h"
#include "holdfast/seat_map.h"

#define GONE_KEPT_US (600 * (int64_t)TIME_US_PER_S)

/* --- life ---------------------------------------------------------------------- */

struct feed *
feed_new(struct node *node, int64_t log_bytes_max)
{
    struct feed *feed = calloc(1, sizeof(*feed));

    if (feed == NULL)
        return NULL;
    feed->node = node;
    feed->log.bytes_max = log_bytes_max;
    feed->end = &feed->first;
    lock_init(&feed->lock, LOCK_FEED);
    lock_cond_init(&feed->work);
    return feed;
}

static void
put_all(struct feed_record *record)
{
    while (record != NULL) {
        struct feed_record *next = record->next;
        feed_record_put(record);
        record = next;
    }
}

void
feed_free(struct feed **feed_pointer)
{
    struct feed *feed = *feed_pointer;

    if (feed == NULL)
        return;
    put_all(feed->first);
    log_fini(&feed->log);
    pthread_cond_destroy(&feed->work);
    lock_fini(&feed->lock);
    free(feed);
    *feed_pointer = NULL;
}

/* --- the outbox -------------------------------------------------------------------- */

static struct feed_record *
outbox_take_first_locked(struct feed *feed)
{
    struct feed_record *record = feed->first;

    feed->first = record->next;
    if (feed->first == NULL)
        feed->end = &feed->first;
    record->next = NULL;
    feed->out_records--;
    feed->out_bytes -= record->len;
    return record;
}

/* Nobody takes them, or too slowly: peers see the gap. */
static void
outbox_add_locked(struct feed *feed, struct feed_record *record)
{
    *feed->end = record_get(record);
    feed->end = &record->next;
    feed->out_records++;
    feed->out_bytes += record->len;
    while (feed->out_bytes > FEED_OUTBOX_BYTES_MAX) {
        feed_record_put(outbox_take_first_locked(feed));
        metric_add(METRIC_FEED_OUTBOX_DROPPED_TOTAL, 1);
    }
    pthread_cond_signal(&feed->work);
}

/* --- the log, and what can be resumed from it ----------------------------------------- */

static uint64_t
number_locked(const struct feed *feed)
{
    return feed_position_of(&feed->now, feed->incarnation);
}

/* What is not behind `number` can't be told again. */
static void
raise_floor_locked(struct feed *feed, struct feed_mark mark)
{
    int i = feed_position_find(&feed->now, mark.incarnation);

    if (i >= 0 && feed->known[i].floor < mark.number)
        feed->known[i].floor = mark.number;
}

static void
keep_locked(struct feed *feed, struct feed_record *record)
{
    while (!log_has_room(&feed->log, record)) {
        struct feed_record *old = log_evict(&feed->log);
        if (old == NULL) { /* larger than the log, or no memory */
            raise_floor_locked(feed, (struct feed_mark){ record->incarnation, record->number });
            return;
        }
        raise_floor_locked(feed, (struct feed_mark){ old->incarnation, old->number });
        feed_record_put(old);
    }
    log_add(&feed->log, record);
}

/* The record of that number is in; what came before it is too, or will never be. */
static void
set_mark_locked(struct feed *feed, struct feed_mark mark)
{
    int i = feed_position_find(&feed->now, mark.incarnation);

    hf_assert(i >= 0);
    feed->now.marks[i].number = mark.number;
    feed->now.part_count = 0;
}

/*
 * Maps count as whole until they are told that something was missed; so before the change is told
 * that comes behind it.
 */
static void
miss_locked(struct feed *feed)
{
    lock_assert_held(&feed->lock);
    seat_maps_distrust(feed->node->maps);
}

static void
skip_locked(struct feed *feed)
{
    struct feed_mark mark = { feed->incarnation, number_locked(feed) + 1 };

    if (feed->incarnation == 0)
        return;
    set_mark_locked(feed, mark);
    raise_floor_locked(feed, mark);
}

/* *old: the log as it was, to be freed when the lock is dropped. */
static void
break_locked(struct feed *feed, struct feed_log *old)
{
    struct feed_record *empty = record_of_changes(NULL, 0, 1);

    *old = feed->log;
    feed->log = (struct feed_log){ .bytes_max = old->bytes_max };
    skip_locked(feed);
    for (int i = 0; i < feed->now.count; i++)
        feed->known[i].floor = feed->now.marks[i].number;
    if (empty == NULL)
        return;
    empty->incarnation = feed->incarnation;
    empty->number = number_locked(feed);
    if (feed->incarnation != 0)
        outbox_add_locked(feed, empty);
    feed_record_put(empty);
}

void
feed_skip(struct feed *feed)
{
    lock_take(&feed->lock);
    skip_locked(feed);
    lock_drop(&feed->lock);
}

void
feed_break(struct feed *feed)
{
    struct feed_log old;

    lock_take(&feed->lock);
    break_locked(feed, &old);
    lock_drop(&feed->lock);
    log_fini(&old);
}

/* --- incarnations ---------------------------------------------------------------------- */

static void
forget_locked(struct feed *feed, int at)
{
    struct feed_position *now = &feed->now;

    now->count--;
    for (int i = at; i < now->count; i++) {
        now->marks[i] = now->marks[i + 1];
        feed->known[i] = feed->known[i + 1];
    }
}

/* The one longest gone; -1: none is. */
static int
longest_gone_locked(const struct feed *feed)
{
    int found = -1;

    for (int i = 0; i < feed->now.count; i++) {
        int64_t gone_us = feed->known[i].gone.us;
        if (gone_us != 0 && (found < 0 || gone_us < feed->known[found].gone.us))
            found = i;
    }
    return found;
}

/* Its hearing begins behind `number`. False: there is no room among the living. */
static bool
begin_locked(struct feed *feed, struct feed_mark mark, struct feed_log *old)
{
    bool is_full = feed->now.count == FEED_NODES_MAX;

    if (is_full) {
        int gone = longest_gone_locked(feed);
        if (gone < 0)
            return false;
        forget_locked(feed, gone);
    }
    if (is_full || mark.number > 0)
        break_locked(feed, old);
    int at = feed_position_add(&feed->now, mark);
    for (int i = feed->now.count - 1; i > at; i--)
        feed->known[i] = feed->known[i - 1];
    feed->known[at] = (struct incarnation){ .floor = mark.number };
    return true;
}

/* The time is up of those that left cleanly. */
static void
forget_gone_locked(struct feed *feed, struct mono_time now, struct feed_log *old)
{
    int gone = longest_gone_locked(feed);

    if (gone < 0 || now.us - feed->known[gone].gone.us < GONE_KEPT_US)
        return;
    while (gone >= 0 && now.us - feed->known[gone].gone.us >= GONE_KEPT_US) {
        forget_locked(feed, gone);
        gone = longest_gone_locked(feed);
    }
    break_locked(feed, old);
}

static void
part_locked(struct feed *feed, int64_t incarnation)
{
    int i = feed_position_find(&feed->now, incarnation);

    if (i >= 0)
        feed->known[i].gone = mono_now();
}

void
feed_start(struct feed *feed, int64_t incarnation)
{
    struct feed_log old = { 0 };
    struct feed_record *unsent;

    hf_assert(incarnation > 0);
    lock_take(&feed->lock);
    unsent = feed->first; /* of an incarnation that is nobody's any more */
    feed->first = NULL;
    feed->end = &feed->first;
    metric_add(METRIC_FEED_OUTBOX_DROPPED_TOTAL, (uint64_t)feed->out_records);
    feed->out_records = feed->out_bytes = 0;
    part_locked(feed, feed->incarnation);
    bool begun = begin_locked(feed, (struct feed_mark){ incarnation, 0 }, &old);
    hf_assert(begun);
    feed->incarnation = incarnation;
    lock_drop(&feed->lock);
    put_all(unsent);
    log_fini(&old);
}

void
feed_part(struct feed *feed, int64_t incarnation)
{
    lock_take(&feed->lock);
    if (incarnation != feed->incarnation)
        part_locked(feed, incarnation);
    lock_drop(&feed->lock);
}

/* What it told is in no log of ours: that breaks with every position from before this node came. */
void
feed_adopt(struct feed *feed, int64_t incarnation, uint64_t last, int64_t age_us)
{
    struct feed_log old = { 0 };

    lock_take(&feed->lock);
    if (feed_position_find(&feed->now, incarnation) < 0 && feed->now.count < FEED_NODES_MAX / 2 &&
        begin_locked(feed, (struct feed_mark){ incarnation, last }, &old))
        feed->known[feed_position_find(&feed->now, incarnation)].gone.us = mono_now().us - age_us;
    lock_drop(&feed->lock);
    log_fini(&old);
}

uint64_t
feed_last(struct feed *feed)
{
    lock_take(&feed->lock);
    uint64_t last = number_locked(feed);
    lock_drop(&feed->lock);
    return last;
}

void
feed_lose(struct feed *feed, int64_t incarnation)
{
    struct feed_log old = { 0 };

    lock_take(&feed->lock);
    int i = feed_position_find(&feed->now, incarnation);
    if (i >= 0 && incarnation != feed->incarnation) {
        miss_locked(feed);
        forget_locked(feed, i);
        break_locked(feed, &old);
    }
    lock_drop(&feed->lock);
    log_fini(&old);
}

/* --- memory ------------------------------------------------------------------------------- */

struct seat_view
feed_view(const struct feed_change *change)
{
    return (struct seat_view){
        .status = change->status,
        .in_payment = change->in_payment,
        .hold_id = change->hold_id,
        .user_hash = change->user.len == 0 ? 0 : hash_seeded(change->user.ptr, change->user.len),
        .held_until = change->held_until,
        .version = change->version,
    };
}

/* `done` changes of a record are told; it is the last one if `count` are. */
static const struct feed_position *
step_locked(struct feed *feed, struct feed_mark from, uint32_t done, uint32_t count)
{
    if (feed_position_find(&feed->now, from.incarnation) < 0)
        return NULL;
    if (done == count) {
        set_mark_locked(feed, from);
    } else {
        feed->now.part = from;
        feed->now.part_count = done;
    }
    return &feed->now;
}

static void
move_map_locked(struct feed *feed, const struct feed_change *change, struct feed_mark from,
                const struct feed_position *after)
{
    if (change->kind != FEED_EVENT)
        seat_maps_take(feed->node->maps, change, from, after);
    if (feed->hear != NULL)
        feed->hear(feed->hear_context, change, from.incarnation == feed->incarnation);
}

void
feed_watch(struct feed *feed, feed_hearer *hear, void *context)
{
    lock_take(&feed->lock);
    feed->hear = hear;
    feed->hear_context = context;
    lock_drop(&feed->lock);
}

/* Since when what a record says is known to be true. */
struct told_at {
    struct mono_time sent;
    bool has_clock;
    int64_t mono_behind_us; /* what a reading of the database's clock lacks to be this machine's */
};

static struct told_at
told_at(const struct feed *feed, struct mono_time sent)
{
    struct told_at at = { .sent = sent };
    struct mono_time now = mono_now();
    struct db_time db_now;
    int64_t error_us;

    at.has_clock = db_clock_read(feed->node->clock, now, &db_now, &error_us);
    if (at.has_clock)
        at.mono_behind_us = now.us - (db_now.us + error_us);
    return at;
}

/* A change was true when it was judged: its node may have stood still before it told of it. */
static struct mono_time
true_at(const struct told_at *at, const struct feed_change *change)
{
    if (change->at.us <= 0 || !at->has_clock)
        return at->sent;
    int64_t judged_us = (int64_t)((uint64_t)change->at.us + (uint64_t)at->mono_behind_us);
    return judged_us < at->sent.us ? (struct mono_time){ judged_us } : at->sent;
}

/*
 * From when on memory may rest on it. A peer's word that a seat is free ends what was believed, and
 * says no more: the peer that sold it next may have been killed before it told us, and its buyer
 * must not be shown a free seat. Who asks hears it from Postgres.
 */
static struct mono_time
rests_on(const struct told_at *at, const struct feed_change *change)
{
    return change->status == SEAT_AVAILABLE ? (struct mono_time){ INT64_MIN } : true_at(at, change);
}

/* A peer's change: what the teller of our own has done itself. */
static void
learn_locked(struct feed *feed, const struct feed_change *change, const struct told_at *at)
{
    struct node *node = feed->node;

    if (change->kind == FEED_SEAT) {
        struct seat_key key = { change->org, change->event, change->item };
        struct seat_view view = feed_view(change);
        hot_table_learn(node->hot, &key, &view, rests_on(at, change), false);
    } else if (change->kind == FEED_EVENT) {
        events_outdated(node->events, change->org, change->event, change->version);
    }
}

/* --- this node's changes -------------------------------------------------------------------- */

static void
apply_own_locked(struct feed *feed, const struct feed_change *changes, int count,
                 struct feed_mark from)
{
    for (int i = 0; i < count; i++)
        move_map_locked(feed, &changes[i], from,
                        step_locked(feed, from, (uint32_t)i + 1, (uint32_t)count));
}

/* record NULL: no memory for it. */
static void
tell_locked(struct feed *feed, const struct feed_change *changes, int count,
            struct feed_record *record)
{
    struct feed_mark from = { feed->incarnation, 0 };

    if (feed->incarnation != 0)
        from.number = number_locked(feed) + 1;
    apply_own_locked(feed, changes, count, from);
    if (feed->incarnation == 0)
        return;
    if (record == NULL) {
        raise_floor_locked(feed, from);
        return;
    }
    record->incarnation = from.incarnation;
    record->number = from.number;
    keep_locked(feed, record);
    outbox_add_locked(feed, record);
}

void
feed_tell(struct feed *feed, const struct feed_change *changes, int count)
{
    while (count > 0) {
        size_t bytes_max;
        int some = codec_fit(changes, count, &bytes_max);
        struct feed_record *record = record_of_changes(changes, some, bytes_max);

        lock_take(&feed->lock);
        tell_locked(feed, changes, some, record);
        lock_drop(&feed->lock);
        if (record != NULL)
            feed_record_put(record);
        changes += some;
        count -= some;
    }
}

/* Waits for a record, or for somebody who wakes us. */
static void
await_record_locked(struct feed *feed, int64_t wait_us)
{
    struct mono_time until = { mono_now().us + wait_us };
    int64_t left_us = wait_us;

    while (feed->first == NULL && !feed->woken && left_us > 0) {
        lock_wait(&feed->lock, &feed->work, (long)left_us);
        left_us = until.us - mono_now().us;
    }
    feed->woken = false;
}

struct feed_record *
feed_take(struct feed *feed, size_t bytes_max, int64_t wait_us, uint64_t *last)
{
    struct feed_record *taken = NULL, **end = &taken;
    struct feed_log old = { 0 };
    size_t bytes = 0;

    lock_take(&feed->lock);
    await_record_locked(feed, wait_us);
    forget_gone_locked(feed, mono_now(), &old);
    while (feed->first != NULL && (taken == NULL || bytes + feed->first->len <= bytes_max)) {
        bytes += feed->first->len;
        *end = outbox_take_first_locked(feed);
        end = &(*end)->next;
    }
    *last = number_locked(feed);
    lock_drop(&feed->lock);
    log_fini(&old);
    return taken;
}

void
feed_wake(struct feed *feed)
{
    lock_take(&feed->lock);
    feed->woken = true;
    pthread_cond_signal(&feed->work);
    lock_drop(&feed->lock);
}

/* --- peers' changes --------------------------------------------------------------------- */

/*
 * How far `next`, the number of a record that comes, is behind what we have of its incarnation.
 * After a gap the mark stands right before it: what is missing will never come.
 */
static enum feed_hearing
judge_locked(struct feed *feed, struct feed_mark next, struct feed_log *old)
{
    struct feed_mark before = { next.incarnation, next.number - 1 };
    int i = feed_position_find(&feed->now, next.incarnation);

    if (i < 0) {
        miss_locked(feed);
        (void)begin_locked(feed, before, old);
        return FEED_GAP;
    }
    if (next.number <= feed->now.marks[i].number)
        return FEED_REPEATED;
    if (before.number == feed->now.marks[i].number)
        return FEED_HEARD;
    miss_locked(feed);
    set_mark_locked(feed, before);
    raise_floor_locked(feed, before);
    return FEED_GAP;
}

static void
apply_heard_locked(struct feed *feed, struct slice bytes, uint32_t count, struct feed_mark from,
                   const struct told_at *at)
{
    struct codec_reader reader;
    struct feed_change change;
    uint32_t done = 0;

    codec_begin(&reader, bytes);
    while (codec_next(&reader, &change) == CODEC_CHANGE) {
        learn_locked(feed, &change, at);
        move_map_locked(feed, &change, from, step_locked(feed, from, ++done, count));
    }
    if (count == 0)
        (void)step_locked(feed, from, 0, 0);
}

/* record NULL: no memory for it. It is in memory all the same. */
static void
keep_heard_locked(struct feed *feed, struct feed_record *record, struct feed_mark from)
{
    if (record == NULL) {
        raise_floor_locked(feed, from);
        return;
    }
    record->incarnation = from.incarnation;
    record->number = from.number;
    if (feed_position_find(&feed->now, from.incarnation) >= 0)
        keep_locked(feed, record);
}

enum feed_hearing
feed_hear(struct feed *feed, int64_t incarnation, uint64_t number, struct slice bytes,
          struct mono_time began)
{
    struct feed_mark from = { incarnation, number };
    struct feed_log old = { 0 };
    uint32_t count;
    uint64_t events;

    if (incarnation <= 0 || number == 0 || bytes.len > FEED_RECORD_BYTES_MAX ||
        !codec_check(bytes, &count, &events))
        return FEED_GARBLED;
    struct feed_record *record = record_of_bytes(bytes, count, events);
    struct told_at at = told_at(feed, began);

    lock_take(&feed->lock);
    enum feed_hearing hearing =
        incarnation == feed->incarnation ? FEED_REPEATED : judge_locked(feed, from, &old);
    if (hearing != FEED_REPEATED) {
        apply_heard_locked(feed, bytes, count, from, &at);
        keep_heard_locked(feed, record, from);
    }
    lock_drop(&feed->lock);
    if (record != NULL)
        feed_record_put(record);
    log_fini(&old);
    return hearing;
}

enum feed_hearing
feed_hear_last(struct feed *feed, int64_t incarnation, uint64_t number)
{
    struct feed_mark last = { incarnation, number };
    struct feed_log old = { 0 };
    enum feed_hearing hearing = FEED_GAP;

    if (incarnation <= 0)
        return FEED_GARBLED;
    lock_take(&feed->lock);
    int i = feed_position_find(&feed->now, incarnation);
    if (i < 0) {
        miss_locked(feed);
        (void)begin_locked(feed, last, &old);
    } else if (number <= feed->now.marks[i].number || incarnation == feed->incarnation) {
        hearing = number == feed->now.marks[i].number ? FEED_HEARD : FEED_REPEATED;
    } else {
        miss_locked(feed);
        set_mark_locked(feed, last);
        raise_floor_locked(feed, last);
    }
    lock_drop(&feed->lock);
    log_fini(&old);
    return hearing;
}

/* --- readers ---------------------------------------------------------------------------- */

void
feed_position(struct feed *feed, struct feed_position *position)
{
    lock_take(&feed->lock);
    *position = feed->now;
    lock_drop(&feed->lock);
}

void
feed_numbers(struct feed *feed, struct feed_numbers *numbers)
{
    lock_take(&feed->lock);
    *numbers = (struct feed_numbers){ .log_records = (int64_t)feed->log.count,
                                      .log_bytes = feed->log.bytes,
                                      .outbox_records = feed->out_records };
    lock_drop(&feed->lock);
}
