/*
 * statement_change_holds.c - change_holds.sql over the fake store's rows: extend, confirm,
 * transfer, release and expire.
 */
#include <stdlib.h>

#include "engine_internal.h"
#include "sim.h"
#include "statements.h"

enum {
    CP_ORD,
    CP_WHAT,
    CP_ORG,
    CP_HOLD,
    CP_OWNER,
    CP_SECONDS,
    CP_TO_USER,
    CP_REASON,
    CP_NOTES,
    CP_ACTOR,
    CP_REQUEST,
    CP_REPEAT,
    CP_DROP_ORD,
    CP_DROP_SEAT,
    CP_EXPECT_ORD,
    CP_EXPECT_SEAT,
    CP_EXPECT_VERSION,
    CP_CHECKOUT,
    CP_IP,
    CP_AGENT,
    CP_ALONE
};

/* A hold as change_holds looks at it. */
struct change {
    int ord, at; /* at: place in the call */
    const char *what;
    struct uuid hold;
    struct line_row *lines[LINES_OF_HOLD_MAX]; /* in their order */
    bool wanted[LINES_OF_HOLD_MAX], has_seat[LINES_OF_HOLD_MAX];
    int count, active, sold, locked, mine, want;
    bool lapsed, moved, paying;
    struct uuid checkout; /* the newest that it went into; nil: none */
    int64_t checkout_us;
    enum hold_status last_status;
    char owner[NAME_BYTES];
    int64_t until_us, born_us, new_until_us;
    const char *code;
};

static bool
change_is(const struct change *change, const char *what)
{
    return strcmp(change->what, what) == 0;
}

static bool
named(const struct call *call, int ord_param, int seat_param, int ord, const char *seat)
{
    for (int i = 0; i < call->params[ord_param].count; i++)
        if (call_number(call, ord_param, i) == ord &&
            slice_is(call_text(call, seat_param, i), seat))
            return true;
    return false;
}

static void
lock_lines(struct tx *tx, const struct call *call, struct change *change)
{
    for (int i = 0; i < change->count; i++) {
        struct line_row *line = change->lines[i];
        const char *id = store.seats[line->seat].id;
        change->wanted[i] = tx_sees_line(tx, line)->status == HOLD_ACTIVE &&
                            (!change_is(change, "remove") ||
                             named(call, CP_DROP_ORD, CP_DROP_SEAT, change->ord, id));
        if (!change->wanted[i])
            continue;
        change->want++;
        if (!tx_lock_seat(tx, line->seat))
            continue;
        const struct seat_state *seat = tx_sees_seat(tx, line->seat);
        change->locked++;
        change->has_seat[i] = seat->status == SEAT_HELD && uuid_equal(&seat->hold, &line->hold);
        change->mine += change->has_seat[i];
        for (int x = 0; x < call->params[CP_EXPECT_ORD].count; x++)
            if (call_number(call, CP_EXPECT_ORD, x) == change->ord &&
                slice_is(call_text(call, CP_EXPECT_SEAT, x), id) &&
                call_number(call, CP_EXPECT_VERSION, x) != seat->version)
                change->moved = true;
    }
}

/* The line whose owner is the hold's: an active one, else the one that ended last. */
static bool
speaks_before(const struct line_state *a, const struct line_state *b)
{
    if ((a->status == HOLD_ACTIVE) != (b->status == HOLD_ACTIVE))
        return a->status == HOLD_ACTIVE;
    return a->ended_us >= b->ended_us;
}

/* The mark of the line that lived longest. */
static void
see_checkout(struct change *change, const struct line_state *state)
{
    int64_t until_us = state->ended_us == 0 ? INT64_MAX : state->ended_us;

    if (uuid_is_nil(&state->checkout) || until_us < change->checkout_us)
        return;
    change->checkout = state->checkout;
    change->checkout_us = until_us;
}

