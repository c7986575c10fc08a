/*
 * expiry.c - from timers that fired to OP_EXPIRE, and what becomes of those that failed.
 *
 * An expiry owns itself: it is freed when the engine sends it. The timer of a hold is
 * disarmed when it fires, so nothing is tried twice at the same time; what came early or
 * met a lock or a store that is away is armed again.
 */
#include <stdlib.h>
#include <string.h>

#include "holdfast/metrics.h"
#include "upkeep_internal.h"

#define RETRY_US       (50 * TIME_US_PER_MS)
#define RETRY_STORE_US (500 * TIME_US_PER_MS)
#define RETRY_FAULT_US                                                                             \
    (1 * (int64_t)TIME_US_PER_S) /* after a fault of ours: it may happen again                     \
                                  */

struct expiry {
    struct op op; /* first: the engine gives it back */
    struct upkeep *upkeep;
    bool has_timer; /* its seat's timer may be armed again; else it is one of a sweep */
    struct slice seat;
};

/* --- one expiry ----------------------------------------------------------------- */

static void
expiry_finish(struct op *op)
{
    (void)op; /* nobody waits for a text */
}

/* Locked: soon. No store: many are over by then, so not that often. 0: the outcome is final. */
static int64_t
retry_in_us(enum hf_status status)
{
    if (status == HF_SEAT_CONTENDED)
        return RETRY_US;
    if (status_http(status) == 503)
        return RETRY_STORE_US;
    return status == HF_INTERNAL ? RETRY_FAULT_US : 0;
}

/*
 * By the timer of the seat that it came from. Its other seats have none any more: when that seat is
 * another hold's by now, the hold gets one of its own, as holds of areas have.
 */
static void
arm_at(const struct expiry *expiry, struct db_time at)
{
    const struct op *op = &expiry->op;
    struct hot_table *hot = expiry->upkeep->node->hot;
    struct seat_key key = { op->org, op->event, expiry->seat };
    char text[1 + UUID_TEXT_BYTES] = "~";
    struct seat_view view = {
        .status = SEAT_HELD, .hold_id = op->hold_id, .held_until = at, .version = 1
    };

    if (hot_table_rearm(hot, &key, &op->hold_id, at))
        return;
    uuid_format(&op->hold_id, text + 1);
    key.seat = slice_of(text);
    hot_table_learn(hot, &key, &view, mono_now(), true);
}

/* What came early (the end moved) is armed for its end, what failed for a while from now. */
static void
arm_again(const struct expiry *expiry)
{
    const struct op *op = &expiry->op;
    int64_t retry_us = retry_in_us(op->status);
    struct db_time now;
    int64_t error_us;

    if (retry_us == 0)
        return;
    if (op->hold != NULL && op->hold->status == HOLD_ACTIVE)
        arm_at(expiry, op->hold->held_until);
    else if (db_clock_read(expiry->upkeep->node->clock, mono_now(), &now, &error_us))
        arm_at(expiry, (struct db_time){ now.us + retry_us });
}

static void
count_reaped(const struct expiry *expiry)
{
    const struct op *op = &expiry->op;
    struct db_time now;
    int64_t error_us;

    if (op->status != HF_OK || op->same)
        return; /* its own node's wheel, or another reaper, was first */
    metric_add(METRIC_HOLDS_REAPED_TOTAL, 1);
    metric_add(METRIC_SEATS_REAPED_TOTAL, (uint64_t)op->changed);
    if (op->ends_at.us > 0 &&
        db_clock_read(expiry->upkeep->node->clock, mono_now(), &now, &error_us) &&
        now.us > op->ends_at.us)
        metric_observe(METRIC_REAPER_LAG_SECONDS, (uint64_t)(now.us - op->ends_at.us));
}

