/*
 * verify_api.c - GET /api/admin/verify/{event}: what `holdfast verify` does, for one event.
 */
#include "api_internal.h"
#include "events_internal.h"
#include "holdfast/audit.h"

#define VERIFY_TIME_US                                                                             \
    (60 * (int64_t)TIME_US_PER_S) /* a log of millions of rows takes its time                      \
                                   */

static void
verify_run(struct api_call *call, struct desk_tools *tools)
{
    struct mono_time deadline = { mono_now().us + VERIFY_TIME_US };
    struct audit_report *report = arena_alloc(&call->arena, sizeof(*report));
    struct event_row event;
    struct buf body = { 0 };
    enum hf_status status = HF_OVERLOADED;

    if (report != NULL)
        status = event_row_find(call, tools->pg, call_org(call), call->event, &event);
    if (status == HF_OK)
        status = call_outcome(
            call, audit_verify(tools->pg, call_org(call), call->event, deadline, report),
            tools->pg);
    if (status == HF_OK) {
        audit_report_write(&body, report);
        respond_json(call, 200, &body);
    } else {
        respond_refusal(call, status, NULL);
    }
}

void
admin_verify_get(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk_long(call, verify_run);
}
