/* redis_url: what is taken, and what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "warm_internal.h"

static struct warm_address
parse(const char *url)
{
    struct warm_address address;
    if (!warm_address_parse(slice_of(url), &address)) {
        fail_msg("refused: %s", url);
    }
    return address;
}

static void
host_port_and_database_are_read(void **state)
{
    (void)state;
    struct warm_address a = parse("redis://cache.example:6380/3");
    assert_false(a.is_unix);
    assert_string_equal(a.host, "cache.example");
    assert_int_equal(a.port, 6380);
    assert_int_equal(a.db, 3);
    assert_string_equal(a.password, "");
}

static void
port_and_database_have_defaults(void **state)
{
    (void)state;
    struct warm_address a = parse("redis://10.0.0.1");
    assert_int_equal(a.port, 6379);
    assert_int_equal(a.db, 0);
    a = parse("redis://10.0.0.1/");
    assert_string_equal(a.host, "10.0.0.1");
    assert_int_equal(a.db, 0);
}

static void
credentials_are_decoded(void **state)
{
    (void)state;
    struct warm_address a = parse("redis://:p%40ss%3A@h:1");
    assert_string_equal(a.user, "");
    assert_string_equal(a.password, "p@ss:");
    assert_string_equal(a.host, "h");
    a = parse("redis://worker:se:cr@et@h/1");
    assert_string_equal(a.user, "worker");
    assert_string_equal(a.password, "se:cr@et");
    assert_int_equal(a.db, 1);
}

static void
ipv6_hosts_stand_in_brackets(void **state)
{
    (void)state;
    struct warm_address a = parse("redis://[::1]:7000/2");
    assert_string_equal(a.host, "::1");
    assert_int_equal(a.port, 7000);
    assert_int_equal(a.db, 2);
    a = parse("redis://[fe80::1]");
    assert_string_equal(a.host, "fe80::1");
    assert_int_equal(a.port, 6379);
}

static void
a_unix_socket_is_a_path(void **state)
{
    (void)state;
    struct warm_address a = parse("unix:/run/redis.sock");
    assert_true(a.is_unix);
    assert_string_equal(a.host, "/run/redis.sock");
    a = parse("unix:///run/redis.sock");
    assert_string_equal(a.host, "/run/redis.sock");
}

static void
anything_else_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "redis",
                                       "redis:",
                                       "redis://",
                                       "redis:///1",
                                       "redis://h:0x1",
                                       "redis://h:65536",
                                       "redis://h:-1",
                                       "redis://h/x",
                                       "redis://h/1x",
                                       "redis://user@h",
                                       "redis://:@h",
                                       "redis://:p%4@h",
                                       "redis://:p%00@h",
                                       "redis://:p%zz@h",
                                       "redis://[::1",
                                       "redis://[::1]7000",
                                       "rediss://h",
                                       "http://h",
                                       "unix:",
                                       "unix:relative",
                                       "redis://h:99999999999999999999" };
    struct warm_address address;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (warm_address_parse(slice_of(bad[i]), &address)) {
            fail_msg("taken: %s", bad[i]);
        }
    }
}

static void
what_does_not_fit_is_refused(void **state)
{
    (void)state;
    char url[600] = "redis://";
    struct warm_address address;
    memset(url + strlen(url), 'h', 300);
    assert_false(warm_address_parse(slice_of(url), &address));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_port_and_database_are_read),
        cmocka_unit_test(port_and_database_have_defaults),
        cmocka_unit_test(credentials_are_decoded),
        cmocka_unit_test(ipv6_hosts_stand_in_brackets),
        cmocka_unit_test(a_unix_socket_is_a_path),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
