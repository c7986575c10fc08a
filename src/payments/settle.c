/*
 * settle.c - OP_PAY_SETTLE of the room's own: when nobody waits for the provider's answer any more.
 *
 * The op owns itself and is freed when the engine sends it. What is paid, it refers to the call: a
 * success that the engine couldn't store is tried again, since nobody else may ever ask for it (its
 * intent may have expired meanwhile). The room is there until the engine has ended all its ops.
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
log_not_settled(const struct uuid *intent_id, enum hf_status status, const char *hint)
{
    char intent[UUID_TEXT_BYTES];

    uuid_format(intent_id, intent);
    LOG_EVENT(LOG_WARN, "payment_not_settled", log_text("intent", intent),
              log_text("code", status_code(status)), log_text("hint", hint));
}

static bool
is_settled(enum hf_status status)
{
    return status_http(status) < 500 && status != HF_SEAT_CONTENDED;
}

static void
settle_send(struct op *op)
{
    if (!is_settled(op->status))
        log_not_settled(&op->intent_id, op->status,
                        "the provider is asked again when the intent is due");
    arena_fini(&op->arena);
    free(op);
}

/* The first failure is logged, and that no other try follows. */
static void
settle_paid_send(struct op *op)
{
    struct payment_call *call = op->context;
    struct uuid intent_id = op->intent_id;
    enum hf_status status = op->status;
    bool is_first = call->tries == 1;

    arena_fini(&op->arena);
    free(op);
    bool again = payment_call_settled(call, is_settled(status)); /* it may be gone */
    if (!is_settled(status) && !again)
        log_not_settled(&intent_id, status, "it is paid; a late webhook or the last ask tells");
    else if (!is_settled(status) && is_first)
        log_not_settled(&intent_id, status, "it is paid, and tried again");
}

static bool
copy_names(struct op *op, const struct payment *payment)
{
    op->org = arena_copy(&op->arena, payment->org);
    op->event = arena_copy(&op->arena, payment->event);
    op->user = arena_copy(&op->arena, payment->user);
    return op->org.ptr != NULL && op->event.ptr != NULL && op->user.ptr != NULL;
}

/* NULL: no memory. */
static struct op *
settle_new(const struct payments *room, const struct payment *payment, enum payment_outcome outcome)
{
    struct op *op = calloc(1, sizeof(*op));
    if (op == NULL || !copy_names(op, payment)) {
        if (op != NULL)
            arena_fini(&op->arena);
        free(op);
        return NULL;
    }
    op->kind = OP_PAY_SETTLE;
    op->privileged = true; /* actor is empty: it is the system that says so */
    op->intent_id = payment->intent_id;
    op->outcome = outcome;
    op->received = mono_now();
    op->deadline.us = op->received.us + room->node->config->request_timeout;
    op->finish = settle_finish;
    op->send = settle_send;
    return op;
}

void
payments_settle(struct payments *room, const struct payment *payment, enum payment_outcome outcome)
{
    struct op *op = settle_new(room, payment, outcome);

    if (op != NULL) /* else the intent stays due */
        engine_submit(room->node->engine, op);
}

void
payments_settle_paid(struct payment_call *call)
{
    struct op *op = settle_new(call->room, &call->payment, PAYMENT_PAID);

    call->tries++;
    if (op == NULL) {
        (void)payment_call_settled(call, false);
        return;
    }
    op->context = call;
    op->send = settle_paid_send;
    engine_submit(call->room->node->engine, op);
}
