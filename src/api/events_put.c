/*
 * events_put.c - PUT /api/events/{event}: the event, its seats and its areas in one transaction.
 *
 * The row is read first and the body is laid over it (events_body.c). The transaction then takes
 * the event's lock and begins again if somebody changed the row meanwhile. The version rises only
 * if something really changed.
 */
#include "events_put.h"

#include <string.h>

#define PUT_TRIES_MAX 4

/* --- the transaction ---------------------------------------------------------------- */

static void
add_event_params(struct pg_params *params, const struct put *put)
{
    pg_params_init(params);
    pg_param_text(params, call_org(put->call));
    pg_param_text(params, put->call->event);
}

static struct slice
request_id(const struct api_call *call)
{
    return slice_of(call->exchange->request.request_id);
}

/* HF_VERSION_CONFLICT: it is not as it was read. */
static enum hf_status
lock_row(struct pg *pg, const struct put *put)
{
    struct pg_params params;

    add_event_params(&params, put);
    pg_tx_send(pg, STATEMENT_LOCK_EVENT, &params);
    struct pg_result *rows = pg_tx_next(pg);
    if (rows == NULL)
        return HF_INTERNAL;
    int64_t version = pg_rows(rows) > 0 ? pg_get_int(rows, 0, 0) : 0;
    pg_result_free(&rows);
    return version == put->wish.version ? HF_OK : HF_VERSION_CONFLICT;
}

/* The areas that stand: locked first, judged in later statements, as everything that is waited
 * for. */
static void
send_area_locks(struct pg *pg, const struct put *put)
{
    struct pg_array org = { 0 }, event = { 0 }, area = { 0 }, no_org = { 0 }, no_hold = { 0 };
    struct pg_params params;

    pg_array_init(&org, PG_TEXT);
    pg_array_init(&event, PG_TEXT);
    pg_array_init(&area, PG_TEXT);
    pg_array_init(&no_org, PG_TEXT);
    pg_array_init(&no_hold, PG_UUID);
    for (int i = 0; i < put->area_count; i++) {
        pg_array_text(&org, call_org(put->call));
        pg_array_text(&event, put->call->event);
        pg_array_text(&area, put->areas[i].area);
    }
    pg_params_init(&params);
    pg_param_array(&params, &org);
    pg_param_array(&params, &event);
    pg_param_array(&params, &area);
    pg_param_array(&params, &no_org);
    pg_param_array(&params, &no_hold);
    pg_tx_send(pg, STATEMENT_LOCK_AREAS, &params);
    pg_params_init(&params);
    pg_param_array(&params, &org);
    pg_param_array(&params, &event);
    pg_param_array(&params, &area);
    pg_tx_send(pg, STATEMENT_RECLAIM_AREAS, &params); /* what is over doesn't keep a capacity up */
    pg_array_fini(&org);
    pg_array_fini(&event);
    pg_array_fini(&area);
    pg_array_fini(&no_org);
    pg_array_fini(&no_hold);
}

static enum hf_status
lock_areas(struct pg *pg, struct put *put)
{
    send_area_locks(pg, put);
    struct pg_result *locked = pg_tx_next(pg);
    struct pg_result *reclaimed = locked != NULL ? pg_tx_next(pg) : NULL;
    enum hf_status status = reclaimed != NULL ? HF_OK : HF_INTERNAL;
    if (status == HF_OK)
        put->areas_reclaimed = pg_rows(reclaimed);
    pg_result_free(&locked);
    pg_result_free(&reclaimed);
    return status;
}

/* Columns of upsert_areas. */
enum { AREA, AREA_WHAT };

static void
judge_areas(struct put *put, const struct pg_result *rows)
{
    char path[96];

    for (int row = 0; row < pg_rows(rows); row++) {
        struct slice what = pg_get_text(rows, row, AREA_WHAT);
        put->areas_changed += slice_is(what, "added") || slice_is(what, "changed");
        if (!slice_is(what, "short"))
            continue;
        put->areas_short++;
        field_errors_add(&put->call->arena, &put->errors,
                         put_path(path, sizeof(path), "areas", row, "capacity"),
                         "is less than what is held and sold");
    }
}

