/* Many deadlines of one length: due in order of arming, never early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "deadline.h"

static void
a_deadline_is_due_at_its_time_not_before(void **state)
{
    struct deadline_list list;
    struct deadline one = { 0 };
    (void)state;
    deadline_list_init(&list, 100);
    deadline_arm(&list, &one, 1000);
    assert_null(deadline_take_due(&list, 1099));
    assert_ptr_equal(deadline_take_due(&list, 1100), &one);
    assert_false(deadline_is_armed(&one));
    assert_null(deadline_take_due(&list, 9999));
}

static void
arming_again_counts_from_then(void **state)
{
    struct deadline_list list;
    struct deadline one = { 0 }, two = { 0 };
    (void)state;
    deadline_list_init(&list, 100);
    deadline_arm(&list, &one, 0);
    deadline_arm(&list, &two, 10);
    deadline_arm(&list, &one, 50);
    deadline_arm(&list, &one, 60); /* already the last */
    assert_ptr_equal(deadline_take_due(&list, 500), &two);
    assert_ptr_equal(deadline_take_due(&list, 500), &one);
    assert_null(deadline_take_due(&list, 500));
}

static void
one_moves_between_lists_and_one_is_disarmed(void **state)
{
    struct deadline_list idle, header;
    struct deadline one = { 0 }, two = { 0 }, three = { 0 };
    (void)state;
    deadline_list_init(&idle, 1000);
    deadline_list_init(&header, 10);
    deadline_arm(&idle, &one, 0);
    deadline_arm(&idle, &two, 0);
    deadline_arm(&idle, &three, 0);
    deadline_arm(&header, &two, 5);
    deadline_disarm(&three);
    deadline_disarm(&three); /* not armed: nothing */
    assert_ptr_equal(deadline_take_due(&header, 15), &two);
    assert_ptr_equal(deadline_take_due(&idle, 1000), &one);
    assert_null(deadline_take_due(&idle, 1000));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadline_is_due_at_its_time_not_before),
        cmocka_unit_test(arming_again_counts_from_then),
        cmocka_unit_test(one_moves_between_lists_and_one_is_disarmed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
