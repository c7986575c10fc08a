/* Who sits next to whom, and which choice leaves a seat alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "holdfast/seating.h"

#define ROW_MAX 16

/*
 * A row as a text: '.' free, 'x' taken, 'c' chosen, 'm' the chooser's and given up, 'k' his and
 * chosen again; '|' behind a seat ends a block.
 */
static int
row_of(const char *text, uint8_t *seats)
{
    int count = 0;

    for (; *text != '\0'; text++) {
        if (*text == '|') {
            seats[count - 1] |= SEATING_BREAK;
            continue;
        }
        hf_assert(count < ROW_MAX);
        seats[count++] = *text == 'x'   ? SEATING_TAKEN
                         : *text == 'c' ? SEATING_CHOSEN
                         : *text == 'm' ? SEATING_MINE
                         : *text == 'k' ? SEATING_MINE | SEATING_CHOSEN
                                        : 0;
    }
    seats[count - 1] |= SEATING_BREAK;
    return count;
}

/* The places left alone, as "2,4"; "" is allowed. */
static const char *
alone_in(const char *text)
{
    static char told[64];
    uint8_t seats[ROW_MAX];
    int alone[ROW_MAX];
    int count = row_of(text, seats);
    int found = seating_left_alone(seats, count, alone, ROW_MAX);
    size_t at = 0;

    told[0] = '\0';
    for (int i = 0; i < found; i++)
        at += (size_t)snprintf(told + at, sizeof(told) - at, "%s%d", i > 0 ? "," : "", alone[i]);
    return told;
}

static void
a_seat_between_two_that_are_taken_is_alone(void **state)
{
    (void)state;
    assert_string_equal(alone_in("c.c...."), "1");
    assert_string_equal(alone_in("x.c...."), "1");
    assert_string_equal(alone_in("..c.x..."), "3");
    assert_string_equal(alone_in("...c.x.c.."), "4,6");
}

static void
the_end_of_a_row_is_a_wall(void **state)
{
    (void)state;
    assert_string_equal(alone_in(".cc..."), "0");
    assert_string_equal(alone_in("...cc."), "5");
    assert_string_equal(alone_in(".c...c."), "0,6");
    assert_string_equal(alone_in(".c."), "0,2"); /* an end would do */
    assert_string_equal(alone_in("cc...."), "");
}

static void
an_aisle_is_a_wall(void **state)
{
    (void)state;
    assert_string_equal(alone_in("...cc.|......"), "5");
    assert_string_equal(alone_in("....cc|......"), "");
    assert_string_equal(alone_in("......|.cc..."), "6");
    assert_string_equal(alone_in(".....c|c....."), "");
}

static void
two_seats_side_by_side_are_not_alone(void **state)
{
    (void)state;
    assert_string_equal(alone_in("..c..c.."), "");
    assert_string_equal(alone_in("x..cc..x"), "");
}

static void
what_can_not_be_avoided_is_allowed(void **state)
{
    (void)state;
    assert_string_equal(alone_in("cc."), "");
    assert_string_equal(alone_in(".cc"), "");
    assert_string_equal(alone_in("c.c"), "");
    assert_string_equal(alone_in("c."), "");
    assert_string_equal(alone_in("ccc."), "");
    assert_string_equal(alone_in("c.|.."), "");
    assert_string_equal(alone_in("x.cx"), "");
}

static void
what_can_be_avoided_elsewhere_in_the_row_is_not(void **state)
{
    (void)state;
    assert_string_equal(alone_in("c.|..."), "1");
    assert_string_equal(alone_in("cc.|.."), "2");
    assert_string_equal(alone_in("cc.|..."), "2"); /* one of each block */
    assert_string_equal(alone_in("c.|."), "1");
}

static void
a_seat_that_was_alone_before_is_nobodys_fault(void **state)
{
    (void)state;
    assert_string_equal(alone_in("x.xcc..."), "");
    assert_string_equal(alone_in("x.x.cc.."), "3");
    assert_string_equal(alone_in("x.xcc."), "5"); /* one of each would do */
    assert_string_equal(alone_in("x.xccx"), "");
}

