/*
 * Which JSON Web Keys are taken, passed over, or an error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gate_fixture.h"
#include "jwk.h"

static enum jwk_outcome
outcome_of(const char *text, struct jws_key *key)
{
    const char *reason = NULL;
    cJSON *jwk = cJSON_Parse(text);
    enum jwk_outcome outcome;

    assert_non_null(jwk);
    outcome = jwk_read(jwk, key, &reason);
    cJSON_Delete(jwk);
    if (outcome != JWK_TAKEN) {
        assert_non_null(reason);
        assert_null(key->secret);
        assert_null(key->public_key);
    }
    return outcome;
}

static void
assert_outcome(enum jwk_outcome expected, const char *text)
{
    struct jws_key key;
    enum jwk_outcome outcome = outcome_of(text, &key);

    if (outcome != expected)
        print_error("%s: %d\n", text, (int)outcome);
    assert_int_equal(outcome, expected);
    if (outcome == JWK_TAKEN)
        jws_key_fini(&key);
}

#define SECRET_32 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"

static void
a_secret_needs_32_bytes(void **state)
{
    struct jws_key key;

    (void)state;
    assert_int_equal(outcome_of("{\"kty\":\"oct\",\"kid\":\"k1\",\"k\":\"" SECRET_32 "\"}", &key),
                     JWK_TAKEN);
    assert_int_equal(key.alg, JWS_HS256);
    assert_int_equal(key.secret_len, 32);
    assert_string_equal(key.kid, "k1");
    jws_key_fini(&key);
    assert_outcome(JWK_BROKEN,
                   "{\"kty\":\"oct\",\"k\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg\"}");
    assert_outcome(JWK_BROKEN, "{\"kty\":\"oct\",\"k\":\"\"}");
    assert_outcome(JWK_BROKEN, "{\"kty\":\"oct\"}");
    assert_outcome(JWK_BROKEN, "{\"kty\":\"oct\",\"k\":\"" SECRET_32 "=\"}");
}

static void
a_key_of_another_algorithm_is_passed_over(void **state)
{
    (void)state;
    assert_outcome(JWK_TAKEN, "{\"kty\":\"oct\",\"alg\":\"HS256\",\"k\":\"" SECRET_32 "\"}");
    assert_outcome(JWK_PASSED_OVER, "{\"kty\":\"oct\",\"alg\":\"HS512\",\"k\":\"" SECRET_32 "\"}");
    assert_outcome(JWK_PASSED_OVER, "{\"kty\":\"oct\",\"alg\":\"RS256\",\"k\":\"" SECRET_32 "\"}");
    assert_outcome(JWK_PASSED_OVER, "{\"kty\":\"oct\",\"alg\":null,\"k\":\"" SECRET_32 "\"}");
    assert_outcome(JWK_PASSED_OVER,
                   "{\"kty\":\"RSA\",\"alg\":\"PS256\",\"n\":\"AQAB\",\"e\":\"AQAB\"}");
    assert_outcome(JWK_PASSED_OVER, "{\"kty\":\"EC\",\"crv\":\"P-384\"}");
    assert_outcome(JWK_PASSED_OVER, "{\"kty\":\"EC\"}");
    assert_outcome(JWK_PASSED_OVER, "{\"kty\":\"OKP\",\"crv\":\"X25519\"}");
    assert_outcome(JWK_PASSED_OVER, "{\"kty\":\"AKP\"}");
    assert_outcome(JWK_PASSED_OVER, "{}");
    assert_outcome(JWK_BROKEN, "[]");
}

static void
a_key_that_may_not_verify_is_passed_over(void **state)
{
    (void)state;
    assert_outcome(JWK_TAKEN, "{\"kty\":\"oct\",\"use\":\"sig\",\"k\":\"" SECRET_32 "\"}");
    assert_outcome(JWK_PASSED_OVER, "{\"kty\":\"oct\",\"use\":\"enc\",\"k\":\"" SECRET_32 "\"}");
    assert_outcome(JWK_PASSED_OVER, "{\"kty\":\"oct\",\"use\":1,\"k\":\"" SECRET_32 "\"}");
    assert_outcome(JWK_TAKEN,
                   "{\"kty\":\"oct\",\"key_ops\":[\"sign\",\"verify\"],\"k\":\"" SECRET_32 "\"}");
    assert_outcome(JWK_PASSED_OVER,
                   "{\"kty\":\"oct\",\"key_ops\":[\"sign\"],\"k\":\"" SECRET_32 "\"}");
    assert_outcome(JWK_PASSED_OVER, "{\"kty\":\"oct\",\"key_ops\":[],\"k\":\"" SECRET_32 "\"}");
    assert_outcome(JWK_PASSED_OVER,
                   "{\"kty\":\"oct\",\"key_ops\":\"verify\",\"k\":\"" SECRET_32 "\"}");
}

/* A modulus of `bits` bits, all set, in base64url; bits is a multiple of 24. */
static void
write_rsa(char *text, int bits, const char *e)
{
    int digits = bits / 6;

    text += sprintf(text, "{\"kty\":\"RSA\",\"e\":\"%s\",\"n\":\"", e);
    memset(text, '_', (size_t)digits);
    strcpy(text + digits, "\"}");
}