static void
sum_lines(const struct tx *tx, struct change *change)
{
    const struct line_state *speaker = NULL, *last = NULL;
    int64_t active_until = 0, any_until = 0;

    for (int i = 0; i < change->count; i++) {
        const struct line_state *state = tx_sees_line(tx, change->lines[i]);
        if (speaker == NULL || speaks_before(state, speaker))
            speaker = state;
        if (state->status != HOLD_ACTIVE && (last == NULL || state->ended_us >= last->ended_us))
            last = state;
        change->active += state->status == HOLD_ACTIVE;
        change->sold += state->status == HOLD_CONVERTED;
        change->lapsed |= state->status == HOLD_EXPIRED;
        change->paying |= state->status == HOLD_ACTIVE && state->in_payment;
        see_checkout(change, state);
        if (state->status == HOLD_ACTIVE && state->until_us > active_until)
            active_until = state->until_us;
        if (state->until_us > any_until)
            any_until = state->until_us;
        if (i == 0 || change->lines[i]->born_us < change->born_us)
            change->born_us = change->lines[i]->born_us;
    }
    change->until_us = change->active > 0 ? active_until : any_until;
    change->last_status = last != NULL ? last->status : HOLD_ACTIVE;
    store_copy_name(change->owner, speaker != NULL ? slice_of(speaker->user) : SLICE_EMPTY);
}

static bool
drops_are_found(const struct call *call, const struct change *change)
{
    for (int i = 0; i < call->params[CP_DROP_ORD].count; i++) {
        bool found = false;
        for (int l = 0; l < change->count; l++)
            found |= change->wanted[l] && slice_is(call_text(call, CP_DROP_SEAT, i),
                                                   store.seats[change->lines[l]->seat].id);
        if (call_number(call, CP_DROP_ORD, i) == change->ord && !found)
            return false;
    }
    return true;
}

static bool
names_strangers(const struct tx *tx, const struct call *call, const struct change *change)
{
    for (int i = 0; i < call->params[CP_EXPECT_ORD].count; i++) {
        bool known = false;
        for (int l = 0; l < change->count; l++) {
            enum hold_status status = tx_sees_line(tx, change->lines[l])->status;
            known |= (status == HOLD_ACTIVE || status == HOLD_CONVERTED) &&
                     slice_is(call_text(call, CP_EXPECT_SEAT, i),
                              store.seats[change->lines[l]->seat].id);
        }
        if (call_number(call, CP_EXPECT_ORD, i) == change->ord && !known)
            return true;
    }
    return false;
}

/* What a hold without an active line hears. */
static const char *
code_of_ended(const struct change *change)
{
    if (change_is(change, "expire"))
        return "same";
    if (change_is(change, "cancel"))
        return change->sold > 0 ? "hold_not_active" : "same";
    if (change_is(change, "confirm") && change->sold > 0)
        return "same";
    return change->last_status == HOLD_EXPIRED ? "hold_expired" : "hold_not_active";
}

static const char *
code_of_change(const struct tx *tx, const struct call *call, const struct change *change,
               int64_t now)
{
    bool repeat = call_number(call, CP_REPEAT, change->at) != 0;
    const struct cell *owner = call_cell(call, CP_OWNER, change->at);
    struct slice to_user = call_text(call, CP_TO_USER, change->at);
    bool over = change->until_us <= now;

    if (change->count == 0)
        return "hold_not_found";
    if (change_is(change, "transfer") && repeat && slice_is(to_user, change->owner))
        return "same";
    if (!owner->null && !slice_is(owner->text, change->owner))
        return "not_hold_owner";
    if (store.event_status == EVENT_CANCELLED &&
        (change_is(change, "extend") || change_is(change, "confirm") ||
         change_is(change, "transfer") || change_is(change, "pay") || change_is(change, "sell")))
        return "event_closed";
    if (change->active == 0)
        return code_of_ended(change);
    if (change_is(change, "sell") || change_is(change, "fail") || change_is(change, "unpay"))
        return !change->paying || change->mine < change->locked ? "hold_not_active"
               : change->locked < change->want                  ? "locked"
                                                                : "ok";
    if (change->paying)
        return "payment_in_flight";
    if (change_is(change, "pay")) {
        struct uuid checkout = call_uuid(call, CP_CHECKOUT, change->at);
        if (!uuid_equal(&checkout, &change->checkout))
            return "hold_not_active";
    }
    if (change_is(change, "remove") && !drops_are_found(call, change))
        return over ? "hold_expired" : repeat ? "same" : "seat_not_found";
    if (change->locked < change->want)
        return "locked";
    if (change_is(change, "expire"))
        return over ? "ok" : "not_over";
    if (change_is(change, "cancel"))
        return over ? "expired" : "ok";
    if (over || change->lapsed || change->mine < change->want)
        return "hold_expired";
    if (change_is(change, "confirm") && names_strangers(tx, call, change))
        return "seat_not_found";
    if (change->moved)
        return "version_conflict";
    if (change_is(change, "transfer") && slice_is(to_user, change->owner))
        return "same";
    if (change_is(change, "confirm") && store.policy.one_seat_per_user &&
        !call_number(call, CP_ALONE, change->at))
        return "alone";
    return "ok";
}

