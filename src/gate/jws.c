/*
 * jws.c - reads compact JWS and checks their signatures with OpenSSL's EVP.
 *
 * The invariant of this file: what the token says about its algorithm only ever
 * leads to a refusal. The key's own alg decides what is computed.
 */
#include "jws.h"

#include <string.h>

#include <cjson/cJSON.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/hmac.h>

#include "holdfast/json.h"

#define HEADER_BYTES_MAX    1024
#define ES256_NUMBER_BYTES  32 /* r and s, each */
#define ES256_DER_BYTES_MAX 80

const char *
jws_alg_name(enum jws_alg alg)
{
    switch (alg) {
    case JWS_HS256:
        return "HS256";
    case JWS_RS256:
        return "RS256";
    case JWS_ES256:
        return "ES256";
    case JWS_EDDSA:
        return "EdDSA";
    }
    return "";
}

static bool
alg_parse(const char *name, enum jws_alg *alg)
{
    static const enum jws_alg known[] = { JWS_HS256, JWS_RS256, JWS_ES256, JWS_EDDSA };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(name, jws_alg_name(known[i])) == 0) {
            *alg = known[i];
            return true;
        }
    }
    return false;
}

void
jws_key_fini(struct jws_key *key)
{
    OPENSSL_clear_free(key->secret, key->secret_len);
    EVP_PKEY_free(key->public_key);
    memset(key, 0, sizeof(*key));
}

/* --- reading ----------------------------------------------------------- */

/* Cuts off what stands before the first dot of *rest. False: there is no dot. */
static bool
cut_part(struct slice *rest, struct slice *part)
{
    const char *dot = memchr(rest->ptr, '.', rest->len);

    if (dot == NULL)
        return false;
    part->ptr = rest->ptr;
    part->len = (size_t)(dot - rest->ptr);
    rest->ptr = dot + 1;
    rest->len -= part->len + 1;
    return true;
}

static bool
read_kid(const cJSON *item, char kid[JWS_KID_BYTES_MAX + 1])
{
    size_t len;

    kid[0] = '\0';
    if (item == NULL)
        return true;
    if (!cJSON_IsString(item))
        return false;
    len = strlen(item->valuestring);
    if (len == 0 || len > JWS_KID_BYTES_MAX)
        return false;
    memcpy(kid, item->valuestring, len + 1);
    return true;
}

/*
 * `crit` lists extensions that must be understood, and none is; `b64` would
 * change what is signed (RFC 7797). Keys that the header brings along (jwk, jku,
 * x5c) are never looked at.
 */
static bool
read_header_fields(const cJSON *header, struct jws *jws)
{
    const cJSON *alg = cJSON_GetObjectItemCaseSensitive(header, "alg");

    return cJSON_IsObject(header) && cJSON_IsString(alg) &&
           alg_parse(alg->valuestring, &jws->alg) &&
           cJSON_GetObjectItemCaseSensitive(header, "crit") == NULL &&
           cJSON_GetObjectItemCaseSensitive(header, "b64") == NULL &&
           read_kid(cJSON_GetObjectItemCaseSensitive(header, "kid"), jws->kid);
}

static bool
read_header(struct slice part, struct jws *jws)
{
    unsigned char bytes[HEADER_BYTES_MAX];
    struct json_error error;
    size_t len;
    cJSON *header;
    bool good;

    if (!base64url_decode(part, bytes, sizeof(bytes), &len))
        return false;
    header = json_parse((struct slice){ (const char *)bytes, len }, &error);
    if (header == NULL)
        return false;
    good = read_header_fields(header, jws);
    cJSON_Delete(header);
    return good;
}

bool
jws_read(struct slice text, struct jws *jws)
{
    struct slice rest = text, header, payload;

    if (text.len == 0 || text.len > TOKEN_BYTES_MAX)
        return false;
    if (!cut_part(&rest, &header) || !cut_part(&rest, &payload))
        return false;
    jws->signing_input.ptr = text.ptr;
    jws->signing_input.len = header.len + 1 + payload.len;
    /* A further dot in `rest` is no base64url. */
    return base64url_decode(rest, jws->signature, sizeof(jws->signature), &jws->signature_len) &&
           jws->signature_len > 0 &&
           base64url_decode(payload, jws->payload, sizeof(jws->payload), &jws->payload_len) &&
           read_header(header, jws);
}

