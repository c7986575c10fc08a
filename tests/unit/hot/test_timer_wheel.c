/* The wheel alone: when timers fire, whatever the clock does. */
#include "hot_fixture.h"
#include "timer_wheel.h"

#define TICK TIMER_TICK_US
#define MANY 3000

static struct timer_wheel *
wheel_at(int64_t us)
{
    struct timer_wheel *wheel = malloc(sizeof(*wheel));
    assert_non_null(wheel);
    timer_wheel_init(wheel);
    assert_true(timer_wheel_turn(wheel, db_at(us), 10));
    return wheel;
}

/* Turns in small pieces, pops all; returns how many were due, and checks that none was early. */
static int
fired(struct timer_wheel *wheel, struct db_time now)
{
    int count = 0;
    bool there = false;
    while (!there) {
        there = timer_wheel_turn(wheel, now, 3);
        struct timer_node *node;
        while ((node = timer_wheel_pop(wheel)) != NULL) {
            assert_true(node->at.us <= now.us);
            count++;
        }
    }
    timer_wheel_validate(wheel);
    return count;
}

static void
wheel_fires_at_deadline_not_before(void **state)
{
    (void)state;
    /* Around every edge of the first levels, and within a tick. */
    const int64_t spans[] = {
        1,         TICK - 1,           TICK,           TICK + 1,     63 * TICK, 64 * TICK,
        65 * TICK, 64 * 64 * TICK - 1, 64 * 64 * TICK, 900 * SECOND, DAY,       400 * DAY
    };
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        struct timer_wheel *wheel = wheel_at(7 * MS);
        struct timer_node node;
        timer_wheel_arm(wheel, &node, db_at(7 * MS + spans[i]));
        timer_wheel_validate(wheel);
        assert_int_equal(fired(wheel, db_at(7 * MS + spans[i] - 1)), 0);
        assert_int_equal(wheel->armed, 1);
        assert_int_equal(fired(wheel, db_at(7 * MS + spans[i] + TICK)), 1);
        assert_int_equal(wheel->armed, 0);
        free(wheel);
    }
}

static void
wheel_cascades_level_by_level(void **state)
{
    (void)state;
    struct timer_wheel *wheel = wheel_at(0);
    struct timer_node node;
    timer_wheel_arm(wheel, &node, db_at(3 * HOUR + 5 * MS));
    for (int64_t us = 0; us < 3 * HOUR; us += 700 * MS) {
        assert_int_equal(fired(wheel, db_at(us)), 0);
    }
    assert_int_equal(fired(wheel, db_at(3 * HOUR + 15 * MS)), 1);
    free(wheel);
}

static void
wheel_goes_on_after_the_first_level_wrapped_around(void **state)
{
    (void)state;
    struct timer_wheel *wheel = wheel_at(0);
    int64_t next_us = 0;
    struct timer_node node;
    for (int turn = 0; turn < 1000; turn++) {
        next_us += 63 * TICK;
        timer_wheel_arm(wheel, &node, db_at(next_us));
        assert_int_equal(fired(wheel, db_at(next_us - TICK)), 0);
        assert_int_equal(fired(wheel, db_at(next_us + TICK - 1)), 1);
    }
    free(wheel);
}

static void
wheel_jumps_over_several_turns_at_once(void **state)
{
    (void)state;
    struct timer_wheel *wheel = wheel_at(0);
    struct timer_node nodes[200];
    for (int i = 0; i < 200; i++) {
        timer_wheel_arm(wheel, &nodes[i], db_at(i * 13 * SECOND));
    }
    /* 650 turns of the first level, ten of the second; the first 100 are due. */
    assert_int_equal(fired(wheel, db_at(99 * 13 * SECOND + TICK)), 100);
    assert_int_equal(fired(wheel, db_at(500 * DAY)), 100);
    free(wheel);
}

static void
wheel_crosses_years_of_empty_slots_in_a_few_steps(void **state)
{
    (void)state;
    struct timer_wheel *wheel = wheel_at(0);
    struct timer_node node;
    timer_wheel_arm(wheel, &node, db_at(300 * 365 * DAY));
    assert_true(timer_wheel_turn(wheel, db_at(299 * 365 * DAY), 2 * TIMER_LEVELS));
    assert_null(timer_wheel_pop(wheel));
    assert_true(timer_wheel_turn(wheel, db_at(301 * 365 * DAY), 4 * TIMER_LEVELS));
    assert_ptr_equal(timer_wheel_pop(wheel), &node);
    free(wheel);
}

static void
wheel_takes_the_farthest_time_there_is(void **state)
{
    (void)state;
    struct timer_wheel *wheel = wheel_at(0);
    struct timer_node far, lowest;
    assert_int_equal(fired(wheel, db_at(-SECOND)), 0); /* so that a sum would overflow */
    timer_wheel_arm(wheel, &far, (struct db_time){ INT64_MAX });
    timer_wheel_arm(wheel, &lowest, (struct db_time){ INT64_MIN });
    timer_wheel_validate(wheel);
    assert_int_equal(fired(wheel, db_at(TICK)), 1);
    assert_int_equal(wheel->armed, 1);
    timer_wheel_disarm(wheel, &far);
    timer_wheel_validate(wheel);
    free(wheel);
}

