/*
 * settle.c - OP_PAY_SETTLE of the room's own: when nobody waits for the provider's answer any more.
 *
 * The op owns itself and is freed when the engine sends it; it refers to nothing of the room, so
 * the room may be gone by then.
 */
#include <stdlib.h>

#include "holdfast/log.h"
#include "payments_internal.h"

static void
settle_finish(struct op *op)
{
    (void)op; /* nobody waits for a text */
}

static void
settle_send(struct op *op)
{
    char intent[UUID_TEXT_BYTES];

    uuid_format(&op->intent_id, intent);
    if (status_http(op->status) >= 500)
        LOG_EVENT(LOG_WARN, "payment_not_settled", log_text("intent", intent),
                  log_text("code", status_code(op->status)),
                  log_text("hint", "the provider is asked again when the intent is due"));
    arena_fini(&op->arena);
    free(op);
}

static bool
copy_names(struct op *op, const struct payment *payment)
{
    op->org = arena_copy(&op->arena, payment->org);
    op->event = arena_copy(&op->arena, payment->event);
    op->user = arena_copy(&op->arena, payment->user);
    return op->org.ptr != NULL && op->event.ptr != NULL && op->user.ptr != NULL;
}

void
payments_settle(struct payments *room, const struct payment *payment, enum payment_outcome outcome)
{
    struct op *op = calloc(1, sizeof(*op));
    if (op == NULL || !copy_names(op, payment)) {
        if (op != NULL)
            arena_fini(&op->arena);
        free(op);
        return; /* the intent stays due */
    }
    op->kind = OP_PAY_SETTLE;
    op->privileged = true; /* actor is empty: it is the system that says so */
    op->intent_id = payment->intent_id;
    op->outcome = outcome;
    op->received = mono_now();
    op->deadline.us = op->received.us + room->node->config->request_timeout;
    op->finish = settle_finish;
    op->send = settle_send;
    engine_submit(room->node->engine, op);
}
