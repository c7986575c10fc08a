/*
 * replay.c - what a reader has missed of one event, from the log.
 *
 * The log stands in this node's order. How many of its records a reader lacks is known from the
 * positions, so the walk begins at the first of them. Records about other events are told by a bit
 * and never opened.
 *
 * A reader was told in another node's order, where a newer version of a seat may have come first.
 * What was overtaken there stands near it here: so those are recalled that he has, from a little
 * before the first that he lacks.
 */
#include "feed_internal.h"

#include "holdfast/thread.h"

#define AWAIT_LOOK_US     (1 * TIME_US_PER_MS) /* news of a peer are here about as soon */
#define AHEAD_RECORDS_MAX 10000                /* further ahead than anybody can be heard to be */
#define AWAIT_PAUSE_US    (1 * (int64_t)TIME_US_PER_S)
/* A change comes some milliseconds later than another at most: later, its node was lost. */
#define RECALL_RECORDS_MAX 1024
#define RECALL_BYTES_MAX   (FEED_REPLAY_BYTES_MAX / 4)

typedef void visit_fn(void *context, const struct feed_change *change,
                      const struct feed_position *after);

struct replay {
    struct feed *feed;
    struct slice org, event;
    uint64_t bit;
    const struct feed_position *since;
    struct feed_position reached; /* what the reader has by now */
    size_t first;                 /* in the log: nothing before it is missed */
    bool is_concerned;            /* something of the event is missed */
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
        if (log->count - replay->first == FEED_REPLAY_RECORDS_MAX || bytes > FEED_REPLAY_BYTES_MAX)
            return false;
        hf_assert(replay->first > 0);
        const struct feed_record *record = log_at(log, --replay->first);
        bool is_of_event = (record->events & replay->bit) != 0;
        missed -= is_missed(replay, record);
        bytes += is_of_event ? record->len : 0;
        replay->is_concerned |= is_of_event && is_missed(replay, record);
    }
    return bytes <= FEED_REPLAY_BYTES_MAX;
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

/* What he has reached who is told `done` changes of a record. */
static const struct feed_position *
reach(struct feed_position *reached, const struct feed_record *record, uint32_t done)
{
    struct feed_mark mark = { record->incarnation, record->number };

    if (done == record->change_count)
        reach_whole(reached, mark);
    else
        reach_part(reached, mark, done);
    return reached;
}

/* The reader has the first `told` of its changes. */
static void
visit_changes(struct replay *replay, const struct feed_record *record, uint32_t told,
              visit_fn *visit, void *context)
{
    struct codec_reader reader;
    struct feed_change change;

    codec_begin(&reader, record_bytes(record));
    for (uint32_t done = 1; codec_next(&reader, &change) == CODEC_CHANGE; done++) {
        if (slice_equal(change.event, replay->event) && slice_equal(change.org, replay->org))
            visit(context, &change, done <= told ? NULL : reach(&replay->reached, record, done));
    }
}

static void
visit_record(struct replay *replay, const struct feed_record *record, visit_fn *visit,
             void *context)
{
    if (record->events & replay->bit)
        visit_changes(replay, record, told_of(replay->since, record), visit, context);
    reach_whole(&replay->reached, (struct feed_mark){ record->incarnation, record->number });
}

/* Where to begin to recall. */
static size_t
recall_from_locked(const struct replay *replay)
{
    size_t at = replay->first, bytes = 0;

    while (at > 0 && replay->first - at < RECALL_RECORDS_MAX && bytes < RECALL_BYTES_MAX) {
        const struct feed_record *record = log_at(&replay->feed->log, --at);
        bytes += record->events & replay->bit ? record->len : 0;
    }
    return at;
}