static void
expiry_send(struct op *op)
{
    struct expiry *expiry = (struct expiry *)op;
    struct upkeep *upkeep = expiry->upkeep;

    if (expiry->has_timer)
        arm_again(expiry);
    if (!expiry->has_timer) {
        count_reaped(expiry);
        sweep_part_is_over(upkeep);
    }
    arena_fini(&op->arena);
    free(expiry);
    atomic_fetch_sub(&upkeep->expiring, 1);
}

static bool
copy_names(struct expiry *expiry, struct slice org, struct slice event, const struct slice *seat)
{
    struct op *op = &expiry->op;

    op->org = arena_copy(&op->arena, org);
    op->event = arena_copy(&op->arena, event);
    if (seat != NULL)
        expiry->seat = arena_copy(&op->arena, *seat);
    return op->org.ptr != NULL && op->event.ptr != NULL &&
           (seat == NULL || expiry->seat.ptr != NULL);
}

void
expiry_submit(struct upkeep *upkeep, struct slice org, struct slice event,
              const struct uuid *hold_id, const struct slice *seat)
{
    struct expiry *expiry = calloc(1, sizeof(*expiry));
    if (expiry == NULL || !copy_names(expiry, org, event, seat)) {
        if (expiry != NULL)
            arena_fini(&expiry->op.arena);
        free(expiry);
        if (seat == NULL)
            sweep_part_is_over(upkeep);
        return; /* the reaper finds it again */
    }
    expiry->upkeep = upkeep;
    expiry->has_timer = seat != NULL;
    expiry->op.kind = OP_EXPIRE;
    expiry->op.hold_id = *hold_id;
    expiry->op.privileged = true;
    expiry->op.reason = "ttl_expired";
    expiry->op.received = mono_now();
    expiry->op.deadline.us = expiry->op.received.us + upkeep->node->config->request_timeout;
    expiry->op.finish = expiry_finish;
    expiry->op.send = expiry_send;
    atomic_fetch_add(&upkeep->expiring, 1);
    engine_submit(upkeep->node->engine, &expiry->op);
}

/* --- a turn of the wheels ---------------------------------------------------------- */

#define SLOTS (2 * DUE_AT_ONCE) /* a power of two, at most half full */

/* The last bytes of a UUIDv7 are random. */
static unsigned
slot_of(const struct uuid *hold_id)
{
    unsigned random;

    memcpy(&random, hold_id->bytes + 12, sizeof(random));
    return random % SLOTS;
}

void
expiry_first_of_hold(const struct hot_due *due, int count, bool *first)
{
    int slots[SLOTS]; /* index into due, or -1 */

    hf_assert(count <= DUE_AT_ONCE);
    memset(slots, 0xFF, sizeof(slots));
    for (int i = 0; i < count; i++) {
        unsigned slot = slot_of(&due[i].hold_id);
        while (slots[slot] >= 0 && !uuid_equal(&due[slots[slot]].hold_id, &due[i].hold_id))
            slot = (slot + 1) % SLOTS;
        first[i] = slots[slot] < 0;
        if (first[i])
            slots[slot] = i;
    }
}

static void
submit_due(struct upkeep *upkeep, int count)
{
    bool first[DUE_AT_ONCE];

    expiry_first_of_hold(upkeep->due, count, first);
    for (int i = 0; i < count; i++) {
        const struct hot_due *due = &upkeep->due[i];
        struct slice seat = slice_of(due->seat);
        if (first[i])
            expiry_submit(upkeep, slice_of(due->org), slice_of(due->event), &due->hold_id, &seat);
    }
}

void
expiry_tick(struct upkeep *upkeep)
{
    struct db_time now;
    int64_t error_us;
    int count;

    if (!db_clock_read(upkeep->node->clock, mono_now(), &now, &error_us))
        return;
    do {
        count = hot_table_tick(upkeep->node->hot, now, upkeep->due, DUE_AT_ONCE);
        submit_due(upkeep, count);
    } while (count == DUE_AT_ONCE);
}
