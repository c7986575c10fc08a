/* Rows and seat numbers in the order in which people read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "holdfast/seating.h"

static int
order(const char *a, const char *b)
{
    int result = natural_compare(slice_of(a), slice_of(b));
    return (result > 0) - (result < 0);
}

static void
row_2_comes_before_row_10(void **state)
{
    (void)state;
    assert_int_equal(order("2", "10"), -1);
    assert_int_equal(order("A2", "A10"), -1);
    assert_int_equal(order("10", "2"), 1);
    assert_int_equal(order("Block 9 row 12", "Block 9 row 3"), 1);
}

static void
letters_compare_as_bytes(void **state)
{
    (void)state;
    assert_int_equal(order("A", "B"), -1);
    assert_int_equal(order("AA", "B"), -1);
    assert_int_equal(order("Z", "a"), -1);
    assert_int_equal(order("\xC3\xA9", "z"), 1);
}

static void
a_text_comes_before_its_continuation(void **state)
{
    (void)state;
    assert_int_equal(order("", "A"), -1);
    assert_int_equal(order("A", "A1"), -1);
    assert_int_equal(order("A1", "A1b"), -1);
}

static void
numbers_of_any_length_compare(void **state)
{
    (void)state;
    assert_int_equal(order("99999999999999999999999999999998", "99999999999999999999999999999999"),
                     -1);
    assert_int_equal(order("9", "10000000000000000000000000000000"), -1);
}

static void
leading_zeros_decide_only_between_equals(void **state)
{
    (void)state;
    assert_int_equal(order("007", "8"), -1);
    assert_int_equal(order("07", "6"), 1);
    assert_int_not_equal(order("07", "7"), 0);
    assert_int_equal(order("07", "7"), -order("7", "07"));
    assert_int_equal(order("7", "7"), 0);
}

/* A sort needs it: if a < b and b < c then a < c. */
static void
the_order_is_total(void **state)
{
    (void)state;
    static const char *const texts[] = { "",   "0",   "00",  "1",    "01",  "10",  "2",  "A",
                                         "A0", "A00", "A1",  "A01",  "A1A", "A10", "A2", "B",
                                         "a",  "-",   "1-1", "1-01", "1-2", "1.5" };
    size_t count = sizeof(texts) / sizeof(texts[0]);

    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            assert_int_equal(order(texts[i], texts[j]), -order(texts[j], texts[i]));
            assert_int_equal(order(texts[i], texts[j]) == 0, i == j);
            for (size_t k = 0; k < count; k++) {
                if (order(texts[i], texts[j]) < 0 && order(texts[j], texts[k]) < 0)
                    assert_int_equal(order(texts[i], texts[k]), -1);
            }
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_2_comes_before_row_10),
        cmocka_unit_test(letters_compare_as_bytes),
        cmocka_unit_test(a_text_comes_before_its_continuation),
        cmocka_unit_test(numbers_of_any_length_compare),
        cmocka_unit_test(leading_zeros_decide_only_between_equals),
        cmocka_unit_test(the_order_is_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
