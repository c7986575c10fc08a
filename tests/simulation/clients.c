/*
 * clients.c - people who want the same seats: they hold, extend, confirm, cancel, hand on, click
 * twice, use Idempotency-Keys, and ask again when they heard "outcome_unknown".
 *
 * As behind a balancer: a client stays with one node for a while, now and then it comes to another
 * one, and always when its own is down. Each request becomes an op as src/api/holds.c makes it. It
 * must be answered exactly once, and by its deadline (a little later at most), unless the node
 * dies.
 */
#include "clients.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "faults.h"
#include "node.h"
#include "oracle.h"
#include "sim.h"

#define USERS       4
#define HOLDS_KNOWN 24
#define AT_ONCE_MAX 4
#define SEATS_OF_OP 3
#define SLACK_US    (200 * MS) /* how late an answer may be */
#define THINK_US    (400 * MS)
#define BODY_BYTES  200
#define NEVER       INT64_MAX

struct request {
    struct op op; /* first: the engine gives it back */
    struct op_seat seats[SEATS_OF_OP], drop[SEATS_OF_OP];
    struct uuid held; /* the hold that a checkout names */
    char id[NAME_BYTES], key[NAME_BYTES], body[BODY_BYTES];
    int status; /* of the written answer */
    bool replayed, sent, lost, same;
    enum hf_status heard;
    struct sim_node *node; /* who was asked */
    int64_t asked_us, answer_due_us;
    int64_t looked_us; /* memory's answer may be from then: its thread stood still; else NEVER */
};

/* A hold that somebody was told of. */
struct known_hold {
    struct uuid id;
    char user[NAME_BYTES];
    int seat_count, seats[SEATS_OF_OP];
};

/* What was answered under an Idempotency-Key. */
struct known_key {
    struct known_key *next;
    char key[NAME_BYTES], body[BODY_BYTES];
};

struct client_counts client_counts;

static struct known_hold known[HOLDS_KNOWN];
static int known_count;
static struct known_key *known_keys;
static struct request *waiting[256]; /* what the nodes have */
static int waiting_count;
static int64_t request_count;
static bool stopping;
static int alive;

/* --- answers -------------------------------------------------------------- */

/* By the result only: it may be called again. */
static void
request_finish(struct op *op)
{
    struct request *request = (struct request *)op;
    char hold[UUID_TEXT_BYTES] = "-";

    hf_assert((op->status != HF_OK && op->status != HF_CREATED) || op->hold != NULL ||
              op->checkout != NULL);
    if (op->hold != NULL)
        uuid_format(&op->hold->hold_id, hold);
    request->status = status_http(op->status);
    snprintf(request->body, sizeof(request->body), "%s %s %" PRId64, status_code(op->status), hold,
             op->hold != NULL ? op->hold->held_until.us : 0);
}

static void
request_body(struct op *op, int *status, struct slice *type, struct slice *body)
{
    struct request *request = (struct request *)op;

    *status = request->status;
    *type = SLICE_LITERAL("text/plain");
    *body = slice_of(request->body);
}

static void
request_replay(struct op *op, int status, struct slice type, struct slice body)
{
    struct request *request = (struct request *)op;

    (void)type;
    request->status = status;
    request->replayed = true;
    snprintf(request->body, sizeof(request->body), "%.*s", SLICE_ARG(body));
}

static void
remember_hold(const struct op *op)
{
    struct known_hold *hold = &known[known_count++ % HOLDS_KNOWN];

    hold->id = op->hold->hold_id;
    hold->seat_count = 0;
    store_copy_name(hold->user, op->hold->user);
    for (int i = 0; i < op->hold->line_count && hold->seat_count < SEATS_OF_OP; i++)
        hold->seats[hold->seat_count++] = store_find_seat(op->hold->lines[i].seat);
}

