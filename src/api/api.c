/*
 * api.c - the steps that every call goes through before its handler.
 *
 * Each step answers and says false, or lets the call go on. They stand in the order
 * of their price and of what they may tell: an address over its limit learns nothing
 * more, a stranger doesn't learn which ids exist.
 */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include <cjson/cJSON.h>

#include "api_internal.h"
#include "idempotency.h"
#include "holdfast/metrics.h"

/* --- a call's life ------------------------------------------------------------ */

/* The acceptor is through with the exchange. */
static void
call_free(void *user)
{
    struct api_call *call = user;
    struct arena arena = call->arena; /* it holds the call itself */

    cJSON_Delete(call->json);
    arena_fini(&arena);
}

static struct api_call *
call_new(struct api *api, struct http_exchange *exchange)
{
    struct arena arena = { 0 };
    struct api_call *call = arena_alloc(&arena, sizeof(*call));

    if (call == NULL)
        return NULL;
    call->arena = arena;
    call->api = api;
    call->exchange = exchange;
    call->event = call->seat = call->key = SLICE_EMPTY;
    call->deadline.us = exchange->request.received.us + api->node->config->request_timeout;
    exchange->user = call;
    exchange->user_free = call_free;
    return call;
}

/* --- the steps ---------------------------------------------------------------- */

static bool
find_route(struct api_call *call)
{
    const struct http_request *request = &call->exchange->request;

    if (!route_find(&call->arena, request->method, request->path, &call->match)) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return false;
    }
    call->route = call->match.route;
    return true;
}

static enum rate_kind
rate_kind_of(const struct route *route)
{
    if (route == NULL)
        return RATE_GENERAL;
    switch (route->limit) {
    case LIMIT_HOLD:
        return RATE_HOLD;
    case LIMIT_MAP:
        return RATE_MAP;
    case LIMIT_NONE:
    case LIMIT_GENERAL:
        return RATE_GENERAL;
    }
    return RATE_GENERAL;
}

bool
call_within_limits(struct api_call *call)
{
    enum rate_kind kind = rate_kind_of(call->route);
    rate_limit_check(call->api->limiter, call->client, kind,
                     kind == RATE_MAP ? call_param(call, "event") : SLICE_EMPTY, mono_now(),
                     &call->rate);
    if (call->rate.status == HF_OK)
        return true;
    metric_add(METRIC_RATE_LIMITED_TOTAL, 1);
    respond_problem(call, call->rate.status,
                    &(struct problem){ .retry_after_s = call->rate.retry_after_s });
    return false;
}

static bool
within_limits(struct api_call *call)
{
    const struct http_request *request = &call->exchange->request;

    client_address(call->api->proxies, request->peer, request->forwarded_for, call->client);
    return (call->route != NULL && call->route->limit == LIMIT_NONE) || call_within_limits(call);
}

static void
append_allow(struct buf *headers, unsigned allow)
{
    static const char *const words[] = {
        [HTTP_METHOD_GET] = "GET",         [HTTP_METHOD_HEAD] = "HEAD",
        [HTTP_METHOD_POST] = "POST",       [HTTP_METHOD_PUT] = "PUT",
        [HTTP_METHOD_PATCH] = "PATCH",     [HTTP_METHOD_DELETE] = "DELETE",
        [HTTP_METHOD_OPTIONS] = "OPTIONS",
    };
    const char *separator = "Allow: ";

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if ((allow & (1u << i)) == 0)
            continue;
        buf_append_text(headers, separator);
        buf_append_text(headers, words[i]);
        separator = ", ";
    }
    buf_append(headers, "\r\n", 2);
}

static bool
has_route(struct api_call *call)
{
    if (call->route != NULL)
        return true;
    if (call->match.allow == 0) {
        respond_refusal(call, HF_NOT_FOUND, NULL);
        return false;
    }
    reply_problem(call->exchange, HF_METHOD_NOT_ALLOWED, NULL);
    append_allow(&call->exchange->reply.headers, call->match.allow);
    call->answered = HF_METHOD_NOT_ALLOWED;
    respond_send(call);
    return false;
}

