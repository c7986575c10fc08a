/*
 * peers.c - who is heard, and whether anything can have been missed.
 *
 * Plain state: each function takes in what was seen, peers_judge decides. A peer is an incarnation:
 * of the table, or one that speaks. It is FOLLOWED from the first frame on that is heard of it, up
 * to the number that it said last; a number that is skipped was missed. Who falls silent, or whose
 * name has a newer incarnation, is not followed any more, and what it did last may never have been
 * told.
 *
 * Who speaks and is not in the table (a newcomer, or one whose row was dropped while it stood
 * still) commits as well: it has to be heard like the others, until it falls silent.
 */
#include "fanout_internal.h"

#include <stdio.h>
#include <string.h>

/* So long after its last word somebody listens. */
#define AUDIENCE_US (10 * (int64_t)TIME_US_PER_S)

static const struct mono_time never = { NEVER_US };

static bool
is_recent(struct mono_time at, struct mono_time now)
{
    return now.us - at.us < FANOUT_SILENCE_US;
}

void
peers_init(struct peers *peers, const char *id, int64_t incarnation)
{
    *peers = (struct peers){ .incarnation = incarnation };
    snprintf(peers->id, sizeof(peers->id), "%s", id);
    peers->own_at = peers->foreign_at = peers->strange_at = never;
}

/* --- the list -------------------------------------------------------------------------- */

static struct peer *
find_peer(struct peers *peers, int64_t incarnation)
{
    for (int i = 0; i < peers->count; i++)
        if (peers->peer[i].incarnation == incarnation)
            return &peers->peer[i];
    return NULL;
}

static void
remove_at(struct peers *peers, int i)
{
    peers->peer[i] = peers->peer[--peers->count];
}

/* Room for one more: who said farewell is remembered only for as long as nobody needs the place. */
static bool
make_room(struct peers *peers)
{
    for (int i = 0; peers->count == PEERS_MAX && i < peers->count; i++)
        if (peers->peer[i].parted)
            remove_at(peers, i);
    return peers->count < PEERS_MAX;
}

/* NULL: there are too many. */
static struct peer *
add_peer(struct peers *peers, const char *id, int64_t incarnation)
{
    if (!make_room(peers))
        return NULL;
    struct peer *peer = &peers->peer[peers->count++];
    *peer = (struct peer){ .incarnation = incarnation, .lag_us = -1 };
    snprintf(peer->id, sizeof(peer->id), "%s", id);
    peer->fresh_at = peer->heard_at = never;
    return peer;
}

/* --- the table --------------------------------------------------------------------------- */

/* Each change of its life is known, from its first on. */
static bool
is_accounted_for(struct peers *peers, int64_t incarnation)
{
    const struct peer *peer = find_peer(peers, incarnation);
    return incarnation == peers->incarnation || (peer != NULL && peer->followed && peer->all_life);
}

/* Incarnations were drawn since we looked last. Who of them wasn't heard may have been here,
 * changed something, and gone. */
static void
look_at_newcomers(struct peers *peers, int64_t newest)
{
    int64_t known = peers->newest;
    peers->newest = newest;
    if (known == 0 || newest == known)
        return;
    /* It went back where another database answers. */
    bool all = newest > known && newest - known <= PEERS_MAX;
    for (int64_t drawn = known + 1; all && drawn <= newest; drawn++)
        all = is_accounted_for(peers, drawn);
    peers->missed = peers->missed || !all;
}

static void
mark_those_in_table(struct peers *peers, const struct fanout_table *table)
{
    for (int i = 0; i < peers->count; i++)
        peers->peer[i].in_table = false;
    for (int i = 0; i < table->count; i++) {
        const struct fanout_node *node = &table->others[i];
        struct peer *peer = find_peer(peers, node->incarnation);
        if (peer == NULL)
            peer = add_peer(peers, node->id, node->incarnation);
        if (peer != NULL)
            peer->in_table = true;
        else
            peers->too_many = true;
    }
}

/* Those that are neither in the table nor followed. Who said farewell is kept until `newest` has
 * shown it: till then it accounts for its incarnation. */
static void
forget_the_gone(struct peers *peers)
{
    for (int i = peers->count - 1; i >= 0; i--) {
        const struct peer *peer = &peers->peer[i];
        bool is_over = peer->parted ? peer->incarnation <= peers->newest : !peer->followed;
        if (!peer->in_table && is_over)
            remove_at(peers, i);
    }
}

