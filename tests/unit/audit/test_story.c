/* The replay of one seat: a good story has no violation, each planted fault is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "audit_internal.h"
#include "fake_rows.h"

#define ENTRY_COLUMNS                                                                              \
    "org:text event:text seat:text version:int8 action:text hold:uuid user:text at:time "          \
    "until:time reason:text id:int8"
#define SEAT_COLUMNS                                                                               \
    "org:text event:text seat:text version:int8 status:text hold:uuid user:text until:time "       \
    "in_payment:bool"
#define LINE_COLUMNS                                                                               \
    "org:text event:text seat:text hold:uuid user:text status:text until:time in_payment:bool"

#define H1 "01890000-0000-7000-8000-000000000001"
#define H2 "01890000-0000-7000-8000-000000000002"

/* One seat's rows: what is told, and how seats and seat_holds stand at the end. */
struct tale {
    struct pg_result *entries, *seats, *lines;
    struct audit_report *report;
};

static int
set_up(void **state)
{
    struct tale *tale = calloc(1, sizeof(*tale));
    tale->entries = rows_new(ENTRY_COLUMNS);
    tale->seats = rows_new(SEAT_COLUMNS);
    tale->lines = rows_new(LINE_COLUMNS);
    tale->report = calloc(1, sizeof(*tale->report));
    *state = tale;
    return 0;
}

static int
tear_down(void **state)
{
    struct tale *tale = *state;
    pg_result_free(&tale->entries);
    pg_result_free(&tale->seats);
    pg_result_free(&tale->lines);
    free(tale->report);
    free(tale);
    return 0;
}

static void
entry(struct tale *tale, const char *version, const char *action, const char *hold,
      const char *user, const char *at, const char *until, const char *reason)
{
    rows_add(tale->entries, "o", "e", "s", version, action, hold, user, at, until, reason, "1");
}

static void
seat(struct tale *tale, const char *version, const char *status, const char *hold, const char *user,
     const char *until)
{
    rows_add(tale->seats, "o", "e", "s", version, status, hold, user, until, "f");
}

/* A seat that is held and in payment, and its line. */
static void
seat_in_payment(struct tale *tale, const char *version, const char *hold, const char *user,
                const char *until, const char *line_in_payment)
{
    rows_add(tale->seats, "o", "e", "s", version, "held", hold, user, until, "t");
    rows_add(tale->lines, "o", "e", "s", hold, user, "active", until, line_in_payment);
}

static void
line(struct tale *tale, const char *hold, const char *user, const char *status, const char *until)
{
    rows_add(tale->lines, "o", "e", "s", hold, user, status, until, "f");
}

/* A stream over ready rows; one of another seat ends it, so that nothing is fetched. */
static struct stream
stream_over(struct pg_result *rows)
{
    struct stream stream = { .rows = rows, .count = pg_rows(rows), .outcome = PG_DONE };
    stream.ended = stream.count == 0;
    strcpy(stream.key.org, "o");
    strcpy(stream.key.event, "e");
    strcpy(stream.key.seat, "s");
    return stream;
}

static void
tell(struct tale *tale)
{
    struct audit_key key = { "o", "e", "s" };
    struct story story = { 0 };

    /* The row behind the seat's own. */
    rows_add(tale->seats, "o", "e", "zz", "0", "available", NULL, NULL, NULL, "f");
    rows_add(tale->lines, "o", "e", "zz", H1, "u", "expired", "0", "f");
    struct stream seats = stream_over(tale->seats);
    struct stream lines = stream_over(tale->lines);
    struct slice first_line = pg_get_text(tale->lines, 0, KEY_SEAT);
    if (slice_is(first_line, "zz"))
        strcpy(lines.key.seat, "zz");
    if (slice_is(pg_get_text(tale->seats, 0, KEY_SEAT), "zz"))
        strcpy(seats.key.seat, "zz");

    story_begin(&story, tale->report, &key);
    for (int row = 0; row < pg_rows(tale->entries); row++)
        story_tell(&story, tale->entries, row);
    ending_check(&story, &seats, &lines);
    assert_false(story.failed);
    story_fini(&story);
}

static void
expect_good(struct tale *tale)
{
    tell(tale);
    if (tale->report->violation_count > 0)
        print_message("%s: %s\n", tale->report->violations[0].kind,
                      tale->report->violations[0].detail);
    assert_int_equal(tale->report->violation_count, 0);
}

/* The kinds, in the order found, separated by spaces. */
static void
expect_bad(struct tale *tale, const char *kinds)
{
    char found[1024] = "";
    tell(tale);
    for (int i = 0; i < tale->report->violation_count; i++) {
        strcat(found, i > 0 ? " " : "");
        strcat(found, tale->report->violations[i].kind);
    }
    assert_string_equal(found, kinds);
}

