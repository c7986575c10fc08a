/*
 * store.c - the fake Postgres: transactions over rows in memory, locks, its clock, living nodes.
 *
 * Every committed change of a seat is shown to the oracle before anybody can read it.
 */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>

#include "oracle.h"
#include "sim.h"

#define NODE_LIFE_US (10 * S)
#define DEPARTED_US  (600 * (int64_t)S)
#define WRITES_MAX   64
#define DB_EPOCH_US  (INT64_C(1780000000) * S)

struct batch_row {
    struct batch_row *next;
    struct uuid id;
    bool is_mark; /* inserted by a question, not by a batch */
    struct tx *owner;
};

struct key_lock {
    struct key_lock *next;
    int64_t key;
    struct tx *owner;
};

struct write_request {
    int seat;
    bool ruled;
    char request[NAME_BYTES];
};

struct tx {
    struct tx *next; /* of the open ones */
    int maker;
    enum { TX_OPEN, TX_COMMITTED, TX_ABORTED } state;
    struct write_request writes[WRITES_MAX]; /* seats in the order of writing */
    int write_count;
    bool saw_rows;
    struct house_state seen; /* when it did */
    struct {
        int seat, past;
    } made[WRITES_MAX]; /* once committed: its entries of the histories */
    int made_count;
};

struct store store;
static struct tx *open_txs;
static struct batch_row *batches;
static struct key_lock *key_locks;
static struct node_row nodes[NODES_MAX];
static struct departed_row departed[NODES_MAX]; /* the last one first */
static int64_t incarnations;
static char changed; /* the channel of whoever waits for a transaction's end */

int64_t
store_now(void)
{
    int64_t mono = sim_now_us();

    return DB_EPOCH_US + store.clock_offset_us + mono + mono * store.clock_drift_ppm / 1000000;
}

int
store_find_seat(struct slice id)
{
    for (int i = 0; i < store.seat_count; i++)
        if (slice_is(id, store.seats[i].id))
            return i;
    return -1;
}

void
store_copy_name(char to[NAME_BYTES], struct slice from)
{
    snprintf(to, NAME_BYTES, "%.*s", SLICE_ARG(from));
}

static void *
new_zeroed(size_t bytes)
{
    void *memory = calloc(1, bytes);

    hf_assert(memory != NULL);
    return memory;
}

/* --- begin and end -------------------------------------------------------- */

struct tx *
tx_begin(int maker)
{
    struct tx *tx = new_zeroed(sizeof(*tx));

    tx->maker = maker;
    tx->next = open_txs;
    open_txs = tx;
    return tx;
}

bool
tx_is_over(const struct tx *tx)
{
    return tx->state != TX_OPEN;
}

static void
remember(struct tx *tx, int seat, const char *request)
{
    struct history *history = &store.histories[seat];

    if (history->count == history->capacity) {
        history->capacity = history->capacity * 2 + 16;
        history->pasts = realloc(history->pasts, (size_t)history->capacity * sizeof(struct past));
        hf_assert(history->pasts != NULL);
    }
    struct past *past = &history->pasts[history->count++];
    *past = (struct past){ .state = store.seats[seat].is,
                           .since_us = sim_now_us(),
                           .told_us = tx->maker == BY_RIVAL ? sim_now_us() : INT64_MAX,
                           .maker = tx->maker };
    snprintf(past->request, sizeof(past->request), "%s", request);
    tx->made[tx->made_count].seat = seat;
    tx->made[tx->made_count++].past = history->count - 1;
}

void
tx_was_told(struct tx *tx)
{
    for (int i = 0; i < tx->made_count; i++) {
        struct past *past = &store.histories[tx->made[i].seat].pasts[tx->made[i].past];
        if (past->told_us == INT64_MAX)
            past->told_us = sim_now_us();
    }
}

/* What one request takes under the rule, and gave up for it before; where its writes end. */
static int
show_choice(struct tx *tx, struct house_state *house, int at)
{
    const struct write_request *first = &tx->writes[at];
    struct house_choice choice = { .request = first->request,
                                   .user = store.seats[first->seat].next.user };

    for (int i = 0; i < at; i++)
        if (strcmp(tx->writes[i].request, first->request) == 0)
            choice.given_up |= 1U << tx->writes[i].seat;
    for (; at < tx->write_count && strcmp(tx->writes[at].request, first->request) == 0; at++)
        choice.taken |= 1U << tx->writes[at].seat;
    if (!tx->saw_rows)
        violation("%s takes seats and has not looked at their rows", first->request);
    oracle_choice(house, &choice);
    return at;
}

