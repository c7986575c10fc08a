/*
 * system.c - what a node says about itself: health, readiness, metrics, its pages.
 *
 * Nothing here asks a dependency: the workers know how their last use went.
 */
#include <stdatomic.h>

#include "api_internal.h"
#include "holdfast/json.h"
#include "holdfast/metrics.h"

/* --- GET /health, /livez --------------------------------------------------------- */

void
health_get(struct api *api, struct api_call *call)
{
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_field_text(&w, "status", SLICE_LITERAL("ok"));
    json_field_text(&w, "node", slice_of(api->node->id));
    json_field_text(&w, "version", SLICE_LITERAL(HOLDFAST_VERSION));
    json_object_end(&w);
    respond_json(call, 200, &body);
}

/* --- GET /ready, /readyz ----------------------------------------------------------- */

struct readiness {
    enum api_phase phase;
    bool postgres_is_up;
    bool redis_is_on, redis_is_up;
    enum breaker_state breaker;
};

static struct readiness
readiness_of(struct api *api)
{
    struct readiness now = { .phase = (enum api_phase)atomic_load(&api->phase) };
    const struct engine *engine = api->node->engine;

    now.postgres_is_up = engine != NULL && engine_store_is_up(engine);
    now.redis_is_on = api->node->tier != NULL && warm_tier_is_on(api->node->tier);
    if (now.redis_is_on)
        now.breaker = breaker_state(warm_tier_breaker(api->node->tier));
    now.redis_is_up = now.breaker == BREAKER_CLOSED;
    return now;
}

static bool
has_trouble(const struct readiness *now)
{
    return !now->postgres_is_up || (now->redis_is_on && !now->redis_is_up);
}

static const char *
readiness_word(const struct readiness *now)
{
    switch (now->phase) {
    case API_STARTING:
        return "starting";
    case API_DRAINING:
    case API_CLOSED:
        return "draining";
    case API_SERVING:
        return has_trouble(now) ? "degraded" : "ready";
    }
    return "starting";
}

static void
write_breaker(struct json_writer *w, enum breaker_state state)
{
    json_name(w, "redis_breaker");
    json_object_begin(w);
    json_field_text(w, "state", slice_of(breaker_state_word(state)));
    json_field_int(w, "opened", (int64_t)metric_count(METRIC_BREAKER_OPENED_TOTAL));
    json_field_int(w, "half_opened", (int64_t)metric_count(METRIC_BREAKER_HALF_OPENED_TOTAL));
    json_field_int(w, "closed", (int64_t)metric_count(METRIC_BREAKER_CLOSED_TOTAL));
    json_field_int(w, "fallbacks", (int64_t)metric_count(METRIC_REDIS_FALLBACKS_TOTAL));
    json_object_end(w);
}

static void
write_readiness(struct buf *body, const struct readiness *now, struct fanout *fanout)
{
    struct json_writer w;
    const char *redis = !now->redis_is_on ? "off" : now->redis_is_up ? "up" : "down";

    json_writer_init(&w, body);
    json_object_begin(&w);
    json_field_text(&w, "status", slice_of(readiness_word(now)));
    json_field_text(&w, "postgres", slice_of(now->postgres_is_up ? "up" : "down"));
    json_field_text(&w, "redis", slice_of(redis));
    if (now->redis_is_on)
        write_breaker(&w, now->breaker);
    if (fanout != NULL)
        peers_write_summary(&w, fanout);
    json_field_bool(&w, "draining", now->phase >= API_DRAINING);
    json_object_end(&w);
}

/*
 * A store that is down is down for every node: taking all of them out of the balancer
 * would replace our 503 by its error page. Only ?strict asks for that.
 */
void
ready_get(struct api *api, struct api_call *call)
{
    struct readiness now = readiness_of(api);
    struct slice strict;
    struct buf body = { 0 };

    bool is_strict = call_query(call, "strict", &strict);
    bool is_ready = now.phase == API_SERVING && !(is_strict && has_trouble(&now));
    write_readiness(&body, &now, api->node->fanout);
    if (!is_ready)
        respond_header(call, "Retry-After", SLICE_LITERAL("1"));
    respond_header(call, "Cache-Control", SLICE_LITERAL("no-store"));
    respond_json(call, is_ready ? 200 : 503, &body);
}

/* --- GET /metrics -------------------------------------------------------------------- */

