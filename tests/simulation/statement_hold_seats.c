/*
 * statement_hold_seats.c - hold_seats.sql over the fake store's rows: locks what may be free, reads
 * the clock, judges, and gives each hold all of its seats or none.
 */
#include <stdio.h>

#include "engine_internal.h"
#include "sim.h"
#include "statements.h"

#define REQUESTS_MAX 256

/* $1 .. $17 are HC_ORD .. HC_BORN. */
enum { HC_FIRST = HOLD_COLUMNS };

struct taking {
    int ord, seat;
    bool locked, takeover, own;
    const char *code;
    int64_t ends_us, born_us;
};

/* FOR NO KEY UPDATE ... SKIP LOCKED of what may be free. */
static void
lock_takings(struct tx *tx, const struct call *call, struct taking *takings, int count)
{
    for (int i = 0; i < count; i++) {
        struct taking *taking = &takings[i];
        taking->ord = (int)call_number(call, HC_ORD, i);
        taking->seat = store_find_seat(call_text(call, HC_ITEM, i));
        if (taking->seat < 0 || !call_number(call, HC_FIRST, i))
            continue;
        const struct seat_state *seen = tx_sees_seat(tx, taking->seat);
        if (seen->status == SEAT_AVAILABLE || seat_is_over(seen, store_now()))
            taking->locked = tx_lock_seat(tx, taking->seat);
    }
}

static const char *
code_of_taking(struct tx *tx, const struct call *call, struct taking *taking, int i, int64_t now)
{
    if (!slice_is(call_text(call, HC_ORG, i), ORG) ||
        !slice_is(call_text(call, HC_EVENT, i), EVENT))
        return "event_not_found";
    if (!call_cell(call, HC_VERSION, i)->null &&
        call_number(call, HC_VERSION, i) != store.event_version)
        return "stale";
    if (store.event_status == EVENT_CANCELLED ||
        (store.event_status != EVENT_ON_SALE && !call_number(call, HC_PRIVILEGED, i)))
        return "event_closed";
    const struct seat_state *seen = taking->seat < 0 ? NULL : tx_sees_seat(tx, taking->seat);
    if (seen == NULL || seen->status == SEAT_REMOVED)
        return "seat_not_found";
    if (taking->locked) {
        taking->takeover = seen->status == SEAT_HELD;
        return seen->status == SEAT_AVAILABLE || seat_is_over(seen, now) ? "ok" : "locked";
    }
    if (seen->status == SEAT_SOLD)
        return "seat_sold";
    if (seen->status == SEAT_BLOCKED)
        return "seat_blocked";
    if (seen->status == SEAT_HELD && !seat_is_over(seen, now))
        return slice_is(call_text(call, HC_USER, i), seen->user) ? "own" : "seat_taken";
    return "locked";
}

static void
judge_taking(struct tx *tx, const struct call *call, struct taking *taking, int i, int64_t now)
{
    int64_t ttl_s = call_number(call, HC_TTL, i);

    taking->code = code_of_taking(tx, call, taking, i, now);
    taking->own = strcmp(taking->code, "own") == 0;
    taking->ends_us = now + (ttl_s > 0 ? ttl_s : store.policy.hold_ttl_s) * S;
    taking->born_us = now;
    if (!call_cell(call, HC_UNTIL, i)->null)
        taking->ends_us = call_number(call, HC_UNTIL, i);
    if (!call_cell(call, HC_BORN, i)->null)
        taking->born_us = call_number(call, HC_BORN, i);
}

/* All or nothing, by hold. NULL: the hold `ord` is granted; else a limit that it breaks, or "". */
static const char *
limit_of(struct tx *tx, const struct call *call, const struct taking *takings, int count, int ord)
{
    bool all = true;
    int wanted = 0, first = -1;

    for (int i = 0; i < count; i++) {
        if (takings[i].ord != ord)
            continue;
        first = first < 0 ? i : first;
        all = all && strcmp(takings[i].code, "ok") == 0;
        wanted += !takings[i].own;
    }
    if (call_cell(call, HC_VERSION, first)->null)
        return all ? NULL : ""; /* it was paid for */
    if (wanted > store.policy.max_seats_per_hold)
        return "too_many_seats";
    if (store.policy.max_seats_per_user > 0 && wanted > 0 &&
        store_units_of(tx, call_text(call, HC_USER, first).ptr, NULL) + wanted >
            store.policy.max_seats_per_user)
        return "user_limit";
    return all ? NULL : "";
}

