/*
 * payment_webhook.c - POST /payments/webhook: what a payment provider says became of a payment.
 *
 * The signature over the raw body stands for a token; whose payment it is the intent's row says.
 * Everything else is OP_PAY_SETTLE's: it stores the delivery under the provider's own key in the
 * transaction that acts on it, so that repeats change nothing, in whatever order they come.
 *
 * If the store is away the answer is 503 and the provider sends it again. If our own processing
 * fails the delivery is kept and answered 200: upkeep tries it again, and in the end it is a dead
 * letter for an admin (dead_letters.c).
 */
#include "payment_webhook.h"

#include <stddef.h>
#include <stdio.h>

#include "hold_request.h"
#include "op_call.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "holdfast/signature.h"

#define INTENT_TEXT_MAX 64
#define BODY_BYTES_MAX  (64 * 1024) /* what isn't signed well costs no more than its hash */
#define ERROR_BYTES     128

enum payment_outcome
payment_outcome_of_verdict(struct slice verdict)
{
    return slice_is(verdict, "succeeded") ? PAYMENT_PAID : PAYMENT_DECLINED;
}

static const char *
verdict_of(const struct op *op)
{
    return op->outcome == PAYMENT_PAID ? "succeeded" : "failed";
}

/* --- the signature ------------------------------------------------------------------------ */

/* One who can't sign is limited as anybody is; one who can is not. */
static void
refuse_unsigned(struct api_call *call, enum hf_status status, const char *detail)
{
    metric_add(METRIC_PAYMENT_WEBHOOKS_UNSIGNED_TOTAL, 1);
    if (call_within_limits(call))
        respond_refusal(call, status, detail);
}

static bool
is_signed(struct api_call *call)
{
    const struct http_request *request = &call->exchange->request;
    struct slice secrets = slice_of(call->api->node->config->webhook_secret);
    int64_t error_us;
    int64_t now_unix_s = call_now(call->api, &error_us).us / TIME_US_PER_S;

    if (request->body.len > BODY_BYTES_MAX)
        refuse_unsigned(call, HF_BODY_TOO_LARGE, NULL);
    else if (!signature_is_good(secrets, now_unix_s, request->signature, request->body))
        refuse_unsigned(call, HF_UNAUTHENTICATED,
                        "The Holdfast-Signature is missing, old or wrong.");
    else
        return true;
    return false;
}

/* --- a delivery that failed ------------------------------------------------------------------ */

static void
write_answer(struct json_writer *w, const struct uuid *intent_id, struct slice status)
{
    json_object_begin(w);
    json_field_uuid(w, "intentId", intent_id);
    json_field_text(w, "status", status);
    json_object_end(w);
}

static void
answer_kept(struct api_call *call, const struct op *op, struct slice status)
{
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    write_answer(&w, &op->intent_id, status);
    respond_json(call, 200, &body);
}

static enum pg_outcome
keep(struct api_call *call, struct desk_tools *tools, const struct op *op, struct pg_result **rows)
{
    struct pg_params params;
    char error[ERROR_BYTES];

    snprintf(error, sizeof(error), "%s, see the log of request %s", status_code(HF_INTERNAL),
             call->exchange->request.request_id);
    pg_params_init(&params);
    pg_param_uuid(&params, &op->intent_id);
    pg_param_text(&params, op->provider_key);
    pg_param_text(&params, slice_of(verdict_of(op)));
    pg_param_int8(&params, call->api->node->config->payment_retry);
    pg_param_text(&params, slice_of(error));
    return call_read(call, tools, STATEMENT_KEEP_PAYMENT_DELIVERY, &params, rows);
}

static void
keep_run(struct api_call *call, struct desk_tools *tools)
{
    const struct op *op = call->state;
    struct pg_result *rows = NULL;
    enum pg_outcome outcome = keep(call, tools, op, &rows);

    if (outcome != PG_DONE)
        respond_refusal(call, call_outcome(call, outcome, tools->pg), NULL);
    else if (pg_rows(rows) == 0)
        respond_refusal(call, HF_INTENT_NOT_FOUND, NULL);
    else
        answer_kept(call, op, pg_get_text(rows, 0, 0));
    pg_result_free(&rows);
}

static void
log_failure(const struct api_call *call, const struct op *op)
{
    char intent[UUID_TEXT_BYTES];

    uuid_format(&op->intent_id, intent);
    LOG_EVENT(LOG_ERROR, "payment_webhook_failed", log_text("intent_id", intent),
              log_slice("provider_key", op->provider_key), log_text("said", verdict_of(op)),
              log_text("request_id", call->exchange->request.request_id));
}

/* --- the op ------------------------------------------------------------------------------------
 */

static void
write_settled(struct json_writer *w, const void *view)
{
    const struct checkout_view *checkout = view;

    write_answer(w, &checkout->intent_id, slice_of(intent_status_word(checkout->intent_status)));
}

/* To a provider a lock that was long in coming is what any overload is: it shall send again. */
static void
webhook_finish(struct op *op)
{
    if (op->status == HF_SEAT_CONTENDED)
        op->status = HF_OVERLOADED;
    if (op->status == HF_OK)
        op_write_json(op->context, HF_OK, write_settled, op->checkout);
    else
        op_write_refusal(op->context, op);
}

static void
webhook_send(struct op *op)
{
    struct api_call *call = op->context;

    arena_fini(&op->arena);
    if (op->status != HF_INTERNAL) {
        metric_add(METRIC_PAYMENT_WEBHOOKS_TAKEN_TOTAL, op->status == HF_OK);
        metric_add(METRIC_PAYMENT_WEBHOOKS_PROCESSED, op->status == HF_OK);
        respond_ready(call);
        return;
    }
    metric_add(METRIC_PAYMENT_WEBHOOKS_FAILED_TOTAL, 1);
    log_failure(call, op);
    call->state = op;
    if (atomic_load(&call->api->phase) == API_CLOSED) /* the desk may be gone */
        respond_refusal(call, HF_DRAINING, NULL);
    else
        call_on_desk(call, keep_run);
}

static const struct field_spec webhook_fields[] = {
    { "intentId", FIELD_WORD, offsetof(struct hold_request, intent), 1, INTENT_TEXT_MAX, true,
      false },
    { "status", FIELD_VERDICT, offsetof(struct hold_request, verdict), 0, 0, true, false },
    { "providerIdempotencyKey", FIELD_WORD, offsetof(struct hold_request, provider_key), 1,
      PROVIDER_KEY_MAX, true, false },
};
static const struct body_spec webhook_body = { false, webhook_fields, 3 };

void
payment_webhook_post(struct api *api, struct api_call *call)
{
    struct hold_request request;
    struct op *op;

    call->key_state = KEY_NONE; /* a delivery has a key of its own */
    if (!is_signed(call) || !hold_request_read(call, &webhook_body, &request))
        return;
    if (!uuid_parse(request.intent, &call->intent_id)) {
        respond_refusal(call, HF_INTENT_NOT_FOUND, NULL);
        return;
    }
    if (!op_is_admitted(call) || (op = op_of_call(call, OP_PAY_SETTLE, webhook_finish)) == NULL)
        return;
    op->send = webhook_send;
    op->privileged = true;
    op->intent_id = call->intent_id;
    op->provider_key = request.provider_key;
    op->outcome = payment_outcome_of_verdict(request.verdict);
    engine_submit(api->node->engine, op);
}
