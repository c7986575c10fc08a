/*
 * signature.h - `t=<unix>,v1=<hex HMAC-SHA256 of "t.body">`, of webhooks in both directions.
 *
 * Callers:  api (incoming webhooks), payments and outbox (outgoing).
 * Threads:  any; no state.
 */
#ifndef HOLDFAST_SIGNATURE_H
#define HOLDFAST_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/buf.h"
#include "holdfast/slice.h"

#define SIGNATURE_HEADER      "Holdfast-Signature"
#define SIGNATURE_TOLERANCE_S 300
#define SIGNATURE_BYTES       96 /* text and its NUL */

/* Writes the header's value. False: the HMAC could not be made. */
HF_MUST_CHECK bool signature_make(struct slice secret, int64_t unix_s, struct slice body,
                                  char text[SIGNATURE_BYTES]);
/*
 * True if some `v1` of the header was made with one of the secrets (separated by commas, two at the
 * most during a rotation) and its time is within the tolerance of now_unix_s, either way. Compares
 * in constant time. Empty secrets sign nothing: false.
 */
HF_MUST_CHECK bool signature_is_good(struct slice secrets, int64_t now_unix_s, struct slice header,
                                     struct slice body);

#endif
