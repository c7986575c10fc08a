/* Best seats before a transaction: who reads the map, and as what the op goes on then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine_internal.h"
#include "fake_rows.h"
#include "map_rows.h"

#define TIMEOUT_US (60 * (int64_t)TIME_US_PER_S)

static struct config config;
static struct node node;
static struct engine engine;
static struct worker worker;
static struct op op;
static struct op_best best;

static int
set_up(void **state)
{
    (void)state;
    struct hot_table_limits limits = { .shards = 1, .seats_max = 10, .parked_max = 10 };
    config = (struct config){ .request_timeout = TIMEOUT_US };
    node = (struct node){ .config = &config,
                          .hot = hot_table_new(&limits),
                          .maps = seat_maps_new(1),
                          .clock = db_clock_new() };
    seat_maps_set_trusted(node.maps, true);
    engine = (struct engine){ .node = &node, .queue = op_queue_new(10) };
    worker = (struct worker){ .engine = &engine, .node = &node, .random = 1 };
    best = (struct op_best){
        .quantity = 1, .adjacent = true, .price_min = INT64_MIN, .price_max = INT64_MAX
    };
    op = (struct op){ .kind = OP_HOLD,
                      .org = slice_of("acme"),
                      .event = slice_of("E1"),
                      .best = &best,
                      .received = mono_now() };
    op.deadline.us = op.received.us + TIMEOUT_US;
    return node.hot == NULL || node.maps == NULL || node.clock == NULL || engine.queue == NULL;
}

static int
tear_down(void **state)
{
    (void)state;
    struct waiter_list waiters;

    waiter_list_init(&waiters);
    claims_drop(&engine, &op, &waiters);
    arena_fini(&op.arena);
    op_queue_free(&engine.queue);
    hot_table_free(&node.hot);
    seat_maps_free(&node.maps);
    db_clock_free(&node.clock);
    return 0;
}

/* Another worker reads the map: it has one free seat. */
static void
load_map(void)
{
    struct pg_result *seats = rows_new(SEAT_COLUMNS), *areas = rows_new(AREA_COLUMNS);
    struct mono_time before = mono_now();

    rows_add(seats, "A-1", "main", "A", "1", NULL, NULL, NULL, NULL, "available", "f", "1", NULL,
             "f", "f", NULL, NULL, NULL);
    while (mono_now().us <= before.us + 1)
        continue;
    struct seat_map_reading reading = { .began = mono_now() };
    assert_true(seat_maps_load(node.maps, op.org, op.event, seats, areas, &reading));
    pg_result_free(&seats);
    pg_result_free(&areas);
}

static void
who_need_not_read_the_map_any_more_goes_with_the_others(void **state)
{
    (void)state;
    assert_int_equal(best_prepare(&worker, &op, false), BEST_BACK);
    assert_true(op.solo); /* it is to read the map, alone */
    load_map();
    assert_int_equal(best_prepare(&worker, &op, true), BEST_READY);
    assert_int_equal(op.seat_count, 1);
    assert_false(op.solo);
    assert_false(best.is_reader);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_need_not_read_the_map_any_more_goes_with_the_others,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
