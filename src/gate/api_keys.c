/*
 * api_keys.c - keys of front ends, compared by their digests.
 *
 * A key is hashed once and compared with every one that there is, without stopping: neither how
 * much of a key was right, nor which place it has, shows in the time.
 */
#include "holdfast/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/ids.h"

#define DIGEST_BYTES 32

struct api_key {
    char org[ID_BYTES_MAX + 1];
    unsigned char digest[DIGEST_BYTES];
};

struct api_keys {
    int count;
    struct api_key items[API_KEYS_MAX];
};

static bool
digest(struct slice key, unsigned char out[DIGEST_BYTES])
{
    return EVP_Digest(key.ptr, key.len, out, NULL, EVP_sha256(), NULL) == 1;
}

/* Cuts the next piece up to a comma off *rest. */
static struct slice
next_pair(struct slice *rest)
{
    const char *comma = memchr(rest->ptr, ',', rest->len);
    struct slice pair = { rest->ptr, comma != NULL ? (size_t)(comma - rest->ptr) : rest->len };
    size_t used = comma != NULL ? pair.len + 1 : pair.len;

    *rest = (struct slice){ rest->ptr + used, rest->len - used };
    while (pair.len > 0 && pair.ptr[0] == ' ')
        pair = (struct slice){ pair.ptr + 1, pair.len - 1 };
    while (pair.len > 0 && pair.ptr[pair.len - 1] == ' ')
        pair.len--;
    return pair;
}

/* NULL: it was added; else what is wrong. */
static const char *
add(struct api_keys *keys, struct slice pair)
{
    const char *colon = pair.len > 0 ? memchr(pair.ptr, ':', pair.len) : NULL;
    struct slice org = { pair.ptr, colon != NULL ? (size_t)(colon - pair.ptr) : 0 };
    struct api_key *key = &keys->items[keys->count];

    if (keys->count == API_KEYS_MAX)
        return "there are too many";
    if (colon == NULL || !id_is_valid(org))
        return "is not org:key";
    struct slice secret = { colon + 1, pair.len - org.len - 1 };
    if (secret.len == 0)
        return "has no key";
    if (!digest(secret, key->digest))
        return "can't be hashed";
    for (int i = 0; i < keys->count; i++) {
        if (CRYPTO_memcmp(keys->items[i].digest, key->digest, DIGEST_BYTES) == 0)
            return "has a key that another one has";
    }
    memcpy(key->org, org.ptr, org.len);
    keys->count++;
    return NULL;
}

struct api_keys *
api_keys_new(const struct config *config, char *error, size_t error_bytes)
{
    struct api_keys *keys = calloc(1, sizeof(*keys));
    struct slice rest = slice_of(config->api_keys);

    if (keys == NULL)
        snprintf(error, error_bytes, "no memory for api_keys");
    for (int item = 1; keys != NULL && rest.len > 0; item++) {
        const char *reason = add(keys, next_pair(&rest));
        if (reason == NULL)
            continue;
        snprintf(error, error_bytes, "api_keys: pair %d: %s", item, reason);
        api_keys_free(&keys);
    }
    return keys;
}

void
api_keys_free(struct api_keys **keys)
{
    if (*keys != NULL)
        OPENSSL_cleanse(*keys, sizeof(**keys));
    free(*keys);
    *keys = NULL;
}

const char *
api_keys_find(const struct api_keys *keys, struct slice key)
{
    unsigned char given[DIGEST_BYTES];
    const char *org = NULL;

    if (!digest(key, given))
        return NULL;
    for (int i = 0; i < keys->count; i++) {
        if (CRYPTO_memcmp(keys->items[i].digest, given, DIGEST_BYTES) == 0)
            org = keys->items[i].org;
    }
    return org;
}

bool
api_keys_check(const struct config *config, char *error, size_t error_bytes)
{
    struct api_keys *keys = api_keys_new(config, error, error_bytes);
    bool good = keys != NULL;

    api_keys_free(&keys);
    return good;
}