/* --- good stories ------------------------------------------------------------ */

static void
a_seat_that_nobody_touched_is_good(void **state)
{
    struct tale *tale = *state;
    seat(tale, "0", "available", NULL, NULL, NULL);
    expect_good(tale);
    assert_int_equal(tale->report->seats, 1);
}

static void
held_extended_sold_is_good(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "hold_extended", H1, "u", "150", "300", NULL);
    entry(tale, "3", "hold_transferred", H1, "v", "160", "300", NULL);
    entry(tale, "4", "seat_changed", H1, "v", "170", "300", NULL);
    entry(tale, "5", "seat_sold", H1, "v", "299", "300", NULL);
    seat(tale, "5", "sold", H1, "v", NULL);
    line(tale, H1, "v", "converted", "300");
    expect_good(tale);
}

static void
expiry_take_over_and_cancel_are_good(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "seat_released", H1, "u", "200", "200", "ttl_expired");
    entry(tale, "3", "seat_held", H2, "v", "200", "300", NULL);
    entry(tale, "4", "seat_released", H2, "v", "250", "300", "user_cancelled");
    entry(tale, "5", "seat_held", H2, "v", "260", "300", NULL); /* given back, and taken again */
    seat(tale, "5", "held", H2, "v", "300");
    line(tale, H1, "u", "expired", "200");
    line(tale, H2, "v", "cancelled", "300");
    line(tale, H2, "v", "active", "300");
    expect_good(tale);
}

static void
blocked_removed_and_back_is_good(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_blocked", NULL, NULL, "1", NULL, "camera");
    entry(tale, "2", "seat_unblocked", NULL, NULL, "2", NULL, NULL);
    entry(tale, "3", "seat_removed", NULL, NULL, "3", NULL, NULL);
    entry(tale, "4", "seat_added", NULL, NULL, "4", NULL, NULL);
    entry(tale, "5", "seat_blocked", NULL, NULL, "5", NULL, NULL);
    seat(tale, "5", "blocked", NULL, NULL, NULL);
    expect_good(tale);
}

static void
a_payment_that_outlives_the_hold_and_sells_is_good(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "payment_started", H1, "u", "199", "200", NULL);
    entry(tale, "3", "seat_sold", H1, "u", "250", "200", NULL);
    seat(tale, "3", "sold", H1, "u", NULL);
    line(tale, H1, "u", "converted", "200");
    expect_good(tale);
}

static void
payments_that_fail_or_never_were_are_good(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "payment_started", H1, "u", "150", "200", NULL);
    entry(tale, "3", "seat_released", H1, "u", "250", "200", "payment_failed");
    entry(tale, "4", "seat_held", H2, "v", "260", "300", NULL);
    entry(tale, "5", "payment_started", H2, "v", "270", "300", NULL);
    entry(tale, "6", "payment_stopped", H2, "v", "310", "300", NULL); /* and it is over */
    entry(tale, "7", "seat_released", H2, "v", "310", "300", "ttl_expired");
    entry(tale, "8", "seat_held", H2, "v", "320", "400", NULL);
    entry(tale, "9", "payment_started", H2, "v", "330", "400", NULL);
    line(tale, H1, "u", "cancelled", "200");
    line(tale, H2, "v", "expired", "300");
    seat_in_payment(tale, "9", H2, "v", "400", "t");
    expect_good(tale);
}

static void
what_was_sold_and_given_back_is_good(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "seat_sold", H1, "u", "150", "200", NULL);
    entry(tale, "3", "seat_released", H1, "u", "900", NULL, "replaced");
    entry(tale, "4", "seat_held", H2, "v", "950", "990", NULL);
    entry(tale, "5", "seat_sold", H2, "v", "960", "990", NULL);
    entry(tale, "6", "seat_released", H2, "v", "970", NULL, "user_cancelled");
    seat(tale, "6", "available", NULL, NULL, NULL);
    line(tale, H1, "u", "cancelled", "200");
    line(tale, H2, "v", "cancelled", "990");
    expect_good(tale);
}

/* --- planted faults ------------------------------------------------------------- */

static void
two_lives_that_overlap_are_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "seat_held", H2, "v", "150", "250", NULL);
    seat(tale, "2", "held", H2, "v", "250");
    line(tale, H1, "u", "expired", "200");
    line(tale, H2, "v", "active", "250");
    expect_bad(tale, "overlap line_status");
    assert_int_equal(tale->report->violations[0].hold_count, 2);
}

