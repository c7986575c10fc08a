/*
 * oracle.c - the invariants, over all nodes.
 *
 * Commits: a seat's version only grows; nobody gets a seat that somebody else holds or has bought.
 * Who has bought one has one until he returns it; where the policy says so, never two.
 *
 * Rows: what is taken where the policy leaves no single seat alone leaves none, unless it must.
 *
 * Yes is said only of what is committed, as it is committed, and not of what is over.
 *
 * No: "taken" and "sold" only of what the store has, or had while memory could still trust it: the
 * window of known_at.
 *
 * Unknown: "nothing was changed" is never said of what committed, nor of what commits later.
 *
 * Payments move along the arrows of 0004_checkouts.sql only; their answers are what is stored, and
 * a hold in payment goes to nobody else.
 *
 * Memory believes only what was committed, as it was committed, and no longer than that window
 * after it is past.
 *
 * Rest: when all is quiet every hold that is over has been ended, nothing is parked, and memory
 * says what the store says.
 */
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>

#include "clients.h"
#include "engine_internal.h"
#include "faults.h"
#include "holdfast/fanout.h"
#include "sim.h"

#define REQUESTS_MAX 100000
#define CLOCK_US                                                                                   \
    (20 * MS) /* by so much a node may be wrong about an end, also after a fail-over               \
               */
#define HANDLING_US                                                                                \
    (150 * MS) /* from the answer of COMMIT until memory has it (Redis comes first) */
#define HEARTBEAT_US                                                                               \
    (3200 * MS) /* trust alone rests on a read at most 2 s old, and a late turn                    \
                 */
#define REFUSAL_US                                                                                 \
    (5 * MS) /* from the look into memory to the answer: a thread may be set aside between */

/* What came of the requests, by the number in their id ("q17"). */
static struct {
    bool committed, answered;
    enum op_kind kind;
    enum hf_status heard;
} fates[REQUESTS_MAX];

static int64_t rival_us = -1000 * S; /* when somebody else last changed anything */
static bool is_calm, is_at_rest;
static int64_t window_us, delivery_us; /* see known_at */

static int
number_of(const char *request)
{
    int number = request[0] == 'q' ? atoi(request + 1) : 0;

    hf_assert(number < REQUESTS_MAX);
    return number;
}

void
oracle_begin(bool calm)
{
    is_calm = calm;
    window_us = FANOUT_SILENCE_US + sim_config.hot_lease + faults.message_us + HANDLING_US;
    delivery_us = faults.message_us + 3 * faults.redis_trip_us + HANDLING_US;
}

void
oracle_asked(const struct op *op)
{
    fates[number_of(op->request_id.ptr)].kind = op->kind;
}

void
oracle_at_rest(bool rests)
{
    is_at_rest = rests;
}

void
oracle_rival_was_here(void)
{
    rival_us = sim_now_us();
}

/* --- commits -------------------------------------------------------------- */

void
oracle_seat_changes(int seat, const struct seat_state *before, const struct seat_state *after)
{
    const char *id = store.seats[seat].id;
    bool other = !uuid_equal(&before->hold, &after->hold);

    if (after->version <= before->version)
        violation("seat %s goes from v%d to v%d", id, (int)before->version, (int)after->version);
    if (after->status != SEAT_HELD && after->status != SEAT_SOLD)
        return;
    if (before->in_payment && other)
        violation("seat %s is in payment and is given to another hold", id);
    if (before->status == SEAT_SOLD && other)
        violation("seat %s was sold and is given to another hold", id);
    if (before->status == SEAT_HELD && other && before->until_us > store_now() &&
        strcmp(before->user, after->user) != 0)
        violation("seat %s is held by %s for another %.3f s and goes to %s", id, before->user,
                  (double)(before->until_us - store_now()) / 1e6, after->user);
}

static int
sold_to(const char *user)
{
    int count = 0;

    for (int i = 0; i < store.seat_count; i++)
        count += store.seats[i].is.status == SEAT_SOLD && strcmp(store.seats[i].is.user, user) == 0;
    return count;
}

/* Whoever has bought a seat has one until he returns it himself. */
static void
check_given_back(const struct seat_state before[], const char *request)
{
    for (int i = 0; i < store.seat_count; i++) {
        bool gone = before[i].status == SEAT_SOLD && store.seats[i].is.status != SEAT_SOLD;
        bool replaced = gone && fates[number_of(request)].kind != OP_RETURN;
        client_counts.replaced += replaced;
        if (replaced && sold_to(before[i].user) == 0)
            violation("%s leaves %s without a seat", request, before[i].user);
    }
}