/* What is kept under a key is always answered alike. */
static void
check_key(const struct request *request)
{
    struct known_key *key = known_keys;

    if (request->status >= 500 || request->heard == HF_SEAT_CONTENDED ||
        request->heard == HF_REQUEST_IN_PROGRESS || request->status == 429)
        return;
    while (key != NULL && strcmp(key->key, request->key) != 0)
        key = key->next;
    if (key != NULL) {
        if (strcmp(key->body, request->body) != 0)
            violation("%s: key %s was answered \"%s\" before, now \"%s\"", request->id,
                      request->key, key->body, request->body);
        return;
    }
    key = calloc(1, sizeof(*key));
    hf_assert(key != NULL);
    snprintf(key->key, sizeof(key->key), "%s", request->key);
    snprintf(key->body, sizeof(key->body), "%s", request->body);
    key->next = known_keys;
    known_keys = key;
}

static void
count_answer(const struct request *request)
{
    const struct op *op = &request->op;

    client_counts.lonely += op->status == HF_SINGLE_SEAT_GAP;
    client_counts.returned += op->kind == OP_RETURN && op->status == HF_OK;
    if (op->status == HF_CREATED)
        client_counts.created++;
    else if (op->status == HF_OK)
        client_counts.done++;
    else if (op->status == HF_OUTCOME_UNKNOWN)
        client_counts.unknown++;
    else if (status_http(op->status) >= 500)
        client_counts.unavailable++;
    else if (op->tier == TIER_HOT)
        client_counts.refused_hot++;
    else
        client_counts.refused++;
}

static void
forget_waiting(struct request *request)
{
    int left = 0;

    for (int i = 0; i < waiting_count; i++)
        if (waiting[i] != request)
            waiting[left++] = waiting[i];
    waiting_count = left;
}

static void
request_send(struct op *op)
{
    struct request *request = (struct request *)op;

    if (request->sent)
        violation("%s is answered twice", request->id);
    request->sent = true;
    request->heard = op->status;
    request->same = op->same;
    trace("answer: %s %s%s%s", request->id, request->body, request->replayed ? " replayed" : "",
          op->tier == TIER_HOT ? " from memory" : "");
    if (!request->replayed)
        oracle_answer(op, request->node, request->asked_us, request->looked_us);
    if (op->keyed)
        check_key(request);
    if (!request->replayed && op->hold != NULL && op->hold->status == HOLD_ACTIVE)
        remember_hold(op);
    count_answer(request);
    forget_waiting(request);
    arena_fini(&op->arena);
    fiber_wake_all(&request->sent);
}

void
clients_node_died(const struct sim_node *node)
{
    for (int i = waiting_count - 1; i >= 0; i--) {
        struct request *request = waiting[i];
        if (request->node != node)
            continue;
        request->lost = true;
        client_counts.lost++;
        forget_waiting(request);
        fiber_wake_all(&request->sent);
    }
}

/* Its own deadline has come by then, too; what it looked up before it stood still it may say
 * after. */
static void
bear_with(struct request *request)
{
    int64_t still_us = request->node->still_until_us + SLACK_US;

    if (request->answer_due_us < still_us)
        request->answer_due_us = still_us;
}

void
clients_node_stands_still(const struct sim_node *node)
{
    for (int i = 0; i < waiting_count; i++) {
        struct request *request = waiting[i];
        if (request->node != node)
            continue;
        bear_with(request);
        if (request->looked_us > sim_now_us())
            request->looked_us = sim_now_us();
    }
}

int64_t
clients_unanswered(const struct sim_node *node)
{
    int64_t count = 0;

    for (int i = 0; i < waiting_count; i++)
        count += waiting[i]->node == node;
    return count;
}

/* --- requests ------------------------------------------------------------- */

static struct request *
request_new(enum op_kind kind, const char *user)
{
    struct request *request = calloc(1, sizeof(*request));
    struct op *op = &request->op;

    hf_assert(request != NULL);
    snprintf(request->id, sizeof(request->id), "q%" PRId64, ++request_count);
    op->kind = kind;
    op->org = SLICE_LITERAL(ORG);
    op->user = op->actor = slice_of(user);
    op->request_id = slice_of(request->id);
    op->event = op->cart_token = op->source = op->customer_email = SLICE_EMPTY;
    op->notes = op->to_user = SLICE_EMPTY;
    op->seats = request->seats;
    op->drop = request->drop;
    op->finish = request_finish;
    op->send = request_send;
    op->answer = request_body;
    op->replay = request_replay;
    return request;
}

