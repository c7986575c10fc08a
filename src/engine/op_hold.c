/*
 * op_hold.c - taking seats: what goes to hold_seats, and what its rows mean.
 *
 * A hold is granted when all its rows say so. Else the first reason in the order of the
 * API counts: event, unknown seats, limits, then what is taken, and last a single seat that would
 * be left alone: such an op was only looked at, and hears "locked" of each seat. Seats that the
 * user has already are no reason: all of them are his -> his hold is the answer; some -> the free
 * ones are added to it, in a transaction of its own (solo.c).
 */
#include "engine_internal.h"

#include <string.h>

bool
op_is_seat_hold(const struct op *op)
{
    return op->kind == OP_HOLD && op->seat_count > 0;
}

/* --- parameters ------------------------------------------------------------------ */

static const enum pg_type column_types[HOLD_COLUMNS] = {
    [HC_ORD] = PG_INT4,          [HC_ORG] = PG_TEXT,         [HC_EVENT] = PG_TEXT,
    [HC_ITEM] = PG_TEXT,         [HC_HOLD] = PG_UUID,        [HC_USER] = PG_TEXT,
    [HC_CART] = PG_TEXT,         [HC_TTL] = PG_INT4,         [HC_SOURCE] = PG_TEXT,
    [HC_VERSION] = PG_INT8,      [HC_PRIVILEGED] = PG_BOOL,  [HC_EMAIL] = PG_TEXT,
    [HC_ACTOR] = PG_TEXT,        [HC_REQUEST] = PG_TEXT,     [HC_LINE] = PG_INT4,
    [HC_UNTIL] = PG_TIMESTAMPTZ, [HC_BORN] = PG_TIMESTAMPTZ,
};

void
hold_columns_take(struct worker *worker, struct pg_array **columns)
{
    for (int i = 0; i < HOLD_COLUMNS; i++)
        columns[i] = worker_array(worker, i, column_types[i]);
}

void
hold_columns_add(struct pg_array **c, const struct op *op, int ord, struct slice item, int line,
                 const struct hold_growth *growth)
{
    pg_array_int(c[HC_ORD], ord);
    pg_array_text(c[HC_ORG], op->org);
    pg_array_text(c[HC_EVENT], op->event);
    pg_array_text(c[HC_ITEM], item);
    pg_array_uuid(c[HC_HOLD], growth ? &growth->hold : &op->hold_id);
    pg_array_text(c[HC_USER], growth ? growth->user : op->user);
    pg_array_text(c[HC_CART], growth ? growth->cart_token : op->cart_token);
    pg_array_int(c[HC_TTL], op->seconds);
    pg_array_text(c[HC_SOURCE], growth ? growth->source : op->source);
    if (op->kind == OP_PAY_SETTLE) /* what was paid for is taken whatever the policy says */
        pg_array_null(c[HC_VERSION]);
    else
        pg_array_int(c[HC_VERSION], op->info.version);
    pg_array_bool(c[HC_PRIVILEGED], op->privileged);
    worker_array_text(c[HC_EMAIL], op->customer_email);
    worker_array_text(c[HC_ACTOR], op->actor);
    worker_array_text(c[HC_REQUEST], op->request_id);
    pg_array_int(c[HC_LINE], line);
    if (growth != NULL) {
        pg_array_time(c[HC_UNTIL], growth->until);
        pg_array_time(c[HC_BORN], growth->born);
    } else {
        pg_array_null(c[HC_UNTIL]);
        pg_array_null(c[HC_BORN]);
    }
}

/*
 * True if no op before ops[at] is to get this seat. Claims keep ops apart; only those with an
 * Idempotency-Key may come without one.
 */
static bool
is_first(const struct batch *batch, int at, struct slice seat)
{
    const struct op *op = batch->ops[at];
    for (int i = 0; op->keyed && i < at; i++) {
        const struct op *other = batch->ops[i];
        if (other->kind != OP_HOLD || other->gap != OP_GAP_GOOD ||
            !slice_equal(other->event, op->event) || !slice_equal(other->org, op->org))
            continue;
        for (int s = 0; s < other->seat_count; s++)
            if (slice_equal(other->seats[s].id, seat))
                return false;
    }
    return true;
}

