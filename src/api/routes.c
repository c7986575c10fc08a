/*
 * routes.c - every route of the server, one line each, and how a path finds its line.
 *
 * A pattern's {name} takes one segment of the path, which is percent-decoded first;
 * whether it is a valid id is the caller's question. Paths are taken to the letter:
 * no trailing slash, no empty segment.
 */
#include "api_internal.h"

/* The hold requests come first: they are asked for most. */
const struct route routes[] = {
    { HTTP_METHOD_POST, "/api/holds", ACCESS_TOKEN, LIMIT_HOLD, BODY_JSON, holds_post,
      "holds_post" },
    { HTTP_METHOD_POST, "/api/events/{event}/seats/{seat}/hold", ACCESS_TOKEN, LIMIT_HOLD,
      BODY_JSON, seat_hold_post, "seat_hold_post" },
    { HTTP_METHOD_POST, "/api/events/{event}/holds/best", ACCESS_TOKEN, LIMIT_HOLD, BODY_JSON,
      holds_best_post, "holds_best_post" },
    { HTTP_METHOD_GET, "/api/holds", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE, holds_list,
      "holds_list" },
    { HTTP_METHOD_GET, "/api/holds/{hold}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE, hold_get,
      "hold_get" },
    { HTTP_METHOD_PATCH, "/api/holds/{hold}", ACCESS_TOKEN, LIMIT_HOLD, BODY_JSON, hold_patch,
      "hold_patch" },
    { HTTP_METHOD_DELETE, "/api/holds/{hold}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON, hold_delete,
      "hold_delete" },
    { HTTP_METHOD_POST, "/api/holds/{hold}/extend", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON,
      hold_extend, "hold_extend" },
    { HTTP_METHOD_POST, "/api/holds/{hold}/confirm", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON,
      hold_confirm, "hold_confirm" },
    { HTTP_METHOD_POST, "/api/holds/{hold}/transfer", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON,
      hold_transfer, "hold_transfer" },
    { HTTP_METHOD_DELETE, "/api/holds/{hold}/seats/{seat}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON,
      hold_seat_delete, "hold_seat_delete" },

    { HTTP_METHOD_POST, "/api/checkouts", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON, checkouts_post,
      "checkouts_post" },
    { HTTP_METHOD_GET, "/api/checkouts/{checkout}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE,
      checkout_get, "checkout_get" },
    { HTTP_METHOD_POST, "/api/checkouts/{checkout}/complete", ACCESS_TOKEN, LIMIT_GENERAL,
      BODY_JSON, checkout_complete, "checkout_complete" },
    { HTTP_METHOD_POST, "/api/checkouts/{checkout}/cancel", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON,
      checkout_cancel, "checkout_cancel" },
    { HTTP_METHOD_POST, "/flights/{event}/waitlist", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON,
      flight_waitlist_post, "flight_waitlist_post" },
    { HTTP_METHOD_GET, "/flights/{event}/waitlist", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE,
      flight_waitlist_list, "flight_waitlist_list" },
    { HTTP_METHOD_POST, "/api/events/{event}/waitlist", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON,
      waitlist_post, "waitlist_post" },
    { HTTP_METHOD_GET, "/api/events/{event}/waitlist", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE,
      waitlist_list, "waitlist_list" },
    { HTTP_METHOD_GET, "/waitlist/{waitlist}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE, waitlist_get,
      "waitlist_get" },
    { HTTP_METHOD_DELETE, "/waitlist/{waitlist}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE,
      waitlist_delete, "waitlist_delete" },
    { HTTP_METHOD_POST, "/payments/webhook", ACCESS_OPEN, LIMIT_NONE, BODY_JSON,
      payment_webhook_post, "payment_webhook" },
    { HTTP_METHOD_GET, "/api/admin/payments/dead-letters", ACCESS_ADMIN, LIMIT_GENERAL, BODY_NONE,
      dead_letters_get, "dead_letters_get" },
    { HTTP_METHOD_POST, "/api/admin/payments/dead-letters/{intent}/{key}/replay", ACCESS_ADMIN,
      LIMIT_GENERAL, BODY_JSON, dead_letter_replay, "dead_letter_replay" },

    { HTTP_METHOD_POST, "/auth/pnr-login", ACCESS_OPEN, LIMIT_GENERAL, BODY_JSON, pnr_login_post,
      "pnr_login" },
    { HTTP_METHOD_POST, "/checkins", ACCESS_SERVICE, LIMIT_GENERAL, BODY_JSON, checkins_post,
      "checkins_post" },
    { HTTP_METHOD_POST, "/checkins/import", ACCESS_SERVICE, LIMIT_GENERAL, BODY_CSV,
      checkins_import, "checkins_import" },
    { HTTP_METHOD_GET, "/checkins/{checkin}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE, checkin_get,
      "checkin_get" },
    { HTTP_METHOD_POST, "/checkins/{checkin}/baggage", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON,
      baggage_post, "baggage_post" },
    { HTTP_METHOD_GET, "/flights/{event}/seatmap", ACCESS_TOKEN, LIMIT_MAP, BODY_NONE,
      flight_seatmap_get, "flight_seatmap" },
    { HTTP_METHOD_POST, "/flights/{event}/seats/{seat}/hold", ACCESS_TOKEN, LIMIT_HOLD, BODY_JSON,
      flight_seat_hold, "flight_seat_hold" },
    { HTTP_METHOD_POST, "/flights/{event}/seats/{seat}/cancel", ACCESS_TOKEN, LIMIT_GENERAL,
      BODY_JSON, flight_seat_cancel, "flight_seat_cancel" },
    { HTTP_METHOD_POST, "/holds/{hold}/confirm", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON,
      flight_hold_confirm, "flight_hold_confirm" },
    { HTTP_METHOD_GET, "/flights/{event}/events", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE,
      flight_events_get, "flight_events" },

    { HTTP_METHOD_GET, "/api/events", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE, events_list,
      "events_list" },
    { HTTP_METHOD_GET, "/api/events/{event}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE, events_get,
      "events_get" },
    { HTTP_METHOD_PUT, "/api/events/{event}", ACCESS_ADMIN, LIMIT_GENERAL, BODY_JSON, events_put,
      "events_put" },
    { HTTP_METHOD_GET, "/api/events/{event}/seats", ACCESS_TOKEN, LIMIT_MAP, BODY_NONE,
      seats_map_get, "seats_map_get" },
    { HTTP_METHOD_GET, "/api/shows/{event}/seats", ACCESS_TOKEN, LIMIT_MAP, BODY_NONE,
      show_seats_get, "show_seats_get" },
    { HTTP_METHOD_POST, "/api/events/{event}/seats/import", ACCESS_ADMIN, LIMIT_GENERAL, BODY_CSV,
      events_import, "events_import" },
    { HTTP_METHOD_GET, "/api/events/{event}/seats/{seat}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE,
      seat_get, "seat_get" },
    { HTTP_METHOD_DELETE, "/api/events/{event}/seats/{seat}", ACCESS_ADMIN, LIMIT_GENERAL,
      BODY_JSON, seat_delete, "seat_delete" },
    { HTTP_METHOD_GET, "/api/events/{event}/occupancy", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE,
      occupancy_get, "occupancy_get" },
    { HTTP_METHOD_GET, "/api/events/{event}/occupancy/history", ACCESS_TOKEN, LIMIT_GENERAL,
      BODY_NONE, occupancy_history_get, "occupancy_history_get" },
    { HTTP_METHOD_GET, "/api/events/{event}/analytics", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE,
      analytics_get, "analytics_get" },
    { HTTP_METHOD_GET, "/api/events/{event}/stream", ACCESS_TICKET, LIMIT_GENERAL, BODY_NONE,
      stream_get, "stream_get" },
    { HTTP_METHOD_POST, "/api/events/{event}/stream-ticket", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE,
      stream_ticket_post, "stream_ticket_post" },
    { HTTP_METHOD_POST, "/api/admin/seats/block", ACCESS_ADMIN, LIMIT_GENERAL, BODY_JSON,
      seats_block, "seats_block" },
    { HTTP_METHOD_POST, "/api/admin/seats/unblock", ACCESS_ADMIN, LIMIT_GENERAL, BODY_JSON,
      seats_unblock, "seats_unblock" },
    { HTTP_METHOD_POST, "/api/admin/seats/release", ACCESS_ADMIN, LIMIT_GENERAL, BODY_JSON,
      seats_release, "seats_release" },
    { HTTP_METHOD_GET, "/api/admin/verify/{event}", ACCESS_ADMIN, LIMIT_GENERAL, BODY_NONE,
      admin_verify_get, "admin_verify_get" },
    { HTTP_METHOD_GET, "/api/admin/audit", ACCESS_ADMIN, LIMIT_GENERAL, BODY_NONE, audit_get,
      "audit_get" },
    { HTTP_METHOD_GET, "/api/admin/registry/{event}", ACCESS_ADMIN, LIMIT_GENERAL, BODY_NONE,
      registry_get, "registry_get" },
    { HTTP_METHOD_POST, "/api/admin/registry/{event}/reconcile", ACCESS_ADMIN, LIMIT_GENERAL,
      BODY_JSON, registry_reconcile, "registry_reconcile" },
    { HTTP_METHOD_PUT, "/api/admin/webhooks", ACCESS_ADMIN, LIMIT_GENERAL, BODY_JSON, webhook_put,
      "webhook_put" },
    { HTTP_METHOD_GET, "/api/admin/webhooks", ACCESS_ADMIN, LIMIT_GENERAL, BODY_NONE, webhook_get,
      "webhook_get" },
    { HTTP_METHOD_DELETE, "/api/admin/webhooks", ACCESS_ADMIN, LIMIT_GENERAL, BODY_JSON,
      webhook_delete, "webhook_delete" },
    { HTTP_METHOD_GET, "/api/admin/webhooks/dead-letters", ACCESS_ADMIN, LIMIT_GENERAL, BODY_NONE,
      webhook_letters_get, "webhook_letters_get" },
    { HTTP_METHOD_POST, "/api/admin/webhooks/dead-letters/replay", ACCESS_ADMIN, LIMIT_GENERAL,
      BODY_JSON, webhook_letters_replay, "webhook_letters_replay" },
    { HTTP_METHOD_GET, "/admin/abuse/recent", ACCESS_ADMIN, LIMIT_NONE, BODY_NONE, abuse_recent_get,
      "abuse_recent" },
    { HTTP_METHOD_POST, "/admin/abuse/unblock/{ip}", ACCESS_ADMIN, LIMIT_NONE, BODY_JSON,
      abuse_unblock_post, "abuse_unblock" },

    { HTTP_METHOD_GET, "/health", ACCESS_OPEN, LIMIT_NONE, BODY_NONE, health_get, "health" },
    { HTTP_METHOD_GET, "/livez", ACCESS_OPEN, LIMIT_NONE, BODY_NONE, health_get, "health" },
    { HTTP_METHOD_GET, "/ready", ACCESS_OPEN, LIMIT_NONE, BODY_NONE, ready_get, "ready" },
    { HTTP_METHOD_GET, "/readyz", ACCESS_OPEN, LIMIT_NONE, BODY_NONE, ready_get, "ready" },
    { HTTP_METHOD_GET, "/metrics", ACCESS_OPEN, LIMIT_NONE, BODY_NONE, metrics_get, "metrics" },
    { HTTP_METHOD_GET, "/openapi.json", ACCESS_OPEN, LIMIT_GENERAL, BODY_NONE, openapi_get,
      "openapi" },
    { HTTP_METHOD_GET, "/problems/{code}", ACCESS_OPEN, LIMIT_GENERAL, BODY_NONE, problem_page_get,
      "problem_page" },
    { HTTP_METHOD_GET, "/", ACCESS_OPEN, LIMIT_GENERAL, BODY_NONE, home_get, "home" },
};
const int route_count = (int)(sizeof(routes) / sizeof(routes[0]));

