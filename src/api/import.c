/*
 * import.c - POST /api/events/{event}/seats/import.
 */
#include "api_internal.h"
#include "events_internal.h"
#include "holdfast/seat_import.h"
#include "idempotency.h"
#include "import_answer.h"

#include <stdio.h>
#include <stdlib.h>

#define IMPORT_TIME_US                                                                             \
    (60 * (int64_t)TIME_US_PER_S) /* 100,000 rows take a few seconds, a slow disk more */

static void
tell_all(struct api_call *call, struct desk_tools *tools, const struct seat_changes *changes,
         struct mono_time began)
{
    struct tell tell = { tools->node, call_org(call), call->event, began, FEED_REASON_NONE };

    if (changes->added == 0 && changes->changed == 0)
        return;
    event_tell(&tell, FEED_EVENT, changes->event_version);
    for (int i = 0; i < changes->result_count; i++)
        seats_tell(&tell, changes->results[i], &seat_change_columns, NULL);
    event_tell(&tell, FEED_SEATS, 0);
    engine_replan(tools->node->engine);
}

static int
compare_by_line(const void *left, const void *right)
{
    const struct import_error *a = left, *b = right;

    return (a->line > b->line) - (a->line < b->line);
}

void
import_answer_errors(struct api_call *call, struct import_errors *errors)
{
    char detail[96];
    int count = errors->count < IMPORT_ERRORS_MAX ? (int)errors->count : IMPORT_ERRORS_MAX;
    struct field_error *told = arena_alloc(&call->arena, (size_t)count * sizeof(*told));

    qsort(errors->items, (size_t)count, sizeof(*errors->items), compare_by_line);
    for (int i = 0; told != NULL && i < count; i++)
        told[i] = (struct field_error){ .field = errors->items[i].field,
                                        .reason = errors->items[i].reason,
                                        .line = errors->items[i].line };
    snprintf(detail, sizeof(detail), "The file has %lld errors; nothing was imported.",
             (long long)errors->count);
    respond_problem(
        call, HF_INVALID_FIELD,
        &(struct problem){ .detail = detail, .errors = told, .error_count = told ? count : 0 });
}

static void
import_run(struct api_call *call, struct desk_tools *tools)
{
    struct mono_time began = mono_now();

    if (!idempotency_is_new(call, tools->pg))
        return;
    call->deadline.us =
        began.us + IMPORT_TIME_US; /* also for what comes after: its answer is kept for a key */
    struct seat_import import = { .node = tools->node,
                                  .org = call_org(call),
                                  .event = call->event,
                                  .actor = call_user(call),
                                  .request_id = slice_of(call->exchange->request.request_id),
                                  .client_ip = slice_of(call->client),
                                  .user_agent = call_user_agent(call),
                                  .csv = call->exchange->request.body,
                                  .deadline = call->deadline };
    struct seat_import_result result;
    struct buf body = { 0 };
    enum hf_status status = seat_import_run(tools->pg, &call->arena, &import, &result);

    if (status == HF_OK) {
        tell_all(call, tools, result.changes, began);
        seat_import_write(&body, &result);
    }
    seat_import_result_fini(&result);
    if (status == HF_OK)
        respond_json(call, 200, &body);
    else if (status == HF_INVALID_FIELD)
        import_answer_errors(call, result.errors);
    else
        respond_refusal(call, status, NULL);
}

void
events_import(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk_long(call, import_run);
}