static void
show_choices(struct tx *tx)
{
    struct house_state house = tx->seen;

    for (int i = 0; i < tx->write_count;)
        i = tx->writes[i].ruled ? show_choice(tx, &house, i) : i + 1;
}

static void
apply_seats(struct tx *tx)
{
    struct seat_state before[SEATS_MAX];

    for (int i = 0; i < store.seat_count; i++)
        before[i] = store.seats[i].is;
    for (int i = 0; i < tx->write_count; i++) {
        struct seat_row *row = &store.seats[tx->writes[i].seat];
        if (!row->written)
            continue; /* the second write of one seat */
        oracle_seat_changes(tx->writes[i].seat, &row->is, &row->next);
        row->is = row->next;
        row->written = false;
        remember(tx, tx->writes[i].seat, tx->writes[i].request);
        oracle_request_committed(tx->writes[i].request);
        trace("store: %s v%d %s %.6s until %+.3f by %s", row->id, (int)row->is.version,
              seat_status_word(row->is.status), row->is.user,
              row->is.until_us ? (double)(row->is.until_us - store_now()) / 1e6 : 0.0,
              tx->writes[i].request);
    }
    if (tx->write_count > 0)
        oracle_sales(before, tx->writes[0].request);
}

static void
end_lines(struct tx *tx, bool commit)
{
    for (struct line_row *line = store.lines; line != NULL; line = line->next_line) {
        if (line->writer != tx)
            continue;
        if (commit)
            line->is = line->next;
        line->writer = NULL;
    }
    for (struct key_row *key = store.keys; key != NULL; key = key->next_key) {
        if (key->writer != tx)
            continue;
        key->committed = commit;
        key->writer = NULL;
    }
    for (struct checkout_row *row = store.checkouts; row != NULL; row = row->next_checkout) {
        if (row->writer != tx)
            continue;
        if (commit)
            row->is = row->next;
        row->writer = NULL;
    }
    for (struct intent_row *row = store.intents; row != NULL; row = row->next_intent) {
        if (row->writer != tx)
            continue;
        if (commit)
            oracle_intent_changes(row, &row->is, &row->next);
        if (commit)
            row->is = row->next;
        row->writer = NULL;
    }
}

static void
drop_locks(struct tx *tx)
{
    for (int i = 0; i < store.seat_count; i++)
        if (store.seats[i].locker == tx) {
            store.seats[i].locker = NULL;
            store.seats[i].written = false;
        }
    for (struct key_lock **link = &key_locks; *link != NULL;) {
        struct key_lock *lock = *link;
        if (lock->owner == tx) {
            *link = lock->next;
            free(lock);
        } else {
            link = &lock->next;
        }
    }
    for (struct tx **link = &open_txs; *link != NULL; link = &(*link)->next)
        if (*link == tx) {
            *link = tx->next;
            break;
        }
    fiber_wake_all(&changed);
}

static void
drop_batches(struct tx *tx)
{
    for (struct batch_row **link = &batches; *link != NULL;) {
        struct batch_row *row = *link;
        if (row->owner == tx) {
            *link = row->next;
            free(row);
        } else {
            link = &row->next;
        }
    }
}

void
tx_commit(struct tx *tx)
{
    hf_assert(tx->state == TX_OPEN);
    show_choices(tx);
    apply_seats(tx);
    end_lines(tx, true);
    tx->state = TX_COMMITTED;
    drop_locks(tx);
}

void
tx_abort(struct tx *tx)
{
    if (tx->state != TX_OPEN)
        return;
    end_lines(tx, false);
    tx->state = TX_ABORTED;
    drop_batches(tx);
    drop_locks(tx);
}

void
store_abort_all(void)
{
    while (open_txs != NULL)
        tx_abort(open_txs);
}

/* --- locks that are waited for -------------------------------------------- */

static struct key_lock *
find_lock(int64_t key)
{
    for (struct key_lock *lock = key_locks; lock != NULL; lock = lock->next)
        if (lock->key == key)
            return lock;
    return NULL;
}

bool
tx_try_key(struct tx *tx, int64_t key)
{
    struct key_lock *lock = find_lock(key);

    if (lock != NULL)
        return lock->owner == tx;
    lock = new_zeroed(sizeof(*lock));
    lock->key = key;
    lock->owner = tx;
    lock->next = key_locks;
    key_locks = lock;
    return true;
}

bool
tx_has_key(const struct tx *tx, int64_t key)
{
    struct key_lock *lock = find_lock(key);

    return lock != NULL && lock->owner == tx;
}

bool
tx_lock_key(struct tx *tx, int64_t key, int64_t timeout_us)
{
    int64_t end_us = sim_now_us() + timeout_us;

    while (tx->state == TX_OPEN && !tx_try_key(tx, key)) {
        if (sim_now_us() >= end_us)
            return false;
        fiber_wait(&changed, end_us);
    }
    return tx->state == TX_OPEN;
}

