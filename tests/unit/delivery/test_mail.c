/*
 * test_mail.c - to whom a mail may go, and what stands in it.
 */
#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "delivery_internal.h"

static bool
is_good(const char *address)
{
    return mail_address_is_good(slice_of(address));
}

static void
usual_addresses_are_good(void **state)
{
    (void)state;
    assert_true(is_good("a@b.example"));
    assert_true(is_good("first.last+tag@sub.b-c.example"));
    assert_true(is_good("o'brien@localhost"));
}

static void
what_could_end_a_line_or_a_command_is_not(void **state)
{
    static const char *const bad[] = {
        "",     "a",       "@b",          "a@",    "a b@c", "a@b c",      "a@b\r\nX: y", "a\n@b",
        "a@b>", "<a@b",    "a@b@c",       ".a@b",  "a.@b",  "a..b@c",     "a@b..c",      "a@.b",
        "a@b.", "\"a\"@b", "a@[1.2.3.4]", "a,b@c", "a;b@c", "\xC3\xA4@b", "a@\xC3\xA4",  "a@b\t",
    };
    char longest[300] = "";

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (is_good(bad[i]))
            fail_msg("%s", bad[i]);
    }
    assert_false(mail_address_is_good((struct slice){ "a@b\0c", 5 }));
    memset(longest, 'a', 65);
    memcpy(longest + 65, "@b", 3);
    assert_false(is_good(longest));
    assert_true(is_good(longest + 1));
    memset(longest, 'a', 253);
    longest[1] = '@';
    longest[254] = '\0';
    assert_true(strlen(longest) == 253 && is_good(longest));
    memset(longest, 'a', 255);
    longest[1] = '@';
    assert_false(is_good(longest));
}

/* --- the message ------------------------------------------------------------------------------ */

static struct mail
mail_of(const char *kind, const char *event_name, const char *payload)
{
    return (struct mail){ .kind = slice_of(kind),
                          .to = slice_of("buyer@b.example"),
                          .from = slice_of("tickets@house.example"),
                          .org = slice_of("org"),
                          .event_name = slice_of(event_name),
                          .payload = slice_of(payload),
                          .id = 17,
                          .unix_s = 1769862896 };
}

/* Replaces each base64 text after `start` up to `end` by what it says. */
static char *
decoded(const char *base64)
{
    size_t len = strlen(base64);
    char *clean = malloc(len + 1);
    char *text = calloc(1, len + 1);
    size_t count = 0;

    for (const char *c = base64; *c != '\0'; c++) {
        if (*c != '\r' && *c != '\n')
            clean[count++] = *c;
    }
    assert_true(EVP_DecodeBlock((unsigned char *)text, (unsigned char *)clean, (int)count) >= 0);
    free(clean);
    return text;
}

/* The lines of base64 before each padding are decoded apart: EVP takes none in the middle. */
static char *
body_of(const struct buf *message)
{
    const char *body = strstr(message->data, "\r\n\r\n");

    assert_non_null(body);
    return decoded(body + 4);
}

static void
write_good(struct buf *out, const struct mail *mail)
{
    assert_true(mail_write(out, mail));
    for (const char *line = out->data; *line != '\0';) {
        const char *end = strstr(line, "\r\n");
        assert_non_null(end);
        assert_true(end - line <= 78);
        for (const char *c = line; c < end; c++)
            assert_true(*c >= ' ' && *c <= '~');
        line = end + 2;
    }
}

