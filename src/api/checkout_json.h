/*
 * checkout_json.h - a checkout as answers show it. Each is an op_json over a struct checkout_view.
 */
#ifndef HOLDFAST_CHECKOUT_JSON_H
#define HOLDFAST_CHECKOUT_JSON_H

#include "holdfast/json.h"
#include "holdfast/op.h"

/* The checkout itself: of its start and of a GET. */
void checkout_json_whole(struct json_writer *w, const void *view);
/* It is sold: {status, checkout_id, tickets}. */
void checkout_json_completed(struct json_writer *w, const void *view);
/* The provider has not decided: {status, checkout_id, payment_intent_id}. */
void checkout_json_pending(struct json_writer *w, const void *view);
/* It was given up: {status, checkout_id, released_seats, ...}. */
void checkout_json_cancelled(struct json_writer *w, const void *view);

#endif
