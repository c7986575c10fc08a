/*
 * A worker without a connection, and one in doubt: what it does with the ops that it has, and when
 * it lets others have them. The engine is real; Postgres is what this file says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "engine_internal.h"

#define TIMEOUT_US (1 * (int64_t)TIME_US_PER_S)
#define OPS_MAX    8

/* --- Postgres ----------------------------------------------------------------------------- */

struct pg {
    struct worker *worker;
    bool is_away;                /* no connection can be opened */
    enum pg_outcome outcomes[4]; /* of the transactions, one after the other */
    int transactions;            /* that were begun */
    bool is_committed;           /* what becomes known of a lost outcome; else nothing does */
    struct uuid ids[4];          /* of those */
    void (*on_connect)(struct worker *worker);
};

static struct pg pg;

struct pg *
pg_new(const struct config *pg_config, const char *application_name, struct pg_identity *identity,
       struct db_clock *clock)
{
    (void)pg_config, (void)application_name, (void)identity, (void)clock;
    return NULL;
}

void
pg_free(struct pg **self)
{
    *self = NULL;
}

bool
pg_ready_until(struct pg *self, struct mono_time deadline)
{
    (void)deadline;
    if (!self->is_away && self->on_connect != NULL)
        self->on_connect(self->worker);
    return !self->is_away;
}

bool
pg_is_connected(const struct pg *self)
{
    return !self->is_away;
}

void
pg_drop(struct pg *self)
{
    (void)self;
}

enum pg_outcome
pg_run(struct pg *self, enum pg_statement statement, const struct pg_params *params,
       struct mono_time deadline, struct pg_result **result)
{
    (void)self, (void)statement, (void)params, (void)deadline;
    *result = NULL;
    return PG_UNAVAILABLE;
}

enum pg_outcome
pg_replan(struct pg *self)
{
    (void)self;
    return PG_DONE;
}

enum pg_outcome
pg_settle_outcome(struct pg *self, const struct uuid *batch_id, struct mono_time deadline,
                  bool *committed)
{
    (void)batch_id, (void)deadline;
    *committed = self->is_committed;
    return self->is_committed ? PG_DONE : PG_UNAVAILABLE;
}

const char *
pg_last_error(const struct pg *self)
{
    (void)self;
    return "";
}

const char *
pg_last_sqlstate(const struct pg *self)
{
    (void)self;
    return "22003";
}

void
pg_tx_begin(struct pg *self, const struct uuid *batch_id, struct mono_time deadline)
{
    (void)deadline;
    self->ids[self->transactions] = *batch_id;
}

void
pg_tx_send(struct pg *self, enum pg_statement statement, const struct pg_params *params)
{
    (void)self, (void)statement, (void)params;
}

void
pg_tx_flush(struct pg *self)
{
    (void)self;
}

void
pg_tx_commit(struct pg *self)
{
    (void)self;
}

void
pg_tx_rollback(struct pg *self)
{
    (void)self;
}

struct pg_result *
pg_tx_next(struct pg *self)
{
    (void)self;
    return NULL;
}

enum pg_outcome
pg_tx_end(struct pg *self)
{
    assert_in_range(self->transactions, 0, 3);
    return self->outcomes[self->transactions++];
}

/* --- a node with one worker ------------------------------------------------------------------ */

static struct config config;
static struct node node;
static struct engine engine;
static struct worker worker;
static struct op *hands[OPS_MAX];
static struct op ops[OPS_MAX];
static int answered;

static void
finish(struct op *op)
{
    (void)op;
}

static void
count(struct op *op)
{
    (void)op;
    answered++;
}

static int
set_up(void **state)
{
    (void)state;
    struct hot_table_limits limits = { .shards = 1, .seats_max = 10, .parked_max = 10 };
    config = (struct config){ .request_timeout = TIMEOUT_US, .batch_max = OPS_MAX };
    node =
        (struct node){ .config = &config, .hot = hot_table_new(&limits), .maps = seat_maps_new(1) };
    node.feed = feed_new(&node, 65536);
    engine = (struct engine){ .node = &node, .worker_count = 2, .queue = op_queue_new(100) };
    engine.node->engine = &engine;
    pg = (struct pg){ .worker = &worker };
    worker = (struct worker){
        .engine = &engine, .node = &node, .pg = &pg, .random = 1, .batch_max = OPS_MAX, .ops = hands
    };
    answered = 0;
    for (int i = 0; i < OPS_MAX; i++) {
        ops[i] = (struct op){ .kind = OP_EXTEND,
                              .hold_id = uuid_v7_new(),
                              .received = mono_now(),
                              .finish = finish,
                              .send = count };
        ops[i].deadline.us = ops[i].received.us + 20 * TIMEOUT_US;
    }
    return node.hot == NULL || node.maps == NULL || node.feed == NULL || engine.queue == NULL;
}

static int
tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < ENGINE_ARRAYS; i++)
        pg_array_fini(&worker.arrays[i]);
    while (op_queue_gather(engine.queue, hands, OPS_MAX, mono_now()) > 0)
        ;
    op_queue_free(&engine.queue);
    feed_free(&node.feed);
    hot_table_free(&node.hot);
    seat_maps_free(&node.maps);
    return 0;
}

