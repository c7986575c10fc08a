/*
 * fake_cold.c - the contract of cold.h at the client's end of a wire: sessions, transactions, and
 * what a lost answer means.
 */
#include <stdio.h>
#include <stdlib.h>

#include "faults.h"
#include "holdfast/lock.h"
#include "sim.h"
#include "wire.h"

#define BACKOFF_MIN_US   (50 * MS)
#define BACKOFF_MAX_US   (2 * S)
#define CLOCK_EVERY_US   (5 * S)
#define CONNECT_GIVES_UP (2 * S)
#define READY_US         (3 * S)
#define RESET_SEEN_US    (5 * MS)
#define STATE_BYTES      6

struct pg_identity {
    struct lock lock;
    int64_t known; /* 0: none yet */
    void (*changed)(void *context);
    void *context;
};

struct pg {
    struct pg_identity *identity;
    struct db_clock *clock;
    struct wire *wire; /* NULL: not connected */
    int64_t backoff_us, try_at_us, clock_at_us;
    char state[STATE_BYTES + 1];
    const char *error;

    /* the transaction that is open */
    bool open, closed, end_sent, commit_sent, failed;
    enum pg_outcome failure;
    int sent, answered;  /* statements, BEGIN among them */
    int64_t deadline_us; /* in the world's time */
};

/* --- answers, at the client ----------------------------------------------- */

static void
note(struct pg *pg, const char *state, const char *error)
{
    snprintf(pg->state, sizeof(pg->state), "%s", state);
    pg->error = error;
}

void
pg_drop(struct pg *pg)
{
    if (pg->wire != NULL)
        wire_cut(pg->wire, sim_now_us(), false);
    pg->wire = NULL;
}

/* Perhaps this round trip is the wire's last. */
static void
maybe_cut(struct wire *wire, int64_t one_in)
{
    if (chance_one_in(one_in))
        wire_cut(wire, sim_now_us() + chance_below(3 * faults.trip_us),
                 chance_one_in(faults.silent_one_in));
}

/* When the client finds out about a cut by itself. */
static int64_t
reset_seen_us(const struct wire *wire)
{
    return wire->silent || wire->cut_us == NEVER ? NEVER : wire->cut_us + RESET_SEEN_US;
}

/* The next answer; NULL: the connection is lost (and dropped). */
static struct answer *
next_answer(struct pg *pg, int64_t deadline_us)
{
    struct wire *wire = pg->wire;

    while (wire != NULL) {
        struct answer *first = wire->answers;
        int64_t now_us = sim_now_us(), end_us = deadline_us;
        int64_t reset_us = reset_seen_us(wire);
        if (first != NULL && first->arrives_us <= wire->cut_us) {
            if (first->arrives_us <= now_us)
                break;
            end_us = first->arrives_us < end_us ? first->arrives_us : end_us;
        }
        if (now_us >= deadline_us || now_us >= reset_us) {
            pg_drop(pg);
            note(pg, "", now_us >= deadline_us ? "no answer in time" : "connection reset");
            return NULL;
        }
        fiber_wait(&wire->answers, end_us < reset_us ? end_us : reset_us);
    }
    if (wire == NULL)
        return NULL;
    struct answer *answer = wire->answers;
    wire->answers = answer->next;
    if (wire->answers == NULL)
        wire->answers_end = &wire->answers;
    return answer;
}

static enum pg_outcome
outcome_of_state(const char *state)
{
    if (strncmp(state, "40", 2) == 0 || strcmp(state, "55P03") == 0 || strcmp(state, "57014") == 0)
        return PG_REPEAT;
    if (strncmp(state, "57P0", 4) == 0)
        return PG_UNAVAILABLE;
    if (strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0 ||
        strncmp(state, "P0", 2) == 0)
        return PG_DATA_ERROR;
    return PG_BUG;
}

/* --- transactions --------------------------------------------------------- */

static void
tx_fail(struct pg *pg, enum pg_outcome outcome)
{
    if (!pg->failed)
        pg->failure = outcome;
    pg->failed = true;
}

static void
tx_lost(struct pg *pg)
{
    tx_fail(pg, pg->commit_sent ? PG_UNKNOWN : PG_UNAVAILABLE);
}

