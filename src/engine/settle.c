/*
 * settle.c - what a committed change tells the hot table, Redis, and those who watch (tell.c).
 * Always after the commit, with the versions that Postgres gave.
 */
#include "engine_internal.h"

#include <stdlib.h>

#include "holdfast/metrics.h"

/* --- memory and feed -------------------------------------------------------------- */

void
settle_seat(struct batch *batch, const struct seat_key *key, const struct seat_view *view,
            bool claimed, bool ours, struct waiter_list *waiters)
{
    struct node *node = batch->worker->node;
    struct hot_waiter *chain = NULL;
    bool arm = ours && view != NULL && view->status == SEAT_HELD && !view->in_payment;
    if (claimed) {
        hot_table_settle(node->hot, key, view, batch->began, arm, &chain);
        waiter_list_add(waiters, chain);
    } else if (view != NULL) {
        hot_table_learn(node->hot, key, view, batch->began, arm);
    }
}

static uint64_t
hash_user(struct slice user)
{
    return user.len == 0 ? 0 : hash_seeded(user.ptr, user.len);
}

/* What a row of hold_seats says about its seat. False: nothing that may be believed. */
static bool
view_of_hold_row(const struct pg_result *rows, int row, struct seat_view *view)
{
    if (pg_is_null(rows, row, HS_VERSION) || slice_is(pg_get_text(rows, row, HS_CODE), "locked") ||
        slice_is(pg_get_text(rows, row, HS_CODE), "stale") ||
        !seat_status_parse(pg_get_text(rows, row, HS_STATUS), &view->status))
        return false;
    view->in_payment = pg_get_bool(rows, row, HS_IN_PAYMENT);
    view->hold_id = pg_get_uuid(rows, row, HS_HOLD);
    view->user_hash = hash_user(pg_get_text(rows, row, HS_USER));
    view->held_until = pg_get_time(rows, row, HS_UNTIL);
    view->version = pg_get_int(rows, row, HS_VERSION);
    return true;
}

static void
tell_hold_row(struct batch *batch, int row, const struct seat_key *key,
              const struct seat_view *view)
{
    const struct pg_result *rows = batch->rows.seats;
    struct db_time at = pg_get_time(rows, row, HS_NOW);

    if (pg_get_bool(rows, row, HS_TAKEOVER))
        tell_takeover(batch->worker, key, view->version - 1,
                      feed_reason_parse(pg_get_text(rows, row, HS_OVER_WHY)), at);
    tell_seat(batch->worker, key, view, pg_get_text(rows, row, HS_USER), FEED_REASON_NONE, at);
}

/*
 * What a lost race showed of a seat. The map may have missed it (a row that was changed by hand, a
 * record that was lost), and would name the seat again until the op's time is up. Without a version
 * there is no such seat, or nothing may be believed.
 */
static void
show_map(struct batch *batch, const struct seat_key *key, int row, const struct seat_view *view)
{
    bool is_missing = slice_is(pg_get_text(batch->rows.seats, row, HS_CODE), "seat_not_found");
    struct feed_change change = { .kind = view != NULL ? FEED_SEAT : FEED_SEATS,
                                  .org = key->org,
                                  .event = key->event,
                                  .item = key->seat };

    if (view == NULL && !is_missing)
        return;
    if (view != NULL) {
        change.status = view->status;
        change.user = pg_get_text(batch->rows.seats, row, HS_USER);
        change.in_payment = view->in_payment;
        change.held_until = view->held_until;
        change.version = view->version;
    }
    seat_maps_take(batch->worker->node->maps, &change, (struct feed_mark){ 0, 0 }, NULL);
}