/* Where the policy is one seat per user, what he buys takes the place of all that he had. */
static void
check_replaced(const struct seat_state before[], const char *request)
{
    for (int i = 0; i < store.seat_count; i++) {
        const struct seat_state *sold = &store.seats[i].is;
        int bought = 0;
        if (sold->status != SEAT_SOLD || before[i].status == SEAT_SOLD)
            continue;
        for (int j = 0; j < store.seat_count; j++)
            bought += before[j].status != SEAT_SOLD && store.seats[j].is.status == SEAT_SOLD &&
                      strcmp(store.seats[j].is.user, sold->user) == 0;
        if (bought < sold_to(sold->user))
            violation("%s leaves %s with what he had bought before", request, sold->user);
    }
}

void
oracle_sales(const struct seat_state before[], const char *request)
{
    if (number_of(request) == 0)
        return; /* somebody else's */
    check_given_back(before, request);
    if (store.policy.one_seat_per_user)
        check_replaced(before, request);
}

/* --- the rule of the single seat: every choice is tried ---------------------------- */

static bool
bit(unsigned bits, int i)
{
    return (bits >> i & 1) != 0;
}

static bool
are_neighbours(int left, int right)
{
    return left >= 0 && right < store.seat_count &&
           store.seats[left].line == store.seats[right].line && !store.seats[left].aisle_after;
}

/* Those that are free, and have no free neighbour. */
static unsigned
lonely(unsigned gone)
{
    unsigned alone = 0;

    for (int i = 0; i < store.seat_count; i++) {
        bool left = are_neighbours(i - 1, i) && !bit(gone, i - 1);
        bool right = are_neighbours(i, i + 1) && !bit(gone, i + 1);
        if (!bit(gone, i) && !left && !right)
            alone |= 1U << i;
    }
    return alone;
}

static bool
is_live(const struct seat_state *state, int64_t now)
{
    return state->status == SEAT_HELD && (state->in_payment || state->until_us > now);
}

/* In one row, of which these are the seats. */
static bool
row_has_gap(unsigned row, unsigned taken, unsigned mine, unsigned chosen)
{
    unsigned before = lonely(taken | mine) & row;

    if ((lonely(taken | chosen) & row & ~before) == 0)
        return false;
    for (unsigned other = row; other != 0; other = (other - 1) & row)
        if (__builtin_popcount(other) == __builtin_popcount(chosen & row) && (other & taken) == 0 &&
            (lonely(taken | other) & row & ~before) == 0)
            return true;
    return false;
}

bool
leaves_gap(const struct house_state *house, const struct house_choice *choice)
{
    unsigned taken = 0, mine = 0;

    for (int i = 0; i < store.seat_count; i++) {
        const struct seat_state *seat = &house->seats[i];
        bool own = is_live(seat, house->at) && strcmp(seat->user, choice->user) == 0;
        mine |= own ? 1U << i : 0;
        if (!own &&
            (is_live(seat, house->at) || seat->status == SEAT_SOLD || seat->status == SEAT_BLOCKED))
            taken |= 1U << i;
    }
    unsigned chosen = (mine & ~choice->given_up) | choice->taken;
    for (int line = 0; line <= store.seats[store.seat_count - 1].line; line++) {
        unsigned row = 0;
        for (int i = 0; i < store.seat_count; i++)
            row |= store.seats[i].line == line ? 1U << i : 0;
        if ((row & choice->taken) != 0 && row_has_gap(row, taken & row, mine & row, chosen & row))
            return true;
    }
    return false;
}

void
oracle_choice(struct house_state *house, const struct house_choice *choice)
{
    if (leaves_gap(house, choice))
        violation("%s of %s takes seats %#x and leaves one alone", choice->request, choice->user,
                  choice->taken);
    for (int i = 0; i < store.seat_count; i++) {
        if (!bit(choice->taken, i))
            continue;
        house->seats[i] = (struct seat_state){ .status = SEAT_HELD, .until_us = INT64_MAX };
        store_copy_name(house->seats[i].user, slice_of(choice->user));
    }
}

