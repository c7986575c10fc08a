/*
 * fixture.h - a server without network and database: exchanges in, replies out.
 *
 * http_exchange_send and the engine are replaced: a sent reply is kept for the test,
 * an op that reaches the engine is kept too and may be answered by the test. What
 * the test would link from the rooms instead is never pulled in.
 */
#ifndef HOLDFAST_TESTS_API_FIXTURE_H
#define HOLDFAST_TESTS_API_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <zlib.h>

#include "api_internal.h"
#include "holdfast/json.h"

#define FIXTURE_SECRET "a secret that only this test knows"

static struct fixture {
    struct config config;
    struct node node;
    struct api *api;
    struct http_handler handler;
    struct http_exchange exchange;
    bool is_sent;
    bool store_is_up;
    enum hf_status admits; /* what engine_admits says */
    struct op *op;         /* the last one that reached the engine */
    int op_count;
    void (*on_op)(struct op *op); /* NULL: the op stays unanswered */
    char token[2048];
} fx;

/* --- what stands in for acceptor and engine ---------------------------------------- */

void
http_exchange_send(struct http_exchange *exchange)
{
    assert_ptr_equal(exchange, &fx.exchange);
    assert_false(fx.is_sent);
    fx.is_sent = true;
}

void
engine_submit(struct engine *engine, struct op *op)
{
    (void)engine;
    fx.op = op;
    fx.op_count++;
    if (fx.on_op != NULL)
        fx.on_op(op);
}

int64_t
engine_queue_depth(const struct engine *engine)
{
    (void)engine;
    return 0;
}

enum hf_status
engine_admits(const struct engine *engine, struct mono_time deadline, struct mono_time now,
              int32_t *retry_after_s)
{
    (void)engine;
    (void)deadline;
    (void)now;
    *retry_after_s = fx.admits == HF_OK ? 0 : 3;
    return fx.admits;
}

bool
engine_store_is_up(const struct engine *engine)
{
    (void)engine;
    return fx.store_is_up;
}

bool
engine_may_doubt(struct engine *engine)
{
    (void)engine;
    return true;
}

void
engine_doubts(struct engine *engine, const struct uuid *batch_id)
{
    (void)engine;
    (void)batch_id;
}

int
engine_commit_begins(struct engine *engine)
{
    (void)engine;
    return 0;
}

void
engine_commit_ends(struct engine *engine, int place)
{
    (void)engine;
    (void)place;
}

int64_t
engine_outstanding(struct engine *engine)
{
    (void)engine;
    return 0;
}

int64_t
engine_key_lock(struct slice org, struct slice user, struct slice method, struct slice path,
                struct slice key)
{
    (void)org;
    (void)user;
    (void)method;
    (void)path;
    return (int64_t)key.len;
}

int64_t
engine_hold_lock(const struct uuid *hold)
{
    return hold->bytes[15];
}

void
engine_replan(struct engine *engine)
{
    (void)engine;
}

void
engine_tell(struct node *node, const struct feed_change *changes, int count, struct mono_time began)
{
    (void)node;
    (void)changes;
    (void)count;
    (void)began;
}

/* --- set up ---------------------------------------------------------------------------- */

static inline void
fixture_config(void)
{
    char error[CONFIG_ERROR_BYTES];
    static char secret[] = "--jwt_secret=" FIXTURE_SECRET;
    char *argv[] = { secret, NULL };
    int rest = 0;

    (void)clearenv(); /* the HOLDFAST_ names of the test run are the tests', no settings */
    if (!config_load(&fx.config, 1, argv, &rest, error))
        fail_msg("%s", error);
}

static inline int
fixture_up(void **state)
{
    char error[256];
    struct hot_table_limits limits = { .shards = 4,
                                       .seats_max = 1000,
                                       .parked_max = 10,
                                       .lease_us = TIME_US_PER_S,
                                       .tombstone_us = 0 };

    (void)state;
    memset(&fx, 0, sizeof(fx));
    fixture_config();
    fx.node.config = &fx.config;
    snprintf(fx.node.id, sizeof(fx.node.id), "n1");
    fx.node.clock = db_clock_new();
    fx.node.hot = hot_table_new(&limits);
    fx.node.events = events_new();
    fx.node.feed = feed_new(&fx.node, 65536);
    fx.node.engine = (struct engine *)&fx; /* never looked into */
    fx.api = api_new(&fx.node, error, sizeof(error));
    if (fx.api == NULL)
        fail_msg("%s", error);
    fx.handler = api_http_handler(fx.api);
    api_set_phase(fx.api, API_SERVING);
    fx.store_is_up = true;
    fx.admits = HF_OK;
    return 0;
}

