/*
 * wire.c - connections that break, and the backends of the fake Postgres behind them.
 *
 * Messages go one way over a wire, answers come the other, each takes a while, in order. At its far
 * end a backend (a fiber) takes one message after the other. When the wire is cut, what has arrived
 * by then is still worked on, also a COMMIT; what arrives later is lost, and so is every answer.
 * The backend finds out some time later; until then its transaction lives on.
 */
#include "wire.h"

#include <stdlib.h>

#include "faults.h"
#include "sim.h"

#define LOCK_TIMEOUT_US (500 * MS)
#define IDLE_IN_TX_US   (2 * S) /* then the server ends the session */

static struct wire *wires;

/* --- wires ---------------------------------------------------------------- */

static void *backend_main(void *argument);

struct wire *
wire_open(void)
{
    struct wire *wire = calloc(1, sizeof(*wire));

    hf_assert(wire != NULL);
    wire->group = fiber_group();
    wire->messages_end = &wire->messages;
    wire->answers_end = &wire->answers;
    wire->cut_us = wire->noticed_us = NEVER;
    wire->next = wires;
    wires = wire;
    fiber_start("backend", GROUP_STORE, 0, backend_main, wire);
    return wire;
}

void
wire_cut(struct wire *wire, int64_t at_us, bool silent)
{
    if (wire->cut_us <= at_us)
        return;
    wire->cut_us = at_us;
    wire->silent = silent;
    wire->noticed_us = at_us + chance_below(faults.outlive_us + 1);
    fiber_wake_all(&wire->messages);
    fiber_wake_all(&wire->answers);
}

void
wire_send(struct wire *wire, struct message *message)
{
    int64_t arrives_us = sim_now_us() + chance_delay(faults.trip_us / 4, faults.trip_us);

    if (arrives_us < wire->last_message_us)
        arrives_us = wire->last_message_us;
    wire->last_message_us = message->arrives_us = arrives_us;
    *wire->messages_end = message;
    wire->messages_end = &message->next;
    fiber_wake_all(&wire->messages);
}

struct message *
message_new(enum message_kind kind)
{
    struct message *message = calloc(1, sizeof(*message));

    hf_assert(message != NULL);
    message->kind = kind;
    return message;
}

static struct answer *
answer_new(enum answer_kind kind, const char *state)
{
    struct answer *answer = calloc(1, sizeof(*answer));

    hf_assert(answer != NULL);
    answer->kind = kind;
    answer->state = state;
    return answer;
}

static void
wire_answer(struct wire *wire, struct answer *answer)
{
    int64_t arrives_us = sim_now_us() + chance_delay(faults.trip_us / 4, faults.trip_us);

    if (arrives_us < wire->last_answer_us)
        arrives_us = wire->last_answer_us;
    wire->last_answer_us = answer->arrives_us = arrives_us;
    *wire->answers_end = answer;
    wire->answers_end = &answer->next;
    fiber_wake_all(&wire->answers);
}

/* --- the backend ---------------------------------------------------------- */

/* When the session ends of itself: idle in a transaction, or its client is gone. */
static int64_t
patience_ends(const struct wire *wire, int64_t since_us)
{
    int64_t end_us = wire->noticed_us;

    if (wire->tx != NULL && since_us + IDLE_IN_TX_US < end_us)
        end_us = since_us + IDLE_IN_TX_US;
    return end_us;
}

/* The next message that has arrived; NULL: the session is over. */
static struct message *
backend_next(struct wire *wire)
{
    int64_t since_us = sim_now_us();

    for (;;) {
        struct message *first = wire->messages;
        int64_t now_us = sim_now_us(), end_us = patience_ends(wire, since_us);
        bool lost = first == NULL || first->arrives_us > wire->cut_us;
        if (wire->killed || now_us >= end_us)
            return NULL;
        if (!lost && first->arrives_us <= now_us)
            break;
        if (!lost && first->arrives_us < end_us)
            end_us = first->arrives_us;
        fiber_wait(&wire->messages, end_us);
    }
    struct message *message = wire->messages;
    wire->messages = message->next;
    if (wire->messages == NULL)
        wire->messages_end = &wire->messages;
    return message;
}

static void
fail(struct wire *wire, const char *state)
{
    wire->failed = true;
    wire_answer(wire, answer_new(A_ERROR, state));
}

static const char *
chance_error(void)
{
    if (chance_one_in(faults.repeat_one_in))
        return "40P01";
    return chance_one_in(faults.data_error_one_in) ? "P0001" : NULL;
}

static void
serve_statement(struct wire *wire, const struct call *call)
{
    const char *state = chance_error();
    struct pg_result *rows = NULL;

    if (!wire->failed && state == NULL)
        rows = store_run(wire->tx, call, &state);
    if (wire->failed)
        state = "25P02";
    if (rows == NULL || wire->killed) { /* killed while it waited for a lock: it is over anyway */
        pg_result_free(&rows);
        fail(wire, state != NULL ? state : "57014");
        return;
    }
    struct answer *answer = answer_new(A_ROWS, NULL);
    answer->rows = rows;
    wire_answer(wire, answer);
}

static void
serve_commit(struct wire *wire)
{
    struct answer *answer = answer_new(wire->failed ? A_ROLLED_BACK : A_COMMITTED, NULL);

    if (wire->failed)
        tx_abort(wire->tx);
    else
        tx_commit(wire->tx);
    answer->tx = wire->tx;
    wire->tx = NULL;
    wire_answer(wire, answer);
}