static bool
may_move(enum intent_status from, enum intent_status to)
{
    switch (from) {
    case INTENT_PROCESSING:
        return true;
    case INTENT_PENDING:
        return to != INTENT_PROCESSING && to != INTENT_VOID;
    case INTENT_FAILED:
    case INTENT_EXPIRED:
        return to == INTENT_SUCCEEDED || to == INTENT_REFUND_REQUIRED;
    case INTENT_VOID:
        return to == INTENT_REFUND_REQUIRED;
    case INTENT_SUCCEEDED:
    case INTENT_REFUND_REQUIRED:
        break;
    }
    return false;
}

void
oracle_intent_changes(const struct intent_row *row, const struct intent_state *before,
                      const struct intent_state *after)
{
    char id[UUID_TEXT_BYTES];

    uuid_format(&row->id, id);
    trace("store: payment %s is %s", id, intent_status_word(after->status));
    if (before->exists && !may_move(before->status, after->status))
        violation("payment %s goes from %s to %s", id, intent_status_word(before->status),
                  intent_status_word(after->status));
}

/* Words that say that nothing was changed. */
static bool
denies(enum hf_status status)
{
    return status != HF_OK && status != HF_CREATED && status != HF_OUTCOME_UNKNOWN &&
           status != HF_HOLD_EXPIRED;
}

void
oracle_request_committed(const char *request)
{
    int number = number_of(request);

    if (number > 0 && fates[number].answered && denies(fates[number].heard))
        violation("%s was told %s, and commits now", request, status_code(fates[number].heard));
    fates[number].committed = true;
}

/* --- what was true, and when ---------------------------------------------- */

static int64_t
later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* When the only node knows what it committed, or that it can't know. */
static int64_t
known_alone_at(const struct sim_node *node, const struct past *past)
{
    if (past->since_us - rival_us < HEARTBEAT_US)
        return past->since_us + HEARTBEAT_US;
    if (past->told_us < INT64_MAX)
        return later(past->told_us, node->still_until_us) + HANDLING_US;
    return sim_now_us() - past->since_us < 3 * sim_config.request_timeout
               ? INT64_MAX
               : past->since_us + sim_config.hot_lease;
}

/* Its own: as soon as it has heard that it committed, unless it stood still then. */
static int64_t
own_known_at(const struct sim_node *node, const struct past *past)
{
    int64_t told_us = past->told_us < INT64_MAX ? past->told_us : past->since_us + window_us;

    return later(told_us, node->still_until_us) + HANDLING_US;
}

/*
 * When a node knows a commit at the latest, or knows that it can't know, among several. Another
 * one's: within the window of fanout.h, FANOUT_SILENCE_US + hot_lease after the commit, and because
 * here a message takes a while the longest time that one may take in this seed, and what threads
 * need to take note of it. Where nothing is lost it is told, and comes as soon as its frame does:
 * that may have to wait for the frame before it.
 */
static int64_t
known_at(const struct sim_node *node, const struct past *past)
{
    if (is_at_rest)
        return past->since_us;
    if (past->maker == BY_RIVAL)
        return past->since_us + HEARTBEAT_US;
    if (sim_node_count == 1)
        return known_alone_at(node, past);
    if (past->maker == node->machine)
        return own_known_at(node, past);
    if (is_calm && sim_redis && past->told_us < INT64_MAX)
        return past->told_us + delivery_us;
    return past->since_us + window_us;
}

/* Until when a node may believe the state at `at`: until it could know better. */
static int64_t
believable_until(const struct sim_node *node, const struct history *history, int at)
{
    return at + 1 >= history->count ? INT64_MAX : known_at(node, &history->pasts[at + 1]);
}

/* True in the store itself at some time since `from_us`. */
static bool
stood_since(const struct history *history, int at, int64_t from_us)
{
    return at + 1 >= history->count || history->pasts[at + 1].since_us >= from_us;
}

/* That it was trust in what the others tell, and what it was about. */
static void
count_refusal(const struct sim_node *node, const struct past *past)
{
    bool others = false;

    for (int i = 0; i < sim_node_count; i++)
        others |= i != node->machine && sim_nodes[i].phase == NODE_UP;
    if (!others || !fanout_is_trusted(node->node.fanout))
        return;
    client_counts.refused_trusted++;
    client_counts.refused_by_news += past->maker >= 0 && past->maker != node->machine;
}

