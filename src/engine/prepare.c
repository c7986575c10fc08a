/*
 * prepare.c - what is settled before a transaction begins: deadlines, the events'
 * policies, and which ops may share one transaction.
 *
 * The time of an op, from its last byte to its deadline (request_timeout):
 *   it waits ...  | the last fifth: no transaction is begun for it
 *     a transaction ...  | the last tenth: a lost outcome is learned, or it hears outcome_unknown
 */
#include "engine_internal.h"

#include <string.h>

#include "holdfast/metrics.h"

#define USER_LOCK_SALT 0x75736572 /* keeps users' lock keys apart from other uses of the hash */

int64_t
user_lock_key(struct slice org, struct slice user)
{
    char text[2 * ID_BYTES_MAX + 1];
    hf_assert(org.len <= ID_BYTES_MAX && user.len <= ID_BYTES_MAX);
    memcpy(text, org.ptr, org.len);
    text[org.len] = '/'; /* no id has one */
    memcpy(text + org.len + 1, user.ptr, user.len);
    return (int64_t)hash_stable(text, org.len + 1 + user.len, USER_LOCK_SALT);
}

int64_t
engine_hold_lock(const struct uuid *hold)
{
    return hold_lock_key(hold);
}

int64_t
hold_lock_key(const struct uuid *hold)
{
    uint64_t key = 0; /* the random half of a UUIDv7; lock_user_holds computes the same in SQL */
    for (int i = 8; i < 16; i++)
        key = key << 8 | hold->bytes[i];
    return (int64_t)key;
}

bool
op_needs_user_lock(const struct op *op)
{
    if (op->kind == OP_TRANSFER)
        return true;
    return (op->kind == OP_HOLD || op->kind == OP_PATCH) &&
           (op->area_count > 0 || op->info.policy.max_seats_per_user > 0 ||
            op->info.policy.one_hold_per_user);
}

/* --- time ---------------------------------------------------------------------- */

bool
op_has_time(const struct engine *engine, const struct op *op, struct mono_time now)
{
    return op->deadline.us - now.us >= op_time_least_us(engine);
}

/* The store was away while it waited, a row was locked each time that we tried, or all that was
 * before it took too long. */
enum hf_status
op_late_status(const struct engine *engine, const struct op *op)
{
    if (atomic_load_explicit(&engine->trouble_us, memory_order_relaxed) >= op->received.us)
        return HF_STORE_UNAVAILABLE;
    return op->locked_tries > 0 ? HF_SEAT_CONTENDED : HF_OVERLOADED;
}

struct mono_time
ops_deadline(struct op *const *ops, int count)
{
    hf_assert(count > 0);
    struct mono_time earliest = ops[0]->deadline;
    for (int i = 1; i < count; i++)
        if (ops[i]->deadline.us < earliest.us)
            earliest = ops[i]->deadline;
    return earliest;
}

struct mono_time
ops_store_deadline(const struct engine *engine, struct op *const *ops, int count)
{
    int64_t timeout_us = engine->node->config->request_timeout;
    int64_t earliest_us = ops_deadline(ops, count).us, most_us = mono_now().us + timeout_us;
    if (earliest_us > most_us)
        earliest_us = most_us;
    return (struct mono_time){ earliest_us - timeout_us / SETTLE_TIME_SHARE };
}

/* --- policies ------------------------------------------------------------------ */

enum {
    RP_ORG,
    RP_EVENT,
    RP_VERSION,
    RP_STATUS,
    RP_KIND,
    RP_CURRENCY,
    RP_HOLD_TTL,
    RP_EXTEND_BY,
    RP_MAX_HOLD,
    RP_PER_HOLD,
    RP_PER_USER,
    RP_ONE_HOLD,
    RP_ONE_SEAT,
    RP_NO_GAP
};

