/*
 * jws_base64url.c - base64url without padding, in its one canonical form.
 *
 * Decoding is strict so that one signature has one spelling: a byte outside the
 * alphabet (also '=', '+', '/', space) and bits left over that are not 0 are refused.
 */
#include "jws.h"

#include <stdint.h>

static const char alphabet[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* 0-63, or -1. */
static int
digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

bool
base64url_decode(struct slice text, unsigned char *bytes, size_t max, size_t *len)
{
    uint32_t bits = 0; /* the bits not yet written, in the low bit_count places */
    int bit_count = 0;
    size_t written = 0;

    if (text.len % 4 == 1 || text.len / 4 * 3 + text.len % 4 * 3 / 4 > max)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int value = digit_value(text.ptr[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            bytes[written++] = (unsigned char)(bits >> bit_count);
            bits &= (1u << bit_count) - 1;
        }
    }
    *len = written;
    return bits == 0;
}

void
base64url_append(struct buf *out, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    char group[4];

    if (!buf_reserve(out, (len + 2) / 3 * 4))
        return; /* the buffer remembers that it failed */
    for (; len >= 3; at += 3, len -= 3) {
        group[0] = alphabet[at[0] >> 2];
        group[1] = alphabet[(at[0] & 3) << 4 | at[1] >> 4];
        group[2] = alphabet[(at[1] & 15) << 2 | at[2] >> 6];
        group[3] = alphabet[at[2] & 63];
        buf_append(out, group, 4);
    }
    if (len > 0) {
        unsigned char second = len == 2 ? at[1] : 0;
        group[0] = alphabet[at[0] >> 2];
        group[1] = alphabet[(at[0] & 3) << 4 | second >> 4];
        group[2] = alphabet[(second & 15) << 2];
        buf_append(out, group, len + 1);
    }
}
