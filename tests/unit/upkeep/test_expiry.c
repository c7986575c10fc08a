/* What of upkeep needs neither engine nor Postgres: one expiry per hold, and the purge's bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "upkeep_internal.h"

static struct hot_due due[DUE_AT_ONCE];
static bool first[DUE_AT_ONCE];

static void
each_hold_is_expired_once_in_a_tick(void **state)
{
    (void)state;
    struct uuid a = uuid_v7_new();
    struct uuid b = uuid_v7_new();
    due[0].hold_id = a;
    due[1].hold_id = b;
    due[2].hold_id = a;
    due[3].hold_id = a;
    expiry_first_of_hold(due, 4, first);
    assert_true(first[0] && first[1]);
    assert_false(first[2] || first[3]);
}

/* Every slot of the table is taken in turn, also when all holds fall on the same one. */
static void
a_full_tick_of_holds_that_collide_is_told_apart(void **state)
{
    (void)state;
    for (int i = 0; i < DUE_AT_ONCE; i++) {
        memset(&due[i].hold_id, 0xFF, sizeof(due[i].hold_id)); /* the last bytes choose the slot */
        due[i].hold_id.bytes[0] = (uint8_t)(i / 2);
        due[i].hold_id.bytes[1] = (uint8_t)(i / 2 >> 8);
    }
    expiry_first_of_hold(due, DUE_AT_ONCE, first);
    for (int i = 0; i < DUE_AT_ONCE; i++)
        assert_int_equal(first[i], i % 2 == 0);
}

static void
nothing_due_is_nothing(void **state)
{
    (void)state;
    expiry_first_of_hold(due, 0, first);
}

static void
the_least_uuid_of_a_time_is_below_all_made_since(void **state)
{
    (void)state;
    struct uuid made = uuid_v7_new();
    uint64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | made.bytes[i];
    struct uuid floor = uuid_v7_floor((struct db_time){ (int64_t)ms * 1000 + 999 });
    struct uuid later = uuid_v7_floor((struct db_time){ (int64_t)(ms + 1) * 1000 });
    assert_true(memcmp(floor.bytes, made.bytes, 16) < 0);
    assert_true(memcmp(later.bytes, made.bytes, 16) > 0);
}

static void
a_time_before_1970_has_the_nil_uuid(void **state)
{
    (void)state;
    struct uuid floor = uuid_v7_floor((struct db_time){ -5 });
    assert_true(uuid_is_nil(&floor));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_hold_is_expired_once_in_a_tick),
        cmocka_unit_test(a_full_tick_of_holds_that_collide_is_told_apart),
        cmocka_unit_test(nothing_due_is_nothing),
        cmocka_unit_test(the_least_uuid_of_a_time_is_below_all_made_since),
        cmocka_unit_test(a_time_before_1970_has_the_nil_uuid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
