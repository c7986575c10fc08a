/*
 * Every allocation of the hot table fails once: the answer is HOT_FULL, or news are
 * dropped, and the table is whole.
 *
 * malloc, calloc, realloc and aligned_alloc of this program are replaced (glibc lets one).
 * A sanitizer brings its own, so there nothing fails and the same calls simply succeed.
 */
#include "hot_fixture.h"

static long allocations_left = -1; /* -1: as many as one likes */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_FAIL 0
#else
#define CAN_FAIL 1

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static bool
may_allocate(void)
{
    if (allocations_left == 0) {
        return false;
    }
    if (allocations_left > 0) {
        allocations_left--;
    }
    return true;
}

void *
malloc(size_t bytes)
{
    return may_allocate() ? __libc_malloc(bytes) : NULL;
}

void *
calloc(size_t count, size_t bytes)
{
    return may_allocate() ? __libc_calloc(count, bytes) : NULL;
}

void *
realloc(void *old, size_t bytes)
{
    return may_allocate() ? __libc_realloc(old, bytes) : NULL;
}

void *
aligned_alloc(size_t alignment, size_t bytes)
{
    return may_allocate() ? __libc_memalign(alignment, bytes) : NULL;
}
#endif

static void
a_table_for_which_there_is_no_memory_is_null(void **state)
{
    (void)state;
    struct hot_table_limits limits = limits_usual();
    allocations_left = 0;
    struct hot_table *table = hot_table_new(&limits);
    allocations_left = -1;
    assert_true((table == NULL) == CAN_FAIL);
    hot_table_free(&table);
}

/* Claims and learns; all after so many allocations fail, until three claims were told so. How many
 * were. */
static int
fail_after(long allocations)
{
    enum { SEATS = 900, EVENTS = 45 };
    struct hot_table_limits limits = limits_usual();
    limits.shards = 1;
    struct hot_table *table = table_with(limits);
    struct hot_waiter waiter, *waiters;
    bool claimed[SEATS] = { false };
    struct seat_view view = view_of(SEAT_SOLD, 1);
    char seat[16], event[16];
    int full = 0;

    allocations_left = allocations;
    for (int i = 0; i < SEATS; i++) {
        (void)snprintf(seat, sizeof(seat), "S%d", i);
        (void)snprintf(event, sizeof(event), "show-%d", i % EVENTS);
        struct seat_key key = { slice_of("demo"), slice_of(event), slice_of(seat) };
        if (i % 2 == 0) {
            hot_table_learn(table, &key, &view, mono_at(0), false);
            continue;
        }
        enum hot_answer answer = hot_table_claim(table, &key, ANNA, true, db_at(0), ERROR_US,
                                                 mono_at(0), &waiter, &view);
        assert_true(answer == HOT_CLAIMED || answer == HOT_FULL);
        claimed[i] = answer == HOT_CLAIMED;
        full += answer == HOT_FULL;
        if (full == 3) {
            allocations_left = -1; /* there is memory again, and all goes on */
        }
    }
    allocations_left = -1;
    hot_table_validate(table);
    for (int i = 1; i < SEATS; i += 2) {
        (void)snprintf(seat, sizeof(seat), "S%d", i);
        (void)snprintf(event, sizeof(event), "show-%d", i % EVENTS);
        struct seat_key key = { slice_of("demo"), slice_of(event), slice_of(seat) };
        if (claimed[i]) {
            hot_table_settle(table, &key, NULL, mono_at(0), false, &waiters);
        }
    }
    table_end(table);
    return full;
}

static void
whichever_allocation_fails_the_table_stays_whole(void **state)
{
    (void)state;
    for (long allocations = 0; allocations < 50; allocations++) {
        assert_int_equal(fail_after(allocations), CAN_FAIL ? 3 : 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_for_which_there_is_no_memory_is_null),
        cmocka_unit_test(whichever_allocation_fails_the_table_stays_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
