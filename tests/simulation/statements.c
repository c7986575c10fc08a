/*
 * statements.c - the statements of the hot flows over the fake store's rows, as db/statements has
 * them. Each runs at one instant, under the locks that its SQL takes; columns are the engine's own
 * enums (engine_internal.h). Those that change seats have files of their own.
 */
#include <stdio.h>

#include "engine_internal.h"
#include "sim.h"
#include "statements.h"

/* --- reads ---------------------------------------------------------------- */

void
statement_hold_row(const struct tx *tx, struct pg_result *rows, int pos,
                   const struct line_row *line)
{
    static const char *const words[] = { "active", "converted", "expired", "cancelled" };
    const struct line_state *state = tx_sees_line(tx, line);

    rows_add(rows);
    rows_number(rows, RH_POS, pos);
    rows_uuid(rows, RH_HOLD, &line->hold);
    rows_text(rows, RH_EVENT, EVENT);
    rows_text(rows, RH_USER, state->user);
    rows_text(rows, RH_CART, line->cart);
    rows_text(rows, RH_SOURCE, line->source);
    rows_number(rows, RH_CREATED, line->born_us);
    rows_number(rows, RH_UNTIL, state->until_us);
    rows_number(rows, RH_NOW, store_now());
    rows_text(rows, RH_CURRENCY, "EUR");
    rows_number(rows, RH_LINE, line->line);
    rows_text(rows, RH_SEAT, store.seats[line->seat].id);
    rows_text(rows, RH_NUMBER, store.seats[line->seat].id);
    rows_number(rows, RH_QUANTITY, 1);
    rows_number(rows, RH_VERSION, tx_sees_seat(tx, line->seat)->version);
    rows_text(rows, RH_STATUS, words[state->status]);
    rows_text(rows, RH_REASON, state->reason);
    rows_number(rows, RH_IN_PAYMENT, state->in_payment);
    if (state->ended_us != 0)
        rows_number(rows, RH_ENDED, state->ended_us);
}

static struct pg_result *
read_holds(struct tx *tx, const struct call *call)
{
    struct pg_result *rows = rows_new(RH_IN_PAYMENT + 1);

    for (int i = 0; i < call->params[1].count; i++) {
        struct uuid hold = call_uuid(call, 1, i);
        struct line_row *lines[LINES_OF_HOLD_MAX];
        int count = store_lines_of(tx, &hold, lines);
        for (int l = 0; l < count; l++)
            statement_hold_row(tx, rows, i + 1, lines[l]);
    }
    return rows;
}

static struct pg_result *
read_policies(const struct call *call)
{
    enum { RP_ORG, RP_EVENT, RP_VERSION, RP_STATUS, RP_KIND, RP_CURRENCY, RP_HOLD_TTL };
    struct pg_result *rows = rows_new(14);
    const struct policy *policy = &store.policy;
    const int64_t numbers[] = { policy->hold_ttl_s,         policy->extend_by_s,
                                policy->max_hold_s,         policy->max_seats_per_hold,
                                policy->max_seats_per_user, policy->one_hold_per_user,
                                policy->one_seat_per_user,  policy->no_single_seat_gap };

    if (call->params[1].count == 0 || !slice_is(call_text(call, 1, 0), EVENT))
        return rows;
    rows_add(rows);
    rows_text(rows, RP_ORG, ORG);
    rows_text(rows, RP_EVENT, EVENT);
    rows_number(rows, RP_VERSION, store.event_version);
    rows_text(rows, RP_STATUS, event_status_word(store.event_status));
    rows_text(rows, RP_KIND, "event");
    rows_text(rows, RP_CURRENCY, "EUR");
    for (int i = 0; i < 8; i++)
        rows_number(rows, RP_HOLD_TTL + i, numbers[i]);
    return rows;
}

