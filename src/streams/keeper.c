/*
 * keeper.c - what is done for all streams each turn and each second.
 *
 * What a stream's map read before the stream began, the stream is not told. Usually whatever was
 * read comes as a record too (the stream is told then), or the reader has it. Only what a node
 * committed and never told is neither, and its loss is noticed a moment later: distrust. So a
 * stream that began less than DOUBT_US before trust ended, or since, begins anew when trust is
 * back: reset. (Noticed within FANOUT_SILENCE_US of the node's last frame, which the commit was not
 * long before.)
 */
#include "holdfast/log.h"
#include "streams_internal.h"

#define ALIVE_US    (15 * TIME_US_PER_S)
#define READ_US     TIME_US_PER_S /* between two readings of a map while this node isn't trusted */
#define DOUBT_US    (5 * TIME_US_PER_S)
#define PATIENCE_US (50 * TIME_US_PER_MS)

struct db_time
streams_now(struct streams *streams)
{
    struct db_time now = { 0 };
    int64_t error_us;

    (void)db_clock_read(streams->node->clock, mono_now(), &now, &error_us);
    return now;
}

/* --- those who have gone, or must ------------------------------------------------------------ */

static void
remove_if_locked(struct streams *streams,
                 bool (*must_go)(const struct stream *stream, struct db_time now))
{
    struct audience *audience, *next;
    struct stream *stream, *after;
    struct db_time now = streams_now(streams);

    HASH_ITER(hh, streams->audiences, audience, next)
    {
        DL_FOREACH_SAFE(audience->streams, stream, after)
        {
            if (must_go(stream, now))
                stream_remove_locked(streams, audience, stream);
        }
    }
}

static bool
is_gone(const struct stream *stream, struct db_time now)
{
    (void)now;
    return atomic_load(&stream->gone);
}

static bool
token_is_over(const struct stream *stream, struct db_time now)
{
    return stream->ends_at.us <= now.us;
}

static void
forget_empty_locked(struct streams *streams)
{
    struct audience *audience, *next;

    HASH_ITER(hh, streams->audiences, audience, next)
    {
        if (audience_is_empty_locked(audience))
            audience_free_locked(streams, audience);
    }
}

/* --- trust ------------------------------------------------------------------------------------ */

static void
write_reset(struct audience *audience, const struct feed_position *id)
{
    event_write_reset(&audience->text, id);
}

/* Told to everybody of an event where one is in doubt: it costs the others one reading. */
static void
reset_since_locked(struct streams *streams, struct mono_time since)
{
    struct audience *audience, *next;
    struct stream *stream;

    HASH_ITER(hh, streams->audiences, audience, next)
    {
        DL_FOREACH(audience->streams, stream)
        {
            if (stream->began_at.us >= since.us) {
                audience_write_locked(streams, audience, write_reset);
                break;
            }
        }
    }
}

static void
look_at_trust_locked(struct streams *streams, struct mono_time now)
{
    bool is_trusted = seat_maps_trusted(streams->node->maps);
    struct mono_time distrusted_at = seat_maps_distrusted_at(streams->node->maps);
    bool is_new =
        is_trusted != streams->was_trusted || distrusted_at.us != streams->distrusted_at.us;

    streams->was_trusted = is_trusted;
    streams->distrusted_at = distrusted_at;
    if (is_new)
        reset_since_locked(streams, (struct mono_time){ streams->trusted_until.us - DOUBT_US });
    else if (is_trusted)
        streams->trusted_until = now;
}

/* --- maps to be read ----------------------------------------------------------------- */

enum pg_outcome
streams_read_map(struct streams *streams, struct pg *pg, const struct audience *audience,
                 struct mono_time deadline)
{
    struct node *node = streams->node;
    struct feed_position before;
    struct seat_map_reading reading;

    feed_position(node->feed, &before);
    seat_map_reading_begin(&reading, node->clock, &before);
    return seat_maps_read(node->maps, pg, audience->org, audience->event, &reading, deadline);
}

static void
look_at_map_locked(struct streams *streams, struct audience *audience, struct mono_time now)
{
    if (audience->must_read || now.us < audience->read_due.us ||
        seat_maps_is_whole(streams->node->maps, audience->org, audience->event))
        return;
    bool at_once = streams->was_trusted;
    audience->must_read = true;
    audience->users++;
    audience->read_due.us = now.us + (at_once ? PATIENCE_US : READ_US);
    pthread_cond_signal(&streams->reader_cond);
}

/* --- each second --------------------------------------------------------------------- */