static void
gaps_and_doubles_of_versions_are_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "2", "seat_blocked", NULL, NULL, "1", NULL, NULL);
    entry(tale, "2", "seat_unblocked", NULL, NULL, "2", NULL, NULL);
    entry(tale, NULL, "seat_changed", NULL, NULL, "3", NULL, NULL);
    seat(tale, "2", "available", NULL, NULL, NULL);
    expect_bad(tale, "version_gap version_double version_missing");
}

static void
a_sale_at_or_after_the_end_is_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "seat_sold", H1, "u", "200", "200", NULL);
    seat(tale, "2", "sold", H1, "u", NULL);
    line(tale, H1, "u", "converted", "200");
    expect_bad(tale, "after_end");
}

static void
a_sale_by_another_hold_or_without_one_is_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "seat_sold", H2, "u", "150", "200", NULL);
    seat(tale, "2", "sold", H2, "u", NULL);
    line(tale, H2, "u", "converted", "200");
    expect_bad(tale, "wrong_hold line_missing line_unknown");
}

static void
an_expiry_before_the_end_is_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "seat_released", H1, "u", "199", "200", "ttl_expired");
    seat(tale, "2", "available", NULL, NULL, NULL);
    line(tale, H1, "u", "expired", "200");
    expect_bad(tale, "expired_early");
}

static void
an_extension_that_shortens_or_comes_too_late_is_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "hold_extended", H1, "u", "150", "190", NULL);
    entry(tale, "3", "hold_extended", H1, "u", "190", "300", NULL);
    seat(tale, "3", "held", H1, "u", "300");
    line(tale, H1, "u", "active", "300");
    expect_bad(tale, "shortened after_end");
}

static void
a_change_judged_before_the_one_before_it_is_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_blocked", NULL, NULL, "10", NULL, NULL);
    entry(tale, "2", "seat_unblocked", NULL, NULL, "9", NULL, NULL);
    seat(tale, "2", "available", NULL, NULL, NULL);
    expect_bad(tale, "time_backwards");
}

static void
steps_that_the_state_does_not_allow_are_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_unblocked", NULL, NULL, "1", NULL, NULL);
    entry(tale, "2", "seat_sold", H1, "u", "2", NULL, NULL);
    entry(tale, "3", "seat_blocked", NULL, NULL, "3", NULL, NULL);
    entry(tale, "4", "seat_flew_away", NULL, NULL, "4", NULL, NULL);
    seat(tale, "4", "blocked", NULL, NULL, NULL);
    expect_bad(tale, "illegal_step illegal_step illegal_step unknown_action");
}

static void
a_sale_that_ends_and_nobody_gave_it_back_is_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "seat_sold", H1, "u", "150", "200", NULL);
    entry(tale, "3", "seat_released", H1, "u", "900", NULL, "ttl_expired");
    entry(tale, "4", "seat_held", H2, "v", "950", "990", NULL);
    entry(tale, "5", "seat_sold", H2, "v", "960", "990", NULL);
    entry(tale, "6", "seat_released", H2, "v", "970", NULL, "admin_override");
    seat(tale, "6", "available", NULL, NULL, NULL);
    line(tale, H1, "u", "cancelled", "200");
    line(tale, H2, "v", "converted", "990");
    expect_bad(tale, "sold_released sold_released line_status");
}

static void
a_seat_row_that_differs_from_the_story_is_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    seat(tale, "2", "sold", H2, "v", NULL);
    line(tale, H1, "u", "active", "200");
    expect_bad(tale, "final_state final_state final_state final_state final_state");
}

static void
a_seat_that_the_log_knows_and_the_table_not_is_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_blocked", NULL, NULL, "1", NULL, NULL);
    expect_bad(tale, "seat_missing");
}

static void
lines_that_differ_from_the_story_are_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    seat(tale, "1", "held", H1, "u", "200");
    line(tale, H1, "w", "active", "200");
    line(tale, H2, "v", "active", "200");
    expect_bad(tale, "line_differs line_without_seat line_unknown");
}

static void
a_held_seat_without_its_line_is_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    seat(tale, "1", "held", H1, "u", "200");
    expect_bad(tale, "line_missing");
}

static void
no_more_than_a_hundred_violations_are_kept_but_all_are_counted(void **state)
{
    struct tale *tale = *state;
    for (int i = 0; i < 250; i++)
        entry(tale, "7", "seat_changed", NULL, NULL, "1", NULL, NULL);
    seat(tale, "7", "available", NULL, NULL, NULL);
    tell(tale);
    assert_int_equal(tale->report->violation_count, 250);
    struct buf out = { 0 };
    audit_report_write(&out, tale->report);
    assert_false(out.failed);
    assert_non_null(strstr(out.data, "\"ok\":false"));
    assert_non_null(strstr(out.data, "\"violation_count\":250"));
    buf_fini(&out);
}

