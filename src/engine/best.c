/*
 * best.c - holds of the best seats: chosen from memory when the op is prepared, anew whenever the
 * race for them was lost.
 *
 *   choose   the map names seats that are under way from now on
 *   claim    all of them, or others are chosen: nobody's claim is waited for
 *   take     the transaction of any hold (op_hold.c, solo_hold.c)
 *   judge    lost: the seats are given back, in doubt for a moment, and it begins again; from then
 *            on at random among good ones, so that nodes don't collide for ever
 *
 * Its seats are given back when it is answered, whatever became of it. An op whose outcome was lost
 * keeps them: it has to ask for the same ones.
 */
#include "engine_internal.h"

#include <string.h>

#include "holdfast/metrics.h"

#define FRESH_US        (500 * TIME_US_PER_MS) /* beside other nodes a map may be this old */
#define CLAIM_TRIES     8
#define AT_ONCE_MAX     3 /* so often it begins again without a pause */
#define PAUSES_MAX      3 /* a pause doesn't grow longer than op_later's of so many tries */
#define AMONG_FIRST     4
#define AMONG_DOUBLINGS 4

/* --- giving back ------------------------------------------------------------------- */

void
best_give_back(struct engine *engine, struct op *op, bool is_doubtful)
{
    if (op->best == NULL || op->seat_count == 0)
        return;
    seat_maps_give_back(engine->node->maps, op->org, op->event, op->best->ids, op->seat_count,
                        is_doubtful);
    op->seat_count = 0;
}

/* --- choosing ---------------------------------------------------------------------- */

/* Room for what is chosen, made once. */
static bool
has_room(struct op *op)
{
    struct op_best *best = op->best;
    size_t count = (size_t)best->quantity;

    if (op->seats == NULL)
        op->seats = arena_alloc(&op->arena, count * sizeof(*op->seats));
    if (best->ids == NULL)
        best->ids = arena_alloc(&op->arena, count * sizeof(*best->ids));
    return op->seats != NULL && best->ids != NULL;
}

static uint32_t
among(const struct op_best *best)
{
    if (best->losses == 0)
        return 1;
    return (uint32_t)AMONG_FIRST << (best->losses < AMONG_DOUBLINGS ? best->losses
                                                                    : AMONG_DOUBLINGS);
}

/* Within the clock's error of its end a hold is not over, and not surely alive. */
static void
read_now(struct node *node, struct seat_wish *wish)
{
    struct db_time now;
    int64_t error_us;

    wish->now = (struct db_time){ 0 };
    wish->now_most.us = INT64_MAX - 1; /* before what never comes */
    if (!db_clock_read(node->clock, mono_now(), &now, &error_us))
        return;
    wish->now.us = now.us - error_us;
    wish->now_most.us = now.us + error_us;
}

static enum seat_choice
choose(struct worker *worker, struct op *op, bool is_reader)
{
    const struct op_best *best = op->best;
    struct node *node = worker->node;
    struct seat_wish wish = {
        .quantity = best->quantity,
        .section = best->section,
        .type = best->type,
        .adjacent = best->adjacent,
        .accessible = best->accessible,
        .price_min = best->price_min,
        .price_max = best->price_max,
        .no_gap = op->info.policy.no_single_seat_gap,
        .among = among(best),
        .random = worker_random(worker),
        .fresh_since = { seat_maps_trusted(node->maps) ? 0 : mono_now().us - FRESH_US },
        .arrived = op->received,
        .is_reader = is_reader,
    };
    read_now(node, &wish);
    enum seat_choice choice = seat_maps_choose(node->maps, op->org, op->event, &wish, best->ids);

    op->seat_count = choice == SEAT_CHOICE_MADE ? best->quantity : 0;
    for (int i = 0; i < op->seat_count; i++)
        op->seats[i] = (struct op_seat){ .id = slice_of(best->ids[i]), .expect_version = -1 };
    return choice;
}

/* --- its ends before a transaction --------------------------------------------------- */

static enum best_step
wait(struct worker *worker, struct op *op)
{
    if (op->locked_tries > PAUSES_MAX)
        op->locked_tries = PAUSES_MAX;
    metric_add(METRIC_BEST_WAITED_TOTAL, 1);
    op_later(worker, op);
    return BEST_GONE;
}

/* From memory; but what was done under the op's key before is the answer, so that is looked for
 * first. */
enum best_step
best_refuse(struct worker *worker, struct op *op, enum hf_status status)
{
    op_fail(op, status);
    op->tier = TIER_HOT;
    if (op->keyed) {
        op->kind = OP_ANSWER;
        op->solo = false;
        return BEST_READY;
    }
    engine_answer(worker->engine, op);
    return BEST_GONE;
}

static bool
read_map(struct worker *worker, struct op *op)
{
    struct node *node = worker->node;
    struct feed_position feed;
    struct seat_map_reading reading;

    feed_position(node->feed, &feed);
    seat_map_reading_begin(&reading, node->clock, &feed);
    enum pg_outcome outcome = seat_maps_read(node->maps, worker->pg, op->org, op->event, &reading,
                                             ops_store_deadline(worker->engine, &op, 1));
    worker->reading_us += mono_now().us - reading.began.us;
    return outcome == PG_DONE;
}

