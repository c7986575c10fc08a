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
 * the provider does answer, and what is paid again and again while the store is away. Whatever is
 * lost with a node (its intent stays `processing`) is found by any node's upkeep after
 * payment_timeout: payments_ask, which settles by itself too.
 *
 * Callers:  api (charge), upkeep (ask), main.
 * Threads:  charge and ask from any. `told` is called on the room's thread, or at once on the
 *           caller's (the room is full or stopped); it must not block.
 * Limits:   payments_max under way; past it a charge is told PAYMENT_UNREACHED, an ask is dropped
 *           (its intent stays due, unless it was the last ask about one that has expired).
 */
#ifndef HOLDFAST_PAYMENTS_H
#define HOLDFAST_PAYMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "holdfast/engine.h"

struct payments; /* opaque */

/* Whether the settings will do. False: error says why (an unknown provider, a bad URL or secret).
 */
HF_MUST_CHECK bool payments_check(const struct config *config, char *error, size_t error_bytes);

/* NULL: error says why (bad settings, no thread). From the main thread. */
HF_MUST_CHECK struct payments *payments_start(struct node *node, char *error, size_t error_bytes);
/*
 * Ends the thread. Charges that were begun hear PAYMENT_UNDECIDED (upkeep of some node asks later),
 * others, and all that come from now on, PAYMENT_UNREACHED. The engine must still run. NULL is
 * fine.
 */
void payments_stop(struct payments *payments);
/* When it has stopped and nobody charges any more: after the engine. *payments becomes NULL. */
void payments_free(struct payments **payments);

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
 * Charges. told: exactly once, a few milliseconds past `patience` at the latest; it may run, and be
 * over, before this returns.
 */
void payments_charge(struct payments *payments, const struct payment *payment,
                     struct mono_time patience,
                     void (*told)(void *context, enum payment_outcome outcome), void *context);

/*
 * Asks what became of a charge, and settles: paid or declined as it says; PAYMENT_TIMED_OUT if the
 * provider says anything else, or says nothing and this is the `last` time. Otherwise the intent
 * stays as it is, and due. provider: who was charged, by its name in the intent.
 */
void payments_ask(struct payments *payments, struct slice provider, const struct payment *payment,
                  bool last);

#endif
