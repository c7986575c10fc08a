/*
 * fake_pubsub.c - the publish and subscribe of warm.h between the nodes: it loses, delays, repeats
 * and reorders, and its connections break.
 *
 * A message goes to every subscription that stands, each copy on its own way. What is under way
 * when a subscription breaks is lost. Broken loudly, its owner knows soon; silently, only when no
 * reply to a PING came. Between two copies to one subscription the order is kept, unless chance has
 * one overtake.
 */
#include "fake_warm.h"

#include <stdio.h>
#include <stdlib.h>

#include "faults.h"
#include "sim.h"

#define NEVER           INT64_MAX
#define RESET_SEEN_US   (5 * MS)
#define PING_NOTICES_US (500 * MS) /* at most: warm.h */
#define BACKOFF_MIN_US  (10 * MS)
#define BACKOFF_MAX_US  (1 * S)
#define CHANNEL_BYTES   100

struct letter {
    struct letter *next;
    int64_t arrives_us;
    size_t len;
    char bytes[];
};

struct warm_listener {
    struct warm_listener *next; /* of all */
    int group;
    char channel[CHANNEL_BYTES];
    struct warm_tier *tier; /* NULL: there is no Redis */
    bool joined;
    int64_t noticed_us; /* when it finds out that its connection is broken; NEVER: it is whole */
    bool broken;        /* nothing is sent to it any more */
    struct letter *letters; /* by the time of their arrival */
    int64_t last_us;        /* of those that keep their order */
    int64_t try_at_us, backoff_us;
    struct letter *heard; /* the one that its owner looks at */
};

static struct warm_listener *listeners;

/* --- on the way ------------------------------------------------------------ */

static void
letters_free(struct warm_listener *listener)
{
    while (listener->letters != NULL) {
        struct letter *letter = listener->letters;
        listener->letters = letter->next;
        free(letter);
    }
    listener->last_us = 0;
}

static void
send_copy(struct warm_listener *listener, struct slice message)
{
    struct letter *letter = malloc(sizeof(*letter) + message.len);
    struct letter **link = &listener->letters;

    hf_assert(letter != NULL);
    letter->len = message.len;
    memcpy(letter->bytes, message.ptr, message.len);
    letter->arrives_us =
        sim_now_us() + chance_delay(faults.message_us / 4 + 1, faults.message_us + 1);
    if (!chance_one_in(faults.message_overtaken_one_in)) {
        if (letter->arrives_us < listener->last_us)
            letter->arrives_us = listener->last_us;
        listener->last_us = letter->arrives_us;
    }
    while (*link != NULL && (*link)->arrives_us <= letter->arrives_us)
        link = &(*link)->next;
    letter->next = *link;
    *link = letter;
    fiber_wake_all(&listener->letters);
}

void
pubsub_send(struct slice channel, struct slice message)
{
    for (struct warm_listener *listener = listeners; listener != NULL; listener = listener->next) {
        if (!listener->joined || listener->broken || !slice_is(channel, listener->channel) ||
            chance_one_in(faults.message_lost_one_in))
            continue;
        send_copy(listener, message);
        if (chance_one_in(faults.message_twice_one_in))
            send_copy(listener, message);
    }
}

/* --- subscriptions that break ----------------------------------------------- */

static void
listener_break(struct warm_listener *listener, bool silently)
{
    int64_t after_us = silently ? chance_between(PING_NOTICES_US / 2, PING_NOTICES_US)
                                : chance_below(RESET_SEEN_US);

    if (!listener->joined || listener->broken)
        return;
    listener->broken = true;
    listener->noticed_us = sim_now_us() + after_us;
    letters_free(listener);
    fiber_wake_all(&listener->letters);
}

void
pubsub_break(int machine, bool silently)
{
    for (struct warm_listener *listener = listeners; listener != NULL; listener = listener->next)
        if (machine == NOWHERE || machine_of(listener->group) == machine)
            listener_break(listener, silently);
}

static void
listener_unlink(struct warm_listener *listener)
{
    struct warm_listener **link = &listeners;

    while (*link != listener)
        link = &(*link)->next;
    *link = listener->next;
}

void
pubsub_forget_group(int group)
{
    for (struct warm_listener *listener = listeners, *next; listener != NULL; listener = next) {
        next = listener->next;
        if (listener->group == group)
            listener_unlink(listener);
    }
}

/* --- warm.h ------------------------------------------------------------------ */

struct warm_listener *
warm_listener_new(const struct config *config, struct warm_tier *tier, const char *channel)
{
    struct warm_listener *listener = calloc(1, sizeof(*listener));

    (void)config;
    hf_assert(listener != NULL && channel[0] != '\0' && strlen(channel) < CHANNEL_BYTES);
    snprintf(listener->channel, sizeof(listener->channel), "%s", channel);
    listener->tier = tier;
    listener->group = fiber_group();
    listener->noticed_us = NEVER;
    listener->next = listeners;
    listeners = listener;
    return listener;
}

void
warm_listener_free(struct warm_listener **listener)
{
    if (*listener == NULL)
        return;
    listener_unlink(*listener);
    letters_free(*listener);
    free((*listener)->heard);
    free(*listener);
    *listener = NULL;
}

static int64_t
earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static enum warm_heard
join(struct warm_listener *listener, int64_t end_us)
{
    if (listener->tier == NULL)
        listener->try_at_us = NEVER;
    if (sim_now_us() < listener->try_at_us)
        fiber_sleep(earlier(end_us, listener->try_at_us) - sim_now_us());
    if (sim_now_us() < listener->try_at_us)
        return WARM_DEAF;
    fiber_sleep(chance_delay(faults.redis_trip_us / 4, faults.redis_trip_us));
    if (!redis_is_reached()) {
        listener->backoff_us =
            listener->backoff_us == 0 ? BACKOFF_MIN_US : listener->backoff_us * 2;
        listener->backoff_us = earlier(listener->backoff_us, BACKOFF_MAX_US);
        listener->try_at_us = sim_now_us() + listener->backoff_us;
        return WARM_DEAF;
    }
    listener->joined = true;
    listener->broken = false;
    listener->noticed_us = NEVER;
    listener->backoff_us = 0;
    breaker_may_be_back(warm_tier_breaker(listener->tier), mono_now());
    trace("n%d: subscribed", machine_here() + 1);
    return WARM_JOINED;
}

/* What has come by now; WARM_NOTHING: not yet. */
static enum warm_heard
look(struct warm_listener *listener, struct slice *message)
{
    struct letter *letter = listener->letters;

    if (sim_now_us() >= listener->noticed_us) {
        listener->joined = false;
        trace("n%d: its subscription is lost", machine_here() + 1);
        return WARM_DEAF;
    }
    if (letter == NULL || letter->arrives_us > sim_now_us())
        return WARM_NOTHING;
    listener->letters = letter->next;
    free(listener->heard);
    listener->heard = letter;
    *message = (struct slice){ letter->bytes, letter->len };
    return WARM_MESSAGE;
}

enum warm_heard
warm_listen(struct warm_listener *listener, int64_t wait_us, struct slice *message)
{
    int64_t end_us = sim_now_us() + wait_us;
    enum warm_heard heard;

    if (!listener->joined)
        return join(listener, end_us);
    while ((heard = look(listener, message)) == WARM_NOTHING && sim_now_us() < end_us) {
        int64_t next_us = earlier(end_us, listener->noticed_us);
        if (listener->letters != NULL)
            next_us = earlier(next_us, listener->letters->arrives_us);
        fiber_wait(&listener->letters, next_us);
    }
    return heard;
}
