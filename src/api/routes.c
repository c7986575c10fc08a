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
    { HTTP_METHOD_POST, "/api/holds", ACCESS_TOKEN, LIMIT_HOLD, BODY_JSON, holds_post, "holds_post" },
    { HTTP_METHOD_POST, "/api/events/{event}/seats/{seat}/hold", ACCESS_TOKEN, LIMIT_HOLD, BODY_JSON, seat_hold_post, "seat_hold_post" },
    { HTTP_METHOD_GET, "/api/holds", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE, holds_list, "holds_list" },
    { HTTP_METHOD_GET, "/api/holds/{hold}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE, hold_get, "hold_get" },
    { HTTP_METHOD_PATCH, "/api/holds/{hold}", ACCESS_TOKEN, LIMIT_HOLD, BODY_JSON, hold_patch, "hold_patch" },
    { HTTP_METHOD_DELETE, "/api/holds/{hold}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON, hold_delete, "hold_delete" },
    { HTTP_METHOD_POST, "/api/holds/{hold}/extend", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON, hold_extend, "hold_extend" },
    { HTTP_METHOD_POST, "/api/holds/{hold}/confirm", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON, hold_confirm, "hold_confirm" },
    { HTTP_METHOD_POST, "/api/holds/{hold}/transfer", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON, hold_transfer, "hold_transfer" },
    { HTTP_METHOD_DELETE, "/api/holds/{hold}/seats/{seat}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_JSON, hold_seat_delete, "hold_seat_delete" },

    { HTTP_METHOD_GET, "/api/events", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE, events_list, "events_list" },
    { HTTP_METHOD_GET, "/api/events/{event}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE, events_get, "events_get" },
    { HTTP_METHOD_PUT, "/api/events/{event}", ACCESS_ADMIN, LIMIT_GENERAL, BODY_JSON, events_put, "events_put" },
    { HTTP_METHOD_GET, "/api/events/{event}/seats", ACCESS_TOKEN, LIMIT_MAP, BODY_NONE, seats_map_get, "seats_map_get" },
    { HTTP_METHOD_POST, "/api/events/{event}/seats/import", ACCESS_ADMIN, LIMIT_GENERAL, BODY_CSV, events_import, "events_import" },
    { HTTP_METHOD_GET, "/api/events/{event}/seats/{seat}", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE, seat_get, "seat_get" },
    { HTTP_METHOD_DELETE, "/api/events/{event}/seats/{seat}", ACCESS_ADMIN, LIMIT_GENERAL, BODY_JSON, seat_delete, "seat_delete" },
    { HTTP_METHOD_GET, "/api/events/{event}/occupancy", ACCESS_TOKEN, LIMIT_GENERAL, BODY_NONE, occupancy_get, "occupancy_get" },
    { HTTP_METHOD_POST, "/api/admin/seats/block", ACCESS_ADMIN, LIMIT_GENERAL, BODY_JSON, seats_block, "seats_block" },
    { HTTP_METHOD_POST, "/api/admin/seats/unblock", ACCESS_ADMIN, LIMIT_GENERAL, BODY_JSON, seats_unblock, "seats_unblock" },
    { HTTP_METHOD_GET, "/api/admin/verify/{event}", ACCESS_ADMIN, LIMIT_GENERAL, BODY_NONE, admin_verify_get, "admin_verify_get" },

    { HTTP_METHOD_GET, "/health", ACCESS_OPEN, LIMIT_NONE, BODY_NONE, health_get, "health" },
    { HTTP_METHOD_GET, "/livez", ACCESS_OPEN, LIMIT_NONE, BODY_NONE, health_get, "health" },
    { HTTP_METHOD_GET, "/ready", ACCESS_OPEN, LIMIT_NONE, BODY_NONE, ready_get, "ready" },
    { HTTP_METHOD_GET, "/readyz", ACCESS_OPEN, LIMIT_NONE, BODY_NONE, ready_get, "ready" },
    { HTTP_METHOD_GET, "/metrics", ACCESS_OPEN, LIMIT_NONE, BODY_NONE, metrics_get, "metrics" },
    { HTTP_METHOD_GET, "/openapi.json", ACCESS_OPEN, LIMIT_GENERAL, BODY_NONE, openapi_get, "openapi" },
    { HTTP_METHOD_GET, "/problems/{code}", ACCESS_OPEN, LIMIT_GENERAL, BODY_NONE, problem_page_get, "problem_page" },
    { HTTP_METHOD_GET, "/", ACCESS_OPEN, LIMIT_GENERAL, BODY_NONE, home_get, "home" },
};
const int route_count = (int)(sizeof(routes) / sizeof(routes[0]));