static void
request_add_seat(struct op_seat *seats, int *count, int seat)
{
    struct slice id = slice_of(store.seats[seat].id);

    for (int i = 0; i < *count; i++)
        if (slice_equal(seats[i].id, id))
            return;
    seats[(*count)++] = (struct op_seat){ .id = id, .expect_version = -1 };
}

static void
use_key(struct request *request, const char *key, uint8_t digest)
{
    struct op *op = &request->op;

    snprintf(request->key, sizeof(request->key), "%s", key);
    op->keyed = true;
    op->key = slice_of(request->key);
    op->key_method = SLICE_LITERAL("POST");
    op->key_path = SLICE_LITERAL("/api/holds");
    memset(op->key_digest, digest, sizeof(op->key_digest));
}

static struct request *
want_seats(const char *user)
{
    struct request *request = request_new(OP_HOLD, user);
    struct op *op = &request->op;
    int64_t count = chance_one_in(3) ? chance_between(2, SEATS_OF_OP) : 1;

    op->event = SLICE_LITERAL(EVENT);
    op->cart_token = SLICE_LITERAL("cart");
    op->source = SLICE_LITERAL("web");
    op->hold_id = uuid_v7_new();
    while (count-- > 0)
        request_add_seat(request->seats, &op->seat_count, (int)chance_below(store.seat_count));
    if (chance_one_in(12)) {
        char key[NAME_BYTES];
        snprintf(key, sizeof(key), "k%" PRId64, request_count);
        use_key(request, key, 1);
    }
    return request;
}

/* The same click once more. */
static struct request *
ask_again(const struct request *first)
{
    struct request *request = request_new(first->op.kind, first->op.user.ptr);
    struct op *op = &request->op;

    if (first->op.kind == OP_HOLD ||
        first->op.kind == OP_RETURN) /* of others the engine has set it */
        op->event = SLICE_LITERAL(EVENT);
    op->cart_token = first->op.cart_token;
    op->source = first->op.source;
    op->hold_id = first->op.kind == OP_HOLD ? uuid_v7_new() : first->op.hold_id;
    op->reason = first->op.reason;
    op->to_user = first->op.to_user;
    op->privileged = first->op.privileged;
    op->seconds = first->op.seconds;
    for (int i = 0; i < first->op.seat_count; i++)
        request->seats[op->seat_count++] =
            (struct op_seat){ .id = first->seats[i].id,
                              .expect_version = first->seats[i].expect_version };
    for (int i = 0; i < first->op.drop_count; i++)
        request->drop[op->drop_count++] =
            (struct op_seat){ .id = first->drop[i].id, .expect_version = -1 };
    if (first->op.keyed)
        use_key(request, first->key, first->op.key_digest[0]);
    return request;
}

static const char *const user_names[USERS] = { "ann", "bob", "cyd", "dan" };

static enum op_kind
change_kind(void)
{
    static const enum op_kind kinds[] = { OP_EXTEND, OP_EXTEND, OP_CANCEL,   OP_CANCEL, OP_CONFIRM,
                                          OP_REMOVE, OP_PATCH,  OP_TRANSFER, OP_CANCEL };

    return kinds[chance_below(sizeof(kinds) / sizeof(kinds[0]))];
}

static struct request *
change_hold(const char *user)
{
    const struct known_hold *hold =
        &known[chance_below(known_count < HOLDS_KNOWN ? known_count : HOLDS_KNOWN)];
    struct request *request = request_new(change_kind(), chance_one_in(10) ? user : user_names[0]);
    struct op *op = &request->op;
    int one = hold->seats[chance_below(hold->seat_count)];

    for (int i = 0; i < USERS && !chance_one_in(10); i++)
        if (strcmp(user_names[i], hold->user) == 0)
            op->user = op->actor = slice_of(user_names[i]);
    op->hold_id = hold->id;
    op->reason = op->kind == OP_CANCEL || op->kind == OP_REMOVE || op->kind == OP_PATCH
                     ? "user_cancelled"
                     : NULL;
    if (op->kind == OP_TRANSFER)
        op->to_user = slice_of(user_names[chance_below(USERS)]);
    if (op->kind == OP_REMOVE || op->kind == OP_PATCH)
        request_add_seat(request->drop, &op->drop_count, one);
    if (op->kind == OP_PATCH)
        request_add_seat(request->seats, &op->seat_count, (int)chance_below(store.seat_count));
    if (op->kind == OP_PATCH && slice_equal(request->seats[0].id, request->drop[0].id))
        op->drop_count = 0;
    return request;
}