/* An id that can't exist is refused here, before it reaches a key, a query or a log line. */
static bool
take_id(struct api_call *call, const char *name, struct slice *id)
{
    char detail[64];

    *id = call_param(call, name);
    if (id->len == 0 || id_is_valid(*id))
        return true;
    struct field_error error = { slice_of(name), "is not 1-64 characters of [A-Za-z0-9._-]", 0 };
    snprintf(detail, sizeof(detail), "The %s in the path is no identifier.", name);
    respond_problem(call, HF_INVALID_ID,
                    &(struct problem){ .detail = detail, .errors = &error, .error_count = 1 });
    return false;
}

/* An id of ours: what has another form is of nothing that there is. */
static bool
take_uuid(struct api_call *call, const char *name, enum hf_status unknown, struct uuid *id)
{
    struct slice text = call_param(call, name);

    if (text.len == 0 || uuid_parse(text, id))
        return true;
    respond_refusal(call, unknown, unknown == HF_NOT_FOUND ? "There is nothing of that id." : NULL);
    return false;
}

static bool
take_ids(struct api_call *call)
{
    return take_id(call, "event", &call->event) && take_id(call, "seat", &call->seat) &&
           take_uuid(call, "hold", HF_HOLD_NOT_FOUND, &call->hold_id) &&
           take_uuid(call, "checkout", HF_CHECKOUT_NOT_FOUND, &call->checkout_id) &&
           take_uuid(call, "intent", HF_INTENT_NOT_FOUND, &call->intent_id) &&
           take_uuid(call, "checkin", HF_CHECKIN_NOT_FOUND, &call->checkin_id) &&
           take_uuid(call, "waitlist", HF_NOT_FOUND, &call->waitlist_id);
}

/* --- Content-Type ------------------------------------------------------------- */

static struct slice
skip_spaces(struct slice text)
{
    while (text.len > 0 && (*text.ptr == ' ' || *text.ptr == '\t'))
        text = (struct slice){ text.ptr + 1, text.len - 1 };
    return text;
}

static bool
starts_nocase(struct slice *text, const char *word)
{
    size_t len = strlen(word);
    if (text->len < len || strncasecmp(text->ptr, word, len) != 0)
        return false;
    *text = (struct slice){ text->ptr + len, text->len - len };
    return true;
}

/* `wanted`, alone or with parameters; a charset must be UTF-8. */
static bool
content_type_is(struct slice given, const char *wanted)
{
    given = skip_spaces(given);
    if (!starts_nocase(&given, wanted))
        return false;
    given = skip_spaces(given);
    if (given.len > 0 && *given.ptr != ';')
        return false;
    while (given.len > 0) {
        given = skip_spaces((struct slice){ given.ptr + 1, given.len - 1 });
        if (starts_nocase(&given, "charset=")) {
            starts_nocase(&given, "\"");
            if (!starts_nocase(&given, "utf-8") && !starts_nocase(&given, "utf8"))
                return false;
        }
        const char *next = given.len > 0 ? memchr(given.ptr, ';', given.len) : NULL;
        given = next == NULL ? SLICE_EMPTY
                             : (struct slice){ next, given.len - (size_t)(next - given.ptr) };
    }
    return true;
}

/* Only a wrong one is refused: without the header the body is taken for what the route wants. */
static bool
body_is_of_type(struct api_call *call)
{
    const struct http_request *request = &call->exchange->request;

    if (call->route->body == BODY_NONE || request->body.len == 0 || request->content_type.len == 0)
        return true;
    const char *wanted = call->route->body == BODY_CSV ? "text/csv" : "application/json";
    if (content_type_is(request->content_type, wanted))
        return true;
    respond_refusal(call, HF_UNSUPPORTED_MEDIA_TYPE,
                    call->route->body == BODY_CSV ? "This route takes text/csv in UTF-8."
                                                  : "This route takes application/json in UTF-8.");
    return false;
}