static bool
same_counts(const struct seat_map_counts *a, const struct seat_map_counts *b)
{
    return a->available == b->available && a->held == b->held && a->sold == b->sold &&
           a->blocked == b->blocked && a->total == b->total;
}

static void
write_counts(struct audience *audience, const struct feed_position *id)
{
    event_write_counts(&audience->text, &audience->counts, id, streams_now(audience->owner));
}

static bool
take_stirred(struct audience *audience)
{
    lock_take(&audience->lock);
    bool is_stirred = audience->is_stirred;
    audience->is_stirred = false;
    lock_drop(&audience->lock);
    return is_stirred;
}

/* Counts move by changes, and where there are holds, by time. */
static void
count_locked(struct streams *streams, struct audience *audience)
{
    struct seat_map_counts counts;
    bool is_stirred = take_stirred(audience);

    if ((!is_stirred && audience->has_counts && audience->counts.held == 0) ||
        !seat_maps_count(streams->node->maps, audience->org, audience->event,
                         db_clock_surely_past(streams->node->clock, mono_now()), &counts) ||
        (audience->has_counts && same_counts(&counts, &audience->counts)))
        return;
    audience->counts = counts;
    audience->has_counts = true;
    audience_write_locked(streams, audience, write_counts);
}

static void
write_alive(struct audience *audience, const struct feed_position *id)
{
    event_write_alive(&audience->text, id);
}

static void
each_second_locked(struct streams *streams)
{
    struct audience *audience, *next;

    remove_if_locked(streams, token_is_over);
    forget_empty_locked(streams);
    HASH_ITER(hh, streams->audiences, audience, next)
    {
        count_locked(streams, audience);
        if (mono_is_due(&audience->alive_due, ALIVE_US))
            audience_write_locked(streams, audience, write_alive);
    }
}

/* --- the thread ---------------------------------------------------------------------- */

/*
 * A turn of an event that sells costs a write to each of its streams, so the more there are the
 * longer it takes. Without anybody there all stands still, but for a look at trust now and then.
 */
static int64_t
turn_us(const struct streams *streams)
{
    int64_t us = streams->open * STREAM_SHARE_US;

    if (streams->audiences == NULL)
        return TIME_US_PER_S;
    if (us < STREAMS_TURN_US)
        return STREAMS_TURN_US;
    return us < STREAMS_TURN_MAX_US ? us : STREAMS_TURN_MAX_US;
}

/* How many are to have it so long after the turn began: all before three quarters of it are over.
 */
static int64_t
due_since(const struct streams *streams, int64_t since_us)
{
    return STREAMS_AT_ONCE + streams->open * since_us * 4 / (3 * turn_us(streams));
}

/* Some streams of all audiences get what leaves. True: all have it. */
static bool
step_locked(struct streams *streams, int64_t since_us)
{
    struct audience *audience, *next;
    int64_t due = due_since(streams, since_us), left = due - streams->handed;
    bool is_done = true;

    if (left <= 0)
        return false;
    HASH_ITER(hh, streams->audiences, audience, next)
    is_done = audience_hand_locked(streams, audience, &left) && is_done;
    streams->handed = due - left;
    return is_done;
}

bool
keeper_turn_locked(struct streams *streams)
{
    struct audience *audience, *next;
    struct mono_time now = mono_now();

    if (atomic_exchange(&streams->gone_count, 0) > 0)
        remove_if_locked(streams, is_gone);
    look_at_trust_locked(streams, now);
    if (mono_is_due(&streams->second_due, TIME_US_PER_S))
        each_second_locked(streams);
    HASH_ITER(hh, streams->audiences, audience, next)
    {
        look_at_map_locked(streams, audience, now);
        audience_take_locked(streams, audience);
    }
    streams->handed = 0;
    return step_locked(streams, 0);
}

void *
keeper_run(void *context)
{
    struct streams *streams = context;
    int64_t began_us = 0; /* the turn that goes on */
    bool is_done = true;

    lock_take(&streams->lock);
    while (!streams->is_ending) {
        /* How long it is to take may change on the way: somebody came, or all have gone. */
        int64_t now_us = mono_now().us, due_us = began_us + turn_us(streams);
        if (now_us >= due_us) {
            is_done = keeper_turn_locked(streams);
            began_us = now_us;
            due_us = now_us + turn_us(streams);
        } else if (!is_done) {
            is_done = step_locked(streams, now_us - began_us);
        }
        int64_t left_us = due_us - mono_now().us;
        if (!is_done && left_us > STREAMS_STEP_US)
            left_us = STREAMS_STEP_US;
        if (left_us > 0)
            lock_wait(&streams->lock, &streams->keeper_cond, left_us);
    }
    lock_drop(&streams->lock);
    return NULL;
}
