/*
 * payment_webhook.h - what webhooks and their replays share.
 */
#ifndef HOLDFAST_PAYMENT_WEBHOOK_H
#define HOLDFAST_PAYMENT_WEBHOOK_H

#include "holdfast/op.h"
#include "holdfast/slice.h"

#define PROVIDER_KEY_MAX 255 /* characters of a providerIdempotencyKey */

/* "succeeded" or "failed", as a provider says it. */
enum payment_outcome payment_outcome_of_verdict(struct slice verdict);

#endif
