/*
 * address.c - reads redis_url.
 */
#include "warm_internal.h"

#include <string.h>

#define PORT_DEFAULT 6379
#define PORT_MAX     65535
#define DB_MAX       1000000

static int
hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undoes %41; false: not well-formed, holds a NUL, or doesn't fit. */
static bool
decode(struct slice text, char *out, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '%') {
            int high = i + 2 < text.len ? hex_digit(text.ptr[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_digit(text.ptr[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || n + 1 >= bytes) {
            return false;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

static bool
parse_number(struct slice text, int max, int *number)
{
    int value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || value > max) {
            return false;
        }
        value = value * 10 + (text.ptr[i] - '0');
    }
    *number = value;
    return text.len > 0 && value <= max;
}

/* Cuts *text at the first `c` (the last one if from_end): what is before it goes to *before. */
static bool
cut(struct slice *text, char c, bool from_end, struct slice *before)
{
    const char *at = text->len == 0 ? NULL
                     : from_end     ? memrchr(text->ptr, c, text->len)
                                    : memchr(text->ptr, c, text->len);
    if (at == NULL) {
        return false;
    }
    size_t len = (size_t)(at - text->ptr);
    *before = (struct slice){ text->ptr, len };
    *text = (struct slice){ at + 1, text->len - len - 1 };
    return true;
}

static bool
parse_credentials(struct slice text, struct warm_address *address)
{
    struct slice user = SLICE_EMPTY;
    if (!cut(&text, ':', false, &user)) {
        return false; /* "word@": a user without a password can't log in */
    }
    return decode(user, address->user, sizeof(address->user)) &&
           decode(text, address->password, sizeof(address->password)) &&
           address->password[0] != '\0';
}

/* host, host:port, [::1] or [::1]:port */
static bool
parse_host(struct slice text, struct warm_address *address)
{
    struct slice host = text;
    struct slice port = SLICE_EMPTY;
    if (text.len > 0 && text.ptr[0] == '[') {
        struct slice rest = { text.ptr + 1, text.len - 1 };
        if (!cut(&rest, ']', false, &host) || (rest.len > 0 && rest.ptr[0] != ':')) {
            return false;
        }
        port = rest.len > 0 ? (struct slice){ rest.ptr + 1, rest.len - 1 } : SLICE_EMPTY;
    } else if (cut(&text, ':', true, &host)) {
        port = text;
    }
    address->port = PORT_DEFAULT;
    return decode(host, address->host, sizeof(address->host)) && address->host[0] != '\0' &&
           (port.len == 0 || parse_number(port, PORT_MAX, &address->port));
}

static bool
starts_with(struct slice *url, const char *prefix)
{
    size_t len = strlen(prefix);
    if (url->len < len || memcmp(url->ptr, prefix, len) != 0) {
        return false;
    }
    *url = (struct slice){ url->ptr + len, url->len - len };
    return true;
}

bool
warm_address_parse(struct slice url, struct warm_address *address)
{
    *address = (struct warm_address){ 0 };
    if (starts_with(&url, "unix:")) {
        address->is_unix = true;
        (void)starts_with(&url, "//"); /* unix:///path is the same */
        return url.len > 0 && url.ptr[0] == '/' &&
               decode(url, address->host, sizeof(address->host));
    }
    if (!starts_with(&url, "redis://")) {
        return false;
    }
    struct slice before;
    if (cut(&url, '@', true, &before) && !parse_credentials(before, address)) {
        return false;
    }
    if (!cut(&url, '/', false, &before)) {
        return parse_host(url, address);
    }
    return parse_host(before, address) && (url.len == 0 || parse_number(url, DB_MAX, &address->db));
}
