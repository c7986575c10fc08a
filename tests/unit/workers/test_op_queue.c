/* The queue: what one gather takes, in which order, and what it leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "holdfast/clock.h"
#include "holdfast/op_queue.h"

#define OPS_MAX 64

static struct op_queue *queue;
static struct op ops[OPS_MAX];
static struct op *taken[OPS_MAX];

/* Long enough for whatever comes at all. */
static int
gather(int max)
{
    return op_queue_gather(queue, taken, max,
                           (struct mono_time){ mono_now().us + 10 * (int64_t)TIME_US_PER_S });
}

static int
set_up(void **state)
{
    (void)state;
    for (int i = 0; i < OPS_MAX; i++) {
        ops[i] = (struct op){ .kind = OP_EXTEND, .hold_id = uuid_v7_new() };
    }
    queue = op_queue_new(OPS_MAX);
    return queue == NULL;
}

static int
tear_down(void **state)
{
    (void)state;
    op_queue_close(queue);
    while (gather(OPS_MAX) > 0)
        ;
    op_queue_free(&queue);
    return 0;
}

static void
push(int count)
{
    for (int i = 0; i < count; i++)
        assert_true(op_queue_push(queue, &ops[i]));
}

static void
a_gather_takes_all_that_waits_in_order_of_arrival(void **state)
{
    (void)state;
    push(5);
    assert_int_equal(gather(OPS_MAX), 5);
    for (int i = 0; i < 5; i++)
        assert_ptr_equal(taken[i], &ops[i]);
    assert_int_equal(op_queue_depth(queue), 0);
}

static void
a_gather_takes_no_more_than_its_limit(void **state)
{
    (void)state;
    push(5);
    assert_int_equal(gather(3), 3);
    assert_int_equal(gather(3), 2);
    assert_ptr_equal(taken[0], &ops[3]);
}

static void
two_ops_of_one_hold_never_share_a_batch_and_keep_their_order(void **state)
{
    (void)state;
    ops[1].hold_id = ops[0].hold_id;
    ops[2].hold_id = ops[0].hold_id;
    push(4);
    assert_int_equal(gather(OPS_MAX), 2);
    assert_ptr_equal(taken[0], &ops[0]);
    assert_ptr_equal(taken[1], &ops[3]);
    assert_int_equal(gather(OPS_MAX), 1);
    assert_ptr_equal(taken[0], &ops[1]);
    assert_int_equal(gather(OPS_MAX), 1);
    assert_ptr_equal(taken[0], &ops[2]);
}

static void
new_holds_share_a_batch_whatever_their_ids(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        ops[i].kind = OP_HOLD;
    ops[1].hold_id = ops[0].hold_id;
    push(3);
    assert_int_equal(gather(OPS_MAX), 3);
}

static void
a_solo_op_comes_alone_and_is_not_overtaken(void **state)
{
    (void)state;
    ops[1].solo = true;
    push(3);
    assert_int_equal(gather(OPS_MAX), 1);
    assert_ptr_equal(taken[0], &ops[0]);
    assert_int_equal(gather(OPS_MAX), 1);
    assert_ptr_equal(taken[0], &ops[1]);
    assert_int_equal(gather(OPS_MAX), 1);
    assert_ptr_equal(taken[0], &ops[2]);
}

static void
ops_with_a_key_come_apart_from_those_without(void **state)
{
    (void)state;
    ops[1].keyed = ops[3].keyed = true;
    push(4);
    assert_int_equal(gather(OPS_MAX), 2);
    assert_ptr_equal(taken[1], &ops[2]);
    assert_int_equal(gather(OPS_MAX), 2);
    assert_ptr_equal(taken[0], &ops[1]);
    assert_ptr_equal(taken[1], &ops[3]);
}

