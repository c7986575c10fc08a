/*
 * Locks are taken by rising rank, dropped by who has them, and waited under.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "dies.h"
#include "holdfast/clock.h"
#include "holdfast/lock.h"

static struct lock queue, shard, shard_two, tokens;

static int
locks_setup(void **state)
{
    (void)state;
    lock_init(&queue, LOCK_QUEUE);
    lock_init(&shard, LOCK_SHARD);
    lock_init(&shard_two, LOCK_SHARD);
    lock_init(&tokens, LOCK_TOKENS);
    return 0;
}

static int
locks_teardown(void **state)
{
    (void)state;
    lock_fini(&queue);
    lock_fini(&shard);
    lock_fini(&shard_two);
    lock_fini(&tokens);
    return 0;
}

static void
take_and_drop_in_order(void)
{
    lock_take(&queue);
    lock_take(&shard);
    lock_take(&tokens);
    lock_assert_held(&shard);
    lock_drop(&tokens);
    lock_drop(&shard);
    lock_drop(&queue);
}

static void
take_a_lower_rank(void)
{
    lock_take(&shard);
    lock_take(&queue);
}

static void
take_two_of_one_rank(void)
{
    lock_take(&shard);
    lock_take(&shard_two);
}

static void
take_one_twice(void)
{
    lock_take(&shard);
    lock_take(&shard);
}

static void
drop_what_is_not_held(void)
{
    lock_take(&shard);
    lock_drop(&shard_two);
}

static void
claim_what_is_not_held(void)
{
    lock_take(&shard);
    lock_assert_held(&shard_two);
}

static void
wait_under_two_locks(void)
{
    pthread_cond_t cond;

    lock_cond_init(&cond);
    lock_take(&queue);
    lock_take(&shard);
    lock_wait(&shard, &cond, 1);
}

static void
drop_out_of_order_then_take_a_lower_rank(void)
{
    lock_take(&queue);
    lock_take(&shard);
    lock_drop(&queue);
    lock_take(&queue);
}

static bool
dies_quietly(void (*act)(void))
{
    FILE *nowhere = tmpfile();

    assert_non_null(nowhere);
    bool died = dies(act, fileno(nowhere));
    fclose(nowhere);
    return died;
}

static void
locks_are_taken_by_rising_rank(void **state)
{
    (void)state;
    take_and_drop_in_order();
    take_and_drop_in_order();
    assert_false(dies_quietly(take_and_drop_in_order));
    assert_true(dies_quietly(take_a_lower_rank));
    assert_true(dies_quietly(take_two_of_one_rank));
    assert_true(dies_quietly(take_one_twice));
}

static void
only_the_holder_drops_or_claims_a_lock(void **state)
{
    (void)state;
    assert_true(dies_quietly(drop_what_is_not_held));
    assert_true(dies_quietly(claim_what_is_not_held));
}

static void
locks_may_be_dropped_in_any_order(void **state)
{
    (void)state;
    lock_take(&queue);
    lock_take(&shard);
    lock_take(&tokens);
    lock_drop(&shard);
    lock_assert_held(&queue);
    lock_assert_held(&tokens);
    lock_drop(&queue);
    lock_drop(&tokens);
    take_and_drop_in_order();
    assert_true(dies_quietly(drop_out_of_order_then_take_a_lower_rank));
}

static void
nobody_sleeps_under_a_second_lock(void **state)
{
    (void)state;
    assert_true(dies_quietly(wait_under_two_locks));
}

static void
wait_ends_at_its_timeout(void **state)
{
    pthread_cond_t cond;

    (void)state;
    lock_cond_init(&cond);
    lock_take(&queue);
    struct mono_time before = mono_now();
    lock_wait(&queue, &cond, 20000);
    assert_true(mono_now().us - before.us >= 19000); /* the two clocks may differ a little */
    lock_assert_held(&queue);
    lock_drop(&queue);
    pthread_cond_destroy(&cond);
}

struct mailbox {
    pthread_cond_t cond;
    bool full; /* guarded by queue */
};

static void *
fill_mailbox(void *argument)
{
    struct mailbox *mailbox = argument;

    lock_take(&queue);
    mailbox->full = true;
    pthread_cond_signal(&mailbox->cond);
    lock_drop(&queue);
    return NULL;
}

static void
wait_gives_the_lock_up_and_wakes_on_a_signal(void **state)
{
    struct mailbox mailbox = { .full = false };
    pthread_t thread;

    (void)state;
    lock_cond_init(&mailbox.cond);
    lock_take(&queue);
    assert_int_equal(pthread_create(&thread, NULL, fill_mailbox, &mailbox), 0);
    while (!mailbox.full)
        lock_wait(&queue, &mailbox.cond, -1);
    lock_drop(&queue);
    pthread_join(thread, NULL);
    pthread_cond_destroy(&mailbox.cond);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_are_taken_by_rising_rank),
        cmocka_unit_test(only_the_holder_drops_or_claims_a_lock),
        cmocka_unit_test(locks_may_be_dropped_in_any_order),
        cmocka_unit_test(nobody_sleeps_under_a_second_lock),
        cmocka_unit_test(wait_ends_at_its_timeout),
        cmocka_unit_test(wait_gives_the_lock_up_and_wakes_on_a_signal),
    };

    return cmocka_run_group_tests(tests, locks_setup, locks_teardown);
}