/* A transfer may not give somebody more than the policy lets them have. */
static bool
hands_are_full(const struct tx *tx, const struct change *change, const char *to_user)
{
    int has = 0;

    for (struct line_row *line = store.lines; line != NULL; line = line->next_line) {
        const struct line_state *state = tx_sees_line(tx, line);
        has += state->exists && strcmp(state->user, to_user) == 0 && state->status == HOLD_ACTIVE &&
               state->until_us > store_now();
    }
    if (store.policy.one_hold_per_user && has > 0)
        return true;
    return store.policy.max_seats_per_user > 0 &&
           store_units_of(tx, to_user, NULL) + change->active > store.policy.max_seats_per_user;
}

static void
judge_change(const struct tx *tx, const struct call *call, struct change *change, int64_t now)
{
    int64_t seconds = call_number(call, CP_SECONDS, change->at);
    int64_t longest = change->born_us + store.policy.max_hold_s * S;

    change->new_until_us =
        change->until_us + (seconds > 0 ? seconds : store.policy.extend_by_s) * S;
    if (change->new_until_us > longest)
        change->new_until_us = longest;
    if (change->new_until_us < change->until_us)
        change->new_until_us = change->until_us;
    change->code = code_of_change(tx, call, change, now);
    if (strcmp(change->code, "ok") != 0)
        return;
    if (change_is(change, "extend") && change->new_until_us <= change->until_us)
        change->code = "same";
    if (change_is(change, "transfer") &&
        hands_are_full(tx, change, call_text(call, CP_TO_USER, change->at).ptr))
        change->code = "user_limit";
}

static void
write_seat(struct tx *tx, const struct call *call, const struct change *change, int seat)
{
    struct seat_state *state = tx_write_seat(tx, seat, call_text(call, CP_REQUEST, change->at));

    state->version++;
    if (change_is(change, "extend")) {
        state->until_us = change->new_until_us;
    } else if (change_is(change, "transfer")) {
        store_copy_name(state->user, call_text(call, CP_TO_USER, change->at));
    } else if (change_is(change, "pay") || change_is(change, "unpay")) {
        state->in_payment = change_is(change, "pay");
    } else if (change_is(change, "confirm") || change_is(change, "sell")) {
        state->status = SEAT_SOLD;
        state->until_us = 0;
        state->in_payment = false;
    } else {
        *state = (struct seat_state){ .status = SEAT_AVAILABLE, .version = state->version };
    }
}

/* Why a release ends what it ends. */
static const char *
why_of(const struct call *call, const struct change *change)
{
    bool expires = change_is(change, "expire") || strcmp(change->code, "expired") == 0;

    return expires ? "ttl_expired" : call_text(call, CP_REASON, change->at).ptr;
}

static bool
write_line(struct tx *tx, const struct call *call, const struct change *change,
           struct line_row *line, int64_t now)
{
    const char *why = why_of(call, change);
    struct line_state *state = tx_write_line(tx, line);

    if (state == NULL)
        return false;
    if (change_is(change, "extend"))
        state->until_us = change->new_until_us;
    else if (change_is(change, "transfer"))
        store_copy_name(state->user, call_text(call, CP_TO_USER, change->at));
    else if (change_is(change, "pay") || change_is(change, "unpay"))
        state->in_payment = change_is(change, "pay");
    else if (change_is(change, "confirm") || change_is(change, "sell"))
        return store_close_line(tx, line, HOLD_CONVERTED, "", now);
    else
        return store_close_line(
            tx, line, strcmp(why, "ttl_expired") == 0 ? HOLD_EXPIRED : HOLD_CANCELLED, why, now);
    return true;
}

