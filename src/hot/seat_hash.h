/*
 * seat_hash.h - how uthash is used here: seeded, and without a way out on no memory.
 *
 * Keys come from clients, so the hash must not be one that they can know. An
 * addition that finds no memory leaves hh.tbl NULL, and the caller tells so.
 * uthash doubles its buckets under the lock when a chain grows long: a shard of n
 * entries moves n links once in n additions (about a millisecond for 30,000).
 */
#ifndef HOLDFAST_HOT_SEAT_HASH_H
#define HOLDFAST_HOT_SEAT_HASH_H

#include "holdfast/ids.h"

#define HASH_NONFATAL_OOM                    1
#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = (unsigned)hash_seeded((keyptr), (keylen)))

#include <uthash.h>

#endif