static void
wheel_armed_before_its_first_turn_fires_in_time(void **state)
{
    (void)state;
    struct timer_wheel *wheel = malloc(sizeof(*wheel));
    assert_non_null(wheel);
    timer_wheel_init(wheel);
    struct timer_node node;
    timer_wheel_arm(wheel, &node, db_at(SECOND));
    assert_int_equal(fired(wheel, db_at(SECOND - 1)), 0);
    assert_int_equal(fired(wheel, db_at(SECOND + TICK)), 1);
    free(wheel);
}

static void
wheel_armed_for_a_past_time_fires_with_the_next_tick(void **state)
{
    (void)state;
    struct timer_wheel *wheel = wheel_at(HOUR);
    struct timer_node node;
    timer_wheel_arm(wheel, &node, db_at(0));
    assert_int_equal(fired(wheel, db_at(HOUR)), 0); /* not for ever in the same tick */
    assert_int_equal(fired(wheel, db_at(HOUR + TICK)), 1);
    free(wheel);
}

static void
wheel_rearmed_while_it_turns_fires_again_later_not_in_the_same_turn(void **state)
{
    (void)state;
    struct timer_wheel *wheel = wheel_at(0);
    struct timer_node nodes[3];
    for (int i = 0; i < 3; i++) {
        timer_wheel_arm(wheel, &nodes[i], db_at(SECOND));
    }
    struct db_time now = db_at(SECOND + TICK);
    bool there = false;
    int count = 0;
    while (!there) {
        there = timer_wheel_turn(wheel, now, 1);
        struct timer_node *node;
        while ((node = timer_wheel_pop(wheel)) != NULL) {
            count++;
            timer_wheel_arm(wheel, node, count == 1 ? now : db_at(2 * SECOND));
            timer_wheel_validate(wheel);
        }
    }
    assert_int_equal(count, 3);
    assert_int_equal(fired(wheel, db_at(SECOND + 2 * TICK)), 1);
    assert_int_equal(fired(wheel, db_at(2 * SECOND - 1)), 0);
    assert_int_equal(fired(wheel, db_at(2 * SECOND + TICK)), 2);
    free(wheel);
}

static void
wheel_whose_clock_was_set_back_waits_for_the_time_itself(void **state)
{
    (void)state;
    struct timer_wheel *wheel = wheel_at(HOUR);
    struct timer_node before, after;
    timer_wheel_arm(wheel, &before, db_at(HOUR + 10 * SECOND));
    assert_int_equal(fired(wheel, db_at(HOUR + 9 * SECOND)), 0);
    assert_int_equal(fired(wheel, db_at(0)), 0);
    timer_wheel_arm(wheel, &after, db_at(5 * SECOND));
    assert_int_equal(fired(wheel, db_at(5 * SECOND - 1)), 0);
    assert_int_equal(fired(wheel, db_at(5 * SECOND + TICK)), 1);
    for (int64_t us = 6 * SECOND; us < HOUR + 10 * SECOND; us += 17 * SECOND) {
        assert_int_equal(fired(wheel, db_at(us)), 0);
    }
    assert_int_equal(fired(wheel, db_at(HOUR + 10 * SECOND + TICK)), 1);
    free(wheel);
}

static void
wheel_whose_clock_was_set_forward_again_fires_in_time(void **state)
{
    (void)state;
    struct timer_wheel *wheel = wheel_at(HOUR);
    struct timer_node node;
    timer_wheel_arm(wheel, &node, db_at(HOUR + 10 * SECOND));
    assert_int_equal(fired(wheel, db_at(0)), 0);
    assert_int_equal(fired(wheel, db_at(HOUR)), 0);
    assert_int_equal(fired(wheel, db_at(HOUR + 10 * SECOND - 1)), 0);
    assert_int_equal(fired(wheel, db_at(HOUR + 10 * SECOND + TICK)), 1);
    free(wheel);
}

static void
wheel_takes_back_what_was_due_when_the_clock_is_set_back(void **state)
{
    (void)state;
    struct timer_wheel *wheel = wheel_at(0);
    struct timer_node nodes[2];
    timer_wheel_arm(wheel, &nodes[0], db_at(SECOND));
    timer_wheel_arm(wheel, &nodes[1], db_at(SECOND));
    assert_true(timer_wheel_turn(wheel, db_at(SECOND + TICK), 100));
    assert_non_null(timer_wheel_pop(wheel));
    assert_int_equal(fired(wheel, db_at(SECOND - 1)), 0);
    assert_int_equal(wheel->armed, 1);
    assert_int_equal(fired(wheel, db_at(SECOND + TICK)), 1);
    free(wheel);
}

