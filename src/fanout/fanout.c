/*
 * fanout.c - start, stop, trust, and what others ask.
 *
 * peers.c says whether this node is trusted; here it is made true in hot table, seat maps and what
 * is known about events: on becoming trusted, and whenever something was missed, they are void
 * before anybody may rest on them.
 */
#include "fanout_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/events.h"
#include "holdfast/hot_table.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "holdfast/seat_map.h"

#define STACK_BYTES   (512 * 1024)
#define AWAIT_LOOK_US (2 * TIME_US_PER_MS)

/* --- trust --------------------------------------------------------------------------------- */

static void
void_memory(struct node *node)
{
    hot_table_distrust(node->hot);
    seat_maps_distrust(node->maps);
    events_forget(node->events);
}

static void
trust_or_not(struct fanout *fanout, bool trusted)
{
    struct node *node = fanout->node;
    if (trusted) {
        void_memory(node);
        feed_break(node->feed); /* what was done meanwhile may be in no record */
    }
    hot_table_set_trusted(node->hot, trusted);
    seat_maps_set_trusted(node->maps, trusted);
    atomic_store(&fanout->trusted, trusted);
    metric_set(METRIC_TRUSTED, trusted);
    metric_add(trusted ? METRIC_TRUST_GAINED_TOTAL : METRIC_TRUST_LOST_TOTAL, 1);
}

static void
make_true_locked(struct fanout *fanout, const struct peers_verdict *verdict)
{
    atomic_store(&fanout->alone, verdict->alone);
    if (verdict->changed)
        trust_or_not(fanout, verdict->trusted);
    if (verdict->missed) {
        void_memory(fanout->node);
        feed_break(fanout->node->feed); /* as above */
        metric_add(METRIC_DISTRUSTS_TOTAL, 1);
    }
    /* Last: what was missed while everybody stood still is void by now. */
    hot_table_trust_until(fanout->node->hot, verdict->until);
    seat_maps_trust_until(fanout->node->maps, verdict->until);
    for (int i = 0; i < verdict->lost_count; i++)
        feed_lose(fanout->node->feed, verdict->lost[i]);
}

static void
say(const struct peers_verdict *verdict, int64_t incarnation)
{
    if (verdict->changed)
        LOG_EVENT(LOG_INFO, verdict->trusted ? "trusted" : "not_trusted",
                  log_int("incarnation", incarnation));
    for (int i = 0; i < verdict->lost_count; i++)
        LOG_EVENT(LOG_WARN, "peer_lost", log_int("incarnation", verdict->lost[i]));
}

void
fanout_judge_and_drop(struct fanout *fanout, struct mono_time now)
{
    struct peers_verdict verdict;
    lock_assert_held(&fanout->lock);
    peers_judge(&fanout->peers, node_is_in_doubt(fanout->node), now, &verdict);
    make_true_locked(fanout, &verdict);
    int64_t incarnation = fanout->peers.incarnation;
    lock_drop(&fanout->lock);
    say(&verdict, incarnation); /* whoever reads the log may be slow */
}

void
fanout_judge(struct fanout *fanout)
{
    lock_take(&fanout->lock);
    fanout_judge_and_drop(fanout, mono_now());
}

bool
fanout_is_trusted(struct fanout *fanout)
{
    return atomic_load_explicit(&fanout->trusted, memory_order_relaxed);
}

bool
fanout_is_alone(struct fanout *fanout)
{
    return atomic_load_explicit(&fanout->alone, memory_order_relaxed);
}

bool
fanout_await_trust(struct fanout *fanout, int64_t us)
{
    struct mono_time end = { mono_now().us + us };
    while (!fanout_is_trusted(fanout) && mono_now().us < end.us)
        sleep_us(AWAIT_LOOK_US);
    return fanout_is_trusted(fanout);
}

/* --- the table of nodes ----------------------------------------------------------------------- */

/* The channel is the database's. True: it is another one than before. */
static bool
name_channel_locked(struct fanout *fanout, const struct fanout_table *table)
{
    char name[FANOUT_CHANNEL_BYTES];
    snprintf(name, sizeof(name), "holdfast:feed:%" PRIu64 ":%" PRIu64 ":%" PRIu64,
             (uint64_t)table->system, (uint64_t)table->timeline, (uint64_t)table->database);
    if (strcmp(name, fanout->channel) == 0)
        return false;
    memcpy(fanout->channel, name, sizeof(name));
    peers_deaf(&fanout->peers); /* what was heard elsewhere proves nothing here */
    return true;
}