static void
what_is_put_back_comes_before_what_arrived_later(void **state)
{
    (void)state;
    push(2);
    assert_int_equal(gather(1), 1);
    op_queue_put_back(queue, taken[0]);
    assert_int_equal(gather(OPS_MAX), 2);
    assert_ptr_equal(taken[0], &ops[0]);
}

static void
what_is_put_back_for_later_waits_for_its_time(void **state)
{
    (void)state;
    struct mono_time start = mono_now();
    push(1);
    assert_int_equal(gather(1), 1);
    ops[0].not_before.us = start.us + 30 * TIME_US_PER_MS;
    op_queue_put_back(queue, &ops[0]);
    assert_int_equal(op_queue_depth(queue), 1);
    assert_int_equal(gather(1), 1);
    assert_true(mono_now().us - start.us >= 30 * TIME_US_PER_MS);
}

static void
those_put_back_for_later_come_out_in_the_order_of_their_times(void **state)
{
    (void)state;
    static const int64_t pause_ms[6] = { 450, 220, 290, 250, 320, 220 }; /* not over at once */
    static const int order[6] = { 1, 5, 3, 2, 4, 0 };
    struct mono_time start = mono_now();
    for (int i = 0; i < 6; i++) {
        ops[i].not_before.us = start.us + pause_ms[i] * TIME_US_PER_MS;
        op_queue_put_back(queue, &ops[i]);
    }
    for (int i = 0; i < 6; i++) {
        assert_int_equal(gather(1), 1);
        assert_ptr_equal(taken[0], &ops[order[i]]);
        assert_true(mono_now().us - start.us >= pause_ms[order[i]] * TIME_US_PER_MS);
        assert_int_equal(taken[0]->not_before.us, 0);
    }
    assert_int_equal(op_queue_depth(queue), 0);
}

static void
a_time_that_is_over_already_is_at_once(void **state)
{
    (void)state;
    push(2);
    assert_int_equal(gather(1), 1);
    ops[0].not_before.us = mono_now().us - 10 * TIME_US_PER_MS;
    op_queue_put_back(queue, &ops[0]);
    assert_int_equal(gather(OPS_MAX), 2);
    assert_ptr_equal(taken[0], &ops[0]);
}

static void
a_full_queue_refuses_but_takes_back(void **state)
{
    (void)state;
    static struct op more; /* outlives the test: the queue is emptied after it */
    more = (struct op){ .kind = OP_HOLD };
    push(OPS_MAX);
    assert_false(op_queue_push(queue, &more));
    op_queue_put_back(queue, &more);
    assert_int_equal(op_queue_depth(queue), OPS_MAX + 1);
}

static void
a_closed_queue_refuses_and_gives_out_what_it_has(void **state)
{
    (void)state;
    push(1);
    op_queue_close(queue);
    assert_false(op_queue_push(queue, &ops[1]));
    assert_int_equal(gather(OPS_MAX), 1);
    assert_int_equal(gather(OPS_MAX), 0);
}

static void
a_gather_ends_when_its_time_is_up(void **state)
{
    (void)state;
    struct mono_time start = mono_now();
    struct mono_time until = { start.us + 30 * TIME_US_PER_MS };
    assert_int_equal(op_queue_gather(queue, taken, OPS_MAX, until), 0);
    assert_true(mono_now().us >= until.us);
    assert_false(op_queue_is_over(queue));
}

static void *
gather_nothing(void *context)
{
    (void)context;
    assert_int_equal(gather(OPS_MAX), 0);
    return NULL;
}

static void
a_wake_ends_a_gather_that_waits(void **state)
{
    (void)state;
    pthread_t waiting;
    struct mono_time start = mono_now();
    assert_int_equal(pthread_create(&waiting, NULL, gather_nothing, NULL), 0);
    while (pthread_tryjoin_np(waiting, NULL) != 0) /* it may not wait yet when it is woken */
        op_queue_wake(queue);
    assert_true(mono_now().us - start.us < 5 * (int64_t)TIME_US_PER_S);
}

