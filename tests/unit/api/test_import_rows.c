/* Seats from CSV: RFC 4180 to the letter, and every error with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "csv.h"
#include "events_internal.h"
#include "holdfast/seat_import.h"

/* --- records -------------------------------------------------------------------- */

/* The file's records as "field|field/field|field"; "!" and the reason for a bad one. */
static const char *
read_records(const char *bytes, size_t len)
{
    static char out[4096];
    struct arena arena = { 0 };
    struct csv csv;
    struct csv_record record;
    enum csv_answer answer;
    size_t used = 0;

    /* A copy that ends where the text ends, so that reading past it is seen. */
    char *copy = malloc(len + 1);
    memcpy(copy, bytes, len);
    out[0] = '\0';
    csv_init(&csv, (struct slice){ copy, len });
    while ((answer = csv_next(&csv, &arena, &record)) != CSV_END) {
        used += (size_t)snprintf(out + used, sizeof(out) - used, "%s", used > 0 ? "/" : "");
        if (answer == CSV_BAD) {
            used += (size_t)snprintf(out + used, sizeof(out) - used, "!%s", record.reason);
            continue;
        }
        for (int i = 0; i < record.count; i++)
            used += (size_t)snprintf(out + used, sizeof(out) - used, "%s%.*s", i > 0 ? "|" : "",
                                     SLICE_ARG(record.fields[i]));
    }
    arena_fini(&arena);
    free(copy);
    return out;
}

#define EXPECT_RECORDS(text, records)                                                              \
    assert_string_equal(read_records(text, sizeof(text) - 1), records)

static void
fields_and_lines_are_cut(void **state)
{
    (void)state;
    EXPECT_RECORDS("a,b\nc,d\n", "a|b/c|d");
    EXPECT_RECORDS("a,b\r\nc,d\r\n", "a|b/c|d");
    EXPECT_RECORDS("a,b\nc,d", "a|b/c|d");
    EXPECT_RECORDS("a,,c\n,\n", "a||c/|");
    EXPECT_RECORDS("a,", "a|");
    EXPECT_RECORDS("", "");
    EXPECT_RECORDS("\n\r\n\na\n\n", "a");
    EXPECT_RECORDS("\xEF\xBB\xBF"
                   "a,b",
                   "a|b");
    EXPECT_RECORDS(" a , b ", " a | b ");
}

static void
quotes_are_undone(void **state)
{
    (void)state;
    EXPECT_RECORDS("\"a,b\",c", "a,b|c");
    EXPECT_RECORDS("\"a\"\"b\"\n", "a\"b");
    EXPECT_RECORDS("\"\"\"\"", "\"");
    EXPECT_RECORDS("\"\",x", "|x");
    EXPECT_RECORDS("\"a\nb\",c\r\nd", "a\nb|c/d");
    EXPECT_RECORDS("\"a\r\nb\"", "a\r\nb");
}

static void
what_is_no_csv_is_told_and_the_next_line_goes_on(void **state)
{
    (void)state;
    EXPECT_RECORDS("\"a\"x,b\nc", "!text follows a closing quote/c");
    EXPECT_RECORDS("a\"b\nc", "!a quote stands inside a field/c");
    EXPECT_RECORDS("a\rb\nc", "!a carriage return stands alone/c");
    EXPECT_RECORDS("\"a,b\nc", "!a quote is not closed");
    EXPECT_RECORDS("\"", "!a quote is not closed");
}

static void
more_fields_than_there_is_room_for_are_refused(void **state)
{
    (void)state;
    char line[2 * CSV_FIELDS_MAX + 2];
    memset(line, ',', sizeof(line));
    line[CSV_FIELDS_MAX - 1] = '\n';
    assert_non_null(strchr(read_records(line, CSV_FIELDS_MAX), '|'));
    line[CSV_FIELDS_MAX - 1] = ',';
    assert_string_equal(read_records(line, CSV_FIELDS_MAX), "!too many fields");
}

static void
only_utf8_is_text(void **state)
{
    (void)state;
    static const char *const good[] = {
        "", "abc", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x8E\xAB", "\xED\x9F\xBF"
    };
    static const char *const bad[] = { "\x80",
                                       "\xC3",
                                       "\xC0\x80",
                                       "\xE0\x80\x80",
                                       "\xED\xA0\x80",
                                       "\xF4\x90\x80\x80",
                                       "\xF5\x80\x80\x80",
                                       "\xFF",
                                       "a\xE2\x82" };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(csv_text_is_valid(slice_of(good[i])));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(csv_text_is_valid(slice_of(bad[i])));
    assert_false(csv_text_is_valid((struct slice){ "a\0b", 3 }));
}

/* --- seats ------------------------------------------------------------------------- */

static struct import_errors errors;

/* How many seats the file gives; the errors are in `errors`. */
static int64_t
read_seats(const char *csv)
{
    struct arena arena = { 0 };
    struct seat_batch batch = { 0 };
    assert_true(import_read_csv(&arena, slice_of(csv), &batch, &errors));
    int64_t count = batch.count;
    seat_batch_fini(&batch);
    arena_fini(&arena);
    return count;
}