static struct pg_result *
read_taken_seats(struct tx *tx, const struct call *call)
{
    struct pg_result *rows = rows_new(9);

    for (int i = 0; i < store.seat_count; i++) {
        const struct seat_state *state = tx_sees_seat(tx, i);
        if (strcmp(store.seats[i].id, call_text(call, 2, 0).ptr) <= 0 ||
            (state->status != SEAT_HELD && state->status != SEAT_SOLD) ||
            store.event_status != EVENT_ON_SALE)
            continue;
        rows_add(rows);
        rows_text(rows, 0, ORG);
        rows_text(rows, 1, EVENT);
        rows_text(rows, 2, store.seats[i].id);
        rows_text(rows, 3, seat_status_word(state->status));
        rows_number(rows, 4, state->in_payment);
        rows_number(rows, 5, state->version);
        rows_uuid(rows, 6, &state->hold);
        rows_text(rows, 7, state->user);
        if (state->status == SEAT_HELD)
            rows_number(rows, 8, state->until_us);
    }
    return rows;
}

static struct pg_result *
reap_holds(struct tx *tx, const struct call *call)
{
    struct pg_result *rows = rows_new(4);
    int64_t before = store_now() - call_number(call, 0, 0);

    for (struct line_row *line = store.lines; line != NULL; line = line->next_line) {
        const struct line_state *state = tx_sees_line(tx, line);
        bool seen = false;
        if (!state->exists || state->status != HOLD_ACTIVE || state->in_payment ||
            state->until_us >= before)
            continue;
        for (int row = 0; row < pg_rows(rows); row++) {
            struct uuid other = pg_get_uuid(rows, row, 2);
            seen |= uuid_equal(&other, &line->hold);
        }
        if (seen)
            continue;
        rows_add(rows);
        rows_text(rows, 0, ORG);
        rows_text(rows, 1, EVENT);
        rows_uuid(rows, 2, &line->hold);
        rows_number(rows, 3, 1);
    }
    return rows;
}

static struct pg_result *
one_number(int64_t number)
{
    struct pg_result *rows = rows_new(1);

    rows_add(rows);
    rows_number(rows, 0, number);
    return rows;
}

static struct pg_result *
count_units(struct tx *tx, const struct call *call)
{
    struct uuid hold = call_uuid(call, 3, 0);
    const char *user = call_text(call, 2, 0).ptr;
    struct pg_result *rows = rows_new(2);

    rows_add(rows);
    rows_number(rows, 0, store_units_of(tx, user, NULL));
    rows_number(rows, 1, store_units_of(tx, user, &hold));
    return rows;
}

/* --- locks that are waited for -------------------------------------------- */

static struct pg_result *
lock_keys(struct tx *tx, const struct call *call, const char **sqlstate)
{
    for (int i = 0; i < call->params[0].count; i++)
        if (!tx_lock_key(tx, call_number(call, 0, i), LOCK_TIMEOUT_US)) {
            *sqlstate = LOCK_ERROR;
            return NULL;
        }
    return one_number(call->params[0].count);
}

static struct pg_result *
lock_user_holds(struct tx *tx, const struct call *call, const char **sqlstate)
{
    struct pg_result *rows = rows_new(2);
    const char *user = call_text(call, 2, 0).ptr;

    for (struct line_row *line = store.lines; line != NULL; line = line->next_line) {
        const struct line_state *state = tx_sees_line(tx, line);
        bool seen = false;
        if (!state->exists || state->status != HOLD_ACTIVE || strcmp(state->user, user) != 0)
            continue;
        for (int row = 0; row < pg_rows(rows); row++) {
            struct uuid other = pg_get_uuid(rows, row, 0);
            seen |= uuid_equal(&other, &line->hold);
        }
        if (seen)
            continue;
        rows_add(rows);
        rows_uuid(rows, 0, &line->hold);
    }
    for (int row = 0; row < pg_rows(rows); row++) {
        struct uuid hold = pg_get_uuid(rows, row, 0);
        if (tx_lock_key(tx, hold_lock_key(&hold), LOCK_TIMEOUT_US))
            continue;
        *sqlstate = LOCK_ERROR;
        pg_result_free(&rows);
        return NULL;
    }
    return rows;
}

/* --- seating rows --------------------------------------------------------- */

#define LINE_KEY INT64_C(0x726f770000000000)