static bool
keeps_out(const struct seat_state *state, struct slice user, int64_t then_us)
{
    if (state->status == SEAT_SOLD)
        return true;
    return state->status == SEAT_HELD && !slice_is(user, state->user) &&
           (state->in_payment || state->until_us + CLOCK_US > then_us);
}

/* Memory speaks of now; what a statement found may be as old as the request. */
static void
check_refused_seat(const struct op *op, const struct op_seat *seat, const struct sim_node *node,
                   int64_t from_us)
{
    int at = store_find_seat(seat->id);
    bool hot = op->tier == TIER_HOT;
    int64_t from_db_us = store_now() - (sim_now_us() - from_us);

    if (seat->code != HF_SEAT_TAKEN && seat->code != HF_SEAT_SOLD)
        return;
    hf_assert(at >= 0);
    const struct history *history = &store.histories[at];
    for (int i = history->count - 1; i >= 0; i--) {
        bool then =
            hot ? believable_until(node, history, i) >= from_us : stood_since(history, i, from_us);
        if (!then || !keeps_out(&history->pasts[i].state, op->user, from_db_us))
            continue;
        if (hot)
            count_refusal(node, &history->pasts[i]);
        return;
    }
    violation("%s is refused seat %s (%s, from %s), which nobody has", op->request_id.ptr,
              seat->id.ptr, status_code(seat->code), hot ? "memory" : "Postgres");
}

/* --- answers -------------------------------------------------------------- */

static bool
was_granted(int seat, const struct hold_view *hold)
{
    const struct history *history = &store.histories[seat];

    for (int i = 0; i < history->count; i++) {
        const struct seat_state *state = &history->pasts[i].state;
        if ((state->status == SEAT_HELD || state->status == SEAT_SOLD) &&
            uuid_equal(&state->hold, &hold->hold_id) && slice_is(hold->user, state->user))
            return true;
    }
    return false;
}

/* Each seat of a hold that is shown as active was committed, and is not over. */
static void
check_grant(const struct op *op, const struct sim_node *node)
{
    const struct hold_view *hold = op->hold;
    struct db_time now = { 0 };
    int64_t error_us = 0;

    if (hold->status == HOLD_ACTIVE && hold->line_count == 0)
        violation("%s: an active hold of nothing", op->request_id.ptr);
    for (int i = 0; i < hold->line_count; i++) {
        int seat = store_find_seat(hold->lines[i].seat);
        if (seat < 0 || !was_granted(seat, hold))
            violation("%s is told that it has seat %.*s, which was never committed",
                      op->request_id.ptr, SLICE_ARG(hold->lines[i].seat));
    }
    bool grants = op->kind == OP_HOLD || op->kind == OP_EXTEND;
    if (grants && !op->keyed && hold->status == HOLD_ACTIVE &&
        db_clock_read(node->node.clock, mono_now(), &now, &error_us) &&
        hold->held_until.us + 2 * error_us + CLOCK_US < store_now())
        violation("%s is granted a hold that is over", op->request_id.ptr);
}

static bool
had_seat_since(int seat, struct slice user, int64_t from_us)
{
    const struct history *history = &store.histories[seat];

    for (int i = history->count - 1; i >= 0; i--)
        if (stood_since(history, i, from_us) && history->pasts[i].state.status == SEAT_HELD &&
            slice_is(user, history->pasts[i].state.user))
            return true;
    return false;
}

/* What was told of a payment, or what became of it since. */
static bool
is_told_truly(const struct uuid *intent, enum intent_status told)
{
    const struct intent_row *row = tx_find_intent(NULL, intent);

    return row != NULL && (row->is.status == told || may_move(told, row->is.status) ||
                           (told == INTENT_PROCESSING));
}

static void
check_checkout(const struct op *op)
{
    const struct checkout_view *view = op->checkout;
    const struct checkout_row *row =
        view != NULL ? tx_find_checkout(NULL, &view->checkout_id) : NULL;

    if (row == NULL)
        violation("%s is told of a checkout that was never committed", op->request_id.ptr);
    if (op->kind == OP_CHECKOUT_CANCEL && row->is.status != CHECKOUT_CANCELLED)
        violation("%s is told that its checkout is cancelled, and it is %s", op->request_id.ptr,
                  checkout_status_word(row->is.status));
    bool pays = op->kind == OP_PAY_SETTLE || (op->kind == OP_PAY && !op->same);
    if (pays && !is_told_truly(&op->intent_id,
                               op->kind == OP_PAY ? INTENT_PROCESSING : view->intent_status))
        violation("%s is told that its payment is %s, and that is not so", op->request_id.ptr,
                  intent_status_word(view->intent_status));
}