void
send_hold_seats(struct batch *batch, const struct hold_growth *growth, int *only, int only_count)
{
    struct pg_array *columns[HOLD_COLUMNS];
    struct pg_array *first = worker_array(batch->worker, HOLD_COLUMNS, PG_BOOL);
    struct pg_array *ip = worker_array(batch->worker, HOLD_COLUMNS + 1, PG_TEXT);
    struct pg_params params;
    int row = 0;

    pg_params_init(&params);
    hold_columns_take(batch->worker, columns);
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        int line = growth ? growth->line_next : 1;
        if (!op->solo && !op_is_seat_hold(op))
            continue; /* its rows, if any, are those of another statement */
        op->row_first = row;
        op->sent = only;
        for (int s = 0; s < (only ? only_count : op->seat_count); s++) {
            struct slice seat = op->seats[only ? only[s] : s].id;
            hold_columns_add(columns, op, i, seat, line++, growth);
            pg_array_bool(first, op->gap == OP_GAP_GOOD && is_first(batch, i, seat));
            worker_array_text(ip, op->client_ip);
            row++;
        }
        op->row_end = row;
    }
    for (int i = 0; i < HOLD_COLUMNS; i++)
        pg_param_array(&params, columns[i]);
    pg_param_array(&params, first);
    pg_param_array(&params, ip);
    pg_tx_send(batch->worker->pg, STATEMENT_HOLD_SEATS, &params);
}

/* --- verdicts ----------------------------------------------------------------------- */

/* What was found, over all rows of one op. */
struct findings {
    int taken, own, locked, stale;
    bool event_missing, event_closed, seat_missing, too_many, user_limit;
    int refused_first; /* first row that says taken, sold or blocked; -1 */
    int own_first;     /* first row that the user has already; -1 */
};

static enum hf_status
code_of_row(const struct pg_result *rows, int row, struct findings *found)
{
    struct slice code = pg_get_text(rows, row, HS_CODE);
    if (slice_is(code, "ok"))
        return HF_OK;
    if (slice_is(code, "own")) {
        if (found->own++ == 0)
            found->own_first = row;
        return HF_OK;
    }
    if (slice_is(code, "locked")) {
        found->locked++;
        return HF_SEAT_CONTENDED;
    }
    if (slice_is(code, "stale")) {
        found->stale++;
        return HF_OK;
    }
    found->event_missing |= slice_is(code, "event_not_found");
    found->event_closed |= slice_is(code, "event_closed");
    found->seat_missing |= slice_is(code, "seat_not_found");
    found->too_many |= slice_is(code, "too_many_seats");
    found->user_limit |= slice_is(code, "user_limit");

    enum hf_status status = HF_INTERNAL;
    char text[32];
    if (code.len < sizeof(text)) {
        memcpy(text, code.ptr, code.len);
        text[code.len] = '\0';
        (void)status_from_code(text, &status);
    }
    if (found->refused_first < 0 &&
        (status == HF_SEAT_TAKEN || status == HF_SEAT_SOLD || status == HF_SEAT_BLOCKED))
        found->refused_first = row;
    return status;
}

struct op_seat *
op_row_seat(const struct op *op, int row)
{
    int i = row - op->row_first;
    return &op->seats[op->sent ? op->sent[i] : i];
}

static void
judge_own(struct op *op, const struct pg_result *rows, int count, const struct findings *found)
{
    op->grow_hold = pg_get_uuid(rows, found->own_first, HS_HOLD);
    bool mine = uuid_equal(&op->grow_hold, &op->hold_id); /* made by a run whose outcome was lost */
    if (found->own == count) {
        op->status = mine ? HF_CREATED : HF_OK;
        op->same = !mine;
        op->grow = false;
        return;
    }
    if (found->locked > 0 && op->gap != OP_GAP_OWN) {
        op->fate = FATE_LATER;
        op->status = HF_SEAT_CONTENDED;
        return;
    }
    op->grow = true;
    op->fate = FATE_AGAIN;
    /* What the hold that grows has is seen again under its lock; seats of others are left out. */
    for (int row = op->row_first; row < op->row_end; row++) {
        struct uuid hold = pg_get_uuid(rows, row, HS_HOLD);
        if (uuid_equal(&hold, &op->grow_hold))
            op_row_seat(op, row)->own = false;
    }
}