/* Whatever seat it is, and whoever has it: of oneself, or an agent's doing. */
static struct request *
return_seat(const char *user)
{
    bool by_agent = chance_one_in(6);
    struct request *request = request_new(OP_RETURN, by_agent && chance_one_in(2) ? "" : user);
    struct op *op = &request->op;

    op->event = SLICE_LITERAL(EVENT);
    op->actor = slice_of(by_agent ? "agent" : user);
    op->privileged = by_agent;
    request_add_seat(request->seats, &op->seat_count, (int)chance_below(store.seat_count));
    return request;
}

/* One that is up; NULL: there is none. *node, if it is up, unless chance has it otherwise. */
static struct sim_node *
choose_node(struct sim_node *node)
{
    struct sim_node *up[MACHINES];
    int count = 0;

    if (node != NULL && node->phase == NODE_UP && !chance_one_in(4))
        return node;
    for (int i = 0; i < sim_node_count; i++)
        if (sim_nodes[i].phase == NODE_UP)
            up[count++] = &sim_nodes[i];
    return count > 0 ? up[chance_below(count)] : NULL;
}

static void
hand_in(struct request *request, struct sim_node *node)
{
    struct op *op = &request->op;

    request->node = node;
    request->asked_us = sim_now_us();
    request->answer_due_us = request->asked_us + sim_config.request_timeout + SLACK_US;
    request->looked_us = NEVER;
    bear_with(request);
    op->received = machine_time(node->machine, request->asked_us);
    op->deadline.us = op->received.us + sim_config.request_timeout;
    hf_assert(waiting_count < (int)(sizeof(waiting) / sizeof(waiting[0])));
    waiting[waiting_count++] = request;
    client_counts.asked++;
    oracle_asked(op);
    trace("ask: %s %s %s kind %d%s %.*s%s%.*s", node->node.id, request->id, op->user.ptr,
          (int)op->kind, op->keyed ? " keyed" : "",
          (int)(op->seat_count > 0 ? request->seats[0].id.len : 0),
          op->seat_count > 0 ? request->seats[0].id.ptr : "", op->seat_count > 1 ? "," : "",
          (int)(op->seat_count > 1 ? request->seats[1].id.len : 0),
          op->seat_count > 1 ? request->seats[1].id.ptr : "");
    node_submit(node, op);
}

static void
await(struct request *request)
{
    while (!request->sent && !request->lost && sim_now_us() < request->answer_due_us)
        fiber_wait(&request->sent, request->answer_due_us);
    if (!request->sent && !request->lost)
        violation("%s (kind %d) is not answered %.3f s after its deadline", request->id,
                  (int)request->op.kind, (double)SLACK_US / 1e6);
}

/* --- checkouts -------------------------------------------------------------- */

static struct request *
ask(struct request *request, struct sim_node *node)
{
    hand_in(request, node);
    await(request);
    return request;
}

static struct request *
of_checkout(enum op_kind kind, const char *user, const struct uuid *checkout)
{
    struct request *request = request_new(kind, user);

    request->op.event = SLICE_LITERAL(EVENT);
    request->op.checkout_id = *checkout;
    return request;
}

/* What somebody says about a payment: who asked the provider, its webhook, or upkeep. */
static struct request *
word_about(const struct uuid *intent, enum payment_outcome outcome, const char *provider_key)
{
    struct request *request = request_new(OP_PAY_SETTLE, "");

    request->op.org = SLICE_EMPTY;
    request->op.user = request->op.actor = SLICE_EMPTY;
    request->op.intent_id = *intent;
    request->op.outcome = outcome;
    request->op.provider_key = slice_of(provider_key);
    return request;
}