static void
ones_own_seats_are_judged_with_the_new_ones(void **state)
{
    (void)state;
    assert_string_equal(alone_in("k.c..."), "1");
    assert_string_equal(alone_in("kc...."), "");
    assert_string_equal(alone_in("mcc..."), "0");
    assert_string_equal(alone_in("mmcc.."), "");
    assert_string_equal(alone_in(".kc..."), ""); /* it was alone before */
}

/* --- against all choices, tried one by one --------------------------------------------------- */

static bool
free_in(const uint8_t *seats, int count, int i, uint8_t unless)
{
    return i >= 0 && i < count && (seats[i] & unless) == 0;
}

static bool
alone_at(const uint8_t *seats, int count, int i, uint8_t unless)
{
    bool left = free_in(seats, count, i - 1, unless) && !(seats[i - 1] & SEATING_BREAK);
    bool right = free_in(seats, count, i + 1, unless) && !(seats[i] & SEATING_BREAK);
    return free_in(seats, count, i, unless) && !left && !right;
}

static int
faults(const uint8_t *seats, int count)
{
    int found = 0;
    for (int i = 0; i < count; i++)
        found += alone_at(seats, count, i, SEATING_TAKEN | SEATING_CHOSEN) &&
                 !alone_at(seats, count, i, SEATING_TAKEN | SEATING_MINE);
    return found;
}

static bool
some_choice_has_no_fault(const uint8_t *seats, int count, int chosen)
{
    for (unsigned set = 0; set < 1U << count; set++) {
        uint8_t other[ROW_MAX];
        bool possible = __builtin_popcount(set) == chosen;
        for (int i = 0; i < count && possible; i++) {
            bool wanted = set >> i & 1;
            other[i] = (uint8_t)((seats[i] & ~SEATING_CHOSEN) | (wanted ? SEATING_CHOSEN : 0));
            possible = !wanted || !(seats[i] & SEATING_TAKEN);
        }
        if (possible && faults(other, count) == 0)
            return true;
    }
    return false;
}

static void
every_verdict_is_that_of_trying_all_choices(void **state)
{
    (void)state;
    srand(20261128);
    int refused = 0, excused = 0;
    for (int round = 0; round < 20000; round++) {
        uint8_t seats[ROW_MAX];
        int alone[ROW_MAX];
        int count = 1 + rand() % 9;
        int chosen = 0;
        for (int i = 0; i < count; i++) {
            int kind = rand() % 8;
            seats[i] = kind == 0 ? SEATING_TAKEN : kind == 1 ? SEATING_MINE : 0;
            if (kind != 0 && rand() % 3 == 0) {
                seats[i] |= SEATING_CHOSEN;
                chosen++;
            }
            if (rand() % 5 == 0 || i + 1 == count)
                seats[i] |= SEATING_BREAK;
        }
        int fault = faults(seats, count);
        bool better = some_choice_has_no_fault(seats, count, chosen);
        assert_int_equal(seating_left_alone(seats, count, alone, ROW_MAX), better ? fault : 0);
        refused += fault > 0 && better;
        excused += fault > 0 && !better;
    }
    assert_true(refused > 100 && excused > 100);
}

static void
many_seats_of_a_long_row_are_counted_as_well(void **state)
{
    (void)state;
    enum { LONG = 700 };
    uint8_t seats[LONG] = { 0 };
    int alone[4];
    for (int i = 0; i < LONG - 1; i++)
        seats[i] = SEATING_CHOSEN;
    seats[LONG - 1] = SEATING_BREAK;
    assert_int_equal(seating_left_alone(seats, LONG, alone, 4), 0); /* all but one: no other way */
    seats[LONG - 3] = seats[LONG - 4] = 0;
    seats[LONG - 2] = SEATING_CHOSEN;
    assert_int_equal(seating_left_alone(seats, LONG, alone, 4), 1);
    assert_int_equal(alone[0], LONG - 1);
}

/* --- order and blocks --------------------------------------------------------------------------
 */

