/*
 * op_call.h - from a call to an op, and from an op that was refused to the answer: what holds,
 * checkouts and payments share.
 *
 * Threads: the call's owner. Memory: an op lives in the call's arena, what the engine finds for it
 * in the op's own.
 */
#ifndef HOLDFAST_OP_CALL_H
#define HOLDFAST_OP_CALL_H

#include "api_internal.h"
#include "holdfast/json.h"

/*
 * A change that the store has no time for is refused before anything is read or made for it. It
 * comes behind the limits, the token (401, 403) and the ids of the path, all of which cost less
 * than an answer, and before what the body says (400). False: the call is gone.
 *
 * Holding doesn't ask this first: "taken" from memory costs no more than a refusal here, and it is
 * final, while who is told to come again will. The engine asks when memory can't refuse.
 */
HF_MUST_CHECK bool op_is_admitted(struct api_call *call);

/*
 * An op on behalf of who calls, from where they do, which answers the call when it is sent.
 * NULL: no memory; the call is gone.
 */
HF_MUST_CHECK struct op *op_of_call(struct api_call *call, enum op_kind kind,
                                    void (*finish)(struct op *op));
/* The same into a zeroed op of the caller's, in the call's arena. False: as NULL. */
HF_MUST_CHECK bool op_init(struct api_call *call, struct op *op, enum op_kind kind,
                           void (*finish)(struct op *op));

/*
 * For whom: a user may name only itself; agent, service and admin act for the one they name. False:
 * refused, the call is gone.
 */
HF_MUST_CHECK bool op_take_user(struct api_call *call, struct op *op, struct slice named,
                                const char *field);

/*
 * The body {reason?, notes?} of a release. A client's own reason is kept with the notes: the hold's
 * is one of a fixed list. False: refused, the call is gone.
 */
HF_MUST_CHECK bool op_read_notes(struct api_call *call, struct slice *notes);

/* Gives the op, with the call's key if it has one, to the engine. */
void op_submit(struct api_call *call, struct op *op);

/* --- the answer ------------------------------------------------------------------ */

bool op_is_of_flight(const struct op *op);
/* To a flight another's hold isn't there (seed 003). */
void op_hide_from_stranger(struct op *op);
/* Fills the reply with what the engine refused. */
void op_write_refusal(struct api_call *call, const struct op *op);
/*
 * Fills it with JSON: `write` writes `what`. status: HF_OK, HF_CREATED or HF_ACCEPTED. Without
 * memory the reply is outcome_unknown: it took effect, and what couldn't be told now is told to a
 * repetition.
 */
typedef void op_json(struct json_writer *w, const void *what);
void op_write_json(struct api_call *call, enum hf_status status, op_json *write, const void *what);
/* "Location: <path><id>" of what was made. */
void op_write_location(struct api_call *call, const char *path, const struct uuid *id);

#endif