void
settle_hold_rows(struct batch *batch, struct op *op, bool committed, struct waiter_list *waiters)
{
    const struct pg_result *rows = batch->rows.seats;
    if (op->fate != FATE_ANSWER && !best_is_lost(op))
        return;
    for (int row = op->row_first; row < op->row_end; row++) {
        struct op_seat *seat = op_row_seat(op, row);
        struct seat_key key = op_seat_key(op, seat);
        struct seat_view view = { 0 };
        bool taken = pg_get_bool(rows, row, HS_TAKEN);
        /* Behind a release of our own the seats are as the transaction saw them. */
        bool stands = committed || (!taken && batch->rows.changes == NULL);
        bool known = view_of_hold_row(rows, row, &view) && stands;
        if (waiters != NULL)
            settle_seat(batch, &key, known ? &view : NULL, seat->claimed, taken, waiters);
        seat->claimed = false;
        if (taken && committed)
            tell_hold_row(batch, row, &key, &view);
        else if (best_is_lost(op))
            show_map(batch, &key, row, known ? &view : NULL);
    }
}

static void
tell_change_area(struct batch *batch, const struct op *op, int row)
{
    const struct pg_result *rows = batch->rows.changes;
    struct area_counts area = { .org = op->org,
                                .event = pg_get_text(rows, row, CH_EVENT),
                                .area = pg_get_text(rows, row, CH_AREA),
                                .held = pg_get_int(rows, row, CH_HELD),
                                .sold = pg_get_int(rows, row, CH_SOLD),
                                .version = pg_get_int(rows, row, CH_VERSION) };

    tell_area(batch->worker, &area, pg_get_time(rows, row, CH_NOW));
}

/* The seat of a row of change_holds, and how it stands now. False: it names none. */
static bool
view_of_change_row(const struct pg_result *rows, int row, struct seat_view *view)
{
    if (!pg_is_null(rows, row, CH_AREA) || pg_is_null(rows, row, CH_SEAT) ||
        !seat_status_parse(pg_get_text(rows, row, CH_STATUS), &view->status))
        return false;
    view->hold_id = pg_get_uuid(rows, row, CH_HOLD);
    view->user_hash = hash_user(pg_get_text(rows, row, CH_USER));
    view->held_until = pg_get_time(rows, row, CH_SEAT_UNTIL);
    view->version = pg_get_int(rows, row, CH_VERSION);
    view->in_payment = pg_get_bool(rows, row, CH_IN_PAYMENT);
    return true;
}

/* waiters NULL: only those who watch hear of it. */
static void
settle_change_row(struct batch *batch, const struct op *op, int row, struct waiter_list *waiters)
{
    const struct pg_result *rows = batch->rows.changes;
    struct seat_key key = { op->org, pg_get_text(rows, row, CH_EVENT),
                            pg_get_text(rows, row, CH_SEAT) };
    struct seat_view view = { 0 };

    if (!pg_is_null(rows, row, CH_AREA))
        tell_change_area(batch, op, row);
    if (!view_of_change_row(rows, row, &view))
        return;
    if (waiters != NULL)
        settle_seat(batch, &key, &view, false, true, waiters);
    tell_seat(batch->worker, &key, &view, pg_get_text(rows, row, CH_USER),
              feed_reason_parse(pg_get_text(rows, row, CH_WHY)), pg_get_time(rows, row, CH_NOW));
}

void
settle_change_rows(struct batch *batch, struct waiter_list *waiters)
{
    const struct pg_result *rows = batch->rows.changes;
    for (int row = 0; row < pg_rows(rows); row++) {
        int ord = batch->ops[0]->solo ? 0 : (int)pg_get_int(rows, row, CH_ORD);
        if (ord >= 0 && ord < batch->count)
            settle_change_row(batch, batch->ops[ord], row, waiters);
    }
}

/* Holds of areas alone have no seat whose timer could expire them: a key of their own has it. */
void
settle_area_timer(struct batch *batch, const struct op *op, const struct hold_view *hold)
{
    char text[1 + UUID_TEXT_BYTES] = "~";
    struct seat_view view = { .status = SEAT_HELD,
                              .hold_id = hold->hold_id,
                              .user_hash = op->user_hash,
                              .held_until = hold->held_until,
                              .version = 1 };
    uuid_format(&hold->hold_id, text + 1);
    struct seat_key key = { op->org, hold->event, slice_of(text) };
    if (!hot_table_rearm(batch->worker->node->hot, &key, &hold->hold_id, hold->held_until))
        hot_table_learn(batch->worker->node->hot, &key, &view, batch->began, true);
}

