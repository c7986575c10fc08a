/* Copies of a map: what they say of each seat, whose it is, and when they are still true. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fake_rows.h"
#include "holdfast/http.h"
#include "map_internal.h"
#include "map_rows.h"

#define NOW 1000000000000LL
static const struct slice org = { "acme", 4 };
static const struct slice event = { "FL-1", 4 };

struct house {
    struct seat_maps *maps;
    struct pg_result *seats, *areas;
};

static int
set_up(void **state)
{
    struct house *house = calloc(1, sizeof(*house));
    house->maps = seat_maps_new(2);
    house->seats = rows_new(SEAT_COLUMNS);
    house->areas = rows_new(AREA_COLUMNS);
    *state = house;
    return 0;
}

static int
tear_down(void **state)
{
    struct house *house = *state;
    seat_maps_free(&house->maps);
    pg_result_free(&house->seats);
    pg_result_free(&house->areas);
    free(house);
    return 0;
}

static void
add(struct house *house, const char *id, const char *row, const char *status, const char *until,
    const char *user)
{
    rows_add(house->seats, id, "economy", row, "A", NULL, NULL, NULL, NULL, status, "f", "3", until,
             "f", "f", NULL, NULL, user);
}

static enum seat_map_answer
ask(struct house *house, struct seat_map_request request, struct seat_map_reply *reply,
    struct seat_map_copy *copy)
{
    request.org = org;
    request.event = event;
    if (request.now.us == 0)
        request.now.us = NOW;
    return seat_maps_copy(house->maps, &request, reply, copy);
}

static void
load(struct house *house)
{
    struct seat_map_reply reply;
    struct seat_map_copy copy;
    struct mono_time before = mono_now();

    assert_int_equal(ask(house, (struct seat_map_request){ .may_render = true }, &reply, &copy),
                     SEAT_MAP_LOAD);
    while (mono_now().us <= before.us + 1)
        continue;
    struct seat_map_reading reading = { .began = mono_now() };
    assert_true(seat_maps_load(house->maps, org, event, house->seats, house->areas, &reading));
}

static struct seat_map_copy
copy_of(struct house *house, struct seat_map_request request)
{
    struct seat_map_reply reply;
    struct seat_map_copy copy;

    assert_int_equal(ask(house, request, &reply, &copy), SEAT_MAP_BODY);
    return copy;
}

static uint64_t
hash(const char *user)
{
    return hash_seeded(user, strlen(user));
}

static void
change(struct house *house, const char *seat, enum seat_status status, int64_t version,
       const char *user)
{
    struct feed_change change = { .kind = FEED_SEAT,
                                  .status = status,
                                  .org = org,
                                  .event = event,
                                  .item = slice_of(seat),
                                  .version = version,
                                  .user = slice_of(user),
                                  .held_until = { NOW + 1000 } };
    seat_maps_take(house->maps, &change, (struct feed_mark){ 0 }, NULL);
}

/* --- what it says ------------------------------------------------------------- */

static void
seats_stand_by_row_and_number_without_those_that_are_gone(void **state)
{
    struct house *house = *state;
    add(house, "10A", "10", "available", NULL, NULL);
    add(house, "9A", "9", "removed", NULL, NULL);
    add(house, "2A", "2", "blocked", NULL, NULL);
    rows_add(house->seats, "x", "\\\"front\"", "1", "\"B\\", NULL, NULL, NULL, NULL, "available",
             "f", "0", NULL, "f", "f", NULL, NULL, NULL);
    rows_add(house->seats, "y", "wing", "2", "10", NULL, NULL, NULL, NULL, "available", "f", "0",
             NULL, "f", "f", NULL, NULL, NULL);
    load(house);
    struct seat_map_copy copy = copy_of(house, (struct seat_map_request){ 0 });
    const char *ids[] = { "x", "y", "2A", "10A" }; /* numbers stand before letters */
    assert_int_equal(copy.count, 4);
    for (int i = 0; i < 4; i++)
        assert_true(slice_is(copy.seats[i].seat, ids[i]));
    assert_int_equal(copy.seats[2].status, SEAT_BLOCKED);
    assert_int_equal(copy.seats[3].version, 3);
    seat_map_copy_free(&copy);
}

static void
a_seat_says_who_has_it_as_it_was_read(void **state)
{
    struct house *house = *state;
    add(house, "1A", "1", "sold", NULL, "anna");
    add(house, "2A", "2", "held", "1000000000500", "bob");
    add(house, "3A", "3", "available", NULL, NULL);
    load(house);
    struct seat_map_copy copy = copy_of(house, (struct seat_map_request){ 0 });
    assert_true(copy.seats[0].user_hash == hash("anna"));
    assert_true(copy.seats[1].user_hash == hash("bob"));
    assert_int_equal(copy.seats[1].until.us, 1000000000500);
    assert_true(copy.seats[2].user_hash == 0);
    seat_map_copy_free(&copy);
}

