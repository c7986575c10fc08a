/*
 * jwk.h - JSON Web Keys (RFC 7517) as keys that verify.
 *
 * Callers: token.c at start. Threads: any; nothing is shared.
 */
#ifndef HOLDFAST_GATE_JWK_H
#define HOLDFAST_GATE_JWK_H

#include "jws.h"

struct cJSON;

enum jwk_outcome {
    JWK_TAKEN,
    JWK_PASSED_OVER, /* fine, but not for verifying one of our four algorithms */
    JWK_BROKEN       /* malformed or weak, or no memory */
};

/*
 * Reads one key. Parts of a private key are ignored. On JWK_TAKEN the caller ends
 * *key with jws_key_fini; otherwise nothing is left and *reason (static) says why.
 */
enum jwk_outcome jwk_read(const struct cJSON *jwk, struct jws_key *key, const char **reason);

#endif
