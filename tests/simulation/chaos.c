/*
 * chaos.c - what goes wrong in the world: stores, nodes, Redis, and a rival: a node that changes
 * seats and tells nobody.
 *
 * The rival has its row in the table of living nodes before it changes anything, and its
 * transactions hold row locks for a while, as a node's would.
 */
#include <stdio.h>

#include "fake_warm.h"
#include "faults.h"
#include "engine_internal.h" /* hold_lock_key */
#include "node.h"
#include "oracle.h"
#include "sim.h"
#include "store.h"
#include "wire.h"

#define RIVAL "rival"

struct faults faults;
static bool over;
static int64_t rival_changes;

static int64_t
rarely(int64_t least, int64_t most)
{
    return chance_one_in(2) ? 0 : chance_between(least, most);
}

static void
draw_pubsub(void)
{
    faults.message_lost_one_in = rarely(3, 200);
    faults.message_twice_one_in = rarely(2, 50);
    faults.message_overtaken_one_in = rarely(2, 50);
    faults.message_us = chance_one_in(2) ? faults.message_us : chance_between(50, 400) * MS;
    faults.redis_loses_one = chance_one_in(2);
    faults.subscriptions_break = chance_one_in(2);
}

void
faults_draw(int nodes, bool calm)
{
    faults = (struct faults){ .trip_us = chance_between(1, 20) * MS,
                              .redis_trip_us = chance_between(1, 10) * MS,
                              .message_us = chance_between(0, 20) * MS,
                              .stall_us = 1 * S,
                              .outlive_us = 100 * MS };
    if (calm) { /* a statement that has to be repeated loses nothing */
        faults.repeat_one_in = rarely(5, 12);
        return;
    }
    faults.cut_one_in = rarely(50, 500);
    faults.cut_commit_one_in = rarely(4, 60);
    faults.silent_one_in = rarely(2, 6);
    faults.stall_one_in = rarely(60, 600);
    faults.repeat_one_in = rarely(30, 300);
    faults.data_error_one_in = rarely(60, 300);
    faults.redis_fails_one_in = rarely(3, 100);
    faults.stall_us = chance_between(1, 25) * 100 * MS;
    faults.outlive_us = chance_one_in(2) ? 50 * MS : chance_between(1, 40) * 100 * MS;
    faults.store_goes = chance_one_in(3);
    faults.fails_over = chance_one_in(4);
    faults.nodes_die = chance_one_in(3);
    faults.nodes_drain = chance_one_in(4);
    /* Nobody is trusted while it is there: it tells nothing. */
    faults.rival_comes = chance_one_in(nodes == 1 ? 2 : 10);
    faults.redis_goes = chance_one_in(2);
    faults.event_moves = chance_one_in(4);
    faults.nodes_stand_still = chance_one_in(4);
    if (nodes > 1 && !chance_one_in(3))
        draw_pubsub();
}

void
faults_end(void)
{
    over = true;
    faults = (struct faults){ .trip_us = 4 * MS,
                              .redis_trip_us = 2 * MS,
                              .message_us = 2 * MS,
                              .stall_us = 1,
                              .outlive_us = 1 };
    trace("--- faults end");
}

/* --- Postgres, Redis, the event ------------------------------------------- */

static void *
store_main(void *argument)
{
    (void)argument;
    for (;;) {
        fiber_sleep(chance_between(500 * MS, 5 * S));
        if (over)
            return NULL;
        int64_t away_us = chance_one_in(2) ? chance_below(300 * MS) : chance_below(3 * S);
        switch (chance_below(4)) {
        case 0:
            cold_restart(away_us, faults.fails_over);
            break;
        case 1:
            cold_partition(chance_one_in(2) ? NOWHERE : (int)chance_below(sim_node_count), away_us);
            break;
        default:
            cold_end_one_session();
        }
        if (faults.fails_over)
            oracle_rival_was_here();
    }
}

static void *
redis_main(void *argument)
{
    (void)argument;
    while (!over) {
        fiber_sleep(chance_between(500 * MS, 4 * S));
        if (over)
            break;
        if (chance_one_in(3))
            redis_is_wiped();
        else
            redis_goes_away(chance_below(2 * S));
    }
    return NULL;
}