static struct batch_row *
find_batch(const struct uuid *id)
{
    for (struct batch_row *row = batches; row != NULL; row = row->next)
        if (uuid_equal(&row->id, id))
            return row;
    return NULL;
}

enum batch_insert
tx_insert_batch(struct tx *tx, const struct uuid *id, bool is_mark, int64_t timeout_us)
{
    int64_t end_us = sim_now_us() + timeout_us;
    struct batch_row *row;

    while ((row = find_batch(id)) != NULL && row->owner->state == TX_OPEN) {
        if (sim_now_us() >= end_us || tx->state != TX_OPEN)
            return BATCH_TIMEOUT;
        fiber_wait(&changed, end_us);
    }
    if (tx->state != TX_OPEN)
        return BATCH_TIMEOUT;
    if (row != NULL)
        return BATCH_THERE;
    row = new_zeroed(sizeof(*row));
    row->id = *id;
    row->is_mark = is_mark;
    row->owner = tx;
    row->next = batches;
    batches = row;
    return BATCH_IN;
}

struct tx *
store_batch_owner(const struct uuid *id)
{
    struct batch_row *row = find_batch(id);

    return row != NULL && !row->is_mark ? row->owner : NULL;
}

/* --- rows ----------------------------------------------------------------- */

const struct seat_state *
tx_sees_seat(const struct tx *tx, int seat)
{
    const struct seat_row *row = &store.seats[seat];

    return row->written && row->locker == tx ? &row->next : &row->is;
}

bool
tx_lock_seat(struct tx *tx, int seat)
{
    struct seat_row *row = &store.seats[seat];

    if (row->locker == NULL)
        row->locker = tx;
    return row->locker == tx;
}

struct seat_state *
tx_write_seat(struct tx *tx, int seat, struct slice request)
{
    struct seat_row *row = &store.seats[seat];

    hf_assert(row->locker == tx && tx->write_count < WRITES_MAX);
    if (!row->written)
        row->next = row->is;
    row->written = true;
    tx->writes[tx->write_count].seat = seat;
    tx->writes[tx->write_count].ruled = false;
    store_copy_name(tx->writes[tx->write_count++].request, request);
    return &row->next;
}

void
tx_is_ruled(struct tx *tx)
{
    tx->writes[tx->write_count - 1].ruled = true;
}

void
tx_saw_rows(struct tx *tx)
{
    tx->saw_rows = true;
    tx->seen.at = store_now();
    for (int i = 0; i < store.seat_count; i++)
        tx->seen.seats[i] = *tx_sees_seat(tx, i);
}

const struct line_state *
tx_sees_line(const struct tx *tx, const struct line_row *line)
{
    return line->writer == tx && tx != NULL ? &line->next : &line->is;
}

struct line_state *
tx_write_line(struct tx *tx, struct line_row *line)
{
    if (line->writer != NULL && line->writer != tx)
        return NULL;
    if (line->writer == NULL)
        line->next = line->is;
    line->writer = tx;
    return &line->next;
}

struct line_row *
tx_add_line(struct tx *tx)
{
    struct line_row *line = new_zeroed(sizeof(*line));

    line->next_line = store.lines;
    store.lines = line;
    line->writer = tx;
    line->next.exists = true;
    return line;
}

struct key_row *
tx_add_key(struct tx *tx)
{
    struct key_row *key = new_zeroed(sizeof(*key));

    key->next_key = store.keys;
    store.keys = key;
    key->writer = tx;
    return key;
}

bool
tx_sees_key(const struct tx *tx, const struct key_row *key)
{
    return key->committed || (tx != NULL && key->writer == tx);
}

bool
seat_is_over(const struct seat_state *state, int64_t now)
{
    return state->status == SEAT_HELD && !state->in_payment && state->until_us <= now;
}

/* --- checkouts and payments ------------------------------------------------- */

const struct checkout_state *
tx_sees_checkout(const struct tx *tx, const struct checkout_row *row)
{
    return row->writer == tx && tx != NULL ? &row->next : &row->is;
}

const struct intent_state *
tx_sees_intent(const struct tx *tx, const struct intent_row *row)
{
    return row->writer == tx && tx != NULL ? &row->next : &row->is;
}

struct checkout_row *
tx_find_checkout(const struct tx *tx, const struct uuid *id)
{
    struct checkout_row *row = store.checkouts;
    while (row != NULL && !(uuid_equal(&row->id, id) && tx_sees_checkout(tx, row)->exists))
        row = row->next_checkout;
    return row;
}

