/*
 * address.c - reads addresses, and finds the client's behind trusted proxies.
 */
#include "address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROXIES_MAX 256
#define V6_KEY_BITS 64

struct proxy_range {
    struct address first; /* masked */
    int bits;
};

struct proxy_list {
    int count;
    struct proxy_range ranges[PROXIES_MAX];
};

static const unsigned char v4_prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF };

/* --- one address ------------------------------------------------------- */

/* inet_pton wants an end, a slice has none. */
static bool
parse_bare(struct slice text, int family, void *bytes)
{
    char copy[ADDRESS_TEXT_BYTES];

    if (text.len >= sizeof(copy) || memchr(text.ptr, '\0', text.len) != NULL)
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return inet_pton(family, copy, bytes) == 1;
}

static bool
parse_v4(struct slice text, struct address *address)
{
    memcpy(address->bytes, v4_prefix, sizeof(v4_prefix));
    return parse_bare(text, AF_INET, address->bytes + sizeof(v4_prefix));
}

/* Drops a zone ("%eth0"): it means something on the sender's machine only. */
static bool
parse_v6(struct slice text, struct address *address)
{
    const char *zone = memchr(text.ptr, '%', text.len);

    if (zone != NULL)
        text.len = (size_t)(zone - text.ptr);
    return parse_bare(text, AF_INET6, address->bytes);
}

static bool
is_port(struct slice text)
{
    if (text.len < 1 || text.len > 5)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
    }
    return true;
}

/* "[address]" or "[address]:port". */
static bool
parse_bracketed(struct slice text, struct address *address)
{
    const char *bracket = memchr(text.ptr, ']', text.len);
    struct slice inside, after;

    if (bracket == NULL)
        return false;
    inside = (struct slice){ text.ptr + 1, (size_t)(bracket - text.ptr) - 1 };
    after = (struct slice){ bracket + 1, text.len - inside.len - 2 };
    if (after.len > 0 &&
        (after.ptr[0] != ':' || !is_port((struct slice){ after.ptr + 1, after.len - 1 })))
        return false;
    return parse_v6(inside, address);
}

bool
address_parse(struct slice text, struct address *address)
{
    const char *colon = text.len > 0 ? memchr(text.ptr, ':', text.len) : NULL;
    size_t before;

    if (text.len == 0)
        return false;
    if (text.ptr[0] == '[')
        return parse_bracketed(text, address);
    if (colon == NULL)
        return parse_v4(text, address);
    before = (size_t)(colon - text.ptr);
    if (memchr(text.ptr, '.', before) != NULL) /* a dot before the first colon: IPv4 and port */
        return is_port((struct slice){ colon + 1, text.len - before - 1 }) &&
               parse_v4((struct slice){ text.ptr, before }, address);
    return parse_v6(text, address);
}

bool
address_is_v4(const struct address *address)
{
    return memcmp(address->bytes, v4_prefix, sizeof(v4_prefix)) == 0;
}

void
address_format(const struct address *address, char text[ADDRESS_TEXT_BYTES])
{
    bool v4 = address_is_v4(address);
    const void *bytes = address->bytes + (v4 ? sizeof(v4_prefix) : 0);

    if (inet_ntop(v4 ? AF_INET : AF_INET6, bytes, text, ADDRESS_TEXT_BYTES) == NULL)
        text[0] = '\0'; /* can't be: the buffer is long enough for both */
}

void
address_mask(struct address *address, int bits)
{
    for (int i = 0; i < 16; i++) {
        int keep = bits - 8 * i;
        if (keep <= 0)
            address->bytes[i] = 0;
        else if (keep < 8)
            address->bytes[i] &= (unsigned char)(0xFF << (8 - keep));
    }
}

bool
address_key(struct slice text, struct address *key)
{
    if (!address_parse(text, key)) {
        memset(key, 0, sizeof(*key));
        return false;
    }
    if (!address_is_v4(key))
        address_mask(key, V6_KEY_BITS);
    return true;
}

/* --- trusted proxies --------------------------------------------------- */