static void
a_change_says_who_has_the_seat_now(void **state)
{
    struct house *house = *state;
    add(house, "1A", "1", "available", NULL, NULL);
    load(house);
    change(house, "1A", SEAT_HELD, 4, "anna");
    struct seat_map_copy copy = copy_of(house, (struct seat_map_request){ 0 });
    assert_true(copy.seats[0].user_hash == hash("anna"));
    seat_map_copy_free(&copy);
    change(house, "1A", SEAT_AVAILABLE, 5, "");
    copy = copy_of(house, (struct seat_map_request){ 0 });
    assert_true(copy.seats[0].user_hash == 0);
    seat_map_copy_free(&copy);
}

static void
a_reading_that_came_too_late_leaves_the_owner_as_he_is(void **state)
{
    struct house *house = *state;
    add(house, "1A", "1", "held", "1000000000500", "bob");
    load(house);
    change(house, "1A", SEAT_SOLD, 7, "anna");
    struct mono_time before = mono_now();
    while (mono_now().us <= before.us + 1)
        continue;
    struct seat_map_reading reading = { .began = mono_now() };
    assert_true(seat_maps_load(house->maps, org, event, house->seats, house->areas, &reading));
    struct seat_map_copy copy = copy_of(house, (struct seat_map_request){ 0 });
    assert_int_equal(copy.seats[0].status, SEAT_SOLD);
    assert_true(copy.seats[0].user_hash == hash("anna"));
    seat_map_copy_free(&copy);
}

static void
a_hold_that_is_over_shows_as_available(void **state)
{
    struct house *house = *state;
    add(house, "1A", "1", "held", "1000000000500", "bob");
    load(house);
    struct seat_map_copy copy = copy_of(house, (struct seat_map_request){ .now = { NOW + 1000 } });
    assert_int_equal(copy.seats[0].status, SEAT_AVAILABLE);
    seat_map_copy_free(&copy);
}

static void
ids_stay_while_the_copy_does(void **state)
{
    struct house *house = *state;
    add(house, "1A", "1", "available", NULL, NULL);
    load(house);
    struct seat_map_copy copy = copy_of(house, (struct seat_map_request){ 0 });
    seat_maps_forget(house->maps);
    assert_true(slice_is(copy.seats[0].seat, "1A"));
    seat_map_copy_free(&copy);
}

/* --- tags ----------------------------------------------------------------------- */

static void
what_a_reader_has_is_true_for_that_reader_until_something_changes(void **state)
{
    struct house *house = *state;
    struct seat_map_reply first, again;
    struct seat_map_copy copy;
    add(house, "1A", "1", "available", NULL, NULL);
    load(house);
    assert_int_equal(ask(house, (struct seat_map_request){ .reader = 7 }, &first, &copy),
                     SEAT_MAP_BODY);
    seat_map_copy_free(&copy);
    struct seat_map_request request = { .reader = 7, .if_none_match = slice_of(first.etag) };
    assert_int_equal(ask(house, request, &again, &copy), SEAT_MAP_NOT_MODIFIED);
    request.reader = 8;
    assert_int_equal(ask(house, request, &again, &copy), SEAT_MAP_BODY);
    assert_string_not_equal(first.etag, again.etag);
    seat_map_copy_free(&copy);
    request.reader = 7;
    change(house, "1A", SEAT_HELD, 4, "anna");
    assert_int_equal(ask(house, request, &again, &copy), SEAT_MAP_BODY);
    seat_map_copy_free(&copy);
}

static void
a_house_is_not_copied_on_a_loop(void **state)
{
    struct house *house = *state;
    struct seat_map_reply reply;
    struct seat_map_copy copy;
    for (int i = 0; i < 2000; i++) {
        char id[12];
        snprintf(id, sizeof(id), "%dA", i);
        add(house, id, id, "available", NULL, NULL);
    }
    load(house);
    assert_int_equal(ask(house, (struct seat_map_request){ 0 }, &reply, &copy), SEAT_MAP_RENDER);
    copy = copy_of(house, (struct seat_map_request){ .may_render = true });
    assert_int_equal(copy.count, 2000);
    seat_map_copy_free(&copy);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(seats_stand_by_row_and_number_without_those_that_are_gone),
        TEST(a_seat_says_who_has_it_as_it_was_read),
        TEST(a_change_says_who_has_the_seat_now),
        TEST(a_reading_that_came_too_late_leaves_the_owner_as_he_is),
        TEST(a_hold_that_is_over_shows_as_available),
        TEST(ids_stay_while_the_copy_does),
        TEST(what_a_reader_has_is_true_for_that_reader_until_something_changes),
        TEST(a_house_is_not_copied_on_a_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
