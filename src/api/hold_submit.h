/*
 * hold_submit.h - what all ways to ask for a hold share: their fields, and the op that they become.
 */
#ifndef HOLDFAST_HOLD_SUBMIT_H
#define HOLDFAST_HOLD_SUBMIT_H

#include <stddef.h>

#include "hold_request.h"

#define CART_TOKEN_MAX 255
#define EMAIL_MAX      254
#define SECONDS_MAX    (366 * 86400) /* what is longer than max_hold is clamped or refused later */

#define AT(member)     offsetof(struct hold_request, member)
#define COUNT(array)   (int)(sizeof(array) / sizeof((array)[0]))

/* Every way to hold takes these; what says which seats comes before them. */
#define CART_FIELDS(cart_is_needed)                                                                \
    { "cart_token", FIELD_WORD, AT(cart_token), 1, CART_TOKEN_MAX, cart_is_needed, false },        \
        { "user_id", FIELD_ID, AT(user), 0, 0, false, false },                                     \
        { "source", FIELD_SOURCE, AT(source), 0, 0, false, false },                                \
        { "customer_email", FIELD_EMAIL, AT(customer_email), 1, EMAIL_MAX, false, false },         \
        { "customerEmail", FIELD_EMAIL, AT(customer_email), 1, EMAIL_MAX, false, false },          \
    {                                                                                              \
        "ttl_seconds", FIELD_INT, AT(ttl_s), 1, SECONDS_MAX, false, false                          \
    }

/* The seeds' clients know no cart: one is made. False: no memory, the call is gone. */
HF_MUST_CHECK bool hold_make_cart_token(struct api_call *call, struct slice *cart_token);

/* best: NULL: the request's seats and areas. Refused or given to the engine, the call is gone. */
void hold_submit(struct api_call *call, const struct hold_request *request, struct op_best *best);

#endif
