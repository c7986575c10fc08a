/*
 * checkout_pay.c - POST /api/checkouts/{checkout}/complete: two transactions, and between them the
 * provider, for whom no thread of ours waits.
 *
 *   OP_PAY         the intent is stored, its seats are in payment; or there is nothing to begin:
 *                  the sale was completed before, is in payment already, or is refused
 *   the provider   is asked under the intent's id; it has until a little before the call's deadline
 *   OP_PAY_SETTLE  what became of it is stored. The answer is what is stored then, whoever stored
 *                  it: a webhook may have been quicker
 *
 * A client that goes away changes none of this, and a node that dies leaves the intent to any
 * node's upkeep.
 *
 * The Idempotency-Key: OP_PAY only looks whether an answer is kept; OP_PAY_SETTLE keeps one, unless
 * it is that the payment is pending. What OP_PAY answers for good is kept as any refusal is.
 */
#include <stddef.h>
#include <string.h>

#include "checkout_json.h"
#include "hold_request.h"
#include "idempotency.h"
#include "op_call.h"
#include "holdfast/payments.h"

#define METHOD_MAX 255

/* What OP_PAY_SETTLE is left of the time of the request. */
#define SETTLE_SHARE  4
#define SETTLE_MAX_US (1 * (int64_t)TIME_US_PER_S)

/* In the call's arena. */
struct completion {
    struct op pay, settle;
    bool is_replay; /* the answer of before is in the reply */
};

static struct completion *
completion_of(struct op *op)
{
    return ((struct api_call *)op->context)->state;
}

/* --- the answer by what is stored ------------------------------------------------------ */

static void
write_problem(struct api_call *call, enum hf_status status, const char *detail)
{
    call->answered = status;
    reply_problem(call->exchange, status, &(struct problem){ .detail = detail });
}

static void
write_outcome(struct api_call *call, const struct checkout_view *checkout)
{
    switch (checkout->intent_status) {
    case INTENT_SUCCEEDED:
        op_write_json(call, HF_OK, checkout_json_completed, checkout);
        return;
    case INTENT_PROCESSING:
    case INTENT_PENDING:
        op_write_json(call, HF_ACCEPTED, checkout_json_pending, checkout);
        return;
    case INTENT_FAILED:
    case INTENT_EXPIRED:
        write_problem(call, HF_PAYMENT_FAILED, NULL);
        return;
    case INTENT_REFUND_REQUIRED:
        write_problem(call, HF_PAYMENT_FAILED,
                      "The seats can't be sold any more; the payment is to be refunded.");
        return;
    case INTENT_VOID: /* the mark was taken back */
        write_problem(call, HF_PAYMENT_UNAVAILABLE, NULL);
        return;
    }
}

/* --- OP_PAY_SETTLE -------------------------------------------------------------------- */

/* The intent is stored, so that "nothing was changed" would be wrong: it is settled later. */
static void
settle_finish(struct op *op)
{
    struct api_call *call = op->context;

    if (op->status == HF_OK)
        write_outcome(call, op->checkout);
    else
        write_problem(call, op->status == HF_INTERNAL ? HF_INTERNAL : HF_OUTCOME_UNKNOWN, NULL);
}

static void
told(void *context, enum payment_outcome outcome)
{
    struct completion *self = context;

    self->settle.outcome = outcome;
    engine_submit(((struct api_call *)self->settle.context)->api->node->engine, &self->settle);
}

/* --- OP_PAY --------------------------------------------------------------------------- */

/* Its own intent is stored, so the provider is asked. */
static bool
has_begun(const struct op *pay)
{
    const struct checkout_view *checkout = pay->checkout;

    return pay->status == HF_OK && checkout->status == CHECKOUT_PAYING && checkout->has_intent &&
           uuid_equal(&checkout->intent_id, &pay->intent_id);
}

static void
pay_finish(struct op *op)
{
    if (has_begun(op))
        return;
    op_hide_from_stranger(op);
    if (op->status == HF_OK)
        write_outcome(op->context, op->checkout);
    else
        op_write_refusal(op->context, op);
}

static void
pay_replay(struct op *op, int status, struct slice type, struct slice body)
{
    completion_of(op)->is_replay = true;
    idempotency_replay(op, status, type, body);
}

static struct mono_time
patience_of(const struct api_call *call)
{
    int64_t settle_us = call->api->node->config->request_timeout / SETTLE_SHARE;

    if (settle_us > SETTLE_MAX_US)
        settle_us = SETTLE_MAX_US;
    return (struct mono_time){ call->deadline.us - settle_us };
}

/* The call may be answered, and gone, before payments_charge returns: what pay found is freed apart
 * from it. */
static void
charge(struct completion *self)
{
    struct api_call *call = self->pay.context;
    struct arena found = self->pay.arena;
    const struct checkout_view *checkout = self->pay.checkout;
    struct payment payment = {
        .org = self->pay.org,
        .event = checkout->event,
        .user = checkout->user,
        .intent_id = self->pay.intent_id,
        .amount = checkout->amount,
        .currency = slice_of(checkout->currency),
        .method = self->pay.method,
    };

    payments_charge(call->api->node->payments, &payment, patience_of(call), told, self);
    arena_fini(&found);
}

static void
pay_send(struct op *op)
{
    struct completion *self = completion_of(op);
    struct api_call *call = op->context;

    if (!self->is_replay && has_begun(op)) {
        charge(self);
        return;
    }
    arena_fini(&op->arena);
    /* That it is in payment is no answer for good. */
    if (op->keyed && !self->is_replay && call->answered != HF_ACCEPTED)
        call->key_state = KEY_OPEN;
    respond_ready(call);
}

/* --- the request ------------------------------------------------------------------------ */

static const struct field_spec complete_fields[] = {
    { "payment_method", FIELD_WORD, offsetof(struct hold_request, payment_method), 1, METHOD_MAX,
      true, false },
};
static const struct body_spec complete_body = { false, complete_fields, 1 };

/* False: no memory; the call is answered. */
static bool
make_pay(struct api_call *call, struct op *pay, struct slice method)
{
    if (!op_init(call, pay, OP_PAY, pay_finish))
        return false;
    pay->send = pay_send;
    pay->replay = pay_replay;
    pay->intent_id = uuid_v7_new();
    pay->provider = payments_provider(call->api->node->payments);
    pay->method = method;
    if (idempotency_hand_over(call, pay))
        return true;
    respond_refusal(call, HF_OVERLOADED, NULL);
    return false;
}

/* Both carry the key. */
static bool
make_settle(struct api_call *call, struct op *settle, const struct op *pay)
{
    if (!op_init(call, settle, OP_PAY_SETTLE, settle_finish))
        return false;
    settle->intent_id = pay->intent_id;
    settle->keyed = pay->keyed;
    settle->key = pay->key;
    settle->key_method = pay->key_method;
    settle->key_path = pay->key_path;
    memcpy(settle->key_digest, pay->key_digest, sizeof(settle->key_digest));
    return true;
}

void
checkout_complete(struct api *api, struct api_call *call)
{
    struct hold_request request;

    if (!op_is_admitted(call) || !hold_request_read(call, &complete_body, &request))
        return;
    struct completion *self = arena_alloc(&call->arena, sizeof(*self));
    if (self == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    call->state = self;
    if (make_pay(call, &self->pay, request.payment_method) &&
        make_settle(call, &self->settle, &self->pay))
        engine_submit(api->node->engine, &self->pay);
}
