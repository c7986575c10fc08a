/*
 * request_head.h - the meaning of a scanned header: request line, fields, framing.
 *
 * llhttp 8.1.0, even strict, accepts none or two Host lines, HTTP/0.9 and
 * Transfer-Encoding in HTTP/1.0; the checks for that are here.
 *
 * Callers:  parser, in the order line, field..., end.
 * Threads:  the parser's user. Memory: cuts slices from the exchange's head.
 * Limits:   uri_max; the route's body_max, asked once the header is complete.
 */
#ifndef ACCEPTOR_REQUEST_HEAD_H
#define ACCEPTOR_REQUEST_HEAD_H

#include "parser.h"

/* The longest method that we answer by name; a longer first word isn't a method. */
#define METHOD_BYTES_MAX 32

/* All: 0, or -1 after parser_refuse. */
HF_MUST_CHECK int request_head_line(struct parser *parser);
HF_MUST_CHECK int request_head_field(struct parser *parser, struct slice name, struct slice value);
HF_MUST_CHECK int request_head_end(struct parser *parser, uint64_t content_length);

#endif
