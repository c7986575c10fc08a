/*
 * head_scan.h - the strict look at a request's header, before llhttp sees it.
 *
 * llhttp, even strict, glues folded lines together, takes empty header names and
 * trusts that nothing before it disagrees about where a line ends. Request smuggling
 * lives on such disagreement, so every byte up to the empty line passes here first:
 * lines end in CRLF and nothing else, a header line is token ':' text, text has no
 * control characters.
 *
 * Callers:  parser.
 * Threads:  a scan has one user. Memory: none. It may be fed in any pieces.
 */
#ifndef ACCEPTOR_HEAD_SCAN_H
#define ACCEPTOR_HEAD_SCAN_H

#include <stddef.h>
#include <stdint.h>

enum head_scan_result { HEAD_SCAN_MORE, HEAD_SCAN_DONE, HEAD_SCAN_BAD };

struct head_scan {
    enum {
        SCAN_REQUEST_LINE,
        SCAN_LINE_START,
        SCAN_NAME,
        SCAN_VALUE,
        SCAN_LINE_LF, /* after the CR of a line */
        SCAN_LAST_LF, /* after the CR of the empty line */
    } state;
    const char *reason; /* static text, when BAD */
};

void head_scan_begin(struct head_scan *scan);         /* at the request line */
void head_scan_begin_trailer(struct head_scan *scan); /* at the first trailer line */

/* Returns how many bytes belong to the header; DONE: the last was the LF of the empty line. */
size_t head_scan_run(struct head_scan *scan, const char *bytes, size_t len,
                     enum head_scan_result *result);

/* The token characters of RFC 9110, section 5.6.2. */
int head_scan_is_token(unsigned char c);
/* Printable ASCII, space, tab, or a byte beyond ASCII. */
int head_scan_is_text(unsigned char c);

#endif
