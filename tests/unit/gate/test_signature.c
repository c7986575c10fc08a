/* Signatures of webhooks: made, taken back, and everything near them refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "holdfast/signature.h"

#define NOW 1700000000

static const struct slice body = { "{\"intentId\":\"1\",\"status\":\"succeeded\"}", 37 };

static struct slice
made(const char *secret, int64_t at, char text[SIGNATURE_BYTES])
{
    assert_true(signature_make(slice_of(secret), at, body, text));
    return slice_of(text);
}

static bool
is_good(const char *secrets, struct slice header)
{
    return signature_is_good(slice_of(secrets), NOW, header, body);
}

/* The figure is of `printf '1700000000.hello' | openssl dgst -sha256 -hmac key`. */
static void
a_signature_is_what_openssl_says(void **state)
{
    char text[SIGNATURE_BYTES];

    (void)state;
    assert_true(signature_make(slice_of("key"), NOW, slice_of("hello"), text));
    assert_string_equal(text, "t=1700000000,v1="
                              "4d583a269f4f276a3fa80ff31b5a01879a848096983222a17893d198418939aa");
}

static void
what_was_signed_is_good_and_any_byte_changed_is_not(void **state)
{
    char text[SIGNATURE_BYTES];
    struct slice header = made("secret", NOW, text);
    char other[64];

    (void)state;
    assert_true(is_good("secret", header));
    for (size_t i = 0; i < header.len; i++) {
        char kept = text[i];
        text[i] = kept == '1' ? '2' : '1';
        assert_false(is_good("secret", header));
        text[i] = kept;
    }
    for (size_t i = 0; i < body.len; i++) {
        memcpy(other, body.ptr, body.len);
        other[i] ^= 1;
        assert_false(
            signature_is_good(slice_of("secret"), NOW, header, (struct slice){ other, body.len }));
    }
    assert_false(signature_is_good(slice_of("secret"), NOW, header, SLICE_EMPTY));
    for (size_t len = 0; len < header.len; len++)
        assert_false(is_good("secret", (struct slice){ text, len }));
}

static void
the_time_is_within_the_tolerance_either_way(void **state)
{
    char text[SIGNATURE_BYTES];

    (void)state;
    assert_true(is_good("secret", made("secret", NOW - SIGNATURE_TOLERANCE_S, text)));
    assert_true(is_good("secret", made("secret", NOW + SIGNATURE_TOLERANCE_S, text)));
    assert_false(is_good("secret", made("secret", NOW - SIGNATURE_TOLERANCE_S - 1, text)));
    assert_false(is_good("secret", made("secret", NOW + SIGNATURE_TOLERANCE_S + 1, text)));
    assert_false(is_good("secret", made("secret", 0, text)));
}

static void
during_a_rotation_two_secrets_count_and_no_third(void **state)
{
    char text[SIGNATURE_BYTES];

    (void)state;
    assert_true(is_good("new,old", made("new", NOW, text)));
    assert_true(is_good("new,old", made("old", NOW, text)));
    assert_false(is_good("new,old", made("new,old", NOW, text)));
    assert_false(is_good("newest,new,old", made("old", NOW, text)));
    assert_false(is_good("new", made("old", NOW, text)));
}

static void
an_empty_secret_signs_nothing_and_takes_nothing(void **state)
{
    /* HMAC with an empty key, as anybody can make it. */
    static const char forged[] = "t=1700000000,v1="
                                 "57867bfbda13e7e14983798749a2a98c6326e56b558fd46ffb36f0a854bbc1d7";
    char text[SIGNATURE_BYTES];

    (void)state;
    assert_false(signature_make(SLICE_EMPTY, NOW, body, text));
    assert_false(signature_is_good(SLICE_EMPTY, NOW, slice_of(forged), slice_of("hello")));
    assert_false(signature_is_good(slice_of(","), NOW, slice_of(forged), slice_of("hello")));
    assert_false(signature_is_good(slice_of("key,"), NOW, slice_of(forged), slice_of("hello")));
}

static bool
is_good_around(const char *before, const char *v1, const char *after)
{
    char header[512];

    snprintf(header, sizeof(header), "%s%s%s", before, v1, after);
    return is_good("secret", slice_of(header));
}

static void
the_header_is_read_strictly_and_other_schemes_are_passed_over(void **state)
{
    static const char other[] = "0000000000000000000000000000000000000000000000000000000000000000";
    char text[SIGNATURE_BYTES], both[256];
    const char *v1 = strstr(made("secret", NOW, text).ptr, "v1=") + 3;

    (void)state;
    assert_true(is_good_around("t=1700000000,v1=", v1, ""));
    assert_true(is_good_around("v1=", v1, ",t=1700000000"));
    assert_true(is_good_around("t=1700000000,v0=abc,v1=", v1, ",v2=x"));
    snprintf(both, sizeof(both), "t=1700000000,v1=%s,v1=%s", other, v1);
    assert_true(is_good("secret", slice_of(both)));
    assert_false(is_good_around("t=1700000000,v0=", v1, ""));
    assert_false(is_good_around("v1=", v1, ""));
    assert_false(is_good_around("t=,v1=", v1, ""));
    assert_false(is_good_around("t=1700000000,t=1700000000,v1=", v1, ""));
    assert_false(is_good_around("t=+1700000000,v1=", v1, ""));
    assert_false(is_good_around("t=1700000000 ,v1=", v1, ""));
    assert_false(is_good_around("t=01700000000,v1=", v1, "")); /* another text than was signed */
    assert_false(is_good_around("t=1700000000000000000000,v1=", v1, ""));
    assert_false(is_good_around("t=1700000000,v1=", v1, "0"));
    assert_false(is_good_around("t=1700000000,v1= ", v1, ""));
    assert_false(is_good_around("t=1700000000;v1=", v1, ""));
    assert_false(is_good("secret", slice_of("")));
    assert_false(is_good("secret", slice_of(",,,=,t,v1")));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signature_is_what_openssl_says),
        cmocka_unit_test(what_was_signed_is_good_and_any_byte_changed_is_not),
        cmocka_unit_test(the_time_is_within_the_tolerance_either_way),
        cmocka_unit_test(during_a_rotation_two_secrets_count_and_no_third),
        cmocka_unit_test(an_empty_secret_signs_nothing_and_takes_nothing),
        cmocka_unit_test(the_header_is_read_strictly_and_other_schemes_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