static const char *
take_seat(struct tx *tx, const struct call *call, struct taking *taking, int i, int64_t now)
{
    struct uuid hold = call_uuid(call, HC_HOLD, i);
    struct seat_state *state = tx_write_seat(tx, taking->seat, call_text(call, HC_REQUEST, i));

    if (taking->takeover) {
        struct line_row *old = store_active_line(tx, &state->hold, taking->seat);
        if (old == NULL)
            return DATA_ERROR;
        if (!store_close_line(tx, old, HOLD_EXPIRED, "ttl_expired", now))
            return LOCK_ERROR;
    }
    if (store_active_line(tx, NULL, taking->seat) != NULL)
        return UNIQUE_ERROR; /* the backstop */
    state->status = SEAT_HELD;
    state->hold = hold;
    store_copy_name(state->user, call_text(call, HC_USER, i));
    state->until_us = taking->ends_us;
    state->version += 1 + taking->takeover;
    if (store.policy.no_single_seat_gap && !call_cell(call, HC_VERSION, i)->null)
        tx_is_ruled(tx);

    struct line_row *line = tx_add_line(tx);
    line->hold = hold;
    line->line = (int)call_number(call, HC_LINE, i);
    line->seat = taking->seat;
    line->born_us = taking->born_us;
    store_copy_name(line->cart, call_text(call, HC_CART, i));
    store_copy_name(line->source, call_text(call, HC_SOURCE, i));
    store_copy_name(line->next.user, call_text(call, HC_USER, i));
    line->next.until_us = taking->ends_us;
    return NULL;
}

static void
taking_row(struct tx *tx, struct pg_result *rows, const struct taking *taking, int i, bool taken,
           const char *code, int64_t now)
{
    rows_add(rows);
    rows_number(rows, HS_POS, i + 1);
    rows_number(rows, HS_ORD, taking->ord);
    rows_text(rows, HS_CODE, code);
    rows_number(rows, HS_TAKEN, taken);
    rows_number(rows, HS_BORN, taking->born_us);
    rows_number(rows, HS_NOW, now);
    rows_number(rows, HS_TAKEOVER, taken && taking->takeover);
    if (taken && taking->takeover)
        rows_text(rows, HS_OVER_WHY, "ttl_expired");
    if (taking->seat < 0)
        return;
    const struct seat_state *state = tx_sees_seat(tx, taking->seat);
    rows_number(rows, HS_VERSION, state->version);
    rows_text(rows, HS_STATUS, seat_status_word(state->status));
    rows_number(rows, HS_IN_PAYMENT, state->in_payment);
    if (state->status == SEAT_HELD || state->status == SEAT_SOLD) {
        rows_uuid(rows, HS_HOLD, &state->hold);
        rows_text(rows, HS_USER, state->user);
    }
    if (state->status == SEAT_HELD)
        rows_number(rows, HS_UNTIL, state->until_us);
    if (taken) {
        rows_text(rows, HS_SECTION, "s");
        rows_text(rows, HS_ROW, "r");
        rows_text(rows, HS_NUMBER, store.seats[taking->seat].id);
    }
}

static bool
code_comes_first(const char *code)
{
    return strcmp(code, "stale") == 0 || strcmp(code, "event_not_found") == 0 ||
           strcmp(code, "event_closed") == 0 || strcmp(code, "seat_not_found") == 0;
}

struct pg_result *
statement_hold_seats(struct tx *tx, const struct call *call, const char **sqlstate)
{
    int count = call->params[HC_ORD].count;
    struct taking takings[REQUESTS_MAX] = { { 0 } };
    const char *limits[REQUESTS_MAX];

    hf_assert(count <= REQUESTS_MAX);
    lock_takings(tx, call, takings, count);
    int64_t now = store_now();
    for (int i = 0; i < count; i++)
        judge_taking(tx, call, &takings[i], i, now);
    for (int i = 0; i < count; i++)
        limits[i] = limit_of(tx, call, takings, count, takings[i].ord);
    for (int i = 0; i < count && *sqlstate == NULL; i++)
        if (limits[i] == NULL)
            *sqlstate = take_seat(tx, call, &takings[i], i, now);
    if (*sqlstate != NULL)
        return NULL;
    struct pg_result *rows = rows_new(HS_OVER_WHY + 1);
    for (int i = 0; i < count; i++) {
        bool taken = limits[i] == NULL;
        bool limited = !taken && limits[i][0] != '\0' && !code_comes_first(takings[i].code);
        taking_row(tx, rows, &takings[i], i, taken, limited ? limits[i] : takings[i].code, now);
    }
    return rows;
}
