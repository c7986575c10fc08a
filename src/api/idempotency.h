/*
 * idempotency.h - the Idempotency-Key of a POST: read, handed on, its answer kept.
 *
 * A key belongs to org, token's user, method and path. Its row is written by the engine: for an op
 * in the op's own transaction, for a call on the desk after its work, before it is answered.
 *
 * Threads: the call's owner. Memory: the call's arena.
 */
#ifndef HOLDFAST_IDEMPOTENCY_H
#define HOLDFAST_IDEMPOTENCY_H

#include "api_internal.h"
#include "events_internal.h"

/*
 * Reads the header of a POST into the call. False: it is none that we take; a 400
 * has been sent and the call is gone.
 */
HF_MUST_CHECK bool idempotency_read(struct api_call *call);

/*
 * Gives the key, if there is one, to the op that will do the call's work; from then on
 * the engine keeps the answer. False: no memory.
 */
HF_MUST_CHECK bool idempotency_hand_over(struct api_call *call, struct op *op);

/* Whether the answer is one that a repetition shall get. */
bool idempotency_is_kept(enum hf_status status);

/* Takes the call, whose reply is written: keeps it through the engine, then sends it (or what was
 * kept before). */
void idempotency_keep(struct api_call *call);

/* --- for calls on the desk ------------------------------------------------------ */

/*
 * Whether the call was answered before; asked before its work is begun, so that it isn't done twice
 * (waiting up to 2 s for a first request that keeps its answer just now; one that still works is
 * not seen).
 *
 * HF_OK                      it wasn't, or has no key: respond keeps its answer
 * HF_NOT_MODIFIED            the answer of before is in the reply: respond_send(call)
 * HF_REQUEST_IN_PROGRESS,
 * HF_IDEMPOTENCY_KEY_REUSED  answer with it
 * anything else              as tx_run
 */
HF_MUST_CHECK enum hf_status idempotency_look_up(struct api_call *call, struct pg *pg);

/* The same for work that has no answer of its own for these. False: the call is answered. */
HF_MUST_CHECK bool idempotency_is_new(struct api_call *call, struct pg *pg);

/*
 * The same for work that is one transaction: the key is claimed, and the answer kept, within it, so
 * that of two at once only one works. `body` (a tx_body) fills the reply before it returns HF_OK.
 * HF_OK: committed (or done before, under the key), and the call is answered; else it is the
 * caller's to answer.
 */
HF_MUST_CHECK enum hf_status idempotency_run(struct api_call *call, struct pg *pg, tx_body *body,
                                             void *context);

/* Makes what was kept the call's reply. */
void idempotency_fill(struct api_call *call, int status, struct slice type, struct slice body);

/* --- for ops ---------------------------------------------------------------------- */

/* For op->answer and op->replay of an op whose context is a call. */
void idempotency_answer(struct op *op, int *status, struct slice *type, struct slice *body);
void idempotency_replay(struct op *op, int status, struct slice type, struct slice body);

#endif