static bool
is_asked_for(const struct call *call, int line)
{
    for (int i = 0; i < call->params[2].count; i++) {
        int seat = store_find_seat(call_text(call, 2, i));
        if (seat >= 0 && store.seats[seat].line == line)
            return true;
    }
    return false;
}

static struct pg_result *
lock_rows(struct tx *tx, const struct call *call, const char **sqlstate)
{
    bool waits = call_number(call, 3, 0);
    int missed = 0;

    for (int line = 0; line < SEATS_MAX; line++) {
        if (!is_asked_for(call, line))
            continue;
        if (!waits) {
            missed += !tx_try_key(tx, LINE_KEY + line);
        } else if (!tx_lock_key(tx, LINE_KEY + line, LOCK_TIMEOUT_US)) {
            *sqlstate = LOCK_ERROR;
            return NULL;
        }
    }
    return one_number(missed);
}

enum { RR_LINE, RR_POS, RR_SEAT, RR_NUMBER, RR_AISLE, RR_STATE, RR_USER, RR_HOLD, RR_COLUMNS };

static const char *
word_of_row_seat(const struct seat_state *state)
{
    if (state->status == SEAT_REMOVED)
        return "removed";
    if (state->status == SEAT_SOLD || state->status == SEAT_BLOCKED)
        return "taken";
    return state->status == SEAT_HELD && !seat_is_over(state, store_now()) ? "held" : "free";
}

static void
row_seat(const struct tx *tx, struct pg_result *rows, int line, int seat)
{
    const struct seat_state *state = tx_sees_seat(tx, seat);

    rows_add(rows);
    rows_number(rows, RR_LINE, line);
    rows_text(rows, RR_SEAT, store.seats[seat].id);
    rows_text(rows, RR_NUMBER, store.seats[seat].id);
    rows_number(rows, RR_AISLE, store.seats[seat].aisle_after);
    rows_text(rows, RR_STATE, word_of_row_seat(state));
    rows_text(rows, RR_USER, state->user);
    rows_uuid(rows, RR_HOLD, &state->hold);
}

/* The seat of the line that comes next in the order of ids; -1: none. */
static int
next_by_id(int line, const char *after)
{
    int next = -1;

    for (int i = 0; i < store.seat_count; i++)
        if (store.seats[i].line == line && strcmp(store.seats[i].id, after) > 0 &&
            (next < 0 || strcmp(store.seats[i].id, store.seats[next].id) < 0))
            next = i;
    return next;
}

/* Line `number` of the answer: the seats of the row, then those asked for. */
static void
row_lines(const struct tx *tx, const struct call *call, struct pg_result *rows, int line,
          int number)
{
    for (int i = next_by_id(line, ""); i >= 0; i = next_by_id(line, store.seats[i].id))
        row_seat(tx, rows, number, i);
    for (int i = 0; i < call->params[2].count; i++) {
        int seat = store_find_seat(call_text(call, 2, i));
        if (seat < 0 || store.seats[seat].line != line)
            continue;
        rows_add(rows);
        rows_number(rows, RR_LINE, number);
        rows_number(rows, RR_POS, i + 1);
        rows_text(rows, RR_SEAT, store.seats[seat].id);
    }
}

/* Rows whose locks were not to be had come all the same: who takes seats of them has not looked. */
static struct pg_result *
read_rows(struct tx *tx, const struct call *call)
{
    struct pg_result *rows = rows_new(RR_COLUMNS);
    bool has_all = true;
    int number = 0;

    for (int line = 0; line < SEATS_MAX; line++) {
        if (!is_asked_for(call, line))
            continue;
        has_all &= tx_has_key(tx, LINE_KEY + line);
        row_lines(tx, call, rows, line, ++number);
    }
    if (has_all)
        tx_saw_rows(tx);
    return rows;
}

/* --- Idempotency-Keys ----------------------------------------------------- */