void
fanout_know_nodes(struct fanout *fanout, const struct fanout_table *table)
{
    lock_take(&fanout->lock);
    if (table->began.us < fanout->another_at.us) { /* it was read from the one before */
        lock_drop(&fanout->lock);
        return;
    }
    bool another = name_channel_locked(fanout, table);
    peers_know_table(&fanout->peers, table);
    fanout_judge_and_drop(fanout, mono_now());
    if (another)
        fanout_speak(fanout, true);
}

void
fanout_another_postgres(struct fanout *fanout)
{
    lock_take(&fanout->lock);
    fanout->another_at = mono_now();
    fanout->channel[0] = '\0';
    peers_deaf(&fanout->peers);
    peers_table_is_unreadable(&fanout->peers);
    fanout_judge_and_drop(fanout, fanout->another_at);
}

void
fanout_table_unreadable(struct fanout *fanout)
{
    lock_take(&fanout->lock);
    peers_table_is_unreadable(&fanout->peers);
    fanout_judge_and_drop(fanout, mono_now());
}

bool
fanout_channel(struct fanout *fanout, char channel[FANOUT_CHANNEL_BYTES])
{
    lock_take(&fanout->lock);
    snprintf(channel, FANOUT_CHANNEL_BYTES, "%s", fanout->channel);
    lock_drop(&fanout->lock);
    return channel[0] != '\0';
}

void
fanout_speak(struct fanout *fanout, bool ask)
{
    if (ask)
        atomic_store(&fanout->ask, true);
    atomic_store(&fanout->speak, true);
    feed_wake(fanout->node->feed);
}

/* --- what is told about peers ----------------------------------------------------------------- */

static int
compare_peers(const void *a, const void *b)
{
    const struct peer *left = a, *right = b;
    if (left->in_table != right->in_table)
        return left->in_table ? -1 : 1;
    return (left->incarnation > right->incarnation) - (left->incarnation < right->incarnation);
}

static struct fanout_peer
tell_peer(const struct peer *peer, struct mono_time now)
{
    struct fanout_peer told = { .incarnation = peer->incarnation,
                                .number = peer->number,
                                .lag_us = peer->lag_us,
                                .silent_us = -1,
                                .gaps = peer->gaps,
                                .heard = peer_is_whole(peer, now) };
    snprintf(told.id, sizeof(told.id), "%s", peer->id);
    if (peer->heard_at.us != NEVER_US)
        told.silent_us = now.us - peer->heard_at.us;
    return told;
}

int
fanout_peers(struct fanout *fanout, struct fanout_peer *peers, int max)
{
    struct mono_time now = mono_now();
    int count = 0;
    lock_take(&fanout->lock);
    struct peers copy = fanout->peers;
    lock_drop(&fanout->lock);
    qsort(copy.peer, (size_t)copy.count, sizeof(copy.peer[0]), compare_peers);
    for (int i = 0; i < copy.count && count < max; i++)
        if (!copy.peer[i].parted)
            peers[count++] = tell_peer(&copy.peer[i], now);
    return count;
}

/* --- start and stop ------------------------------------------------------------------ */

static void
fanout_free(struct fanout *fanout)
{
    warm_listener_free(&fanout->listener);
    if (fanout->warm != NULL)
        warm_free(&fanout->warm);
    buf_fini(&fanout->message);
    lock_fini(&fanout->lock);
    free(fanout);
}

struct fanout *
fanout_start(struct node *node, int64_t incarnation, char *error, size_t error_bytes)
{
    struct fanout *fanout = calloc(1, sizeof(*fanout));
    if (fanout == NULL) {
        snprintf(error, error_bytes, "no memory for the fan-out");
        return NULL;
    }
    fanout->node = node;
    lock_init(&fanout->lock, LOCK_NODES);
    peers_init(&fanout->peers, node->id, incarnation);
    fanout->warm = warm_new(node->config, node->tier);
    if (fanout->warm == NULL ||
        !thread_start(&fanout->publisher, STACK_BYTES, publisher_main, fanout) ||
        !thread_start(&fanout->subscriber, STACK_BYTES, subscriber_main, fanout)) {
        snprintf(error, error_bytes, "no memory or thread for the fan-out");
        fanout_stop(&fanout, false);
    }
    return fanout;
}

/* The publisher ends first: what it says last the subscriber need not hear. */
void
fanout_stop(struct fanout **fanout, bool clean)
{
    struct fanout *self = *fanout;
    if (self == NULL)
        return;
    atomic_store(&self->farewell, clean);
    atomic_store(&self->stopping, true);
    feed_wake(self->node->feed);
    thread_join(&self->publisher);
    thread_join(&self->subscriber);
    fanout_free(self);
    *fanout = NULL;
}
