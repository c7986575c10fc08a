/*
 * dispatch.c - the way of an op from its maker to the queue: memory's refusal, the
 * claims of its seats in one total order, a parking place behind another's claim.
 *
 * Claims are taken in hot_table_order, so that parked ops never wait in a circle. Whoever
 * ends a claim dispatches the ops that waited for it: the first takes the claim or is
 * refused, the others follow, each in its turn. It is a loop over a list, never recursion.
 */
#include "engine_internal.h"

#include "holdfast/metrics.h"

void
waiter_list_init(struct waiter_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

void
waiter_list_add(struct waiter_list *list, struct hot_waiter *chain)
{
    *list->end = chain;
    while (*list->end != NULL)
        list->end = &(*list->end)->next;
}

static struct op *
waiter_list_pop(struct waiter_list *list)
{
    struct hot_waiter *waiter = list->first;
    if (waiter == NULL)
        return NULL;
    list->first = waiter->next;
    if (list->first == NULL)
        list->end = &list->first;
    waiter->next = NULL;
    return (struct op *)waiter; /* the waiter is an op's first member */
}

struct seat_key
op_seat_key(const struct op *op, const struct op_seat *seat)
{
    return (struct seat_key){ op->org, op->event, seat->id };
}

void
claims_drop(struct engine *engine, struct op *op, struct waiter_list *waiters)
{
    for (int i = 0; i < op->claim_next; i++) {
        struct op_seat *seat = &op->seats[op->claim_order[i]];
        struct seat_key key = op_seat_key(op, seat);
        struct hot_waiter *chain = NULL;
        if (!seat->claimed)
            continue;
        hot_table_settle(engine->node->hot, &key, NULL, mono_now(), false, &chain);
        seat->claimed = false;
        waiter_list_add(waiters, chain);
    }
    op->claim_next = 0;
}

/* --- what memory may refuse ---------------------------------------------------- */

static enum hf_status
code_of_view(const struct seat_view *view)
{
    switch (view->status) {
    case SEAT_SOLD:
        return HF_SEAT_SOLD;
    case SEAT_BLOCKED:
        return HF_SEAT_BLOCKED;
    case SEAT_AVAILABLE:
    case SEAT_HELD:
    case SEAT_REMOVED:
        break;
    }
    return HF_SEAT_TAKEN;
}

/* True if memory knows, freshly, that this event would let the op hold that many seats. */
static bool
event_lets_in(struct engine *engine, const struct op *op, struct mono_time now)
{
    struct event_info info;
    return events_find(engine->node->events, op->org, op->event, &info) &&
           now.us - info.read_at.us <= engine->node->config->hot_lease &&
           (info.status == EVENT_ON_SALE || (op->privileged && info.status != EVENT_CANCELLED)) &&
           op->seat_count <= info.policy.max_seats_per_hold;
}

/* What memory believes of a seat is no part of an answer of Postgres. */
static void
forget_codes(struct op *op)
{
    for (int i = 0; i < op->seat_count; i++)
        op->seats[i].code = HF_OK;
}

/*
 * True if memory refuses the op: each seat's code is set. It does so only when it knows the event
 * and every seat asked for, since an unknown seat would have to be named first.
 */
static bool
memory_refuses(struct engine *engine, struct op *op)
{
    struct mono_time mono = mono_now();
    struct db_time now;
    int64_t error_us;
    bool refused = false;

    if (op->kind != OP_HOLD || op->keyed || op->grow || op->area_count > 0 ||
        !db_clock_read(engine->node->clock, mono, &now, &error_us) ||
        !event_lets_in(engine, op, mono))
        return false;
    for (int i = op->seat_count - 1; i >= 0; i--) {
        struct op_seat *seat = &op->seats[i];
        struct seat_key key = op_seat_key(op, seat);
        struct seat_view view;
        seat->code = HF_OK;
        if (hot_table_refuses(engine->node->hot, &key, op->user_hash, now, error_us, mono, &view)) {
            seat->code = code_of_view(&view);
            op->status = seat->code; /* the first in request order has the last word */
            refused = true;
        } else if (!hot_table_read(engine->node->hot, &key, now, error_us, mono, &view) ||
                   view.status == SEAT_REMOVED) {
            forget_codes(op);
            return false;
        }
    }
    return refused;
}

static void
refuse_from_memory(struct engine *engine, struct op *op, struct waiter_list *waiters)
{
    claims_drop(engine, op, waiters);
    op->tier = TIER_HOT;
    op->hold = NULL;
    engine_answer(engine, op);
}

/* --- claims ---------------------------------------------------------------------- */

/* A confirm names seats without taking them; a patch doesn't know its event yet. */
static bool
op_takes_seats(const struct op *op)
{
    return op->kind == OP_HOLD;
}

/* Insertion sort: a hold has a handful. An op that chooses again has as many seats. */
bool
claims_order(struct engine *engine, struct op *op)
{
    if (op->claim_order == NULL)
        op->claim_order = arena_alloc(&op->arena, (size_t)op->seat_count * sizeof(int));
    if (op->claim_order == NULL)
        return false;
    for (int i = 0; i < op->seat_count; i++) {
        struct seat_key key = op_seat_key(op, &op->seats[i]);
        int at = i;
        for (; at > 0; at--) {
            struct seat_key before = op_seat_key(op, &op->seats[op->claim_order[at - 1]]);
            if (hot_table_order(engine->node->hot, &before, &key) <= 0)
                break;
            op->claim_order[at] = op->claim_order[at - 1];
        }
        op->claim_order[at] = i;
    }
    return true;
}

/* Memory was asked before, or chose them; from here on Postgres judges. waiter: parks there. */
static enum hot_answer
claim_next(struct engine *engine, struct op *op, struct hot_waiter *waiter)
{
    static const struct db_time no_time = { 0 };
    struct op_seat *seat = &op->seats[op->claim_order[op->claim_next]];
    struct seat_key key = op_seat_key(op, seat);
    struct seat_view view;
    enum hot_answer answer = hot_table_claim(engine->node->hot, &key, op->user_hash, false, no_time,
                                             0, mono_now(), waiter, &view);

    if (answer == HOT_CLAIMED) {
        seat->claimed = true;
        op->claim_next++;
    }
    return answer;
}

bool
claims_take_at_once(struct engine *engine, struct op *op)
{
    while (op->claim_next < op->seat_count)
        if (claim_next(engine, op, NULL) != HOT_CLAIMED)
            return false;
    return true;
}

/*
 * Claims the seats that are not claimed yet. False: the op is parked (and may be somebody
 * else's by now) or was answered.
 *
 * An op with an Idempotency-Key is never parked: the claim that it meets may be its own twin's,
 * which it waits for by its key (keys.c). It goes on without that claim and tries again while the
 * seat's row is locked.
 */
static bool
claim_seats(struct engine *engine, struct op *op, struct waiter_list *waiters)
{
    bool keyed = op->keyed;
    while (op_takes_seats(op) && op->claim_next < op->seat_count) {
        enum hot_answer answer = claim_next(engine, op, keyed ? NULL : &op->waiter);
        if (answer == HOT_PARKED) {
            if (keyed)
                return true;
            metric_add(METRIC_PARKED_TOTAL, 1); /* the op itself is not to be touched any more */
            return false;
        }
        if (answer == HOT_CLAIMED)
            continue;
        metric_add(METRIC_PARKED_REFUSED_TOTAL, 1);
        claims_drop(engine, op, waiters);
        op_fail(op, HF_OVERLOADED);
        engine_answer(engine, op);
        return false;
    }
    return true;
}

static void
refuse(struct engine *engine, struct op *op, enum hf_status status, int32_t retry_after_s,
       struct waiter_list *waiters)
{
    claims_drop(engine, op, waiters);
    op_fail(op, status);
    op->retry_after_s = retry_after_s;
    if (status == HF_OVERLOADED)
        metric_add(METRIC_OVERLOADED_TOTAL, 1);
    engine_answer(engine, op);
}

static void
enqueue(struct engine *engine, struct op *op, struct waiter_list *waiters)
{
    op->queued_at = mono_now();
    if (!op_queue_push(engine->queue, op))
        refuse(engine, op, HF_OVERLOADED, 1, waiters);
}

/*
 * Whether the store will have time for the op. What the node does by itself is not refused for
 * want of time: it frees seats or gives them to who waits, somebody has paid, and an answer that is
 * only to be kept is work that was done.
 */
static bool
is_admitted(struct engine *engine, struct op *op, struct waiter_list *waiters)
{
    int32_t retry_after_s;
    enum hf_status status = engine_admits(engine, op->deadline, mono_now(), &retry_after_s);
    if (status == HF_OVERLOADED && (op->kind == OP_EXPIRE || op->kind == OP_ASSIGN ||
                                    op->kind == OP_PAY_SETTLE || op->kind == OP_ANSWER))
        return true;
    if (status != HF_OK)
        refuse(engine, op, status == HF_OVERLOADED ? op_late_status(engine, op) : status,
               retry_after_s, waiters);
    return status == HF_OK;
}

/* --- in ------------------------------------------------------------------------- */

void
dispatch(struct engine *engine, struct waiter_list *waiters)
{
    struct op *op;
    while ((op = waiter_list_pop(waiters)) != NULL) {
        if (memory_refuses(engine, op))
            refuse_from_memory(engine, op, waiters);
        else if (is_admitted(engine, op, waiters) && claim_seats(engine, op, waiters))
            enqueue(engine, op, waiters);
    }
}

void
engine_submit(struct engine *engine, struct op *op)
{
    struct waiter_list list;
    hf_assert(op->deadline.us > 0); /* nobody waits without end, the node itself neither */
    atomic_fetch_add(&engine->outstanding, 1);
    op->user_hash = hash_seeded(op->user.ptr, op->user.len);
    op->solo = op->kind == OP_PATCH || op->kind == OP_RETURN || op->kind == OP_ASSIGN ||
               op_is_of_checkout(op) ||
               (op->kind == OP_HOLD && op->area_count > 0 && op->area_count + op->seat_count > 1);
    if (op_takes_seats(op) && op->seat_count > 0 && !claims_order(engine, op)) {
        op_fail(op, HF_OVERLOADED);
        engine_answer(engine, op);
        return;
    }
    waiter_list_init(&list);
    op->waiter = (struct hot_waiter){ .until = op->deadline };
    waiter_list_add(&list, &op->waiter);
    dispatch(engine, &list);
}