static void
whose_time_is_up_is_taken_out_wherever_it_stands(void **state)
{
    (void)state;
    push(4);
    for (int i = 0; i < 6; i++)
        ops[i].deadline.us = i % 2 == 0 ? 1000 : 2000;
    for (int i = 4; i < 6; i++) { /* two that wait for a lock */
        ops[i].not_before.us = mono_now().us + OP_QUEUE_LATER_MOST_US;
        op_queue_put_back(queue, &ops[i]);
    }
    assert_int_equal(op_queue_take_late(queue, (struct mono_time){ 999 }, taken, OPS_MAX), 0);
    assert_int_equal(op_queue_take_late(queue, (struct mono_time){ 1000 }, taken, 2), 2);
    assert_ptr_equal(taken[0], &ops[0]);
    assert_ptr_equal(taken[1], &ops[2]);
    assert_int_equal(op_queue_take_late(queue, (struct mono_time){ 1000 }, taken, OPS_MAX), 1);
    assert_ptr_equal(taken[0], &ops[4]);
    assert_int_equal(op_queue_depth(queue), 3);
    assert_int_equal(gather(OPS_MAX), 2);
    assert_int_equal(op_queue_take_late(queue, (struct mono_time){ 2000 }, taken, OPS_MAX), 1);
    assert_ptr_equal(taken[0], &ops[5]);
    assert_int_equal(op_queue_depth(queue), 0);
}

/* --- many threads ------------------------------------------------------------- */

#define PRODUCERS    4
#define PER_PRODUCER 5000

static _Atomic int consumed;

static void *
produce(void *context)
{
    struct op *mine = context;
    for (int i = 0; i < PER_PRODUCER; i++)
        while (!op_queue_push(queue, &mine[i]))
            ;
    return NULL;
}

static void *
consume(void *context)
{
    struct op *batch[16];
    int count;
    (void)context;
    while (!op_queue_is_over(queue)) {
        struct mono_time until = { mono_now().us + 50 * TIME_US_PER_MS };
        while ((count = op_queue_gather(queue, batch, 16, until)) > 0)
            consumed += count;
    }
    return NULL;
}

static void
every_op_comes_out_once_with_many_threads(void **state)
{
    (void)state;
    pthread_t producers[PRODUCERS], consumers[2];
    struct op *all = calloc(PRODUCERS * PER_PRODUCER, sizeof(*all));
    assert_non_null(all);
    consumed = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&consumers[i], NULL, consume, NULL), 0);
    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&producers[i], NULL, produce, all + i * PER_PRODUCER), 0);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i], NULL);
    op_queue_close(queue);
    for (int i = 0; i < 2; i++)
        pthread_join(consumers[i], NULL);
    assert_int_equal(consumed, PRODUCERS * PER_PRODUCER);
    free(all);
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_gather_takes_all_that_waits_in_order_of_arrival),
        CASE(a_gather_takes_no_more_than_its_limit),
        CASE(two_ops_of_one_hold_never_share_a_batch_and_keep_their_order),
        CASE(new_holds_share_a_batch_whatever_their_ids),
        CASE(a_solo_op_comes_alone_and_is_not_overtaken),
        CASE(ops_with_a_key_come_apart_from_those_without),
        CASE(what_is_put_back_comes_before_what_arrived_later),
        CASE(what_is_put_back_for_later_waits_for_its_time),
        CASE(a_full_queue_refuses_but_takes_back),
        CASE(a_closed_queue_refuses_and_gives_out_what_it_has),
        CASE(a_gather_ends_when_its_time_is_up),
        CASE(a_wake_ends_a_gather_that_waits),
        CASE(whose_time_is_up_is_taken_out_wherever_it_stands),
        CASE(those_put_back_for_later_come_out_in_the_order_of_their_times),
        CASE(a_time_that_is_over_already_is_at_once),
        CASE(every_op_comes_out_once_with_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