static void
push(struct op *op)
{
    engine.outstanding++;
    assert_true(op_queue_push(engine.queue, op));
}

/* --- down ----------------------------------------------------------------------------------------
 */

/* Another worker comes up just as this one refuses what it found, and there is always more. */
static void
another_is_up_now(struct op *op)
{
    (void)op;
    answered++;
    engine.workers_up = 1;
    pg.is_away = false;
    for (int i = 1; i < OPS_MAX; i++)
        push(&ops[i]);
}

static void
is_back(struct worker *self)
{
    (void)self;
    op_queue_close(engine.queue);
    pg.on_connect = NULL;
    /* What is left is the other one's: the queue is over. */
    struct op *rest[OPS_MAX];
    while (op_queue_gather(engine.queue, rest, OPS_MAX, mono_now()) > 0)
        ;
}

/* The test ends only if the worker does not hold on to a queue that is never empty. */
static void
one_that_is_down_connects_again_though_the_queue_never_runs_empty(void **state)
{
    (void)state;
    pg.is_away = true;
    pg.on_connect = is_back;
    ops[0].send = another_is_up_now;
    push(&ops[0]);
    struct mono_time start = mono_now();
    worker_main(&worker);
    assert_true(mono_now().us - start.us < 5 * (int64_t)TIME_US_PER_S);
    assert_int_equal(ops[0].status, HF_STORE_UNAVAILABLE);
    assert_int_equal(answered, 1);
    assert_true(worker.up);
    assert_int_equal(engine.workers_up, 2);
}

static void
it_is_no_trouble_of_the_store_while_others_work(void **state)
{
    (void)state;
    pg.is_away = true;
    pg.on_connect = is_back;
    engine.workers_up = 1; /* this one isn't counted: it never was up */
    op_queue_close(engine.queue);
    worker_main(&worker);
    assert_int_equal(engine.trouble_us, 0);
}

/* --- in doubt ------------------------------------------------------------------------ */

/*
 * Two that fail together run one by one; the outcome of the first is lost, and its time runs out.
 * The second may not run on this worker: if that outcome were lost as well, nobody would ever learn
 * the first.
 */
static void
one_in_doubt_runs_nothing_more(void **state)
{
    (void)state;
    struct op *both[2] = { &ops[0], &ops[1] };
    pg.outcomes[0] = PG_DATA_ERROR;
    pg.outcomes[1] = pg.outcomes[2] = PG_UNKNOWN;
    worker.up = true;
    engine.workers_up = 2;
    engine.outstanding = 2;
    ops[0].deadline.us = mono_now().us + TIMEOUT_US / 2;
    ops[1].deadline.us = mono_now().us + 20 * TIMEOUT_US;
    batch_run(&worker, both, 2);
    assert_int_equal(pg.transactions, 2);
    assert_int_equal(answered, 1);
    assert_int_equal(ops[0].status, HF_OUTCOME_UNKNOWN);
    assert_true(worker.in_doubt);
    assert_memory_equal(&worker.doubt, &pg.ids[1], sizeof(worker.doubt));
    assert_int_equal(node.doubts, 1);
    assert_int_equal(engine.workers_up, 1);
    assert_int_equal(op_queue_gather(engine.queue, hands, OPS_MAX, mono_now()), 1);
    assert_ptr_equal(hands[0], &ops[1]);
}

/* --- best seats -------------------------------------------------------------------------- */

static struct op_best best;
static struct op_seat chosen;
static char chosen_ids[1][ID_BYTES_MAX + 1] = { "A-1" };

/* It has a seat, and lost the race for it. */
static struct op *
lost_best(void)
{
    best = (struct op_best){ .quantity = 1, .ids = chosen_ids, .is_lost = true };
    chosen = (struct op_seat){ .id = slice_of("A-1"), .expect_version = -1 };
    ops[0].kind = OP_HOLD;
    ops[0].best = &best;
    ops[0].seats = &chosen;
    ops[0].seat_count = 1;
    engine.outstanding = 1;
    return &ops[0];
}

/* Else it would take other seats beside those that it may have. */
static void
a_loss_is_forgotten_when_the_next_transaction_begins(void **state)
{
    (void)state;
    struct op *op = lost_best();
    pg.outcomes[0] = PG_UNKNOWN;
    pg.is_committed = true;
    worker.up = true;
    batch_run(&worker, &op, 1);
    assert_true(op->may_have_run);
    assert_int_equal(op->seat_count, 1);
    assert_int_equal(best.losses, 0);
}

static void
what_committed_without_its_seats_has_not_run(void **state)
{
    (void)state;
    struct op *op = lost_best();
    struct batch batch = { .worker = &worker, .ops = &op, .count = 1 };
    batch_run_again(&batch, true);
    assert_false(op->may_have_run);
    assert_int_equal(op->seat_count, 0);
    assert_int_equal(best.losses, 1);
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(one_that_is_down_connects_again_though_the_queue_never_runs_empty),
        CASE(it_is_no_trouble_of_the_store_while_others_work),
        CASE(one_in_doubt_runs_nothing_more),
        CASE(a_loss_is_forgotten_when_the_next_transaction_begins),
        CASE(what_committed_without_its_seats_has_not_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