void
pg_tx_begin(struct pg *pg, const struct uuid *batch_id, struct mono_time deadline)
{
    hf_assert(!pg->open);
    pg->open = true;
    pg->closed = pg->end_sent = pg->commit_sent = pg->failed = false;
    pg->sent = pg->answered = 0;
    pg->deadline_us = machine_sim_us(deadline);
    if (pg->wire == NULL) {
        tx_lost(pg);
        return;
    }
    struct message *message = message_new(M_BEGIN);
    message->batch = *batch_id;
    wire_send(pg->wire, message);
    pg->sent = 1;
}

void
pg_tx_send(struct pg *pg, enum pg_statement statement, const struct pg_params *params)
{
    hf_assert(pg->open && !pg->closed);
    if (pg->failed)
        return;
    struct message *message = message_new(M_STATEMENT);
    message->call = call_new(statement, params);
    wire_send(pg->wire, message);
    pg->sent++;
}

/* Messages leave at once here. */
void
pg_tx_flush(struct pg *pg)
{
    hf_assert(pg->open && !pg->closed);
}

void
pg_tx_commit(struct pg *pg)
{
    hf_assert(pg->open && !pg->closed);
    pg->closed = true;
    if (!pg->failed && sim_now_us() >= pg->deadline_us) {
        pg_drop(pg); /* so it never commits */
        note(pg, "", "the deadline passed before COMMIT");
        tx_lost(pg);
    }
    if (pg->failed)
        return;
    pg->commit_sent = pg->end_sent = true;
    wire_send(pg->wire, message_new(M_COMMIT));
    maybe_cut(pg->wire, faults.cut_commit_one_in);
}

void
pg_tx_rollback(struct pg *pg)
{
    hf_assert(pg->open && !pg->closed);
    pg->closed = true;
    if (pg->failed)
        return;
    pg->end_sent = true;
    wire_send(pg->wire, message_new(M_ROLLBACK));
}

/* NULL: the transaction has failed. */
static struct answer *
tx_answer(struct pg *pg)
{
    struct answer *answer = pg->failed ? NULL : next_answer(pg, pg->deadline_us);

    if (answer == NULL) {
        tx_lost(pg);
        return NULL;
    }
    pg->answered++;
    if (answer->kind != A_ERROR && answer->kind != A_FATAL)
        return answer;
    note(pg, answer->state, "said so");
    if (answer->kind == A_FATAL)
        pg_drop(pg);
    tx_fail(pg, outcome_of_state(answer->state));
    free(answer);
    return NULL;
}

/* The answer to BEGIN has no rows. */
static void
skip_opening(struct pg *pg)
{
    if (!pg->failed && pg->answered == 0)
        free(tx_answer(pg));
}

struct pg_result *
pg_tx_next(struct pg *pg)
{
    hf_assert(pg->open);
    skip_opening(pg);
    if (pg->failed)
        return NULL;
    hf_assert(pg->answered < pg->sent); /* more results than statements were asked for */
    maybe_cut(pg->wire, faults.cut_one_in);
    struct answer *answer = tx_answer(pg);
    struct pg_result *rows = answer != NULL ? answer->rows : NULL;
    free(answer);
    return rows;
}

/* After a failure: what is still to come, up to the end that was sent, or one that is sent now. */
static void
clean_up(struct pg *pg)
{
    struct answer *answer;

    if (pg->wire == NULL)
        return;
    if (pg->failure == PG_UNKNOWN) {
        pg_drop(pg);
        return;
    }
    if (!pg->end_sent)
        wire_send(pg->wire, message_new(M_ROLLBACK));
    while ((answer = next_answer(pg, pg->deadline_us)) != NULL) {
        bool last = answer->kind == A_ROLLED_BACK || answer->kind == A_COMMITTED;
        hf_assert(answer->kind != A_COMMITTED);
        pg_result_free(&answer->rows);
        free(answer);
        if (last)
            return;
    }
}

