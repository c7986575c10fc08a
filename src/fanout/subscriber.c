/*
 * subscriber.c - the thread that hears frames.
 *
 * A frame is as old as the database's clock says, errors of both sides added: what it tells was
 * true when it was sent, and so far its sender is known to have been heard. Frames that Redis kept
 * for a while, or whose age is not known, are taken in, but prove nothing about now.
 */
#include "fanout_internal.h"

#include <string.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"

#define LISTEN_US (20 * TIME_US_PER_MS) /* silence is noticed at the end of it */

/* --- a frame -------------------------------------------------------------------------------- */

/* When it was sent at the earliest, by this machine's clock. */
static struct mono_time
time_of_sending(const struct node *node, const struct frame *frame, struct mono_time now)
{
    struct db_time db_now;
    int64_t error_us;
    if (frame->sent_at.us == 0 || !db_clock_read(node->clock, now, &db_now, &error_us))
        return (struct mono_time){ NEVER_US };
    int64_t age_us = db_now.us + error_us - frame->sent_at.us;
    return (struct mono_time){ now.us - (age_us > 0 ? age_us : 0) };
}

static void
take_in_records(struct fanout *fanout, struct frame frame, struct mono_time began)
{
    struct feed *feed = fanout->node->feed;
    struct frame_record record;
    uint64_t count = 0;
    for (; frame_next(&frame, &record); count++)
        if (feed_hear(feed, frame.incarnation, record.number, record.bytes, began) == FEED_GARBLED)
            peers_garbled(&fanout->peers, frame.incarnation);
    (void)feed_hear_last(feed, frame.incarnation, frame.last); /* gaps: peers.c has seen them */
    if (frame.farewell)
        feed_part(feed, frame.incarnation);
    metric_add(METRIC_RECORDS_HEARD_TOTAL, count);
}

static void
take_in(struct fanout *fanout, const struct frame *frame, struct mono_time now)
{
    struct mono_time sent_at = time_of_sending(fanout->node, frame, now);
    enum peers_hearing hearing = PEERS_OLD;
    lock_take(&fanout->lock);
    if (strcmp(fanout->channel, fanout->listens_to) == 0) /* else it is about another database */
        hearing = peers_hear(&fanout->peers, frame, sent_at, now);
    if (hearing == PEERS_HEARD)
        take_in_records(fanout, *frame, sent_at);
    fanout_judge_and_drop(fanout, now);
    if (hearing == PEERS_HEARD && frame->who)
        fanout_speak(fanout, false);
}

static void
hear(struct fanout *fanout, struct slice message)
{
    struct mono_time now = mono_now();
    struct frame frame;
    if (frame_read(message, &frame)) {
        take_in(fanout, &frame, now);
        metric_add(METRIC_FRAMES_HEARD_TOTAL, 1);
        metric_add(METRIC_FRAME_BYTES_HEARD_TOTAL, message.len);
    } else {
        metric_add(METRIC_FRAMES_GARBLED_TOTAL, 1);
        LOG_EVENT(LOG_DEBUG, "frame_garbled", log_int("bytes", (int64_t)message.len));
    }
}

/* --- the subscription ---------------------------------------------------------------- */

static void
subscription_changed(struct fanout *fanout, bool stands)
{
    lock_take(&fanout->lock);
    if (stands)
        peers_joined(&fanout->peers);
    else
        peers_deaf(&fanout->peers);
    fanout_judge_and_drop(fanout, mono_now());
    if (stands)
        fanout_speak(fanout, true); /* what others said meanwhile was missed */
}

/* A listener to the channel of the database that answers now. False: none yet. */
static bool
has_listener(struct fanout *fanout)
{
    char channel[FANOUT_CHANNEL_BYTES];
    if (!fanout_channel(fanout, channel))
        return false;
    if (strcmp(channel, fanout->listens_to) != 0) {
        warm_listener_free(&fanout->listener);
        memcpy(fanout->listens_to, channel, sizeof(channel));
    }
    if (fanout->listener == NULL)
        fanout->listener = warm_listener_new(fanout->node->config, fanout->node->tier, channel);
    return fanout->listener != NULL;
}

static void
listen_a_while(struct fanout *fanout)
{
    struct slice message;
    switch (warm_listen(fanout->listener, LISTEN_US, &message)) {
    case WARM_MESSAGE:
        hear(fanout, message);
        return;
    case WARM_NOTHING:
        fanout_judge(fanout);
        return;
    case WARM_JOINED:
        subscription_changed(fanout, true);
        return;
    case WARM_DEAF:
        subscription_changed(fanout, false);
        return;
    }
}

void *
subscriber_main(void *context)
{
    struct fanout *fanout = context;
    while (!atomic_load(&fanout->stopping)) {
        if (has_listener(fanout))
            listen_a_while(fanout);
        else
            sleep_us(LISTEN_US);
    }
    return NULL;
}
