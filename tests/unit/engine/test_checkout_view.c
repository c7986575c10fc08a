/* A checkout from the rows of read_checkout: its holds, its end, its amount, its payment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine_internal.h"
#include "fake_rows.h"

#define H1     "01890000-0000-7000-8000-000000000001"
#define H2     "01890000-0000-7000-8000-000000000002"
#define C1     "01890000-0000-7000-8000-00000000000c"
#define INTENT "01890000-0000-7000-8000-0000000000ff"

#define COLUMNS                                                                                    \
    "pos:int8 hold:uuid event:text usr:text cart:text source:text created_at:time until:time "     \
    "now:time currency:text line:int8 seat:text section:text row:text number:text area:text "      \
    "quantity:int8 version:int8 price:int8 status:text reason:text ended_at:time tickets:uuid "    \
    "in_payment:bool checkout:uuid checkout_event:text checkout_user:text checkout_status:text "   \
    "amount:int8 checkout_currency:text intent:uuid intent_status:text mine:bool flight:bool"

struct rows {
    struct arena arena;
    struct pg_result *rows;
    const char *status, *intent, *intent_status;
};

static int
set_up(void **state)
{
    struct rows *rows = calloc(1, sizeof(*rows));
    rows->rows = rows_new(COLUMNS);
    rows->status = "open";
    *state = rows;
    return 0;
}

static int
tear_down(void **state)
{
    struct rows *rows = *state;
    pg_result_free(&rows->rows);
    arena_fini(&rows->arena);
    free(rows);
    return 0;
}

/* The stored amount is 9; it is 500 by the database's clock. */
static void
line(struct rows *rows, const char *pos, const char *hold, const char *number, const char *quantity,
     const char *price, const char *until, const char *status, const char *in_payment)
{
    rows_add(rows->rows, pos, hold, "e", "u", "cart", "web", "100", until, "500", "EUR", number,
             number, "s", "r", number, NULL, quantity, "1", price, status, NULL, NULL, NULL,
             in_payment, C1, "e", "u", rows->status, "9", "EUR", rows->intent, rows->intent_status,
             "t", "t");
}

static struct checkout_view *
view_of(struct rows *rows)
{
    struct checkout_view *view = checkout_view_from_rows(&rows->arena, rows->rows);
    assert_non_null(view);
    return view;
}

static void
nothing_is_no_checkout(void **state)
{
    struct rows *rows = *state;
    assert_null(checkout_view_from_rows(&rows->arena, rows->rows));
}

static void
one_that_is_open_costs_what_its_holds_cost_now_and_ends_with_the_first(void **state)
{
    struct rows *rows = *state;
    line(rows, "1", H1, "1", "1", "1000", "900", "active", "f");
    line(rows, "1", H1, "2", "3", "200", "900", "active", "f");
    line(rows, "2", H2, "1", "1", NULL, "800", "active", "f"); /* no price: it costs nothing */
    struct checkout_view *view = view_of(rows);
    assert_int_equal(view->hold_count, 2);
    assert_int_equal(view->holds[0]->line_count, 2);
    assert_int_equal(view->holds[1]->line_count, 1);
    assert_int_equal(view->amount, 1600);
    assert_int_equal(view->expires_at.us, 800);
    assert_int_equal(view->status, CHECKOUT_OPEN);
    assert_string_equal(view->currency, "EUR");
    assert_false(view->has_intent);
    assert_true(view->of_flight);
}

static void
one_that_can_not_be_paid_any_more_keeps_its_amount(void **state)
{
    struct rows *rows = *state;
    line(rows, "1", H1, "1", "1", "1000", "900", "active", "f");
    line(rows, "2", H2, "1", "1", "1000", "400", "active", "f"); /* over */
    struct checkout_view *view = view_of(rows);
    assert_int_equal(view->amount, 9);
    assert_int_equal(view->holds[1]->status, HOLD_EXPIRED);
}

static void
in_payment_a_hold_is_active_past_its_end_and_the_amount_is_the_intents(void **state)
{
    struct rows *rows = *state;
    rows->status = "paying";
    rows->intent = INTENT;
    rows->intent_status = "pending";
    line(rows, "1", H1, "1", "1", "1000", "400", "active", "t");
    struct checkout_view *view = view_of(rows);
    assert_int_equal(view->holds[0]->status, HOLD_ACTIVE);
    assert_int_equal(view->amount, 9);
    assert_int_equal(view->status, CHECKOUT_PAYING);
    assert_true(view->has_intent);
    assert_int_equal(view->intent_status, INTENT_PENDING);
}

static void
words_there_and_back(void **state)
{
    (void)state;
    for (int i = CHECKOUT_OPEN; i <= CHECKOUT_FAILED; i++) {
        enum checkout_status status;
        assert_true(checkout_status_parse(slice_of(checkout_status_word((enum checkout_status)i)),
                                          &status));
        assert_int_equal(status, i);
    }
    for (int i = INTENT_PROCESSING; i <= INTENT_VOID; i++) {
        enum intent_status status;
        assert_true(
            intent_status_parse(slice_of(intent_status_word((enum intent_status)i)), &status));
        assert_int_equal(status, i);
    }
    enum intent_status intent;
    enum checkout_status checkout;
    assert_false(intent_status_parse(SLICE_LITERAL("paid"), &intent));
    assert_false(checkout_status_parse(SLICE_LITERAL(""), &checkout));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nothing_is_no_checkout),
        CASE(one_that_is_open_costs_what_its_holds_cost_now_and_ends_with_the_first),
        CASE(one_that_can_not_be_paid_any_more_keeps_its_amount),
        CASE(in_payment_a_hold_is_active_past_its_end_and_the_amount_is_the_intents),
        CASE(words_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
