/*
 * address.h - IP addresses as 16 bytes; IPv4 as ::ffff:a.b.c.d.
 *
 * Callers: rate_limit.c, login_limit.c. Threads: any. Memory: values only.
 */
#ifndef HOLDFAST_GATE_ADDRESS_H
#define HOLDFAST_GATE_ADDRESS_H

#include <stdbool.h>

#include "holdfast/rate_limit.h"
#include "holdfast/slice.h"

struct address {
    unsigned char bytes[16];
};

/*
 * Reads an address as proxies write it: IPv4 or IPv6, the latter also in brackets
 * and with a zone, either with a port (IPv6 only behind brackets). False: none.
 */
bool address_parse(struct slice text, struct address *address);

/* The canonical text: dotted for IPv4, RFC 5952 for IPv6. */
void address_format(const struct address *address, char text[ADDRESS_TEXT_BYTES]);

bool address_is_v4(const struct address *address);

/* Sets all bits after the first `bits` (0-128) to zero. */
void address_mask(struct address *address, int bits);

/*
 * The address as limits count it: IPv6 by its /64, since a client has all of that. False: the text
 * is no address, and *key is zero: all of these share one count.
 */
bool address_key(struct slice text, struct address *key);

#endif