static void
change_row(struct pg_result *rows, const struct change *change, int64_t now)
{
    bool extended = change_is(change, "extend") && strcmp(change->code, "ok") == 0;

    rows_add(rows);
    rows_number(rows, CH_ORD, change->ord);
    rows_text(rows, CH_CODE, change->code);
    rows_number(rows, CH_NOW, now);
    rows_number(rows, CH_EVENT_VERSION, store.event_version);
    if (change->count == 0)
        return;
    rows_text(rows, CH_EVENT, EVENT);
    rows_number(rows, CH_UNTIL, extended ? change->new_until_us : change->until_us);
    rows_number(rows, CH_BORN, change->born_us);
    rows_text(rows, CH_OWNER, change->owner);
}

static void
changed_seat(struct tx *tx, const struct call *call, struct pg_result *rows,
             const struct change *change, int seat)
{
    const struct seat_state *state = tx_sees_seat(tx, seat);

    rows_text(rows, CH_SEAT, store.seats[seat].id);
    rows_number(rows, CH_VERSION, state->version);
    rows_text(rows, CH_STATUS, seat_status_word(state->status));
    rows_number(rows, CH_IN_PAYMENT, state->in_payment);
    if (state->status == SEAT_HELD || state->status == SEAT_SOLD) {
        rows_uuid(rows, CH_HOLD, &state->hold);
        rows_text(rows, CH_USER, state->user);
    }
    if (state->status == SEAT_HELD)
        rows_number(rows, CH_SEAT_UNTIL, state->until_us);
    else
        rows_uuid(rows, CH_ENDED, &change->hold);
    if (state->status == SEAT_AVAILABLE)
        rows_text(rows, CH_WHY, why_of(call, change));
}

/* Applies a change and adds its rows: one for each line that changed, at least one. */
static const char *
act(struct tx *tx, const struct call *call, const struct change *change, struct pg_result *rows,
    int64_t now)
{
    int changed = 0;

    if (strcmp(change->code, "ok") != 0 && strcmp(change->code, "expired") != 0) {
        change_row(rows, change, now);
        return NULL;
    }
    for (int i = 0; i < change->count; i++) {
        if (!change->wanted[i])
            continue;
        if (!write_line(tx, call, change, change->lines[i], now))
            return LOCK_ERROR;
        change_row(rows, change, now);
        changed++;
        if (!change->has_seat[i])
            continue;
        write_seat(tx, call, change, change->lines[i]->seat);
        changed_seat(tx, call, rows, change, change->lines[i]->seat);
    }
    return changed > 0 ? NULL : DATA_ERROR;
}

struct pg_result *
statement_change_holds(struct tx *tx, const struct call *call, const char **sqlstate)
{
    int count = call->params[CP_ORD].count;
    struct change *changes = calloc((size_t)count + 1, sizeof(*changes));
    struct pg_result *rows = rows_new(CH_WHY + 1);

    hf_assert(changes != NULL);
    for (int i = 0; i < count; i++) {
        changes[i].at = i;
        changes[i].ord = (int)call_number(call, CP_ORD, i);
        changes[i].what = call_text(call, CP_WHAT, i).ptr;
        changes[i].hold = call_uuid(call, CP_HOLD, i);
        changes[i].count = store_lines_of(tx, &changes[i].hold, changes[i].lines);
        lock_lines(tx, call, &changes[i]);
        sum_lines(tx, &changes[i]);
    }
    int64_t now = store_now();
    for (int i = 0; i < count; i++)
        judge_change(tx, call, &changes[i], now);
    for (int i = 0; i < count && *sqlstate == NULL; i++)
        *sqlstate = act(tx, call, &changes[i], rows, now);
    free(changes);
    if (*sqlstate != NULL)
        pg_result_free(&rows);
    return rows;
}
