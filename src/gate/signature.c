/*
 * signature.c - who wrote a webhook: HMAC-SHA256 over its time and body.
 *
 * The MAC of each secret is made once and compared with every `v1` of the header, without
 * stopping at the first that fits: how long it takes tells nothing about a secret. Schemes that we
 * don't know (`v0`, a later `v2`) are passed over, so that a sender may sign in several at once.
 */
#include "holdfast/signature.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>

#define MAC_BYTES   32
#define SECRETS_MAX 2  /* the old one and the new one */
#define TIME_DIGITS 12 /* of Unix seconds: enough for 30,000 years */

/* --- making -------------------------------------------------------------------------- */

static bool
feed_mac(EVP_MAC_CTX *mac, struct slice secret, struct slice time, struct slice body,
         unsigned char out[MAC_BYTES])
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                            OSSL_PARAM_construct_end() };
    size_t len = 0;

    return EVP_MAC_init(mac, (const unsigned char *)secret.ptr, secret.len, params) == 1 &&
           EVP_MAC_update(mac, (const unsigned char *)time.ptr, time.len) == 1 &&
           EVP_MAC_update(mac, (const unsigned char *)".", 1) == 1 &&
           EVP_MAC_update(mac, (const unsigned char *)body.ptr, body.len) == 1 &&
           EVP_MAC_final(mac, out, &len, MAC_BYTES) == 1 && len == MAC_BYTES;
}

/* False: no memory, or an empty secret, which would prove nothing. */
static bool
mac_of(struct slice secret, struct slice time, struct slice body, unsigned char out[MAC_BYTES])
{
    EVP_MAC *algorithm = secret.len > 0 ? EVP_MAC_fetch(NULL, "HMAC", NULL) : NULL;
    EVP_MAC_CTX *mac = algorithm != NULL ? EVP_MAC_CTX_new(algorithm) : NULL;
    bool made = mac != NULL && feed_mac(mac, secret, time, body, out);

    EVP_MAC_CTX_free(mac);
    EVP_MAC_free(algorithm);
    return made;
}

bool
signature_make(struct slice secret, int64_t unix_s, struct slice body, char text[SIGNATURE_BYTES])
{
    unsigned char mac[MAC_BYTES];
    char time[24];

    snprintf(time, sizeof(time), "%lld", (long long)unix_s);
    if (!mac_of(secret, slice_of(time), body, mac))
        return false;
    int len = snprintf(text, SIGNATURE_BYTES, "t=%s,v1=", time);
    for (int i = 0; i < MAC_BYTES; i++)
        len += snprintf(text + len, SIGNATURE_BYTES - (size_t)len, "%02x", mac[i]);
    return true;
}

/* --- reading the header ---------------------------------------------------------------- */

/* Cuts the next piece up to a comma off *rest. False: there is none. */
static bool
next_piece(struct slice *rest, struct slice *piece)
{
    if (rest->ptr == NULL)
        return false;
    const char *comma = rest->len > 0 ? memchr(rest->ptr, ',', rest->len) : NULL;
    piece->ptr = rest->ptr;
    piece->len = comma != NULL ? (size_t)(comma - rest->ptr) : rest->len;
    rest->ptr = comma != NULL ? comma + 1 : NULL;
    rest->len = comma != NULL ? rest->len - piece->len - 1 : 0;
    return true;
}

/* The value of a piece `name=value`; ptr is NULL if it is another's. */
static struct slice
value_of(struct slice piece, const char *name)
{
    size_t len = strlen(name);

    if (piece.len <= len || memcmp(piece.ptr, name, len) != 0 || piece.ptr[len] != '=')
        return (struct slice){ NULL, 0 };
    return (struct slice){ piece.ptr + len + 1, piece.len - len - 1 };
}

static bool
read_seconds(struct slice text, int64_t *seconds)
{
    *seconds = 0;
    if (text.len == 0 || text.len > TIME_DIGITS)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        *seconds = *seconds * 10 + (text.ptr[i] - '0');
    }
    return true;
}

/* The one `t`. False: there is none, more than one, or it is no time. */
static bool
find_time(struct slice header, struct slice *time, int64_t *seconds)
{
    struct slice piece;

    time->ptr = NULL;
    while (next_piece(&header, &piece)) {
        struct slice value = value_of(piece, "t");
        if (value.ptr == NULL)
            continue;
        if (time->ptr != NULL)
            return false;
        *time = value;
    }
    return time->ptr != NULL && read_seconds(*time, seconds);
}

static int
hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool
read_mac(struct slice hex, unsigned char mac[MAC_BYTES])
{
    if (hex.ptr == NULL || hex.len != 2 * MAC_BYTES)
        return false;
    for (size_t i = 0; i < MAC_BYTES; i++) {
        int high = hex_digit(hex.ptr[2 * i]);
        int low = hex_digit(hex.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        mac[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* --- judging ----------------------------------------------------------------------------- */

static bool
header_has(struct slice header, const unsigned char mac[MAC_BYTES])
{
    unsigned char theirs[MAC_BYTES];
    struct slice piece;
    bool has = false;

    while (next_piece(&header, &piece)) {
        if (read_mac(value_of(piece, "v1"), theirs))
            has |= CRYPTO_memcmp(mac, theirs, MAC_BYTES) == 0;
    }
    return has;
}

bool
signature_is_good(struct slice secrets, int64_t now_unix_s, struct slice header, struct slice body)
{
    unsigned char mac[MAC_BYTES];
    struct slice time, secret;
    int64_t seconds;
    bool good = false;

    if (!find_time(header, &time, &seconds) || seconds < now_unix_s - SIGNATURE_TOLERANCE_S ||
        seconds > now_unix_s + SIGNATURE_TOLERANCE_S)
        return false;
    for (int i = 0; i < SECRETS_MAX && next_piece(&secrets, &secret); i++) {
        if (mac_of(secret, time, body, mac))
            good |= header_has(header, mac);
    }
    return good;
}
