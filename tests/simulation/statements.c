/*
 * statements.c - the statements of the hot flows over the fake store's rows, as db/statements has
 * them. Each runs at one instant, under the locks that its SQL takes; columns are the engine's own
 * enums (engine_internal.h).
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine_internal.h"
#include "sim.h"
#include "store.h"

#define LOCK_TIMEOUT_US (500 * MS)
#define REQUESTS_MAX    256

#define DATA_ERROR      "P0001"
#define UNIQUE_ERROR    "23505"
#define LOCK_ERROR      "55P03"

/* --- lines ----------------------------------------------------------------------------------- */

/* Held and not over, or sold: what a limit counts. */
static int
units_of(const struct tx *tx, const char *user, const struct uuid *only_hold)
{
    int units = 0;

    for (struct line_row *line = store.lines; line != NULL; line = line->next_line) {
        const struct line_state *state = tx_sees_line(tx, line);
        if (!state->exists || strcmp(state->user, user) != 0)
            continue;
        if (only_hold != NULL &&
            (!uuid_equal(only_hold, &line->hold) || state->status != HOLD_ACTIVE))
            continue;
        units += state->status == HOLD_CONVERTED ||
                 (state->status == HOLD_ACTIVE && state->until_us > store_now());
    }
    return units;
}

struct line_row *
store_active_line(const struct tx *tx, const struct uuid *hold, int seat)
{
    for (struct line_row *line = store.lines; line != NULL; line = line->next_line) {
        const struct line_state *state = tx_sees_line(tx, line);
        if (state->exists && state->status == HOLD_ACTIVE && line->seat == seat &&
            (hold == NULL || uuid_equal(&line->hold, hold)))
            return line;
    }
    return NULL;
}

bool
store_close_line(struct tx *tx, struct line_row *line, enum hold_status status, const char *reason,
                 int64_t now)
{
    struct line_state *state = tx_write_line(tx, line);

    if (state == NULL)
        return false;
    state->status = status;
    state->ended_us = now;
    snprintf(state->reason, sizeof(state->reason), "%s", reason);
    return true;
}

/* --- hold_seats ----------------------------------------------------------------------------------
 */

/* $1 .. $17 are HC_ORD .. HC_BORN. */
enum { HC_FIRST = HOLD_COLUMNS };

struct taking {
    int ord, seat;
    bool locked, takeover, own;
    const char *code;
    int64_t ends_us, born_us;
};

static bool
is_over(const struct seat_state *state, int64_t now)
{
    return state->status == SEAT_HELD && state->until_us <= now;
}

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
        if (seen->status == SEAT_AVAILABLE || is_over(seen, store_now()))
            taking->locked = tx_lock_seat(tx, taking->seat);
    }
}

static const char *
code_of_taking(struct tx *tx, const struct call *call, struct taking *taking, int i, int64_t now)
{
    if (!slice_is(call_text(call, HC_ORG, i), ORG) ||
        !slice_is(call_text(call, HC_EVENT, i), EVENT))
        return "event_not_found";
    if (call_number(call, HC_VERSION, i) != store.event_version)
        return "stale";
    if (store.event_status == EVENT_CANCELLED ||
        (store.event_status != EVENT_ON_SALE && !call_number(call, HC_PRIVILEGED, i)))
        return "event_closed";
    const struct seat_state *seen = taking->seat < 0 ? NULL : tx_sees_seat(tx, taking->seat);
    if (seen == NULL || seen->status == SEAT_REMOVED)
        return "seat_not_found";
    if (taking->locked) {
        taking->takeover = seen->status == SEAT_HELD;
        return seen->status == SEAT_AVAILABLE || is_over(seen, now) ? "ok" : "locked";
    }
    if (seen->status == SEAT_SOLD)
        return "seat_sold";
    if (seen->status == SEAT_BLOCKED)
        return "seat_blocked";
    if (seen->status == SEAT_HELD && seen->until_us > now)
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
    if (wanted > store.policy.max_seats_per_hold)
        return "too_many_seats";
    if (store.policy.max_seats_per_user > 0 && wanted > 0 &&
        units_of(tx, call_text(call, HC_USER, first).ptr, NULL) + wanted >
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
    if (taking->seat < 0)
        return;
    const struct seat_state *state = tx_sees_seat(tx, taking->seat);
    rows_number(rows, HS_VERSION, state->version);
    rows_text(rows, HS_STATUS, seat_status_word(state->status));
    rows_number(rows, HS_IN_PAYMENT, false);
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

static struct pg_result *
hold_seats(struct tx *tx, const struct call *call, const char **sqlstate)
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
    struct pg_result *rows = rows_new(HS_TAKEOVER + 1);
    for (int i = 0; i < count; i++) {
        bool taken = limits[i] == NULL;
        bool limited = !taken && limits[i][0] != '\0' && !code_comes_first(takings[i].code);
        taking_row(tx, rows, &takings[i], i, taken, limited ? limits[i] : takings[i].code, now);
    }
    return rows;
}

/* --- change_holds
 * ------------------------------------------------------------------------------------ */

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
    CP_EXPECT_VERSION
};

