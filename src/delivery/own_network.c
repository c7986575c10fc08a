/*
 * own_network.c - which addresses are not the public Internet.
 *
 * The ranges are those of the IANA special-purpose registries that aren't globally reachable.
 * IPv6 addresses that carry an IPv4 one (mapped, compatible, NAT64, 6to4) are judged by it too. An
 * address of one of this machine's interfaces is its own network whatever it looks like.
 */
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

#include "delivery_internal.h"

struct range {
    uint8_t first[16];
    int bits;
};

static const struct range v4_ranges[] = {
    { { 0 }, 8 },             /* this host */
    { { 10 }, 8 },            /* private */
    { { 100, 64 }, 10 },      /* shared, behind carriers' NAT */
    { { 127 }, 8 },           /* loopback */
    { { 169, 254 }, 16 },     /* link-local; clouds tell secrets there */
    { { 172, 16 }, 12 },      /* private */
    { { 192, 0, 0 }, 24 },    /* protocol assignments */
    { { 192, 0, 2 }, 24 },    /* documentation */
    { { 192, 168 }, 16 },     /* private */
    { { 198, 18 }, 15 },      /* benchmarks */
    { { 198, 51, 100 }, 24 }, /* documentation */
    { { 203, 0, 113 }, 24 },  /* documentation */
    { { 224 }, 3 },           /* multicast, reserved, broadcast */
};

static const struct range v6_ranges[] = {
    { { 0 }, 127 },                                 /* unspecified, loopback */
    { { 0x00, 0x64, 0xFF, 0x9B, 0x00, 0x01 }, 48 }, /* local NAT64 */
    { { 0x01, 0x00 }, 64 },                         /* discarded */
    { { 0x20, 0x01, 0x00, 0x00 }, 23 },             /* protocol assignments, Teredo */
    { { 0x20, 0x01, 0x0D, 0xB8 }, 32 },             /* documentation */
    { { 0xFC }, 7 },                                /* unique local */
    { { 0xFE, 0x80 }, 10 },                         /* link-local */
    { { 0xFE, 0xC0 }, 10 },                         /* site-local, of old */
    { { 0xFF }, 8 },                                /* multicast */
};

/* Where an IPv4 address stands inside an IPv6 one of that prefix. */
static const struct {
    struct range range;
    int at;
} v4_inside[] = {
    { { { 0 }, 96 }, 12 },
    { { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF }, 96 }, 12 },
    { { { 0x00, 0x64, 0xFF, 0x9B }, 96 }, 12 },
    { { { 0x20, 0x02 }, 16 }, 2 },
};

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static bool
is_in(const uint8_t *bytes, const struct range *range)
{
    int whole = range->bits / 8;
    int rest = range->bits % 8;
    uint8_t mask = (uint8_t)(0xFF << (8 - rest));

    return memcmp(bytes, range->first, (size_t)whole) == 0 &&
           (rest == 0 || (bytes[whole] & mask) == (range->first[whole] & mask));
}

static bool
is_special_v4(const uint8_t bytes[4])
{
    for (int i = 0; i < COUNT(v4_ranges); i++) {
        if (is_in(bytes, &v4_ranges[i]))
            return true;
    }
    return false;
}

static bool
is_special_v6(const uint8_t bytes[16])
{
    for (int i = 0; i < COUNT(v6_ranges); i++) {
        if (is_in(bytes, &v6_ranges[i]))
            return true;
    }
    for (int i = 0; i < COUNT(v4_inside); i++) {
        if (is_in(bytes, &v4_inside[i].range) && is_special_v4(bytes + v4_inside[i].at))
            return true;
    }
    return false;
}

/* The bytes of an IPv4 or IPv6 address; NULL: another family. */
static const uint8_t *
bytes_of(const struct sockaddr *address, size_t *len)
{
    if (address->sa_family == AF_INET) {
        *len = 4;
        return (const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr;
    }
    *len = 16;
    return address->sa_family == AF_INET6
               ? (const uint8_t *)&((const struct sockaddr_in6 *)address)->sin6_addr
               : NULL;
}

/* What can't be found out counts as ours. */
static bool
is_on_an_interface(const struct sockaddr *address)
{
    struct ifaddrs *all;
    size_t len, other_len;
    const uint8_t *bytes = bytes_of(address, &len);
    bool found = false;

    if (getifaddrs(&all) != 0)
        return true;
    for (const struct ifaddrs *one = all; one != NULL && !found; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != address->sa_family)
            continue;
        const uint8_t *other = bytes_of(one->ifa_addr, &other_len);
        found = other != NULL && memcmp(bytes, other, len) == 0;
    }
    freeifaddrs(all);
    return found;
}

bool
address_is_of_own_network(const struct sockaddr *address)
{
    size_t len;
    const uint8_t *bytes = bytes_of(address, &len);

    if (bytes == NULL)
        return true; /* neither IPv4 nor IPv6: nothing that the Internet has */
    return (len == 4 ? is_special_v4(bytes) : is_special_v6(bytes)) || is_on_an_interface(address);
}
