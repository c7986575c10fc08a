/*
 * admin_release_ops.c - holds that an administrator releases, through the engine.
 *
 * They are ops as everybody's, in transactions of the workers, and only a few are under way at a
 * time: that many stand before a new hold in the queue, however big the release is. What the engine
 * could not do for want of the store is tried again for as long as anything moves.
 */
#include "admin_release.h"

#include "holdfast/lock.h"
#include "holdfast/thread.h"

/* So few stand before a new hold: tests/fault/test_release_event.py measures what new holds wait
 * beside a release of 20,000 seats (p99 1.1 to 1.5 times what it is without, 10 s; with 16 under
 * way 1.5 to 2.2 and 7 s, with 32 2.0 to 2.5 and 6 s). */
#define UNDER_WAY_MAX 8

struct release_ops;

struct slot {
    struct op op; /* first: the engine gives it back */
    struct release_ops *ops;
    struct release_target *target;
    struct slot *next;
};

struct release_ops {
    struct release *release;
    const struct op *model;
    struct release_target *waiting; /* to be submitted, maybe once more */
    struct slot slots[UNDER_WAY_MAX];
    struct slot *idle;
    int under_way;
    struct mono_time moved_at; /* when something was decided last */
    enum hf_status trouble;    /* what was heard since instead; HF_OK: nothing */

    /* guarded by lock */
    struct lock lock; /* rank RELEASE */
    pthread_cond_t some_answered;
    struct slot *answered;
};

/* --- there ------------------------------------------------------------------------ */

/* The result is read once it was sent: nothing is written for it. */
static void
no_finish(struct op *op)
{
    (void)op;
}

/* The last look at the slot from here; another thread takes it. */
static void
op_answered(struct op *op)
{
    struct slot *slot = (struct slot *)op;
    struct release_ops *ops = slot->ops;

    lock_take(&ops->lock);
    slot->next = ops->answered;
    ops->answered = slot;
    pthread_cond_signal(&ops->some_answered);
    lock_drop(&ops->lock);
}

static void
fill_op(const struct release_ops *ops, const struct release_target *target, struct op *op)
{
    bool is_whole = target->seat_count == 0 || target->is_over;

    *op = *ops->model;
    op->kind = is_whole ? OP_CANCEL : OP_REMOVE;
    op->hold_id = target->hold_id;
    op->drop_count = is_whole ? 0 : target->seat_count;
    op->drop = target->seats;
    op->notes = ops->release->notes;
    op->reason = RELEASE_REASON;
    op->received = mono_now();
    op->deadline.us = op->received.us + ops->release->call->api->node->config->request_timeout;
    op->finish = no_finish;
    op->send = op_answered;
}

static void
submit_waiting(struct release_ops *ops)
{
    while (ops->idle != NULL && ops->waiting != NULL) {
        struct slot *slot = ops->idle;
        ops->idle = slot->next;
        slot->target = ops->waiting;
        ops->waiting = slot->target->next;
        fill_op(ops, slot->target, &slot->op);
        ops->under_way++;
        engine_submit(ops->release->call->api->node->engine, &slot->op);
    }
}

/* --- and back ---------------------------------------------------------------------- */

static int64_t
units_of(const struct hold_view *hold)
{
    int64_t units = 0;

    for (int i = 0; i < hold->line_count; i++)
        units += hold->lines[i].quantity;
    return units;
}

/* A hold that ended before is nobody's any more, unless it was this very release that ended it. */
static enum hf_status
verdict_of_cancel(const struct op *op, const struct release_target *target)
{
    bool may_be_ours = !op->same || op->may_have_run || target->is_unknown;

    if (op->hold->status == HOLD_EXPIRED)
        return HF_HOLD_EXPIRED;
    return may_be_ours && slice_is(op->hold->reason, RELEASE_REASON) ? HF_OK : HF_HOLD_NOT_ACTIVE;
}

