/* Which URLs may be asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "holdfast/outgoing.h"

static void
http_and_https_without_a_user_are_good(void **state)
{
    (void)state;
    assert_true(outgoing_url_is_good("http://localhost:8080/pay", false));
    assert_true(outgoing_url_is_good("https://pay.example", false));
    assert_true(outgoing_url_is_good("https://[2001:db8::1]:443/", false));
}

static void
other_schemes_and_what_would_be_secret_are_not(void **state)
{
    static const char *const bad[] = { "",
                                       "/path",
                                       "pay.example",
                                       "ftp://pay.example/",
                                       "file:///etc/passwd",
                                       "https://user@pay.example/",
                                       "https://user:password@pay.example/",
                                       "https://:password@pay.example/" };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (outgoing_url_is_good(bad[i], true))
            fail_msg("'%s' is good", bad[i]);
    }
}

static void
a_query_or_a_fragment_is_good_where_nothing_is_written_behind_it(void **state)
{
    (void)state;
    assert_true(outgoing_url_is_good("https://scales.example/?hall=2", true));
    assert_true(outgoing_url_is_good("https://scales.example/#2", true));
    assert_false(outgoing_url_is_good("https://pay.example/?shop=2", false));
    assert_false(outgoing_url_is_good("https://pay.example/#2", false));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_and_https_without_a_user_are_good),
        cmocka_unit_test(other_schemes_and_what_would_be_secret_are_not),
        cmocka_unit_test(a_query_or_a_fragment_is_good_where_nothing_is_written_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
