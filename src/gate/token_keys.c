/*
 * token_keys.c - reads jwt_secret and the JWK set of jwt_keys_file.
 *
 * No error text ever quotes a secret: items are named by number or kid.
 */
#include "token_keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <openssl/crypto.h>

#include "holdfast/json.h"
#include "holdfast/log.h"
#include "jwk.h"

#define KEYS_FILE_BYTES_MAX (1024 * 1024)
#define SECRET_BYTES_GOOD   32 /* RFC 7518, 3.2; a shorter one is taken, with a warning */

void
token_keys_fini(struct token_keys *keys)
{
    for (int i = 0; i < keys->count; i++)
        jws_key_fini(&keys->keys[i]);
    keys->count = 0;
}

/* --- jwt_secret -------------------------------------------------------- */

/*
 * Cuts the next item off *rest. Without any ':' the whole is one secret (which
 * may hold commas); else every item must be kid:secret. False: it isn't.
 */
static bool
next_secret(struct slice *rest, bool pairs, struct slice *kid, struct slice *secret)
{
    const char *comma = pairs ? memchr(rest->ptr, ',', rest->len) : NULL;
    size_t len = comma != NULL ? (size_t)(comma - rest->ptr) : rest->len;
    const char *colon;

    *kid = SLICE_EMPTY;
    *secret = (struct slice){ rest->ptr, len };
    rest->ptr += comma != NULL ? len + 1 : len;
    rest->len -= comma != NULL ? len + 1 : len;
    if (!pairs)
        return len <= JWS_SECRET_BYTES_MAX;
    colon = memchr(secret->ptr, ':', len);
    if (colon == NULL)
        return false;
    kid->ptr = secret->ptr;
    kid->len = (size_t)(colon - secret->ptr);
    secret->ptr = colon + 1;
    secret->len = len - kid->len - 1;
    return id_is_valid(*kid) && secret->len > 0 && secret->len <= JWS_SECRET_BYTES_MAX;
}

static void
bad_secret(int item, char *error, size_t error_bytes)
{
    snprintf(error, error_bytes,
             "jwt_secret: item %d must be a secret, or kid:secret, of 1 to %d bytes", item,
             JWS_SECRET_BYTES_MAX);
}

bool
token_keys_first_secret(const char *jwt_secret, struct slice *kid, struct slice *secret,
                        char *error, size_t error_bytes)
{
    struct slice rest = slice_of(jwt_secret);

    if (rest.len == 0) {
        snprintf(error, error_bytes, "jwt_secret is not set");
        return false;
    }
    if (!next_secret(&rest, memchr(rest.ptr, ':', rest.len) != NULL, kid, secret)) {
        bad_secret(1, error, error_bytes);
        return false;
    }
    return true;
}

/* Room for one more key, or NULL with the error. */
static struct jws_key *
next_key(struct token_keys *keys, char *error, size_t error_bytes)
{
    if (keys->count < TOKEN_KEYS_MAX)
        return &keys->keys[keys->count];
    snprintf(error, error_bytes, "jwt_secret and jwt_keys_file have more than %d keys",
             TOKEN_KEYS_MAX);
    return NULL;
}

static bool
add_secret(struct token_keys *keys, struct slice kid, struct slice secret, char *error,
           size_t error_bytes)
{
    struct jws_key *key = next_key(keys, error, error_bytes);

    if (key == NULL)
        return false;
    key->secret = OPENSSL_memdup(secret.ptr, secret.len);
    if (key->secret == NULL) {
        snprintf(error, error_bytes, "jwt_secret: no memory");
        return false;
    }
    key->alg = JWS_HS256;
    key->secret_len = secret.len;
    memcpy(key->kid, kid.ptr, kid.len); /* a valid id is shorter than the field */
    key->kid[kid.len] = '\0';
    keys->count++;
    if (secret.len < SECRET_BYTES_GOOD)
        LOG_EVENT(LOG_WARN, "jwt_secret_short", log_slice("kid", kid),
                  log_int("bytes", (int64_t)secret.len));
    return true;
}

