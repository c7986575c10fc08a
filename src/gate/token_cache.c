/*
 * token_cache.c - a bounded, set-associative table of verified tokens.
 *
 * Set-associative, because it is bounded by its shape: no growth, no rehash, and
 * a look-up reads one cache line of hashes before it touches a token.
 */
#include "token_cache.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/lock.h"

struct known_token {
    struct token_claims claims;
    size_t len;
    char text[];
};

struct set {
    uint64_t hashes[TOKEN_CACHE_WAYS];
    struct known_token *tokens[TOKEN_CACHE_WAYS]; /* NULL: the way is free */
    uint8_t asked;                                /* bit i: way i was hit since the hand's turn */
    uint8_t hand;
};

struct stripe {
    struct lock lock; /* rank TOKENS; guards all below */
    struct set sets[TOKEN_CACHE_SETS];
    uint64_t refused[TOKEN_CACHE_REFUSED]; /* 0: free */
};

struct token_cache {
    struct stripe stripes[TOKEN_CACHE_STRIPES];
};

_Static_assert(TOKEN_CACHE_WAYS == 8, "`asked` has one bit a way");
_Static_assert((TOKEN_CACHE_SETS & (TOKEN_CACHE_SETS - 1)) == 0 &&
                   (TOKEN_CACHE_REFUSED & (TOKEN_CACHE_REFUSED - 1)) == 0 &&
                   TOKEN_CACHE_STRIPES == 64,
               "places are cut from the hash by bits");

/* Stripe, set and fingerprint use different bits of the hash. */
static struct stripe *
stripe_of(struct token_cache *cache, uint64_t hash)
{
    return &cache->stripes[hash >> 58];
}

static struct set *
set_of(struct stripe *stripe, uint64_t hash)
{
    return &stripe->sets[hash & (TOKEN_CACHE_SETS - 1)];
}

static uint64_t *
fingerprint_of(struct stripe *stripe, uint64_t hash)
{
    return &stripe->refused[hash >> 16 & (TOKEN_CACHE_REFUSED - 1)];
}

struct token_cache *
token_cache_new(void)
{
    struct token_cache *cache = calloc(1, sizeof(*cache));

    if (cache == NULL)
        return NULL;
    for (int i = 0; i < TOKEN_CACHE_STRIPES; i++)
        lock_init(&cache->stripes[i].lock, LOCK_TOKENS);
    return cache;
}

static void
stripe_fini(struct stripe *stripe)
{
    for (int i = 0; i < TOKEN_CACHE_SETS; i++) {
        for (int way = 0; way < TOKEN_CACHE_WAYS; way++)
            free(stripe->sets[i].tokens[way]);
    }
    lock_fini(&stripe->lock);
}

void
token_cache_free(struct token_cache **cache)
{
    if (*cache == NULL)
        return;
    for (int i = 0; i < TOKEN_CACHE_STRIPES; i++)
        stripe_fini(&(*cache)->stripes[i]);
    free(*cache);
    *cache = NULL;
}

/* The way that holds this very token; -1: none. */
static int
find_way_locked(const struct set *set, uint64_t hash, struct slice token)
{
    for (int way = 0; way < TOKEN_CACHE_WAYS; way++) {
        const struct known_token *known = set->tokens[way];
        if (set->hashes[way] == hash && known != NULL && known->len == token.len &&
            memcmp(known->text, token.ptr, token.len) == 0)
            return way;
    }
    return -1;
}

enum token_memory
token_cache_find(struct token_cache *cache, uint64_t hash, struct slice token,
                 struct token_claims *claims)
{
    struct stripe *stripe = stripe_of(cache, hash);
    struct set *set = set_of(stripe, hash);
    enum token_memory memory = TOKEN_NEW;
    int way;

    lock_take(&stripe->lock);
    way = find_way_locked(set, hash, token);
    if (way >= 0) {
        *claims = set->tokens[way]->claims;
        set->asked |= (uint8_t)(1u << way);
        memory = TOKEN_KNOWN;
    } else if (hash != 0 && *fingerprint_of(stripe, hash) == hash) {
        memory = TOKEN_REFUSED;
    }
    lock_drop(&stripe->lock);
    return memory;
}

/* A free way, else one whose token is over, else by CLOCK: at most two turns of the hand. */
static int
choose_way_locked(struct set *set, int64_t now_unix_s)
{
    for (int way = 0; way < TOKEN_CACHE_WAYS; way++) {
        if (set->tokens[way] == NULL)
            return way;
    }
    for (int way = 0; way < TOKEN_CACHE_WAYS; way++) {
        if (set->tokens[way]->claims.exp_unix_s <= now_unix_s)
            return way;
    }
    for (;;) {
        uint8_t way = set->hand;
        set->hand = (uint8_t)((way + 1) % TOKEN_CACHE_WAYS);
        if ((set->asked & 1u << way) == 0)
            return way;
        set->asked &= (uint8_t) ~(1u << way);
    }
}

/* Puts `token` into the set and returns what has to be freed: what it pushed out, or itself. */
static struct known_token *
insert_locked(struct set *set, uint64_t hash, struct known_token *token, int64_t now_unix_s)
{
    struct known_token *out;
    int way;

    if (find_way_locked(set, hash, (struct slice){ token->text, token->len }) >= 0)
        return token; /* another thread verified it meanwhile */
    way = choose_way_locked(set, now_unix_s);
    out = set->tokens[way];
    set->tokens[way] = token;
    set->hashes[way] = hash;
    set->asked &= (uint8_t) ~(1u << way); /* it earns its place by being asked for again */
    return out;
}

void
token_cache_add(struct token_cache *cache, uint64_t hash, struct slice token,
                const struct token_claims *claims, int64_t now_unix_s)
{
    struct stripe *stripe = stripe_of(cache, hash);
    struct known_token *known;

    if (token.len > TOKEN_CACHE_TEXT_MAX)
        return;
    known = malloc(sizeof(*known) + token.len);
    if (known == NULL)
        return;
    known->claims = *claims;
    known->len = token.len;
    memcpy(known->text, token.ptr, token.len);

    lock_take(&stripe->lock);
    known = insert_locked(set_of(stripe, hash), hash, known, now_unix_s);
    lock_drop(&stripe->lock);
    free(known);
}

void
token_cache_refuse(struct token_cache *cache, uint64_t hash)
{
    struct stripe *stripe = stripe_of(cache, hash);

    lock_take(&stripe->lock);
    *fingerprint_of(stripe, hash) = hash;
    lock_drop(&stripe->lock);
}

int64_t
token_cache_count(struct token_cache *cache)
{
    int64_t count = 0;

    for (int i = 0; i < TOKEN_CACHE_STRIPES; i++) {
        struct stripe *stripe = &cache->stripes[i];
        lock_take(&stripe->lock);
        for (int j = 0; j < TOKEN_CACHE_SETS * TOKEN_CACHE_WAYS; j++)
            count += stripe->sets[j / TOKEN_CACHE_WAYS].tokens[j % TOKEN_CACHE_WAYS] != NULL;
        lock_drop(&stripe->lock);
    }
    return count;
}
