/*
 * op_change.c - what is done to a hold after its birth: extend, confirm, transfer,
 * release, remove seats, expire, and what a payment does to it. One statement for any mix
 * (change_holds.sql): every release goes through it, whoever wants it and why.
 */
#include "engine_internal.h"

#include <string.h>

bool
op_is_change(const struct op *op)
{
    switch (op->kind) {
    case OP_EXTEND:
    case OP_CANCEL:
    case OP_REMOVE:
    case OP_CONFIRM:
    case OP_TRANSFER:
    case OP_EXPIRE:
        return true;
    case OP_HOLD:
    case OP_PATCH:
    case OP_RETURN:
    case OP_ASSIGN:
    case OP_CHECKOUT_START:
    case OP_CHECKOUT_CANCEL:
    case OP_PAY:
    case OP_PAY_SETTLE:
    case OP_ANSWER:
        break;
    }
    return false;
}

bool
op_is_of_checkout(const struct op *op)
{
    return op->kind == OP_CHECKOUT_START || op->kind == OP_CHECKOUT_CANCEL || op->kind == OP_PAY ||
           op->kind == OP_PAY_SETTLE;
}

bool
op_may_be_of(const struct op *op, struct slice event)
{
    return op->bound_event.len == 0 || slice_equal(op->bound_event, event);
}

static const char *
word_of_kind(enum op_kind kind)
{
    switch (kind) {
    case OP_EXTEND:
        return "extend";
    case OP_CONFIRM:
        return "confirm";
    case OP_TRANSFER:
        return "transfer";
    case OP_CANCEL:
        return "cancel";
    case OP_REMOVE:
        return "remove";
    case OP_EXPIRE:
        return "expire";
    case OP_HOLD:
    case OP_PATCH:
    case OP_RETURN:
    case OP_ASSIGN:
    case OP_CHECKOUT_START:
    case OP_CHECKOUT_CANCEL:
    case OP_PAY:
    case OP_PAY_SETTLE:
    case OP_ANSWER:
        break; /* each of several pieces, or none */
    }
    hf_assert(false);
    return "";
}

enum {
    P_ORD,
    P_WHAT,
    P_ORG,
    P_HOLD,
    P_OWNER,
    P_SECONDS,
    P_TO_USER,
    P_REASON,
    P_NOTES,
    P_ACTOR,
    P_REQUEST,
    P_REPEAT,
    P_DROP_ORD,
    P_DROP_SEAT,
    P_EXPECT_ORD,
    P_EXPECT_SEAT,
    P_EXPECT_VERSION,
    P_CHECKOUT,
    P_IP,
    P_AGENT,
    P_ALONE,
    P_BOUND,
    P_COUNT
};

static const enum pg_type column_types[P_COUNT] = {
    [P_ORD] = PG_INT4,         [P_WHAT] = PG_TEXT,           [P_ORG] = PG_TEXT,
    [P_HOLD] = PG_UUID,        [P_OWNER] = PG_TEXT,          [P_SECONDS] = PG_INT4,
    [P_TO_USER] = PG_TEXT,     [P_REASON] = PG_TEXT,         [P_NOTES] = PG_TEXT,
    [P_ACTOR] = PG_TEXT,       [P_REQUEST] = PG_TEXT,        [P_REPEAT] = PG_BOOL,
    [P_DROP_ORD] = PG_INT4,    [P_DROP_SEAT] = PG_TEXT,      [P_EXPECT_ORD] = PG_INT4,
    [P_EXPECT_SEAT] = PG_TEXT, [P_EXPECT_VERSION] = PG_INT8, [P_CHECKOUT] = PG_UUID,
    [P_IP] = PG_TEXT,          [P_AGENT] = PG_TEXT,          [P_ALONE] = PG_BOOL,
    [P_BOUND] = PG_TEXT,
};

/* What the node finds out by itself, and what was paid for, is no matter of whose hold it is. */
static bool
asks_for_owner(const struct op *op)
{
    return !op->privileged && op->kind != OP_EXPIRE && op->kind != OP_PAY_SETTLE;
}

static void
add_change(struct pg_array **c, const struct op *op, const char *word, int ord)
{
    pg_array_int(c[P_ORD], ord);
    pg_array_text(c[P_WHAT], slice_of(word));
    pg_array_text(c[P_ORG], op->org);
    pg_array_uuid(c[P_HOLD], &op->hold_id);
    if (asks_for_owner(op))
        pg_array_text(c[P_OWNER], op->user);
    else
        pg_array_null(c[P_OWNER]);
    pg_array_int(c[P_SECONDS], op->seconds);
    worker_array_text(c[P_TO_USER], op->to_user);
    worker_array_text(c[P_REASON], op->reason ? slice_of(op->reason) : SLICE_EMPTY);
    worker_array_text(c[P_NOTES], op->notes);
    worker_array_text(c[P_ACTOR], op->actor);
    worker_array_text(c[P_REQUEST], op->request_id);
    pg_array_bool(c[P_REPEAT], op->may_have_run);
    worker_array_text(c[P_IP], op->client_ip);
    worker_array_text(c[P_AGENT], op->user_agent);
    worker_array_text(c[P_BOUND], op->bound_event);
    pg_array_bool(c[P_ALONE], op->solo);
    if (op->kind == OP_PAY)
        pg_array_uuid(c[P_CHECKOUT], &op->checkout_id);
    else
        pg_array_null(c[P_CHECKOUT]);
    for (int i = 0; i < op->drop_count; i++) {
        pg_array_int(c[P_DROP_ORD], ord);
        pg_array_text(c[P_DROP_SEAT], op->drop[i].id);
    }
    for (int i = 0; op->kind == OP_CONFIRM && i < op->seat_count; i++) {
        if (op->seats[i].expect_version < 0)
            continue;
        pg_array_int(c[P_EXPECT_ORD], ord);
        pg_array_text(c[P_EXPECT_SEAT], op->seats[i].id);
        pg_array_int(c[P_EXPECT_VERSION], op->seats[i].expect_version);
    }
}

