/*
 * idempotency.h - the Idempotency-Key of a POST: read, handed on, its answer kept.
 *
 * A key belongs to org, token's user, method and path. Its row is written in the
 * transaction of its request: by the engine for ops; for a call on the desk by
 * key_claim and key_store around the call's own work.
 *
 * Threads: the call's owner. Memory: the call's arena.
 */
#ifndef HOLDFAST_IDEMPOTENCY_H
#define HOLDFAST_IDEMPOTENCY_H

#include "api_internal.h"

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

/* Takes the call, whose reply is written: keeps it through the engine, then sends it (or what was kept before). */
void idempotency_keep(struct api_call *call);

/* For op->answer and op->replay of an op whose context is a call. */
void idempotency_answer(struct op *op, int *status, struct slice *type, struct slice *body);
void idempotency_replay(struct op *op, int status, struct slice type, struct slice body);

#endif
