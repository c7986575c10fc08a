/* What the lines of a hold say about the whole, when some of it has ended otherwise than the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine_internal.h"
#include "fake_rows.h"

#define H1 "01890000-0000-7000-8000-000000000001"

#define COLUMNS                                                                                    \
    "pos:int8 hold:uuid event:text usr:text cart:text source:text created_at:time until:time "     \
    "now:time currency:text line:int8 seat:text section:text row:text number:text area:text "      \
    "quantity:int8 version:int8 price:int8 status:text reason:text ended_at:time tickets:uuid "    \
    "in_payment:bool"

struct rows {
    struct arena arena;
    struct pg_result *rows;
    int lines;
};

static int
set_up(void **state)
{
    struct rows *rows = calloc(1, sizeof(*rows));
    rows->rows = rows_new(COLUMNS);
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

static void
line(struct rows *rows, const char *seat, const char *status, const char *reason, const char *ended)
{
    char number[12];
    snprintf(number, sizeof(number), "%d", ++rows->lines);
    rows_add(rows->rows, "1", H1, "e", "u", "cart", "web", "100", "400", "300", "EUR", number, seat,
             "s", "r", number, NULL, "1", "1", NULL, status, reason, ended, NULL, "f");
}

static void
expect(struct rows *rows, enum hold_status status, const char *reason, const char *seats)
{
    char found[100] = "";
    struct hold_view *view = hold_view_from_rows(&rows->arena, rows->rows, 0, pg_rows(rows->rows));
    assert_non_null(view);
    assert_int_equal(view->status, status);
    assert_true(slice_is(view->reason, reason));
    for (int i = 0; i < view->line_count; i++) {
        strcat(found, i > 0 ? " " : "");
        strncat(found, view->lines[i].seat.ptr, view->lines[i].seat.len);
    }
    assert_string_equal(found, seats);
}

static void
what_is_left_of_an_active_hold_is_active(void **state)
{
    line(*state, "A", "cancelled", "user_cancelled", "200");
    line(*state, "B", "active", NULL, NULL);
    expect(*state, HOLD_ACTIVE, "", "B");
}

static void
a_cancelled_hold_has_what_ended_last(void **state)
{
    line(*state, "A", "cancelled", "user_cancelled", "200");
    line(*state, "B", "cancelled", "replaced", "250");
    line(*state, "C", "cancelled", "replaced", "250");
    expect(*state, HOLD_CANCELLED, "replaced", "B C");
}

static void
a_sold_hold_that_gave_a_seat_back_is_still_sold(void **state)
{
    line(*state, "A", "cancelled", "user_cancelled", "150"); /* before it was sold */
    line(*state, "B", "converted", NULL, "200");
    line(*state, "C", "cancelled", "user_cancelled", "250");
    line(*state, "D", "converted", NULL, "200");
    expect(*state, HOLD_CONVERTED, "", "B D");
}

static void
a_sold_hold_that_gave_all_back_is_cancelled(void **state)
{
    line(*state, "A", "cancelled", "replaced", "250");
    line(*state, "B", "cancelled", "replaced", "250");
    expect(*state, HOLD_CANCELLED, "replaced", "A B");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_left_of_an_active_hold_is_active),
        CASE(a_cancelled_hold_has_what_ended_last),
        CASE(a_sold_hold_that_gave_a_seat_back_is_still_sold),
        CASE(a_sold_hold_that_gave_all_back_is_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
