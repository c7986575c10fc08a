/*
 * respond.h - how a call is answered.
 *
 * Every function here takes the call: it fills the reply, adds the headers that
 * all answers have (RateLimit, Vary, Retry-After), keeps the answer for an
 * Idempotency-Key that is still open, compresses, counts and sends.
 *
 * Threads: any, by the call's owner. After it the call must not be touched.
 */
#ifndef HOLDFAST_RESPOND_H
#define HOLDFAST_RESPOND_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/arena.h"
#include "holdfast/buf.h"
#include "holdfast/http.h"
#include "holdfast/op.h"
#include "holdfast/slice.h"
#include "holdfast/status.h"

struct api_call;

#define TYPE_JSON    "application/json"
#define TYPE_PROBLEM "application/problem+json"
#define TYPE_HTML    "text/html; charset=utf-8"
#define TYPE_EVENTS  "text/event-stream"
#define TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8"

/* --- answers ------------------------------------------------------------- */

/* Takes the memory of `body` and leaves it empty. A buffer that failed becomes a 500. */
void respond_json(struct api_call *call, int http_status, struct buf *body);
/* content_type: static text. */
void respond_body(struct api_call *call, int http_status, const char *content_type,
                  struct buf *body);
/* Takes one reference of a ready body; is_gzip: it is compressed already (and the client takes
 * that). */
void respond_shared(struct api_call *call, const char *content_type, struct http_body *body,
                    bool is_gzip);
/*
 * An answer without an end (text/event-stream): fills headers, then `begin` takes the exchange if
 * it returns HF_OK; else that status is the answer.
 */
struct desk_tools;
void respond_stream(struct api_call *call, struct desk_tools *tools,
                    enum hf_status (*begin)(struct api_call *call, struct desk_tools *tools));
/* The reply is written already, and call->answered says what it is. */
void respond_ready(struct api_call *call);
/* No body at all: 304, 204. */
void respond_no_body(struct api_call *call, int http_status);

/* --- headers, before one of the above ------------------------------------- */

/* name: a literal. */
void respond_header(struct api_call *call, const char *name, struct slice value);
void respond_tier(struct api_call *call, enum op_tier tier); /* X-Holdfast-Tier */

/* --- refusals ------------------------------------------------------------- */

/* A field of the request that is wrong. Slices live as long as the answer is being written. */
struct field_error {
    struct slice field;
    const char *reason; /* static text, or in the call's arena */
    int64_t line;       /* of a CSV file, counted from 1; 0: none */
};

#define FIELD_ERRORS_MAX 100

/* Zeroed, it is an empty collection. Past FIELD_ERRORS_MAX further ones are only counted. */
struct field_errors {
    int count;
    int missing; /* how many of them are of missing fields */
    int bad_ids; /* and how many of texts that can't be an identifier */
    struct field_error *items;
};

/* field: copied into the arena. Without memory the error still counts. */
void field_errors_add(struct arena *arena, struct field_errors *errors, struct slice field,
                      const char *reason);
void field_errors_add_line(struct arena *arena, struct field_errors *errors, int64_t line,
                           struct slice field, const char *reason);
/* "is missing" */
void field_errors_missing(struct arena *arena, struct field_errors *errors, struct slice field);
/* "is not 1-64 characters of ..." */
void field_errors_bad_id(struct arena *arena, struct field_errors *errors, struct slice field);

/* A seat or an area that was refused, and why. */
struct seat_error {
    struct slice seat;
    enum hf_status code;
};

/* What a problem document may say beside its status; zeroed: nothing. Borrowed for the call. */
struct problem {
    const char *detail; /* a sentence; NULL or "": the status's own text */
    const struct field_error *errors;
    int error_count;
    const struct seat_error *seats;
    int seat_count;
    const struct seat_error *areas;
    int area_count;
    int64_t retry_after_s;    /* 0: a 429 or 503 says 1 */
    const enum op_tier *tier; /* for a 409: who knew */
};

/* Answers with the problem document of `status`. problem may be NULL. */
void respond_problem(struct api_call *call, enum hf_status status, const struct problem *problem);
/* The same with just a sentence (NULL: the status's own). */
void respond_refusal(struct api_call *call, enum hf_status status, const char *detail);
/* missing_field or invalid_id if all errors are of that kind, else invalid_field; errors->count
 * must not be 0. */
void respond_field_errors(struct api_call *call, const struct field_errors *errors);
/* One wrong field. */
void respond_field_error(struct api_call *call, const char *field, const char *reason);
/* One text that should be an identifier and can't be. */
void respond_bad_id(struct api_call *call, const char *field);

struct json_error;
/* 400 malformed_json with the place. */
void respond_malformed_json(struct api_call *call, const struct json_error *error);

/* Whether an Accept-Encoding header lets an answer be gzip. */
bool accepts_gzip(struct slice accept_encoding);

/* --- for this room's own files -------------------------------------------- */

/* Fills the reply (what was in it is forgotten) without sending it: an op's answer, or the
 * acceptor's refusal. */
void reply_problem(struct http_exchange *exchange, enum hf_status status,
                   const struct problem *problem);
/* Forgets what was written into the reply so far. */
void reply_clear(struct http_reply *reply);
/* Adds the common headers, compresses, counts and sends; keeps nothing. */
void respond_send(struct api_call *call);

#endif
