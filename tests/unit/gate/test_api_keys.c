/* Keys of front ends: whose each is, and what is wrong with a setting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gate_fixture.h"
#include "holdfast/api_keys.h"

static struct api_keys *
keys_of(const char *text, char *error, size_t error_bytes)
{
    struct config config = gate_config();

    config.api_keys = (char *)(uintptr_t)text;
    return api_keys_new(&config, error, error_bytes);
}

static void
each_key_is_its_organizations(void **state)
{
    char error[256] = "";
    struct api_keys *keys = keys_of("acme:first, globex:sec:ond ,acme:third", error, sizeof(error));

    (void)state;
    assert_non_null(keys);
    assert_string_equal(api_keys_find(keys, slice_of("first")), "acme");
    assert_string_equal(api_keys_find(keys, slice_of("sec:ond")), "globex");
    assert_string_equal(api_keys_find(keys, slice_of("third")), "acme");
    assert_null(api_keys_find(keys, slice_of("fourth")));
    assert_null(api_keys_find(keys, slice_of("firs")));
    assert_null(api_keys_find(keys, slice_of("First")));
    assert_null(api_keys_find(keys, slice_of("acme:first")));
    assert_null(api_keys_find(keys, SLICE_EMPTY));
    api_keys_free(&keys);
    assert_null(keys);
}

static void
without_any_nobody_is_known(void **state)
{
    char error[256] = "";
    struct api_keys *keys = keys_of("", error, sizeof(error));

    (void)state;
    assert_non_null(keys);
    assert_null(api_keys_find(keys, SLICE_EMPTY));
    assert_null(api_keys_find(keys, slice_of("x")));
    api_keys_free(&keys);
}

static void
a_bad_setting_is_named_and_no_key_is_told(void **state)
{
    static const char *const bad[] = { "hunter2",
                                       "acme:",
                                       ":hunter2",
                                       "a b:hunter2",
                                       "acme:x,,b:hunter2",
                                       "acme:x,hunter2",
                                       "acme:hunter2,globex:hunter2",
                                       "acme:hunter2,acme:hunter2" };
    char error[256];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct config config = gate_config();
        config.api_keys = (char *)(uintptr_t)bad[i];
        error[0] = '\0';
        assert_false(api_keys_check(&config, error, sizeof(error)));
        assert_non_null(strstr(error, "api_keys"));
        assert_null(strstr(error, "hunter2"));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_is_its_organizations),
        cmocka_unit_test(without_any_nobody_is_known),
        cmocka_unit_test(a_bad_setting_is_named_and_no_key_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