static void
an_rsa_key_has_2048_to_8192_bits_and_an_odd_exponent(void **state)
{
    char text[4096];

    (void)state;
    write_rsa(text, 2040, "AQAB");
    assert_outcome(JWK_BROKEN, text);
    write_rsa(text, 1008, "AQAB");
    assert_outcome(JWK_BROKEN, text);
    write_rsa(text, 2064, "AQAB");
    assert_outcome(JWK_TAKEN, text);
    write_rsa(text, 8208, "AQAB");
    assert_outcome(JWK_BROKEN, text);
    write_rsa(text, 2064, "AQ"); /* 1 */
    assert_outcome(JWK_BROKEN, text);
    write_rsa(text, 2064, "Ag"); /* 2 */
    assert_outcome(JWK_BROKEN, text);
    write_rsa(text, 2064, "");
    assert_outcome(JWK_BROKEN, text);
}

static void
a_point_must_lie_on_the_curve(void **state)
{
    (void)state;
    /* RFC 7515, A.3.1 */
    assert_outcome(JWK_TAKEN, "{\"kty\":\"EC\",\"crv\":\"P-256\","
                              "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                              "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}");
    assert_outcome(JWK_BROKEN, "{\"kty\":\"EC\",\"crv\":\"P-256\","
                               "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                               "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a4\"}");
    assert_outcome(JWK_BROKEN, "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AQAB\",\"y\":\"AQAB\"}");
    assert_outcome(JWK_BROKEN, "{\"kty\":\"EC\",\"crv\":\"P-256\"}");
    assert_outcome(JWK_BROKEN, "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AQAB\"}");
}

static void
a_kid_that_is_no_short_text_is_an_error(void **state)
{
    char text[512];

    (void)state;
    assert_outcome(JWK_BROKEN, "{\"kty\":\"oct\",\"kid\":7,\"k\":\"" SECRET_32 "\"}");
    snprintf(text, sizeof(text), "{\"kty\":\"oct\",\"k\":\"" SECRET_32 "\",\"kid\":\"%0128d\"}", 1);
    assert_outcome(JWK_TAKEN, text);
    snprintf(text, sizeof(text), "{\"kty\":\"oct\",\"k\":\"" SECRET_32 "\",\"kid\":\"%0129d\"}", 1);
    assert_outcome(JWK_BROKEN, text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_needs_32_bytes),
        cmocka_unit_test(a_key_of_another_algorithm_is_passed_over),
        cmocka_unit_test(a_key_that_may_not_verify_is_passed_over),
        cmocka_unit_test(an_rsa_key_has_2048_to_8192_bits_and_an_odd_exponent),
        cmocka_unit_test(a_point_must_lie_on_the_curve),
        cmocka_unit_test(a_kid_that_is_no_short_text_is_an_error),
    };

    return cmocka_run_group_tests_name("jwk", tests, NULL, NULL);
}
