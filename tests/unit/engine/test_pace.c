/* Who is let in: by what stands before it, what an op took lately, and the time that it has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine_internal.h"

#define TIMEOUT_US (5 * (int64_t)TIME_US_PER_S)
#define BATCH      10

/* --- what stands in for the rest of the engine ------------------------------------------- */

static bool is_up;

bool
engine_store_is_up(const struct engine *engine)
{
    (void)engine;
    return is_up;
}

static struct config config = { .request_timeout = TIMEOUT_US, .batch_max = BATCH };
static struct node node = { .config = &config };
static struct engine engine;
static struct op *waiting;
static int waiting_count;
static struct mono_time now;

static int
set_up(void **state)
{
    (void)state;
    is_up = true;
    now.us = 1000 * (int64_t)TIME_US_PER_S;
    engine = (struct engine){ .node = &node, .worker_count = 1, .workers_up = 1 };
    engine.queue = op_queue_new(100000);
    waiting_count = 0;
    waiting = calloc(100000, sizeof(*waiting));
    return engine.queue == NULL || waiting == NULL;
}

static int
tear_down(void **state)
{
    struct op *ops[100];
    (void)state;
    op_queue_close(engine.queue);
    while (op_queue_gather(engine.queue, ops, 100, mono_now()) > 0)
        ;
    op_queue_free(&engine.queue);
    free(waiting);
    return 0;
}

static void
let_wait(int count)
{
    for (int i = 0; i < count; i++) {
        struct op *op = &waiting[waiting_count++];
        op->kind = OP_HOLD;
        assert_true(op_queue_push(engine.queue, op));
    }
}

static void
let_none_wait(void)
{
    struct op *ops[100];
    while (op_queue_gather(engine.queue, ops, 100, mono_now()) > 0)
        ;
}

/* A batch of `count` ops that took `ms`. */
static void
serve(int count, int64_t ms)
{
    struct mono_time began = now;
    now.us += ms * TIME_US_PER_MS;
    pace_measure(&engine, count, began, now);
}

static int32_t retry_after_s;

/* What somebody hears who has all of his time. */
static enum hf_status
ask(void)
{
    return engine_admits(&engine, (struct mono_time){ now.us + TIMEOUT_US }, now, &retry_after_s);
}

/* --- cases ----------------------------------------------------------------------------------- */

static void
whatever_comes_is_let_in_while_nothing_is_known(void **state)
{
    (void)state;
    let_wait(90000);
    assert_int_equal(ask(), HF_OK);
}

static void
what_would_wait_too_long_is_refused_and_told_when_there_is_room(void **state)
{
    (void)state;
    let_wait(1000 + BATCH);
    serve(BATCH, 20); /* 2 ms an op, so 2 s: with a quarter more still less than 4 s */
    assert_int_equal(ask(), HF_OK);
    let_wait(1000);
    assert_int_equal(ask(), HF_OVERLOADED); /* 4 s, 5 s with the quarter */
    assert_int_equal(retry_after_s, 2);
    let_wait(2000);
    assert_int_equal(ask(), HF_OVERLOADED); /* 10 s */
    assert_int_equal(retry_after_s, 7);
}

static void
workers_share_what_waits(void **state)
{
    (void)state;
    let_wait(3000 + BATCH);
    serve(BATCH, 20);
    assert_int_equal(ask(), HF_OVERLOADED);
    engine.workers_up = 4;
    assert_int_equal(ask(), HF_OK);
}

static void
who_has_little_time_left_is_refused_where_another_is_let_in(void **state)
{
    (void)state;
    let_wait(1000 + BATCH);
    serve(BATCH, 20);
    struct mono_time soon = { now.us + TIMEOUT_US / 2 };
    assert_int_equal(ask(), HF_OK);
    assert_int_equal(engine_admits(&engine, soon, now, &retry_after_s), HF_OVERLOADED);
}

static void
who_has_no_time_for_a_transaction_is_refused_even_if_nobody_waits(void **state)
{
    (void)state;
    struct mono_time soon = { now.us + TIMEOUT_US / OP_TIME_LEAST_SHARE - 1 };
    assert_int_equal(engine_admits(&engine, soon, now, &retry_after_s), HF_OVERLOADED);
    assert_int_equal(retry_after_s, 1);
}

static void
the_next_batches_are_let_in_however_slow_it_was(void **state)
{
    (void)state;
    let_wait(100);
    for (int i = 0; i < 100; i++)
        serve(1, 4000);
    assert_int_equal(ask(), HF_OVERLOADED);
    let_none_wait();
    let_wait(BATCH);
    assert_int_equal(ask(), HF_OK);
}

/* Batches of one are slow for each op, and say nothing about a hundred that wait. */
static void
small_batches_without_a_backlog_are_no_measure(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        serve(1, 50);
    let_wait(5000);
    assert_int_equal(ask(), HF_OK);
}

static void
one_stall_counts_for_little(void **state)
{
    (void)state;
    let_wait(3000);
    serve(BATCH, 5); /* half a millisecond an op: 1.5 s */
    serve(BATCH, 3000);
    assert_int_equal(ask(), HF_OK);
}

static void
after_a_slow_time_a_few_quick_batches_let_everybody_in_again(void **state)
{
    (void)state;
    let_wait(3000);
    for (int i = 0; i < 50; i++)
        serve(BATCH, 100);
    assert_int_equal(ask(), HF_OVERLOADED);
    for (int i = 0; i < 30; i++)
        serve(BATCH, 2);
    assert_int_equal(ask(), HF_OK);
}

/* Refused, they leave no backlog: what is quick without one counts all the same. */
static void
quick_batches_count_without_a_backlog(void **state)
{
    (void)state;
    let_wait(1000);
    for (int i = 0; i < 20; i++)
        serve(BATCH, 200);
    let_none_wait();
    for (int i = 0; i < 30; i++)
        serve(BATCH, 2);
    let_wait(3000);
    assert_int_equal(ask(), HF_OK);
}

static void
what_was_measured_long_ago_is_forgotten(void **state)
{
    (void)state;
    let_wait(3000);
    serve(BATCH, 100); /* 30 s */
    assert_int_equal(ask(), HF_OVERLOADED);
    now.us += 4 * (int64_t)TIME_US_PER_S;
    assert_int_equal(ask(), HF_OK);
}

static void
while_the_store_is_away_all_hear_it(void **state)
{
    (void)state;
    is_up = false;
    assert_int_equal(ask(), HF_STORE_UNAVAILABLE);
    assert_int_equal(retry_after_s, 1);
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(whatever_comes_is_let_in_while_nothing_is_known),
        CASE(what_would_wait_too_long_is_refused_and_told_when_there_is_room),
        CASE(workers_share_what_waits),
        CASE(who_has_little_time_left_is_refused_where_another_is_let_in),
        CASE(who_has_no_time_for_a_transaction_is_refused_even_if_nobody_waits),
        CASE(the_next_batches_are_let_in_however_slow_it_was),
        CASE(small_batches_without_a_backlog_are_no_measure),
        CASE(one_stall_counts_for_little),
        CASE(after_a_slow_time_a_few_quick_batches_let_everybody_in_again),
        CASE(quick_batches_count_without_a_backlog),
        CASE(what_was_measured_long_ago_is_forgotten),
        CASE(while_the_store_is_away_all_hear_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
