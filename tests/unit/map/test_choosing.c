/* Which seats are chosen, and what is said where none are: from a map without a Postgres. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choose.h"
#include "event_map.h"
#include "fake_rows.h"
#include "holdfast/seating.h"
#include "map_internal.h"
#include "map_rows.h"

#define NOW     INT64_C(1000000000000)
#define FOREVER "9000000000000"

static const struct slice org = { "acme", 4 };
static const struct slice event = { "E1", 2 };

struct theatre {
    struct seat_maps *maps;
    struct pg_result *seats, *areas;
    char chosen[SEATS_CHOSEN_MAX][ID_BYTES_MAX + 1];
    char text[4096];
};

static int
set_up(void **state)
{
    struct theatre *theatre = calloc(1, sizeof(*theatre));
    theatre->maps = seat_maps_new(2);
    theatre->seats = rows_new(SEAT_COLUMNS);
    theatre->areas = rows_new(AREA_COLUMNS);
    seat_maps_set_trusted(theatre->maps, true);
    *state = theatre;
    return 0;
}

static int
tear_down(void **state)
{
    struct theatre *theatre = *state;
    seat_maps_free(&theatre->maps);
    pg_result_free(&theatre->seats);
    pg_result_free(&theatre->areas);
    free(theatre);
    return 0;
}

/* A seat "<row>-<number>". marks: 'a' an aisle after it, 'w' accessible, 'h' held, 'o' held and
 * over, 'r' removed. */
static void
add(struct theatre *theatre, const char *row, int number, const char *x, const char *y,
    const char *marks)
{
    char id[40], text[24];
    bool is_over = strchr(marks, 'o') != NULL, is_held = is_over || strchr(marks, 'h') != NULL;
    const char *status = strchr(marks, 'r') ? "removed" : is_held ? "held" : "available";
    char price[24];

    snprintf(id, sizeof(id), "%s-%d", row, number);
    snprintf(text, sizeof(text), "%d", number);
    snprintf(price, sizeof(price), "%d", 100 * number);
    rows_add(theatre->seats, id, "main", row, text, strchr(marks, 'p') ? "premium" : NULL,
             strchr(marks, 'n') ? NULL : price, x, y, status, "f", "1",
             is_over   ? "1000"
             : is_held ? FOREVER
                       : NULL,
             strchr(marks, 'a') ? "t" : "f", strchr(marks, 'w') ? "t" : "f", NULL, NULL, NULL);
}

/* Seats of a row without coordinates: "..h.a." */
static void
add_row(struct theatre *theatre, const char *row, const char *marks)
{
    for (int i = 0; marks[i] != '\0'; i++)
        add(theatre, row, i + 1, NULL, NULL, (char[]){ marks[i], '\0' });
}

static struct seat_wish
wish(int quantity)
{
    return (struct seat_wish){ .quantity = quantity,
                               .adjacent = true,
                               .price_min = INT64_MIN,
                               .price_max = INT64_MAX,
                               .among = 1,
                               .now = { NOW },
                               .arrived = mono_now() };
}

static enum seat_choice
ask(struct theatre *theatre, const struct seat_wish *wish)
{
    return seat_maps_choose(theatre->maps, org, event, wish, theatre->chosen);
}

static void
load(struct theatre *theatre)
{
    struct seat_wish any = wish(1);
    struct seat_map_reading reading;
    struct mono_time before = mono_now();

    any.is_reader = true;
    (void)ask(theatre, &any); /* there is a map now */
    while (mono_now().us <= before.us + 1)
        continue;
    reading = (struct seat_map_reading){ .began = mono_now(), .now = { NOW } };
    assert_true(
        seat_maps_load(theatre->maps, org, event, theatre->seats, theatre->areas, &reading));
}

