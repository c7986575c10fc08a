/*
 * publisher.c - the thread that sends records and heartbeats.
 *
 * All records that wait go as one frame; while it is on its way the next ones gather. Nothing is
 * kept for later: what Redis doesn't take, or nobody is there to hear, has used up its numbers.
 */
#include "fanout_internal.h"

#include <stdio.h>
#include <string.h>

#include "holdfast/metrics.h"

#define NO_CHANNEL_US (5 * TIME_US_PER_MS) /* at the start, until the table of nodes was read */
#define LONE_LOOK_US  (20 * TIME_US_PER_MS)

/* What the thread keeps from frame to frame. */
struct publishing {
    struct fanout *fanout;
    char channel[FANOUT_CHANNEL_BYTES];
    uint64_t serial;
    struct mono_time due; /* the next heartbeat */
    bool told_doubt;      /* the last frame that Redis took said that we are in doubt */
};

/* --- one frame -------------------------------------------------------------------------- */

/* Not before this moment, by the database's clock; 0: not known. */
static struct db_time
sent_at(const struct node *node)
{
    struct db_time now;
    int64_t error_us;
    if (!db_clock_read(node->clock, mono_now(), &now, &error_us) || now.us <= error_us)
        return (struct db_time){ 0 };
    return (struct db_time){ now.us - error_us };
}

static bool
redis_may_be_used(const struct node *node)
{
    return warm_tier_is_on(node->tier) &&
           breaker_state(warm_tier_breaker(node->tier)) != BREAKER_OPEN;
}

/* Sends the message that was built. False: nobody will hear it. */
static bool
publish(struct publishing *publishing, uint64_t records)
{
    struct fanout *fanout = publishing->fanout;
    const struct buf *message = &fanout->message;
    bool may =
        redis_may_be_used(fanout->node) && !message->failed && message->len <= FRAME_BYTES_MAX;
    bool taken =
        may && warm_publish(fanout->warm, slice_of(publishing->channel), buf_slice(message));
    if (taken) {
        metric_add(METRIC_FRAMES_PUBLISHED_TOTAL, 1);
        metric_add(METRIC_RECORDS_PUBLISHED_TOTAL, records);
        metric_add(METRIC_FRAME_BYTES_PUBLISHED_TOTAL, message->len);
    } else {
        metric_add(METRIC_FRAMES_FAILED_TOTAL, may);
        metric_add(METRIC_RECORDS_UNSENT_TOTAL, records);
    }
    return taken;
}

/* Builds a message of the records before `end`. Returns how many. */
static uint64_t
build(struct buf *message, const struct frame *frame, const struct feed_record *records,
      const struct feed_record *end)
{
    uint64_t count = 0;
    buf_clear(message);
    frame_write(message, frame);
    for (; records != end; records = records->next, count++)
        frame_add(message, records->number, (struct slice){ records->bytes, records->len });
    return count;
}

/* A frame with the records before `end`; none: a heartbeat. */
static void
send_frame(struct publishing *publishing, struct frame *frame, const struct feed_record *records,
           const struct feed_record *end)
{
    struct fanout *fanout = publishing->fanout;
    snprintf(frame->node, sizeof(frame->node), "%s", fanout->node->id);
    frame->serial = ++publishing->serial;
    frame->in_doubt = node_is_in_doubt(fanout->node);
    frame->who = atomic_exchange(&fanout->ask, false);
    frame->sent_at = sent_at(fanout->node);
    uint64_t count = build(&fanout->message, frame, records, end);
    if (publish(publishing, count))
        publishing->told_doubt = frame->in_doubt;
    else if (frame->who)
        atomic_store(&fanout->ask, true); /* with the next one */
    publishing->due.us = mono_now().us + FANOUT_HEARTBEAT_US;
}

/* --- records ------------------------------------------------------------------------------ */

static void
put_records(struct feed_record *records)
{
    while (records != NULL) {
        struct feed_record *next = records->next;
        feed_record_put(records);
        records = next;
    }
}

/* A frame for each incarnation: where this node had to join anew there are two. */
static void
send_records(struct publishing *publishing, struct feed_record *records)
{
    for (const struct feed_record *first = records, *end; first != NULL; first = end) {
        struct frame frame = { .incarnation = first->incarnation };
        for (end = first; end != NULL && end->incarnation == first->incarnation; end = end->next)
            frame.last = end->number;
        send_frame(publishing, &frame, first, end);
    }
}

