/*
 * token.h - from `Authorization: Bearer <JWT>` to who is asking.
 *
 * The algorithm is fixed by the key, never by the token: a shared secret takes
 * HS256 only, an RSA key RS256, a P-256 key ES256, an Ed25519 key EdDSA. Tokens
 * are compact JWS, base64url to the letter; `crit` and anything unknown to this
 * list is refused. A token that was verified once is remembered, one that was
 * refused too, so that repeating either costs no signature check.
 *
 * Callers:  api (each request), main (`holdfast token`), flows that log a user in.
 * Threads:  a verifier is constant after start but for its cache: any thread.
 * Locks:    token_verify takes one stripe lock (rank TOKENS) for a few compares.
 * Memory:   the verifier owns keys and cache; claims are copies. A token found
 *           in the cache costs no allocation.
 * Limits:   TOKEN_BYTES_MAX a token; TOKEN_KEYS_MAX keys; 65,536 remembered
 *           tokens (when a set is full the one that was not asked for goes) and
 *           as many fingerprints of refused ones (the newer overwrites).
 */
#ifndef HOLDFAST_TOKEN_H
#define HOLDFAST_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/buf.h"
#include "holdfast/config.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"
#include "holdfast/status.h"

#define TOKEN_BYTES_MAX 4096
#define TOKEN_KEYS_MAX  64

enum token_role { ROLE_USER, ROLE_AGENT, ROLE_ADMIN, ROLE_SERVICE };

const char *token_role_word(enum token_role role); /* "user", ... */
bool token_role_parse(struct slice word, enum token_role *role);

struct token_claims {
    char org[ID_BYTES_MAX + 1];
    char user[ID_BYTES_MAX + 1]; /* the claim `sub` */
    enum token_role role;
    int64_t exp_unix_s; /* from this second on it is over */
    int64_t nbf_unix_s; /* before this second it is not valid yet; 0: always was */
    /* A passenger's token, from a login: good for one event and one check-in, with the role user.
     */
    char event[ID_BYTES_MAX + 1]; /* the claim `event`; empty: of whatever event */
    bool has_checkin;
    struct uuid checkin; /* the claim `checkin` */
};

struct token_verifier; /* opaque */

/*
 * Builds the verifier from jwt_secret and jwt_keys_file (a JWK set). Keys of the
 * set that are not meant for verifying or are of an algorithm that is not taken
 * are passed over, with a line in the log; a broken or weak one is an error.
 *
 * jwt_secret: without a ':' the whole text is one secret; with one, it is
 * `kid:secret` pairs separated by commas, the first of which signs.
 *
 * No key at all is no error: then every token is refused, and the log says so.
 * NULL: error says what is wrong, without the secret.
 */
HF_MUST_CHECK struct token_verifier *token_verifier_new(const struct config *config, char *error,
                                                        size_t error_bytes);
/* Takes the verifier; *verifier becomes NULL. NULL is fine. */
void token_verifier_free(struct token_verifier **verifier);

/*
 * Judges the value of an Authorization header at `now_unix_s` (the database's clock).
 *
 * HF_OK               *claims is filled.
 * HF_UNAUTHENTICATED  no bearer token, not a token, no key that signed it, not
 *                     valid yet, or its claims are not what they must be.
 * HF_TOKEN_EXPIRED    rightly signed, and over.
 */
HF_MUST_CHECK enum hf_status token_verify(struct token_verifier *verifier,
                                          struct slice authorization, int64_t now_unix_s,
                                          struct token_claims *claims);

/*
 * Appends a token signed with `secret` (HS256) to `out`; an empty kid is left out,
 * so is an nbf of 0. False: no memory, or the signature could not be made.
 */
HF_MUST_CHECK bool token_sign_hs256(struct slice secret, struct slice kid,
                                    const struct token_claims *claims, struct buf *out);

/*
 * The same with the first secret of config->jwt_secret: what this node's own
 * verifier takes. False: error says why (no secret, a bad one, no memory).
 */
HF_MUST_CHECK bool token_mint(const struct config *config, const struct token_claims *claims,
                              struct buf *out, char *error, size_t error_bytes);

#endif
