/*
 * Addresses: how they are written, and which hop is the client.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "address.h"

static void
assert_reads(const char *text, const char *canonical)
{
    struct address address;
    char written[ADDRESS_TEXT_BYTES];

    if (!address_parse(slice_of(text), &address))
        fail_msg("%s is refused", text);
    address_format(&address, written);
    assert_string_equal(written, canonical);
}

static void
an_address_is_read_as_proxies_write_it(void **state)
{
    (void)state;
    assert_reads("192.0.2.1", "192.0.2.1");
    assert_reads("192.0.2.1:8080", "192.0.2.1");
    assert_reads("::1", "::1");
    assert_reads("2001:DB8:0:0::1", "2001:db8::1");
    assert_reads("[2001:db8::1]", "2001:db8::1");
    assert_reads("[2001:db8::1]:443", "2001:db8::1");
    assert_reads("fe80::1%eth0", "fe80::1");
    assert_reads("::ffff:192.0.2.1", "192.0.2.1");
    assert_reads("[::ffff:192.0.2.1]:1", "192.0.2.1");
}

static void
what_is_no_address_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "unknown",
        "_hidden",
        "192.0.2",
        "192.0.2.256",
        "192.0.2.1.",
        "192.0.2.1:",
        "192.0.2.1:x",
        "1.2.3.4:123456",
        "[::1",
        "[::1]x",
        "[::1]:",
        "[192.0.2.1]",
        "::1::",
        "0x7f.1",
        "127.1",
        "192.0.2.1 ",
        "192.0.2.1/24",
        "[]",
        ":",
        "::ffff:192.0.2.1:80000000000000000000000000000000000000000000",
    };
    struct address address;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (address_parse(slice_of(bad[i]), &address))
            fail_msg("%s is taken", bad[i]);
    }
    assert_false(address_parse(SLICE_LITERAL("192.0.2.1\0"), &address));
}

static void
a_mask_keeps_the_first_bits(void **state)
{
    struct address address;

    (void)state;
    memset(address.bytes, 0xFF, sizeof(address.bytes));
    address_mask(&address, 128);
    assert_int_equal(address.bytes[15], 0xFF);
    address_mask(&address, 67);
    assert_int_equal(address.bytes[7], 0xFF);
    assert_int_equal(address.bytes[8], 0xE0);
    assert_int_equal(address.bytes[9], 0);
    address_mask(&address, 0);
    assert_int_equal(address.bytes[0], 0);
}

/* --- trusted proxies --------------------------------------------------- */

static void
assert_client(const char *proxies, const char *peer, const char *forwarded_for,
              const char *expected)
{
    char error[256], client[ADDRESS_TEXT_BYTES];
    struct proxy_list *list = proxy_list_new(proxies, error, sizeof(error));

    assert_non_null(list);
    client_address(list, peer, slice_of(forwarded_for), client);
    assert_string_equal(client, expected);
    proxy_list_free(&list);
    assert_null(list);
}

static void
a_stranger_can_not_say_who_it_is(void **state)
{
    (void)state;
    assert_client("", "198.51.100.9", "203.0.113.5", "198.51.100.9");
    assert_client("10.0.0.0/8", "198.51.100.9", "203.0.113.5", "198.51.100.9");
    assert_client("", "::ffff:198.51.100.9", "", "198.51.100.9");
}

static void
the_client_is_the_last_hop_that_is_not_trusted(void **state)
{
    (void)state;
    assert_client("10.0.0.1", "10.0.0.1", "203.0.113.5", "203.0.113.5");
    assert_client("10.0.0.1", "10.0.0.1", "1.1.1.1, 203.0.113.5", "203.0.113.5");
    assert_client("10.0.0.0/8", "10.0.0.1", "1.1.1.1,203.0.113.5 , 10.9.9.9", "203.0.113.5");
    assert_client("10.0.0.0/8 ::1", "::1", "[2001:db8::7]:4711, 10.9.9.9:80", "2001:db8::7");
    assert_client("10.0.0.1", "::ffff:10.0.0.1", "203.0.113.5", "203.0.113.5");
}

