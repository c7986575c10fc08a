/*
 * Many threads on few seats, for ThreadSanitizer: a claim keeps all others out, and no
 * parked request is lost.
 *
 * A claim works as a lock of its seat: each seat has a plain counter that only the owner of
 * the claim touches, so two owners at once are a data race and a wrong sum.
 */
#include "hot_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREADS  4
#define SEATS    3
#define REQUESTS 20000 /* of each thread */
#define TIMES    100   /* until which requests wait */

struct request {
    struct hot_waiter waiter; /* first: a waiter is its request */
    struct request *next;
    int seat;
};

struct shared {
    struct hot_table *table;
    int64_t entered[SEATS]; /* guarded by the claim of the seat */
    _Atomic int64_t version[SEATS];
    _Atomic int64_t claimed;
    _Atomic int64_t parked;
    _Atomic int64_t finished;
    _Atomic int64_t db_us;
    _Atomic bool stop;
    pthread_mutex_t lock; /* guards back */
    struct request *back; /* parked requests that were handed back */
};

struct worker {
    struct shared *shared;
    uint64_t random;
    struct request *requests;
    pthread_t thread;
};

static const char *const seat_names[SEATS] = { "A1", "A2", "A3" };

static void
hand_back(struct shared *shared, struct hot_waiter *waiter)
{
    while (waiter != NULL) {
        struct request *request = (struct request *)waiter;
        waiter = waiter->next;
        pthread_mutex_lock(&shared->lock);
        request->next = shared->back;
        shared->back = request;
        pthread_mutex_unlock(&shared->lock);
    }
}

static struct request *
take_back(struct shared *shared)
{
    pthread_mutex_lock(&shared->lock);
    struct request *request = shared->back;
    if (request != NULL) {
        shared->back = request->next;
    }
    pthread_mutex_unlock(&shared->lock);
    return request;
}

/* What the owner of a claim does: counts itself in, and settles or drops. */
static void
own(struct shared *shared, uint64_t *random, int seat)
{
    shared->entered[seat]++;
    if (random_below(random, 16) == 0) {
        (void)sched_yield(); /* lets others meet the claim, also on a machine of few cores */
    }
    struct seat_key key = seat_of_show(seat_names[seat]);
    int64_t until_us = atomic_load(&shared->db_us) + random_below(random, 50 * MS);
    struct seat_view view = view_held(atomic_fetch_add(&shared->version[seat], 1) + 1,
                                      1 + (uint64_t)random_below(random, 2), db_at(until_us));
    bool committed = random_below(random, 3) != 0;
    struct hot_waiter *waiters;
    hot_table_settle(shared->table, &key, committed ? &view : NULL, mono_at(0), true, &waiters);
    hand_back(shared, waiters);
}

static void
run(struct shared *shared, uint64_t *random, struct request *request)
{
    struct seat_key key = seat_of_show(seat_names[request->seat]);
    struct seat_view view;
    request->waiter.until = mono_at(random_below(random, TIMES));
    enum hot_answer answer = hot_table_claim(
        shared->table, &key, 1 + (uint64_t)random_below(random, 2), random_below(random, 4) == 0,
        db_at(atomic_load(&shared->db_us)), ERROR_US, mono_at(0), &request->waiter, &view);
    switch (answer) {
    case HOT_PARKED:
        atomic_fetch_add(&shared->parked, 1);
        return; /* it isn't ours any more */
    case HOT_CLAIMED:
        atomic_fetch_add(&shared->claimed, 1);
        own(shared, random, request->seat);
        break;
    case HOT_REFUSED:
    case HOT_FULL:
        break;
    }
    atomic_fetch_add(&shared->finished, 1);
}

