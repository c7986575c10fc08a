/*
 * jws.h - signatures over compact JWS (RFC 7515), for four algorithms.
 *
 * Reading and verifying are two steps, because the header names the key: jws_read
 * judges the shape, then jws_verify judges the signature with one key. What
 * jws_read fills is a stranger's text until jws_verify said yes.
 *
 * Callers:  token.c; the key set of jwk.h.
 * Threads:  any; keys are constant once read.
 * Memory:   a key owns its secret or public key; a jws holds copies and slices
 *           of the text that it was read from.
 */
#ifndef HOLDFAST_GATE_JWS_H
#define HOLDFAST_GATE_JWS_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/evp.h>

#include "holdfast/buf.h"
#include "holdfast/slice.h"
#include "holdfast/token.h"

#define JWS_KID_BYTES_MAX       128
#define JWS_RSA_BITS_MIN        2048
#define JWS_RSA_BITS_MAX        8192 /* a check with a larger key is a way to keep a thread busy */
#define JWS_SECRET_BYTES_MAX    1024
#define JWS_SIGNATURE_BYTES_MAX (JWS_RSA_BITS_MAX / 8)
#define JWS_PAYLOAD_BYTES_MAX   (TOKEN_BYTES_MAX / 4 * 3)

enum jws_alg { JWS_HS256, JWS_RS256, JWS_ES256, JWS_EDDSA };

const char *jws_alg_name(enum jws_alg alg);

struct jws_key {
    enum jws_alg alg;                /* the only one that this key takes */
    char kid[JWS_KID_BYTES_MAX + 1]; /* empty: fits every kid */
    unsigned char *secret;           /* HS256 */
    size_t secret_len;
    EVP_PKEY *public_key; /* all others */
};

/* A zeroed key is fine. Wipes the secret. */
void jws_key_fini(struct jws_key *key);

struct jws {
    enum jws_alg alg;
    char kid[JWS_KID_BYTES_MAX + 1]; /* empty: none */
    struct slice signing_input;      /* header.payload, as sent */
    size_t payload_len;
    size_t signature_len;
    unsigned char payload[JWS_PAYLOAD_BYTES_MAX];
    unsigned char signature[JWS_SIGNATURE_BYTES_MAX];
};

/*
 * Reads a compact JWS: exactly three parts, base64url to the letter, a strict
 * JSON header with a known `alg`, no `crit` and no `b64`. False: it is not one.
 * Borrows `text` for as long as *jws is used.
 */
bool jws_read(struct slice text, struct jws *jws);

/* Whether the key is of the algorithm that the header names, and not of another kid. */
bool jws_key_fits(const struct jws_key *key, const struct jws *jws);

enum jws_verdict {
    JWS_SIGNED,  /* by this key */
    JWS_FORGED,  /* the signature is wrong, now and for ever */
    JWS_UNJUDGED /* refused without a verdict: the key doesn't fit, or no memory */
};
enum jws_verdict jws_verify(const struct jws_key *key, const struct jws *jws);

/* The HMAC-SHA256 of `text` as HS256 has it. */
bool jws_hmac(struct slice secret, struct slice text, unsigned char mac[32]);

/*
 * RFC 4648, section 5, without padding: no byte outside the alphabet, no bit left
 * over that is not 0. False: it is not that, or longer than `max`.
 */
bool base64url_decode(struct slice text, unsigned char *bytes, size_t max, size_t *len);
void base64url_append(struct buf *out, const void *bytes, size_t len);

#endif
