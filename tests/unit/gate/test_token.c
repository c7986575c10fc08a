/*
 * Bearer tokens: who is asking, and until when; the memory of tokens included.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gate_fixture.h"
#include "holdfast/metrics.h"
#include "holdfast/token.h"
#include "jws.h"

#define NOW    INT64_C(1800000000)
#define SECRET "a secret of the gate's own tests"

static const struct token_claims alice = {
    .org = "acme", .user = "alice", .role = ROLE_USER, .exp_unix_s = NOW + 60
};

static struct token_verifier *
verifier_of(const char *jwt_secret, const char *keys_file)
{
    struct config config = gate_config();
    char error[CONFIG_ERROR_BYTES] = "";
    struct token_verifier *verifier;

    config.jwt_secret = (char *)(uintptr_t)jwt_secret;
    config.jwt_keys_file = (char *)(uintptr_t)keys_file;
    verifier = token_verifier_new(&config, error, sizeof(error));
    if (verifier == NULL)
        print_error("%s\n", error);
    assert_non_null(verifier);
    return verifier;
}

static void
assert_no_verifier(const char *jwt_secret, const char *keys_file, const char *part_of_error)
{
    struct config config = gate_config();
    char error[CONFIG_ERROR_BYTES] = "";

    config.jwt_secret = (char *)(uintptr_t)jwt_secret;
    config.jwt_keys_file = (char *)(uintptr_t)keys_file;
    assert_null(token_verifier_new(&config, error, sizeof(error)));
    if (strstr(error, part_of_error) == NULL)
        print_error("%s\n", error);
    assert_non_null(strstr(error, part_of_error));
}

/* "Bearer <token>" for these claims; free() it. */
static char *
bearer(const char *secret, const char *kid, const struct token_claims *claims)
{
    struct buf text = { 0 };

    buf_append_text(&text, "Bearer ");
    assert_true(token_sign_hs256(slice_of(secret), slice_of(kid), claims, &text));
    return text.data;
}

/* "Bearer <token>" for any payload. */
static char *
bearer_of_payload(const char *payload)
{
    struct buf text = { 0 };
    struct slice signed_part;
    unsigned char mac[32];

    buf_append_text(&text, "Bearer ");
    base64url_append(&text, "{\"alg\":\"HS256\"}", 15);
    buf_append_char(&text, '.');
    base64url_append(&text, payload, strlen(payload));
    signed_part = (struct slice){ text.data + 7, text.len - 7 };
    assert_true(jws_hmac(SLICE_LITERAL(SECRET), signed_part, mac));
    buf_append_char(&text, '.');
    base64url_append(&text, mac, sizeof(mac));
    assert_false(text.failed);
    return text.data;
}

static enum hf_status
verify(struct token_verifier *verifier, const char *header, int64_t now)
{
    struct token_claims claims;

    return token_verify(verifier, slice_of(header), now, &claims);
}

/* The value of a counter, read as a scraper does. */
static long
counter(const char *name)
{
    struct buf text = { 0 };
    char line[128];
    const char *at;
    long value = 0;

    metrics_write(&text);
    snprintf(line, sizeof(line), "\nholdfast_%s ", name);
    at = strstr(text.data, line);
    assert_non_null(at);
    value = strtol(at + strlen(line), NULL, 10);
    buf_fini(&text);
    return value;
}

/* --- tokens ------------------------------------------------------------ */

static void
a_signed_token_tells_who_is_asking(void **state)
{
    struct token_verifier *verifier = verifier_of(SECRET, "");
    struct token_claims given = { .org = "acme",
                                  .user = "agent.7",
                                  .role = ROLE_AGENT,
                                  .exp_unix_s = NOW + 60,
                                  .nbf_unix_s = NOW - 60 },
                        got;
    char *header = bearer(SECRET, "", &given);

    (void)state;
    for (int i = 0; i < 2; i++) { /* new, then remembered */
        memset(&got, 0xFF, sizeof(got));
        assert_int_equal(token_verify(verifier, slice_of(header), NOW, &got), HF_OK);
        assert_string_equal(got.org, "acme");
        assert_string_equal(got.user, "agent.7");
        assert_int_equal(got.role, ROLE_AGENT);
        assert_int_equal(got.exp_unix_s, NOW + 60);
        assert_int_equal(got.nbf_unix_s, NOW - 60);
    }
    free(header);
    token_verifier_free(&verifier);
    assert_null(verifier);
}

