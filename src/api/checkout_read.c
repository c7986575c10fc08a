/*
 * checkout_read.c - GET /api/checkouts/{checkout}: as it stands in Postgres, read at the desk.
 */
#include "api_internal.h"
#include "checkout_json.h"

/* Another user's checkout is as if it did not exist, but for those who act for others. */
static bool
may_see(const struct api_call *call, const struct checkout_view *checkout)
{
    return call_sees_event(call, checkout->event) &&
           (call_is_privileged(call) || slice_equal(checkout->user, call_user(call)));
}

static void
answer(struct api_call *call, const struct pg_result *rows)
{
    const struct checkout_view *checkout = checkout_view_from_rows(&call->arena, rows);
    struct buf body = { 0 };
    struct json_writer w;

    if (checkout == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    if (!may_see(call, checkout)) {
        respond_refusal(call, HF_CHECKOUT_NOT_FOUND, NULL);
        return;
    }
    json_writer_init(&w, &body);
    checkout_json_whole(&w, checkout);
    respond_json(call, 200, &body);
}

static void
get_run(struct api_call *call, struct desk_tools *tools)
{
    struct pg_result *rows = NULL;
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_uuid(&params, &call->checkout_id);
    enum pg_outcome outcome = call_read(call, tools, STATEMENT_READ_CHECKOUT, &params, &rows);
    if (outcome != PG_DONE)
        respond_refusal(call, call_outcome(call, outcome, tools->pg), NULL);
    else if (pg_rows(rows) == 0)
        respond_refusal(call, HF_CHECKOUT_NOT_FOUND, NULL);
    else
        answer(call, rows);
    pg_result_free(&rows);
}

void
checkout_get(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, get_run);
}
