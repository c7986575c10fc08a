/*
 * release_count.c - releases for /metrics, by scenario: how many, how many failed, and for how long
 * the seats had been held.
 */
#include "engine_internal.h"

#include "holdfast/metrics.h"

/* The scenarios A to D of a release. */
enum scenario { EXPIRED, CANCELLED, NOT_PAID, OVERRIDDEN, SCENARIO_COUNT };

static const struct {
    enum metric_counter done, failed;
    enum metric_histogram held;
} metrics[SCENARIO_COUNT] = {
    [EXPIRED] = { METRIC_RELEASES_EXPIRED_TOTAL, METRIC_RELEASES_EXPIRED_FAILED_TOTAL,
                  METRIC_HELD_UNTIL_EXPIRED },
    [CANCELLED] = { METRIC_RELEASES_CANCELLED_TOTAL, METRIC_RELEASES_CANCELLED_FAILED_TOTAL,
                    METRIC_HELD_UNTIL_CANCELLED },
    [NOT_PAID] = { METRIC_RELEASES_NOT_PAID_TOTAL, METRIC_RELEASES_NOT_PAID_FAILED_TOTAL,
                   METRIC_HELD_UNTIL_NOT_PAID },
    [OVERRIDDEN] = { METRIC_RELEASES_OVERRIDDEN_TOTAL, METRIC_RELEASES_OVERRIDDEN_FAILED_TOTAL,
                     METRIC_HELD_UNTIL_OVERRIDDEN },
};

static bool
is_release(const struct op *op)
{
    return op->kind == OP_EXPIRE || op->kind == OP_CANCEL || op->kind == OP_REMOVE ||
           op->kind == OP_RETURN || op->kind == OP_CHECKOUT_CANCEL || op->kind == OP_PAY_SETTLE;
}

static enum scenario
scenario_of(const struct op *op)
{
    if (op->kind == OP_EXPIRE)
        return EXPIRED;
    if (op->kind == OP_PAY_SETTLE)
        return NOT_PAID;
    bool by_admin =
        op->reason != NULL && feed_reason_parse(slice_of(op->reason)) == FEED_ADMIN_OVERRIDE;
    return by_admin ? OVERRIDDEN : CANCELLED;
}

/* That a hold's time has not come yet is no failure of its expiry. */
static bool
has_failed(const struct op *op)
{
    bool is_early = op->kind == OP_EXPIRE && op->ends_at.us > op->judged_at.us;

    return status_http(op->status) >= 500 || (op->status == HF_SEAT_CONTENDED && !is_early);
}

/* A hold that was over by then ended as such, whoever came. */
static void
count_hold(enum scenario scenario, const struct hold_view *hold)
{
    if (hold->status == HOLD_EXPIRED)
        scenario = EXPIRED;
    metric_add(metrics[scenario].done, 1);
    metric_add(METRIC_HOLD_EXPIRATIONS_TOTAL, scenario == EXPIRED);
    if (hold->now.us > hold->created_at.us)
        metric_observe(metrics[scenario].held,
                       (uint64_t)((hold->now.us - hold->created_at.us) / TIME_US_PER_S));
}

void
count_release(const struct op *op)
{
    if (!is_release(op))
        return;
    if (has_failed(op))
        metric_add(metrics[scenario_of(op)].failed, 1);
    if (op->status != HF_OK || op->same)
        return;
    if (op->hold != NULL)
        count_hold(scenario_of(op), op->hold);
    bool ended = op->checkout != NULL && (op->checkout->status == CHECKOUT_CANCELLED ||
                                          op->checkout->status == CHECKOUT_FAILED);
    for (int i = 0; ended && i < op->checkout->hold_count; i++)
        if (op->checkout->holds[i]->ended_now)
            count_hold(scenario_of(op), op->checkout->holds[i]);
}