static void
learn_policy(struct worker *worker, const struct pg_result *rows, int row, struct mono_time began)
{
    struct event_info info = { .version = pg_get_int(rows, row, RP_VERSION), .read_at = began };
    struct slice currency = pg_get_text(rows, row, RP_CURRENCY);
    if (!event_status_parse(pg_get_text(rows, row, RP_STATUS), &info.status) ||
        !event_kind_parse(pg_get_text(rows, row, RP_KIND), &info.kind))
        return;
    memcpy(info.currency, currency.ptr, currency.len < 3 ? currency.len : 3);
    info.policy = (struct policy){
        .hold_ttl_s = (int32_t)pg_get_int(rows, row, RP_HOLD_TTL),
        .extend_by_s = (int32_t)pg_get_int(rows, row, RP_EXTEND_BY),
        .max_hold_s = (int32_t)pg_get_int(rows, row, RP_MAX_HOLD),
        .max_seats_per_hold = (int32_t)pg_get_int(rows, row, RP_PER_HOLD),
        .max_seats_per_user = (int32_t)pg_get_int(rows, row, RP_PER_USER),
        .one_hold_per_user = pg_get_bool(rows, row, RP_ONE_HOLD),
        .one_seat_per_user = pg_get_bool(rows, row, RP_ONE_SEAT),
        .no_single_seat_gap = pg_get_bool(rows, row, RP_NO_GAP),
    };
    events_learn(worker->node->events, pg_get_text(rows, row, RP_ORG),
                 pg_get_text(rows, row, RP_EVENT), &info);
}

enum pg_outcome
policies_read(struct worker *worker, const struct slice *orgs, const struct slice *events,
              int count, struct mono_time deadline)
{
    struct pg_array *org = worker_array(worker, 0, PG_TEXT);
    struct pg_array *event = worker_array(worker, 1, PG_TEXT);
    struct pg_params params;
    struct pg_result *rows = NULL;
    struct mono_time began = mono_now();

    for (int i = 0; i < count; i++) {
        pg_array_text(org, orgs[i]);
        pg_array_text(event, events[i]);
    }
    pg_params_init(&params);
    pg_param_array(&params, org);
    pg_param_array(&params, event);
    enum pg_outcome outcome = pg_run(worker->pg, STATEMENT_READ_POLICIES, &params, deadline, &rows);
    for (int i = 0; outcome == PG_DONE && i < pg_rows(rows); i++)
        learn_policy(worker, rows, i, began);
    pg_result_free(&rows);
    return outcome;
}

/* True: op->info is known. An op that was judged stale wants a newer version than the one it
 * had. */
static bool
find_policy(struct worker *worker, struct op *op)
{
    struct event_info info;
    if (!events_find(worker->node->events, op->org, op->event, &info))
        return false;
    if (op->info.version != 0 && info.version <= op->info.version)
        return false;
    /* It may be refused by the policy, and without a statement that judges the policy's version. */
    if (op->best != NULL && mono_now().us - info.read_at.us > worker->node->config->hot_lease)
        return false;
    op->info = info;
    return true;
}

/* Reads what is missing. False: the store did not answer. */
static bool
find_policies(struct worker *worker, struct op **ops, int count)
{
    struct slice orgs[BATCH_MOST], events[BATCH_MOST];
    struct mono_time deadline = ops_store_deadline(worker->engine, ops, count);
    int missing = 0;

    for (int i = 0; i < count; i++) {
        if (ops[i]->kind != OP_HOLD || find_policy(worker, ops[i]))
            continue;
        orgs[missing] = ops[i]->org;
        events[missing++] = ops[i]->event;
    }
    if (missing == 0)
        return true;
    if (policies_read(worker, orgs, events, missing, deadline) != PG_DONE)
        return false;
    for (int i = 0; i < count; i++) {
        struct event_info info;
        if (ops[i]->kind != OP_HOLD)
            continue;
        /* Outdated while it was read, it is good enough: the statement judges the version. */
        (void)events_find(worker->node->events, ops[i]->org, ops[i]->event, &info);
        if (info.version > 0)
            ops[i]->info = info;
    }
    return true;
}

/* --- who may go -------------------------------------------------------------------- */

/* What an op hears before any transaction; HF_OK: it may go on. */
static enum hf_status
early_status(const struct op *op)
{
    if (op->prepared > PREPARED_MAX)
        return HF_SEAT_CONTENDED; /* the policy changes faster than we can read it */
    if (op->kind != OP_HOLD)
        return HF_OK;
    if (op->info.version == 0)
        return HF_EVENT_NOT_FOUND;
    if (op->seconds > op->info.policy.max_hold_s)
        return HF_INVALID_FIELD;
    return HF_OK;
}

/* What a wish for the best seats hears before any are chosen, in the order of hold_seats. */
static enum hf_status
best_early_status(const struct op *op)
{
    const struct policy *policy = &op->info.policy;
    bool may_hold =
        op->info.status == EVENT_ON_SALE || (op->privileged && op->info.status != EVENT_CANCELLED);

    if (op->seat_count > 0)
        return HF_OK; /* they are judged */
    if (!may_hold)
        return HF_EVENT_CLOSED;
    if (op->best->quantity > policy->max_seats_per_hold)
        return HF_TOO_MANY_SEATS;
    if (policy->max_seats_per_user > 0 && op->best->quantity > policy->max_seats_per_user)
        return HF_USER_LIMIT;
    return HF_OK;
}

