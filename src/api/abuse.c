/*
 * abuse.c - what an admin sees and undoes of the limits by address: GET
 * /admin/abuse/recent, POST /admin/abuse/unblock/{ip}. Both speak of this node.
 */
#include <time.h>

#include "api_internal.h"
#include "holdfast/json.h"

#define RECENT_DEFAULT 100

/* This machine's wall clock and boot clock, read together: abuse events have the latter's times. */
struct clock_pair {
    int64_t wall_us, mono_us;
};

static struct clock_pair
read_clocks(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (struct clock_pair){ now.tv_sec * (int64_t)TIME_US_PER_S + now.tv_nsec / 1000,
                                mono_now().us };
}

static void
write_time(struct json_writer *w, const char *name, const struct clock_pair *clocks,
           struct mono_time at)
{
    char text[DB_TIME_TEXT_BYTES];

    json_name(w, name);
    if (at.us == 0) {
        json_null(w);
        return;
    }
    db_time_format((struct db_time){ clocks->wall_us - (clocks->mono_us - at.us) }, text);
    json_text(w, slice_of(text));
}

static void
write_event(struct json_writer *w, const struct abuse_event *event, const struct clock_pair *clocks)
{
    json_object_begin(w);
    json_field_uuid(w, "id", &event->id);
    json_field_text(w, "ip", slice_of(event->ip));
    json_field_text(w, "event_type", slice_of(event->event_type));
    write_time(w, "detection_time", clocks, event->detected);
    write_time(w, "blocked_until", clocks, event->blocked_until);
    json_field_int(w, "request_count", event->request_count);
    json_field_int(w, "time_window_ms", event->time_window_ms);
    json_field_text(w, "details", slice_of(event->details));
    json_object_end(w);
}

void
abuse_recent_get(struct api *api, struct api_call *call)
{
    int64_t limit;

    if (!call_query_int(call, "limit", 1, RATE_EVENTS_MAX, RECENT_DEFAULT, &limit))
        return;
    struct abuse_event *events = arena_alloc(&call->arena, (size_t)limit * sizeof(*events));
    if (events == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    int count = rate_limit_recent(api->limiter, events, (int)limit);
    struct clock_pair clocks = read_clocks();
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_name(&w, "events");
    json_array_begin(&w);
    for (int i = 0; i < count; i++)
        write_event(&w, &events[i], &clocks);
    json_array_end(&w);
    json_object_end(&w);
    respond_json(call, 200, &body);
}

void
abuse_unblock_post(struct api *api, struct api_call *call)
{
    struct buf body = { 0 };

    if (!rate_limit_unblock(api->limiter, call_param(call, "ip"), mono_now())) {
        respond_refusal(call, HF_NOT_FOUND, "That address is not blocked on this node.");
        return;
    }
    buf_append_text(&body, "{\"success\":true}");
    respond_json(call, 200, &body);
}