/* The seats, in a line. */
static const char *
choose_by(struct theatre *theatre, const struct seat_wish *wish)
{
    enum seat_choice choice = ask(theatre, wish);
    static const char *const words[] = { "", "later", "load", "too few", "apart", "no memory" };

    if (choice != SEAT_CHOICE_MADE)
        return words[choice];
    theatre->text[0] = '\0';
    for (int i = 0; i < wish->quantity; i++) {
        strcat(theatre->text, i > 0 ? " " : "");
        strcat(theatre->text, theatre->chosen[i]);
    }
    return theatre->text;
}

static const char *
choose(struct theatre *theatre, int quantity)
{
    struct seat_wish plain = wish(quantity);
    return choose_by(theatre, &plain);
}

static void
give_back(struct theatre *theatre, bool is_doubtful, const char *seats)
{
    char text[512], *rest = text, *id;
    char ids[SEATS_CHOSEN_MAX][ID_BYTES_MAX + 1];
    int count = 0;

    snprintf(text, sizeof(text), "%s", seats);
    while ((id = strsep(&rest, " ")) != NULL)
        snprintf(ids[count++], sizeof(ids[0]), "%s", id);
    seat_maps_give_back(theatre->maps, org, event, ids, count, is_doubtful);
}

/* As the feed tells it. */
static void
becomes(struct theatre *theatre, const char *seat, enum seat_status status, int64_t version)
{
    struct feed_change change = { .kind = FEED_SEAT,
                                  .org = org,
                                  .event = event,
                                  .item = slice_of(seat),
                                  .status = status,
                                  .held_until = { NOW + TIME_US_PER_S },
                                  .version = version };
    seat_maps_take(theatre->maps, &change, (struct feed_mark){ 0, 0 }, NULL);
}

/* --- when a map may be believed ------------------------------------------------------------- */

static void
a_map_is_loaded_by_the_first_who_needs_it(void **state)
{
    struct theatre *theatre = *state;
    struct seat_wish reader = wish(1);

    add_row(theatre, "A", "...");
    assert_string_equal(choose(theatre, 1), "load");
    assert_string_equal(choose(theatre, 1), "later"); /* somebody does it already */
    reader.is_reader = true;
    assert_string_equal(choose_by(theatre, &reader), "load");
    load(theatre);
    assert_string_equal(choose(theatre, 1), "A-1");
}

static void
no_is_said_of_a_map_that_missed_nothing(void **state)
{
    struct theatre *theatre = *state;
    struct seat_wish early;

    add_row(theatre, "A", "hh");
    early = wish(1);
    load(theatre);
    assert_string_equal(choose(theatre, 1), "too few");
    seat_maps_set_trusted(theatre->maps, false);
    assert_string_equal(choose(theatre, 1), "load"); /* others may have freed some */
    load(theatre);
    assert_string_equal(choose_by(theatre, &early), "too few"); /* it was read since this came */
}

static void
while_a_map_is_read_again_the_old_one_does_for_a_yes(void **state)
{
    struct theatre *theatre = *state;

    add_row(theatre, "A", "..");
    load(theatre);
    seat_maps_distrust(theatre->maps);
    assert_string_equal(choose(theatre, 1), "load");
    assert_string_equal(choose(theatre, 2), "A-1 A-2");
    give_back(theatre, false, "A-1 A-2");
    assert_string_equal(choose(theatre, 3), "later");
}

static void
seats_that_were_added_are_read_before_anything_is_chosen(void **state)
{
    struct theatre *theatre = *state;
    struct feed_change added = { .kind = FEED_SEATS, .org = org, .event = event };

    add_row(theatre, "B", "..");
    load(theatre);
    assert_string_equal(choose(theatre, 1), "B-1");
    seat_maps_take(theatre->maps, &added, (struct feed_mark){ 0, 0 }, NULL);
    add_row(theatre, "A", "..");
    assert_string_equal(choose(theatre, 1), "load");
    load(theatre);
    assert_string_equal(choose(theatre, 1), "A-1");
    assert_string_equal(choose(theatre, 1), "A-2");
    assert_string_equal(choose(theatre, 1), "B-2"); /* B-1 is under way, as it was */
}

