/*
 * What a million held seats cost, by the allocator's own account, and that looking up
 * allocates nothing.
 */
#include "hot_fixture.h"

#include <malloc.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OTHER_ALLOCATOR 1 /* mallinfo2 doesn't see what a sanitizer's allocator does */
#define SEATS           50000
#else
#define OTHER_ALLOCATOR 0
#define SEATS           1000000
#endif
#define BYTES_MAX 200

static int64_t
allocated_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}

static struct seat_key
seat_number(int number, char text[16])
{
    (void)snprintf(text, 16, "S%06d", number);
    return seat_of_show(text);
}

static void
a_million_held_seats_take_less_than_200_bytes_each(void **state)
{
    (void)state;
    char text[16];
    int64_t before = allocated_bytes();
    struct hot_table_limits limits = limits_usual();
    limits.shards = 64;
    limits.seats_max = 2000000;
    struct hot_table *table = table_with(limits);
    for (int i = 0; i < SEATS; i++) {
        struct seat_key key = seat_number(i, text);
        struct seat_view view = view_held(1, ANNA, db_at(900 * SECOND + i * 10));
        hot_table_learn(table, &key, &view, mono_at(0), true);
    }
    assert_int_equal(numbers_of(table).timers, SEATS);
    double bytes = (double)(allocated_bytes() - before) / SEATS;
    if (OTHER_ALLOCATOR) {
        printf("bytes per held seat are not counted under a sanitizer\n");
    } else {
        printf("%.1f bytes per held seat\n", bytes);
        assert_true(bytes > 0 && bytes <= BYTES_MAX);
    }

    int64_t filled = allocated_bytes();
    for (int i = 0; i < SEATS; i++) {
        struct seat_key key = seat_number(i, text);
        struct seat_view view;
        assert_true(hot_table_refuses(table, &key, BERT, db_at(0), ERROR_US, mono_at(0), &view));
        assert_true(hot_table_read(table, &key, db_at(0), ERROR_US, mono_at(0), &view));
    }
    assert_true(allocated_bytes() == filled);
    table_end(table);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_held_seats_take_less_than_200_bytes_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