static void
without_an_untrusted_hop_it_is_the_first_trusted_one(void **state)
{
    (void)state;
    assert_client("10.0.0.0/8", "10.0.0.1", "", "10.0.0.1");
    assert_client("10.0.0.0/8", "10.0.0.1", "10.3.3.3, 10.2.2.2", "10.3.3.3");
}

static void
a_hop_that_is_no_address_ends_the_search(void **state)
{
    (void)state;
    assert_client("10.0.0.0/8", "10.0.0.1", "203.0.113.5, unknown", "10.0.0.1");
    assert_client("10.0.0.0/8", "10.0.0.1", "203.0.113.5, , 10.2.2.2", "10.2.2.2");
    assert_client("10.0.0.0/8", "10.0.0.1", "203.0.113.5,", "10.0.0.1");
    assert_client("10.0.0.0/8", "10.0.0.1", "127.0.0.1\"; DROP", "10.0.0.1");
}

static void
a_peer_without_an_address_keeps_its_name(void **state)
{
    (void)state;
    assert_client("0.0.0.0/0, ::/0", "unix", "203.0.113.5", "unix");
    assert_client("", "", "203.0.113.5", "");
}

static void
ranges_match_by_their_bits(void **state)
{
    (void)state;
    assert_client("10.1.2.3/31", "10.1.2.2", "203.0.113.5", "203.0.113.5");
    assert_client("10.1.2.3/31", "10.1.2.4", "203.0.113.5", "10.1.2.4");
    assert_client("2001:db8::/33", "2001:db8:7fff::1", "203.0.113.5", "203.0.113.5");
    assert_client("2001:db8::/33", "2001:db8:8000::1", "203.0.113.5", "2001:db8:8000::1");
    assert_client("0.0.0.0/0", "198.51.100.9", "203.0.113.5,2001:db8::1", "2001:db8::1");
    assert_client("::ffff:10.0.0.0/104", "10.7.7.7", "203.0.113.5", "203.0.113.5");
}

static void
a_bad_item_of_the_list_is_named(void **state)
{
    static const char *const bad[] = { "10.0.0.0/33", "10.0.0/8",   "::/129",    "localhost",
                                       "10.0.0.1:80", "[::1]",      "10.0.0.0/", "10.0.0.0/-1",
                                       "/8",          "10.0.0.0/8x" };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[64], error[256] = "";
        snprintf(text, sizeof(text), "127.0.0.1, %s", bad[i]);
        assert_null(proxy_list_new(text, error, sizeof(error)));
        assert_non_null(strstr(error, bad[i]));
        assert_non_null(strstr(error, "trusted_proxies"));
    }
}

static void
too_many_items_are_an_error(void **state)
{
    char text[257 * 10 + 1] = "", error[256] = "";

    (void)state;
    for (int i = 0; i < 257; i++)
        strcat(text, "10.0.0.1, ");
    assert_null(proxy_list_new(text, error, sizeof(error)));
    assert_non_null(strstr(error, "256"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_read_as_proxies_write_it),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(a_mask_keeps_the_first_bits),
        cmocka_unit_test(a_stranger_can_not_say_who_it_is),
        cmocka_unit_test(the_client_is_the_last_hop_that_is_not_trusted),
        cmocka_unit_test(without_an_untrusted_hop_it_is_the_first_trusted_one),
        cmocka_unit_test(a_hop_that_is_no_address_ends_the_search),
        cmocka_unit_test(a_peer_without_an_address_keeps_its_name),
        cmocka_unit_test(ranges_match_by_their_bits),
        cmocka_unit_test(a_bad_item_of_the_list_is_named),
        cmocka_unit_test(too_many_items_are_an_error),
    };

    return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
