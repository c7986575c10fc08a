/*
 * replay.c - what a reader has missed of one event, from the log.
 *
 * The log stands in this node's order. How many of its records a reader lacks is known from the
 * positions, so the walk begins at the first of them. Records about other events are told by a bit
 * and never opened.
 */
#include "feed_internal.h"

#include "holdfast/thread.h"

#define AWAIT_LOOK_US (1 * TIME_US_PER_MS) /* news of a peer are here about as soon */

struct replay {
    struct feed *feed;
    struct slice org, event;
    uint64_t bit;
    const struct feed_position *since;
    struct feed_position reached; /* what the reader has by now */
    size_t first;                 /* in the log: nothing before it is missed */
};

static bool
is_missed(const struct replay *replay, const struct feed_record *record)
{
    return record->number > feed_position_of(replay->since, record->incarnation);
}

/* Whether the log has all that `since` lacks, as far as anybody can know what it lacks. */
static bool
can_resume_locked(const struct feed *feed, const struct feed_position *since)
{
    for (int i = 0; i < since->count; i++) {
        if (feed_position_find(&feed->now, since->marks[i].incarnation) < 0)
            return false; /* lost, or never heard here */
    }
    if (since->part_count > 0 && feed_position_find(&feed->now, since->part.incarnation) < 0)
        return false;
    for (int i = 0; i < feed->now.count; i++) {
        if (feed_position_of(since, feed->now.marks[i].incarnation) < feed->known[i].floor)
            return false;
    }
    return true;
}

static uint64_t
count_missed_locked(const struct feed *feed, const struct feed_position *since)
{
    uint64_t missed = 0;

    for (int i = 0; i < feed->now.count; i++) {
        uint64_t number = feed->now.marks[i].number;
        uint64_t seen = feed_position_of(since, feed->now.marks[i].incarnation);
        missed += number > seen ? number - seen : 0;
    }
    return missed;
}

/* Finds where to begin. False: it is too much to be told. */
static bool
find_first_locked(struct replay *replay)
{
    const struct feed_log *log = &replay->feed->log;
    uint64_t missed = count_missed_locked(replay->feed, replay->since);
    size_t bytes = 0;

    replay->first = log->count;
    while (missed > 0) {
        hf_assert(replay->first > 0);
        const struct feed_record *record = log_at(log, --replay->first);
        if (!is_missed(replay, record))
            continue;
        missed--;
        if (record->events & replay->bit)
            bytes += record->len;
        if (bytes > FEED_REPLAY_BYTES_MAX)
            return false;
    }
    return true;
}

/* How many changes of the record the reader has been told already. */
static uint32_t
told_of(const struct feed_position *since, const struct feed_record *record)
{
    bool is_part = since->part_count > 0 && since->part.incarnation == record->incarnation &&
                   since->part.number == record->number &&
                   record->number == feed_position_of(since, record->incarnation) + 1;

    return is_part ? since->part_count : 0;
}

static void
reach_part(struct feed_position *reached, struct feed_mark mark, uint32_t done)
{
    reached->part = mark;
    reached->part_count = done;
}

static void
reach_whole(struct feed_position *reached, struct feed_mark mark)
{
    int at = feed_position_add(reached, mark);

    hf_assert(at >= 0); /* only known ones are named, so there is room */
    if (reached->part.incarnation == mark.incarnation && reached->part.number <= mark.number)
        reached->part_count = 0;
}

static void
visit_record(struct replay *replay, const struct feed_record *record,
             void (*visit)(void *, const struct feed_change *, const struct feed_position *),
             void *context)
{
    struct feed_mark mark = { record->incarnation, record->number };
    uint32_t told = told_of(replay->since, record), done = 0;
    struct codec_reader reader;
    struct feed_change change;

    codec_begin(&reader, record_bytes(record));
    while (record->events & replay->bit && codec_next(&reader, &change) == CODEC_CHANGE) {
        if (++done <= told || !slice_equal(change.event, replay->event) ||
            !slice_equal(change.org, replay->org))
            continue;
        if (done == record->change_count)
            reach_whole(&replay->reached, mark);
        else
            reach_part(&replay->reached, mark, done);
        visit(context, &change, &replay->reached);
    }
    reach_whole(&replay->reached, mark);
}

/* A position has room for one part only: the record that the reader was amidst is ended first. */
static const struct feed_record *
find_part_locked(const struct replay *replay)
{
    const struct feed_log *log = &replay->feed->log;

    for (size_t i = replay->first; i < log->count; i++) {
        if (told_of(replay->since, log_at(log, i)) > 0)
            return log_at(log, i);
    }
    return NULL;
}

static void
visit_all_locked(struct replay *replay,
                 void (*visit)(void *, const struct feed_change *, const struct feed_position *),
                 void *context)
{
    const struct feed_log *log = &replay->feed->log;
    const struct feed_record *part = find_part_locked(replay);

    replay->reached = *replay->since;
    if (part != NULL)
        visit_record(replay, part, visit, context);
    for (size_t i = replay->first; i < log->count; i++) {
        const struct feed_record *record = log_at(log, i);
        if (record != part && is_missed(replay, record))
            visit_record(replay, record, visit, context);
    }
}

bool
feed_replay(struct feed *feed, struct slice org, struct slice event,
            const struct feed_position *since,
            void (*visit)(void *context, const struct feed_change *change,
                          const struct feed_position *after),
            void (*ready)(void *context, const struct feed_position *now), void *context)
{
    struct replay replay = {
        .feed = feed, .org = org, .event = event, .bit = codec_event_bit(event)
    };
    struct feed_position whole;
    bool told = true;

    lock_take(&feed->lock);
    if (since != NULL) {
        whole = *since;
        feed_position_complete(&whole, &feed->now);
        replay.since = &whole;
        told = can_resume_locked(feed, &whole) && find_first_locked(&replay);
        if (told)
            visit_all_locked(&replay, visit, context);
    }
    ready(context, &feed->now);
    lock_drop(&feed->lock);
    return told;
}

/* --- a reader who is ahead -------------------------------------------------------- */

/* What is of nobody that is known here will not come. */
static bool
may_come(const struct feed_position *now, const struct feed_position *position)
{
    for (int i = 0; i < position->count; i++) {
        if (feed_position_find(now, position->marks[i].incarnation) < 0)
            return false;
    }
    return position->part_count == 0 || feed_position_find(now, position->part.incarnation) >= 0;
}

bool
feed_await(struct feed *feed, const struct feed_position *position, int64_t wait_us)
{
    struct mono_time until = { mono_now().us + wait_us };
    struct feed_position now;

    for (;;) {
        feed_position(feed, &now);
        if (feed_position_covers(&now, position))
            return true;
        if (!may_come(&now, position) || mono_now().us >= until.us)
            return false;
        sleep_us(AWAIT_LOOK_US);
    }
}