/*
 * A house takes a while to read: nobody else's transaction waits for that, so the op comes alone
 * first. Returns BEST_READY when the map was read.
 */
static enum best_step
load(struct worker *worker, struct op *op, bool is_alone)
{
    if (!is_alone) {
        op->best->is_reader = true;
        op->solo = true;
        return BEST_BACK;
    }
    if (read_map(worker, op))
        return BEST_READY;
    engine_refuse(worker->engine, op, HF_STORE_UNAVAILABLE);
    return BEST_GONE;
}

/* --- claims ------------------------------------------------------------------------------ */

/* Others have them, or are about to. */
static void
lose(struct engine *engine, struct op *op)
{
    struct waiter_list waiters;

    waiter_list_init(&waiters);
    claims_drop(engine, op, &waiters);
    best_give_back(engine, op, true);
    op->best->is_lost = false;
    op->best->losses++;
    metric_add(METRIC_BEST_LOST_TOTAL, 1);
    dispatch(engine, &waiters);
}

/* True: every seat is the op's. Else none is. */
static bool
claim_all(struct worker *worker, struct op *op)
{
    if (claims_order(worker->engine, op) && claims_take_at_once(worker->engine, op))
        return true;
    lose(worker->engine, op);
    return false;
}

/* --- before a transaction ----------------------------------------------------------------- */

static enum best_step
choose_and_claim(struct worker *worker, struct op *op, bool is_reader, bool is_alone)
{
    for (int tries = 0; tries < CLAIM_TRIES; tries++) {
        enum best_step step;
        switch (choose(worker, op, is_reader)) {
        case SEAT_CHOICE_MADE:
            if (claim_all(worker, op))
                return BEST_READY;
            break;
        case SEAT_CHOICE_LATER:
            return wait(worker, op);
        case SEAT_CHOICE_LOAD:
            if ((step = load(worker, op, is_alone)) != BEST_READY)
                return step;
            is_reader = false;
            break;
        case SEAT_CHOICE_TOO_FEW:
            return best_refuse(worker, op, HF_SOLD_OUT);
        case SEAT_CHOICE_APART:
            return best_refuse(worker, op, HF_NO_ADJACENT_SEATS);
        case SEAT_CHOICE_NO_MEMORY:
            engine_refuse(worker->engine, op, HF_OVERLOADED);
            return BEST_GONE;
        }
    }
    return wait(worker, op);
}

enum best_step
best_prepare(struct worker *worker, struct op *op, bool is_alone)
{
    if (op->seat_count > 0)
        return BEST_READY; /* it has seats, and goes on trying for them */
    if (!has_room(op)) {
        engine_refuse(worker->engine, op, HF_OVERLOADED);
        return BEST_GONE;
    }
    bool is_reader = op->best->is_reader;
    op->best->is_reader = false; /* another may have read the map meanwhile */
    op->solo = false;            /* unless its policy says so, which is seen later */
    return choose_and_claim(worker, op, is_reader, is_alone);
}

/* --- after it ------------------------------------------------------------------------------- */

/*
 * True: what was said is about these seats, and others may do. However often the gap rule refused
 * some, those that it would allow may be under way or locked, and so nothing is known to be gone.
 */
static bool
is_about_seats(const struct op *op)
{
    switch (op->fate) {
    case FATE_LATER: /* a row was locked */
        return true;
    case FATE_AGAIN: /* the user has some of them; or his policy was another one */
        return op->grow;
    case FATE_ANSWER:
        break;
    }
    return op->status == HF_SEAT_TAKEN || op->status == HF_SEAT_SOLD ||
           op->status == HF_SEAT_BLOCKED || op->status == HF_SEAT_NOT_FOUND ||
           op->status == HF_SEAT_CONTENDED || op->status == HF_SINGLE_SEAT_GAP ||
           (op->status == HF_OK && op->same);
}

static void
judge(struct op *op)
{
    struct op_best *best = op->best;

    /* Of one that may have run before, these very seats are asked for. */
    if (op->may_have_run || !is_about_seats(op))
        return;
    best->is_lost = true;
    op->fate = FATE_AGAIN;
    op->grow = op->same = false;
    op->grow_hold = (struct uuid){ { 0 } };
    for (int i = 0; i < op->seat_count; i++)
        op->seats[i].code = HF_OK; /* it isn't about this seat or that */
}

void
best_judge(struct batch *batch)
{
    for (int i = 0; i < batch->count; i++)
        if (batch->ops[i]->best != NULL && batch->ops[i]->kind == OP_HOLD)
            judge(batch->ops[i]);
}

void
best_begin(struct op *op)
{
    if (op->best != NULL)
        op->best->is_lost = false;
}

bool
best_leaves(struct op *op)
{
    if (op->best == NULL || op->kind != OP_HOLD || op->may_have_run)
        return false;
    op->best->is_lost = true;
    return true;
}

bool
best_is_lost(const struct op *op)
{
    return op->best != NULL && op->best->is_lost;
}

void
best_again(struct worker *worker, struct op *op)
{
    lose(worker->engine, op);
    op->fate = FATE_ANSWER;
    op->finished = false;
    op->not_before.us = 0;
    if (op->best->losses > AT_ONCE_MAX)
        (void)wait(worker, op);
    else
        op_queue_put_back(worker->engine->queue, op);
}
