/* A hold as every answer shows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hold_json.h"

static struct buf out;

static const char *
shown(const struct hold_view *hold)
{
    struct json_writer w;

    buf_clear(&out);
    json_writer_init(&w, &out);
    hold_json_write(&w, hold);
    assert_false(out.failed);
    return out.data;
}

static struct hold_line lines[2];

static struct hold_view
some_hold(void)
{
    struct hold_view hold = {
        .hold_id = { { 1 } },
        .event = SLICE_LITERAL("e1"),
        .user = SLICE_LITERAL("u1"),
        .cart_token = SLICE_LITERAL("c1"),
        .source = SLICE_LITERAL("web"),
        .currency = "EUR",
        .status = HOLD_ACTIVE,
        .created_at = { INT64_C(1700000000123456) },
        .held_until = { INT64_C(1700000300123456) },
        .now = { INT64_C(1700000000123457) },
        .line_count = 2,
        .lines = lines,
    };
    lines[0] = (struct hold_line){ .seat = SLICE_LITERAL("A1"),
                                   .section = SLICE_LITERAL("s"),
                                   .row = SLICE_LITERAL("A"),
                                   .number = SLICE_LITERAL("1"),
                                   .quantity = 1,
                                   .version = 7,
                                   .has_price = true,
                                   .price = 1000 };
    lines[1] = (struct hold_line){
        .area = SLICE_LITERAL("floor"), .quantity = 3, .has_price = true, .price = 250
    };
    return hold;
}

static void
an_active_hold_shows_seats_areas_amount_and_time_left(void **state)
{
    struct hold_view hold = some_hold();

    (void)state;
    assert_string_equal(
        shown(&hold),
        "{\"hold_id\":\"01000000-0000-0000-0000-000000000000\",\"event_id\":\"e1\",\"user_id\":"
        "\"u1\","
        "\"cart_token\":\"c1\",\"status\":\"active\",\"source\":\"web\","
        "\"seats\":[{\"seat_id\":\"A1\",\"section\":\"s\",\"row\":\"A\",\"number\":\"1\","
        "\"version\":7}],"
        "\"areas\":[{\"area_id\":\"floor\",\"quantity\":3}],\"amount\":1750,\"currency\":\"EUR\","
        "\"expires_at\":\"2023-11-14T22:18:20.123Z\",\"expires_in_seconds\":299,"
        "\"created_at\":\"2023-11-14T22:13:20.123Z\"}");
}

static void
without_a_price_on_every_line_there_is_no_amount(void **state)
{
    struct hold_view hold = some_hold();

    (void)state;
    lines[1].has_price = false;
    assert_null(strstr(shown(&hold), "amount"));
    lines[1].has_price = true;
    lines[1].price = INT64_MAX / 2;
    assert_null(strstr(shown(&hold), "amount"));
}

static void
a_hold_that_is_over_has_no_seconds_left_and_a_reason(void **state)
{
    struct hold_view hold = some_hold();

    (void)state;
    hold.status = HOLD_EXPIRED;
    hold.reason = SLICE_LITERAL("ttl_expired");
    assert_non_null(strstr(shown(&hold), "\"expires_in_seconds\":0,"));
    assert_non_null(strstr(shown(&hold), "\"reason\":\"ttl_expired\""));
    hold.status = HOLD_ACTIVE;
    hold.now.us = hold.held_until.us + 1;
    assert_non_null(strstr(shown(&hold), "\"expires_in_seconds\":0,"));
}

static void
only_a_sold_hold_has_tickets(void **state)
{
    struct hold_view hold = some_hold();
    struct uuid tickets[3] = { { { 2 } }, { { 3 } }, { { 4 } } };

    (void)state;
    lines[0].tickets = tickets;
    lines[0].ticket_count = 1;
    lines[1].tickets = tickets + 1;
    lines[1].ticket_count = 2;
    assert_null(strstr(shown(&hold), "tickets"));
    hold.status = HOLD_CONVERTED;
    assert_non_null(strstr(
        shown(&hold),
        "\"tickets\":[{\"ticket_id\":\"02000000-0000-0000-0000-000000000000\",\"seat_id\":\"A1\"},"
        "{\"ticket_id\":\"03000000-0000-0000-0000-000000000000\",\"area_id\":\"floor\"},"));
}

static int
free_out(void **state)
{
    (void)state;
    buf_fini(&out);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_active_hold_shows_seats_areas_amount_and_time_left),
        cmocka_unit_test(without_a_price_on_every_line_there_is_no_amount),
        cmocka_unit_test(a_hold_that_is_over_has_no_seconds_left_and_a_reason),
        cmocka_unit_test(only_a_sold_hold_has_tickets),
    };
    return cmocka_run_group_tests(tests, NULL, free_out);
}