/* --- what is under way
 * ---------------------------------------------------------------------------- */

static void
what_is_under_way_is_not_chosen_again(void **state)
{
    struct theatre *theatre = *state;

    add_row(theatre, "A", "....");
    load(theatre);
    assert_string_equal(choose(theatre, 2), "A-1 A-2");
    assert_string_equal(choose(theatre, 2), "A-3 A-4");
    assert_string_equal(choose(theatre, 2), "later"); /* not "too few": nobody has them yet */
    give_back(theatre, false, "A-1 A-2");
    assert_string_equal(choose(theatre, 2), "A-1 A-2");
}

static void
what_was_taken_is_gone(void **state)
{
    struct theatre *theatre = *state;

    add_row(theatre, "A", "...");
    load(theatre);
    assert_string_equal(choose(theatre, 2), "A-1 A-2");
    becomes(theatre, "A-1", SEAT_HELD, 2);
    becomes(theatre, "A-2", SEAT_SOLD, 2);
    give_back(theatre, false, "A-1 A-2");
    assert_string_equal(choose(theatre, 2), "too few");
    assert_string_equal(choose(theatre, 1), "A-3");
    give_back(theatre, false, "A-3");
    becomes(theatre, "A-2", SEAT_AVAILABLE, 3);
    assert_string_equal(choose(theatre, 2), "A-2 A-3");
}

static void
what_somebody_was_in_the_way_of_is_left_for_a_moment(void **state)
{
    struct theatre *theatre = *state;

    add_row(theatre, "A", "....");
    load(theatre);
    assert_string_equal(choose(theatre, 2), "A-1 A-2");
    give_back(theatre, true, "A-1 A-2");
    assert_string_equal(choose(theatre, 2), "A-3 A-4");
    const char *chosen;
    while (strcmp(chosen = choose(theatre, 2), "later") == 0)
        continue;
    assert_string_equal(chosen, "A-1 A-2");
}

static void
holds_that_are_over_are_free(void **state)
{
    struct theatre *theatre = *state;

    add_row(theatre, "A", "oho");
    load(theatre);
    assert_string_equal(choose(theatre, 1), "A-1");
    assert_string_equal(choose(theatre, 1), "A-3");
    assert_string_equal(choose(theatre, 2), "apart");
}

static void
nothing_is_denied_while_a_hold_may_be_over(void **state)
{
    struct theatre *theatre = *state;
    struct seat_wish wished = wish(1);

    add_row(theatre, "A", "hs");
    load(theatre);
    becomes(theatre, "A-1", SEAT_HELD, 2); /* for a second */
    becomes(theatre, "A-2", SEAT_SOLD, 2);
    wished.now_most.us = NOW + TIME_US_PER_S - 1;
    assert_string_equal(choose_by(theatre, &wished), "too few");
    wished.now_most.us = NOW + TIME_US_PER_S; /* it may be that late */
    assert_string_equal(choose_by(theatre, &wished), "later");
    wished.now.us = NOW + TIME_US_PER_S;
    assert_string_equal(choose_by(theatre, &wished), "A-1");
    wished.now_most.us = INT64_MAX - 1; /* the clock is not known: nothing is left to end */
    assert_string_equal(choose_by(theatre, &wished), "later");
    becomes(theatre, "A-1", SEAT_SOLD, 3);
    assert_string_equal(choose_by(theatre, &wished), "too few");
}

/* --- which
 * ---------------------------------------------------------------------------------------------- */

static void
nobody_sits_across_an_aisle_a_break_or_a_removed_seat(void **state)
{
    struct theatre *theatre = *state;

    add_row(theatre, "A", "..a...r...");
    add(theatre, "A", 12, NULL, NULL, "");
    load(theatre);
    assert_string_equal(choose(theatre, 4), "apart");
    assert_string_equal(choose(theatre, 3), "A-1 A-2 A-3");
    assert_string_equal(choose(theatre, 3), "A-4 A-5 A-6");
    assert_string_equal(choose(theatre, 3), "A-8 A-9 A-10");
    assert_string_equal(choose(theatre, 1), "A-12");
}