/* --- verifying --------------------------------------------------------- */

bool
jws_key_fits(const struct jws_key *key, const struct jws *jws)
{
    if (key->alg != jws->alg)
        return false;
    return key->kid[0] == '\0' || jws->kid[0] == '\0' || strcmp(key->kid, jws->kid) == 0;
}

bool
jws_hmac(struct slice secret, struct slice text, unsigned char mac[32])
{
    unsigned int len = 0;

    return secret.len <= JWS_SECRET_BYTES_MAX &&
           HMAC(EVP_sha256(), secret.ptr, (int)secret.len, (const unsigned char *)text.ptr,
                text.len, mac, &len) != NULL &&
           len == 32;
}

static enum jws_verdict
verify_hs256(const struct jws_key *key, const struct jws *jws)
{
    struct slice secret = { (const char *)key->secret, key->secret_len };
    unsigned char mac[32];

    if (jws->signature_len != sizeof(mac))
        return JWS_FORGED;
    if (!jws_hmac(secret, jws->signing_input, mac))
        return JWS_UNJUDGED;
    return CRYPTO_memcmp(mac, jws->signature, sizeof(mac)) == 0 ? JWS_SIGNED : JWS_FORGED;
}

static enum jws_verdict
verify_public(const struct jws_key *key, const struct jws *jws, const EVP_MD *digest,
              const unsigned char *signature, size_t signature_len)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    enum jws_verdict verdict = JWS_UNJUDGED;

    if (context != NULL &&
        EVP_DigestVerifyInit(context, NULL, digest, NULL, key->public_key) == 1) {
        int answer =
            EVP_DigestVerify(context, signature, signature_len,
                             (const unsigned char *)jws->signing_input.ptr, jws->signing_input.len);
        verdict = answer == 1 ? JWS_SIGNED : answer == 0 ? JWS_FORGED : JWS_UNJUDGED;
    }
    EVP_MD_CTX_free(context);
    if (verdict != JWS_SIGNED)
        ERR_clear_error(); /* a stranger's bad signature is no news for a later caller */
    return verdict;
}

/* JWS has r and s side by side, EVP wants them in DER. 0: no memory. */
static int
es256_to_der(const unsigned char *signature, unsigned char der[ES256_DER_BYTES_MAX])
{
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(signature, ES256_NUMBER_BYTES, NULL);
    BIGNUM *s = BN_bin2bn(signature + ES256_NUMBER_BYTES, ES256_NUMBER_BYTES, NULL);
    unsigned char *out = der;
    int len = 0;

    if (pair == NULL || r == NULL || s == NULL) {
        BN_free(r);
        BN_free(s);
    } else {
        ECDSA_SIG_set0(pair, r, s); /* takes r and s */
        len = i2d_ECDSA_SIG(pair, NULL);
        len = len > 0 && len <= ES256_DER_BYTES_MAX ? i2d_ECDSA_SIG(pair, &out) : 0;
    }
    ECDSA_SIG_free(pair);
    return len > 0 ? len : 0;
}

static enum jws_verdict
verify_es256(const struct jws_key *key, const struct jws *jws)
{
    unsigned char der[ES256_DER_BYTES_MAX];
    int der_len;

    if (jws->signature_len != 2 * ES256_NUMBER_BYTES)
        return JWS_FORGED;
    der_len = es256_to_der(jws->signature, der);
    if (der_len == 0)
        return JWS_UNJUDGED;
    return verify_public(key, jws, EVP_sha256(), der, (size_t)der_len);
}

enum jws_verdict
jws_verify(const struct jws_key *key, const struct jws *jws)
{
    if (!jws_key_fits(key, jws))
        return JWS_UNJUDGED;
    switch (key->alg) {
    case JWS_HS256:
        return verify_hs256(key, jws);
    case JWS_RS256: /* EVP's default padding for RSA keys is PKCS #1 1.5, as RS256 has it */
        return verify_public(key, jws, EVP_sha256(), jws->signature, jws->signature_len);
    case JWS_ES256:
        return verify_es256(key, jws);
    case JWS_EDDSA: /* hashes by itself */
        return verify_public(key, jws, NULL, jws->signature, jws->signature_len);
    }
    return JWS_UNJUDGED;
}
