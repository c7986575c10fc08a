/* Several threads tell while one takes and another replays: numbers have no hole, order is kept. */
#include "feed_fixture.h"

#include <time.h>

#include "holdfast/thread.h"

#define TELLERS 3
#define TELLS   4000
#define STACK   (256 * 1024)

static _Atomic int tellers_left;

static void *
tell_many(void *context)
{
    const char *seat = context;
    for (int i = 1; i <= TELLS; i++) {
        struct feed_change changes[2] = { seat_change("gig", seat, 2 * i - 1),
                                          seat_change("gig", seat, 2 * i) };
        feed_tell(feed, changes, 2);
    }
    atomic_fetch_sub(&tellers_left, 1);
    return NULL;
}

static void
count_visit(void *context, const struct feed_change *change, const struct feed_position *after)
{
    (void)change;
    if (after != NULL)
        ++*(int *)context;
}

static void
do_nothing(void *context, const struct feed_position *now)
{
    (void)context;
    (void)now;
}

static void *
replay_many(void *context)
{
    (void)context;
    while (atomic_load(&tellers_left) > 0) {
        struct feed_position since;
        int visits = 0;
        feed_position(feed, &since);
        sleep_us(200);
        if (feed_replay(feed, slice_of("acme"), slice_of("gig"), &since, count_visit, do_nothing,
                        &visits))
            hf_assert(visits % 2 == 0);
    }
    return NULL;
}

/* Per seat the versions rise. Returns how many changes the record has. */
static uint32_t
check_record(const struct feed_record *record, int64_t versions[TELLERS])
{
    struct codec_reader reader;
    struct feed_change change;
    uint32_t count = 0;
    codec_begin(&reader, record_bytes(record));
    for (; codec_next(&reader, &change) == CODEC_CHANGE; count++) {
        int teller = change.item.ptr[0] - 'A';
        assert_in_range(teller, 0, TELLERS - 1);
        assert_int_equal(change.version, versions[teller] + 1);
        versions[teller] = change.version;
    }
    return count;
}

static void
numbers_have_no_hole_and_order_is_kept(void **state)
{
    (void)state;
    static char seats[TELLERS][2] = { "A", "B", "C" };
    struct thread tellers[TELLERS] = { 0 }, replayer = { 0 };
    int64_t versions[TELLERS] = { 0 };
    uint64_t number = 0, last;
    uint32_t changes = 0;

    told_is_counted_only = true;
    feed_start(feed, OWN);
    atomic_store(&tellers_left, TELLERS);
    for (int i = 0; i < TELLERS; i++)
        assert_true(thread_start(&tellers[i], STACK, tell_many, seats[i]));
    assert_true(thread_start(&replayer, STACK, replay_many, NULL));
    while (changes < 2 * TELLERS * TELLS) {
        struct feed_record *record = feed_take(feed, 10000, 100 * TIME_US_PER_MS, &last);
        while (record != NULL) {
            struct feed_record *next = record->next;
            assert_int_equal(record->number, ++number);
            assert_true(record->number <= last);
            changes += check_record(record, versions);
            feed_record_put(record);
            record = next;
        }
    }
    for (int i = 0; i < TELLERS; i++)
        thread_join(&tellers[i]);
    thread_join(&replayer);
    assert_int_equal(number, TELLERS * TELLS);
    assert_int_equal(told_count, 2 * TELLERS * TELLS);
}

static int64_t
cpu_ns(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What it costs the hot path, in CPU time; printed, not judged. */
static void
the_cost_of_a_change(void **state)
{
    (void)state;
    enum { ROUNDS = 2000, CHANGES = 32 };
    struct feed_change changes[CHANGES];
    char seats[CHANGES][24];
    uint64_t last;
    told_is_counted_only = true;
    feed_start(feed, OWN);
    for (int i = 0; i < CHANGES; i++) {
        snprintf(seats[i], sizeof(seats[i]), "section-12-row-34-%02d", i);
        changes[i] = seat_change("event-0123456789abcd", seats[i], 3);
        changes[i].hold_id = uuid_v7_new();
    }
    int64_t ns = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t began = cpu_ns();
        feed_tell(feed, changes, CHANGES);
        ns += cpu_ns() - began;
        struct feed_record *record = feed_take(feed, SIZE_MAX, 0, &last);
        assert_int_equal(record->change_count, CHANGES);
        feed_record_put(record);
    }
    print_message("feed_tell: %.0f ns a change, in records of %d\n",
                  (double)ns / (ROUNDS * CHANGES), CHANGES);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(numbers_have_no_hole_and_order_is_kept),
        CASE(the_cost_of_a_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