static void
recall_locked(struct replay *replay, visit_fn *visit, void *context)
{
    const struct feed_log *log = &replay->feed->log;

    for (size_t i = recall_from_locked(replay); i < log->count; i++) {
        const struct feed_record *record = log_at(log, i);
        if (record->events & replay->bit && !is_missed(replay, record))
            visit_changes(replay, record, record->change_count, visit, context);
    }
}

/* A position has room for one part only: the record that the reader was amidst is ended first. */
static const struct feed_record *
find_part_locked(const struct replay *replay)
{
    const struct feed_log *log = &replay->feed->log;

    if (replay->since->part_count == 0)
        return NULL;
    for (size_t i = replay->first; i < log->count; i++) {
        if (told_of(replay->since, log_at(log, i)) > 0)
            return log_at(log, i);
    }
    return NULL;
}

static void
visit_all_locked(struct replay *replay, visit_fn *visit, void *context)
{
    const struct feed_log *log = &replay->feed->log;
    const struct feed_record *part = find_part_locked(replay);

    if (!replay->is_concerned)
        return;
    recall_locked(replay, visit, context);
    replay->reached = *replay->since;
    if (part != NULL)
        visit_record(replay, part, visit, context);
    for (size_t i = replay->first; i < log->count; i++) {
        const struct feed_record *record = log_at(log, i);
        if (record != part && is_missed(replay, record))
            visit_record(replay, record, visit, context);
    }
}

/* Only one that left for good can have been left out. */
static void
complete_locked(const struct feed *feed, struct feed_position *since)
{
    struct feed_position left = { 0 };

    for (int i = 0; i < feed->now.count; i++) {
        if (feed->known[i].gone.us != 0)
            left.marks[left.count++] = feed->now.marks[i];
    }
    feed_position_complete(since, &left);
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
        complete_locked(feed, &whole);
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

/* Whether it is here, or may be in a moment: its node lives and is about that far. */
static bool
may_come_locked(const struct feed *feed, struct feed_mark mark)
{
    int i = feed_position_find(&feed->now, mark.incarnation);

    if (i < 0)
        return false;
    uint64_t here = feed->now.marks[i].number;
    bool comes = mark.incarnation != feed->incarnation && feed->known[i].gone.us == 0;
    return mark.number <= here || (comes && mark.number - here < AHEAD_RECORDS_MAX);
}

static bool
all_may_come_locked(const struct feed *feed, const struct feed_position *position)
{
    for (int i = 0; i < position->count; i++) {
        if (!may_come_locked(feed, position->marks[i]))
            return false;
    }
    return position->part_count == 0 || may_come_locked(feed, position->part);
}

/* Only one at a time, and none for a while after one in vain: it may have been made up. */
static bool
start_wait_locked(struct feed *feed)
{
    if (feed->is_awaited || mono_now().us < feed->await_after.us)
        return false;
    feed->is_awaited = true;
    return true;
}

static void
end_wait_locked(struct feed *feed, bool is_here)
{
    feed->is_awaited = false;
    if (!is_here)
        feed->await_after.us = mono_now().us + AWAIT_PAUSE_US;
}

/* The lock is dropped meanwhile. */
static bool
wait_locked(struct feed *feed, const struct feed_position *position, int64_t wait_us)
{
    struct mono_time until = { mono_now().us + wait_us };
    bool is_here = false;

    while (mono_now().us < until.us && !is_here) {
        lock_drop(&feed->lock);
        sleep_us(AWAIT_LOOK_US);
        lock_take(&feed->lock);
        is_here = feed_position_covers(&feed->now, position);
    }
    return is_here;
}

bool
feed_await(struct feed *feed, const struct feed_position *position, int64_t wait_us)
{
    lock_take(&feed->lock);
    bool is_here = feed_position_covers(&feed->now, position);
    if (!is_here && all_may_come_locked(feed, position) && start_wait_locked(feed)) {
        is_here = wait_locked(feed, position, wait_us);
        end_wait_locked(feed, is_here);
    }
    lock_drop(&feed->lock);
    return is_here;
}
