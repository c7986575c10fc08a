/*
 * The desk's queue and threads, with a Postgres of the test's own: connections that are
 * ready or not, as the case wants it.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "holdfast/desk.h"
#include "holdfast/thread.h"

/* --- what stands in for cold and warm -------------------------------------------------- */

static _Atomic bool postgres_is_up;
static _Atomic bool engine_says_up;
static _Atomic int looks; /* how often a thread looked after its connection */

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

/* Down, it keeps whoever connects waiting for as long as it may. */
bool
pg_ready_until(struct pg *pg, struct mono_time deadline)
{
    (void)pg;
    atomic_fetch_add(&looks, 1);
    while (!postgres_is_up && mono_now().us < deadline.us)
        sleep_us(TIME_US_PER_MS);
    return postgres_is_up;
}

bool
pg_is_connected(const struct pg *pg)
{
    (void)pg;
    return postgres_is_up;
}

enum pg_outcome
pg_replan(struct pg *pg)
{
    (void)pg;
    return PG_DONE;
}

const char *
pg_last_error(const struct pg *pg)
{
    (void)pg;
    return "down";
}

struct warm *
warm_new(const struct config *config, struct warm_tier *tier)
{
    (void)config;
    (void)tier;
    return malloc(1);
}

void
warm_free(struct warm **warm)
{
    free(*warm);
    *warm = NULL;
}

bool
engine_store_is_up(const struct engine *engine)
{
    (void)engine;
    return engine_says_up;
}

/* --- jobs ---------------------------------------------------------------------------------- */

static struct config config;
static struct node node;
static _Atomic int begun, ran, failed, failed_with;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* taken: jobs stand still in it */

static void
job_run(struct desk_job *job, struct desk_tools *tools)
{
    assert_non_null(tools->pg);
    atomic_fetch_add(&begun, 1);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    atomic_fetch_add(&ran, 1);
    free(job);
}

static void
quick_run(struct desk_job *job, struct desk_tools *tools)
{
    (void)tools;
    atomic_fetch_add(&ran, 1);
    free(job);
}

static void
job_fail(struct desk_job *job, struct desk_tools *tools, enum hf_status status)
{
    assert_non_null(tools->warm); /* Redis may have an answer still */
    atomic_store(&failed_with, (int)status);
    atomic_fetch_add(&failed, 1);
    free(job);
}

static struct desk_job *
job_new(int64_t deadline_us)
{
    struct desk_job *job = calloc(1, sizeof(*job));

    job->deadline.us = mono_now().us + deadline_us;
    job->run = job_run;
    job->fail = job_fail;
    return job;
}

static struct mono_time
soon(void)
{
    return (struct mono_time){ mono_now().us + 20 * TIME_US_PER_S };
}

static int
set_up(void **state)
{
    (void)state;
    config.desks = 2;
    node.config = &config;
    config.desk_queue_max = 4;
    postgres_is_up = engine_says_up = true;
    begun = ran = failed = failed_with = looks = 0;
    return 0;
}

static void
jobs_run_and_stop_waits_for_them(void **state)
{
    struct desk *desk = desk_start(&node);

    (void)state;
    assert_non_null(desk);
    for (int i = 0; i < 4; i++)
        assert_true(desk_submit(desk, job_new(10 * TIME_US_PER_S)));
    desk_stop(&desk, soon());
    assert_null(desk);
    assert_int_equal(ran, 4);
}

static void
a_full_queue_says_no_and_the_job_stays_the_callers(void **state)
{
    struct desk *desk = desk_start(&node);
    struct desk_job *job;
    int taken = 0;

    (void)state;
    pthread_mutex_lock(&gate);
    while (desk_submit(desk, job = job_new(10 * TIME_US_PER_S)))
        taken++;
    free(job);
    assert_in_range(taken, 4, 6); /* the queue, and what the threads have taken out meanwhile */
    assert_int_equal(desk_outstanding(desk), taken);
    pthread_mutex_unlock(&gate);
    desk_stop(&desk, soon());
    assert_int_equal(ran, taken);
}

static void
a_job_past_its_deadline_fails_as_overloaded(void **state)
{
    struct desk *desk = desk_start(&node);

    (void)state;
    assert_true(desk_submit(desk, job_new(-1)));
    desk_stop(&desk, soon());
    assert_int_equal(failed_with, HF_OVERLOADED);
    assert_int_equal(ran, 0);
}

