/*
 * jwk.c - turns a JSON Web Key into a key that verifies with one algorithm.
 *
 * kty (and crv) fix the algorithm; a key that names another alg, is meant for
 * encryption (`use`) or may not verify (`key_ops`) is passed over: key sets of
 * identity providers hold such keys beside ours.
 */
#include "jwk.h"

#include <string.h>

#include <cjson/cJSON.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/param_build.h>

#define SECRET_BYTES_MIN       32 /* RFC 7518, 3.2: a key as long as the hash, at least */
#define P256_NUMBER_BYTES      32
#define P256_NAME              "prime256v1" /* OpenSSL's word for P-256 */
#define ED25519_KEY_BYTES      32
#define RSA_EXPONENT_BYTES_MAX 8

static const char *
text_of(const cJSON *jwk, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(jwk, name));
}

static enum jwk_outcome
broken(const char **reason, const char *why)
{
    ERR_clear_error();
    *reason = why;
    return JWK_BROKEN;
}

static enum jwk_outcome
passed_over(const char **reason, const char *why)
{
    *reason = why;
    return JWK_PASSED_OVER;
}

/* A base64url member. False: absent, not a string, not base64url, empty or over max. */
static bool
member_bytes(const cJSON *jwk, const char *name, unsigned char *bytes, size_t max, size_t *len)
{
    const char *text = text_of(jwk, name);

    return text != NULL && base64url_decode(slice_of(text), bytes, max, len) && *len > 0;
}

/* --- the parameters common to all kinds -------------------------------- */

static bool
read_kid(const cJSON *jwk, struct jws_key *key)
{
    const cJSON *kid = cJSON_GetObjectItemCaseSensitive(jwk, "kid");

    if (kid == NULL)
        return true;
    if (!cJSON_IsString(kid) || strlen(kid->valuestring) > JWS_KID_BYTES_MAX)
        return false;
    memcpy(key->kid, kid->valuestring, strlen(kid->valuestring) + 1);
    return true;
}

static bool
may_verify(const cJSON *jwk)
{
    const cJSON *use = cJSON_GetObjectItemCaseSensitive(jwk, "use");
    const cJSON *key_ops = cJSON_GetObjectItemCaseSensitive(jwk, "key_ops");
    const cJSON *item;

    if (use != NULL && (!cJSON_IsString(use) || strcmp(use->valuestring, "sig") != 0))
        return false;
    if (key_ops == NULL)
        return true;
    if (!cJSON_IsArray(key_ops))
        return false;
    cJSON_ArrayForEach(item, key_ops)
    {
        if (cJSON_IsString(item) && strcmp(item->valuestring, "verify") == 0)
            return true;
    }
    return false;
}

static bool
alg_is(const cJSON *jwk, enum jws_alg alg)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(jwk, "alg");

    return item == NULL ||
           (cJSON_IsString(item) && strcmp(item->valuestring, jws_alg_name(alg)) == 0);
}

/* The algorithm that kty and crv fix. False: none of ours. */
static bool
alg_of(const cJSON *jwk, enum jws_alg *alg)
{
    const char *kty = text_of(jwk, "kty"), *crv = text_of(jwk, "crv");

    if (kty == NULL)
        return false;
    if (strcmp(kty, "oct") == 0)
        *alg = JWS_HS256;
    else if (strcmp(kty, "RSA") == 0)
        *alg = JWS_RS256;
    else if (strcmp(kty, "EC") == 0 && crv != NULL && strcmp(crv, "P-256") == 0)
        *alg = JWS_ES256;
    else if (strcmp(kty, "OKP") == 0 && crv != NULL && strcmp(crv, "Ed25519") == 0)
        *alg = JWS_EDDSA;
    else
        return false;
    return true;
}

/* --- one function a kind ----------------------------------------------- */

static enum jwk_outcome
read_oct(const cJSON *jwk, struct jws_key *key, const char **reason)
{
    unsigned char bytes[JWS_SECRET_BYTES_MAX];
    size_t len = 0;

    if (!member_bytes(jwk, "k", bytes, sizeof(bytes), &len))
        return broken(reason, "k is missing or not base64url");
    if (len >= SECRET_BYTES_MIN)
        key->secret = OPENSSL_memdup(bytes, len);
    key->secret_len = len;
    OPENSSL_cleanse(bytes, sizeof(bytes));
    if (key->secret == NULL)
        return broken(reason, len < SECRET_BYTES_MIN ? "k has fewer than 32 bytes" : "no memory");
    return JWK_TAKEN;
}

/* Builds a public key of `type` from what was pushed; takes the builder. NULL: not a key. */
static EVP_PKEY *
key_from_params(const char *type, OSSL_PARAM_BLD *builder)
{
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(builder);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    EVP_PKEY *key = NULL;

    if (params == NULL || context == NULL || EVP_PKEY_fromdata_init(context) != 1 ||
        EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        key = NULL;
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(builder);
    return key;
}

/* The check that OpenSSL has for a public key: e.g. a point that is not on the curve. */
static bool
key_is_sound(EVP_PKEY *key)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    bool sound = context != NULL && EVP_PKEY_public_check(context) == 1;

    EVP_PKEY_CTX_free(context);
    return sound;
}