static void
expect_error(int at, int64_t line, const char *field, const char *reason)
{
    assert_true(at < errors.count);
    assert_int_equal(errors.items[at].line, line);
    assert_int_equal(errors.items[at].field.len, strlen(field)); /* its bytes went with the file */
    assert_string_equal(errors.items[at].reason, reason);
}

static void
columns_come_in_any_order_and_optional_ones_may_be_empty(void **state)
{
    (void)state;
    assert_int_equal(read_seats("number,row,section,seat_id\n1,A,x,A-1\n2,A,x,A-2\n"), 2);
    assert_int_equal(errors.count, 0);
    assert_int_equal(read_seats("seat_id,section,row,number,type,price,x,y,attributes\n"
                                "A1,x,1,1,,,,,\n"
                                "A2,x,1,2,vip,100,-1.5,2e1,\"{\"\"a\"\":1}\"\n"),
                     2);
    assert_int_equal(errors.count, 0);
}

static void
a_header_that_is_not_right_is_the_only_complaint(void **state)
{
    (void)state;
    read_seats("seat_id,section,row,colour,row\nA1,x\n");
    assert_int_equal(errors.count, 3);
    expect_error(0, 1, "colour", "is not a column that is known here");
    expect_error(1, 1, "row", "is a column twice");
    expect_error(2, 1, "number", "is missing as a column");
    read_seats("");
    expect_error(0, 1, "", "the file has no header line");
}

static void
every_wrong_value_is_told_with_its_line(void **state)
{
    (void)state;
    read_seats("seat_id,section,row,number,price,x,attributes\n"
               "A 1,x,1,1,,,\n"         /* 2 */
               "A2,,1,1,,,\n"           /* 3 */
               "A3,\"a\nb\",1,1,-5,,\n" /* 4 and 5 */
               "A4,x,1,1,5.5,,\n"       /* 6 */
               "A5,x,1,1,,nan,\n"       /* 7 */
               "A6,x,1,1,,1.2.3,[]\n"   /* 8 */
               "A7,x,1\n"               /* 9 */
               "A8,x,1,1,,,{\n"         /* 10 */
               "A9,x,\xFF,1,,,\n");     /* 11 */
    assert_int_equal(errors.count, 10);
    expect_error(0, 2, "seat_id", "is not 1-64 characters of [A-Za-z0-9._-]");
    expect_error(1, 3, "section", "is missing");
    expect_error(2, 4, "price", "is not a whole number in the minor unit of the currency");
    expect_error(3, 6, "price", "is not a whole number in the minor unit of the currency");
    expect_error(4, 7, "x", "is not a number that it can be");
    expect_error(5, 8, "x", "is not a number that it can be");
    expect_error(6, 8, "attributes", "is not a JSON object");
    expect_error(7, 9, "", "has not as many fields as the header line");
    expect_error(8, 10, "attributes", "is not a JSON object");
    expect_error(9, 11, "row", "is not UTF-8 text");
}

static void
a_seat_twice_is_told_at_its_second_line(void **state)
{
    (void)state;
    read_seats("seat_id,section,row,number\nA1,x,1,1\nA2,x,1,2\nA1,x,1,3\n");
    assert_int_equal(errors.count, 1);
    expect_error(0, 4, "seat_id", "duplicate_seat");
}

static void
errors_are_kept_up_to_the_limit_and_counted_past_it(void **state)
{
    (void)state;
    struct buf csv = { 0 };
    buf_append_text(&csv, "seat_id,section,row,number\n");
    for (int i = 0; i < IMPORT_ERRORS_MAX + 500; i++)
        buf_append_text(&csv, "!,x,1,1\n");
    read_seats(csv.data);
    assert_int_equal(errors.count, IMPORT_ERRORS_MAX + 500);
    buf_fini(&csv);
}

static void
a_large_file_finds_its_doubles(void **state)
{
    (void)state;
    struct buf csv = { 0 };
    buf_append_text(&csv, "seat_id,section,row,number\n");
    for (int i = 0; i < 30000; i++)
        buf_printf(&csv, "S%d,x,1,%d\n", i, i);
    assert_int_equal(read_seats(csv.data), 30000);
    assert_int_equal(errors.count, 0);
    buf_append_text(&csv, "S17,x,1,1\n");
    read_seats(csv.data);
    expect_error(0, 30002, "seat_id", "duplicate_seat");
    buf_fini(&csv);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_and_lines_are_cut),
        cmocka_unit_test(quotes_are_undone),
        cmocka_unit_test(what_is_no_csv_is_told_and_the_next_line_goes_on),
        cmocka_unit_test(more_fields_than_there_is_room_for_are_refused),
        cmocka_unit_test(only_utf8_is_text),
        cmocka_unit_test(columns_come_in_any_order_and_optional_ones_may_be_empty),
        cmocka_unit_test(a_header_that_is_not_right_is_the_only_complaint),
        cmocka_unit_test(every_wrong_value_is_told_with_its_line),
        cmocka_unit_test(a_seat_twice_is_told_at_its_second_line),
        cmocka_unit_test(errors_are_kept_up_to_the_limit_and_counted_past_it),
        cmocka_unit_test(a_large_file_finds_its_doubles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