static void
every_role_comes_back(void **state)
{
    struct token_verifier *verifier = verifier_of(SECRET, "");

    (void)state;
    for (enum token_role role = ROLE_USER; role <= ROLE_SERVICE; role++) {
        struct token_claims claims = alice, got;
        char *header;
        claims.role = role;
        header = bearer(SECRET, "", &claims);
        assert_int_equal(token_verify(verifier, slice_of(header), NOW, &got), HF_OK);
        assert_int_equal(got.role, role);
        free(header);
    }
    token_verifier_free(&verifier);
}

static void
a_token_lives_until_exp_and_not_before_nbf(void **state)
{
    struct token_verifier *verifier = verifier_of(SECRET, "");
    struct token_claims claims = { .org = "acme",
                                   .user = "alice",
                                   .role = ROLE_USER,
                                   .exp_unix_s = NOW + 60,
                                   .nbf_unix_s = NOW + 10 };
    char *header = bearer(SECRET, "", &claims);

    (void)state;
    for (int i = 0; i < 2; i++) { /* the memory judges times as the signature's path does */
        assert_int_equal(verify(verifier, header, NOW + 9), HF_UNAUTHENTICATED);
        assert_int_equal(verify(verifier, header, NOW + 10), HF_OK);
        assert_int_equal(verify(verifier, header, NOW + 59), HF_OK);
        assert_int_equal(verify(verifier, header, NOW + 60), HF_TOKEN_EXPIRED);
    }
    free(header);
    token_verifier_free(&verifier);
}

static void
only_a_rightly_signed_token_is_called_expired(void **state)
{
    struct token_verifier *verifier = verifier_of(SECRET, "");
    struct token_claims claims = {
        .org = "acme", .user = "alice", .role = ROLE_USER, .exp_unix_s = NOW - 1
    };
    char *right = bearer(SECRET, "", &claims);
    char *wrong = bearer("another secret of the gate's own tests", "", &claims);

    (void)state;
    assert_int_equal(verify(verifier, right, NOW), HF_TOKEN_EXPIRED);
    assert_int_equal(verify(verifier, wrong, NOW), HF_UNAUTHENTICATED);
    assert_int_equal(verify(verifier, wrong, NOW), HF_UNAUTHENTICATED);
    free(right);
    free(wrong);
    token_verifier_free(&verifier);
}

#define BOUND(claims) "{\"org\":\"o\",\"sub\":\"u\",\"exp\":1800000060," claims "}"

static void
a_passengers_token_tells_its_event_and_its_checkin(void **state)
{
    struct token_verifier *verifier = verifier_of(SECRET, "");
    struct token_claims given = { .org = "acme",
                                  .user = "ABC123",
                                  .role = ROLE_USER,
                                  .exp_unix_s = NOW + 60,
                                  .event = "FL-123",
                                  .has_checkin = true,
                                  .checkin = { { 1, 2, 3 } } },
                        got;
    char *header = bearer(SECRET, "", &given);

    (void)state;
    for (int i = 0; i < 2; i++) { /* new, then remembered */
        memset(&got, 0xFF, sizeof(got));
        assert_int_equal(token_verify(verifier, slice_of(header), NOW, &got), HF_OK);
        assert_string_equal(got.event, "FL-123");
        assert_true(got.has_checkin);
        assert_true(uuid_equal(&got.checkin, &given.checkin));
    }
    free(header);
    header = bearer(SECRET, "", &alice);
    assert_int_equal(token_verify(verifier, slice_of(header), NOW, &got), HF_OK);
    assert_string_equal(got.event, "");
    assert_false(got.has_checkin);
    free(header);
    token_verifier_free(&verifier);
}

