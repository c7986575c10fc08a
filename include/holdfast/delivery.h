/*
 * delivery.h - tells the world what was committed: webhooks per organization, and e-mail.
 *
 * Domain events are rows of the table `outbox`, written in the transaction that they speak of
 * (law 5), so none is told of what was rolled back and none is lost. Every node delivers; what one
 * has taken the others pass over (SKIP LOCKED and a lease). At least once; per event in order;
 * one organization's slow receiver holds up nobody else.
 *
 * Callers:  main.
 * Threads:  threads of its own (delivery_threads), each with a Postgres connection.
 * Limits:   see config.def: delivery_...
 */
#ifndef HOLDFAST_DELIVERY_H
#define HOLDFAST_DELIVERY_H

#include <stddef.h>

#include "holdfast/engine.h"

struct delivery; /* opaque */

/* NULL: error says why. */
HF_MUST_CHECK struct delivery *delivery_start(struct node *node, char *error, size_t error_bytes);
/* Deliveries under way are let end until `deadline`; what was not told stays for the others. */
void delivery_stop(struct delivery **delivery, struct mono_time deadline);

#endif