static bool
has_seats(const struct hold_view *hold)
{
    for (int i = 0; i < hold->line_count; i++)
        if (hold->lines[i].seat.len > 0)
            return true;
    return false;
}

void
settle_checkout_timers(struct batch *batch, const struct op *op)
{
    const struct checkout_view *checkout = op->checkout;
    for (int i = 0; checkout->status == CHECKOUT_OPEN && i < checkout->hold_count; i++)
        if (checkout->holds[i]->status == HOLD_ACTIVE && !has_seats(checkout->holds[i]))
            settle_area_timer(batch, op, checkout->holds[i]);
}

void
settle_area_row(struct batch *batch, const struct op *op, struct slice area, int row)
{
    const struct pg_result *rows = batch->rows.areas;
    struct area_counts counts = { .org = op->org,
                                  .event = op->event,
                                  .area = area,
                                  .held = pg_get_int(rows, row, HA_HELD),
                                  .sold = pg_get_int(rows, row, HA_SOLD),
                                  .version = pg_get_int(rows, row, HA_VERSION) };

    tell_area(batch->worker, &counts, pg_get_time(rows, row, HA_NOW));
}

/* Columns of reclaim_areas. */
enum { RA_ORG, RA_EVENT, RA_AREA, RA_HELD, RA_SOLD, RA_VERSION };

void
settle_reclaimed_rows(struct batch *batch)
{
    const struct pg_result *rows = batch->rows.reclaimed;
    struct db_time at = pg_get_time(batch->rows.areas, 0, HA_NOW); /* the next statement's */

    for (int row = 0; row < pg_rows(rows); row++) {
        struct area_counts counts = { .org = pg_get_text(rows, row, RA_ORG),
                                      .event = pg_get_text(rows, row, RA_EVENT),
                                      .area = pg_get_text(rows, row, RA_AREA),
                                      .held = pg_get_int(rows, row, RA_HELD),
                                      .sold = pg_get_int(rows, row, RA_SOLD),
                                      .version = pg_get_int(rows, row, RA_VERSION) };
        tell_area(batch->worker, &counts, at);
    }
}

void
settle_area_rows(struct batch *batch)
{
    settle_reclaimed_rows(batch);
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        if (!op_is_area_hold(op) || op->fate != FATE_ANSWER || op->row_first == op->row_end ||
            !pg_get_bool(batch->rows.areas, op->row_first, HA_TAKEN))
            continue;
        if (op->hold != NULL)
            settle_area_timer(batch, op, op->hold);
        for (int row = op->row_first; row < op->row_end; row++)
            settle_area_row(batch, op, op->areas[row - op->row_first].id, row);
    }
}

/* --- Redis -------------------------------------------------------------------------- */

/* Room for `more` further holds in the worker's list. */
static struct warm_hold *
warm_room(struct worker *worker, int count, int more)
{
    if (count + more <= worker->warm_capacity)
        return worker->warm_holds;
    int capacity = (count + more) * 2;
    struct warm_hold *grown = realloc(worker->warm_holds, (size_t)capacity * sizeof(*grown));
    if (grown == NULL)
        return NULL;
    worker->warm_holds = grown;
    worker->warm_capacity = capacity;
    return grown;
}

