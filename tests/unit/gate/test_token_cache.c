/*
 * The memory of tokens: bounded, exact, and fair about who has to go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "token_cache.h"

#define NOW INT64_C(1800000000)

static struct token_claims
claims_until(int64_t exp)
{
    struct token_claims claims = {
        .org = "acme", .user = "alice", .role = ROLE_USER, .exp_unix_s = exp
    };

    return claims;
}

static void
add(struct token_cache *cache, uint64_t hash, const char *token, int64_t exp)
{
    struct token_claims claims = claims_until(exp);

    token_cache_add(cache, hash, slice_of(token), &claims, NOW);
}

static enum token_memory
find(struct token_cache *cache, uint64_t hash, const char *token)
{
    struct token_claims claims;

    return token_cache_find(cache, hash, slice_of(token), &claims);
}

static void
an_equal_hash_is_not_an_equal_token(void **state)
{
    struct token_cache *cache = token_cache_new();

    (void)state;
    assert_non_null(cache);
    add(cache, 7, "one", NOW + 60);
    assert_int_equal(find(cache, 7, "one"), TOKEN_KNOWN);
    assert_int_equal(find(cache, 7, "two"), TOKEN_NEW);
    assert_int_equal(find(cache, 7, "on"), TOKEN_NEW);
    assert_int_equal(find(cache, 8, "one"), TOKEN_NEW);
    add(cache, 7, "two", NOW + 60);
    assert_int_equal(find(cache, 7, "one"), TOKEN_KNOWN);
    assert_int_equal(find(cache, 7, "two"), TOKEN_KNOWN);
    token_cache_free(&cache);
    assert_null(cache);
}

static void
a_token_added_twice_is_there_once(void **state)
{
    struct token_cache *cache = token_cache_new();

    (void)state;
    assert_non_null(cache);
    add(cache, 7, "one", NOW + 60);
    add(cache, 7, "one", NOW + 60);
    assert_int_equal(token_cache_count(cache), 1);
    token_cache_free(&cache);
}

static void
a_refused_fingerprint_never_hides_a_known_token(void **state)
{
    struct token_cache *cache = token_cache_new();

    (void)state;
    assert_non_null(cache);
    token_cache_refuse(cache, 7);
    assert_int_equal(find(cache, 7, "one"), TOKEN_REFUSED);
    assert_int_equal(find(cache, 8, "one"), TOKEN_NEW);
    add(cache, 7, "one", NOW + 60);
    assert_int_equal(find(cache, 7, "one"), TOKEN_KNOWN);
    token_cache_refuse(cache, 0); /* 0 is what a free place holds */
    assert_int_equal(find(cache, 0, "nought"), TOKEN_NEW);
    token_cache_free(&cache);
}

static void
a_full_set_lets_go_of_a_token_that_is_over_first(void **state)
{
    struct token_cache *cache = token_cache_new();
    char token[16];

    (void)state;
    assert_non_null(cache);
    for (int i = 0; i < TOKEN_CACHE_WAYS; i++) {
        snprintf(token, sizeof(token), "token-%d", i);
        add(cache, 7, token, i == 5 ? NOW : NOW + 60);
    }
    add(cache, 7, "newcomer", NOW + 60);
    assert_int_equal(token_cache_count(cache), TOKEN_CACHE_WAYS);
    assert_int_equal(find(cache, 7, "newcomer"), TOKEN_KNOWN);
    assert_int_equal(find(cache, 7, "token-5"), TOKEN_NEW);
    token_cache_free(&cache);
}

static void
a_full_set_keeps_the_token_that_is_asked_for(void **state)
{
    struct token_cache *cache = token_cache_new();
    char token[16];

    (void)state;
    assert_non_null(cache);
    add(cache, 7, "busy", NOW + 60);
    for (int i = 0; i < 100; i++) {
        snprintf(token, sizeof(token), "token-%d", i);
        assert_int_equal(find(cache, 7, "busy"), TOKEN_KNOWN);
        add(cache, 7, token, NOW + 60);
    }
    assert_int_equal(token_cache_count(cache), TOKEN_CACHE_WAYS);
    token_cache_free(&cache);
}

static void
a_flood_of_tokens_stays_within_the_limit(void **state)
{
    struct token_cache *cache = token_cache_new();
    const int64_t most = TOKEN_CACHE_STRIPES * TOKEN_CACHE_SETS * TOKEN_CACHE_WAYS;
    char token[32];

    (void)state;
    assert_non_null(cache);
    for (int i = 0; i < 2 * most; i++) {
        int len = snprintf(token, sizeof(token), "token-%d", i);
        add(cache, hash_seeded(token, (size_t)len), token, NOW + 60);
    }
    assert_true(token_cache_count(cache) <= most);
    assert_true(token_cache_count(cache) > most * 9 / 10);
    token_cache_free(&cache);
}

static void
a_very_long_token_is_not_kept(void **state)
{
    struct token_cache *cache = token_cache_new();
    static char token[TOKEN_CACHE_TEXT_MAX + 2];

    (void)state;
    assert_non_null(cache);
    memset(token, 'a', sizeof(token) - 1);
    add(cache, 7, token, NOW + 60);
    assert_int_equal(token_cache_count(cache), 0);
    token[TOKEN_CACHE_TEXT_MAX] = '\0';
    add(cache, 7, token, NOW + 60);
    assert_int_equal(find(cache, 7, token), TOKEN_KNOWN);
    token_cache_free(&cache);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_equal_hash_is_not_an_equal_token),
        cmocka_unit_test(a_token_added_twice_is_there_once),
        cmocka_unit_test(a_refused_fingerprint_never_hides_a_known_token),
        cmocka_unit_test(a_full_set_lets_go_of_a_token_that_is_over_first),
        cmocka_unit_test(a_full_set_keeps_the_token_that_is_asked_for),
        cmocka_unit_test(a_flood_of_tokens_stays_within_the_limit),
        cmocka_unit_test(a_very_long_token_is_not_kept),
    };

    return cmocka_run_group_tests_name("token_cache", tests, NULL, NULL);
}
