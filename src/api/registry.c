/*
 * registry.c - GET /api/admin/registry/{event}: whether the three tiers agree about an event.
 *              POST .../reconcile: makes Redis equal to Postgres at once.
 *
 * Contents are compared, not counts. Memory is this node's, and of it what it may act upon.
 */
#include "api_internal.h"
#include "holdfast/fanout.h"
#include "holdfast/json.h"
#include "holdfast/log.h"
#include "holdfast/repair.h"
#include "idempotency.h"

/* They read all of an event and walk all of Redis. */
#define TIME_US (60 * (int64_t)TIME_US_PER_S)
#define AWAY    "Redis is off or can't be reached; what was put right before that stays so."

/* --- what the tiers have --------------------------------------------------------------- */

struct registry {
    struct repair_memory memory;
    struct repair_report redis;
    bool redis_is_used;
};

static bool
redis_may_be_used(const struct node *node)
{
    return warm_tier_is_on(node->tier) &&
           breaker_state(warm_tier_breaker(node->tier)) == BREAKER_CLOSED;
}

/* A comparison finds out by itself whether the event is there; this is for where there is none. */
static enum hf_status
find_event(struct api_call *call, struct desk_tools *tools)
{
    struct pg_params params;
    struct pg_result *rows = NULL;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_text(&params, call->event);
    enum hf_status status =
        call_outcome(call, call_read(call, tools, STATEMENT_WARM_EVENT, &params, &rows), tools->pg);
    if (status == HF_OK && !pg_get_bool(rows, 0, 0))
        status = HF_EVENT_NOT_FOUND;
    pg_result_free(&rows);
    return status;
}

/* A Redis that fails is told as such; Postgres is what the answer can't do without. */
static enum hf_status
look_at_redis(struct api_call *call, struct desk_tools *tools, struct mono_time deadline,
              struct registry *registry)
{
    if (!redis_may_be_used(tools->node))
        return find_event(call, tools);
    enum hf_status status = repair_event(tools->node, tools->pg, tools->warm, call_org(call),
                                         call->event, REPAIR_LOOK, deadline, &registry->redis);
    registry->redis_is_used = status == HF_OK;
    bool redis_failed = status == HF_OVERLOADED && mono_now().us < deadline.us;
    return redis_failed ? HF_OK : status;
}

static enum hf_status
look_at_tiers(struct api_call *call, struct desk_tools *tools, struct registry *registry)
{
    struct mono_time deadline = { mono_now().us + TIME_US };
    enum hf_status status = look_at_redis(call, tools, deadline, registry);

    if (status == HF_OK)
        status = repair_look_at_memory(tools->node, tools->pg, call_org(call), call->event,
                                       deadline, &registry->memory);
    return status;
}

/* Columns of the report. */
enum { NODE_ID, INCARNATION, ADDRESS, HEARTBEAT_AGE_MS };

/* The looks may have taken longer than a request does. */
static enum hf_status
read_nodes(struct api_call *call, struct desk_tools *tools, struct pg_result **nodes)
{
    struct mono_time deadline = { mono_now().us + tools->node->config->request_timeout };

    return call_outcome(
        call, pg_run_text(tools->pg, pg_report_text(REPORT_NODES), 0, NULL, deadline, nodes),
        tools->pg);
}

/* --- the answer ---------------------------------------------------------------------------- */

static void
write_nodes(struct json_writer *w, const struct pg_result *rows, const struct node *self)
{
    json_name(w, "nodes");
    json_array_begin(w);
    for (int row = 0; row < pg_rows(rows); row++) {
        json_object_begin(w);
        json_field_text(w, "node_id", pg_get_text(rows, row, NODE_ID));
        json_field_int(w, "incarnation", pg_get_int(rows, row, INCARNATION));
        json_field_text(w, "address", pg_get_text(rows, row, ADDRESS));
        json_field_int(w, "heartbeat_age_ms", pg_get_int(rows, row, HEARTBEAT_AGE_MS));
        bool is_self = slice_is(pg_get_text(rows, row, NODE_ID), self->id);
        json_field_bool(w, "self", is_self);
        if (is_self)
            json_field_bool(w, "trusted", fanout_is_trusted(self->fanout));
        else
            peers_write_one(w, self->fanout, pg_get_int(rows, row, INCARNATION));
        json_object_end(w);
    }
    json_array_end(w);
}

