/*
 * statement_return_seats.c - return_seats.sql over the fake store's rows, and what is read before a
 * seat is returned.
 */
#include "engine_internal.h"
#include "sim.h"
#include "statements.h"

enum {
    TP_ORG,
    TP_EVENT,
    TP_USER,
    TP_SEAT,
    TP_BY_POLICY,
    TP_KEEP,
    TP_REASON,
    TP_NOTES,
    TP_ACTOR,
    TP_REQUEST
};

/* What is given back: lines of the user that are sold. */
struct returning {
    struct line_row *lines[SEATS_MAX];
    int count, locked;
};

static bool
is_kept(const struct call *call, const struct uuid *hold)
{
    for (int i = 0; i < call->params[TP_KEEP].count; i++) {
        struct uuid kept = call_uuid(call, TP_KEEP, i);
        if (uuid_equal(&kept, hold))
            return true;
    }
    return false;
}

static void
find_lines(struct tx *tx, const struct call *call, struct returning *returning)
{
    bool all = call_cell(call, TP_SEAT, 0)->null;

    if (call_number(call, TP_BY_POLICY, 0) && !store.policy.one_seat_per_user)
        return;
    for (struct line_row *line = store.lines; line != NULL; line = line->next_line) {
        const struct line_state *state = tx_sees_line(tx, line);
        if (!state->exists || state->status != HOLD_CONVERTED ||
            !slice_is(call_text(call, TP_USER, 0), state->user) || is_kept(call, &line->hold) ||
            (!all && !slice_is(call_text(call, TP_SEAT, 0), store.seats[line->seat].id)))
            continue;
        hf_assert(returning->count < SEATS_MAX);
        returning->lines[returning->count++] = line;
        returning->locked += tx_lock_seat(tx, line->seat);
    }
}

static bool
give_back(struct tx *tx, const struct call *call, struct line_row *line, int64_t now)
{
    struct seat_state *state = tx_write_seat(tx, line->seat, call_text(call, TP_REQUEST, 0));

    if (state->status != SEAT_SOLD || !uuid_equal(&state->hold, &line->hold))
        violation("a line that is sold, and its seat %s isn't", store.seats[line->seat].id);
    *state = (struct seat_state){ .status = SEAT_AVAILABLE, .version = state->version + 1 };
    return store_close_line(tx, line, HOLD_CANCELLED, call_text(call, TP_REASON, 0).ptr, now);
}

static void
add_row(struct pg_result *rows, const struct line_row *line, bool done, int64_t now)
{
    rows_add(rows);
    rows_number(rows, CH_ORD, 0);
    rows_text(rows, CH_CODE, done ? "ok" : "locked");
    rows_text(rows, CH_EVENT, EVENT);
    rows_number(rows, CH_NOW, now);
    rows_number(rows, CH_BORN, line->born_us);
    rows_uuid(rows, CH_ENDED, &line->hold);
}

struct pg_result *
statement_return_seats(struct tx *tx, const struct call *call, const char **sqlstate)
{
    struct pg_result *rows = rows_new(CH_WHY + 1);
    struct returning returning = { .count = 0 };

    find_lines(tx, call, &returning);
    bool done = returning.locked == returning.count;
    int64_t now = store_now();
    for (int i = 0; i < returning.count && *sqlstate == NULL; i++) {
        struct line_row *line = returning.lines[i];
        add_row(rows, line, done, now);
        if (!done)
            continue;
        if (!give_back(tx, call, line, now))
            *sqlstate = LOCK_ERROR;
        rows_text(rows, CH_OWNER, tx_sees_line(tx, line)->user);
        rows_text(rows, CH_SEAT, store.seats[line->seat].id);
        rows_text(rows, CH_STATUS, seat_status_word(SEAT_AVAILABLE));
        rows_number(rows, CH_VERSION, tx_sees_seat(tx, line->seat)->version);
        rows_number(rows, CH_IN_PAYMENT, false);
        rows_text(rows, CH_WHY, call_text(call, TP_REASON, 0).ptr);
    }
    if (*sqlstate != NULL)
        pg_result_free(&rows);
    return rows;
}

struct pg_result *
statement_read_seat(struct tx *tx, const struct call *call)
{
    enum { EXISTS, STATUS, IN_PAYMENT, VERSION, HOLD, USER, UNTIL, NOW, COLUMNS };
    struct pg_result *rows = rows_new(COLUMNS);
    int seat = store_find_seat(call_text(call, 2, 0));

    rows_add(rows);
    rows_number(rows, EXISTS, slice_is(call_text(call, 1, 0), EVENT));
    rows_number(rows, NOW, store_now());
    if (seat < 0)
        return rows;
    const struct seat_state *state = tx_sees_seat(tx, seat);
    rows_text(rows, STATUS, seat_status_word(state->status));
    rows_number(rows, IN_PAYMENT, state->in_payment);
    rows_number(rows, VERSION, state->version);
    if (state->status != SEAT_HELD && state->status != SEAT_SOLD)
        return rows;
    rows_uuid(rows, HOLD, &state->hold);
    rows_text(rows, USER, state->user);
    if (state->status == SEAT_HELD)
        rows_number(rows, UNTIL, state->until_us);
    return rows;
}
