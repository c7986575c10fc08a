/*
 * token_cache.h - the tokens whose signature was checked already.
 *
 * The model. A table of stripes, each one lock, its sets of eight ways, and a
 * row of fingerprints. A set holds tokens that were verified, whole, so that a
 * hit is an equal text and never just an equal hash. The fingerprints are the
 * seeded hashes of tokens whose signature was wrong; the newer overwrites. A
 * token that is known as good is looked for first, so that no fingerprint can
 * refuse it.
 *
 * Callers:  token.c.
 * Threads:  any.
 * Locks:    one stripe lock (rank TOKENS); nothing is allocated or freed under it.
 * Memory:   the cache owns copies of the tokens; claims are copied out.
 * Limits:   TOKEN_CACHE_STRIPES * TOKEN_CACHE_SETS * TOKEN_CACHE_WAYS tokens of up
 *           to TOKEN_CACHE_TEXT_MAX bytes (longer ones are checked each time).
 *           When a set is full a token that is over goes, else the next one in
 *           turn that was not asked for since the last turn (CLOCK).
 */
#ifndef HOLDFAST_GATE_TOKEN_CACHE_H
#define HOLDFAST_GATE_TOKEN_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/slice.h"
#include "holdfast/token.h"

#define TOKEN_CACHE_STRIPES  64
#define TOKEN_CACHE_SETS     128
#define TOKEN_CACHE_WAYS     8
#define TOKEN_CACHE_REFUSED  1024 /* fingerprints a stripe */
#define TOKEN_CACHE_TEXT_MAX 2048

struct token_cache; /* opaque */

struct token_cache *token_cache_new(void); /* NULL: no memory */
/* Takes the cache; *cache becomes NULL. NULL is fine. */
void token_cache_free(struct token_cache **cache);

enum token_memory { TOKEN_KNOWN, TOKEN_REFUSED, TOKEN_NEW };

/*
 * hash: hash_seeded of the whole token. On TOKEN_KNOWN *claims is filled; its
 * times are the caller's to judge.
 */
enum token_memory token_cache_find(struct token_cache *cache, uint64_t hash, struct slice token,
                                   struct token_claims *claims);

/* Remembers a verified token. Without memory it is not remembered, that is all. */
void token_cache_add(struct token_cache *cache, uint64_t hash, struct slice token,
                     const struct token_claims *claims, int64_t now_unix_s);

/* Remembers that the signature of this token is wrong. */
void token_cache_refuse(struct token_cache *cache, uint64_t hash);

/* Tokens remembered. Walks everything; for tests. */
int64_t token_cache_count(struct token_cache *cache);

#endif