/* A hold as change_holds looks at it. */
struct change {
    int ord, at; /* at: place in the call */
    const char *what;
    struct uuid hold;
    struct line_row *lines[LINES_OF_HOLD_MAX]; /* in their order */
    bool wanted[LINES_OF_HOLD_MAX], has_seat[LINES_OF_HOLD_MAX];
    int count, active, locked, mine, want;
    bool lapsed, moved;
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

static int
compare_lines(const void *a, const void *b)
{
    const struct line_row *x = *(struct line_row *const *)a, *y = *(struct line_row *const *)b;

    return (x->line > y->line) - (x->line < y->line);
}

int
store_lines_of(const struct tx *tx, const struct uuid *hold,
               struct line_row *lines[LINES_OF_HOLD_MAX])
{
    int count = 0;

    for (struct line_row *line = store.lines; line != NULL; line = line->next_line) {
        if (!tx_sees_line(tx, line)->exists || !uuid_equal(&line->hold, hold))
            continue;
        hf_assert(count < LINES_OF_HOLD_MAX);
        lines[count++] = line;
    }
    qsort(lines, (size_t)count, sizeof(*lines), compare_lines);
    return count;
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
        change->lapsed |= state->status == HOLD_EXPIRED;
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
        return change->last_status == HOLD_CONVERTED ? "hold_not_active" : "same";
    if (change_is(change, "confirm") && change->last_status == HOLD_CONVERTED)
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
         change_is(change, "transfer")))
        return "event_closed";
    if (change->active == 0)
        return code_of_ended(change);
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
           units_of(tx, to_user, NULL) + change->active > store.policy.max_seats_per_user;
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
    } else if (change_is(change, "confirm")) {
        state->status = SEAT_SOLD;
        state->until_us = 0;
    } else {
        *state = (struct seat_state){ .status = SEAT_AVAILABLE, .version = state->version };
    }
}

static bool
write_line(struct tx *tx, const struct call *call, const struct change *change,
           struct line_row *line, int64_t now)
{
    bool expires = change_is(change, "expire") || strcmp(change->code, "expired") == 0;
    struct line_state *state = tx_write_line(tx, line);

    if (state == NULL)
        return false;
    if (change_is(change, "extend"))
        state->until_us = change->new_until_us;
    else if (change_is(change, "transfer"))
        store_copy_name(state->user, call_text(call, CP_TO_USER, change->at));
    else if (change_is(change, "confirm"))
        return store_close_line(tx, line, HOLD_CONVERTED, "", now);
    else if (expires || slice_is(call_text(call, CP_REASON, change->at), "ttl_expired"))
        return store_close_line(tx, line, HOLD_EXPIRED, "ttl_expired", now);
    else
        return store_close_line(tx, line, HOLD_CANCELLED,
                                call_text(call, CP_REASON, change->at).ptr, now);
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
changed_seat(struct tx *tx, struct pg_result *rows, const struct change *change, int seat)
{
    const struct seat_state *state = tx_sees_seat(tx, seat);

    rows_text(rows, CH_SEAT, store.seats[seat].id);
    rows_number(rows, CH_VERSION, state->version);
    rows_text(rows, CH_STATUS, seat_status_word(state->status));
    if (state->status == SEAT_HELD || state->status == SEAT_SOLD) {
        rows_uuid(rows, CH_HOLD, &state->hold);
        rows_text(rows, CH_USER, state->user);
    }
    if (state->status == SEAT_HELD)
        rows_number(rows, CH_SEAT_UNTIL, state->until_us);
    else
        rows_uuid(rows, CH_ENDED, &change->hold);
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
        changed_seat(tx, rows, change, change->lines[i]->seat);
    }
    return changed > 0 ? NULL : DATA_ERROR;
}