static void
wishes_are_kept(void **state)
{
    struct theatre *theatre = *state;
    struct seat_wish wished = wish(1);

    add_row(theatre, "A", "wpn.....");
    load(theatre);
    wished.type = slice_of("premium");
    assert_string_equal(choose_by(theatre, &wished), "A-2");
    assert_string_equal(choose_by(theatre, &wished), "later");
    wished = wish(2);
    wished.price_max = 500;
    assert_string_equal(choose_by(theatre, &wished), "A-4 A-5"); /* A-3 has no price */
    assert_string_equal(choose_by(theatre, &wished), "later");
    wished = wish(1);
    wished.accessible = true;
    assert_string_equal(choose_by(theatre, &wished), "A-1");
    wished.accessible = false;
    wished.section = slice_of("elsewhere");
    assert_string_equal(choose_by(theatre, &wished), "too few");
    assert_string_equal(choose(theatre, 1), "A-3");
}

static void
in_as_few_groups_as_there_are(void **state)
{
    struct theatre *theatre = *state;
    struct seat_wish apart = wish(3);

    add_row(theatre, "A", ".h.h..");
    add_row(theatre, "B", ".h.");
    load(theatre);
    assert_string_equal(choose(theatre, 3), "apart");
    apart.adjacent = false;
    assert_string_equal(choose_by(theatre, &apart), "A-1 A-5 A-6");
    assert_string_equal(choose_by(theatre, &apart), "A-3 B-1 B-3");
}

static void
after_a_loss_one_of_the_good_ones_by_chance(void **state)
{
    struct theatre *theatre = *state;
    struct seat_wish lost = wish(2);

    add_row(theatre, "A", "........");
    load(theatre);
    lost.among = 3;
    lost.random = 7; /* the second of three that don't overlap */
    assert_string_equal(choose_by(theatre, &lost), "A-3 A-4");
    lost.among = 100;
    lost.random = 5; /* and of three that are left the last */
    assert_string_equal(choose_by(theatre, &lost), "A-7 A-8");
}

static void
no_gap_but_where_it_cannot_be_helped(void **state)
{
    struct theatre *theatre = *state;
    struct seat_wish careful = wish(2);

    add_row(theatre, "A", "h.....");
    load(theatre);
    careful.no_gap = true;
    assert_string_equal(choose_by(theatre, &careful), "A-2 A-3");
    becomes(theatre, "A-2", SEAT_HELD, 2);
    becomes(theatre, "A-3", SEAT_HELD, 2);
    /* Three are left: any two of them leave one. */
    assert_string_equal(choose_by(theatre, &careful), "A-4 A-5");
}

/* --- against a reckoning of our own
 * -------------------------------------------------------------------- */

#define ROWS  6
#define WIDTH 9

struct place {
    bool is_free, is_end;
    double x, y;
};

/* Whether [first, first + count) of the row would be allowed by the rule. */
static bool
rule_allows(const struct place *row, int first, int count)
{
    uint8_t seats[WIDTH];

    for (int i = 0; i < WIDTH; i++)
        seats[i] = (uint8_t)((row[i].is_free ? 0 : SEATING_TAKEN) |
                             (i >= first && i < first + count ? SEATING_CHOSEN : 0) |
                             (row[i].is_end ? SEATING_BREAK : 0));
    return seating_left_alone(seats, WIDTH, NULL, 0) == 0;
}

static bool
is_place(const struct place *row, int first, int count, bool no_gap)
{
    for (int i = first; i < first + count; i++)
        if (i >= WIDTH || !row[i].is_free || (row[i].is_end && i + 1 < first + count))
            return false;
    return !no_gap || rule_allows(row, first, count);
}