static inline void
exchange_end(void)
{
    if (fx.exchange.user_free != NULL)
        fx.exchange.user_free(fx.exchange.user);
    buf_fini(&fx.exchange.reply.headers);
    buf_fini(&fx.exchange.reply.body);
    memset(&fx.exchange, 0, sizeof(fx.exchange));
    fx.is_sent = false;
    fx.op = NULL;
}

static inline int
fixture_down(void **state)
{
    (void)state;
    exchange_end();
    assert_int_equal(api_unanswered(fx.api), 0);
    api_free(&fx.api);
    feed_free(&fx.node.feed);
    events_free(&fx.node.events);
    hot_table_free(&fx.node.hot);
    db_clock_free(&fx.node.clock);
    config_fini(&fx.config);
    return 0;
}

/* --- requests ----------------------------------------------------------------------------- */

static inline void
as_bound(const char *user, enum token_role role, const char *event)
{
    struct token_claims claims = { .role = role, .exp_unix_s = INT64_C(4102444800) };
    struct buf token = { 0 };
    char error[128];

    snprintf(claims.org, sizeof(claims.org), "org-1");
    snprintf(claims.user, sizeof(claims.user), "%s", user);
    snprintf(claims.event, sizeof(claims.event), "%s", event);
    assert_true(token_mint(&fx.config, &claims, &token, error, sizeof(error)));
    snprintf(fx.token, sizeof(fx.token), "Bearer %s", token.data);
    buf_fini(&token);
}

/* From now on requests carry a token of this user. */
static inline void
as(const char *user, enum token_role role)
{
    as_bound(user, role, "");
}

static inline struct http_request *
prepare(enum http_method method, const char *target, const char *body)
{
    struct http_request *request;
    const char *query = strchr(target, '?');

    exchange_end();
    request = &fx.exchange.request;
    request->method = method;
    request->target = slice_of(target);
    request->path =
        query != NULL ? (struct slice){ target, (size_t)(query - target) } : slice_of(target);
    request->query = query != NULL ? slice_of(query + 1) : SLICE_EMPTY;
    request->body = slice_of(body != NULL ? body : "");
    request->authorization = slice_of(fx.token);
    request->content_type = body != NULL ? SLICE_LITERAL("application/json") : SLICE_EMPTY;
    request->idempotency_key = request->traceparent = request->if_none_match = SLICE_EMPTY;
    request->accept_encoding = request->forwarded_for = request->user_agent = SLICE_EMPTY;
    request->last_event_id = request->api_key = request->signature = SLICE_EMPTY;
    snprintf(request->peer, sizeof(request->peer), "192.0.2.1");
    snprintf(request->request_id, sizeof(request->request_id), "req-1");
    request->received = mono_now();
    return request;
}

static inline void
handle_it(void)
{
    fx.handler.handle(fx.handler.context, &fx.exchange);
}

static inline void
ask(enum http_method method, const char *target, const char *body)
{
    prepare(method, target, body);
    handle_it();
}

/* --- answers ---------------------------------------------------------------------------------- */

static inline struct cJSON *
reply_json(void)
{
    struct json_error error = { 0 };
    struct cJSON *tree = json_parse(buf_slice(&fx.exchange.reply.body), &error);

    if (tree == NULL)
        fail_msg("no JSON: %s", fx.exchange.reply.body.data);
    return tree;
}

static inline bool
has_header(const char *line)
{
    return fx.exchange.reply.headers.data != NULL &&
           strstr(fx.exchange.reply.headers.data, line) != NULL;
}

/* The reply is this problem document. */
static inline void
assert_problem(int status, const char *code)
{
    assert_true(fx.is_sent);
    if (fx.exchange.reply.status != status)
        print_error("body: %s\n", fx.exchange.reply.body.data);
    assert_int_equal(fx.exchange.reply.status, status);
    assert_string_equal(fx.exchange.reply.content_type, "application/problem+json");
    struct cJSON *tree = reply_json();
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(tree, "code")->valuestring, code);
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(tree, "status")->valueint, status);
    cJSON_Delete(tree);
}

/* errors[i].field of the reply. */
static inline void
assert_wrong_field(int i, const char *field)
{
    struct cJSON *tree = reply_json();
    struct cJSON *error = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(tree, "errors"), i);

    assert_non_null(error);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(error, "field")->valuestring, field);
    cJSON_Delete(tree);
}

/* An engine that refuses everything with fx_refusal, as memory would: at once. */
static enum hf_status fx_refusal = HF_SEAT_TAKEN;

static inline void
refuse_op(struct op *op)
{
    op->status = fx_refusal;
    op->tier = TIER_HOT;
    for (int i = 0; i < op->seat_count; i++)
        op->seats[i].code = fx_refusal;
    op->finish(op);
    op->send(op);
}

#endif