static EVP_PKEY *
rsa_key(BIGNUM *n, BIGNUM *e)
{
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();

    if (builder == NULL || OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) != 1 ||
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e) != 1) {
        OSSL_PARAM_BLD_free(builder);
        return NULL;
    }
    return key_from_params("RSA", builder);
}

static enum jwk_outcome
read_rsa(const cJSON *jwk, struct jws_key *key, const char **reason)
{
    unsigned char n_bytes[JWS_RSA_BITS_MAX / 8 + 1], e_bytes[RSA_EXPONENT_BYTES_MAX];
    size_t n_len, e_len;
    BIGNUM *n, *e;
    const char *why = NULL;

    if (!member_bytes(jwk, "n", n_bytes, sizeof(n_bytes), &n_len) ||
        !member_bytes(jwk, "e", e_bytes, sizeof(e_bytes), &e_len))
        return broken(reason, "n or e is missing, not base64url or too long");
    n = BN_bin2bn(n_bytes, (int)n_len, NULL);
    e = BN_bin2bn(e_bytes, (int)e_len, NULL);
    if (n == NULL || e == NULL)
        why = "no memory";
    else if (BN_num_bits(n) < JWS_RSA_BITS_MIN)
        why = "an RSA key of fewer than 2048 bits";
    else if (BN_num_bits(n) > JWS_RSA_BITS_MAX)
        why = "an RSA key of more than 8192 bits";
    else if (!BN_is_odd(n) || !BN_is_odd(e) || BN_is_one(e))
        why = "n or e can't be those of an RSA key";
    else if ((key->public_key = rsa_key(n, e)) == NULL)
        why = "OpenSSL refuses it";
    BN_free(n);
    BN_free(e);
    return why == NULL ? JWK_TAKEN : broken(reason, why);
}

static EVP_PKEY *
p256_key(const unsigned char *point, size_t len)
{
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();

    if (builder == NULL ||
        OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, P256_NAME, 0) != 1 ||
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, len) != 1) {
        OSSL_PARAM_BLD_free(builder);
        return NULL;
    }
    return key_from_params("EC", builder);
}

static enum jwk_outcome
read_ec(const cJSON *jwk, struct jws_key *key, const char **reason)
{
    unsigned char point[1 + 2 * P256_NUMBER_BYTES] = { 4 }; /* 4: uncompressed, x and y follow */
    unsigned char *x = point + 1, *y = point + 1 + P256_NUMBER_BYTES;
    size_t x_len, y_len;

    if (!member_bytes(jwk, "x", x, P256_NUMBER_BYTES, &x_len) || x_len != P256_NUMBER_BYTES ||
        !member_bytes(jwk, "y", y, P256_NUMBER_BYTES, &y_len) || y_len != P256_NUMBER_BYTES)
        return broken(reason, "x and y must be 32 bytes in base64url");
    key->public_key = p256_key(point, sizeof(point));
    if (key->public_key == NULL || !key_is_sound(key->public_key))
        return broken(reason, "x and y are no point of P-256");
    return JWK_TAKEN;
}

static enum jwk_outcome
read_okp(const cJSON *jwk, struct jws_key *key, const char **reason)
{
    unsigned char x[ED25519_KEY_BYTES];
    size_t len;

    if (!member_bytes(jwk, "x", x, sizeof(x), &len) || len != sizeof(x))
        return broken(reason, "x must be 32 bytes in base64url");
    key->public_key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, x, sizeof(x));
    return key->public_key != NULL ? JWK_TAKEN : broken(reason, "OpenSSL refuses it");
}

static enum jwk_outcome
read_kind(const cJSON *jwk, struct jws_key *key, const char **reason)
{
    switch (key->alg) {
    case JWS_HS256:
        return read_oct(jwk, key, reason);
    case JWS_RS256:
        return read_rsa(jwk, key, reason);
    case JWS_ES256:
        return read_ec(jwk, key, reason);
    case JWS_EDDSA:
        return read_okp(jwk, key, reason);
    }
    return broken(reason, "unknown kind");
}

enum jwk_outcome
jwk_read(const cJSON *jwk, struct jws_key *key, const char **reason)
{
    enum jwk_outcome outcome;

    memset(key, 0, sizeof(*key));
    if (!cJSON_IsObject(jwk))
        return broken(reason, "a key must be an object");
    if (!alg_of(jwk, &key->alg))
        return passed_over(reason, "kty and crv are none of oct, RSA, EC P-256, OKP Ed25519");
    if (!alg_is(jwk, key->alg))
        return passed_over(reason, "alg is none of HS256, RS256, ES256, EdDSA, or not this kty's");
    if (!may_verify(jwk))
        return passed_over(reason, "use or key_ops don't let it verify");
    if (!read_kid(jwk, key))
        return broken(reason, "kid is not a string of up to 128 bytes");
    outcome = read_kind(jwk, key, reason);
    if (outcome != JWK_TAKEN)
        jws_key_fini(key);
    return outcome;
}