static double
mean(const struct place *row, int first, int count)
{
    double sum = 0;
    for (int i = first; i < first + count; i++)
        sum += hypot(row[i].x - WIDTH / 2.0 - 0.5, row[i].y);
    return sum / count;
}

/* Takes the best place and writes its first seat. False: there is none. */
static bool
take_best(struct place rows[ROWS][WIDTH], int count, bool no_gap, char *first_seat)
{
    int best_row = -1, best_first = 0;
    double best = INFINITY;

    for (int row = 0; row < ROWS; row++) {
        for (int first = 0; first < WIDTH; first++) {
            if (!is_place(rows[row], first, count, no_gap) ||
                mean(rows[row], first, count) >= best - 1e-9)
                continue;
            best = mean(rows[row], first, count);
            best_row = row;
            best_first = first;
        }
    }
    if (best_row < 0)
        return false;
    for (int i = 0; i < count; i++)
        rows[best_row][best_first + i].is_free = false;
    sprintf(first_seat, "%c-%d", 'A' + best_row, best_first + 1);
    return true;
}

static void
make_hall(struct theatre *theatre, struct place rows[ROWS][WIDTH])
{
    for (int row = 0; row < ROWS; row++) {
        char name[2] = { (char)('A' + row), '\0' };
        for (int i = 0; i < WIDTH; i++) {
            char x[24], y[24];
            bool is_aisle = rand() % 6 == 0;
            rows[row][i] =
                (struct place){ rand() % 8 != 0, is_aisle || i + 1 == WIDTH, i + 1.0, row * 1.3 };
            snprintf(x, sizeof(x), "%d", i + 1);
            snprintf(y, sizeof(y), "%.1f", row * 1.3);
            add(theatre, name, i + 1, x, y,
                rows[row][i].is_free ? (is_aisle ? "a" : "") : (is_aisle ? "ha" : "h"));
        }
    }
}

static void
halls_at_random_are_sold_as_we_reckon(void **state)
{
    for (unsigned seed = 0; seed < 100; seed++) {
        struct place rows[ROWS][WIDTH];
        bool no_gap = seed % 2 != 0;
        void *made;
        srand(seed);
        set_up(&made);
        struct theatre *theatre = made;
        make_hall(theatre, rows);
        load(theatre);
        for (int i = 0; i < ROWS * WIDTH; i++) {
            struct seat_wish wished = wish(1 + rand() % 4);
            char expected[16];
            wished.no_gap = no_gap;
            enum seat_choice choice = ask(theatre, &wished);
            bool is_there = take_best(rows, wished.quantity, no_gap, expected);
            assert_int_equal(choice == SEAT_CHOICE_MADE, is_there);
            if (is_there)
                assert_string_equal(theatre->chosen[0], expected);
            for (int s = 0; is_there && s < wished.quantity; s++) {
                becomes(theatre, theatre->chosen[s], SEAT_SOLD, 2);
            }
            if (is_there)
                seat_maps_give_back(theatre->maps, org, event, theatre->chosen, wished.quantity,
                                    false);
        }
        tear_down(&made);
    }
    (void)state;
}

/* --- beside others
 * ------------------------------------------------------------------------------------ */

static bool
    are_evicted; /* others put their windows in the places of ours, as soon as they are there */

void __real_choices_take_windows(struct choices *choices, const struct layout *layout,
                                 struct new_windows *made);
void __wrap_choices_take_windows(struct choices *choices, const struct layout *layout,
                                 struct new_windows *made);

void
__wrap_choices_take_windows(struct choices *choices, const struct layout *layout,
                            struct new_windows *made)
{
    if (are_evicted)
        free(made->starts);
    else
        __real_choices_take_windows(choices, layout, made);
}

