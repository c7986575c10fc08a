/*
 * tell.c - what a committed transaction changed, for the feed: maps, streams and peers.
 *
 * The worker gathers the changes while it settles, as borrowed slices of rows and ops, and hands
 * them over once, before the first op is answered: who was told of a change finds it on this node.
 * Its list stays for the next batch.
 */
#include "engine_internal.h"

#include <stdlib.h>

#define CHANGES_LEAST 256

/* Without memory nobody is told: readers see a gap, and read anew. */
static void
add(struct worker *worker, const struct feed_change *change)
{
    if (worker->change_count == worker->change_capacity) {
        int capacity = worker->change_capacity == 0 ? CHANGES_LEAST : 2 * worker->change_capacity;
        struct feed_change *grown =
            realloc(worker->changes, (size_t)capacity * sizeof(struct feed_change));
        if (grown == NULL) {
            worker->change_lost = true;
            return;
        }
        worker->changes = grown;
        worker->change_capacity = capacity;
    }
    worker->changes[worker->change_count++] = *change;
}

void
tell_seat(struct worker *worker, const struct seat_key *key, const struct seat_view *view,
          struct slice user, enum feed_reason reason, struct db_time at)
{
    struct feed_change change = { .kind = FEED_SEAT,
                                  .reason = reason,
                                  .status = view->status,
                                  .in_payment = view->in_payment,
                                  .org = key->org,
                                  .event = key->event,
                                  .item = key->seat,
                                  .version = view->version,
                                  .hold_id = view->hold_id,
                                  .user = user,
                                  .held_until = view->held_until,
                                  .at = at };
    add(worker, &change);
}

/* Another's hold on it was over and ended in the same transaction: a change of its own. */
void
tell_takeover(struct worker *worker, const struct seat_key *key, int64_t version,
              enum feed_reason reason, struct db_time at)
{
    struct seat_view freed = { .status = SEAT_AVAILABLE, .version = version };

    tell_seat(worker, key, &freed, SLICE_EMPTY, reason, at);
}

void
tell_area(struct worker *worker, const struct area_counts *area, struct db_time at)
{
    struct feed_change change = { .kind = FEED_AREA,
                                  .org = area->org,
                                  .event = area->event,
                                  .item = area->area,
                                  .version = area->version,
                                  .held = area->held,
                                  .sold = area->sold,
                                  .at = at };
    add(worker, &change);
}

void
tell_send(struct worker *worker)
{
    feed_tell(worker->node->feed, worker->changes, worker->change_count);
    if (worker->change_lost)
        memory_doubts(worker->node);
    worker->change_count = 0;
    worker->change_lost = false;
}

void
engine_tell(struct node *node, const struct feed_change *changes, int count, struct mono_time began)
{
    for (int i = 0; i < count; i++) {
        const struct feed_change *change = &changes[i];
        struct seat_key key = { change->org, change->event, change->item };
        struct seat_view view = feed_view(change);
        if (change->kind == FEED_SEAT)
            hot_table_learn(node->hot, &key, &view, began, true);
        else if (change->kind == FEED_EVENT)
            events_outdated(node->events, change->org, change->event, change->version);
    }
    feed_tell(node->feed, changes, count);
}