static void
a_sale_shows_its_tickets_and_its_amount(void **state)
{
    struct mail mail =
        mail_of("checkout.completed", "Gala",
                "{\"checkout_id\":\"c-1\",\"amount\":12345,\"currency\":\"EUR\",\"tickets\":["
                "{\"ticket_id\":\"t-1\",\"seat_id\":\"A-1\"},{\"ticket_id\":\"t-2\",\"area_id\":"
                "\"floor\"}]}");
    struct buf out = { 0 };

    (void)state;
    write_good(&out, &mail);
    assert_non_null(strstr(out.data, "Date: Sat, 31 Jan 2026 12:34:56 +0000\r\n"));
    assert_non_null(strstr(out.data, "From: <tickets@house.example>\r\nTo: <buyer@b.example>\r\n"));
    assert_non_null(strstr(out.data, "Message-ID: <17.org@house.example>\r\n"));
    char *body = body_of(&out);
    assert_string_equal(body, "Gala\n\nThank you. These are your tickets:\n\n  A-1: ticket t-1\n"
                              "  floor: ticket t-2\n\nAmount: 123.45 EUR\nCheckout: c-1\n");
    free(body);
    buf_fini(&out);
}

static void
money_has_the_digits_of_its_currency(void **state)
{
    static const char *const payloads[] = { "{\"amount\":500,\"currency\":\"JPY\"}",
                                            "{\"amount\":1005,\"currency\":\"KWD\"}",
                                            "{\"amount\":7,\"currency\":\"USD\"}" };
    static const char *const amounts[] = { "Amount: 500 JPY\n", "Amount: 1.005 KWD\n",
                                           "Amount: 0.07 USD\n" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct mail mail = mail_of("payment.refund_required", "Gala", payloads[i]);
        struct buf out = { 0 };
        write_good(&out, &mail);
        char *body = body_of(&out);
        assert_non_null(strstr(body, amounts[i]));
        free(body);
        buf_fini(&out);
    }
}

static void
a_name_can_make_no_header(void **state)
{
    struct mail mail =
        mail_of("hold.expired", "Gala\r\nBcc: x@y.example\r\n\r\nhello",
                "{\"seats\":[\"A-1\"],\"areas\":[{\"area_id\":\"floor\",\"quantity\":2}]}");
    struct buf out = { 0 };

    (void)state;
    write_good(&out, &mail);
    assert_null(strstr(out.data, "Bcc"));
    char *body = body_of(&out);
    assert_non_null(strstr(body, "Gala  Bcc: x@y.example    hello\n"));
    assert_non_null(strstr(body, "  A-1\n  2 x floor\n"));
    free(body);
    buf_fini(&out);
}

static void
a_long_subject_is_cut_between_characters(void **state)
{
    char name[256] = "";
    struct buf out = { 0 };

    (void)state;
    for (int i = 0; i < 60; i++)
        memcpy(name + 4 * i, "\xF0\x9F\x8E\xAD", 4);
    struct mail mail = mail_of("checkout.completed", name, "{}");
    write_good(&out, &mail);
    const char *word = strstr(out.data, "=?UTF-8?B?");
    int words = 0;
    while (word != NULL && word < strstr(out.data, "Auto-Submitted")) {
        char text[80];
        const char *end = strstr(word + 10, "?=");
        assert_true(end + 2 - word <= 75);
        snprintf(text, sizeof(text), "%.*s", (int)(end - word - 10), word + 10);
        char *piece = decoded(text);
        assert_int_not_equal((unsigned char)piece[0] & 0xC0, 0x80); /* begins with a whole one */
        free(piece);
        words++;
        word = strstr(end, "=?UTF-8?B?");
    }
    assert_true(words > 5);
    buf_fini(&out);
}

static void
nobody_is_told_of_other_kinds(void **state)
{
    struct mail mail = mail_of("seat.held", "Gala", "{}");
    struct buf out = { 0 };

    (void)state;
    assert_false(mail_write(&out, &mail));
    buf_fini(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_addresses_are_good),
        cmocka_unit_test(what_could_end_a_line_or_a_command_is_not),
        cmocka_unit_test(a_sale_shows_its_tickets_and_its_amount),
        cmocka_unit_test(money_has_the_digits_of_its_currency),
        cmocka_unit_test(a_name_can_make_no_header),
        cmocka_unit_test(a_long_subject_is_cut_between_characters),
        cmocka_unit_test(nobody_is_told_of_other_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