/* The path in pieces: "/api/holds" has two segments, "/" has none. */
struct path_segments {
    int count;
    struct slice items[ROUTE_SEGMENTS_MAX];
};

/* False: more segments than any route has, or not a path. */
static bool
split_path(struct slice path, struct path_segments *segments)
{
    segments->count = 0;
    if (path.len == 0 || path.ptr[0] != '/')
        return false;
    if (path.len == 1)
        return true;
    size_t start = 1;
    for (size_t i = 1; i <= path.len; i++) {
        if (i < path.len && path.ptr[i] != '/')
            continue;
        if (segments->count == ROUTE_SEGMENTS_MAX)
            return false;
        segments->items[segments->count++] = (struct slice){ path.ptr + start, i - start };
        start = i + 1;
    }
    return true;
}

/* Decodes the segments that need it; what has a bad escape stays, and is no id then. */
static bool
decode_segments(struct arena *arena, struct path_segments *segments)
{
    for (int i = 0; i < segments->count; i++) {
        if (!percent_decode(arena, &segments->items[i], false))
            return false;
    }
    return true;
}

/* Takes the next segment of a pattern; *rest is what follows. */
static bool
next_of_pattern(const char **rest, struct slice *segment)
{
    const char *at = *rest;

    if (at[0] != '/' || at[1] == '\0')
        return false;
    const char *end = strchr(at + 1, '/');
    size_t len = end != NULL ? (size_t)(end - at - 1) : strlen(at + 1);
    *segment = (struct slice){ at + 1, len };
    *rest = at + 1 + len;
    return true;
}

