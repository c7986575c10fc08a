/*
 * head_scan.c - a table and a small state machine; the loops over text and names
 * are the only ones that see most bytes, so they stay that simple.
 */
#include "head_scan.h"

#define TOKEN 1u
#define TEXT  2u /* field text, with tab and bytes beyond ASCII */
#define PLAIN 4u /* printable ASCII and space: what a request line may have */

#define T     (TOKEN | TEXT | PLAIN)
#define P     (TEXT | PLAIN)
#define H     TEXT
static const uint8_t byte_class[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, H, 0, 0, 0, 0, 0, 0, /* tab */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, P, T, P, T, T, T, T, T, P, P,
    T, T, P, T, T, P,                               /*  !"#$%&'()*+,-./ */
    T, T, T, T, T, T, T, T, T, T, P, P, P, P, P, P, /* 0-9:;<=>? */
    P, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, /* @A-O */
    T, T, T, T, T, T, T, T, T, T, T, P, P, P, T, T, /* P-Z[\]^_ */
    T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, T, /* `a-o */
    T, T, T, T, T, T, T, T, T, T, T, P, T, P, T, 0, /* p-z{|}~ */
    H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H,
    H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H,
    H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H,
    H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H,
    H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H,
};
#undef T
#undef P
#undef H

int
head_scan_is_token(unsigned char c)
{
    return byte_class[c] & TOKEN;
}

int
head_scan_is_text(unsigned char c)
{
    return byte_class[c] & TEXT;
}

void
head_scan_begin(struct head_scan *scan)
{
    *scan = (struct head_scan){ .state = SCAN_REQUEST_LINE };
}

void
head_scan_begin_trailer(struct head_scan *scan)
{
    *scan = (struct head_scan){ .state = SCAN_LINE_START };
}

static inline const unsigned char *
skip(const unsigned char *at, const unsigned char *end, unsigned allowed)
{
    while (at < end && (byte_class[*at] & allowed))
        at++;
    return at;
}

static const char *
reason_for(unsigned char c)
{
    if (c == '\n')
        return "a line feed without its carriage return";
    if (c == '\0')
        return "a NUL byte in the header";
    if (c >= 0x80)
        return "a byte beyond ASCII in the request line";
    return "a control character in the header";
}

static const char *
name_reason_for(unsigned char c)
{
    if (c == ' ' || c == '\t')
        return "a space in a header name";
    if (byte_class[c] & TEXT)
        return "a header name that is no token";
    return reason_for(c);
}

static const char *
line_start_reason_for(unsigned char c)
{
    if (c == ' ' || c == '\t')
        return "a folded header line";
    if (c == ':')
        return "an empty header name";
    return name_reason_for(c);
}

size_t
head_scan_run(struct head_scan *scan, const char *bytes, size_t len, enum head_scan_result *result)
{
    const unsigned char *at = (const unsigned char *)bytes;
    const unsigned char *end = at + len;

    *result = HEAD_SCAN_MORE;
    while (at < end && *result == HEAD_SCAN_MORE) {
        switch (scan->state) {
        case SCAN_REQUEST_LINE:
        case SCAN_VALUE:
            at = skip(at, end, scan->state == SCAN_VALUE ? TEXT : PLAIN);
            if (at == end)
                break;
            if (*at != '\r')
                scan->reason = reason_for(*at);
            scan->state = SCAN_LINE_LF;
            at++;
            break;
        case SCAN_LINE_START:
            if (*at == '\r') {
                scan->state = SCAN_LAST_LF;
                at++;
                break;
            }
            if (!(byte_class[*at] & TOKEN))
                scan->reason = line_start_reason_for(*at);
            scan->state = SCAN_NAME;
            break;
        case SCAN_NAME:
            at = skip(at, end, TOKEN);
            if (at == end)
                break;
            if (*at != ':')
                scan->reason = name_reason_for(*at);
            scan->state = SCAN_VALUE;
            at++;
            break;
        case SCAN_LINE_LF:
        case SCAN_LAST_LF:
            if (*at != '\n')
                scan->reason = "a carriage return without its line feed";
            else if (scan->state == SCAN_LAST_LF)
                *result = HEAD_SCAN_DONE;
            scan->state = SCAN_LINE_START;
            at++;
            break;
        }
        if (scan->reason != NULL)
            *result = HEAD_SCAN_BAD;
    }
    return (size_t)(at - (const unsigned char *)bytes);
}