static void
read_rest(struct pg *pg)
{
    while (!pg->failed && pg->answered < pg->sent) {
        struct answer *answer = tx_answer(pg);
        if (answer != NULL)
            pg_result_free(&answer->rows);
        free(answer);
    }
    struct answer *end = pg->failed ? NULL : tx_answer(pg);
    if (end != NULL && pg->commit_sent)
        tx_was_told(end->tx);
    free(end);
}

enum pg_outcome
pg_tx_end(struct pg *pg)
{
    char state[sizeof(pg->state)];

    hf_assert(pg->open && pg->closed);
    read_rest(pg);
    memcpy(state, pg->state, sizeof(state));
    if (pg->failed)
        clean_up(pg);
    memcpy(pg->state, state, sizeof(state));
    pg->open = false;
    if (pg->failed && pg->failure == PG_UNKNOWN)
        trace("client: the outcome of a batch is lost");
    return pg->failed ? pg->failure : PG_DONE;
}

enum pg_outcome
pg_settle_outcome(struct pg *pg, const struct uuid *batch_id, struct mono_time deadline,
                  bool *committed)
{
    pg_drop(pg);
    if (!pg_ready_until(pg, deadline))
        return PG_UNAVAILABLE;
    struct message *message = message_new(M_SETTLE);
    message->batch = *batch_id;
    message->timeout_us = machine_sim_us(deadline) - sim_now_us() - 50 * MS;
    wire_send(pg->wire, message);
    maybe_cut(pg->wire, faults.cut_commit_one_in);
    struct answer *answer = next_answer(pg, machine_sim_us(deadline));
    enum pg_outcome outcome = PG_UNAVAILABLE;
    if (answer != NULL && answer->kind == A_ROWS) {
        *committed = answer->told;
        outcome = PG_DONE;
        trace("client: it %s", answer->told ? "committed" : "never will commit");
        if (answer->tx != NULL)
            tx_was_told(answer->tx);
    } else if (answer != NULL) {
        outcome = PG_REPEAT;
    }
    free(answer);
    return outcome;
}

/* --- single statements ---------------------------------------------------- */

static bool
writes(enum pg_statement statement)
{
    return statement == STATEMENT_NODE_JOIN || statement == STATEMENT_NODE_HEARTBEAT ||
           statement == STATEMENT_NODE_LEAVE;
}

enum pg_outcome
pg_run(struct pg *pg, enum pg_statement statement, const struct pg_params *params,
       struct mono_time deadline, struct pg_result **result)
{
    hf_assert(!pg->open);
    if (result != NULL)
        *result = NULL;
    if (pg->wire == NULL)
        return PG_UNAVAILABLE;
    struct message *message = message_new(M_RUN);
    message->call = call_new(statement, params);
    wire_send(pg->wire, message);
    maybe_cut(pg->wire, faults.cut_one_in);
    struct answer *answer = next_answer(pg, machine_sim_us(deadline));
    if (answer == NULL)
        return writes(statement) ? PG_UNKNOWN : PG_UNAVAILABLE;
    enum pg_outcome outcome = PG_DONE;
    if (answer->kind != A_ROWS) {
        note(pg, answer->state, "said so");
        outcome = outcome_of_state(answer->state);
    }
    if (result != NULL)
        *result = answer->rows;
    else
        pg_result_free(&answer->rows);
    free(answer);
    return outcome;
}

enum pg_outcome
pg_replan(struct pg *pg)
{
    return pg->wire != NULL ? PG_DONE : PG_UNAVAILABLE;
}

/* --- connecting ----------------------------------------------------------- */

struct pg_identity *
pg_identity_new(void)
{
    struct pg_identity *identity = calloc(1, sizeof(*identity));

    hf_assert(identity != NULL);
    lock_init(&identity->lock, LOCK_IDENTITY);
    return identity;
}

void
pg_identity_free(struct pg_identity **identity)
{
    free(*identity);
    *identity = NULL;
}

int64_t
pg_identity_system(struct pg_identity *identity)
{
    lock_take(&identity->lock);
    int64_t known = identity->known;
    lock_drop(&identity->lock);
    return known;
}

/* Each database of ours has an identifier of its own. */
int64_t
pg_identity_timeline(struct pg_identity *identity)
{
    (void)identity;
    return 1;
}

