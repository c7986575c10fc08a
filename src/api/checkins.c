/*
 * checkins.c - POST /checkins and GET /checkins/{checkin}.
 *
 * A passenger has one check-in for a flight: who makes it again finds it, and may correct its name.
 */
#include <stddef.h>

#include "checkin.h"
#include "hold_request.h"
#include "idempotency.h"
#include "op_call.h"
#include "holdfast/metrics.h"

#define AT(member) offsetof(struct hold_request, member)

/* --- POST /checkins ------------------------------------------------------------------------ */

static const struct field_spec checkin_fields[] = {
    { "passenger_id", FIELD_ID, AT(user), 0, 0, true, false },
    { "passengerId", FIELD_ID, AT(user), 0, 0, false, true },
    { "last_name", FIELD_WORD, AT(last_name), 1, LAST_NAME_MAX, true, false },
    { "lastName", FIELD_WORD, AT(last_name), 1, LAST_NAME_MAX, false, true },
    { "flight_id", FIELD_ID, AT(event), 0, 0, true, false },
    { "flightId", FIELD_ID, AT(event), 0, 0, false, true },
};
static const struct body_spec checkin_body = { false, checkin_fields, 6 };

/* In the call's arena. */
struct making {
    struct api_call *call;
    struct checkin_wish wish;
    bool made;
};

/* The check-in that put_checkins made or found. */
static enum hf_status
read_put(struct making *making, struct pg *pg, struct uuid *checkin)
{
    struct pg_result *rows = pg_tx_next(pg);
    enum hf_status status = rows != NULL ? HF_OK : HF_INTERNAL;

    if (status == HF_OK && pg_rows(rows) == 0)
        status = HF_EVENT_NOT_FOUND;
    if (status == HF_OK) {
        *checkin = pg_get_uuid(rows, 0, PC_CHECKIN);
        making->made = pg_get_bool(rows, 0, PC_MADE);
    }
    pg_result_free(&rows);
    return status;
}

static enum hf_status
make_body(struct pg *pg, void *context)
{
    struct making *making = context;
    struct uuid checkin = { 0 };

    checkins_send_put(pg, making->call, &making->wish, 1);
    enum hf_status status = read_put(making, pg, &checkin);
    if (status != HF_OK)
        return status;
    checkin_send_read(pg, call_org(making->call), &checkin);
    struct pg_result *rows = pg_tx_next(pg);
    if (rows == NULL)
        return HF_INTERNAL;
    op_write_json(making->call, making->made ? HF_CREATED : HF_OK, checkin_json_write, rows);
    op_write_location(making->call, "/checkins/", &checkin);
    pg_result_free(&rows);
    return HF_OK;
}

static void
make_run(struct api_call *call, struct desk_tools *tools)
{
    struct making *making = call->state;
    struct making done = *making; /* the call, and all in its arena, may be gone */
    enum hf_status status = idempotency_run(call, tools->pg, make_body, &done);

    if (status != HF_OK)
        respond_refusal(call, status, NULL);
    else if (done.made)
        metric_add(METRIC_CHECKINS_CREATED_TOTAL, 1);
}

void
checkins_post(struct api *api, struct api_call *call)
{
    struct hold_request request;
    struct making *making;

    (void)api;
    if (!hold_request_read(call, &checkin_body, &request))
        return;
    request.last_name = trim_blanks(request.last_name);
    if (request.last_name.len == 0) {
        respond_field_error(call, "last_name", "is blank");
        return;
    }
    making = arena_alloc(&call->arena, sizeof(*making));
    if (making == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    making->call = call;
    making->wish = (struct checkin_wish){ request.event, request.user, request.last_name };
    call->state = making;
    call_on_desk(call, make_run);
}

/* --- GET /checkins/{checkin} ----------------------------------------------------------------- */

static void
get_run(struct api_call *call, struct desk_tools *tools)
{
    struct pg_result *rows = NULL;
    struct pg_params params;
    struct buf body = { 0 };
    struct json_writer w;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_uuid(&params, &call->checkin_id);
    enum pg_outcome outcome = call_read(call, tools, STATEMENT_READ_CHECKIN, &params, &rows);
    if (outcome != PG_DONE) {
        respond_refusal(call, call_outcome(call, outcome, tools->pg), NULL);
    } else if (pg_rows(rows) == 0 || !checkin_is_visible(call, rows)) {
        respond_refusal(call, HF_CHECKIN_NOT_FOUND, NULL);
    } else {
        json_writer_init(&w, &body);
        checkin_json_write(&w, rows);
        respond_json(call, 200, &body);
    }
    pg_result_free(&rows);
}

void
checkin_get(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, get_run);
}