static void
a_long_life_of_many_holds_is_good(void **state)
{
    struct tale *tale = *state;
    char version[16], at[16], until[16], hold[UUID_TEXT_BYTES];
    int count = 1000;
    for (int i = 0; i < count; i++) {
        snprintf(hold, sizeof(hold), "01890000-0000-7000-8000-%012d", i);
        snprintf(version, sizeof(version), "%d", 2 * i + 1);
        snprintf(at, sizeof(at), "%d", i * 10);
        snprintf(until, sizeof(until), "%d", i * 10 + 5);
        entry(tale, version, "seat_held", hold, "u", at, until, NULL);
        snprintf(version, sizeof(version), "%d", 2 * i + 2);
        entry(tale, version, "seat_released", hold, "u", until, until, "ttl_expired");
        line(tale, hold, "u", "expired", until);
    }
    seat(tale, "2000", "available", NULL, NULL, NULL);
    expect_good(tale);
    assert_int_equal(tale->report->entries, 2000);
}

static void
what_happens_to_a_hold_in_payment_is_found(void **state)
{
    static const struct {
        const char *action;
    } faults[] = {
        { "hold_extended" }, { "hold_changed" }, { "hold_transferred" }, { "payment_started" }
    };
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        void *one = NULL;
        set_up(&one);
        struct tale *tale = one;
        entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
        entry(tale, "2", "payment_started", H1, "u", "150", "200", NULL);
        entry(tale, "3", faults[i].action, H1, "u", "160", "200", NULL);
        seat_in_payment(tale, "3", H1, "u", "200", "t");
        expect_bad(tale, "in_payment");
        tear_down(&one);
    }
    (void)state;
}

static void
an_expiry_in_payment_is_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "payment_started", H1, "u", "150", "200", NULL);
    entry(tale, "3", "seat_released", H1, "u", "210", "200", "ttl_expired");
    seat(tale, "3", "available", NULL, NULL, NULL);
    line(tale, H1, "u", "expired", "200");
    expect_bad(tale, "in_payment");
}

static void
a_payment_that_begins_after_the_end_is_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "payment_started", H1, "u", "200", "200", NULL);
    seat_in_payment(tale, "2", H1, "u", "200", "t");
    expect_bad(tale, "after_end");
}

static void
a_mark_of_payment_that_differs_is_found(void **state)
{
    struct tale *tale = *state;
    entry(tale, "1", "seat_held", H1, "u", "100", "200", NULL);
    entry(tale, "2", "payment_started", H1, "u", "150", "200", NULL);
    entry(tale, "3", "payment_stopped", H1, "u", "160", "200", NULL);
    entry(tale, "4", "payment_stopped", H1, "u", "170", "200", NULL);
    seat_in_payment(tale, "4", H1, "u", "200", "f");
    expect_bad(tale, "illegal_step final_state");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_seat_that_nobody_touched_is_good),
        CASE(held_extended_sold_is_good),
        CASE(expiry_take_over_and_cancel_are_good),
        CASE(blocked_removed_and_back_is_good),
        CASE(a_payment_that_outlives_the_hold_and_sells_is_good),
        CASE(payments_that_fail_or_never_were_are_good),
        CASE(what_was_sold_and_given_back_is_good),
        CASE(a_sale_that_ends_and_nobody_gave_it_back_is_found),
        CASE(two_lives_that_overlap_are_found),
        CASE(gaps_and_doubles_of_versions_are_found),
        CASE(a_sale_at_or_after_the_end_is_found),
        CASE(a_sale_by_another_hold_or_without_one_is_found),
        CASE(an_expiry_before_the_end_is_found),
        CASE(an_extension_that_shortens_or_comes_too_late_is_found),
        CASE(a_change_judged_before_the_one_before_it_is_found),
        CASE(steps_that_the_state_does_not_allow_are_found),
        CASE(a_seat_row_that_differs_from_the_story_is_found),
        CASE(a_seat_that_the_log_knows_and_the_table_not_is_found),
        CASE(lines_that_differ_from_the_story_are_found),
        CASE(a_held_seat_without_its_line_is_found),
        CASE(no_more_than_a_hundred_violations_are_kept_but_all_are_counted),
        CASE(a_long_life_of_many_holds_is_good),
        CASE(what_happens_to_a_hold_in_payment_is_found),
        CASE(an_expiry_in_payment_is_found),
        CASE(a_payment_that_begins_after_the_end_is_found),
        CASE(a_mark_of_payment_that_differs_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
