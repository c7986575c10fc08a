/*
 * The counts that a map keeps, against a walk over all its seats: after any changes in any order,
 * after readings of the same seats and of others, and as time ends holds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake_rows.h"
#include "map_internal.h"
#include "map_rows.h"

#define NOW   1000000000000LL
#define SEATS 300
#define AREAS 3

static const struct slice org = { "acme", 4 };
static const struct slice event = { "E1", 2 };

/* What Postgres has. */
struct seat_row {
    bool is_there;
    enum seat_status status;
    int64_t version, until_us;
    bool in_payment;
};
struct world {
    struct seat_maps *maps;
    unsigned seed;
    int64_t now_us;
    struct seat_row seats[SEATS];
    int64_t capacity[AREAS], held[AREAS], sold[AREAS], version[AREAS];
};

static unsigned
chance(struct world *world, unsigned below)
{
    world->seed = world->seed * 1103515245 + 12345;
    return (world->seed >> 8) % below;
}

static void
number_text(char text[24], int64_t number)
{
    snprintf(text, 24, "%lld", (long long)number);
}

static struct pg_result *
seat_rows(const struct world *world)
{
    struct pg_result *rows = rows_new(SEAT_COLUMNS);

    for (int i = 0; i < SEATS; i++) {
        const struct seat_row *seat = &world->seats[i];
        char id[24], number[24], version[24], until[24];
        if (!seat->is_there)
            continue;
        snprintf(id, sizeof(id), "S%d", i);
        number_text(number, i);
        number_text(version, seat->version);
        number_text(until, seat->until_us);
        rows_add(rows, id, "main", "A", number, NULL, NULL, NULL, NULL,
                 seat_status_word(seat->status), seat->in_payment ? "t" : "f", version,
                 seat->status == SEAT_HELD ? until : NULL, "f", "f", NULL, NULL, NULL);
    }
    return rows;
}

static struct pg_result *
area_rows(const struct world *world)
{
    struct pg_result *rows = rows_new(AREA_COLUMNS);

    for (int i = 0; i < AREAS; i++) {
        char id[24], capacity[24], held[24], sold[24], version[24];
        snprintf(id, sizeof(id), "area%d", i);
        number_text(capacity, world->capacity[i]);
        number_text(held, world->held[i]);
        number_text(sold, world->sold[i]);
        number_text(version, world->version[i]);
        rows_add(rows, id, id, capacity, held, sold, NULL, version);
    }
    return rows;
}

static void
load(struct world *world)
{
    struct pg_result *seats = seat_rows(world);
    struct pg_result *areas = area_rows(world);
    struct seat_map_request wish = { .org = org, .event = event, .now = { world->now_us } };
    struct seat_map_reply reply;
    struct seat_map_reading reading = { .began = mono_now() };

    wish.may_render = true;
    wish.fresh_since = reading.began;
    assert_int_equal(seat_maps_get(world->maps, &wish, &reply), SEAT_MAP_LOAD);
    do {
        reading.began = mono_now();
    } while (reading.began.us <= wish.fresh_since.us);
    assert_true(seat_maps_load(world->maps, org, event, seats, areas, &reading));
    pg_result_free(&seats);
    pg_result_free(&areas);
}

static void
change_seat(struct world *world, int i)
{
    static const enum seat_status statuses[] = { SEAT_AVAILABLE, SEAT_HELD, SEAT_HELD,
                                                 SEAT_HELD,      SEAT_SOLD, SEAT_BLOCKED,
                                                 SEAT_REMOVED };
    struct seat_row *seat = &world->seats[i];

    seat->status = statuses[chance(world, 7)];
    seat->version++;
    seat->in_payment = seat->status == SEAT_HELD && chance(world, 4) == 0;
    seat->until_us =
        seat->status == SEAT_HELD ? world->now_us + chance(world, 40) * TIME_US_PER_S : 0;
}

static void
tell_seat(struct world *world, int i)
{
    const struct seat_row *seat = &world->seats[i];
    struct feed_mark from = { 1, 1 };
    char id[24];

    snprintf(id, sizeof(id), "S%d", i);
    struct feed_change change = { .kind = FEED_SEAT,
                                  .status = seat->status,
                                  .in_payment = seat->in_payment,
                                  .org = org,
                                  .event = event,
                                  .item = slice_of(id),
                                  .version = seat->version,
                                  .held_until = { seat->until_us } };
    seat_maps_take(world->maps, &change, from, NULL);
}

static void
change_area(struct world *world)
{
    int i = (int)chance(world, AREAS);
    char id[24];

    world->held[i] = chance(world, 50);
    world->sold[i] = chance(world, 50);
    world->version[i]++;
    snprintf(id, sizeof(id), "area%d", i);
    struct feed_change change = { .kind = FEED_AREA,
                                  .org = org,
                                  .event = event,
                                  .item = slice_of(id),
                                  .version = world->version[i],
                                  .held = world->held[i],
                                  .sold = world->sold[i] };
    seat_maps_take(world->maps, &change, (struct feed_mark){ 1, 1 }, NULL);
}

