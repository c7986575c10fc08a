/*
 * baggage.c - POST /checkins/{checkin}/baggage: a bag is weighed, and is free or costs a surcharge.
 *
 *   the desk    finds the check-in (or, under the Idempotency-Key, the answer of before)
 *   the scales  say what the bag weighs; no thread of ours waits for them (baggage.h)
 *   the desk    one transaction: check-in, payment, audit entry, domain event, answer of the key
 *
 * A check-in that is complete stays so, whatever is weighed: the seed's machine ends there.
 */
#include <stddef.h>

#include "checkin.h"
#include "hold_request.h"
#include "idempotency.h"
#include "op_call.h"
#include "holdfast/baggage.h"
#include "holdfast/metrics.h"
#include "holdfast/payments.h"

#define UNREACHED "The scales can't be reached; nothing was changed."
#define COMPLETE                                                                                   \
    "The check-in is complete; a heavier bag would have to be paid for, and this can't be done "   \
    "any "                                                                                         \
    "more."

/* What the transaction is left of the time of the request. */
#define WRITE_SHARE 4

/* In the call's arena. */
struct weighing_of {
    struct api_call *call;
    int64_t weight;
    bool is_heavy, is_new; /* is_new: this request changed the check-in */
    const char *detail;
};

/* Columns of weigh_baggage. */
enum { WB_CODE, WB_STATE, WB_INTENT };

/* --- the transaction ------------------------------------------------------------------------- */

static void
send_lock(struct pg *pg, const struct api_call *call)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_uuid(&params, &call->checkin_id);
    pg_tx_send(pg, STATEMENT_LOCK_CHECKIN, &params);
}

static void
send_weigh(struct pg *pg, const struct weighing_of *bag)
{
    struct api_call *call = bag->call;
    const struct node *node = call->api->node;
    const struct baggage_rules *rules = baggage_rules(node->baggage);
    struct uuid intent = uuid_v7_new();
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_uuid(&params, &call->checkin_id);
    pg_param_int4(&params, (int32_t)bag->weight);
    pg_param_bool(&params, bag->is_heavy);
    pg_param_uuid(&params, &intent);
    pg_param_int8(&params, rules->surcharge);
    pg_param_text(&params, slice_of(rules->currency));
    pg_param_text(&params, slice_of(payments_provider(node->payments)));
    pg_param_optional(&params, call_user(call));
    pg_param_text(&params, slice_of(call->exchange->request.request_id));
    call_add_origin(call, &params);
    pg_tx_send(pg, STATEMENT_WEIGH_BAGGAGE, &params);
}

static enum hf_status
judge(struct weighing_of *bag, struct slice code)
{
    bag->is_new = slice_is(code, "ok");
    if (bag->is_new || slice_is(code, "same"))
        return HF_OK;
    if (slice_is(code, "closed"))
        return HF_EVENT_CLOSED;
    bag->detail = COMPLETE;
    return HF_VERSION_CONFLICT;
}

/* What is answered: the check-in's id stands in the path. */
struct outcome {
    const struct api_call *call;
    const struct pg_result *rows;
};

static void
write_outcome(struct json_writer *w, const void *what)
{
    const struct outcome *outcome = what;

    json_object_begin(w);
    json_field_uuid(w, "checkinId", &outcome->call->checkin_id);
    checkin_json_text(w, "state", outcome->rows, WB_STATE);
    checkin_json_uuid(w, "paymentIntentId", outcome->rows, WB_INTENT);
    json_object_end(w);
}

static enum hf_status
weigh_body(struct pg *pg, void *context)
{
    struct weighing_of *bag = context;

    send_lock(pg, bag->call);
    send_weigh(pg, bag);
    struct pg_result *lock = pg_tx_next(pg);
    struct pg_result *rows = lock != NULL ? pg_tx_next(pg) : NULL;
    enum hf_status status = HF_INTERNAL;
    if (rows != NULL)
        status =
            pg_rows(rows) > 0 ? judge(bag, pg_get_text(rows, 0, WB_CODE)) : HF_CHECKIN_NOT_FOUND;
    if (status == HF_OK)
        op_write_json(bag->call, HF_OK, write_outcome, &(struct outcome){ bag->call, rows });
    pg_result_free(&lock);
    pg_result_free(&rows);
    return status;
}