void
peers_know_table(struct peers *peers, const struct fanout_table *table)
{
    if (table->incarnation != peers->incarnation) {
        peers->former = peers->incarnation;
        peers->incarnation = table->incarnation;
        peers->own_at = never;
    }
    peers->table_is_known = true;
    peers->table_at = table->began;
    peers->mine = table->mine;
    peers->too_many = table->too_many;
    mark_those_in_table(peers, table);
    look_at_newcomers(peers, table->newest);
    forget_the_gone(peers);
}

void
peers_table_is_unreadable(struct peers *peers)
{
    peers->table_is_known = false;
}

/* --- the channel ---------------------------------------------------------------------------- */

static void
listen_anew(struct peers *peers, bool subscribed)
{
    peers->subscribed = subscribed;
    peers->own_at = never;
    for (int i = 0; i < peers->count; i++)
        peers->peer[i].fresh_at = never;
}

void
peers_joined(struct peers *peers)
{
    listen_anew(peers, true);
}

void
peers_deaf(struct peers *peers)
{
    listen_anew(peers, false);
}

/* What it did last was perhaps never told. */
static void
stop_following(struct peers *peers, struct peer *peer)
{
    peer->lost = true;
    peer->followed = peer->all_life = peer->in_doubt = false;
    peer->fresh_at = never;
    peers->missed = true;
}

/* Nothing is known of what it did before this frame. */
static void
begin_to_follow(struct peers *peers, struct peer *peer, struct frame frame)
{
    struct frame_record first;
    peer->number = frame_next(&frame, &first) ? first.number - 1 : frame.last;
    peer->followed = true;
    peer->parted = false;
    peer->all_life = peer->number == 0;
    peers->missed = peers->missed || !peer->all_life;
}

static void
note_gap(struct peers *peers, struct peer *peer)
{
    peer->gaps++;
    peer->all_life = false;
    peers->missed = true;
}

/* Its records, then the number that it says was the last. */
static void
follow(struct peers *peers, struct peer *peer, struct frame frame)
{
    struct frame_record record;
    uint64_t expected = peer->number + 1;
    bool gap = false;
    while (frame_next(&frame, &record)) {
        gap = gap || record.number > expected;
        expected = record.number >= expected ? record.number + 1 : expected;
    }
    if (gap || frame.last >= expected)
        note_gap(peers, peer);
    peer->number = frame.last >= expected ? frame.last : expected - 1;
}

/* A name has one living incarnation: who had it before was killed, or said farewell. */
static void
end_former_lives(struct peers *peers, const struct peer *newer)
{
    for (int i = 0; i < peers->count; i++) {
        struct peer *peer = &peers->peer[i];
        if (strcmp(peer->id, newer->id) != 0 || peer->incarnation >= newer->incarnation)
            continue;
        peer->in_table = false;
        if (peer->followed && !peer->parted)
            stop_following(peers, peer);
    }
}

static struct peer *
peer_of_frame(struct peers *peers, const struct frame *frame)
{
    struct peer *peer = find_peer(peers, frame->incarnation);
    if (peer != NULL && strcmp(peer->id, frame->node) != 0)
        return NULL;
    if (peer == NULL && (peer = add_peer(peers, frame->node, frame->incarnation)) != NULL)
        end_former_lives(peers, peer);
    return peer;
}

static enum peers_hearing
hear_own(struct peers *peers, const struct frame *frame, struct mono_time sent_at)
{
    if (frame->incarnation == peers->incarnation && sent_at.us > peers->own_at.us)
        peers->own_at = sent_at;
    return PEERS_OWN;
}

static void
hear_peer(struct peers *peers, struct peer *peer, const struct frame *frame,
          struct mono_time sent_at, struct mono_time now)
{
    peer->serial = frame->serial;
    if (!peer->followed)
        begin_to_follow(peers, peer, *frame);
    follow(peers, peer, *frame);
    peer->in_doubt = frame->in_doubt;
    peer->parted = frame->farewell;
    peer->heard_at = now;
    peer->lag_us = sent_at.us == NEVER_US ? -1 : now.us - sent_at.us;
    if (sent_at.us > peer->fresh_at.us)
        peer->fresh_at = sent_at;
}