/* The walk. */
static struct seat_map_counts
recount(const struct world *world)
{
    struct seat_map_counts counts = { 0 };

    for (int i = 0; i < SEATS; i++) {
        const struct seat_row *seat = &world->seats[i];
        if (!seat->is_there || seat->status == SEAT_REMOVED)
            continue;
        counts.total++;
        counts.sold += seat->status == SEAT_SOLD;
        counts.blocked += seat->status == SEAT_BLOCKED;
        counts.held +=
            seat->status == SEAT_HELD && (seat->in_payment || seat->until_us > world->now_us);
    }
    for (int i = 0; i < AREAS; i++) {
        counts.total += world->capacity[i];
        counts.area_held += world->held[i];
        counts.sold += world->sold[i];
    }
    counts.held += counts.area_held;
    counts.available = counts.total - counts.held - counts.sold - counts.blocked;
    return counts;
}

static void
check(struct world *world)
{
    struct seat_map_counts counts;
    struct seat_map_counts true_ones = recount(world);

    assert_true(
        seat_maps_count(world->maps, org, event, (struct db_time){ world->now_us }, &counts));
    assert_int_equal(counts.total, true_ones.total);
    assert_int_equal(counts.held, true_ones.held);
    assert_int_equal(counts.sold, true_ones.sold);
    assert_int_equal(counts.blocked, true_ones.blocked);
    assert_int_equal(counts.available, true_ones.available);
    assert_int_equal(counts.area_held, true_ones.area_held);
}

static int
set_up(void **state)
{
    struct world *world = calloc(1, sizeof(*world));

    world->maps = seat_maps_new(2);
    world->now_us = NOW;
    for (int i = 0; i < SEATS; i++) {
        world->seats[i].is_there = i < SEATS - 20;
        world->seats[i].status = SEAT_AVAILABLE;
    }
    for (int i = 0; i < AREAS; i++)
        world->capacity[i] = 100;
    *state = world;
    return 0;
}

static int
tear_down(void **state)
{
    struct world *world = *state;

    seat_maps_free(&world->maps);
    free(world);
    return 0;
}

static void
counts_are_those_of_a_walk_whatever_happens(void **state)
{
    struct world *world = *state;

    for (unsigned seed = 1; seed <= 20; seed++) {
        world->seed = seed;
        load(world);
        for (int step = 0; step < 2000; step++) {
            int i = (int)chance(world, SEATS - 20);
            change_seat(world, i);
            tell_seat(world, i);
            if (chance(world, 3) == 0)
                change_area(world);
            if (chance(world, 5) == 0)
                world->now_us += chance(world, 3000) * TIME_US_PER_MS;
            if (chance(world, 4) == 0)
                check(world);
        }
        check(world);
    }
}

static void
counts_follow_readings_of_what_no_record_told(void **state)
{
    struct world *world = *state;

    for (unsigned seed = 1; seed <= 20; seed++) {
        world->seed = seed;
        load(world);
        for (int i = 0; i < SEATS - 20; i++) {
            change_seat(world, i);
            if (chance(world, 2) == 0)
                tell_seat(world, i);
        }
        load(world);
        check(world);
        world->now_us += 20 * (int64_t)TIME_US_PER_S;
        check(world);
    }
}

static void
counts_follow_seats_that_were_added_and_capacities_that_were_changed(void **state)
{
    struct world *world = *state;

    load(world);
    for (int i = 0; i < SEATS - 20; i++) {
        change_seat(world, i);
        tell_seat(world, i);
    }
    check(world);
    for (int more = SEATS - 20; more < SEATS; more++) {
        world->seats[more].is_there = true;
        change_seat(world, more);
        world->capacity[0] += 10;
        world->version[0]++;
        load(world);
        check(world);
        world->now_us += 2 * (int64_t)TIME_US_PER_S;
        check(world);
    }
}

static void
a_hold_whose_end_moved_counts_until_the_new_one(void **state)
{
    struct world *world = *state;
    struct seat_row *seat = &world->seats[7];

    load(world);
    *seat = (struct seat_row){ true, SEAT_HELD, 1, NOW + TIME_US_PER_S, false };
    tell_seat(world, 7);
    *seat = (struct seat_row){ true, SEAT_HELD, 2, NOW + 3 * TIME_US_PER_S, false };
    tell_seat(world, 7);
    world->now_us = NOW + 2 * TIME_US_PER_S;
    assert_int_equal(recount(world).held, 1);
    check(world);
    world->now_us = NOW + 3 * TIME_US_PER_S;
    assert_int_equal(recount(world).held, 0);
    check(world);
    *seat = (struct seat_row){ true, SEAT_HELD, 3, NOW + 3 * TIME_US_PER_S, true };
    tell_seat(world, 7); /* in payment it doesn't end */
    assert_int_equal(recount(world).held, 1);
    check(world);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(counts_are_those_of_a_walk_whatever_happens),
        CASE(counts_follow_readings_of_what_no_record_told),
        CASE(counts_follow_seats_that_were_added_and_capacities_that_were_changed),
        CASE(a_hold_whose_end_moved_counts_until_the_new_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