static struct pg_result *
claim_keys(struct tx *tx, const struct call *call)
{
    struct pg_result *rows = rows_new(2);

    for (int i = 0; i < call->params[0].count; i++) {
        rows_add(rows);
        rows_number(rows, 0, i + 1);
        rows_number(rows, 1, tx_try_key(tx, call_number(call, 0, i)));
    }
    return rows;
}

static void
identity_of(const struct call *call, int i, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s %s %s %s", call_text(call, 1, i).ptr, call_text(call, 2, i).ptr,
             call_text(call, 3, i).ptr, call_text(call, 4, i).ptr);
}

static struct key_row *
find_key(const struct tx *tx, const char *identity)
{
    for (struct key_row *key = store.keys; key != NULL; key = key->next_key)
        if (tx_sees_key(tx, key) && strcmp(key->identity, identity) == 0)
            return key;
    return NULL;
}

static struct pg_result *
read_keys(struct tx *tx, const struct call *call)
{
    struct pg_result *rows = rows_new(5);
    char identity[200];

    for (int i = 0; i < call->params[4].count; i++) {
        identity_of(call, i, identity, sizeof(identity));
        struct key_row *key = find_key(tx, identity);
        if (key == NULL)
            continue;
        rows_add(rows);
        rows_number(rows, 0, i + 1);
        rows_text(rows, 1, key->digest);
        rows_number(rows, 2, key->status);
        rows_text(rows, 3, key->type);
        rows_text(rows, 4, key->body);
    }
    return rows;
}

static struct pg_result *
store_keys(struct tx *tx, const struct call *call)
{
    for (int i = 0; i < call->params[4].count; i++) {
        struct key_row *key = tx_add_key(tx);
        identity_of(call, i, key->identity, sizeof(key->identity));
        if (find_key(NULL, key->identity) != NULL)
            violation("the answer of a key is stored twice: %s", key->identity);
        snprintf(key->digest, sizeof(key->digest), "%s", call_text(call, 5, i).ptr);
        key->status = (int)call_number(call, 6, i);
        snprintf(key->type, sizeof(key->type), "%s", call_text(call, 7, i).ptr);
        snprintf(key->body, sizeof(key->body), "%s", call_text(call, 8, i).ptr);
    }
    return one_number(call->params[4].count);
}

/* --- nodes ---------------------------------------------------------------- */

static struct pg_result *
node_join(const struct call *call)
{
    struct pg_result *rows = rows_new(1);
    int64_t incarnation = nodes_join(call_text(call, 0, 0).ptr, call_number(call, 2, 0));

    if (incarnation == 0)
        return rows;
    rows_add(rows);
    rows_number(rows, 0, incarnation);
    return rows;
}

static struct pg_result *
node_heartbeat(const struct call *call)
{
    enum { MINE, NEWEST, DATABASE, OTHER_ID, OTHER_INCARNATION, COLUMNS };
    struct pg_result *rows = rows_new(COLUMNS);
    struct node_row others[NODES_MAX];
    const char *name = call_text(call, 0, 0).ptr;
    bool mine = nodes_beat(name, call_number(call, 1, 0));
    int count = nodes_beside(name, others);

    for (int i = 0; i < count || i == 0; i++) {
        rows_add(rows);
        rows_number(rows, MINE, mine);
        rows_number(rows, NEWEST, nodes_newest());
        rows_number(rows, DATABASE, 1);
        if (i == count)
            continue; /* nobody */
        rows_text(rows, OTHER_ID, others[i].name);
        rows_number(rows, OTHER_INCARNATION, others[i].incarnation);
    }
    return rows;
}

static struct pg_result *
read_node(const struct call *call)
{
    struct pg_result *rows = rows_new(2);
    int64_t heartbeat_us = nodes_heartbeat_of(call_text(call, 0, 0).ptr);

    if (heartbeat_us == 0)
        return rows;
    rows_add(rows);
    rows_number(rows, 0, heartbeat_us);
    return rows;
}

static struct pg_result *
node_leave(const struct call *call)
{
    nodes_leave(call_text(call, 0, 0).ptr, call_number(call, 1, 0), call_number(call, 2, 0));
    return rows_new(1);
}