static bool
pattern_matches(const char *pattern, const struct path_segments *path, int *param_count,
                struct route_param params[ROUTE_PARAMS_MAX])
{
    struct slice segment;
    int taken = 0;

    *param_count = 0;
    while (next_of_pattern(&pattern, &segment)) {
        if (taken == path->count)
            return false;
        struct slice given = path->items[taken++];
        if (segment.ptr[0] != '{') {
            if (!slice_equal(segment, given))
                return false;
            continue;
        }
        if (given.len == 0)
            return false;
        hf_assert(*param_count < ROUTE_PARAMS_MAX);
        params[(*param_count)++] = (struct route_param){
            .name = { segment.ptr + 1, segment.len - 2 },
            .value = given,
        };
    }
    return taken == path->count;
}

static enum http_method
method_served_by(enum http_method method)
{
    return method == HTTP_METHOD_HEAD ? HTTP_METHOD_GET : method;
}

/* The routes of one path need not have the same pattern, so all are looked at. */
static void
match_segments(const struct path_segments *path, enum http_method method, struct route_match *match)
{
    struct route_param params[ROUTE_PARAMS_MAX];
    int param_count;

    for (int i = 0; i < route_count; i++) {
        if (!pattern_matches(routes[i].pattern, path, &param_count, params))
            continue;
        match->allow |= 1u << routes[i].method;
        if (routes[i].method != method_served_by(method))
            continue;
        match->route = &routes[i];
        match->param_count = param_count;
        memcpy(match->params, params, sizeof(params[0]) * (size_t)param_count);
        return;
    }
}

bool
route_find(struct arena *arena, enum http_method method, struct slice path,
           struct route_match *match)
{
    struct path_segments segments;

    *match = (struct route_match){ 0 };
    if (!split_path(path, &segments))
        return true;
    bool is_escaped = memchr(path.ptr, '%', path.len) != NULL;
    if (is_escaped && !decode_segments(arena, &segments))
        return false;
    match_segments(&segments, method, match);
    if (match->allow & (1u << HTTP_METHOD_GET))
        match->allow |= 1u << HTTP_METHOD_HEAD;
    return true;
}
