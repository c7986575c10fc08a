/*
 * ids.h - identifiers: opaque text of clients, and UUIDv7 of our own.
 *
 * Text ids of orgs, events, seats, areas and users are 1-64 characters of
 * [A-Za-z0-9._-]; anything else is refused before it reaches a key, a query
 * or a log line. Threads: any.
 */
#ifndef HOLDFAST_IDS_H
#define HOLDFAST_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/slice.h"

#define ID_BYTES_MAX    64
#define UUID_TEXT_BYTES 37 /* 36 and NUL */

struct uuid {
    uint8_t bytes[16];
};

bool id_is_valid(struct slice text);

/* What tables of events are keyed by: org, a NUL (no id has one), event. */
#define EVENT_KEY_BYTES (2 * ID_BYTES_MAX + 1)
/* How long it is; 0: org or event is too long. */
unsigned event_key(char key[EVENT_KEY_BYTES], struct slice org, struct slice event);

/* A new UUIDv7 (RFC 9562, section 5.7): ordered by time, random beyond. */
struct uuid uuid_v7_new(void);

void uuid_format(const struct uuid *uuid, char text[UUID_TEXT_BYTES]);

/* Only the canonical form, either case. False: not a UUID. */
bool uuid_parse(struct slice text, struct uuid *uuid);

bool uuid_equal(const struct uuid *a, const struct uuid *b);
bool uuid_is_nil(const struct uuid *uuid);

/* XXH3 with a seed drawn at start: for tables whose keys come from clients. */
uint64_t hash_seeded(const void *bytes, size_t len);

/* XXH3 unseeded: the same on every node, for advisory lock keys in Postgres. */
uint64_t hash_stable(const void *bytes, size_t len, uint64_t salt);

#endif
