/*
 * statement_checkouts.c - the statements of checkouts and payments over the fake store's rows.
 */
#include <stdio.h>

#include "engine_internal.h"
#include "oracle.h"
#include "sim.h"
#include "statements.h"

/* Keeps the locks of checkouts apart from those of holds. */
#define CHECKOUT_LOCK_SALT INT64_C(0x636865636b6f7574)

static struct pg_result *
kept(void)
{
    struct pg_result *rows = rows_new(1);

    rows_add(rows);
    rows_number(rows, 0, true);
    return rows;
}

/* --- reads ---------------------------------------------------------------- */

/* What of a user's holds one may know without a lock. */
struct found {
    struct uuid holds[64];
    int count;
    bool paying, lapsed;
    struct uuid last; /* the newest hold that there ever was */
};

static void
find_line(struct found *found, const struct line_row *line, const struct line_state *state)
{
    bool is_over = state->until_us <= store_now();
    int at = 0;

    if (memcmp(line->hold.bytes, found->last.bytes, sizeof(line->hold.bytes)) >= 0) {
        found->last = line->hold;
        found->lapsed = state->status == HOLD_EXPIRED || (state->status == HOLD_ACTIVE && is_over);
    }
    if (state->status != HOLD_ACTIVE)
        return;
    found->paying |= state->in_payment;
    while (at < found->count && !uuid_equal(&found->holds[at], &line->hold))
        at++;
    if (at == found->count && !state->in_payment && !is_over && at < 64)
        found->holds[found->count++] = line->hold;
}

static struct pg_result *
find_holds(const struct tx *tx, const struct call *call)
{
    struct pg_result *rows = rows_new(3);
    struct found found = { .count = 0 };

    for (struct line_row *line = store.lines; line != NULL; line = line->next_line) {
        const struct line_state *state = tx_sees_line(tx, line);
        if (state->exists && slice_is(call_text(call, 2, 0), state->user))
            find_line(&found, line, state);
    }
    for (int i = 0; i < found.count || i == 0; i++) {
        rows_add(rows);
        if (i < found.count)
            rows_uuid(rows, 0, &found.holds[i]);
        rows_number(rows, 1, found.paying);
        rows_number(rows, 2, found.lapsed);
    }
    return rows;
}

/* The mark of the line that lived longest says where the hold is. */
static bool
is_in(const struct tx *tx, const struct uuid *checkout, struct line_row *const *lines, int count)
{
    struct uuid newest = { { 0 } };
    int64_t newest_us = 0;

    for (int i = 0; i < count; i++) {
        const struct line_state *state = tx_sees_line(tx, lines[i]);
        int64_t until_us = state->ended_us == 0 ? INT64_MAX : state->ended_us;
        if (uuid_is_nil(&state->checkout) || until_us < newest_us)
            continue;
        newest = state->checkout;
        newest_us = until_us;
    }
    return uuid_equal(&newest, checkout);
}

static struct pg_result *
read_checkout(const struct tx *tx, const struct call *call)
{
    struct pg_result *rows = rows_new(RC_FLIGHT + 1);
    struct uuid id = call_uuid(call, 1, 0);
    const struct checkout_row *row = tx_find_checkout(tx, &id);

    if (row == NULL)
        return rows;
    const struct checkout_state *state = tx_sees_checkout(tx, row);
    const struct intent_row *intent = tx_find_intent(tx, &state->intent);
    for (int i = 0; i < state->hold_count; i++) {
        struct line_row *lines[LINES_OF_HOLD_MAX];
        int count = store_lines_of(tx, &state->holds[i], lines);
        for (int l = 0; l < count; l++) {
            statement_hold_row(tx, rows, i + 1, lines[l]);
            rows_uuid(rows, RC_CHECKOUT, &row->id);
            rows_text(rows, RC_EVENT, EVENT);
            rows_text(rows, RC_USER, row->user);
            rows_text(rows, RC_STATUS, checkout_status_word(state->status));
            rows_number(rows, RC_AMOUNT, 0);
            rows_text(rows, RC_CURRENCY, "EUR");
            rows_number(rows, RC_MINE, is_in(tx, &row->id, lines, count));
            rows_number(rows, RC_FLIGHT, false);
            if (intent == NULL)
                continue;
            rows_uuid(rows, RC_INTENT, &intent->id);
            rows_text(rows, RC_INTENT_STATUS,
                      intent_status_word(tx_sees_intent(tx, intent)->status));
        }
    }
    return rows;
}

static struct pg_result *
read_intent(const struct tx *tx, const struct call *call)
{
    struct pg_result *rows = rows_new(10);
    struct uuid id = call_uuid(call, 0, 0);
    const struct intent_row *row = tx_find_intent(tx, &id);

    if (row == NULL)
        return rows;
    rows_add(rows);
    rows_text(rows, 0, ORG);
    rows_text(rows, 1, EVENT);
    rows_text(rows, 3, "checkout");
    rows_uuid(rows, 4, &row->checkout);
    rows_text(rows, 9, intent_status_word(tx_sees_intent(tx, row)->status));
    return rows;
}

/* --- writes --------------------------------------------------------------- */