/* --- what the acceptor calls -------------------------------------------------- */

static void
handle(void *context, struct http_exchange *exchange)
{
    struct api *api = context;
    struct api_call *call = call_new(api, exchange);

    if (call == NULL) {
        reply_problem(exchange, HF_OVERLOADED, NULL);
        http_exchange_send(exchange);
        return;
    }
    /* Counted first, looked at second: who closes us looks at the count after the phase. */
    atomic_fetch_add(&api->unanswered, 1);
    if (atomic_load(&api->phase) == API_CLOSED) {
        respond_refusal(call, HF_DRAINING, NULL);
        return;
    }
    if (find_route(call) && within_limits(call) && has_route(call) && call_authenticate(call) &&
        idempotency_read(call) && call_authorize(call) && take_ids(call) &&
        call_may_use_event(call, call->event) && body_is_of_type(call))
        call->route->handler(api, call);
}

/* Asked before the body comes; a path with escapes in an import's URL gets the usual limit. */
static size_t
body_max(void *context, enum http_method method, struct slice path)
{
    const struct config *config = ((struct api *)context)->node->config;
    struct arena arena = { 0 };
    struct route_match match;

    bool is_csv = route_find(&arena, method, path, &match) && match.route != NULL &&
                  match.route->body == BODY_CSV;
    arena_fini(&arena);
    return (size_t)(is_csv ? config->import_body_max : config->body_max);
}

/* The acceptor found something wrong itself; its answer is counted, and looks like all others. */
static void
refuse(void *context, struct http_exchange *exchange, enum hf_status status, const char *detail)
{
    (void)context;
    if (exchange->request.path.ptr == NULL)
        exchange->request.path = SLICE_EMPTY;
    reply_problem(exchange, status, &(struct problem){ .detail = detail });
    metric_request("none", status);
}

/* --- start and end ------------------------------------------------------------ */

struct api *
api_new(struct node *node, char *error, size_t error_bytes)
{
    struct api *api = calloc(1, sizeof(*api));
    if (api == NULL) {
        snprintf(error, error_bytes, "no memory");
        return NULL;
    }
    api->node = node;
    api->phase = API_STARTING;
    api->verifier = token_verifier_new(node->config, error, error_bytes);
    if (api->verifier == NULL)
        goto failed;
    api->proxies = proxy_list_new(node->config->trusted_proxies, error, error_bytes);
    if (api->proxies == NULL)
        goto failed;
    api->keys = api_keys_new(node->config, error, error_bytes);
    if (api->keys == NULL)
        goto failed;
    api->limiter = rate_limiter_new(node->config);
    api->logins = login_limit_new(node->config);
    api->occupancies = occupancies_new(node);
    if (api->limiter == NULL || api->logins == NULL || api->occupancies == NULL) {
        snprintf(error, error_bytes, "no memory");
        goto failed;
    }
    return api;
failed:
    api_free(&api);
    return NULL;
}

void
api_free(struct api **api)
{
    if (*api == NULL)
        return;
    occupancies_free(&(*api)->occupancies);
    login_limit_free(&(*api)->logins);
    rate_limiter_free(&(*api)->limiter);
    api_keys_free(&(*api)->keys);
    proxy_list_free(&(*api)->proxies);
    token_verifier_free(&(*api)->verifier);
    free(*api);
    *api = NULL;
}

struct http_handler
api_http_handler(struct api *api)
{
    return (struct http_handler){
        .context = api,
        .handle = handle,
        .body_max = body_max,
        .refuse = refuse,
    };
}

int64_t
api_unanswered(const struct api *api)
{
    return atomic_load(&api->unanswered);
}

void
api_set_phase(struct api *api, enum api_phase phase)
{
    atomic_store(&api->phase, (int)phase);
}