/* Numbers apart by blanks; '>' behind one: an aisle; '-': removed. As "1 2|3". */
static const char *
blocks_of(const char *text)
{
    static char told[128];
    static char copy[128];
    struct seating_label labels[ROW_MAX];
    uint8_t seats[ROW_MAX];
    int count = 0;
    size_t at = 0;

    snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        size_t len = strcspn(word, ">-");
        labels[count] = (struct seating_label){ .number = { word, len },
                                                .aisle_after = word[len] == '>',
                                                .is_removed = word[len] == '-',
                                                .tag = count };
        count++;
    }
    int kept = seating_order(labels, count, seats);
    told[0] = '\0';
    for (int i = 0; i < kept; i++)
        at += (size_t)snprintf(told + at, sizeof(told) - at, "%.*s%s", (int)labels[i].number.len,
                               labels[i].number.ptr,
                               seats[i] & SEATING_BREAK ? (i + 1 < kept ? "|" : "") : " ");
    return told;
}

static void
numbers_stand_in_their_natural_order(void **state)
{
    (void)state;
    assert_string_equal(blocks_of("10 9 11 8"), "8 9 10 11");
    assert_string_equal(blocks_of("A2 A1 A10 A9 A3"), "A1 A2 A3|A9 A10");
}

static void
a_break_in_the_numbers_ends_a_block(void **state)
{
    (void)state;
    assert_string_equal(blocks_of("1 2 4 5"), "1 2|4 5");
    assert_string_equal(blocks_of("1 3"), "1|3");
    assert_string_equal(blocks_of("L1 L2 R3 R4"), "L1 L2|R3 R4");
}

static void
odd_and_even_rows_count_in_twos(void **state)
{
    (void)state;
    assert_string_equal(blocks_of("1 3 5 9 11"), "1 3 5|9 11");
    assert_string_equal(blocks_of("2 4 6"), "2 4 6");
    assert_string_equal(blocks_of("1 2- 3"), "1|3");
}

static void
letters_are_counted_with_i_and_o_left_out_or_not(void **state)
{
    (void)state;
    assert_string_equal(blocks_of("A B C> D E F"), "A B C|D E F");
    assert_string_equal(blocks_of("A C D"), "A|C D");
    assert_string_equal(blocks_of("G H J K"), "G H J K");
    assert_string_equal(blocks_of("H I J"), "H I J");
}

static void
an_aisle_and_a_removed_seat_end_a_block(void **state)
{
    (void)state;
    assert_string_equal(blocks_of("1 2> 3 4"), "1 2|3 4");
    assert_string_equal(blocks_of("1 2 3- 4 5"), "1 2|4 5");
    assert_string_equal(blocks_of("1- 2 3-"), "2");
}

static void
of_other_texts_only_the_order_counts(void **state)
{
    (void)state;
    assert_string_equal(blocks_of("left middle right"), "left middle right");
    assert_string_equal(blocks_of("7"), "7");
    assert_string_equal(blocks_of("1234567890123456789012 1234567890123456789014"),
                        "1234567890123456789012 1234567890123456789014");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seat_between_two_that_are_taken_is_alone),
        cmocka_unit_test(the_end_of_a_row_is_a_wall),
        cmocka_unit_test(an_aisle_is_a_wall),
        cmocka_unit_test(two_seats_side_by_side_are_not_alone),
        cmocka_unit_test(what_can_not_be_avoided_is_allowed),
        cmocka_unit_test(what_can_be_avoided_elsewhere_in_the_row_is_not),
        cmocka_unit_test(a_seat_that_was_alone_before_is_nobodys_fault),
        cmocka_unit_test(ones_own_seats_are_judged_with_the_new_ones),
        cmocka_unit_test(every_verdict_is_that_of_trying_all_choices),
        cmocka_unit_test(many_seats_of_a_long_row_are_counted_as_well),
        cmocka_unit_test(numbers_stand_in_their_natural_order),
        cmocka_unit_test(a_break_in_the_numbers_ends_a_block),
        cmocka_unit_test(odd_and_even_rows_count_in_twos),
        cmocka_unit_test(letters_are_counted_with_i_and_o_left_out_or_not),
        cmocka_unit_test(an_aisle_and_a_removed_seat_end_a_block),
        cmocka_unit_test(of_other_texts_only_the_order_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