static enum hf_status
write_areas(struct pg *pg, struct put *put)
{
    struct pg_array columns[4] = { 0 };
    static const enum pg_type types[4] = { PG_TEXT, PG_TEXT, PG_INT4, PG_INT8 };
    struct pg_params params;

    add_event_params(&params, put);
    for (int i = 0; i < 4; i++)
        pg_array_init(&columns[i], types[i]);
    for (int i = 0; i < put->area_count; i++) {
        const struct area_row *area = &put->areas[i];
        pg_array_text(&columns[0], area->area);
        pg_array_text(&columns[1], area->name);
        pg_array_int(&columns[2], area->capacity);
        if (area->has_price)
            pg_array_int(&columns[3], area->price);
        else
            pg_array_null(&columns[3]);
    }
    for (int i = 0; i < 4; i++)
        pg_param_array(&params, &columns[i]);
    pg_param_text(&params, call_user(put->call));
    pg_param_text(&params, request_id(put->call));
    call_add_origin(put->call, &params);
    pg_tx_send(pg, STATEMENT_UPSERT_AREAS, &params);
    struct pg_result *rows = pg_tx_next(pg);
    for (int i = 0; i < 4; i++)
        pg_array_fini(&columns[i]);
    if (rows == NULL)
        return HF_INTERNAL;
    judge_areas(put, rows);
    pg_result_free(&rows);
    return put->areas_short > 0 ? HF_CAPACITY_IN_USE : HF_OK;
}

static enum hf_status
put_areas(struct pg *pg, struct put *put)
{
    if (put->area_count == 0)
        return HF_OK;
    enum hf_status status = lock_areas(pg, put);
    return status == HF_OK ? write_areas(pg, put) : status;
}

static void
write_meta(struct buf *out, const struct put *put)
{
    struct json_writer w;

    json_writer_init(&w, out);
    json_object_begin(&w);
    json_field_bool(&w, "created", put->created);
    json_field_text(&w, "status", slice_of(event_status_word(put->wish.status)));
    json_field_int(&w, "seats_added", put->changes.added);
    json_field_int(&w, "seats_changed", put->changes.changed);
    json_field_int(&w, "areas_changed", put->areas_changed);
    json_object_end(&w);
}

/* The event's row last: only now it is known whether anything changed. */
static enum hf_status
write_row(struct pg *pg, struct put *put, int64_t *version)
{
    struct pg_params params;
    struct buf meta = { 0 };

    *version = put->wish.version;
    if (!put->created && !put->row_differs && put->changes.added == 0 &&
        put->changes.changed == 0 && put->areas_changed == 0)
        return HF_OK;
    write_meta(&meta, put);
    add_event_params(&params, put);
    pg_param_int8(&params, put->wish.version);
    pg_param_text(&params, slice_of(event_kind_word(put->wish.kind)));
    pg_param_text(&params, put->wish.name);
    pg_param_text(&params, slice_of(event_status_word(put->wish.status)));
    pg_param_text(&params, slice_of(put->wish.currency));
    policy_add_params(&params, put->wish.policy);
    pg_param_text(&params, call_user(put->call));
    pg_param_text(&params, request_id(put->call));
    pg_param_text(&params, buf_slice(&meta));
    call_add_origin(put->call, &params);
    struct pg_array focal = { 0 };
    pg_array_init(&focal, PG_FLOAT8);
    if (put->wish.has_focal) {
        pg_array_double(&focal, put->wish.focal_x);
        pg_array_double(&focal, put->wish.focal_y);
    }
    pg_param_array(&params, &focal);
    pg_tx_send(pg, STATEMENT_PUT_EVENT, &params);
    struct pg_result *rows = meta.failed ? NULL : pg_tx_next(pg);
    pg_array_fini(&focal);
    buf_fini(&meta);
    if (rows == NULL)
        return HF_INTERNAL;
    enum hf_status status = pg_rows(rows) == 1 ? HF_OK : HF_VERSION_CONFLICT;
    if (status == HF_OK)
        *version = pg_get_int(rows, 0, 0);
    pg_result_free(&rows);
    return status;
}

static enum hf_status
count_seats(struct pg *pg, struct put *put)
{
    struct pg_params params;

    add_event_params(&params, put);
    pg_tx_send(pg, STATEMENT_COUNT_SEATS, &params);
    struct pg_result *rows = pg_tx_next(pg);
    if (rows == NULL)
        return HF_INTERNAL;
    put->seat_count = pg_get_int(rows, 0, 0);
    pg_result_free(&rows);
    return HF_OK;
}

static bool
write_seats(struct pg *pg, struct put *put)
{
    struct seat_origin origin = { call_org(put->call),         put->call->event,
                                  call_user(put->call),        request_id(put->call),
                                  slice_of(put->call->client), call_user_agent(put->call) };

    return seat_batch_send(pg, &put->seats, &origin, &put->changes);
}

struct put_tx {
    struct put *put;
    int64_t version; /* after the change */
};

static enum hf_status
put_body(struct pg *pg, void *context)
{
    struct put_tx *tx = context;
    struct put *put = tx->put;

    seat_changes_fini(&put->changes);
    put->areas_changed = put->areas_short = put->areas_reclaimed = 0;
    enum hf_status status = lock_row(pg, put);
    if (status == HF_OK)
        status = put_areas(pg, put); /* areas are waited for, so they come before seats */
    if (status == HF_OK && !write_seats(pg, put))
        status = HF_INTERNAL;
    if (status == HF_OK)
        status = write_row(pg, put, &tx->version);
    if (status == HF_OK)
        status = count_seats(pg, put);
    return status;
}

