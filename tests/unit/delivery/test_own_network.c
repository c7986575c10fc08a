/*
 * test_own_network.c - the addresses that no webhook may go to, and some that it may.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "delivery_internal.h"

static bool
is_own(const char *text)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return address_is_of_own_network((const struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return address_is_of_own_network((const struct sockaddr *)&v6);
}

static void
both_ends_of_each_range_are_the_nodes_own_network(void **state)
{
    static const char *const own[] = {
        "0.0.0.0",      "0.255.255.255",
        "10.0.0.0",     "10.255.255.255",
        "100.64.0.0",   "100.127.255.255",
        "127.0.0.1",    "127.255.255.255",
        "169.254.0.0",  "169.254.169.254",
        "172.16.0.0",   "172.31.255.255",
        "192.0.0.1",    "192.0.2.1",
        "192.168.0.0",  "192.168.255.255",
        "198.18.0.0",   "198.19.255.255",
        "198.51.100.7", "203.0.113.7",
        "224.0.0.1",    "239.255.255.255",
        "240.0.0.1",    "255.255.255.255",
        "::",           "::1",
        "fc00::1",      "fdff:ffff::1",
        "fe80::1",      "febf::1",
        "fec0::1",      "ff02::1",
        "2001:db8::1",  "2001::1",
        "100::1",       "64:ff9b:1::1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (!is_own(own[i]))
            fail_msg("%s", own[i]);
    }
}

static void
their_neighbours_are_not(void **state)
{
    static const char *const other[] = {
        "1.0.0.0",          "9.255.255.255",   "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",      "126.0.0.1",       "128.0.0.1",       "169.253.0.1",
        "169.255.0.1",      "172.15.255.255",  "172.32.0.0",      "192.0.1.1",
        "192.167.1.1",      "192.169.1.1",     "198.17.0.1",      "198.20.0.1",
        "223.255.255.1",    "8.8.8.8",         "2606:4700::1111", "2a00::1",
        "64:ff9b::808:808", "2002:808:808::1", "::ffff:8.8.8.8",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        if (is_own(other[i]))
            fail_msg("%s", other[i]);
    }
}

static void
an_ipv4_address_inside_an_ipv6_one_is_judged(void **state)
{
    (void)state;
    assert_true(is_own("::ffff:127.0.0.1"));
    assert_true(is_own("::ffff:10.1.2.3"));
    assert_true(is_own("::127.0.0.1"));
    assert_true(is_own("64:ff9b::a00:1"));
    assert_true(is_own("2002:c0a8:101::1"));
}

static void
what_is_no_internet_address_is_refused(void **state)
{
    struct sockaddr local = { .sa_family = AF_UNIX };

    (void)state;
    assert_true(address_is_of_own_network(&local));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_of_each_range_are_the_nodes_own_network),
        cmocka_unit_test(their_neighbours_are_not),
        cmocka_unit_test(an_ipv4_address_inside_an_ipv6_one_is_judged),
        cmocka_unit_test(what_is_no_internet_address_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
