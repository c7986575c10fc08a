/*
 * parser.h - bytes in, requests or refusals out. Knows no socket.
 *
 * The header is gathered whole, scanned strictly (head_scan.h), then given to llhttp
 * in one piece; a body goes to llhttp in pieces cut where we expect each part to end.
 * So two parsers must agree on every boundary, and a disagreement is a 400: what a
 * smuggler needs is one parser that is sure of itself.
 *
 * Callers:  connection; the fuzzer.
 * Threads:  a parser has one user at a time; the rules are constant and shared.
 * Memory:   borrows the exchange that it fills.
 * Limits:   header_max (header, and trailer with chunk extensions), uri_max, the
 *           route's body_max, the exchange's budget.
 */
#ifndef ACCEPTOR_PARSER_H
#define ACCEPTOR_PARSER_H

#include <llhttp.h>

#include "exchange.h"
#include "head_scan.h"

#if !LLHTTP_STRICT_MODE
#error "llhttp must be built with LLHTTP_STRICT_MODE=1: see third_party/llhttp"
#endif

enum parser_event {
    PARSER_MORE,    /* every byte is taken; the request isn't complete yet */
    PARSER_REQUEST, /* the exchange's request is complete */
    PARSER_REFUSED, /* `refusal` and `detail` say why; nothing more can be read here */
};

enum parser_phase {
    PARSER_BLANK,      /* before a request; empty lines are skipped, as RFC 9112, 2.2 asks */
    PARSER_HEAD,       /* up to the empty line */
    PARSER_BODY,       /* Content-Length bytes */
    PARSER_CHUNK_LINE, /* size and extensions, up to CRLF */
    PARSER_CHUNK_DATA, /* the chunk and its CRLF */
    PARSER_TRAILER,    /* after the last chunk, up to the empty line */
};

struct parser_rules {
    size_t header_max;
    size_t uri_max;
    const struct http_handler *handler; /* for body_max */
};

struct parser {
    const struct parser_rules *rules;
    struct exchange *exchange; /* the one being filled, or NULL */
    enum parser_phase phase;
    enum hf_status refusal;
    const char *detail; /* static text; NULL: not refused */

    /* the header */
    struct head_scan scan;
    bool blank_cr;
    struct slice name, value; /* the header line in llhttp's hands */
    uint32_t seen;            /* a bit for each header of request_head.c's table */
    bool has_host, has_length, chunked;
    struct slice their_id; /* X-Request-Id */

    /* the body */
    bool head_done;
    bool complete;
    bool wants_continue; /* Expect: 100-continue, and no byte of the body yet */
    size_t body_max;
    uint64_t body_left; /* of Content-Length, or of a chunk with its CRLF */
    size_t line_bytes;  /* of the chunk's line */
    bool line_cr;
    size_t extra_bytes; /* chunk extensions and trailers */

    llhttp_t llhttp;
};

void parser_init(struct parser *parser, const struct parser_rules *rules);

/* The next request goes into `exchange` (borrowed until REQUEST or REFUSED). */
void parser_begin(struct parser *parser, struct exchange *exchange);

/* Returns how many bytes were taken; all of them when the event is MORE. Needs an exchange. */
size_t parser_feed(struct parser *parser, const char *bytes, size_t len, enum parser_event *event);

/* For the parser's own files: the first refusal stands. Returns -1, as llhttp's callbacks do. */
int parser_refuse(struct parser *parser, enum hf_status status, const char *detail);

/* Gives the exchange back before its request is complete, with what is known of it. */
void parser_end(struct parser *parser);

#endif