static void
wheel_disarms_in_every_state(void **state)
{
    (void)state;
    struct timer_wheel *wheel = wheel_at(0);
    struct timer_node nodes[4];
    for (int i = 0; i < 4; i++) {
        timer_wheel_arm(wheel, &nodes[i], db_at(50 * SECOND));
    }
    timer_wheel_disarm(wheel, &nodes[0]); /* in a slot */
    timer_wheel_validate(wheel);
    /* Reaches the slot and moves one of three down: two are on their way. */
    assert_false(timer_wheel_turn(wheel, db_at(51 * SECOND), 2));
    timer_wheel_disarm(wheel, &nodes[3]); /* on its way */
    timer_wheel_validate(wheel);
    assert_true(timer_wheel_turn(wheel, db_at(51 * SECOND), 100));
    timer_wheel_disarm(wheel, &nodes[1]); /* due */
    timer_wheel_validate(wheel);
    assert_ptr_equal(timer_wheel_pop(wheel), &nodes[2]);
    assert_null(timer_wheel_pop(wheel));
    assert_int_equal(wheel->armed, 0);
    free(wheel);
}

static void
wheel_does_no_more_steps_than_it_may(void **state)
{
    (void)state;
    struct timer_wheel *wheel = wheel_at(0);
    struct timer_node *nodes = calloc(MANY, sizeof(*nodes));
    assert_non_null(nodes);
    for (int i = 0; i < MANY; i++) {
        timer_wheel_arm(wheel, &nodes[i], db_at(900 * SECOND));
    }
    int calls = 1;
    while (!timer_wheel_turn(wheel, db_at(901 * SECOND), 100)) {
        calls++;
    }
    assert_in_range(calls, MANY / 100, MANY / 100 * TIMER_LEVELS);
    int count = 0;
    while (timer_wheel_pop(wheel) != NULL) {
        count++;
    }
    assert_int_equal(count, MANY);
    free(nodes);
    free(wheel);
}

/* A naive wheel: every timer is looked at each time. */
static void
wheel_does_what_a_naive_one_does(void **state)
{
    (void)state;
    enum { NODES = 64, ROUNDS = 30000 };
    uint64_t seed = seed_printed("wheel_does_what_a_naive_one_does");
    struct timer_wheel *wheel = wheel_at(0);
    struct timer_node nodes[NODES];
    bool armed[NODES] = { false };
    int64_t armed_at[NODES] = { 0 }; /* on the axis that never goes back */
    int64_t now_us = 0, axis_us = 0;
    const int64_t spans[] = { TICK, SECOND, 50 * SECOND, HOUR, 10 * DAY, 4000 * DAY };

    for (int round = 0; round < ROUNDS; round++) {
        int i = (int)random_below(&seed, NODES);
        if (armed[i]) {
            if (random_below(&seed, 4) == 0) {
                timer_wheel_disarm(wheel, &nodes[i]);
                armed[i] = false;
            }
        } else {
            int64_t span = spans[random_below(&seed, 6)];
            timer_wheel_arm(wheel, &nodes[i],
                            db_at(now_us + random_below(&seed, span * 2) - span / 4));
            armed[i] = true;
            armed_at[i] = axis_us;
        }
        int64_t step_us = random_below(&seed, spans[random_below(&seed, 4)]);
        if (random_below(&seed, 20) == 0) {
            now_us -= step_us;
        } else {
            now_us += step_us;
            axis_us += step_us;
        }
        bool there = false;
        while (!there) {
            there = timer_wheel_turn(wheel, db_at(now_us), 1 + (int)random_below(&seed, 8));
            struct timer_node *node;
            while ((node = timer_wheel_pop(wheel)) != NULL) {
                assert_true(armed[node - nodes]);
                assert_true(node->at.us <= db_at(now_us).us);
                armed[node - nodes] = false;
            }
        }
        timer_wheel_validate(wheel);
        for (int n = 0; n < NODES; n++) {
            bool overdue = armed[n] && nodes[n].at.us + TICK <= db_at(now_us).us &&
                           armed_at[n] + TICK <= axis_us;
            assert_false(overdue);
        }
    }
    free(wheel);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wheel_fires_at_deadline_not_before),
        cmocka_unit_test(wheel_cascades_level_by_level),
        cmocka_unit_test(wheel_goes_on_after_the_first_level_wrapped_around),
        cmocka_unit_test(wheel_jumps_over_several_turns_at_once),
        cmocka_unit_test(wheel_crosses_years_of_empty_slots_in_a_few_steps),
        cmocka_unit_test(wheel_takes_the_farthest_time_there_is),
        cmocka_unit_test(wheel_armed_before_its_first_turn_fires_in_time),
        cmocka_unit_test(wheel_armed_for_a_past_time_fires_with_the_next_tick),
        cmocka_unit_test(wheel_rearmed_while_it_turns_fires_again_later_not_in_the_same_turn),
        cmocka_unit_test(wheel_whose_clock_was_set_back_waits_for_the_time_itself),
        cmocka_unit_test(wheel_whose_clock_was_set_forward_again_fires_in_time),
        cmocka_unit_test(wheel_takes_back_what_was_due_when_the_clock_is_set_back),
        cmocka_unit_test(wheel_disarms_in_every_state),
        cmocka_unit_test(wheel_does_no_more_steps_than_it_may),
        cmocka_unit_test(wheel_does_what_a_naive_one_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