static void
without_postgres_a_job_fails_as_store_unavailable(void **state)
{
    (void)state;
    postgres_is_up = false;
    struct desk *desk = desk_start(&node);
    assert_true(desk_submit(desk, job_new(10 * TIME_US_PER_S)));
    desk_stop(&desk, soon());
    assert_int_equal(failed_with, HF_STORE_UNAVAILABLE);
}

static void
a_job_waits_for_a_connection_no_longer_than_its_deadline(void **state)
{
    (void)state;
    struct desk *desk = desk_start(&node);
    while (atomic_load(&looks) < 2) /* both threads wait for jobs */
        sleep_us(TIME_US_PER_MS);
    postgres_is_up = false;
    int64_t best_us = INT64_MAX; /* of some: a thread may be held up */
    for (int tries = 0; tries < 10 && best_us >= TIME_US_PER_S / 2; tries++) {
        struct mono_time start = mono_now();
        assert_true(desk_submit(desk, job_new(100 * TIME_US_PER_MS)));
        while (desk_outstanding(desk) > 0)
            sleep_us(TIME_US_PER_MS);
        int64_t took_us = mono_now().us - start.us;
        best_us = took_us < best_us ? took_us : best_us;
    }
    assert_true(best_us < TIME_US_PER_S / 2);
    desk_stop(&desk, soon());
}

static void
a_job_behind_others_that_take_long_is_answered_when_its_time_is_up(void **state)
{
    (void)state;
    struct desk *desk = desk_start(&node);
    pthread_mutex_lock(&gate);
    for (int i = 0; i < config.desks; i++) /* each thread has one in its hands */
        assert_true(desk_submit(desk, job_new(10 * TIME_US_PER_S)));
    struct mono_time start = mono_now();
    assert_true(desk_submit(desk, job_new(10 * TIME_US_PER_S)));
    assert_true(desk_submit(desk, job_new(100 * TIME_US_PER_MS)));
    while (desk_outstanding(desk) > config.desks + 1)
        sleep_us(TIME_US_PER_MS);
    assert_true(mono_now().us - start.us < 5 * (int64_t)TIME_US_PER_S); /* the others have 10 s */
    assert_int_equal(failed_with, HF_OVERLOADED);
    pthread_mutex_unlock(&gate);
    desk_stop(&desk, soon());
    assert_int_equal(ran, config.desks + 1);
}

static struct desk_job *
long_job_new(int64_t deadline_us)
{
    struct desk_job *job = job_new(deadline_us);
    job->is_long = true;
    return job;
}

static void
wait_for_outstanding(struct desk *desk, int64_t most)
{
    struct mono_time end = soon();
    while (desk_outstanding(desk) > most && mono_now().us < end.us)
        sleep_us(TIME_US_PER_MS);
    assert_true(desk_outstanding(desk) <= most);
}

static void
while_the_store_is_known_to_be_away_nothing_waits(void **state)
{
    (void)state;
    config.desk_queue_max = 20;
    struct desk *desk = desk_start(&node);
    pthread_mutex_lock(&gate);
    for (int i = 0; i < config.desks; i++) /* what hangs in Postgres */
        assert_true(desk_submit(desk, job_new(20 * (int64_t)TIME_US_PER_S)));
    while (atomic_load(&begun) < config.desks)
        sleep_us(TIME_US_PER_MS);
    for (int i = 0; i < 10; i++)
        assert_true(desk_submit(desk, i % 2 == 0 ? job_new(20 * (int64_t)TIME_US_PER_S)
                                                 : long_job_new(20 * (int64_t)TIME_US_PER_S)));
    sleep_us(100 * TIME_US_PER_MS);
    assert_int_equal(failed, 0);
    engine_says_up = false;
    struct mono_time start = mono_now();
    wait_for_outstanding(desk, config.desks);
    assert_true(mono_now().us - start.us < 5 * (int64_t)TIME_US_PER_S);
    assert_int_equal(failed, 10);
    assert_int_equal(failed_with, HF_STORE_UNAVAILABLE);
    pthread_mutex_unlock(&gate);
    wait_for_outstanding(desk, 0);
    assert_true(
        desk_submit(desk, job_new(10 * TIME_US_PER_S))); /* and with threads that are free */
    wait_for_outstanding(desk, 0);
    assert_int_equal(failed, 11);
    assert_int_equal(ran, config.desks);
    desk_stop(&desk, soon());
}