/* What one machine's subscription, or its way to Redis, has to bear. */
static void *
pubsub_main(void *argument)
{
    (void)argument;
    while (!over) {
        fiber_sleep(chance_between(100 * MS, 3 * S));
        int machine = (int)chance_below(sim_node_count);
        if (over)
            break;
        if (faults.redis_loses_one && (!faults.subscriptions_break || chance_one_in(2)))
            redis_loses(machine, chance_one_in(4) ? chance_below(4 * S) : chance_below(800 * MS));
        else
            pubsub_break(chance_one_in(4) ? NOWHERE : machine, chance_one_in(2));
    }
    return NULL;
}

static void *
event_main(void *argument)
{
    (void)argument;
    while (!over) {
        fiber_sleep(chance_between(1 * S, 4 * S));
        store.event_version++;
        if (chance_one_in(3))
            store.policy.no_single_seat_gap = !store.policy.no_single_seat_gap;
        if (chance_one_in(3) && !over)
            store.event_status = store.event_status == EVENT_ON_SALE ? EVENT_CLOSED : EVENT_ON_SALE;
        trace("event: v%d %s", (int)store.event_version, event_status_word(store.event_status));
    }
    store.event_status = EVENT_ON_SALE;
    store.event_version++;
    return NULL;
}

/* --- the nodes ------------------------------------------------------------ */

static void *
node_main(void *argument)
{
    struct sim_node *node = argument;

    for (;;) {
        fiber_sleep(chance_between(1 * S, 7 * S));
        if (over)
            return NULL;
        if (node->phase != NODE_UP)
            continue;
        if (faults.nodes_drain && (!faults.nodes_die || chance_one_in(2)))
            node_drain(node);
        else
            node_crash(node);
    }
}

static void *
still_main(void *argument)
{
    (void)argument;
    while (!over) {
        fiber_sleep(chance_between(500 * MS, 4 * S));
        struct sim_node *node = &sim_nodes[chance_below(sim_node_count)];
        if (!over && node->phase == NODE_UP)
            node_stand_still(node, chance_delay(900 * MS, 11 * S));
    }
    return NULL;
}

/* --- the rival ------------------------------------------------------------ */

static void
rival_takes(struct tx *tx, int seat, struct slice request)
{
    struct seat_state *state = tx_write_seat(tx, seat, request);
    bool takeover = state->status == SEAT_HELD;
    struct line_row *old = takeover ? store_active_line(tx, &state->hold, seat) : NULL;

    if (old != NULL)
        hf_assert(store_close_line(tx, old, HOLD_EXPIRED, "ttl_expired", store_now()));
    state->status = SEAT_HELD;
    state->hold = uuid_v7_new();
    state->until_us = store_now() + chance_between(300 * MS, 3 * S);
    state->version += 1 + takeover;
    snprintf(state->user, sizeof(state->user), "rob");
    struct line_row *line = tx_add_line(tx);
    line->hold = state->hold;
    line->line = 1;
    line->seat = seat;
    line->born_us = store_now();
    snprintf(line->cart, sizeof(line->cart), "cart");
    snprintf(line->source, sizeof(line->source), "web");
    snprintf(line->next.user, sizeof(line->next.user), "rob");
    line->next.until_us = state->until_us;
}

/* Extends or cancels what somebody holds, over or not. */
static void
rival_changes_hold(struct tx *tx, int seat, struct slice request)
{
    struct seat_state *state = tx_write_seat(tx, seat, request);
    struct line_row *line = store_active_line(tx, &state->hold, seat);
    int64_t now = store_now();

    hf_assert(line != NULL);
    state->version++;
    if (state->until_us > now && chance_one_in(2)) {
        struct line_state *next = tx_write_line(tx, line);
        hf_assert(next != NULL);
        state->until_us += 500 * MS;
        next->until_us = state->until_us;
        return;
    }
    bool is_over = state->until_us <= now;
    hf_assert(store_close_line(tx, line, is_over ? HOLD_EXPIRED : HOLD_CANCELLED,
                               is_over ? "ttl_expired" : "admin", now));
    *state = (struct seat_state){ .status = SEAT_AVAILABLE, .version = state->version };
}