void
judge_seats_of(struct op *op, const struct pg_result *rows)
{
    int first = op->row_first, end = op->row_end;
    struct findings found = { .refused_first = -1, .own_first = -1 };

    op->tier = TIER_POSTGRES;
    op->fate = FATE_ANSWER;
    op->same = false;
    op->hold = NULL;
    op->retry_after_s = 0;
    if (!op->grow)
        op->grow_hold = (struct uuid){ { 0 } };
    for (int row = first; row < end; row++) {
        enum hf_status code = code_of_row(rows, row, &found);
        struct op_seat *seat = op_row_seat(op, row);
        found.taken += pg_get_bool(rows, row, HS_TAKEN);
        /* Of what was only looked at nobody can say that it is locked. */
        seat->code = code == HF_SEAT_CONTENDED && op->gap != OP_GAP_GOOD ? HF_OK : code;
        /* Only a growing pass leaves out what was found before. */
        seat->own = slice_is(pg_get_text(rows, row, HS_CODE), "own") || (op->grow && seat->own);
    }
    if (found.taken == end - first) {
        op->status = HF_CREATED;
        op->judged_at = pg_get_time(rows, first, HS_NOW);
        op->ends_at = pg_get_time(rows, first, HS_UNTIL);
    } else if (found.event_missing) {
        op->status = HF_EVENT_NOT_FOUND;
    } else if (found.stale > 0) {
        op->fate = FATE_AGAIN;
    } else if (found.event_closed) {
        op->status = HF_EVENT_CLOSED;
    } else if (found.seat_missing) {
        op->status = HF_SEAT_NOT_FOUND;
    } else if (found.too_many) {
        op->status = HF_TOO_MANY_SEATS;
    } else if (found.user_limit) {
        op->status = HF_USER_LIMIT;
    } else if (found.refused_first >= 0) {
        struct findings ignored = { 0 };
        op->status = code_of_row(rows, found.refused_first, &ignored);
    } else if (found.own > 0) {
        judge_own(op, rows, end - first, &found);
    } else if (found.locked > 0 && op->gap == OP_GAP_REFUSED) {
        op->status = HF_SINGLE_SEAT_GAP;
    } else if (found.locked > 0) {
        op->status = HF_SEAT_CONTENDED;
        op->retry_after_s = 1;
        op->fate = FATE_LATER;
    } else {
        op->status = HF_INTERNAL;
    }
    /* With every claim in hand it was another node that locked the row: that is told after a few
     * tries. */
    bool claimed = op->kind != OP_HOLD || op->claim_next == op->seat_count;
    if (op->fate == FATE_LATER && claimed && op->locked_tries >= LOCKED_TRIES) {
        op->fate = FATE_ANSWER;
        op->status = HF_SEAT_CONTENDED;
        op->retry_after_s = 1;
    }
}

/*
 * The statement judged by the event's row of this very version: what this node knows of the event
 * is fresh again. Not for each hold of a batch: a tenth of the lease is soon enough.
 */
static void
renew_event(struct batch *batch, const struct op *op)
{
    struct node *node = batch->worker->node;
    struct event_info info;
    if (op->fate == FATE_AGAIN || op->status == HF_EVENT_NOT_FOUND ||
        !events_find(node->events, op->org, op->event, &info) || info.version != op->info.version ||
        batch->began.us - info.read_at.us < node->config->hot_lease / 10)
        return;
    info.read_at = batch->began;
    events_learn(node->events, op->org, op->event, &info);
}

void
judge_hold_seats(struct batch *batch)
{
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        if (!op_is_seat_hold(op))
            continue;
        judge_seats_of(op, batch->rows.seats);
        renew_event(batch, op);
        if (op->fate != FATE_ANSWER || op->status != HF_CREATED || !uuid_is_nil(&op->grow_hold))
            continue;
        op->hold = hold_view_new(op, batch->rows.seats, op->row_first, op->row_end, NULL, 0, 0);
        if (op->hold == NULL)
            op->grow_hold = op->hold_id; /* no memory: it is read again */
    }
}