static void
heartbeat(struct publishing *publishing, uint64_t last, bool farewell)
{
    struct fanout *fanout = publishing->fanout;
    lock_take(&fanout->lock);
    struct frame frame = { .incarnation = fanout->peers.incarnation,
                           .last = last,
                           .farewell = farewell };
    lock_drop(&fanout->lock);
    send_frame(publishing, &frame, NULL, NULL);
}

/* --- the thread ------------------------------------------------------------------------------ */

static bool
has_audience(struct fanout *fanout)
{
    lock_take(&fanout->lock);
    bool has = peers_has_audience(&fanout->peers, mono_now());
    lock_drop(&fanout->lock);
    return has;
}

/* It is time for a heartbeat, somebody asked for one, or our doubt began or ended. */
static bool
must_speak(struct publishing *publishing)
{
    struct fanout *fanout = publishing->fanout;
    return atomic_exchange(&fanout->speak, false) || mono_now().us >= publishing->due.us ||
           node_is_in_doubt(fanout->node) != publishing->told_doubt;
}

static int64_t
time_left(const struct publishing *publishing, int64_t most_us)
{
    int64_t left_us = publishing->due.us - mono_now().us;
    return left_us < 0 ? 0 : left_us < most_us ? left_us : most_us;
}

/* Nobody is there to hear: records are thrown away now and then, so that a commit wakes nobody. */
static void
speak_to_nobody(struct publishing *publishing)
{
    struct fanout *fanout = publishing->fanout;
    uint64_t last = 0;
    sleep_us(time_left(publishing, LONE_LOOK_US));
    put_records(feed_take(fanout->node->feed, SIZE_MAX, 0, &last));
    if (must_speak(publishing))
        heartbeat(publishing, last, false);
}

/* False: no record was there. */
static bool
speak_to_others(struct publishing *publishing, int64_t wait_us)
{
    struct fanout *fanout = publishing->fanout;
    uint64_t last = 0;
    struct feed_record *records = feed_take(fanout->node->feed, FRAME_TAKE_BYTES, wait_us, &last);
    if (records != NULL)
        send_records(publishing, records);
    else if (must_speak(publishing))
        heartbeat(publishing, last, false);
    put_records(records);
    return records != NULL;
}

/* All was told, and nothing will follow. */
static void
say_farewell(struct publishing *publishing)
{
    struct fanout *fanout = publishing->fanout;
    uint64_t last = 0;
    while (speak_to_others(publishing, 0)) {
    }
    struct feed_record *late = feed_take(fanout->node->feed, FRAME_TAKE_BYTES, 0, &last);
    if (late == NULL)
        heartbeat(publishing, last, true);
    put_records(late);
}

/* What was committed in one database is no news in another one: the gap says that it is missing. */
static void
go_to(struct publishing *publishing, const char *channel)
{
    uint64_t last;
    if (strcmp(publishing->channel, channel) == 0)
        return;
    if (publishing->channel[0] != '\0')
        put_records(feed_take(publishing->fanout->node->feed, SIZE_MAX, 0, &last));
    snprintf(publishing->channel, sizeof(publishing->channel), "%s", channel);
}

/* It is known from the first read of the table on, and another one where another database answers.
 * False: this is the end. */
static bool
await_channel(struct publishing *publishing)
{
    struct fanout *fanout = publishing->fanout;
    char channel[FANOUT_CHANNEL_BYTES];
    while (!atomic_load(&fanout->stopping)) {
        if (fanout_channel(fanout, channel)) {
            go_to(publishing, channel);
            return true;
        }
        sleep_us(NO_CHANNEL_US);
    }
    return false;
}

void *
publisher_main(void *context)
{
    struct fanout *fanout = context;
    struct publishing publishing = { .fanout = fanout };
    while (await_channel(&publishing)) {
        if (has_audience(fanout))
            (void)speak_to_others(&publishing, time_left(&publishing, FANOUT_HEARTBEAT_US));
        else
            speak_to_nobody(&publishing);
    }
    if (atomic_load(&fanout->farewell) && publishing.channel[0] != '\0')
        say_farewell(&publishing);
    return NULL;
}