/* --- telling and answering -------------------------------------------------------------- */

static void
tell_all(struct put *put, int64_t version_before, struct mono_time began)
{
    struct node *node = put->call->api->node;
    struct tell tell = { node, call_org(put->call), put->wish.event, began, FEED_REASON_NONE };

    event_row_learn(node, tell.org, &put->wish, began);
    if (put->wish.version != version_before)
        event_tell(&tell, FEED_EVENT, put->wish.version);
    for (int i = 0; i < put->changes.result_count; i++)
        seats_tell(&tell, put->changes.results[i], &seat_change_columns, NULL);
    if (put->changes.added > 0 || put->changes.changed > 0 || put->areas_changed > 0 ||
        put->areas_reclaimed > 0 || put->focal_moved)
        event_tell(&tell, FEED_SEATS, 0);
    if (put->changes.added > 0)
        engine_replan(node->engine);
}

static void
answer(struct put *put)
{
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    event_row_write(&w, &put->wish);
    json_field_int(&w, "seat_count", put->seat_count);
    json_object_end(&w);
    respond_json(put->call, put->created ? 201 : 200, &body);
}

static bool
focal_differs(const struct event_row *a, const struct event_row *b)
{
    return a->has_focal != b->has_focal ||
           (a->has_focal && (a->focal_x != b->focal_x || a->focal_y != b->focal_y));
}

static bool
rows_differ(const struct event_row *a, const struct event_row *b)
{
    return a->kind != b->kind || a->status != b->status || !slice_equal(a->name, b->name) ||
           strcmp(a->currency, b->currency) != 0 ||
           memcmp(a->policy, b->policy, sizeof(a->policy)) != 0 || focal_differs(a, b);
}

static enum hf_status
put_once(struct put *put, struct desk_tools *tools, const struct event_row *stored)
{
    struct put_tx tx = { .put = put };
    struct mono_time began = mono_now();

    put->created = stored->version == 0;
    put->row_differs = rows_differ(&put->wish, stored);
    put->focal_moved = focal_differs(&put->wish, stored);
    if (put->seats.count > 0)
        tx_replan(tools->pg);
    enum hf_status status = tx_run(tools->node, tools->pg, put->call->deadline, put_body, &tx);
    if (status == HF_OK) {
        put->wish.version = tx.version;
        tell_all(put, stored->version, began);
    }
    return status;
}

/* Reads the stored row and lays the body over it. HF_OK, or why not. */
static enum hf_status
prepare(struct put *put, struct desk_tools *tools, struct event_row *stored)
{
    enum hf_status status =
        event_row_find(put->call, tools->pg, call_org(put->call), put->call->event, stored);

    if (status == HF_EVENT_NOT_FOUND)
        *stored = (struct event_row){ .version = 0 };
    else if (status != HF_OK)
        return status;
    put->errors = put->list_errors;
    put_read_event(put, stored);
    if (put->errors.count > 0)
        return HF_INVALID_FIELD;
    if (put->duplicate_count > 0)
        return HF_DUPLICATE_SEAT;
    return put->seats.failed ? HF_OVERLOADED : HF_OK;
}

static enum hf_status
put_all(struct put *put, struct desk_tools *tools)
{
    struct event_row stored;

    for (int tries = 0; tries < PUT_TRIES_MAX; tries++) {
        enum hf_status status = prepare(put, tools, &stored);
        if (status == HF_OK)
            status = put_once(put, tools, &stored);
        if (status != HF_VERSION_CONFLICT)
            return status;
    }
    return HF_OVERLOADED; /* others change this event faster than we read it */
}

static void
refuse(struct put *put, enum hf_status status)
{
    struct problem problem = { 0 };

    if (status == HF_INVALID_FIELD) {
        respond_field_errors(put->call, &put->errors);
        return;
    }
    if (status == HF_CAPACITY_IN_USE && put->errors.items != NULL) {
        problem.errors = put->errors.items;
        problem.error_count =
            put->errors.count < FIELD_ERRORS_MAX ? put->errors.count : FIELD_ERRORS_MAX;
    } else if (status == HF_DUPLICATE_SEAT) {
        problem.seats = put->duplicates;
        problem.seat_count = put->duplicate_count;
    }
    respond_problem(put->call, status, &problem);
}

static void
put_run(struct api_call *call, struct desk_tools *tools)
{
    struct put put = { .call = call, .json = call_json(call) };
    if (put.json == NULL)
        return; /* answered */

    put_read_lists(&put);
    enum hf_status status = put_all(&put, tools);
    if (status == HF_OK)
        answer(&put);
    else
        refuse(&put, status);
    seat_changes_fini(&put.changes);
    seat_batch_fini(&put.seats);
}

/* The body may be a megabyte: it is read on the desk, not on a loop. */
void
events_put(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, put_run);
}