/* What became of the target, and how many seats it freed. HF_ACCEPTED: that is not decided yet. */
static enum hf_status
judge(struct release_ops *ops, const struct op *op, struct release_target *target, int64_t *seats)
{
    if (status_http(op->status) == 503) {
        ops->trouble = op->status;
        target->is_unknown |= op->status == HF_OUTCOME_UNKNOWN;
        return HF_ACCEPTED;
    }
    if (op->kind == OP_REMOVE && op->status == HF_HOLD_EXPIRED) {
        target->is_over = true;
        return HF_ACCEPTED;
    }
    if (op->status != HF_OK)
        return op->status;
    if (op->kind == OP_REMOVE) {
        *seats = target->seat_count;
        return HF_OK;
    }
    *seats = units_of(op->hold);
    return verdict_of_cancel(op, target);
}

static void
take_back(struct release_ops *ops, struct slot *slot)
{
    struct release_target *target = slot->target;
    int64_t seats = 0;
    enum hf_status verdict = judge(ops, &slot->op, target, &seats);

    arena_fini(&slot->op.arena);
    slot->next = ops->idle;
    ops->idle = slot;
    ops->under_way--;
    if (verdict == HF_ACCEPTED) {
        target->next = ops->waiting;
        ops->waiting = target;
        return;
    }
    ops->moved_at = mono_now();
    ops->trouble = HF_OK;
    release_decided(ops->release, target, verdict, seats);
}

static struct slot *
await_answers(struct release_ops *ops)
{
    lock_take(&ops->lock);
    while (ops->answered == NULL)
        lock_wait(&ops->lock, &ops->some_answered, -1); /* each has a deadline */
    struct slot *answered = ops->answered;
    ops->answered = NULL;
    lock_drop(&ops->lock);
    return answered;
}

static void
take_answers(struct release_ops *ops)
{
    struct slot *next;

    for (struct slot *slot = await_answers(ops); slot != NULL; slot = next) {
        next = slot->next;
        take_back(ops, slot);
    }
    if (ops->trouble != HF_OK)
        sleep_us(RELEASE_PAUSE_US);
}

/* --- all of them -------------------------------------------------------------------- */

enum hf_status
release_may_go_on(const struct release *release, struct mono_time since, enum hf_status trouble)
{
    struct mono_time now = mono_now();

    if (atomic_load(&release->call->api->phase) >= API_DRAINING)
        return HF_DRAINING;
    if (trouble != HF_OK && now.us - since.us > RELEASE_PATIENCE_US)
        return trouble;
    return now.us < release->until.us ? HF_OK : HF_OVERLOADED;
}

static void
ops_init(struct release_ops *ops, struct release_target *targets, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        targets[i].next = ops->waiting;
        ops->waiting = &targets[i];
    }
    for (int i = 0; i < UNDER_WAY_MAX; i++) {
        ops->slots[i].ops = ops;
        ops->slots[i].next = ops->idle;
        ops->idle = &ops->slots[i];
    }
    lock_init(&ops->lock, LOCK_RELEASE);
    lock_cond_init(&ops->some_answered);
}

/* Law 7: of what was not decided some may have been done. */
static bool
some_may_be_done(const struct release_ops *ops)
{
    for (const struct release_target *target = ops->waiting; target != NULL; target = target->next)
        if (target->is_unknown)
            return true;
    return false;
}

enum hf_status
release_targets(struct release *release, const struct op *model, struct release_target *targets,
                int count)
{
    struct release_ops ops = { .release = release, .model = model, .moved_at = mono_now() };
    enum hf_status status = HF_OK;

    ops_init(&ops, targets, count);
    while (ops.under_way > 0 || (status == HF_OK && ops.waiting != NULL)) {
        if (status == HF_OK)
            submit_waiting(&ops);
        take_answers(&ops);
        if (status == HF_OK && ops.waiting != NULL)
            status = release_may_go_on(release, ops.moved_at, ops.trouble);
    }
    hf_must(pthread_cond_destroy(&ops.some_answered));
    lock_fini(&ops.lock);
    return status != HF_OK && some_may_be_done(&ops) ? HF_OUTCOME_UNKNOWN : status;
}
