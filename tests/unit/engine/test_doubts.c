/*
 * Lost outcomes of the desk's transactions: memory is doubted at once and when they are known, and
 * each is asked about until it is. Postgres is the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine_internal.h"

#define IDS_MAX 200

/* --- what stands in for cold, and for memory -------------------------------------------------- */

static _Atomic bool tells; /* Postgres says what became of it */
static _Atomic int asked;  /* how often */
static _Atomic int distrusts;
static _Atomic int drops;
static _Atomic unsigned char asked_about[256]; /* by the last byte of the id */

struct pg *
pg_new(const struct config *config, const char *name, struct pg_identity *identity,
       struct db_clock *clock)
{
    (void)config;
    (void)name;
    (void)identity;
    (void)clock;
    return malloc(1);
}

void
pg_free(struct pg **pg)
{
    free(*pg);
    *pg = NULL;
}

void
pg_drop(struct pg *pg)
{
    (void)pg;
    atomic_fetch_add(&drops, 1);
}

enum pg_outcome
pg_settle_outcome(struct pg *pg, const struct uuid *batch_id, struct mono_time deadline,
                  bool *committed)
{
    (void)pg;
    assert_true(deadline.us > mono_now().us);
    atomic_fetch_add(&asked, 1);
    atomic_store(&asked_about[batch_id->bytes[15]], 1);
    *committed = true;
    return tells ? PG_DONE : PG_UNAVAILABLE;
}

void
memory_doubts(struct node *node)
{
    assert_non_null(node);
    atomic_fetch_add(&distrusts, 1);
}

/* --- cases ---------------------------------------------------------------------------------- */

static struct node node;
static struct engine engine;

static int
set_up(void **state)
{
    (void)state;
    tells = false;
    asked = distrusts = drops = 0;
    for (int i = 0; i < 256; i++)
        asked_about[i] = 0;
    node = (struct node){ .feed = feed_new(&node, 65536) }; /* doubts wake its publisher */
    engine = (struct engine){ .node = &node };
    return node.feed != NULL && asker_start(&engine) ? 0 : 1;
}

static int
tear_down(void **state)
{
    (void)state;
    asker_stop(&engine);
    assert_null(engine.asker);
    feed_free(&node.feed);
    return 0;
}

static void
wait_for(const _Atomic int *count, int least)
{
    struct mono_time end = { mono_now().us + 20 * (int64_t)TIME_US_PER_S };
    while (atomic_load(count) < least && mono_now().us < end.us)
        sleep_us(TIME_US_PER_MS);
    assert_true(atomic_load(count) >= least);
}

static void
doubt(unsigned char last)
{
    struct uuid id = { .bytes = { [15] = last } };
    engine_doubts(&engine, &id);
}

static void
memory_is_doubted_at_once_and_again_when_it_is_known(void **state)
{
    (void)state;
    doubt(1);
    assert_int_equal(distrusts, 1);
    assert_int_equal(node.doubts, 1);
    wait_for(&asked, 3); /* again and again */
    assert_int_equal(distrusts, 1);
    assert_int_equal(node.doubts, 1);
    tells = true;
    wait_for(&distrusts, 2);
    while (atomic_load(&node.doubts) > 0)
        sleep_us(TIME_US_PER_MS);
    int before = asked;
    sleep_us(100 * TIME_US_PER_MS);
    assert_int_equal(asked, before); /* what is known isn't asked any more */
}

static void
each_of_many_has_its_turn(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        doubt((unsigned char)i);
    wait_for(&asked, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(asked_about[i], 1);
    tells = true;
    wait_for(&distrusts, 10);
}

static void
no_transaction_is_begun_while_too_many_are_open(void **state)
{
    int open = 0;

    (void)state;
    while (engine_may_doubt(&engine) && open < IDS_MAX)
        doubt((unsigned char)open++);
    assert_in_range(open, 64, 65); /* one may be in the asker's hands */
    for (int i = 0; i < 64; i++)   /* those of 64 desks that had begun by then */
        doubt((unsigned char)(open + i));
    assert_false(engine_may_doubt(&engine));
    tells = true;
    wait_for(&distrusts, 2 * (open + 64));
    assert_true(engine_may_doubt(&engine));
    assert_int_equal(drops, asked); /* no connection stays open for it */
}

static void
an_end_waits_for_nothing_that_is_not_known(void **state)
{
    (void)state;
    doubt(1);
    struct mono_time start = mono_now();
    asker_stop(&engine);
    assert_true(mono_now().us - start.us < 5 * (int64_t)TIME_US_PER_S); /* else for ever */
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(memory_is_doubted_at_once_and_again_when_it_is_known),
        CASE(each_of_many_has_its_turn),
        CASE(no_transaction_is_begun_while_too_many_are_open),
        CASE(an_end_waits_for_nothing_that_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