static void
claims_must_be_what_they_are_said_to_be(void **state)
{
    static const struct {
        const char *payload;
        enum hf_status status;
    } cases[] = {
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":1800000060}", HF_OK },
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":1800000060.5,\"nbf\":0,\"iat\":1,\"x\":{}}",
          HF_OK },
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":1800000060,\"role\":\"service\"}", HF_OK },
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":1800000060,\"role\":\"root\"}",
          HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":1800000060,\"role\":\"\"}", HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":1800000060,\"role\":null}", HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":1800000060,\"role\":[\"user\"]}",
          HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"sub\":\"u\"}", HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":\"1800000060\"}", HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":-1}", HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":1e300}", HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":0}", HF_TOKEN_EXPIRED },
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":1800000060,\"nbf\":\"0\"}", HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"sub\":\"u\",\"exp\":1800000060,\"nbf\":1800000000.5}",
          HF_UNAUTHENTICATED },
        { "{\"org\":\"\",\"sub\":\"u\",\"exp\":1800000060}", HF_UNAUTHENTICATED },
        { "{\"org\":\"a b\",\"sub\":\"u\",\"exp\":1800000060}", HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"sub\":\"u'; --\",\"exp\":1800000060}", HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"sub\":7,\"exp\":1800000060}", HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"exp\":1800000060}", HF_UNAUTHENTICATED },
        { "{\"sub\":\"u\",\"exp\":1800000060}", HF_UNAUTHENTICATED },
        { "{\"ORG\":\"o\",\"sub\":\"u\",\"exp\":1800000060}", HF_UNAUTHENTICATED },
        { "{\"org\":\"o\",\"org\":\"p\",\"sub\":\"u\",\"exp\":1800000060}", HF_UNAUTHENTICATED },
        { BOUND("\"event\":\"e\""), HF_OK },
        { BOUND("\"event\":\"e\",\"checkin\":\"0190a000-0000-7000-8000-000000000000\""), HF_OK },
        { BOUND("\"event\":\"e\",\"role\":\"user\""), HF_OK },
        { BOUND("\"event\":\"e\",\"role\":\"agent\""), HF_UNAUTHENTICATED },
        { BOUND("\"event\":\"e\",\"role\":\"admin\""), HF_UNAUTHENTICATED },
        { BOUND("\"event\":\"\""), HF_UNAUTHENTICATED },
        { BOUND("\"event\":\"a b\""), HF_UNAUTHENTICATED },
        { BOUND("\"event\":null"), HF_UNAUTHENTICATED },
        { BOUND("\"event\":7"), HF_UNAUTHENTICATED },
        { BOUND("\"event\":\"e\",\"checkin\":\"e\""), HF_UNAUTHENTICATED },
        { BOUND("\"event\":\"e\",\"checkin\":null"), HF_UNAUTHENTICATED },
        { BOUND("\"checkin\":\"0190a000-0000-7000-8000-000000000000\""), HF_UNAUTHENTICATED },
        { "[]", HF_UNAUTHENTICATED },
        { "", HF_UNAUTHENTICATED },
        { "Test", HF_UNAUTHENTICATED },
    };
    struct token_verifier *verifier = verifier_of(SECRET, "");

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *header = bearer_of_payload(cases[i].payload);
        enum hf_status status = verify(verifier, header, NOW);
        if (status != cases[i].status)
            print_error("%s: %s\n", cases[i].payload, status_code(status));
        assert_int_equal(status, cases[i].status);
        free(header);
    }
    token_verifier_free(&verifier);
}