/* Other users of the same seats meanwhile. */
static void
disturb(struct shared *shared, uint64_t *random)
{
    int seat = (int)random_below(random, SEATS);
    struct seat_key key = seat_of_show(seat_names[seat]);
    struct db_time now = db_at(atomic_load(&shared->db_us));
    struct seat_view view =
        view_of((enum seat_status)random_below(random, 5), atomic_load(&shared->version[seat]));
    switch (random_below(random, 7)) {
    case 0:
        hot_table_learn(shared->table, &key, &view, mono_at(0), false);
        break;
    case 1: {
        uint64_t count = hot_table_change_count(shared->table, &key);
        (void)hot_table_fill(shared->table, &key, &view, mono_at(0), count);
        break;
    }
    case 2:
        (void)hot_table_read(shared->table, &key, now, ERROR_US, mono_at(0), &view);
        break;
    case 3:
        (void)hot_table_refuses(shared->table, &key, ANNA, now, ERROR_US, mono_at(0), &view);
        break;
    case 4:
        hot_table_set_trusted(shared->table, random_below(random, 2) == 0);
        break;
    case 5: {
        struct hot_waiter *late;
        hot_table_take_late(shared->table, mono_at(random_below(random, TIMES)), &late);
        hand_back(shared, late);
        break;
    }
    default: {
        struct hot_numbers numbers;
        hot_table_numbers(shared->table, &numbers);
        (void)hot_table_count_held(shared->table, key.org, key.event, now);
        break;
    }
    }
}

static void *
worker_main(void *arg)
{
    struct worker *worker = arg;
    struct shared *shared = worker->shared;
    for (int i = 0; i < REQUESTS; i++) {
        worker->requests[i].seat = (int)random_below(&worker->random, SEATS);
        run(shared, &worker->random, &worker->requests[i]);
        disturb(shared, &worker->random);
        struct request *request;
        while ((request = take_back(shared)) != NULL) {
            run(shared, &worker->random, request);
        }
    }
    return NULL;
}

static void *
ticker_main(void *arg)
{
    struct worker *worker = arg;
    struct shared *shared = worker->shared;
    struct hot_due due[4];
    while (!atomic_load(&shared->stop)) {
        int64_t step_us = random_below(&worker->random, 20 * MS) - 2 * MS;
        struct db_time now = db_at(atomic_fetch_add(&shared->db_us, step_us) + step_us);
        int count = hot_table_tick(shared->table, now, due, 4);
        for (int i = 0; i < count; i++) {
            assert_true(due[i].held_until.us <= now.us);
            struct seat_key key = seat_of_show(due[i].seat);
            hot_table_rearm(shared->table, &key, &due[i].hold_id, db_at(now.us + 5 * MS));
        }
        (void)sched_yield();
    }
    return NULL;
}

static void
worker_start(struct worker *worker, struct shared *shared, uint64_t seed, void *(*work)(void *))
{
    worker->shared = shared;
    worker->random = seed;
    worker->requests = calloc(REQUESTS, sizeof(*worker->requests));
    assert_non_null(worker->requests);
    assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static void
claims_keep_others_out_and_no_parked_request_is_lost(void **state)
{
    (void)state;
    uint64_t seed = seed_printed("claims_keep_others_out_and_no_parked_request_is_lost");
    struct hot_table_limits limits = limits_usual();
    limits.shards = 2;
    limits.seats_max = SEATS; /* so that adding and evicting meet, too */
    (void)mono_at(0);         /* its base is set before the threads begin */
    struct shared shared = { .table = table_with(limits), .lock = PTHREAD_MUTEX_INITIALIZER };
    struct worker workers[THREADS], ticker;
    worker_start(&ticker, &shared, seed, ticker_main);
    for (int i = 0; i < THREADS; i++) {
        worker_start(&workers[i], &shared, seed + (uint64_t)i + 1, worker_main);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    }
    /* The last settle of one thread may have handed back what no thread looked for any more. */
    struct request *request;
    while ((request = take_back(&shared)) != NULL) {
        run(&shared, &seed, request);
    }
    atomic_store(&shared.stop, true);
    assert_int_equal(pthread_join(ticker.thread, NULL), 0);

    printf("%lld claims, %lld times parked\n", (long long)atomic_load(&shared.claimed),
           (long long)atomic_load(&shared.parked));
    assert_int_equal(atomic_load(&shared.finished), THREADS * REQUESTS);
    int64_t entered = 0;
    for (int i = 0; i < SEATS; i++) {
        entered += shared.entered[i];
    }
    assert_int_equal(entered, atomic_load(&shared.claimed));
    assert_int_equal(numbers_of(shared.table).claims, 0);
    assert_int_equal(numbers_of(shared.table).parked, 0);
    table_end(shared.table);
    for (int i = 0; i < THREADS; i++) {
        free(workers[i].requests);
    }
    free(ticker.requests);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_keep_others_out_and_no_parked_request_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
