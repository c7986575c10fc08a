/*
 * delivery.h - tells the world what was committed: webhooks per organization, and e-mail.
 *
 * Domain events are rows of the table `outbox`, written in the transaction that they speak of
 * (law 5), so none is told of what was rolled back and none is lost. Every node delivers; what one
 * has taken the others pass over (SKIP LOCKED and a lease). At least once; per event in order;
 * one organization's slow receiver holds up nobody else.
 *
 * Callers:  main; api (what a webhook may be).
 * Threads:  one of its own, with a Postgres connection and a libcurl multi handle: receivers are
 *           waited for side by side. The checks may be called from any.
 * Limits:   see config.def: delivery_..., outbox_...
 */
#ifndef HOLDFAST_DELIVERY_H
#define HOLDFAST_DELIVERY_H

#include <stddef.h>

#include "holdfast/engine.h"

struct delivery; /* opaque */

/* False: error says which setting is wrong, and why. */
HF_MUST_CHECK bool delivery_check(const struct config *config, char *error, size_t error_bytes);

/* NULL: error says why. */
HF_MUST_CHECK struct delivery *delivery_start(struct node *node, char *error, size_t error_bytes);
/* Deliveries under way are let end for a moment, until `deadline` at the latest; what was not told
 * stays for the others. */
void delivery_stop(struct delivery **delivery, struct mono_time deadline);

/* --- what a webhook may be -------------------------------------------------------------- */

#define WEBHOOK_URL_BYTES_MAX 2048

/* Why no webhook may go there ("is not ..."); NULL: it may. allow_private: also to addresses of
 * this node's own network, as far as the URL tells. */
const char *webhook_url_fault(const char *url, bool allow_private);
/* Whether it is a kind of event that anybody may hear of: "seat.held", ... */
bool webhook_kind_is_known(struct slice kind);

#endif