/* The seat was free, by this request. */
static void
check_returned(const struct op *op)
{
    const struct history *history = &store.histories[store_find_seat(op->seats[0].id)];

    for (int i = 0; i < history->count; i++)
        if (history->pasts[i].state.status == SEAT_AVAILABLE &&
            strcmp(history->pasts[i].request, op->request_id.ptr) == 0)
            return;
    violation("%s hears that seat %s is free again, and it did not become so", op->request_id.ptr,
              op->seats[0].id.ptr);
}

static void
check_yes(const struct op *op, const struct sim_node *node, int64_t asked_us)
{
    int number = number_of(op->request_id.ptr);

    if (op_is_of_checkout(op)) {
        check_checkout(op);
        return;
    }
    check_grant(op, node);
    /* Somebody of the same user may have been faster: what the answer shows is checked below. */
    if (op->kind == OP_RETURN)
        check_returned(op);
    bool nothing_to_do =
        op->same || op->kind == OP_HOLD || (op->kind == OP_PATCH && op->drop_count == 0);
    if (!fates[number].committed && (op->status == HF_CREATED || !nothing_to_do))
        violation("%s hears %s, and nothing was committed for it", op->request_id.ptr,
                  status_code(op->status));
    for (int i = 0; op->kind == OP_HOLD && i < op->seat_count; i++)
        if (!had_seat_since(store_find_seat(op->seats[i].id), op->user, asked_us))
            violation("%s hears %s, and seat %s is not the user's", op->request_id.ptr,
                      status_code(op->status), op->seats[i].id.ptr);
}

/* What this request committed is still there. */
static bool
still_stands(const struct op *op)
{
    for (int i = 0; i < store.seat_count; i++) {
        const struct seat_state *state = &store.seats[i].is;
        if (state->status == SEAT_HELD && uuid_equal(&state->hold, &op->hold_id) &&
            state->until_us > store_now())
            return true;
    }
    return false;
}

static void
check_no(const struct op *op, const struct sim_node *node, int64_t asked_us, int64_t looked_us)
{
    int number = number_of(op->request_id.ptr);
    int64_t from_us = op->tier == TIER_HOT ? looked_us - REFUSAL_US : asked_us;
    bool ours = op->status == HF_STORE_UNAVAILABLE || op->status == HF_OVERLOADED ||
                op->status == HF_SEAT_CONTENDED || op->status == HF_INTERNAL;

    if (fates[number].committed && denies(op->status) &&
        (ours || op->kind != OP_HOLD || still_stands(op)))
        violation("%s (kind %d) committed, and is told %s", op->request_id.ptr, (int)op->kind,
                  status_code(op->status));
    if (op->kind == OP_HOLD && status_http(op->status) < 500)
        for (int i = 0; i < op->seat_count; i++)
            check_refused_seat(op, &op->seats[i], node, from_us);
}

void
oracle_answer(const struct op *op, const struct sim_node *node, int64_t asked_us, int64_t looked_us)
{
    int number = number_of(op->request_id.ptr);

    if (looked_us > sim_now_us())
        looked_us = sim_now_us();
    if (op->status == HF_OK || op->status == HF_CREATED)
        check_yes(op, node, asked_us);
    else if (op->status != HF_OUTCOME_UNKNOWN)
        check_no(op, node, asked_us, looked_us);
    fates[number].answered = true;
    fates[number].heard = op->status;
}

/* --- memory --------------------------------------------------------------- */

static bool
same_state(const struct seat_view *view, const struct seat_state *state)
{
    bool has_hold = state->status == SEAT_HELD || state->status == SEAT_SOLD;

    if (view->status != state->status || view->held_until.us != state->until_us ||
        view->in_payment != state->in_payment)
        return false;
    if (!has_hold)
        return true;
    return uuid_equal(&view->hold_id, &state->hold) &&
           view->user_hash == hash_seeded(state->user, strlen(state->user));
}