/* A sale is undone. */
static void
rival_refunds(struct tx *tx, int seat, struct slice request)
{
    struct seat_state *state = tx_write_seat(tx, seat, request);

    for (struct line_row *line = store.lines; line != NULL; line = line->next_line)
        if (line->seat == seat && uuid_equal(&line->hold, &state->hold) &&
            tx_sees_line(tx, line)->status == HOLD_CONVERTED)
            hf_assert(store_close_line(tx, line, HOLD_CANCELLED, "refund", store_now()));
    *state = (struct seat_state){ .status = SEAT_AVAILABLE, .version = state->version + 1 };
}

static bool
has_one_line(const struct tx *tx, const struct uuid *hold)
{
    struct line_row *lines[LINES_OF_HOLD_MAX];

    return store_lines_of(tx, hold, lines) == 1;
}

static void
rival_acts(void)
{
    struct tx *tx = tx_begin(BY_RIVAL);
    int seat = (int)chance_below(store.seat_count);
    struct uuid hold = store.seats[seat].is.hold;
    char request[NAME_BYTES];

    snprintf(request, sizeof(request), "r%d", (int)++rival_changes);
    bool locked = uuid_is_nil(&hold) || tx_lock_key(tx, hold_lock_key(&hold), 500 * MS);
    locked = locked && tx_lock_seat(tx, seat);
    if (locked)
        fiber_sleep(chance_below(40 * MS));
    const struct seat_state *state = tx_sees_seat(tx, seat);
    if (!locked || tx_is_over(tx) || !uuid_equal(&hold, &state->hold)) {
        tx_abort(tx);
        return;
    }
    if (state->status == SEAT_SOLD)
        rival_refunds(tx, seat, slice_of(request));
    else if (state->status == SEAT_HELD && !state->in_payment && has_one_line(tx, &hold) &&
             chance_one_in(2))
        rival_changes_hold(tx, seat, slice_of(request));
    else if (state->status == SEAT_AVAILABLE || seat_is_over(state, store_now()))
        rival_takes(tx, seat, slice_of(request));
    oracle_rival_was_here();
    fiber_sleep(chance_below(20 * MS));
    if (tx_is_over(tx))
        return;
    if (chance_one_in(6))
        tx_abort(tx);
    else
        tx_commit(tx);
}

/* Here for a while: a heartbeat each second, changes in between. */
static void
rival_stays(int64_t end_us)
{
    int64_t incarnation = nodes_join(RIVAL, 0), beat_us = sim_now_us();

    while (incarnation != 0 && sim_now_us() < end_us && !over) {
        fiber_sleep(chance_below(300 * MS));
        if (sim_now_us() - beat_us > 900 * MS) {
            (void)nodes_beat(RIVAL, incarnation);
            beat_us = sim_now_us();
        }
        if (sim_now_us() >= store.away_until_us)
            rival_acts();
    }
    if (!chance_one_in(3)) /* else it died, and its row with it after 10 s */
        nodes_leave(RIVAL, incarnation, 0);
    trace("rival: gone");
}

static void *
rival_main(void *argument)
{
    (void)argument;
    while (!over) {
        fiber_sleep(chance_below(4 * S));
        if (!over)
            rival_stays(sim_now_us() + chance_between(1 * S, 8 * S));
    }
    return NULL;
}

void
chaos_start(void)
{
    if (faults.store_goes)
        fiber_start("store", GROUP_WORLD, 0, store_main, NULL);
    if (faults.redis_goes)
        fiber_start("redis", GROUP_WORLD, 0, redis_main, NULL);
    if (faults.event_moves)
        fiber_start("event", GROUP_WORLD, 0, event_main, NULL);
    if (faults.redis_loses_one || faults.subscriptions_break)
        fiber_start("pubsub", GROUP_WORLD, 0, pubsub_main, NULL);
    for (int i = 0; i < sim_node_count && (faults.nodes_die || faults.nodes_drain); i++)
        fiber_start("fate", GROUP_WORLD, 0, node_main, &sim_nodes[i]);
    if (faults.nodes_stand_still)
        fiber_start("still", GROUP_WORLD, 0, still_main, NULL);
    if (faults.rival_comes)
        fiber_start("rival", GROUP_WORLD, 0, rival_main, NULL);
}
