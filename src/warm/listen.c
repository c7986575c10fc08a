/*
 * listen.c - the subscription: one channel, over a connection of its own.
 *
 * Its failures say nothing about Redis' health to others (whose clients somebody kills, say), so
 * they are not told to the breaker: it has a backoff of its own. A subscription that stands is a
 * sign of life, though: then the breaker needn't wait half a minute to find out by itself. hiredis
 * only keeps the bytes: each wait is a poll of ours. Who hears nothing for a while asks (PING is
 * allowed beside SUBSCRIBE), and gives the connection up when no reply comes.
 */
#include "warm_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/log.h"
#include "holdfast/thread.h"

#define QUIET_US       (300 * TIME_US_PER_MS) /* then it is asked whether it lives */
#define BACKOFF_MIN_US (10 * TIME_US_PER_MS)
#define BACKOFF_MAX_US (1 * (int64_t)TIME_US_PER_S)

struct warm_listener {
    /* fixed after warm_listener_new */
    bool on;
    struct warm_tier *tier;
    struct slice channel; /* memory of its own */

    struct warm_link link;     /* without a tier */
    redisReply *reply;         /* that of the last message; the caller reads it */
    struct mono_time heard_at; /* when anything last came over this connection */
    struct mono_time asked_at; /* a PING is out; 0: none */
    struct mono_time retry_at; /* not connected: no try before */
    int64_t backoff_us;        /* the next pause; it begins anew when something was heard */
    bool told;                 /* the log knows that there is no subscription */
};

struct warm_listener *
warm_listener_new(const struct config *config, struct warm_tier *tier, const char *channel)
{
    struct warm_listener *listener = calloc(1, sizeof(*listener));
    char *copy = strdup(channel);
    if (listener == NULL || copy == NULL) {
        free(listener);
        free(copy);
        return NULL;
    }
    listener->channel = slice_of(copy);
    listener->backoff_us = BACKOFF_MIN_US;
    listener->tier = tier;
    listener->on = warm_tier_is_on(tier);
    if (listener->on)
        warm_link_init(&listener->link, config, NULL);
    return listener;
}

static void
drop_reply(struct warm_listener *listener)
{
    if (listener->reply != NULL)
        freeReplyObject(listener->reply);
    listener->reply = NULL;
}

void
warm_listener_free(struct warm_listener **listener)
{
    if (*listener == NULL)
        return;
    drop_reply(*listener);
    warm_link_close(&(*listener)->link);
    free((char *)(*listener)->channel.ptr);
    free(*listener);
    *listener = NULL;
}

/* --- the subscription's end and beginning ------------------------------------------------ */

static enum warm_heard
lost(struct warm_listener *listener, const char *why)
{
    if (!listener->told)
        LOG_EVENT(LOG_WARN, "subscription_lost", log_text("error", why));
    listener->told = true;
    warm_link_close(&listener->link);
    listener->retry_at.us = mono_now().us + listener->backoff_us;
    listener->backoff_us *= 2;
    if (listener->backoff_us > BACKOFF_MAX_US)
        listener->backoff_us = BACKOFF_MAX_US;
    return WARM_DEAF;
}

static bool
send_words(struct warm_listener *listener, int words, const char *name, struct slice word)
{
    struct buf command = { 0 };
    warm_command(&command, words, name);
    if (words == 2)
        warm_word(&command, word);
    bool sent = !command.failed && warm_link_queue(&listener->link, buf_slice(&command)) &&
                warm_link_push(&listener->link);
    buf_fini(&command);
    return sent;
}

/* An array of Redis whose first word is `kind`: what comes over a subscription. */
static bool
is_kind(const redisReply *reply, const char *kind, size_t elements)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == elements &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           slice_is((struct slice){ reply->element[0]->str, reply->element[0]->len }, kind);
}

/* Redis confirms a subscription before the first message of it. */
static bool
subscribe(struct warm_listener *listener)
{
    struct warm_link *link = &listener->link;
    struct mono_time deadline = warm_link_deadline(link);
    if (!link->usable || !warm_link_greet(link, deadline) ||
        !send_words(listener, 2, "SUBSCRIBE", listener->channel))
        return false;
    redisReply *reply = warm_link_reply(link, deadline);
    bool stands = reply != NULL && is_kind(reply, "subscribe", 3);
    if (reply != NULL)
        freeReplyObject(reply);
    return stands;
}

