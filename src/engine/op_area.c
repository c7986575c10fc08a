/*
 * op_area.c - taking quantities of areas: what goes to hold_areas, and what its rows mean.
 */
#include "engine_internal.h"

#include <string.h>

bool
op_is_area_hold(const struct op *op)
{
    return op->kind == OP_HOLD && op->seat_count == 0 && op->area_count > 0;
}

enum { P_ORD, P_ORG, P_EVENT, P_AREA, P_QUANTITY, P_HOLD, P_USER, P_CART, P_TTL, P_SOURCE, P_VERSION, P_PRIVILEGED,
       P_EMAIL, P_ACTOR, P_REQUEST, P_LINE, P_UNTIL, P_BORN, P_LOOK, P_COUNT };

static const enum pg_type column_types[P_COUNT] = {
    [P_ORD] = PG_INT4,     [P_ORG] = PG_TEXT,    [P_EVENT] = PG_TEXT,     [P_AREA] = PG_TEXT,
    [P_QUANTITY] = PG_INT4, [P_HOLD] = PG_UUID,  [P_USER] = PG_TEXT,      [P_CART] = PG_TEXT,
    [P_TTL] = PG_INT4,     [P_SOURCE] = PG_TEXT, [P_VERSION] = PG_INT8,   [P_PRIVILEGED] = PG_BOOL,
    [P_EMAIL] = PG_TEXT,   [P_ACTOR] = PG_TEXT,  [P_REQUEST] = PG_TEXT,   [P_LINE] = PG_INT4,
    [P_UNTIL] = PG_TIMESTAMPTZ, [P_BORN] = PG_TIMESTAMPTZ, [P_LOOK] = PG_BOOL,
};

static void
add_area(struct pg_array **c, const struct op *op, int ord, const struct op_area *area, int line,
         const struct hold_growth *growth)
{
    pg_array_int(c[P_ORD], ord);
    pg_array_text(c[P_ORG], op->org);
    pg_array_text(c[P_EVENT], op->event);
    pg_array_text(c[P_AREA], area->id);
    pg_array_int(c[P_QUANTITY], area->quantity);
    pg_array_uuid(c[P_HOLD], growth ? &growth->hold : &op->hold_id);
    pg_array_text(c[P_USER], growth ? growth->user : op->user);
    pg_array_text(c[P_CART], growth ? growth->cart_token : op->cart_token);
    pg_array_int(c[P_TTL], op->seconds);
    pg_array_text(c[P_SOURCE], growth ? growth->source : op->source);
    pg_array_int(c[P_VERSION], op->info.version);
    pg_array_bool(c[P_PRIVILEGED], op->privileged);
    worker_array_text(c[P_EMAIL], op->customer_email);
    worker_array_text(c[P_ACTOR], op->actor);
    worker_array_text(c[P_REQUEST], op->request_id);
    pg_array_int(c[P_LINE], line);
    if (growth != NULL) {
        pg_array_time(c[P_UNTIL], growth->until);
        pg_array_time(c[P_BORN], growth->born);
    } else {
        pg_array_null(c[P_UNTIL]);
        pg_array_null(c[P_BORN]);
    }
    pg_array_bool(c[P_LOOK], growth == NULL && op->kind == OP_HOLD && op->seat_count == 0);
}

void
send_hold_areas(struct batch *batch, const struct hold_growth *growth, const int *only, int only_count)
{
    struct pg_array *columns[P_COUNT];
    struct pg_params params;
    int              row = 0;

    pg_params_init(&params);
    for (int i = 0; i < P_COUNT; i++)
        columns[i] = worker_array(batch->worker, i, column_types[i]);
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        /* Lines of seats come first; a growing hold's seats are counted by the caller. */
        int line = growth ? growth->line_next : op->seat_count + 1;
        if (!op->solo && !op_is_area_hold(op))
            continue;
        if (!op->solo)
            op->row_first = row;
        for (int a = 0; a < (only ? only_count : op->area_count); a++) {
            add_area(columns, op, i, &op->areas[only ? only[a] : a], line++, growth);
            row++;
        }
        if (!op->solo)
            op->row_end = row;
    }
    for (int i = 0; i < P_COUNT; i++)
        pg_param_array(&params, columns[i]);
    pg_tx_send(batch->worker->pg, STATEMENT_HOLD_AREAS, &params);
}

void
send_reclaim_areas(struct batch *batch)
{
    struct pg_array *org = worker_array(batch->worker, 0, PG_TEXT);
    struct pg_array *event = worker_array(batch->worker, 1, PG_TEXT);
    struct pg_array *area = worker_array(batch->worker, 2, PG_TEXT);
    struct pg_params params;

    for (int i = 0; i < batch->count; i++) {
        const struct op *op = batch->ops[i];
        for (int a = 0; a < op->area_count; a++) {
            pg_array_text(org, op->org);
            pg_array_text(event, op->event);
            pg_array_text(area, op->areas[a].id);
        }
    }
    pg_params_init(&params);
    pg_param_array(&params, org);
    pg_param_array(&params, event);
    pg_param_array(&params, area);
    pg_tx_send(batch->worker->pg, STATEMENT_RECLAIM_AREAS, &params);
}

void
judge_hold_areas(struct batch *batch)
{
    const struct pg_result *rows = batch->rows.areas;
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        if (!op_is_area_hold(op) || op->row_first == op->row_end)
            continue;
        op->tier = TIER_POSTGRES;
        op->fate = FATE_ANSWER;
        op->hold = NULL;
        op->same = false;
        op_judge_word(op, pg_get_text(rows, op->row_first, HA_CODE));
        op->areas[0].code = op->status;
        if (op->fate == FATE_AGAIN)
            continue;
        if (op->same) {
            op->grow_hold = pg_get_uuid(rows, op->row_first, HA_HOLD);
            if (uuid_equal(&op->grow_hold, &op->hold_id)) { /* made by a run whose outcome was lost */
                op->status = HF_CREATED;
                op->same = false;
            }
        } else if (op->status == HF_OK) {
            op->status = HF_CREATED;
            op->areas[0].code = HF_OK;
            op->judged_at = pg_get_time(rows, op->row_first, HA_NOW);
            op->ends_at = pg_get_time(rows, op->row_first, HA_UNTIL);
            op->hold = hold_view_new(op, NULL, 0, 0, rows, op->row_first, op->row_end);
            if (op->hold == NULL)
                op->grow_hold = op->hold_id;
        }
    }
}