static bool
read_secrets(struct token_keys *keys, const char *jwt_secret, char *error, size_t error_bytes)
{
    struct slice rest = slice_of(jwt_secret);
    bool pairs = memchr(rest.ptr, ':', rest.len) != NULL;

    for (int item = 1; rest.len > 0; item++) {
        struct slice kid, secret;
        if (!next_secret(&rest, pairs, &kid, &secret)) {
            bad_secret(item, error, error_bytes);
            return false;
        }
        if (!add_secret(keys, kid, secret, error, error_bytes))
            return false;
    }
    return true;
}

/* --- jwt_keys_file ----------------------------------------------------- */

/* The whole file in *text, which the caller ends with buf_fini. */
static bool
read_file(const char *path, struct buf *text, char *error, size_t error_bytes)
{
    char chunk[4096];
    size_t len;
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        snprintf(error, error_bytes, "jwt_keys_file: %s: %s", path, strerror(errno));
        return false;
    }
    while ((len = fread(chunk, 1, sizeof(chunk), file)) > 0 && text->len <= KEYS_FILE_BYTES_MAX)
        buf_append(text, chunk, len);
    OPENSSL_cleanse(chunk, sizeof(chunk));
    if (ferror(file) || text->failed || text->len > KEYS_FILE_BYTES_MAX) {
        snprintf(error, error_bytes, "jwt_keys_file: %s: %s", path,
                 text->len > KEYS_FILE_BYTES_MAX ? "larger than 1 MiB" : "can't be read");
        fclose(file);
        return false;
    }
    fclose(file);
    return true;
}

static bool
add_jwk(struct token_keys *keys, const cJSON *jwk, int item, char *error, size_t error_bytes)
{
    struct jws_key *key = next_key(keys, error, error_bytes);
    const char *reason = "";

    if (key == NULL)
        return false;
    switch (jwk_read(jwk, key, &reason)) {
    case JWK_TAKEN:
        keys->count++;
        return true;
    case JWK_PASSED_OVER:
        LOG_EVENT(LOG_INFO, "jwk_passed_over", log_int("item", item), log_text("reason", reason));
        return true;
    case JWK_BROKEN:
        break;
    }
    snprintf(error, error_bytes, "jwt_keys_file: key %d: %s", item, reason);
    return false;
}

static bool
read_jwk_set(struct token_keys *keys, struct slice text, char *error, size_t error_bytes)
{
    struct json_error why = { 0, "" };
    cJSON *set = json_parse(text, &why);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(set, "keys");
    const cJSON *jwk;
    bool good = cJSON_IsArray(list);
    int item = 0;

    if (set == NULL)
        snprintf(error, error_bytes, "jwt_keys_file: %s at byte %zu", why.reason, why.offset);
    else if (!good)
        snprintf(error, error_bytes, "jwt_keys_file: no array `keys` in it");
    cJSON_ArrayForEach(jwk, list)
    {
        good = good && add_jwk(keys, jwk, ++item, error, error_bytes);
    }
    cJSON_Delete(set);
    return good;
}

static bool
read_keys_file(struct token_keys *keys, const char *path, char *error, size_t error_bytes)
{
    struct buf text = { 0 };
    bool good;

    good = read_file(path, &text, error, error_bytes) &&
           read_jwk_set(keys, buf_slice(&text), error, error_bytes);
    if (text.data != NULL)
        OPENSSL_cleanse(text.data, text.capacity);
    buf_fini(&text);
    return good;
}

bool
token_keys_read(struct token_keys *keys, const struct config *config, char *error,
                size_t error_bytes)
{
    if (config->jwt_secret[0] != '\0' &&
        !read_secrets(keys, config->jwt_secret, error, error_bytes))
        return false;
    if (config->jwt_keys_file[0] != '\0' &&
        !read_keys_file(keys, config->jwt_keys_file, error, error_bytes))
        return false;
    if (keys->count == 0)
        LOG_EVENT(LOG_WARN, "no_token_keys", log_text("effect", "every token is refused"));
    return true;
}