struct intent_row *
tx_find_intent(const struct tx *tx, const struct uuid *id)
{
    struct intent_row *row = store.intents;
    while (row != NULL && !(uuid_equal(&row->id, id) && tx_sees_intent(tx, row)->exists))
        row = row->next_intent;
    return row;
}

struct checkout_state *
tx_write_checkout(struct tx *tx, struct checkout_row *row)
{
    if (row->writer != NULL && row->writer != tx)
        violation("a checkout is written by two at once");
    if (row->writer == NULL)
        row->next = row->is;
    row->writer = tx;
    return &row->next;
}

struct intent_state *
tx_write_intent(struct tx *tx, struct intent_row *row)
{
    if (row->writer != NULL && row->writer != tx)
        violation("a payment is settled by two at once");
    if (row->writer == NULL)
        row->next = row->is;
    row->writer = tx;
    return &row->next;
}

struct checkout_row *
tx_add_checkout(struct tx *tx, const struct uuid *id)
{
    struct checkout_row *row = new_zeroed(sizeof(*row));

    row->id = *id;
    row->next_checkout = store.checkouts;
    store.checkouts = row;
    tx_write_checkout(tx, row)->exists = true;
    return row;
}

struct intent_row *
tx_add_intent(struct tx *tx, const struct uuid *id)
{
    struct intent_row *row = new_zeroed(sizeof(*row));

    row->id = *id;
    row->next_intent = store.intents;
    store.intents = row;
    tx_write_intent(tx, row)->exists = true;
    return row;
}

/* --- living nodes --------------------------------------------------------- */

static struct node_row *
find_node(const char *name)
{
    for (int i = 0; i < NODES_MAX; i++)
        if (strcmp(nodes[i].name, name) == 0)
            return &nodes[i];
    return NULL;
}

static struct node_row *
add_node(const char *name)
{
    struct node_row *row = find_node(""); /* a free place */

    hf_assert(row != NULL);
    snprintf(row->name, sizeof(row->name), "%s", name);
    return row;
}

int64_t
nodes_draw(void)
{
    return ++incarnations;
}

int64_t
nodes_newest(void)
{
    return incarnations;
}

int64_t
nodes_join(const char *name, int64_t stood_still_us)
{
    struct node_row *row = find_node(name);
    int64_t incarnation = nodes_draw(); /* also when nothing comes of it */

    if (row != NULL && row->heartbeat_us >= store_now() - NODE_LIFE_US &&
        row->heartbeat_us != stood_still_us)
        return 0;
    if (row == NULL)
        row = add_node(name);
    row->incarnation = incarnation;
    row->heartbeat_us = store_now();
    trace("nodes: %s joins as %d", name, (int)incarnation);
    return incarnation;
}

static void
drop_dead_nodes(const struct node_row *but)
{
    for (int i = 0; i < NODES_MAX; i++)
        if (nodes[i].name[0] != '\0' && &nodes[i] != but &&
            nodes[i].heartbeat_us < store_now() - NODE_LIFE_US)
            nodes[i] = (struct node_row){ .incarnation = 0 };
}

bool
nodes_beat(const char *name, int64_t incarnation)
{
    struct node_row *row = find_node(name);

    drop_dead_nodes(row);
    if (row == NULL) {
        row = add_node(name);
        row->incarnation = incarnation;
    }
    if (row->incarnation != incarnation)
        return false;
    row->heartbeat_us = store_now();
    return true;
}

int
nodes_beside(const char *name, struct node_row others[NODES_MAX])
{
    int count = 0;

    for (int i = 0; i < NODES_MAX; i++)
        if (nodes[i].name[0] != '\0' && strcmp(nodes[i].name, name) != 0)
            others[count++] = nodes[i];
    return count;
}

void
nodes_leave(const char *name, int64_t incarnation, int64_t records)
{
    struct node_row *row = find_node(name);

    if (row == NULL || row->incarnation != incarnation)
        return;
    *row = (struct node_row){ .incarnation = 0 };
    memmove(&departed[1], &departed[0], sizeof(departed) - sizeof(departed[0]));
    departed[0] = (struct departed_row){ incarnation, records, store_now() };
}

int
nodes_departed(struct departed_row rows[NODES_MAX], int most)
{
    int count = 0;

    while (count < most && count < NODES_MAX && departed[count].incarnation != 0 &&
           departed[count].left_at > store_now() - DEPARTED_US) {
        rows[count] = departed[count];
        count++;
    }
    return count;
}

int64_t
nodes_heartbeat_of(const char *name)
{
    struct node_row *row = find_node(name);

    return row != NULL ? row->heartbeat_us : 0;
}
