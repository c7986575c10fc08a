/* Every key has its event's hash tag. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "warm_internal.h"

#define ORG   SLICE_LITERAL("acme")
#define EVENT SLICE_LITERAL("show-1")
#define TAG   "holdfast:{org:acme:event:show-1}"

static void
keys_are_built_as_the_contract_has_them(void **state)
{
    (void)state;
    struct buf key = { 0 };
    struct uuid id;
    assert_true(uuid_parse(SLICE_LITERAL("01890000-0000-7000-8000-000000000001"), &id));

    warm_key_seat(&key, ORG, EVENT, SLICE_LITERAL("12A"));
    assert_string_equal(key.data, TAG ":seat:12A");
    buf_clear(&key);
    warm_key_seat_holds(&key, ORG, EVENT);
    assert_string_equal(key.data, TAG ":seat_holds");
    buf_clear(&key);
    warm_key_hold_meta(&key, ORG, EVENT, &id);
    assert_string_equal(key.data, TAG ":hold:01890000-0000-7000-8000-000000000001:meta");
    buf_clear(&key);
    warm_key_occupancy(&key, ORG, EVENT);
    assert_string_equal(key.data, TAG ":occupancy");
    buf_fini(&key);
}

static void
the_set_beside_a_seat_is_that_of_its_event(void **state)
{
    (void)state;
    struct buf key = { 0 };
    warm_key_seat_holds_beside(&key, SLICE_LITERAL(TAG ":seat:12A"));
    assert_string_equal(key.data, TAG ":seat_holds");
    buf_fini(&key);
}

static void
a_key_is_appended_to_what_is_there(void **state)
{
    (void)state;
    struct buf key = { 0 };
    buf_append_text(&key, "GET ");
    warm_key_seat_holds(&key, ORG, EVENT);
    assert_string_equal(key.data, "GET " TAG ":seat_holds");
    buf_fini(&key);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_built_as_the_contract_has_them),
        cmocka_unit_test(the_set_beside_a_seat_is_that_of_its_event),
        cmocka_unit_test(a_key_is_appended_to_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
