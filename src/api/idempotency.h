/*
 * idempotency.h - the Idempotency-Key of a POST: read, handed on, its answer kept.
 *
 * A key belongs to org, token's user, method and path. Its row is written in the
 * transaction of its request: by the engine for ops, by idempotency_tx_run and
 * idempotency_store for a call on the desk.
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
 * tx_run under the call's key: claims it (waiting up to 2 s for a first request), then runs
 * `body`. Without a key it is tx_run alone.
 *
 * HF_NOT_MODIFIED            the answer of before is in the reply: respond_send(call)
 * HF_REQUEST_IN_PROGRESS,
 * HF_IDEMPOTENCY_KEY_REUSED  answer with it
 * anything else              as tx_run
 */
HF_MUST_CHECK enum hf_status idempotency_tx_run(struct api_call *call, struct pg *pg, tx_body *body,
                                                void *context);

/*
 * For work that is no one transaction, and must not be done twice: whether it was answered before.
 * HF_OK: it wasn't; respond keeps its answer. Otherwise as idempotency_tx_run. A first request that
 * still runs is not seen.
 */
HF_MUST_CHECK enum hf_status idempotency_look_up(struct api_call *call, struct pg *pg);

/*
 * The last thing of such a body: keeps the answer that the call will get if this commits
 * (content_type is TYPE_JSON). Nothing without a key. The answer must then be sent as it
 * was kept. HF_OK, or what the body returns.
 */
HF_MUST_CHECK enum hf_status idempotency_store(struct api_call *call, struct pg *pg,
                                               int http_status, const struct buf *answer);

/* Makes what was kept the call's reply. */
void idempotency_fill(struct api_call *call, int status, struct slice type, struct slice body);

/* --- for ops ---------------------------------------------------------------------- */

/* For op->answer and op->replay of an op whose context is a call. */
void idempotency_answer(struct op *op, int *status, struct slice *type, struct slice *body);
void idempotency_replay(struct op *op, int status, struct slice type, struct slice body);

#endif
