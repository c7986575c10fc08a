/*
 * stream.c - GET /api/events/{event}/stream: live events, by token or by ticket.
 */
#include "api_internal.h"
#include "events_internal.h"
#include "holdfast/streams.h"
#include "stream_ticket.h"

struct stream_call {
    struct slice last_event_id; /* empty: a reader who has nothing */
    struct slice ticket;        /* counts if no token said who it is */
};

static enum hf_status
find_event(struct api_call *call, struct desk_tools *tools)
{
    struct event_info info;
    struct event_row row;

    if (events_find(tools->node->events, call_org(call), call->event, &info))
        return HF_OK;
    return event_row_find(call, tools->pg, call_org(call), call->event, &row);
}

static enum hf_status
begin(struct api_call *call, struct desk_tools *tools)
{
    struct stream_call *stream = call->state;
    struct db_time ends_at = { call->claims.exp_unix_s * TIME_US_PER_S };

    return streams_begin(tools->node->streams, tools->pg, call->exchange, call_org(call),
                         call->event, stream->last_event_id, ends_at);
}

static void
stream_run(struct api_call *call, struct desk_tools *tools)
{
    struct stream_call *stream = call->state;
    enum hf_status status = streams_admit(tools->node->streams); /* a refusal costs no ticket */

    if (status == HF_OK && call->claims.org[0] == '\0')
        status = stream_ticket_use(call, tools, stream->ticket);
    if (status == HF_OK)
        status = find_event(call, tools);
    if (status == HF_OK)
        respond_stream(call, tools, begin);
    else
        respond_refusal(call, status, NULL);
}

/* A browser sends the header by itself; who can't, says it in the query. */
void
stream_get(struct api *api, struct api_call *call)
{
    (void)api;
    struct stream_call *stream = arena_alloc(&call->arena, sizeof(*stream));
    if (stream == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    *stream = (struct stream_call){ call->exchange->request.last_event_id, SLICE_EMPTY };
    if (stream->last_event_id.len == 0 &&
        !call_query(call, "last_event_id", &stream->last_event_id))
        stream->last_event_id = SLICE_EMPTY;
    if (!call_query(call, "ticket", &stream->ticket))
        stream->ticket = SLICE_EMPTY;
    call->state = stream;
    call_on_desk(call, stream_run);
}