static void
whose_windows_never_stay_comes_again_later(void **state)
{
    struct theatre *theatre = *state;

    add_row(theatre, "A", "...");
    load(theatre);
    are_evicted = true;
    assert_string_equal(choose(theatre, 2), "later");
    are_evicted = false;
    assert_string_equal(choose(theatre, 2), "A-1 A-2");
}

/* --- what it costs
 * ------------------------------------------------------------------------------------ */

#define MANY        12000

#define ROW_OF_MANY 300

/* One row is whole, the others have no places for more than fifty. */
static void
add_broken_rows(struct theatre *theatre)
{
    char row[16];

    for (int i = 0; i < MANY; i++) {
        int number = i % ROW_OF_MANY + 1;
        snprintf(row, sizeof(row), "%d", i / ROW_OF_MANY);
        add(theatre, row, number, NULL, NULL, i >= ROW_OF_MANY && number % 51 == 0 ? "h" : "");
    }
}

static uint64_t
looks(struct theatre *theatre)
{
    struct event_map *map = event_map_find(theatre->maps, org, event, FIND_THERE);
    lock_take(&map->lock);
    uint64_t count = map->state.choices == NULL ? 0 : choices_looks(map->state.choices);
    lock_drop(&map->lock);
    event_map_put(map);
    return count;
}

/* Many others wait for the map's lock meanwhile. */
static void
a_large_party_that_fits_nowhere_is_not_cut_in_two_for_ever(void **state)
{
    struct theatre *theatre = *state;
    struct seat_wish party = wish(400);

    add_broken_rows(theatre);
    load(theatre);
    party.adjacent = false;
    assert_int_equal(ask(theatre, &party), SEAT_CHOICE_MADE);
    uint64_t before = looks(theatre);
    seat_maps_give_back(theatre->maps, org, event, theatre->chosen, 400, false);
    assert_int_equal(ask(theatre, &party), SEAT_CHOICE_MADE);
    print_message("%d windows looked at\n", (int)(looks(theatre) - before));
    assert_true(looks(theatre) - before < 60000);
}

static void
a_choice_costs_a_few_bytes_a_seat(void **state)
{
    struct theatre *theatre = *state;
    char row[16], x[16], y[16];

    for (int i = 0; i < MANY; i++) {
        snprintf(row, sizeof(row), "%d", i / 40);
        snprintf(x, sizeof(x), "%d", i % 40);
        snprintf(y, sizeof(y), "%d", i / 40);
        add(theatre, row, i % 40 + 1, x, y, "");
    }
    load(theatre);
    size_t before = mallinfo2().uordblks;
    for (int quantity = 1; quantity <= 4; quantity++)
        assert_int_equal(ask(theatre, &(struct seat_wish[]){ wish(quantity) }[0]),
                         SEAT_CHOICE_MADE);
    size_t bytes = mallinfo2().uordblks - before;
    print_message("%.2f bytes a seat for four numbers of seats\n", (double)bytes / MANY);
    assert_true(bytes < 18 * MANY);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_map_is_loaded_by_the_first_who_needs_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_is_said_of_a_map_that_missed_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(while_a_map_is_read_again_the_old_one_does_for_a_yes,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(seats_that_were_added_are_read_before_anything_is_chosen,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_under_way_is_not_chosen_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_taken_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_somebody_was_in_the_way_of_is_left_for_a_moment,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(holds_that_are_over_are_free, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_denied_while_a_hold_may_be_over, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nobody_sits_across_an_aisle_a_break_or_a_removed_seat,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(wishes_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(in_as_few_groups_as_there_are, set_up, tear_down),
        cmocka_unit_test_setup_teardown(after_a_loss_one_of_the_good_ones_by_chance, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_gap_but_where_it_cannot_be_helped, set_up, tear_down),
        cmocka_unit_test(halls_at_random_are_sold_as_we_reckon),
        cmocka_unit_test_setup_teardown(whose_windows_never_stay_comes_again_later, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_large_party_that_fits_nowhere_is_not_cut_in_two_for_ever,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_choice_costs_a_few_bytes_a_seat, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
