/* fake_payments.c - the room of payments: in the simulation nobody pays, so upkeep has no intent.
 */
#include "holdfast/payments.h"
#include "sim.h"

void
payments_ask(struct payments *payments, struct slice provider, const struct payment *payment,
             bool last)
{
    (void)payments, (void)payment, (void)last;
    violation("a provider is asked: %.*s", SLICE_ARG(provider));
}
