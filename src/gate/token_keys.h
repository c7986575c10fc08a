/*
 * token_keys.h - the keys that tokens may be signed with, from the config.
 *
 * Callers: token.c at start. Threads: constant once read. Memory: owns its keys.
 */
#ifndef HOLDFAST_GATE_TOKEN_KEYS_H
#define HOLDFAST_GATE_TOKEN_KEYS_H

#include "jws.h"

struct token_keys {
    struct jws_key keys[TOKEN_KEYS_MAX];
    int count;
};

/*
 * Reads jwt_secret and jwt_keys_file; *keys must be zeroed. False: error says why.
 * token_keys_fini is due in both cases.
 */
bool token_keys_read(struct token_keys *keys, const struct config *config, char *error,
                     size_t error_bytes);
void token_keys_fini(struct token_keys *keys);

/* The first secret of jwt_secret and its kid (empty: none). False: error says why. */
bool token_keys_first_secret(const char *jwt_secret, struct slice *kid, struct slice *secret,
                             char *error, size_t error_bytes);

#endif