/* The number after the '/'. False: not a number from 0 to most. */
static bool
parse_prefix(struct slice text, int most, int *bits)
{
    *bits = 0;
    if (text.len < 1 || text.len > 3)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        *bits = *bits * 10 + (text.ptr[i] - '0');
    }
    return *bits <= most;
}

/* An address without port, or address/bits. */
static bool
parse_range(struct slice item, struct proxy_range *range)
{
    const char *slash = memchr(item.ptr, '/', item.len);
    struct slice host = { item.ptr, slash != NULL ? (size_t)(slash - item.ptr) : item.len };
    int v4_bits;

    range->bits = 128;
    if (!parse_v4(host, &range->first) && !parse_bare(host, AF_INET6, range->first.bytes))
        return false;
    v4_bits = address_is_v4(&range->first) && memchr(host.ptr, ':', host.len) == NULL ? 96 : 0;
    if (slash != NULL) {
        struct slice prefix = { slash + 1, item.len - host.len - 1 };
        if (!parse_prefix(prefix, 128 - v4_bits, &range->bits))
            return false;
        range->bits += v4_bits;
    }
    address_mask(&range->first, range->bits);
    return true;
}

static bool
is_separator(char c)
{
    return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool
add_range(struct proxy_list *list, struct slice item, char *error, size_t error_bytes)
{
    if (list->count == PROXIES_MAX) {
        snprintf(error, error_bytes, "trusted_proxies: more than %d items", PROXIES_MAX);
        return false;
    }
    if (!parse_range(item, &list->ranges[list->count])) {
        snprintf(error, error_bytes, "trusted_proxies: '%.*s' is no address and no CIDR",
                 (int)(item.len < 100 ? item.len : 100), item.ptr);
        return false;
    }
    list->count++;
    return true;
}

struct proxy_list *
proxy_list_new(const char *text, char *error, size_t error_bytes)
{
    struct proxy_list *list = calloc(1, sizeof(*list));

    if (list == NULL) {
        snprintf(error, error_bytes, "trusted_proxies: no memory");
        return NULL;
    }
    while (*text != '\0') {
        struct slice item = { text, 0 };
        while (text[item.len] != '\0' && !is_separator(text[item.len]))
            item.len++;
        if (item.len > 0 && !add_range(list, item, error, error_bytes)) {
            proxy_list_free(&list);
            return NULL;
        }
        text += item.len;
        text += *text != '\0';
    }
    return list;
}

void
proxy_list_free(struct proxy_list **list)
{
    free(*list);
    *list = NULL;
}

static bool
is_trusted(const struct proxy_list *list, const struct address *address)
{
    for (int i = 0; i < list->count; i++) {
        struct address masked = *address;
        address_mask(&masked, list->ranges[i].bits);
        if (memcmp(masked.bytes, list->ranges[i].first.bytes, sizeof(masked.bytes)) == 0)
            return true;
    }
    return false;
}

/* --- the client -------------------------------------------------------- */

static struct slice
trim(struct slice text)
{
    while (text.len > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t')) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* Cuts the last item off *rest. False: nothing is left. */
static bool
last_hop(struct slice *rest, struct slice *hop)
{
    const char *comma;

    if (rest->len == 0)
        return false;
    comma = memrchr(rest->ptr, ',', rest->len);
    if (comma == NULL) {
        *hop = trim(*rest);
        rest->len = 0;
    } else {
        size_t before = (size_t)(comma - rest->ptr);
        *hop = trim((struct slice){ comma + 1, rest->len - before - 1 });
        rest->len = before;
    }
    return true;
}

void
client_address(const struct proxy_list *trusted, const char *peer, struct slice forwarded_for,
               char text[ADDRESS_TEXT_BYTES])
{
    struct address client, next;
    struct slice hop;

    if (!address_parse(slice_of(peer), &client)) {
        snprintf(text, ADDRESS_TEXT_BYTES, "%s", peer); /* a socket without an address */
        return;
    }
    /* Each hop was written by the one after it: believe it while that one is trusted. */
    while (is_trusted(trusted, &client) && last_hop(&forwarded_for, &hop)) {
        if (!address_parse(hop, &next))
            break;
        client = next;
    }
    address_format(&client, text);
}