static void
the_header_is_one_bearer_token(void **state)
{
    struct token_verifier *verifier = verifier_of(SECRET, "");
    char *header = bearer(SECRET, "", &alice);
    char *other = malloc(strlen(header) + 16);
    static char huge[TOKEN_BYTES_MAX + 64];

    (void)state;
    assert_non_null(other);
    sprintf(other, "bEaReR   %s", header + 7);
    assert_int_equal(verify(verifier, other, NOW), HF_OK);
    sprintf(other, "Basic %s", header + 7);
    assert_int_equal(verify(verifier, other, NOW), HF_UNAUTHENTICATED);
    sprintf(other, "Bearer%s", header + 7);
    assert_int_equal(verify(verifier, other, NOW), HF_UNAUTHENTICATED);
    sprintf(other, "%s, x", header);
    assert_int_equal(verify(verifier, other, NOW), HF_UNAUTHENTICATED);
    assert_int_equal(verify(verifier, header + 7, NOW), HF_UNAUTHENTICATED);
    assert_int_equal(verify(verifier, "", NOW), HF_UNAUTHENTICATED);
    assert_int_equal(verify(verifier, "Bearer", NOW), HF_UNAUTHENTICATED);
    assert_int_equal(verify(verifier, "Bearer  ", NOW), HF_UNAUTHENTICATED);
    memset(huge, 'A', sizeof(huge) - 1);
    memcpy(huge, "Bearer ", 7);
    assert_int_equal(verify(verifier, huge, NOW), HF_UNAUTHENTICATED);
    free(other);
    free(header);
    token_verifier_free(&verifier);
}

/* --- keys -------------------------------------------------------------- */

static void
secrets_rotate_by_kid(void **state)
{
    struct token_verifier *verifier =
        verifier_of("new:" SECRET ",old:the old one: with a colon", "");
    char *by_new = bearer(SECRET, "new", &alice);
    char *by_old = bearer("the old one: with a colon", "old", &alice);
    char *unnamed = bearer("the old one: with a colon", "", &alice);
    char *misnamed = bearer(SECRET, "old", &alice);
    char *unknown = bearer(SECRET, "older", &alice);

    (void)state;
    assert_int_equal(verify(verifier, by_new, NOW), HF_OK);
    assert_int_equal(verify(verifier, by_old, NOW), HF_OK);
    assert_int_equal(verify(verifier, unnamed, NOW), HF_OK);
    assert_int_equal(verify(verifier, misnamed, NOW), HF_UNAUTHENTICATED);
    assert_int_equal(verify(verifier, unknown, NOW), HF_UNAUTHENTICATED);
    free(by_new);
    free(by_old);
    free(unnamed);
    free(misnamed);
    free(unknown);
    token_verifier_free(&verifier);
}

static void
a_secret_without_kid_takes_any_kid_and_may_hold_commas(void **state)
{
    struct token_verifier *verifier = verifier_of("one,secret,with,commas", "");
    char *header = bearer("one,secret,with,commas", "whatever", &alice);

    (void)state;
    assert_int_equal(verify(verifier, header, NOW), HF_OK);
    free(header);
    token_verifier_free(&verifier);
}

static void
a_bad_secret_is_named_by_number_and_never_quoted(void **state)
{
    struct config config = gate_config();
    char error[CONFIG_ERROR_BYTES] = "";

    (void)state;
    assert_no_verifier("k1:" SECRET ",oops", "", "item 2");
    assert_no_verifier("k1:", "", "item 1");
    assert_no_verifier(":" SECRET, "", "item 1");
    assert_no_verifier("k 1:" SECRET, "", "item 1");
    config.jwt_secret = (char *)(uintptr_t) "k1:hush,hush-hush";
    assert_null(token_verifier_new(&config, error, sizeof(error)));
    assert_null(strstr(error, "hush"));
}

static void
without_any_key_every_token_is_refused(void **state)
{
    struct token_verifier *verifier = verifier_of("", "");
    char *header = bearer("", "", &alice);

    (void)state;
    assert_int_equal(verify(verifier, header, NOW), HF_UNAUTHENTICATED);
    free(header);
    token_verifier_free(&verifier);
}

/* A file with this text; unlink() and free() its name. */
static char *
file_of(const char *text)
{
    char *name = strdup("gate_keys_XXXXXX");
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    return name;
}

