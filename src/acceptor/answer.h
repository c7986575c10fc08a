/*
 * answer.h - from a filled reply to the bytes that go out.
 *
 * Callers:  connection, on its loop.
 * Memory:   the header is written over the request's bytes in the exchange's arena
 *           (nobody reads the request any more), a small body right behind it, so that
 *           most answers are one piece and cost no allocation.
 */
#ifndef ACCEPTOR_ANSWER_H
#define ACCEPTOR_ANSWER_H

#include "exchange.h"

#define ANSWER_DATE_BYTES 30 /* "Sun, 06 Nov 1994 08:49:37 GMT" and NUL */

struct answer_context {
    struct slice date;      /* as RFC 9110 has it */
    struct slice node_line; /* "X-Holdfast-Node: n1\r\n" */
    bool close;             /* nothing comes after this answer */
};

/* Fills exchange->answer_*. False: no memory. The reply must be whole (answer_is_whole). */
HF_MUST_CHECK bool answer_prepare(struct exchange *exchange, const struct answer_context *context);

/* False: the memory ran out while the handler filled the reply. */
bool answer_is_whole(const struct exchange *exchange);

/* Empties the reply, so that another can be filled in. */
void answer_clear(struct exchange *exchange);

/* About how much it will send. */
size_t answer_bytes(const struct exchange *exchange);

void answer_format_date(int64_t unix_seconds, char text[ANSWER_DATE_BYTES]);

#endif
