/*
 * ids.c - identifiers and hashes.
 *
 * Random bytes come from the kernel, 256 at a time and thread, since a system
 * call per id would show at fifty thousand holds a second. The server never
 * forks, so no two processes ever share a pool.
 */
#include "holdfast/ids.h"

#include <stddef.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base_internal.h"
#include "holdfast/assert.h"

#define POOL_BYTES     256   /* getrandom gives up to 256 bytes without interruption */
#define SEQUENCE_MAX   0xfff /* the 12 bits of rand_a */
#define SEQUENCE_START 0x7ff /* starts in the lower half: room for 2,048 ids in the millisecond */

/* One per thread: no lock, no shared cache line. */
struct id_source {
    uint8_t pool[POOL_BYTES];
    size_t left; /* unused bytes at the pool's end */
    uint64_t last_ms;
    uint32_t sequence;
};

static _Thread_local struct id_source source;

static uint64_t hash_seed;

/* Before main: so no lookup has to ask whether the seed is there. */
__attribute__((constructor)) static void
hash_seed_draw(void)
{
    random_fill(&hash_seed, sizeof(hash_seed));
}

static uint64_t
random_word(void)
{
    uint64_t word;

    if (source.left < sizeof(word)) {
        random_fill(source.pool, POOL_BYTES);
        source.left = POOL_BYTES;
    }
    memcpy(&word, source.pool + POOL_BYTES - source.left, sizeof(word));
    source.left -= sizeof(word);
    return word;
}

/*
 * The time and sequence of the next id. When the clock stands still or goes back
 * the sequence counts on; when it is used up the time runs ahead by a millisecond.
 */
static void
source_advance(uint64_t now_ms)
{
    if (now_ms <= source.last_ms && source.sequence < SEQUENCE_MAX) {
        source.sequence++;
        return;
    }
    source.last_ms = now_ms > source.last_ms ? now_ms : source.last_ms + 1;
    source.sequence = (uint32_t)random_word() & SEQUENCE_START;
}

struct uuid
uuid_v7_new(void)
{
    struct uuid uuid;

    source_advance((uint64_t)(wall_clock_us() / TIME_US_PER_MS));
    uint64_t high = source.last_ms << 16 | 0x7000 | source.sequence;
    uint64_t low = UINT64_C(1) << 63 | random_word() >> 2;
    for (int i = 0; i < 8; i++) {
        uuid.bytes[i] = (uint8_t)(high >> (56 - 8 * i));
        uuid.bytes[8 + i] = (uint8_t)(low >> (56 - 8 * i));
    }
    return uuid;
}

static bool
id_char_is_valid(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

bool
id_is_valid(struct slice text)
{
    if (text.len == 0 || text.len > ID_BYTES_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (!id_char_is_valid((unsigned char)text.ptr[i]))
            return false;
    }
    return true;
}

unsigned
event_key(char key[EVENT_KEY_BYTES], struct slice org, struct slice event)
{
    if (org.len > ID_BYTES_MAX || event.len > ID_BYTES_MAX)
        return 0;
    memcpy(key, org.ptr, org.len);
    key[org.len] = '\0';
    memcpy(key + org.len + 1, event.ptr, event.len);
    return (unsigned)(org.len + 1 + event.len);
}

static bool
dash_comes_before(int byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

void
uuid_format(const struct uuid *uuid, char text[UUID_TEXT_BYTES])
{
    static const char hex[] = "0123456789abcdef";
    char *to = text;

    for (int i = 0; i < 16; i++) {
        if (dash_comes_before(i))
            *to++ = '-';
        *to++ = hex[uuid->bytes[i] >> 4];
        *to++ = hex[uuid->bytes[i] & 15];
    }
    *to = '\0';
}

/* -1: not a hexadecimal digit. */
static int
hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool
uuid_parse(struct slice text, struct uuid *uuid)
{
    const char *from = text.ptr;
    struct uuid parsed;

    if (text.len != UUID_TEXT_BYTES - 1)
        return false;
    for (int i = 0; i < 16; i++) {
        if (dash_comes_before(i) && *from++ != '-')
            return false;
        int high = hex_value(*from++);
        int low = hex_value(*from++);
        if (high < 0 || low < 0)
            return false;
        parsed.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *uuid = parsed;
    return true;
}

bool
uuid_equal(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

bool
uuid_is_nil(const struct uuid *uuid)
{
    static const struct uuid nil;

    return uuid_equal(uuid, &nil);
}

uint64_t
hash_seeded(const void *bytes, size_t len)
{
    return XXH3_64bits_withSeed(bytes, len, hash_seed);
}

uint64_t
hash_stable(const void *bytes, size_t len, uint64_t salt)
{
    return XXH3_64bits_withSeed(bytes, len, salt);
}