static struct pg_result *
change_holds(struct tx *tx, const struct call *call, const char **sqlstate)
{
    int count = call->params[CP_ORD].count;
    struct change *changes = calloc((size_t)count + 1, sizeof(*changes));
    struct pg_result *rows = rows_new(CH_SOLD + 1);

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

/* --- reads
 * ------------------------------------------------------------------------------------------- */

static void
hold_row(const struct tx *tx, struct pg_result *rows, int pos, const struct line_row *line)
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
            hold_row(tx, rows, i + 1, lines[l]);
    }
    return rows;
}

static struct pg_result *
read_policies(const struct call *call)
{
    enum { RP_ORG, RP_EVENT, RP_VERSION, RP_STATUS, RP_KIND, RP_CURRENCY, RP_HOLD_TTL };
    struct pg_result *rows = rows_new(13);
    const struct policy *policy = &store.policy;
    const int64_t numbers[] = { policy->hold_ttl_s,         policy->extend_by_s,
                                policy->max_hold_s,         policy->max_seats_per_hold,
                                policy->max_seats_per_user, policy->one_hold_per_user,
                                policy->no_single_seat_gap };

    if (call->params[1].count == 0 || !slice_is(call_text(call, 1, 0), EVENT))
        return rows;
    rows_add(rows);
    rows_text(rows, RP_ORG, ORG);
    rows_text(rows, RP_EVENT, EVENT);
    rows_number(rows, RP_VERSION, store.event_version);
    rows_text(rows, RP_STATUS, event_status_word(store.event_status));
    rows_text(rows, RP_KIND, "event");
    rows_text(rows, RP_CURRENCY, "EUR");
    for (int i = 0; i < 7; i++)
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
        rows_number(rows, 4, false);
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
        if (!state->exists || state->status != HOLD_ACTIVE || state->until_us >= before)
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
    rows_number(rows, 0, units_of(tx, user, NULL));
    rows_number(rows, 1, units_of(tx, user, &hold));
    return rows;
}

/* --- locks that are waited for
 * --------------------------------------------------------------------------- */

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

/* --- Idempotency-Keys
 * --------------------------------------------------------------------------------- */

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

/* --- nodes
 * ------------------------------------------------------------------------------------------------
 */

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
    struct pg_result *rows = rows_new(3);
    int64_t others, newest;
    bool mine = nodes_beat(call_text(call, 0, 0).ptr, call_number(call, 1, 0), &others, &newest);

    rows_add(rows);
    rows_number(rows, 0, mine);
    rows_number(rows, 1, others);
    rows_number(rows, 2, newest);
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
    nodes_leave(call_text(call, 0, 0).ptr, call_number(call, 1, 0));
    return rows_new(1);
}

/* --- which is which
 * ----------------------------------------------------------------------------------------- */

struct pg_result *
store_run(struct tx *tx, const struct call *call, const char **sqlstate)
{
    *sqlstate = NULL;
    switch (call->statement) {
    case STATEMENT_HOLD_SEATS:
        return hold_seats(tx, call, sqlstate);
    case STATEMENT_CHANGE_HOLDS:
        return change_holds(tx, call, sqlstate);
    case STATEMENT_READ_HOLDS:
        return read_holds(tx, call);
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
    case STATEMENT_READ_NODE:
        return read_node(call);
    case STATEMENT_NODE_LEAVE:
        return node_leave(call);
    case STATEMENT_READ_CLOCK:
        return one_number(store_now());
    case STATEMENT_LOCK_AREAS:    /* there are none */
    case STATEMENT_PURGE_BATCHES: /* an hour is longer than a seed */
    case STATEMENT_PURGE_IDEMPOTENCY_KEYS:
        return one_number(0);
    default:
        violation("the fake store has no statement %d", (int)call->statement);
    }
}