static struct pg_result *
read_departed(const struct call *call)
{
    enum { INCARNATION, RECORDS, AGE, COLUMNS };
    struct departed_row departed[NODES_MAX];
    struct pg_result *rows = rows_new(COLUMNS);
    int count = nodes_departed(departed, (int)call_number(call, 0, 0));

    for (int i = 0; i < count; i++) {
        rows_add(rows);
        rows_number(rows, INCARNATION, departed[i].incarnation);
        rows_number(rows, RECORDS, departed[i].records);
        rows_number(rows, AGE, store_now() - departed[i].left_at);
    }
    return rows;
}

/* --- which is which ------------------------------------------------------- */

struct pg_result *
store_run(struct tx *tx, const struct call *call, const char **sqlstate)
{
    *sqlstate = NULL;
    switch (call->statement) {
    case STATEMENT_HOLD_SEATS:
        return statement_hold_seats(tx, call, sqlstate);
    case STATEMENT_CHANGE_HOLDS:
        return statement_change_holds(tx, call, sqlstate);
    case STATEMENT_RETURN_SEATS:
        return statement_return_seats(tx, call, sqlstate);
    case STATEMENT_READ_SEAT:
        return statement_read_seat(tx, call);
    case STATEMENT_READ_HOLDS:
        return read_holds(tx, call);
    case STATEMENT_FIND_HOLDS:
    case STATEMENT_READ_CHECKOUT:
    case STATEMENT_LOCK_CHECKOUT:
    case STATEMENT_ADD_CHECKOUT:
    case STATEMENT_ADD_PAYMENT:
    case STATEMENT_READ_INTENT:
    case STATEMENT_ADD_DELIVERY:
    case STATEMENT_SETTLE_CHECKOUT:
        return statement_of_checkout(tx, call, sqlstate);
    case STATEMENT_READ_POLICIES:
        return read_policies(call);
    case STATEMENT_READ_TAKEN_SEATS:
        return read_taken_seats(tx, call);
    case STATEMENT_REAP_HOLDS:
        return reap_holds(tx, call);
    case STATEMENT_COUNT_UNITS:
        return count_units(tx, call);
    case STATEMENT_LOCK_KEYS:
        return lock_keys(tx, call, sqlstate);
    case STATEMENT_LOCK_ROWS:
        return lock_rows(tx, call, sqlstate);
    case STATEMENT_READ_ROWS:
        return read_rows(tx, call);
    case STATEMENT_LOCK_USER_HOLDS:
        return lock_user_holds(tx, call, sqlstate);
    case STATEMENT_CLAIM_KEYS:
        return claim_keys(tx, call);
    case STATEMENT_READ_KEYS:
        return read_keys(tx, call);
    case STATEMENT_STORE_KEYS:
        return store_keys(tx, call);
    case STATEMENT_NODE_JOIN:
        return node_join(call);
    case STATEMENT_NODE_HEARTBEAT:
        return node_heartbeat(call);
    case STATEMENT_DRAW_INCARNATION:
        return one_number(nodes_draw());
    case STATEMENT_READ_NODE:
        return read_node(call);
    case STATEMENT_NODE_LEAVE:
        return node_leave(call);
    case STATEMENT_READ_DEPARTED:
        return read_departed(call);
    case STATEMENT_READ_CLOCK:
        return one_number(store_now());
    case STATEMENT_TAKE_DUE_INTENTS: /* nobody pays */
    case STATEMENT_TAKE_PAYMENT_DELIVERIES:
        return rows_new(1);
    case STATEMENT_PURGE_PAYMENT_DELIVERIES:
    case STATEMENT_LOCK_AREAS: /* there are none */
    case STATEMENT_LOCK_SALE_AREAS:
    case STATEMENT_PURGE_BATCHES: /* an hour is longer than a seed */
    case STATEMENT_PURGE_IDEMPOTENCY_KEYS:
    case STATEMENT_PURGE_STREAM_TICKETS:
    case STATEMENT_PURGE_OCCUPANCY:
        return one_number(0);
    default:
        violation("the fake store has no statement %d", (int)call->statement);
    }
}