static enum payment_outcome
draw_outcome(void)
{
    static const enum payment_outcome outcomes[] = { PAYMENT_PAID,      PAYMENT_PAID,
                                                     PAYMENT_PAID,      PAYMENT_DECLINED,
                                                     PAYMENT_UNDECIDED, PAYMENT_UNDECIDED,
                                                     PAYMENT_UNREACHED, PAYMENT_TIMED_OUT };

    return outcomes[chance_below(sizeof(outcomes) / sizeof(outcomes[0]))];
}

/* Webhooks: some at once, in any order, the same ones again, after a while. */
static void
deliver(const struct uuid *intent)
{
    static const char *const keys[] = { "d1", "d2", "d3" };
    struct request *requests[AT_ONCE_MAX];
    int count = 0, wanted = (int)chance_between(1, AT_ONCE_MAX);
    struct sim_node *node;

    fiber_sleep(chance_one_in(3) ? chance_below(store.policy.hold_ttl_s * S) : chance_below(S / 5));
    while (count < wanted && (node = choose_node(NULL)) != NULL) {
        requests[count] = word_about(intent, chance_one_in(3) ? PAYMENT_DECLINED : PAYMENT_PAID,
                                     keys[chance_below(3)]);
        hand_in(requests[count++], node);
    }
    for (int i = 0; i < count; i++)
        await(requests[i]);
}

static void
pay(const char *user, const struct uuid *checkout, struct sim_node *node)
{
    struct request *request = of_checkout(OP_PAY, user, checkout);
    struct uuid intent = uuid_v7_new();

    request->op.intent_id = intent;
    request->op.provider = "simulated";
    request->op.method = SLICE_LITERAL("tok");
    client_counts.payments++;
    ask(request, node);
    bool begun = request->heard == HF_OK && !request->same;
    if (begun && (node = choose_node(node)) != NULL)
        ask(word_about(&intent, draw_outcome(), ""), node);
    if (begun || request->lost)
        for (int times = (int)chance_below(3); times > 0; times--)
            deliver(&intent);
}

/* Of one hold, or of all that the user has; begun, and then paid, given up or left alone. */
static void
check_out(const char *user, struct sim_node *node)
{
    struct uuid checkout = uuid_v7_new();
    struct request *request = of_checkout(OP_CHECKOUT_START, user, &checkout);
    const struct known_hold *hold =
        &known[chance_below(known_count < HOLDS_KNOWN ? known_count : HOLDS_KNOWN)];

    if (chance_one_in(2) && strcmp(hold->user, user) == 0) {
        request->held = hold->id;
        request->op.holds = &request->held;
        request->op.hold_count = 1;
    }
    client_counts.checkouts++;
    ask(request, node);
    if (chance_one_in(3))
        fiber_sleep(chance_below(S));
    if ((request->heard != HF_CREATED && !request->lost) || (node = choose_node(node)) == NULL)
        return;
    if (chance_one_in(5)) {
        request = of_checkout(OP_CHECKOUT_CANCEL, user, &checkout);
        request->op.reason = "user_cancelled";
        ask(request, node);
    } else if (!chance_one_in(8)) {
        pay(user, &checkout, node);
    }
}

static const struct intent_row *
undecided(void)
{
    const struct intent_row *row = store.intents;

    while (row != NULL && !(row->is.exists && (row->is.status == INTENT_PROCESSING ||
                                               row->is.status == INTENT_PENDING)))
        row = row->next_intent;
    return row;
}

void
clients_settle_payments(void)
{
    const struct intent_row *row;
    int64_t end_us = sim_now_us() + 60 * S;

    while ((row = undecided()) != NULL) {
        struct sim_node *node = choose_node(NULL);
        if (sim_now_us() > end_us)
            violation("a payment can't be settled");
        if (node != NULL)
            ask(word_about(&row->id, PAYMENT_TIMED_OUT, ""), node);
        fiber_sleep(10 * MS);
    }
}

/* --- a client's life ------------------------------------------------------ */

/* As long as nobody knows, and somebody is there to be asked. */
static void
ask_until_known(const struct request *first, struct sim_node *node)
{
    bool doubtful = first->lost || first->heard == HF_OUTCOME_UNKNOWN;

    for (int tries = 0; doubtful && tries < 3; tries++) {
        if ((node = choose_node(node)) == NULL)
            return;
        struct request *again = ask_again(first);
        hand_in(again, node);
        await(again);
        doubtful = again->lost || again->heard == HF_OUTCOME_UNKNOWN;
    }
}