/* The statement's parameters are ready in the worker's arrays. */
static void
send_columns(struct batch *batch, struct pg_array **columns)
{
    struct pg_params params;
    pg_params_init(&params);
    for (int i = 0; i < P_COUNT; i++)
        pg_param_array(&params, columns[i]);
    pg_tx_send(batch->worker->pg, STATEMENT_CHANGE_HOLDS, &params);
}

static void
take_columns(struct batch *batch, struct pg_array **columns)
{
    for (int i = 0; i < P_COUNT; i++)
        columns[i] = worker_array(batch->worker, i, column_types[i]);
}

void
send_change_holds(struct batch *batch)
{
    struct pg_array *columns[P_COUNT];
    take_columns(batch, columns);
    for (int i = 0; i < batch->count; i++)
        if (op_is_change(batch->ops[i]))
            add_change(columns, batch->ops[i], word_of_kind(batch->ops[i]->kind), i);
    send_columns(batch, columns);
}

void
send_solo_change(struct batch *batch, const struct op *op, const char *word,
                 const struct uuid *holds, int count, const char *reason)
{
    struct pg_array *columns[P_COUNT];
    take_columns(batch, columns);
    for (int i = 0; i < count; i++) {
        struct op one = *op;
        one.hold_id = holds[i];
        one.reason = reason;
        add_change(columns, &one, word, i);
    }
    send_columns(batch, columns);
}

/* --- verdicts --------------------------------------------------------------------- */

void
op_judge_word(struct op *op, struct slice word)
{
    char text[40];
    op->fate = FATE_ANSWER;
    op->same = false;
    op->retry_after_s = 0;
    if (slice_is(word, "ok") || slice_is(word, "expired")) {
        op->status = HF_OK;
    } else if (slice_is(word, "same")) {
        op->status = HF_OK;
        op->same = true;
    } else if (slice_is(word, "stale")) {
        op->fate = FATE_AGAIN;
    } else if (slice_is(word, "alone")) {
        op->solo = true;
        op->fate = FATE_AGAIN;
    } else if (slice_is(word, "not_over") || slice_is(word, "locked")) {
        op->status = HF_SEAT_CONTENDED;
        op->retry_after_s = 1;
        if (slice_is(word, "locked"))
            op->fate = FATE_LATER;
    } else {
        op->status = HF_INTERNAL;
        if (word.len < sizeof(text)) {
            memcpy(text, word.ptr, word.len);
            text[word.len] = '\0';
            (void)status_from_code(text, &op->status);
        }
    }
}

static void
judge_change(struct op *op, const struct pg_result *rows, int row, const struct pg_result *views,
             int pos)
{
    op->tier = TIER_POSTGRES;
    op->hold = NULL;
    op_judge_word(op, pg_get_text(rows, row, CH_CODE));
    op->hold_event = arena_copy(&op->arena, pg_get_text(rows, row, CH_EVENT));
    op->judged_at = pg_get_time(rows, row, CH_NOW);
    op->ends_at = pg_get_time(rows, row, CH_UNTIL);
    op->of_flight = pg_get_bool(rows, row, CH_FLIGHT);
    /* A wheel or a reaper tries again by itself; a client's change is tried until its deadline. */
    if (op->fate == FATE_LATER && op->kind == OP_EXPIRE && op->locked_tries >= LOCKED_TRIES)
        op->fate = FATE_ANSWER;
    bool shows = op->status == HF_OK || op->kind == OP_EXPIRE;
    if (op->fate == FATE_ANSWER && shows && !op_show(op, views, pos) && op->kind != OP_EXPIRE)
        op->status = HF_INTERNAL;
}

void
judge_changes(struct batch *batch)
{
    const struct pg_result *rows = batch->rows.changes;
    int row = 0, pos = 0;
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        if (!op_is_change(op))
            continue;
        pos++;
        while (row < pg_rows(rows) && pg_get_int(rows, row, CH_ORD) < i)
            row++;
        hf_assert(row < pg_rows(rows) && pg_get_int(rows, row, CH_ORD) == i);
        op->row_first = row;
        op->changed = 0;
        judge_change(op, rows, row, batch->rows.views, pos);
        for (; row < pg_rows(rows) && pg_get_int(rows, row, CH_ORD) == i; row++)
            op->changed += !pg_is_null(rows, row, CH_SEAT) || !pg_is_null(rows, row, CH_AREA);
        op->row_end = row;
    }
}