static struct pg_result *
lock_checkout(struct tx *tx, const struct call *call, const char **sqlstate)
{
    struct uuid id = call_uuid(call, 1, 0);

    if (tx_lock_key(tx, hold_lock_key(&id) ^ CHECKOUT_LOCK_SALT, LOCK_TIMEOUT_US))
        return kept();
    *sqlstate = LOCK_ERROR;
    return NULL;
}

/* False: another transaction has written a line. */
static bool
mark_lines(struct tx *tx, const struct uuid *hold, const struct uuid *checkout, bool active_only)
{
    struct line_row *lines[LINES_OF_HOLD_MAX];
    int count = store_lines_of(tx, hold, lines);

    for (int i = 0; i < count; i++) {
        if (active_only && tx_sees_line(tx, lines[i])->status != HOLD_ACTIVE)
            continue;
        struct line_state *state = tx_write_line(tx, lines[i]);
        if (state == NULL)
            return false;
        state->checkout = *checkout;
    }
    return true;
}

static struct pg_result *
add_checkout(struct tx *tx, const struct call *call, const char **sqlstate)
{
    struct uuid id = call_uuid(call, 2, 0);
    struct checkout_row *row = tx_add_checkout(tx, &id);
    struct checkout_state *state = tx_write_checkout(tx, row);
    struct line_row *lines[LINES_OF_HOLD_MAX];

    hf_assert(call->params[3].count <= HOLDS_OF_CHECKOUT);
    for (int i = 0; i < call->params[3].count; i++) {
        state->holds[state->hold_count] = call_uuid(call, 3, i);
        if (store_lines_of(tx, &state->holds[state->hold_count], lines) > 0)
            store_copy_name(row->user, slice_of(tx_sees_line(tx, lines[0])->user));
        if (!mark_lines(tx, &state->holds[state->hold_count++], &id, true)) {
            *sqlstate = LOCK_ERROR;
            return NULL;
        }
    }
    return kept();
}

static struct pg_result *
add_payment(struct tx *tx, const struct call *call)
{
    struct uuid id = call_uuid(call, 1, 0), intent = call_uuid(call, 2, 0);
    struct checkout_row *row = tx_find_checkout(tx, &id);
    struct checkout_state *state;

    hf_assert(row != NULL);
    if (tx_find_intent(tx, &intent) != NULL)
        violation("one intent is written twice");
    tx_add_intent(tx, &intent)->checkout = id;
    state = tx_write_checkout(tx, row);
    state->status = CHECKOUT_PAYING;
    state->intent = intent;
    return kept();
}

static struct pg_result *
add_delivery(struct tx *tx, const struct call *call)
{
    struct pg_result *rows = rows_new(1);
    struct uuid intent = call_uuid(call, 0, 0);
    char id[UUID_TEXT_BYTES], identity[200];
    struct key_row *key = store.keys;

    uuid_format(&intent, id);
    snprintf(identity, sizeof(identity), "delivery %s %s %s", id, call_text(call, 1, 0).ptr,
             call_text(call, 2, 0).ptr);
    while (key != NULL && !(tx_sees_key(tx, key) && strcmp(key->identity, identity) == 0))
        key = key->next_key;
    rows_add(rows);
    rows_number(rows, 0, key == NULL);
    if (key == NULL)
        snprintf(tx_add_key(tx)->identity, sizeof(identity), "%s", identity);
    return rows;
}

static struct pg_result *
settle_checkout(struct tx *tx, const struct call *call, const char **sqlstate)
{
    struct uuid id = call_uuid(call, 1, 0), intent = call_uuid(call, 2, 0);
    struct checkout_row *row = tx_find_checkout(tx, &id);

    hf_assert(row != NULL);
    struct checkout_state *state = tx_write_checkout(tx, row);
    if (!call_cell(call, 2, 0)->null) {
        struct intent_row *payment = tx_find_intent(tx, &intent);
        hf_assert(payment != NULL);
        hf_assert(
            intent_status_parse(call_text(call, 3, 0), &tx_write_intent(tx, payment)->status));
    }
    if (!call_cell(call, 4, 0)->null)
        hf_assert(checkout_status_parse(call_text(call, 4, 0), &state->status));
    if (call_cell(call, 7, 0)->null && call->params[7].count <= 1)
        return kept();
    state->hold_count = 0;
    for (int i = 0; i < call->params[7].count; i++) {
        state->holds[state->hold_count] = call_uuid(call, 7, i);
        if (!mark_lines(tx, &state->holds[state->hold_count++], &id, false)) {
            *sqlstate = LOCK_ERROR;
            return NULL;
        }
    }
    return kept();
}

struct pg_result *
statement_of_checkout(struct tx *tx, const struct call *call, const char **sqlstate)
{
    switch (call->statement) {
    case STATEMENT_FIND_HOLDS:
        return find_holds(tx, call);
    case STATEMENT_READ_CHECKOUT:
        return read_checkout(tx, call);
    case STATEMENT_LOCK_CHECKOUT:
        return lock_checkout(tx, call, sqlstate);
    case STATEMENT_ADD_CHECKOUT:
        return add_checkout(tx, call, sqlstate);
    case STATEMENT_ADD_PAYMENT:
        return add_payment(tx, call);
    case STATEMENT_READ_INTENT:
        return read_intent(tx, call);
    case STATEMENT_ADD_DELIVERY:
        return add_delivery(tx, call);
    default:
        return settle_checkout(tx, call, sqlstate);
    }
}
