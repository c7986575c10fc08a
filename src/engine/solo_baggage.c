/*
 * solo_baggage.c - the payment of a bag's surcharge is settled: the check-in goes on, or is
 * complete.
 *
 * The same op as of a checkout's payment (solo_payment.c), with another subject: no seats, no
 * holds, one row of checkins whose lock comes before all that is read and judged. What a word means
 * in which state settle_baggage.sql says, in one place.
 */
#include "solo_internal.h"

/* Columns of settle_baggage. */
enum { SB_PLAN, SB_STATUS };

static void
send_lock(struct solo *solo)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, solo->op->org);
    pg_param_uuid(&params, &solo->op->checkout_id);
    pg_tx_send(solo->batch.worker->pg, STATEMENT_LOCK_CHECKIN, &params);
}

static void
send_settle(struct solo *solo)
{
    const struct op *op = solo->op;
    struct pg_params params;

    pg_params_init(&params);
    pg_param_uuid(&params, &op->intent_id);
    pg_param_bool(&params, op->outcome == PAYMENT_PAID);
    pg_param_optional(&params, op->actor);
    pg_param_optional(&params, op->request_id);
    pg_param_optional(&params, op->client_ip);
    pg_param_optional(&params, op->user_agent);
    pg_tx_send(solo->batch.worker->pg, STATEMENT_SETTLE_BAGGAGE, &params);
}

/* The answer to a webhook is about the payment alone. False: no memory. */
static bool
show_intent(struct op *op, enum intent_status status)
{
    op->checkout = arena_alloc(&op->arena, sizeof(*op->checkout));
    if (op->checkout == NULL)
        return false;
    *op->checkout = (struct checkout_view){
        .event = op->event, .has_intent = true, .intent_id = op->intent_id, .intent_status = status
    };
    return true;
}

/* False: the transaction failed. */
static bool
settle(struct solo *solo)
{
    struct op *op = solo->op;
    struct pg_result *rows = NULL;
    enum intent_status status;

    send_settle(solo);
    pg_tx_flush(solo->batch.worker->pg);
    bool ok = batch_next(&solo->batch, &rows) && pg_rows(rows) > 0 &&
              intent_status_parse(pg_get_text(rows, 0, SB_STATUS), &status) &&
              show_intent(op, status);
    op->same = ok && slice_is(pg_get_text(rows, 0, SB_PLAN), "nothing");
    pg_result_free(&rows);
    return ok;
}

bool
solo_run_baggage(struct solo *solo)
{
    struct op *op = solo->op;
    enum intent_status intent;
    bool is_new;

    op->status = HF_OK;
    op->fate = FATE_ANSWER;
    send_lock(solo);
    if (!solo_skip(solo, 1) || !solo_read_payment(solo, &intent, &is_new))
        return false;
    if (is_new && !settle(solo))
        return false;
    if (!is_new && !show_intent(op, intent))
        return false;
    op->same = op->same || !is_new;
    solo->writes = is_new && (!op->same || op->provider_key.len > 0);
    return true;
}