/* Long ones in the gate: a job that is not long must go past them. */
static void
long_jobs_leave_a_thread_to_the_others(void **state)
{
    (void)state;
    config.desk_queue_max = 20;
    for (config.desks = 2; config.desks <= 4; config.desks++) {
        struct desk *desk = desk_start(&node);
        ran = 0;
        pthread_mutex_lock(&gate);
        for (int i = 0; i < config.desks + 2; i++)
            assert_true(desk_submit(desk, long_job_new(10 * TIME_US_PER_S)));
        sleep_us(50 * TIME_US_PER_MS);
        for (int i = 0; i < 5; i++) {
            struct desk_job *job = job_new(10 * TIME_US_PER_S);
            job->run = quick_run;
            assert_true(desk_submit(desk, job));
        }
        wait_for_outstanding(desk, config.desks + 2);
        assert_int_equal(ran, 5);
        pthread_mutex_unlock(&gate);
        wait_for_outstanding(desk, 0);
        assert_int_equal(ran, config.desks + 2 + 5); /* and the long ones have had their turn */
        desk_stop(&desk, soon());
    }
}

static void
a_long_job_that_waits_for_its_turn_is_answered_when_its_time_is_up(void **state)
{
    (void)state;
    struct desk *desk = desk_start(&node);
    pthread_mutex_lock(&gate);
    assert_true(desk_submit(desk, long_job_new(10 * TIME_US_PER_S)));
    assert_true(desk_submit(desk, long_job_new(100 * TIME_US_PER_MS)));
    wait_for_outstanding(desk, 1);
    assert_int_equal(failed_with, HF_OVERLOADED);
    pthread_mutex_unlock(&gate);
    desk_stop(&desk, soon());
    assert_int_equal(ran, 1);
}

static _Atomic int ran_before_late;
static _Atomic int64_t late_ran_us;

static void
late_run(struct desk_job *job, struct desk_tools *tools)
{
    atomic_store(&ran_before_late, ran);
    atomic_store(&late_ran_us, mono_now().us);
    quick_run(job, tools);
}

static void
a_job_that_is_not_to_run_yet_waits_and_others_go_past_it(void **state)
{
    (void)state;
    struct desk *desk = desk_start(&node);
    struct desk_job *job = job_new(10 * TIME_US_PER_S);
    struct mono_time start = mono_now();

    job->not_before.us = start.us + TIME_US_PER_S;
    job->run = late_run;
    assert_true(desk_submit(desk, job));
    assert_true(desk_submit(desk, job_new(10 * TIME_US_PER_S)));
    wait_for_outstanding(desk, 0);
    assert_int_equal(ran_before_late, 1);
    assert_true(late_ran_us - start.us >= TIME_US_PER_S);
    assert_int_equal(ran, 2);
    desk_stop(&desk, soon());
}

static void
a_job_that_is_not_to_run_yet_is_answered_by_its_deadline_and_at_the_end(void **state)
{
    (void)state;
    struct desk *desk = desk_start(&node);
    for (int i = 0; i < 2; i++) {
        struct desk_job *job = job_new(i == 0 ? 50 * TIME_US_PER_MS : 20 * TIME_US_PER_S);
        job->not_before.us = mono_now().us + 20 * TIME_US_PER_S;
        assert_true(desk_submit(desk, job));
    }
    wait_for_outstanding(desk, 1);
    assert_int_equal(failed_with, HF_OVERLOADED);
    desk_stop(&desk, mono_now());
    assert_int_equal(failed, 2);
    assert_int_equal(ran, 0);
}

static void
a_thread_without_jobs_looks_after_its_connection(void **state)
{
    (void)state;
    struct desk *desk = desk_start(&node);
    struct mono_time end = soon();
    while (atomic_load(&looks) < 3 * config.desks && mono_now().us < end.us)
        sleep_us(TIME_US_PER_MS);
    assert_true(atomic_load(&looks) >= 3 * config.desks);
    desk_stop(&desk, soon());
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        CASE(jobs_run_and_stop_waits_for_them),
        CASE(a_full_queue_says_no_and_the_job_stays_the_callers),
        CASE(a_job_past_its_deadline_fails_as_overloaded),
        CASE(without_postgres_a_job_fails_as_store_unavailable),
        CASE(a_job_waits_for_a_connection_no_longer_than_its_deadline),
        CASE(a_job_behind_others_that_take_long_is_answered_when_its_time_is_up),
        CASE(while_the_store_is_known_to_be_away_nothing_waits),
        CASE(long_jobs_leave_a_thread_to_the_others),
        CASE(a_long_job_that_waits_for_its_turn_is_answered_when_its_time_is_up),
        CASE(a_job_that_is_not_to_run_yet_waits_and_others_go_past_it),
        CASE(a_job_that_is_not_to_run_yet_is_answered_by_its_deadline_and_at_the_end),
        CASE(a_thread_without_jobs_looks_after_its_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