static void
a_key_set_passes_over_what_is_not_for_us(void **state)
{
    char *name = file_of("{\"keys\":["
                         "{\"kty\":\"RSA\",\"use\":\"enc\",\"n\":\"AQAB\",\"e\":\"AQAB\"},"
                         "{\"kty\":\"XYZ\"},"
                         "{\"kty\":\"oct\",\"kid\":\"k2\","
                         "\"k\":\"YSBzZWNyZXQgb2YgdGhlIGdhdGUncyBvd24gdGVzdHM\"}]}");
    struct token_verifier *verifier = verifier_of("k1:another secret of the gate's tests", name);
    char *from_file = bearer(SECRET, "k2", &alice);
    char *from_text = bearer("another secret of the gate's tests", "k1", &alice);

    (void)state;
    assert_int_equal(verify(verifier, from_file, NOW), HF_OK);
    assert_int_equal(verify(verifier, from_text, NOW), HF_OK);
    free(from_file);
    free(from_text);
    token_verifier_free(&verifier);
    unlink(name);
    free(name);
}

static void
a_bad_key_set_is_an_error_that_names_the_key(void **state)
{
    static const struct {
        const char *text;
        const char *part_of_error;
    } cases[] = {
        { "{\"keys\":[{\"kty\":\"XYZ\"},{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}",
          "key 2" },
        { "{\"keys\":{}}", "no array" },
        { "{}", "no array" },
        { "[]", "no array" },
        { "{\"keys\":[]", "at byte" },
        { "", "at byte" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *name = file_of(cases[i].text);
        assert_no_verifier("", name, cases[i].part_of_error);
        unlink(name);
        free(name);
    }
    assert_no_verifier("", "no_such_file", "no_such_file");
}

static void
too_many_keys_are_an_error(void **state)
{
    char text[TOKEN_KEYS_MAX * 8 + 16];
    char *at = text;

    (void)state;
    for (int i = 0; i <= TOKEN_KEYS_MAX; i++)
        at += sprintf(at, "%sk%d:s", i > 0 ? "," : "", i);
    assert_no_verifier(text, "", "more than 64 keys");
}

/* RFC 7515, A.3: a token of ES256 is verified with the key of its example, in a key set. */
static void
a_public_key_of_a_set_verifies(void **state)
{
    char *name = file_of("{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\","
                         "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                         "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}");
    struct token_verifier *verifier = verifier_of("", name);
    long verified = counter("tokens_verified_total");

    (void)state;
    /* Rightly signed, but its claims have no org. */
    assert_int_equal(verify(verifier,
                            "Bearer eyJhbGciOiJFUzI1NiJ9."
                            "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt"
                            "cGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
                            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSA"
                            "pmWQxfKTUJqPP3-Kg6NU1Q",
                            NOW),
                     HF_UNAUTHENTICATED);
    assert_int_equal(counter("tokens_verified_total"), verified + 1);
    token_verifier_free(&verifier);
    unlink(name);
    free(name);
}

/* --- memory of tokens -------------------------------------------------- */

static void
repeating_a_token_costs_no_second_signature_check(void **state)
{
    struct token_verifier *verifier = verifier_of(SECRET, "");
    char *good = bearer(SECRET, "", &alice);
    char *bad = bearer("another secret of the gate's tests", "", &alice);
    long verified = counter("tokens_verified_total");
    long cached = counter("tokens_cached_total");
    long refused = counter("tokens_refused_total");

    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(verify(verifier, good, NOW), HF_OK);
        assert_int_equal(verify(verifier, bad, NOW), HF_UNAUTHENTICATED);
    }
    assert_int_equal(counter("tokens_verified_total"), verified + 2);
    assert_int_equal(counter("tokens_cached_total"), cached + 4);
    assert_int_equal(counter("tokens_refused_total"), refused + 5);
    free(good);
    free(bad);
    token_verifier_free(&verifier);
}

static void
a_token_that_differs_in_one_byte_is_another_token(void **state)
{
    struct token_verifier *verifier = verifier_of(SECRET, "");
    char *header = bearer(SECRET, "", &alice);

    (void)state;
    assert_int_equal(verify(verifier, header, NOW), HF_OK);
    for (size_t i = 7; header[i] != '\0'; i++) {
        char kept = header[i];
        header[i] = kept == 'A' ? 'B' : 'A';
        assert_int_equal(verify(verifier, header, NOW), HF_UNAUTHENTICATED);
        header[i] = kept;
        assert_int_equal(verify(verifier, header, NOW), HF_OK);
    }
    free(header);
    token_verifier_free(&verifier);
}