/* One seat as Redis shall have it; `hold` may be NULL where only the id matters (removal). */
static int
add_warm(struct worker *worker, int count, const struct op *op, struct slice event,
         struct slice seat, const struct uuid *hold_id, const struct hold_view *hold,
         int64_t version)
{
    struct warm_hold *holds = warm_room(worker, count, 1);
    if (holds == NULL)
        return count;
    struct warm_hold *one = &holds[count];
    *one = (struct warm_hold){ .org = op->org,
                               .event = event,
                               .seat = seat,
                               .user = op->user,
                               .cart_token = op->cart_token,
                               .source = op->source,
                               .hold_id = *hold_id,
                               .version = version };
    if (hold != NULL) {
        one->user = hold->user;
        one->cart_token = hold->cart_token;
        one->source = hold->source;
        one->held_at = hold->created_at;
        one->held_until = hold->held_until;
        one->as_of = hold->now;
        one->ttl_ms = (hold->held_until.us - hold->now.us) / TIME_US_PER_MS;
        if (one->ttl_ms < 1)
            one->ttl_ms = 1;
    }
    return count + 1;
}

/* Holds that were granted. Nobody else has heard of a new hold's id, so nobody can have written its
 * key. */
static int
add_hold_rows(struct batch *batch, int count)
{
    const struct pg_result *rows = batch->rows.seats;
    for (int i = 0; i < batch->count; i++) {
        const struct op *op = batch->ops[i];
        if (op->fate != FATE_ANSWER || op->hold == NULL || op_is_change(op) || op_is_area_hold(op))
            continue;
        for (int row = op->row_first; row < op->row_end; row++) {
            struct uuid hold = pg_get_uuid(rows, row, HS_HOLD);
            int before = count;
            if (pg_get_bool(rows, row, HS_TAKEN))
                count = add_warm(batch->worker, count, op, op->event, op_row_seat(op, row)->id,
                                 &hold, op->hold, pg_get_int(rows, row, HS_VERSION));
            if (count > before)
                batch->worker->warm_holds[before].fresh =
                    op->kind == OP_HOLD && !op->grow && !pg_get_bool(rows, row, HS_TAKEOVER);
        }
    }
    return count;
}

/* Changes that left a seat held (put: a new end or owner) or not (remove). */
static int
add_change_rows(struct batch *batch, int count, bool held)
{
    const struct pg_result *rows = batch->rows.changes;
    for (int row = 0; row < pg_rows(rows); row++) {
        int ord = batch->ops[0]->solo ? 0 : (int)pg_get_int(rows, row, CH_ORD);
        if (pg_is_null(rows, row, CH_SEAT) || ord < 0 || ord >= batch->count)
            continue;
        const struct op *op = batch->ops[ord];
        bool is_held = slice_is(pg_get_text(rows, row, CH_STATUS), "held");
        struct uuid hold =
            is_held ? pg_get_uuid(rows, row, CH_HOLD) : pg_get_uuid(rows, row, CH_ENDED);
        const struct hold_view *view = op_hold_view(op, &hold);
        if (is_held != held || (held && view == NULL))
            continue;
        int before = count;
        count = add_warm(batch->worker, count, op, pg_get_text(rows, row, CH_EVENT),
                         pg_get_text(rows, row, CH_SEAT), &hold, held ? view : NULL,
                         pg_get_int(rows, row, CH_VERSION));
        if (!held && count > before) {
            struct warm_hold *gone = &batch->worker->warm_holds[before];
            gone->user = pg_get_text(rows, row, CH_OWNER); /* the member names him, not the actor */
            gone->lives_on = view != NULL && view->status == HOLD_ACTIVE;
        }
    }
    return count;
}

void
redis_settle(struct batch *batch)
{
    struct warm *warm = batch->worker->warm;
    struct mono_time start = mono_now();
    int put = 0, gone = 0;
    if (!warm_is_on(warm))
        return;
    if (batch->rows.seats != NULL)
        put = add_hold_rows(batch, put);
    if (batch->rows.changes != NULL)
        put = add_change_rows(batch, put, true);
    if (put > 0)
        (void)warm_put(warm, batch->worker->warm_holds, put);
    if (batch->rows.changes != NULL)
        gone = add_change_rows(batch, gone, false);
    if (gone > 0)
        (void)warm_remove(warm, batch->worker->warm_holds, gone);
    metric_observe(METRIC_REDIS_SECONDS, (uint64_t)(mono_now().us - start.us));
}