static void
write_verdict(struct json_writer *w, const struct registry *registry)
{
    bool equal = registry->memory.agrees && registry->redis_is_used && registry->redis.equal;
    const char *status = equal ? "ok" : registry->redis_is_used ? "stale" : "degraded";
    const char *message = "Memory, Redis and Postgres agree.";

    if (!registry->redis_is_used)
        message = "Redis is off or can't be reached; Postgres and memory do without it.";
    else if (!registry->redis.equal)
        message = "Redis differs from Postgres; it is repaired in time, at once by reconcile.";
    else if (!registry->memory.agrees)
        message = "This node's memory differs from Postgres.";
    json_field_bool(w, "consistent", equal);
    json_field_text(w, "status", slice_of(status));
    json_field_text(w, "message", slice_of(message));
}

static void
write_registry(struct buf *body, const struct registry *registry, const struct pg_result *nodes,
               const struct node *self)
{
    struct json_writer w;

    json_writer_init(&w, body);
    json_object_begin(&w);
    json_field_int(&w, "hot_count", registry->memory.hot_count);
    json_name(&w, "redis_count");
    if (registry->redis_is_used && registry->redis.redis_count >= 0)
        json_int(&w, registry->redis.redis_count);
    else
        json_null(&w);
    json_field_int(&w, "db_count", registry->memory.db_count);
    write_verdict(&w, registry);
    write_nodes(&w, nodes, self);
    json_object_end(&w);
}

static void
registry_run(struct api_call *call, struct desk_tools *tools)
{
    struct registry registry = { 0 };
    struct pg_result *nodes = NULL;
    struct buf body = { 0 };
    enum hf_status status = look_at_tiers(call, tools, &registry);

    if (status == HF_OK)
        status = read_nodes(call, tools, &nodes);
    if (status == HF_OK) {
        write_registry(&body, &registry, nodes, tools->node);
        respond_json(call, 200, &body);
    } else {
        respond_refusal(call, status, NULL);
    }
    pg_result_free(&nodes);
}

void
registry_get(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk_long(call, registry_run);
}

/* --- reconcile ------------------------------------------------------------------------------- */

static void
respond_reconciled(struct api_call *call, const struct repair_report *report)
{
    struct buf body = { 0 };
    struct json_writer w;

    LOG_EVENT(LOG_INFO, "reconciled", log_text("org", call->claims.org),
              log_slice("event_id", call->event), log_text("user", call->claims.user),
              log_text("request_id", call->exchange->request.request_id),
              log_int("restored", report->restored), log_int("removed", report->removed),
              log_text("consistent", report->equal ? "yes" : "no"));
    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_field_bool(&w, "consistent", report->equal);
    json_field_int(&w, "restored", report->restored);
    json_field_int(&w, "removed", report->removed);
    json_field_int(&w, "duration_ms", report->duration_us / TIME_US_PER_MS);
    json_object_end(&w);
    respond_json(call, 200, &body);
}

static void
reconcile_run(struct api_call *call, struct desk_tools *tools)
{
    struct mono_time deadline = { mono_now().us + TIME_US };
    struct repair_report report = { 0 };
    bool is_on = warm_tier_is_on(tools->node->tier);

    if (!idempotency_is_new(call, tools->pg))
        return;
    enum hf_status status = is_on
                                ? repair_event(tools->node, tools->pg, tools->warm, call_org(call),
                                               call->event, REPAIR_THOROUGH, deadline, &report)
                                : find_event(call, tools);

    if (status == HF_OK && !is_on)
        respond_refusal(call, HF_STORE_UNAVAILABLE, AWAY);
    else if (status == HF_OK)
        respond_reconciled(call, &report);
    else if (status == HF_OVERLOADED && mono_now().us < deadline.us)
        respond_refusal(call, HF_STORE_UNAVAILABLE, AWAY);
    else
        respond_refusal(call, status, NULL);
}

void
registry_reconcile(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk_long(call, reconcile_run);
}