static void
serve_run(struct wire *wire, const struct call *call)
{
    struct tx *tx = tx_begin(machine_of(wire->group));
    const char *state = NULL;
    struct answer *answer = answer_new(A_ROWS, NULL);

    answer->rows = store_run(tx, call, &state);
    if (answer->rows == NULL) {
        answer->kind = A_ERROR;
        answer->state = state;
        tx_abort(tx);
    } else {
        tx_commit(tx);
    }
    wire_answer(wire, answer);
}

/* "Did this batch commit?": takes the place of its id, and leaves a mark that it was a question. */
static void
serve_settle(struct wire *wire, const struct message *message)
{
    struct tx *tx = tx_begin(machine_of(wire->group));
    struct answer *answer = answer_new(A_ROWS, NULL);

    switch (tx_insert_batch(tx, &message->batch, true, message->timeout_us)) {
    case BATCH_IN:
        if (!tx_is_over(tx))
            tx_commit(tx);
        break;
    case BATCH_THERE:
        answer->tx = store_batch_owner(&message->batch);
        answer->told = answer->tx != NULL;
        tx_abort(tx);
        break;
    case BATCH_TIMEOUT:
        answer->kind = A_ERROR;
        answer->state = "55P03";
        tx_abort(tx);
        break;
    }
    wire_answer(wire, answer);
}

static void
serve_begin(struct wire *wire, const struct message *message)
{
    wire->tx = tx_begin(machine_of(wire->group));
    wire->failed = false;
    if (tx_insert_batch(wire->tx, &message->batch, false, LOCK_TIMEOUT_US) != BATCH_IN)
        fail(wire, "23505");
    else
        wire_answer(wire, answer_new(A_ROWS, NULL));
}

static void
serve(struct wire *wire, const struct message *message)
{
    switch (message->kind) {
    case M_BEGIN:
        serve_begin(wire, message);
        break;
    case M_STATEMENT:
        serve_statement(wire, message->call);
        break;
    case M_RUN:
        serve_run(wire, message->call);
        break;
    case M_COMMIT:
        serve_commit(wire);
        break;
    case M_ROLLBACK:
        tx_abort(wire->tx);
        wire->tx = NULL;
        wire_answer(wire, answer_new(A_ROLLED_BACK, NULL));
        break;
    case M_SETTLE:
        serve_settle(wire, message);
        break;
    }
}

static void
wire_close(struct wire *wire)
{
    for (struct wire **link = &wires; *link != NULL; link = &(*link)->next)
        if (*link == wire) {
            *link = wire->next;
            break;
        }
    wire_cut(wire, sim_now_us(), false);
}

static void *
backend_main(void *argument)
{
    struct wire *wire = argument;
    struct message *message;

    while ((message = backend_next(wire)) != NULL) {
        if (chance_one_in(faults.stall_one_in))
            fiber_sleep(chance_below(faults.stall_us));
        fiber_sleep(chance_between(20, 300)); /* the work itself; a commit's fsync */
        if (wire->killed)
            break;
        serve(wire, message);
        call_free(message->call);
        free(message);
    }
    if (wire->tx != NULL) {
        tx_abort(wire->tx);
        if (wire->cut_us > sim_now_us())
            wire_answer(wire, answer_new(A_FATAL, "57P01")); /* its last words, if they arrive */
        wire->tx = NULL;
    }
    if (wire->cut_us > wire->last_answer_us)
        wire_cut(wire, wire->last_answer_us + 1, false);
    wire_close(wire);
    return NULL;
}

/* --- what the world does -------------------------------------------------- */

void
cold_cut_group(int group)
{
    for (struct wire *wire = wires; wire != NULL; wire = wire->next)
        if (wire->group == group)
            wire_cut(wire, sim_now_us(), false);
}

void
cold_restart(int64_t away_us, bool another)
{
    trace("store: %s, away for %.3f s", another ? "fails over" : "restarts", (double)away_us / 1e6);
    store_abort_all();
    for (struct wire *wire = wires; wire != NULL; wire = wire->next) {
        wire->killed = true;
        wire->tx = NULL;
        wire_cut(wire, sim_now_us(), another && chance_one_in(3));
    }
    store.away_until_us = sim_now_us() + away_us;
    if (another) {
        store.identity++;
        store.clock_offset_us += chance_between(-15 * MS, 15 * MS); /* less than CLOCK_US */
    }
}

void
cold_partition(int machine, int64_t away_us)
{
    bool silent = chance_one_in(2);

    trace("store: out of reach of %s%d for %.3f s%s", machine == NOWHERE ? "all, " : "n",
          machine + 1, (double)away_us / 1e6, silent ? ", silently" : "");
    for (struct wire *wire = wires; wire != NULL; wire = wire->next)
        if (machine == NOWHERE || machine_of(wire->group) == machine)
            wire_cut(wire, sim_now_us(), silent);
    if (machine == NOWHERE)
        store.away_until_us = sim_now_us() + away_us;
    else
        store.lost_until_us[machine] = sim_now_us() + away_us;
}

void
cold_end_one_session(void)
{
    int64_t count = 0;

    for (struct wire *wire = wires; wire != NULL; wire = wire->next)
        count++;
    int64_t at = chance_below(count);
    for (struct wire *wire = wires; wire != NULL; wire = wire->next)
        if (at-- == 0) {
            wire->killed = true;
            fiber_wake_all(&wire->messages);
        }
}