static enum warm_heard
join(struct warm_listener *listener)
{
    if (!subscribe(listener))
        return lost(listener, listener->link.trouble);
    LOG_EVENT(LOG_INFO, "subscribed", log_slice("channel", listener->channel));
    listener->told = false;
    listener->heard_at = mono_now();
    listener->asked_at.us = 0;
    breaker_may_be_back(warm_tier_breaker(listener->tier), listener->heard_at);
    return WARM_JOINED;
}

/* --- listening ---------------------------------------------------------------------------- */

static int
ms_until(struct mono_time deadline)
{
    int64_t left_us = deadline.us - mono_now().us;
    return left_us > 0 ? (int)((left_us + TIME_US_PER_MS - 1) / TIME_US_PER_MS) : 0;
}

/* When this connection is asked whether it lives, or given up if it was. */
static struct mono_time
patience_ends(const struct warm_listener *listener)
{
    const struct timeval *timeout = &listener->link.timeout;
    if (listener->asked_at.us == 0)
        return (struct mono_time){ listener->heard_at.us + QUIET_US };
    return (struct mono_time){ listener->asked_at.us + timeout->tv_sec * INT64_C(1000000) +
                               timeout->tv_usec };
}

/* True: there are bytes to be read, or the end of them. */
static bool
wait_readable(struct warm_listener *listener, struct mono_time until)
{
    struct mono_time patience = patience_ends(listener);
    struct pollfd fd = { .fd = listener->link.context->fd, .events = POLLIN };
    return poll(&fd, 1, ms_until(patience.us < until.us ? patience : until)) > 0;
}

/* Nothing came: it may be time to ask, or to give up. False: it is lost. */
static bool
bear_silence(struct warm_listener *listener)
{
    struct mono_time now = mono_now();
    if (now.us < patience_ends(listener).us)
        return true;
    if (listener->asked_at.us != 0)
        return false;
    listener->asked_at = now;
    return send_words(listener, 1, "PING", SLICE_EMPTY);
}

/* The next reply that has come whole; *reply NULL: none. False: what came is no protocol. */
static bool
next_reply(struct warm_listener *listener, redisReply **reply)
{
    void *next = NULL;
    if (redisGetReplyFromReader(listener->link.context, &next) != REDIS_OK)
        return false;
    *reply = next;
    return true;
}

static bool
is_strange(const redisReply *reply)
{
    return !is_kind(reply, "message", 3) && !is_kind(reply, "pong", 2);
}

/* Takes what has come until there is a message. *message empty: none yet. False: it is lost. */
static bool
take_message(struct warm_listener *listener, bool *found, struct slice *message)
{
    redisReply *reply;
    *found = false;
    while (!*found) {
        if (!next_reply(listener, &reply))
            return false;
        if (reply == NULL)
            return true;
        listener->reply = reply;
        if (is_strange(reply))
            return false;
        *found = is_kind(reply, "message", 3) && reply->element[2]->type == REDIS_REPLY_STRING;
        if (*found)
            *message = (struct slice){ reply->element[2]->str, reply->element[2]->len };
        else
            drop_reply(listener);
    }
    return true;
}

static bool
read_bytes(struct warm_listener *listener)
{
    if (redisBufferRead(listener->link.context) != REDIS_OK)
        return false;
    listener->heard_at = mono_now();
    listener->asked_at.us = 0;
    listener->backoff_us = BACKOFF_MIN_US;
    return true;
}

static enum warm_heard
listen_until(struct warm_listener *listener, struct mono_time until, struct slice *message)
{
    bool found = false;
    for (;;) {
        if (!take_message(listener, &found, message))
            return lost(listener, "what came is no message");
        if (found)
            return WARM_MESSAGE;
        if (wait_readable(listener, until)) {
            if (!read_bytes(listener))
                return lost(listener, listener->link.context->errstr);
        } else if (!bear_silence(listener)) {
            return lost(listener, "it says nothing");
        } else if (mono_now().us >= until.us) {
            return WARM_NOTHING;
        }
    }
}

static void
sleep_until(struct mono_time until)
{
    int64_t left_us = until.us - mono_now().us;
    if (left_us > 0)
        sleep_us(left_us);
}

enum warm_heard
warm_listen(struct warm_listener *listener, int64_t wait_us, struct slice *message)
{
    struct mono_time until = { mono_now().us + wait_us };
    drop_reply(listener);
    if (listener->link.context != NULL)
        return listen_until(listener, until, message);
    if (!listener->on || until.us < listener->retry_at.us) {
        sleep_until(until);
        return WARM_DEAF;
    }
    sleep_until(listener->retry_at);
    return join(listener);
}