enum peers_hearing
peers_hear(struct peers *peers, const struct frame *frame, struct mono_time sent_at,
           struct mono_time now)
{
    bool own_name = strcmp(frame->node, peers->id) == 0;
    if (own_name &&
        (frame->incarnation == peers->incarnation || frame->incarnation == peers->former))
        return hear_own(peers, frame, sent_at);
    peers->foreign_at = now;
    bool taken = frame->incarnation == peers->incarnation;
    struct peer *peer = taken ? NULL : peer_of_frame(peers, frame);
    if (peer == NULL) {
        peers->strange_at = now;
        return PEERS_OLD;
    }
    if (frame->serial <= peer->serial)
        return PEERS_OLD;
    hear_peer(peers, peer, frame, sent_at, now);
    return PEERS_HEARD;
}

void
peers_garbled(struct peers *peers, int64_t incarnation)
{
    struct peer *peer = find_peer(peers, incarnation);
    if (peer != NULL)
        note_gap(peers, peer);
}

/* --- the verdict ------------------------------------------------------------------------------ */

bool
peer_is_whole(const struct peer *peer, struct mono_time now)
{
    return peer->followed && !peer->in_doubt && is_recent(peer->fresh_at, now);
}

/* It may change something that we have to hear of. */
static bool
has_to_be_heard(const struct peer *peer)
{
    return !peer->parted && (peer->in_table || peer->followed);
}

static bool
anybody_is_there(const struct peers *peers)
{
    for (int i = 0; i < peers->count; i++)
        if (has_to_be_heard(&peers->peer[i]))
            return true;
    return false;
}

static bool
all_are_heard(const struct peers *peers, struct mono_time now)
{
    for (int i = 0; i < peers->count; i++)
        if (has_to_be_heard(&peers->peer[i]) && !peer_is_whole(&peers->peer[i], now))
            return false;
    return !anybody_is_there(peers) || (peers->subscribed && is_recent(peers->own_at, now));
}

static bool
may_trust(const struct peers *peers, bool in_doubt, struct mono_time now)
{
    return !in_doubt && peers->table_is_known && peers->mine && !peers->too_many &&
           now.us - peers->table_at.us <= TABLE_AGE_US && !is_recent(peers->strange_at, now) &&
           all_are_heard(peers, now);
}

static struct mono_time
earlier(struct mono_time a, struct mono_time b)
{
    return a.us < b.us ? a : b;
}

/* When the first thing that trust rests on is too old. */
static struct mono_time
trusted_until(const struct peers *peers)
{
    struct mono_time until = { peers->table_at.us + TABLE_AGE_US };
    for (int i = 0; i < peers->count; i++) {
        const struct peer *peer = &peers->peer[i];
        struct mono_time oldest = earlier(peer->fresh_at, peers->own_at);
        if (has_to_be_heard(peer))
            until = earlier(until, (struct mono_time){ oldest.us + FANOUT_SILENCE_US });
    }
    return until;
}

static void
lose_the_silent(struct peers *peers, struct mono_time now)
{
    for (int i = 0; i < peers->count; i++) {
        struct peer *peer = &peers->peer[i];
        if (peer->followed && !peer->parted && !is_recent(peer->heard_at, now))
            stop_following(peers, peer);
    }
}

static void
tell_lost(struct peers *peers, struct peers_verdict *verdict)
{
    for (int i = 0; i < peers->count; i++) {
        struct peer *peer = &peers->peer[i];
        if (peer->lost)
            verdict->lost[verdict->lost_count++] = peer->incarnation;
        peer->lost = false;
    }
}

void
peers_judge(struct peers *peers, bool in_doubt, struct mono_time now, struct peers_verdict *verdict)
{
    *verdict = (struct peers_verdict){ .lost_count = 0 };
    lose_the_silent(peers, now);
    tell_lost(peers, verdict);
    forget_the_gone(peers);
    verdict->trusted = may_trust(peers, in_doubt, now);
    verdict->alone = verdict->trusted && !anybody_is_there(peers);
    verdict->until = trusted_until(peers);
    verdict->changed = verdict->trusted != peers->trusted;
    verdict->missed = verdict->trusted && !verdict->changed && peers->missed;
    peers->trusted = verdict->trusted;
    peers->missed = false;
}

bool
peers_has_audience(const struct peers *peers, struct mono_time now)
{
    if (now.us - peers->foreign_at.us < AUDIENCE_US)
        return true;
    for (int i = 0; i < peers->count; i++)
        if (peers->peer[i].in_table)
            return true;
    return false;
}
