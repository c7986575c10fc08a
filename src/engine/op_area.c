/*
 * op_area.c - taking quantities of areas: what goes to hold_areas, and what its rows mean.
 */
#include "engine_internal.h"

bool
op_is_area_hold(const struct op *op)
{
    return op->kind == OP_HOLD && op->seat_count == 0 && op->area_count > 0;
}

void
send_hold_areas(struct batch *batch, const struct hold_growth *growth, const int *only,
                int only_count)
{
    struct pg_array *columns[HOLD_COLUMNS];
    struct pg_array *quantity = worker_array(batch->worker, HOLD_COLUMNS, PG_INT4);
    struct pg_array *look = worker_array(batch->worker, HOLD_COLUMNS + 1, PG_BOOL);
    struct pg_array *ip = worker_array(batch->worker, HOLD_COLUMNS + 2, PG_TEXT);
    struct pg_params params;
    int row = 0;

    pg_params_init(&params);
    hold_columns_take(batch->worker, columns);
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        /* Lines of seats come first; a growing hold's seats are counted by the caller. */
        int line = growth ? growth->line_next : op->seat_count + 1;
        if (!op->solo && !op_is_area_hold(op))
            continue;
        if (!op->solo)
            op->row_first = row;
        for (int a = 0; a < (only ? only_count : op->area_count); a++) {
            const struct op_area *area = &op->areas[only ? only[a] : a];
            hold_columns_add(columns, op, i, area->id, line++, growth);
            pg_array_int(quantity, area->quantity);
            pg_array_bool(look, growth == NULL && op->kind == OP_HOLD && op->seat_count == 0);
            worker_array_text(ip, op->client_ip);
            row++;
        }
        if (!op->solo)
            op->row_end = row;
    }
    for (int i = 0; i < HOLD_COLUMNS; i++)
        pg_param_array(&params, columns[i]);
    pg_param_array(&params, quantity);
    pg_param_array(&params, look);
    pg_param_array(&params, ip);
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
            if (uuid_equal(&op->grow_hold,
                           &op->hold_id)) { /* made by a run whose outcome was lost */
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