void
pg_identity_on_change(struct pg_identity *identity, void (*changed)(void *context), void *context)
{
    identity->changed = changed;
    identity->context = context;
}

static void
identity_saw(struct pg *pg, int64_t seen)
{
    struct pg_identity *identity = pg->identity;

    lock_take(&identity->lock);
    bool another = identity->known != 0 && identity->known != seen;
    identity->known = seen;
    if (another) {
        db_clock_reset(pg->clock);
        if (identity->changed != NULL)
            identity->changed(identity->context);
    }
    lock_drop(&identity->lock);
}

struct pg *
pg_new(const struct config *config, const char *application_name, struct pg_identity *identity,
       struct db_clock *clock)
{
    struct pg *pg = calloc(1, sizeof(*pg));

    (void)config;
    (void)application_name;
    hf_assert(pg != NULL);
    pg->identity = identity;
    pg->clock = clock;
    pg->error = "";
    return pg;
}

void
pg_free(struct pg **pg)
{
    if (*pg == NULL)
        return;
    pg_drop(*pg);
    free(*pg);
    *pg = NULL;
}

static bool
observe_clock(struct pg *pg, struct mono_time deadline)
{
    for (int i = 0; i < 2; i++) {
        struct pg_params params;
        struct pg_result *rows = NULL;
        struct mono_time sent = mono_now();
        pg_params_init(&params);
        if (pg_run(pg, STATEMENT_READ_CLOCK, &params, deadline, &rows) != PG_DONE)
            return false;
        db_clock_observe(pg->clock, sent, mono_now(), pg_get_time(rows, 0, 0));
        pg_result_free(&rows);
    }
    pg->clock_at_us = sim_now_us();
    return true;
}

/* Never past the deadline. */
static void
sleep_until_at_most(int64_t us, struct mono_time deadline)
{
    int64_t left_us = machine_sim_us(deadline) - sim_now_us();

    fiber_sleep(us < left_us ? us : left_us);
}

static bool
connect_once(struct pg *pg, struct mono_time deadline)
{
    sleep_until_at_most(chance_delay(faults.trip_us, 4 * faults.trip_us), deadline);
    if (sim_now_us() < store.away_until_us || sim_now_us() < store.lost_until_us[machine_here()]) {
        if (chance_one_in(4)) /* nobody refuses: it takes a time-out */
            sleep_until_at_most(CONNECT_GIVES_UP, deadline);
        return false;
    }
    if (sim_now_us() >= machine_sim_us(deadline))
        return false;
    int64_t identity = store.identity;
    pg->wire = wire_open();
    identity_saw(pg, identity);
    return observe_clock(pg, deadline);
}

static void
back_off(struct pg *pg)
{
    pg_drop(pg);
    note(pg, "", "can't connect");
    pg->backoff_us = pg->backoff_us == 0 ? BACKOFF_MIN_US : pg->backoff_us * 2;
    if (pg->backoff_us > BACKOFF_MAX_US)
        pg->backoff_us = BACKOFF_MAX_US;
    pg->try_at_us = sim_now_us() + chance_between(pg->backoff_us / 2, pg->backoff_us);
}

bool
pg_ready_until(struct pg *pg, struct mono_time deadline)
{
    hf_assert(!pg->open);
    if (pg->wire != NULL && reset_seen_us(pg->wire) <= sim_now_us())
        pg_drop(pg);
    if (pg->wire != NULL)
        return sim_now_us() - pg->clock_at_us < CLOCK_EVERY_US || observe_clock(pg, deadline);
    if (sim_now_us() < pg->try_at_us)
        return false;
    if (!connect_once(pg, deadline)) {
        back_off(pg);
        return false;
    }
    pg->backoff_us = 0;
    return true;
}

bool
pg_ready(struct pg *pg)
{
    return pg_ready_until(pg, (struct mono_time){ mono_now().us + READY_US });
}

bool
pg_is_connected(const struct pg *pg)
{
    return pg->wire != NULL;
}

const char *
pg_last_error(const struct pg *pg)
{
    return pg->error;
}

const char *
pg_last_sqlstate(const struct pg *pg)
{
    return pg->state;
}