/* What changes too often to be counted at each change is counted when somebody looks. */
static void
refresh_gauges(struct api *api)
{
    struct hot_numbers hot;
    struct feed_numbers feed;
    struct readiness now = readiness_of(api);

    hot_table_numbers(api->node->hot, &hot);
    feed_numbers(api->node->feed, &feed);
    metric_set(METRIC_HOT_ENTRIES, hot.entries);
    metric_set(METRIC_HOT_TIMERS, hot.timers);
    metric_set(METRIC_PARKED, hot.parked);
    metric_set(METRIC_FEED_LOG_RECORDS, feed.log_records);
    metric_set(METRIC_FEED_LOG_BYTES, feed.log_bytes);
    metric_set(METRIC_FEED_OUTBOX_RECORDS, feed.outbox_records);
    metric_set(METRIC_QUEUE_DEPTH, engine_queue_depth(api->node->engine));
    metric_set(METRIC_PG_UP, now.postgres_is_up);
    metric_set(METRIC_REDIS_UP, now.redis_is_on && now.redis_is_up);
}

void
metrics_get(struct api *api, struct api_call *call)
{
    struct buf body = { 0 };

    refresh_gauges(api);
    metrics_write(&body);
    peers_write_metrics(&body, api->node->fanout);
    respond_body(call, 200, TYPE_METRICS, &body);
}

/* --- pages ------------------------------------------------------------------------------ */

#define PAGE_BEGIN                                                                                 \
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"                              \
    "<meta name=\"viewport\" content=\"width=device-width\">"                                      \
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;"             \
    "padding:0 1rem;color:#222}code{background:#f2f2f2;padding:.1em .3em}"                         \
    "dt{font-weight:600}</style>"
#define PAGE_END "</body></html>\n"

static void
respond_page(struct api_call *call, struct buf *body)
{
    respond_header(call, "Content-Security-Policy",
                   SLICE_LITERAL("default-src 'none'; style-src 'unsafe-inline'"));
    respond_body(call, 200, TYPE_HTML, body);
}

/* Texts of status.def are our own; their apostrophes are fine in HTML, < and & don't occur. */
void
problem_page_get(struct api *api, struct api_call *call)
{
    struct buf body = { 0 };
    enum hf_status status;
    struct slice code = arena_copy(&call->arena, call_param(call, "code"));

    (void)api;
    if (code.ptr == NULL || !status_from_code(code.ptr, &status) || status_http(status) < 400) {
        respond_refusal(call, HF_NOT_FOUND, "There is no such problem.");
        return;
    }
    buf_append_text(&body, PAGE_BEGIN "<title>");
    buf_append_text(&body, status_code(status));
    buf_append_text(&body, "</title></head><body><h1><code>");
    buf_append_text(&body, status_code(status));
    buf_append_text(&body, "</code></h1><p>");
    buf_append_text(&body, status_text(status));
    buf_append_text(&body, "</p><p>HTTP status ");
    buf_append_int(&body, status_http(status));
    buf_append_text(&body, ". The field <code>code</code> of a problem document is stable; "
                           "<code>detail</code>, <code>errors</code> and <code>seats</code> tell "
                           "more about one request.</p><p>All routes and their answers: "
                           "<a href=\"/openapi.json\">openapi.json</a></p>" PAGE_END);
    respond_page(call, &body);
}

void
home_get(struct api *api, struct api_call *call)
{
    struct buf body = { 0 };

    buf_append_text(&body, PAGE_BEGIN
                    "<title>holdfast</title></head><body><h1>holdfast</h1>"
                    "<p>A seat-hold server: a seat for a few minutes while its buyer pays, and no "
                    "seat ever promised to two people.</p><dl><dt>Node</dt><dd><code>");
    buf_append_text(&body, api->node->id); /* an id: nothing in it means anything to HTML */
    buf_append_text(&body,
                    "</code></dd><dt>Version</dt><dd>" HOLDFAST_VERSION "</dd>"
                    "<dt>Routes</dt><dd><a href=\"/openapi.json\">openapi.json</a></dd>"
                    "<dt>Health</dt><dd><a href=\"/health\">health</a>, "
                    "<a href=\"/ready\">ready</a>, <a href=\"/metrics\">metrics</a></dd>"
                    "</dl><p>A first hold, with a token from <code>holdfast token</code>:</p>"
                    "<pre>curl -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: "
                    "application/json' \\\n     -d '{\"event_id\": \"theatre\", \"seat_ids\": "
                    "[\"S-A-1\"], \"cart_token\": \"cart-1\"}' \\\n     "
                    "http://$HOST/api/holds</pre>" PAGE_END);
    respond_page(call, &body);
}