/* Some requests at once: the same twice, or different ones, also of others; some of them by way of
 * another node. */
static void
click(const char *user, struct sim_node *node)
{
    struct request *requests[AT_ONCE_MAX];
    int count = chance_one_in(4) ? (int)chance_between(2, AT_ONCE_MAX) : 1;

    for (int i = 0; i < count; i++) {
        if (i > 0 && chance_one_in(2))
            requests[i] = ask_again(requests[0]);
        else if (chance_one_in(6))
            requests[i] = return_seat(user);
        else if (known_count > 0 && chance_one_in(2))
            requests[i] = change_hold(user);
        else
            requests[i] = want_seats(i > 0 ? user_names[chance_below(USERS)] : user);
        hand_in(requests[i], choose_node(node));
    }
    for (int i = 0; i < count; i++)
        await(requests[i]);
    ask_until_known(requests[0], node);
}

/* All that the user has, at once, and by way of all nodes: what one buys takes the place of
 * another. */
static void
buy_all(const char *user)
{
    struct request *requests[AT_ONCE_MAX];
    struct sim_node *node;
    int count = 0, last = known_count < HOLDS_KNOWN ? known_count : HOLDS_KNOWN;

    for (int i = 0; i < last && count < AT_ONCE_MAX; i++) {
        if (strcmp(known[i].user, user) != 0 || (node = choose_node(NULL)) == NULL)
            continue;
        requests[count] = request_new(OP_CONFIRM, user);
        requests[count]->op.hold_id = known[i].id;
        hand_in(requests[count++], node);
    }
    for (int i = 0; i < count; i++)
        await(requests[i]);
}

static void *
client_main(void *argument)
{
    const char *user = argument;
    struct sim_node *node = NULL;

    while (!stopping) {
        fiber_sleep(chance_one_in(5) ? chance_below(2 * MS) : chance_below(THINK_US));
        if (stopping || (node = choose_node(node)) == NULL)
            continue;
        if (known_count > 0 && chance_one_in(4))
            check_out(user, node);
        else if (chance_one_in(12))
            buy_all(user);
        else
            click(user, node);
    }
    alive--;
    return NULL;
}

void
clients_start(int count)
{
    for (int i = 0; i < count; i++, alive++)
        fiber_start("client", GROUP_WORLD, 0, client_main, (void *)user_names[i % USERS]);
}

void
clients_stop(void)
{
    stopping = true;
}

int
clients_alive(void)
{
    return alive;
}

/* While all rests: would one more seat leave a single one alone? */
static bool
would_leave_gap(const char *user, int seat)
{
    struct house_state house = { .at = store_now() };
    struct house_choice choice = { .user = user, .taken = 1U << seat };

    for (int i = 0; i < store.seat_count; i++)
        house.seats[i] = store.seats[i].is;
    return store.policy.no_single_seat_gap && leaves_gap(&house, &choice);
}

void
clients_take_all(void)
{
    for (int seat = 0; seat < store.seat_count; seat++) {
        if (store.seats[seat].is.status == SEAT_SOLD)
            continue;
        struct request *request = request_new(OP_HOLD, "eve");
        request->op.privileged = true;
        request->op.event = SLICE_LITERAL(EVENT);
        request->op.cart_token = SLICE_LITERAL("cart");
        request->op.source = SLICE_LITERAL("web");
        request->op.hold_id = uuid_v7_new();
        request_add_seat(request->seats, &request->op.seat_count, seat);
        hand_in(request, choose_node(NULL));
        await(request);
        bool limited = store.policy.one_hold_per_user || request->heard == HF_USER_LIMIT;
        bool lonely = request->heard == HF_SINGLE_SEAT_GAP && would_leave_gap("eve", seat);
        if (request->heard != HF_CREATED && !limited && !lonely)
            violation("seat %s stays unsellable: %s", store.seats[seat].id,
                      status_code(request->heard));
        if (request->heard == HF_USER_LIMIT)
            return;
    }
}