#define THREADS 4

struct crowd {
    struct token_verifier *verifier;
    char *headers[8];
};

static void *
crowd_run(void *context)
{
    struct crowd *crowd = context;

    for (int i = 0; i < 2000; i++) {
        int at = i % 8;
        enum hf_status expected = at % 2 == 0 ? HF_OK : HF_UNAUTHENTICATED;
        if (verify(crowd->verifier, crowd->headers[at], NOW) != expected)
            return context;
    }
    return NULL;
}

static void
many_threads_may_ask_at_once(void **state)
{
    struct crowd crowd = { .verifier = verifier_of(SECRET, "") };
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < 8; i++) {
        struct token_claims claims = alice;
        claims.exp_unix_s += i;
        crowd.headers[i] = bearer(i % 2 == 0 ? SECRET : "another secret", "", &claims);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, &crowd), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    for (int i = 0; i < 8; i++)
        free(crowd.headers[i]);
    token_verifier_free(&crowd.verifier);
}

/* --- minting ----------------------------------------------------------- */

static void
what_the_config_mints_the_config_verifies(void **state)
{
    static const char *const secrets[] = { SECRET, "k1:" SECRET, "k1:" SECRET ",k2:another" };

    (void)state;
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        struct config config = gate_config();
        struct token_verifier *verifier = verifier_of(secrets[i], "");
        struct buf text = { 0 };
        char error[CONFIG_ERROR_BYTES];
        config.jwt_secret = (char *)(uintptr_t)secrets[i];
        buf_append_text(&text, "Bearer ");
        assert_true(token_mint(&config, &alice, &text, error, sizeof(error)));
        assert_int_equal(verify(verifier, text.data, NOW), HF_OK);
        buf_fini(&text);
        token_verifier_free(&verifier);
    }
}

static void
without_a_secret_nothing_is_minted(void **state)
{
    struct config config = gate_config();
    struct buf text = { 0 };
    char error[CONFIG_ERROR_BYTES] = "";

    (void)state;
    assert_false(token_mint(&config, &alice, &text, error, sizeof(error)));
    assert_non_null(strstr(error, "jwt_secret"));
    buf_fini(&text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signed_token_tells_who_is_asking),
        cmocka_unit_test(every_role_comes_back),
        cmocka_unit_test(a_token_lives_until_exp_and_not_before_nbf),
        cmocka_unit_test(only_a_rightly_signed_token_is_called_expired),
        cmocka_unit_test(a_passengers_token_tells_its_event_and_its_checkin),
        cmocka_unit_test(claims_must_be_what_they_are_said_to_be),
        cmocka_unit_test(the_header_is_one_bearer_token),
        cmocka_unit_test(secrets_rotate_by_kid),
        cmocka_unit_test(a_secret_without_kid_takes_any_kid_and_may_hold_commas),
        cmocka_unit_test(a_bad_secret_is_named_by_number_and_never_quoted),
        cmocka_unit_test(without_any_key_every_token_is_refused),
        cmocka_unit_test(a_key_set_passes_over_what_is_not_for_us),
        cmocka_unit_test(a_bad_key_set_is_an_error_that_names_the_key),
        cmocka_unit_test(too_many_keys_are_an_error),
        cmocka_unit_test(a_public_key_of_a_set_verifies),
        cmocka_unit_test(repeating_a_token_costs_no_second_signature_check),
        cmocka_unit_test(a_token_that_differs_in_one_byte_is_another_token),
        cmocka_unit_test(many_threads_may_ask_at_once),
        cmocka_unit_test(what_the_config_mints_the_config_verifies),
        cmocka_unit_test(without_a_secret_nothing_is_minted),
    };

    return cmocka_run_group_tests_name("token", tests, NULL, NULL);
}