static void
check_belief(const struct sim_node *node, int seat, const struct seat_view *view)
{
    const struct history *history = &store.histories[seat];
    const char *id = store.seats[seat].id;
    int at = history->count - 1;

    while (at >= 0 && history->pasts[at].state.version != view->version)
        at--;
    if (at < 0)
        violation("%s believes v%d of seat %s, which was never committed", node->node.id,
                  (int)view->version, id);
    if (!same_state(view, &history->pasts[at].state))
        violation("%s has v%d of seat %s otherwise than the store", node->node.id,
                  (int)view->version, id);
    if (believable_until(node, history, at) < sim_now_us())
        violation("%s still trusts v%d of seat %s, %.3f s after it became v%d", node->node.id,
                  (int)view->version, id,
                  (double)(sim_now_us() - history->pasts[at + 1].since_us) / 1e6,
                  (int)history->pasts[at + 1].state.version);
}

void
oracle_memory(const struct sim_node *node)
{
    struct hot_table *hot = node->node.hot;
    struct db_time now;
    int64_t error_us;

    if (!db_clock_read(node->node.clock, mono_now(), &now, &error_us))
        return;
    int64_t still_us = node->still_until_us;
    for (int i = 0; i < store.seat_count; i++) {
        struct seat_key key = { SLICE_LITERAL(ORG), SLICE_LITERAL(EVENT),
                                slice_of(store.seats[i].id) };
        struct seat_view view;
        if (hot_table_refuses(hot, &key, 1, now, error_us, mono_now(), &view) ||
            hot_table_read(hot, &key, now, error_us, mono_now(), &view)) {
            if (node->still_until_us == still_us) /* else it is what it was when we were asked */
                check_belief(node, i, &view);
        }
    }
}

/* --- payments at rest ----------------------------------------------------- */

static void
check_payment(const struct intent_row *intent)
{
    const struct checkout_row *row = tx_find_checkout(NULL, &intent->checkout);
    char id[UUID_TEXT_BYTES];

    uuid_format(&intent->id, id);
    if (intent->is.status == INTENT_PROCESSING || intent->is.status == INTENT_PENDING)
        violation("payment %s is still %s", id, intent_status_word(intent->is.status));
    bool sold = row->is.status == CHECKOUT_COMPLETED && uuid_equal(&row->is.intent, &intent->id);
    if (sold != (intent->is.status == INTENT_SUCCEEDED))
        violation("payment %s is %s, its checkout is %s", id, intent_status_word(intent->is.status),
                  checkout_status_word(row->is.status));
}

static void
check_sale(const struct checkout_row *row)
{
    struct line_row *lines[LINES_OF_HOLD_MAX];

    for (int i = 0; i < row->is.hold_count; i++) {
        int count = store_lines_of(NULL, &row->is.holds[i], lines), sold = 0;
        for (int l = 0; l < count; l++) {
            sold += lines[l]->is.was_sold;
            if (lines[l]->is.status == HOLD_ACTIVE)
                violation("a hold of a completed checkout has a seat that is not sold");
        }
        if (sold == 0)
            violation("a hold of a completed checkout sold nothing");
    }
}

void
oracle_payments(void)
{
    for (const struct intent_row *row = store.intents; row != NULL; row = row->next_intent)
        if (row->is.exists)
            check_payment(row);
    for (const struct checkout_row *row = store.checkouts; row != NULL; row = row->next_checkout) {
        if (row->is.exists && row->is.status == CHECKOUT_PAYING)
            violation("a checkout of %s is in payment, and nobody asks for it", row->user);
        if (row->is.exists && row->is.status == CHECKOUT_COMPLETED)
            check_sale(row);
    }
    for (int i = 0; i < store.seat_count; i++)
        if (store.seats[i].is.in_payment)
            violation("seat %s stays in payment", store.seats[i].id);
}

/* --- rest ----------------------------------------------------------------- */

void
oracle_quiet(const struct sim_node *node, int64_t late_us)
{
    struct hot_numbers numbers;

    hot_table_validate(node->node.hot);
    hot_table_numbers(node->node.hot, &numbers);
    if (numbers.claims != 0 || numbers.parked != 0)
        violation("nobody asks %s for anything, and there are %d claims and %d parked requests",
                  node->node.id, (int)numbers.claims, (int)numbers.parked);
    for (const struct line_row *line = store.lines; line != NULL; line = line->next_line)
        if (line->is.exists && line->is.status == HOLD_ACTIVE && !line->is.in_payment &&
            line->is.until_us + late_us < store_now())
            violation("a hold of %s on seat %s is over for %.3f s and was not ended", line->is.user,
                      store.seats[line->seat].id, (double)(store_now() - line->is.until_us) / 1e6);
}
