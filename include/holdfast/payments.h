/*
 * payments.h - asks payment providers, so that no loop and no worker ever waits for one.
 *
 * One thread with a libcurl multi handle. A charge is asked for once, under the intent's id as its
 * idempotency key; what became of an intent can be asked at any time and any number of times.
 * Providers stand behind one small interface (src/payments/provider.h): `simulated` and `http`.
 *
 * The way of a payment: OP_PAY commits the intent -> payments_charge -> told once, at the
 * provider's answer or when the caller's patience ends -> OP_PAY_SETTLE. Who was told
 * PAYMENT_UNDECIDED because of its patience needn't care any more: the room settles by itself when
 * the provider does answer. Whatever is lost with a node (its intent stays `processing`) is found
 * by any node's upkeep after payment_timeout: payments_ask, which settles by itself too.
 *
 * Callers:  api (charge), upkeep (ask).
 * Threads:  charge and ask from any; `told` is called on the room's thread and must not block.
 * Limits:   payments_max under way; past it a charge is told PAYMENT_UNREACHED, an ask is dropped
 *           (its intent stays due).
 */
#ifndef HOLDFAST_PAYMENTS_H
#define HOLDFAST_PAYMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "holdfast/engine.h"

struct payments; /* opaque */

/* NULL: error says why (an unknown provider, a bad URL or secret, no thread). */
HF_MUST_CHECK struct payments *payments_start(struct node *node, char *error, size_t error_bytes);
/* Ends what is under way (charges hear PAYMENT_UNDECIDED: upkeep of some node asks later). Engine
 * must still run. */
void payments_stop(struct payments **payments, struct mono_time deadline);

/* The name for new intents: "simulated" or "http". */
const char *payments_provider(const struct payments *payments);

/* Everything is copied. */
struct payment {
    struct slice org, event, user;
    struct uuid intent_id;
    int64_t amount;
    struct slice currency;
    struct slice method;
};

/*
 * Charges. told: exactly once, on the room's thread, by `patience` at the latest.
 */
void payments_charge(struct payments *payments, const struct payment *payment,
                     struct mono_time patience,
                     void (*told)(void *context, enum payment_outcome outcome), void *context);

/*
 * Asks what became of a charge, and settles: paid or declined as it says; anything else is
 * PAYMENT_TIMED_OUT if `last` (or if the provider was reached), else the intent stays and is due
 * again. provider: who was charged, by its name in the intent.
 */
void payments_ask(struct payments *payments, struct slice provider, const struct payment *payment,
                  bool last);

/* For /metrics: how many are under way. */
int64_t payments_under_way(const struct payments *payments);

#endif
