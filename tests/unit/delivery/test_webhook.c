/*
 * test_webhook.c - what a webhook may be, and what it is sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "delivery_internal.h"
#include "holdfast/signature.h"

static void
http_and_https_may_be_one(void **state)
{
    (void)state;
    assert_null(webhook_url_fault("http://consumer.example/hook", false));
    assert_null(webhook_url_fault("https://consumer.example:8443/hook?x=1", false));
    assert_null(webhook_url_fault("https://8.8.8.8/", false));
    assert_null(webhook_url_fault("http://127.0.0.1:8080/", true));
}

static void
anything_else_may_not(void **state)
{
    static const char *const bad[] = {
        "",
        "hook",
        "ftp://consumer.example/",
        "file:///etc/passwd",
        "smtp://x/",
        "http://",
        "http://a b/",
        "http://user@consumer.example/",
        "http://u:p@consumer.example/",
        "http://consumer.example/\r\nX-Y: z",
    };
    char *longest = malloc(WEBHOOK_URL_BYTES_MAX + 2);

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (webhook_url_fault(bad[i], true) == NULL)
            fail_msg("%s", bad[i]);
    }
    memset(longest, 'a', WEBHOOK_URL_BYTES_MAX + 1);
    memcpy(longest, "http://x/", 9);
    longest[WEBHOOK_URL_BYTES_MAX + 1] = '\0';
    assert_non_null(webhook_url_fault(longest, true));
    longest[WEBHOOK_URL_BYTES_MAX] = '\0';
    assert_null(webhook_url_fault(longest, true));
    free(longest);
}

static void
its_own_network_is_seen_in_every_spelling(void **state)
{
    static const char *const own[] = {
        "http://localhost/",
        "http://LOCALHOST/",
        "http://x.localhost/",
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://017700000001/",
        "http://2130706433/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[fe80::1%25eth0]/",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (webhook_url_fault(own[i], false) == NULL)
            fail_msg("%s", own[i]);
    }
}

static void
kinds_are_known_by_their_whole_name(void **state)
{
    (void)state;
    assert_true(webhook_kind_is_known(slice_of("seat.held")));
    assert_true(webhook_kind_is_known(slice_of("payment.refund_required")));
    assert_false(webhook_kind_is_known(slice_of("seat")));
    assert_false(webhook_kind_is_known(slice_of("seat.heldx")));
    assert_false(webhook_kind_is_known(slice_of("")));
}

/* --- the body ------------------------------------------------------------------------------ */

static struct transfer *
new_transfer(void)
{
    struct transfer *transfer =
        transfer_new(CHANNEL_WEBHOOK, slice_of("org"), slice_of("event"), slice_of("event"));

    assert_non_null(transfer);
    return transfer;
}

static struct outbox_event
event_with(int64_t id, struct slice payload)
{
    return (struct outbox_event){ id, slice_of("seat.held"), SLICE_EMPTY, payload,
                                  slice_of("2026-01-31T12:34:56.789Z") };
}

static void
a_call_has_its_events_in_order_and_is_signed(void **state)
{
    struct config config = { .delivery_allow_private = true };
    struct transfer *transfer = new_transfer();
    struct outbox_event first = event_with(7, slice_of("{\"seat_id\": \"A-1\"}"));
    struct outbox_event second = event_with(9, slice_of("{}"));
    bool found = false;

    (void)state;
    assert_true(webhook_add(transfer, &first));
    assert_true(webhook_add(transfer, &second));
    webhook_prepare(transfer, "http://consumer.example/", slice_of("secret"), &config);
    assert_int_equal(transfer->outcome, TRANSFER_UNDER_WAY);
    assert_int_equal(transfer->events, 2);
    assert_string_equal(transfer->body.data,
                        "{\"org_id\":\"org\",\"event_id\":\"event\",\"events\":["
                        "{\"id\":7,\"kind\":\"seat.held\",\"event_id\":\"event\","
                        "\"at\":\"2026-01-31T12:34:56.789Z\",\"data\":{\"seat_id\": \"A-1\"}},"
                        "{\"id\":9,\"kind\":\"seat.held\",\"event_id\":\"event\","
                        "\"at\":\"2026-01-31T12:34:56.789Z\",\"data\":{}}]}");
    for (struct curl_slist *line = transfer->headers; line != NULL; line = line->next) {
        size_t skip = strlen(SIGNATURE_HEADER ": ");
        if (strncmp(line->data, SIGNATURE_HEADER ": ", skip) == 0)
            found = signature_is_good(slice_of("secret"), time(NULL), slice_of(line->data + skip),
                                      buf_slice(&transfer->body));
    }
    assert_true(found);
    transfer_free(transfer);
}

static void
a_large_event_goes_alone(void **state)
{
    enum { BYTES = 300 * 1024 };
    struct transfer *transfer = new_transfer();
    char *text = malloc(BYTES);
    struct outbox_event large, small = event_with(2, slice_of("{}"));

    (void)state;
    memset(text, ' ', BYTES);
    memcpy(text, "{}", 2);
    large = event_with(1, (struct slice){ text, BYTES });
    assert_true(webhook_add(transfer, &large));
    assert_false(webhook_add(transfer, &small));
    transfer_free(transfer);
    transfer = new_transfer();
    assert_true(webhook_add(transfer, &small));
    assert_false(webhook_add(transfer, &large));
    assert_int_equal(transfer->events, 1);
    transfer_free(transfer);
    free(text);
}

static void
why_it_failed_is_told_in_ascii(void **state)
{
    struct transfer *transfer =
        transfer_new(CHANNEL_WEBHOOK, slice_of("o"), slice_of("s"), slice_of("e"));

    (void)state;
    assert_non_null(transfer);
    transfer_fail(transfer, TRANSFER_FAILED, "no caf\xc3\xa9 ~\x7f\x01 \xc3");
    assert_int_equal(transfer->outcome, TRANSFER_FAILED);
    assert_string_equal(transfer->error, "no caf?? ~?? ?");
    transfer_free(transfer);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_and_https_may_be_one),
        cmocka_unit_test(anything_else_may_not),
        cmocka_unit_test(its_own_network_is_seen_in_every_spelling),
        cmocka_unit_test(kinds_are_known_by_their_whole_name),
        cmocka_unit_test(a_call_has_its_events_in_order_and_is_signed),
        cmocka_unit_test(a_large_event_goes_alone),
        cmocka_unit_test(why_it_failed_is_told_in_ascii),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