/* Seats for an op that names none. */
static enum best_step
find_seats(struct worker *worker, struct op *op, bool is_alone)
{
    if (op->kind != OP_HOLD || op->best == NULL)
        return BEST_READY;
    enum hf_status status = best_early_status(op);
    return status == HF_OK ? best_prepare(worker, op, is_alone) : best_refuse(worker, op, status);
}

/* Locks that this transaction takes for one op each: no two of its ops may share one. */
struct key_set {
    int count;
    int64_t *keys;
};

static bool
key_set_add(struct key_set *set, int64_t key)
{
    for (int i = 0; i < set->count; i++)
        if (set->keys[i] == key)
            return false;
    set->keys[set->count++] = key;
    return true;
}

int
refuse_late(struct worker *worker, struct op **ops, int count, struct mono_time now)
{
    int left = 0;
    for (int i = 0; i < count; i++) {
        if (op_has_time(worker->engine, ops[i], now))
            ops[left++] = ops[i];
        else
            engine_refuse(worker->engine, ops[i], op_late_status(worker->engine, ops[i]));
    }
    return left;
}

static void
refuse_early(struct worker *worker, struct op *op, enum hf_status status)
{
    if (status == HF_INVALID_FIELD) {
        op->field = "ttl_seconds";
        op_detail(op, "ttl_seconds is above the event's max_hold of %d s",
                  op->info.policy.max_hold_s);
    }
    engine_refuse(worker->engine, op, status);
}

static void
measure_wait(struct op *op, struct mono_time now)
{
    if (op->queued_at.us != 0)
        metric_observe(METRIC_QUEUE_SECONDS, (uint64_t)(now.us - op->queued_at.us));
    op->queued_at.us = 0;
}

/* Who is bound to one event needn't be told first, in a batch, that its confirms come alone. */
static bool
confirms_alone(struct worker *worker, const struct op *op)
{
    struct event_info info;
    return op->kind == OP_CONFIRM && op->bound_event.len > 0 &&
           events_find(worker->node->events, op->org, op->bound_event, &info) &&
           info.policy.one_seat_per_user;
}

/* True if the op may go into the transaction of those whose locks are in the sets. */
static bool
fits(struct worker *worker, struct op *op, int count, struct key_set *users, struct key_set *keys)
{
    op->gap = OP_GAP_GOOD; /* the policy may have had the rule, and not any more */
    if (op->kind == OP_HOLD && (op->grow || op->info.policy.one_hold_per_user))
        op->solo = true;
    if (confirms_alone(worker, op))
        op->solo = true;
    if (op->solo && count > 1)
        return false;
    struct slice user = op->kind == OP_TRANSFER ? op->to_user : op->user;
    return (!op_needs_user_lock(op) || key_set_add(users, user_lock_key(op->org, user))) &&
           (!op->keyed || key_set_add(keys, key_lock_key(op)));
}

int
prepare(struct worker *worker, struct op **ops, int count)
{
    int64_t user_keys[BATCH_MOST], idempotency_keys[BATCH_MOST];
    struct op *back[BATCH_MOST];
    struct key_set users = { 0, user_keys }, keys = { 0, idempotency_keys };
    struct mono_time now = mono_now();
    int ready = 0, put_back = 0;
    bool store = count > 0 && find_policies(worker, ops, count);

    for (int i = 0; i < count; i++) {
        enum hf_status status = store ? early_status(ops[i]) : HF_STORE_UNAVAILABLE;
        measure_wait(ops[i], now);
        enum best_step step = BEST_READY;
        if (status == HF_OK)
            step = find_seats(worker, ops[i], count == 1);
        if (status != HF_OK)
            refuse_early(worker, ops[i], status);
        else if (step == BEST_GONE)
            continue;
        else if (step == BEST_READY && fits(worker, ops[i], count, &users, &keys))
            ops[ready++] = ops[i];
        else
            back[put_back++] = ops[i];
    }
    while (put_back > 0) /* the last first, so that they stand in the queue in their order */
        op_queue_put_back(worker->engine->queue, back[--put_back]);
    return ready;
}