static void
weigh_run(struct api_call *call, struct desk_tools *tools)
{
    struct weighing_of bag = *(struct weighing_of *)call->state; /* the call may be gone */
    enum hf_status status = idempotency_run(call, tools->pg, weigh_body, &bag);

    if (status != HF_OK)
        respond_refusal(call, status, bag.detail);
    else if (bag.is_new)
        metric_add(bag.is_heavy ? METRIC_BAGGAGE_HEAVY_TOTAL : METRIC_BAGGAGE_FREE_TOTAL, 1);
}

/* --- the scales ------------------------------------------------------------------------ */

static bool
weight_is_possible(struct api_call *call, int64_t weight)
{
    if (weight <= baggage_rules(call->api->node->baggage)->max)
        return true;
    respond_field_error(call, "weightKg", "is more than a bag may weigh");
    return false;
}

static void
told(void *context, enum weighing outcome, int64_t weight)
{
    struct weighing_of *bag = context;

    switch (outcome) {
    case WEIGHED:
        if (!weight_is_possible(bag->call, weight))
            return;
        bag->weight = weight;
        bag->is_heavy = weight > baggage_rules(bag->call->api->node->baggage)->limit;
        call_on_desk(bag->call, weigh_run);
        return;
    case UNWEIGHED:
        respond_refusal(bag->call, HF_PAYMENT_UNAVAILABLE, UNREACHED);
        return;
    }
}

/* The call may be answered, and gone, before this returns. */
static void
ask_scales(struct api_call *call, const struct pg_result *rows)
{
    struct weighing_of *asked = call->state;
    int64_t left_us = call->deadline.us - mono_now().us;
    struct bag bag = { .org = call_org(call),
                       .event = pg_get_text(rows, 0, CI_EVENT),
                       .passenger = pg_get_text(rows, 0, CI_PASSENGER),
                       .checkin = call->checkin_id,
                       .weight = asked->weight };

    baggage_weigh(call->api->node->baggage, &bag,
                  (struct mono_time){ call->deadline.us - left_us / WRITE_SHARE }, told, asked);
}

static void
find_run(struct api_call *call, struct desk_tools *tools)
{
    struct pg_result *rows = NULL;
    struct pg_params params;

    if (!idempotency_is_new(call, tools->pg))
        return;
    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_uuid(&params, &call->checkin_id);
    enum pg_outcome outcome = call_read(call, tools, STATEMENT_READ_CHECKIN, &params, &rows);
    if (outcome != PG_DONE)
        respond_refusal(call, call_outcome(call, outcome, tools->pg), NULL);
    else if (pg_rows(rows) == 0 || !checkin_is_visible(call, rows))
        respond_refusal(call, HF_CHECKIN_NOT_FOUND, NULL);
    else
        ask_scales(call, rows);
    pg_result_free(&rows);
}

/* --- the request ----------------------------------------------------------------------- */

static const struct field_spec baggage_fields[] = {
    { "weightKg", FIELD_WEIGHT, offsetof(struct hold_request, weight), 0, 0, true, false },
};
static const struct body_spec baggage_body = { false, baggage_fields, 1 };

void
baggage_post(struct api *api, struct api_call *call)
{
    struct hold_request request;

    (void)api;
    if (!hold_request_read(call, &baggage_body, &request) ||
        !weight_is_possible(call, request.weight))
        return;
    struct weighing_of *bag = arena_alloc(&call->arena, sizeof(*bag));
    if (bag == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    *bag = (struct weighing_of){ .call = call, .weight = request.weight };
    call->state = bag;
    call_on_desk(call, find_run);
}
