/*
 * respond.c - the last steps of every call: headers, key, compression, count, send.
 */
#include <stdio.h>
#include <strings.h>
#include <zlib.h>

#include "api_internal.h"
#include "idempotency.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"

#define GZIP_FROM_BYTES  1024 /* below it, gzip costs more than it saves */
#define GZIP_LEVEL       1    /* bodies made for one reader: speed counts */
#define GZIP_WINDOW_BITS (15 + 16)

/* --- compression ------------------------------------------------------------ */

static struct slice
trim(struct slice text)
{
    while (text.len > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t'))
        text = (struct slice){ text.ptr + 1, text.len - 1 };
    while (text.len > 0 && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* Cuts *rest at the first `separator` and gives what stood before it, trimmed. */
static struct slice
cut(struct slice *rest, char separator)
{
    const char *at = rest->len > 0 ? memchr(rest->ptr, separator, rest->len) : NULL;
    struct slice head = *rest;

    if (at == NULL) {
        *rest = SLICE_EMPTY;
    } else {
        head.len = (size_t)(at - rest->ptr);
        *rest = (struct slice){ at + 1, rest->len - head.len - 1 };
    }
    return trim(head);
}

static bool
equals_nocase(struct slice text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.ptr, word, text.len) == 0;
}

/* "q=0", "q=0.0", "q=0.000": not wanted. */
static bool
is_zero_weight(struct slice parameter)
{
    if (parameter.len < 3 || strncasecmp(parameter.ptr, "q=", 2) != 0)
        return false;
    for (size_t i = 2; i < parameter.len; i++) {
        if (parameter.ptr[i] != '0' && parameter.ptr[i] != '.')
            return false;
    }
    return true;
}

static bool
coding_is_wanted(struct slice parameters)
{
    while (parameters.len > 0) {
        if (is_zero_weight(cut(&parameters, ';')))
            return false;
    }
    return true;
}

/* What is said of gzip itself counts; "*" only when gzip isn't named. */
bool
accepts_gzip(struct slice accept_encoding)
{
    bool any = false;

    while (accept_encoding.len > 0) {
        struct slice parameters = cut(&accept_encoding, ',');
        struct slice coding = cut(&parameters, ';');
        if (equals_nocase(coding, "gzip") || equals_nocase(coding, "x-gzip"))
            return coding_is_wanted(parameters);
        if (slice_is(coding, "*"))
            any = coding_is_wanted(parameters);
    }
    return any;
}

/* Replaces the body by its gzip. False: it stays as it is. */
static bool
gzip_body(struct buf *body)
{
    z_stream z = { 0 };
    struct buf packed = { 0 };
    bool done = false;

    if (body->len > UINT32_MAX / 2 ||
        deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    size_t room = deflateBound(&z, body->len);
    if (buf_reserve(&packed, room)) {
        z.next_in = (Bytef *)body->data;
        z.avail_in = (uInt)body->len;
        z.next_out = (Bytef *)packed.data;
        z.avail_out = (uInt)room;
        done = deflate(&z, Z_FINISH) == Z_STREAM_END;
        packed.len = z.total_out;
    }
    deflateEnd(&z);
    if (!done) {
        buf_fini(&packed);
        return false;
    }
    buf_fini(body);
    *body = packed;
    return true;
}

static void
compress_if_wanted(struct http_exchange *exchange)
{
    struct http_reply *reply = &exchange->reply;

    if (reply->shared != NULL || reply->body.len <= GZIP_FROM_BYTES)
        return;
    buf_append_text(&reply->headers, "Vary: Accept-Encoding\r\n");
    if (accepts_gzip(exchange->request.accept_encoding) && gzip_body(&reply->body))
        buf_append_text(&reply->headers, "Content-Encoding: gzip\r\n");
}

/* --- sending ---------------------------------------------------------------- */

static void
write_rate_headers(struct buf *headers, const struct rate_result *rate)
{
    if (rate->limit == 0)
        return;
    buf_append_text(headers, "RateLimit-Policy: \"");
    buf_append_text(headers, rate->name);
    buf_append_text(headers, "\";q=");
    buf_append_int(headers, rate->limit);
    buf_append_text(headers, ";w=");
    buf_append_int(headers, rate->window_s);
    buf_append_text(headers, "\r\nRateLimit: \"");
    buf_append_text(headers, rate->name);
    buf_append_text(headers, "\";r=");
    buf_append_int(headers, rate->remaining);
    buf_append_text(headers, ";t=");
    buf_append_int(headers, rate->reset_s);
    buf_append(headers, "\r\n", 2);
}

/* Who asked, as the log says it; borrowed from the call. */
struct answer_line {
    const char *route, *client, *org, *user, *request_id;
    struct slice traceparent;
    struct mono_time received;
};

/* Our own faults are errors; everything else is normal life, and a line each would be a flood. */
static void
log_line(const struct answer_line *line, enum hf_status answered, int http_status)
{
    LOG_EVENT(answered == HF_INTERNAL ? LOG_ERROR : LOG_DEBUG, "answered",
              log_text("route", line->route), log_int("status", http_status),
              log_text("code", status_code(answered)), log_text("client", line->client),
              log_text("org", line->org), log_text("user", line->user),
              log_text("request_id", line->request_id), log_slice("traceparent", line->traceparent),
              log_int("us", mono_now().us - line->received.us));
}

static struct answer_line
line_of(const struct api_call *call)
{
    const struct http_request *request = &call->exchange->request;

    return (struct answer_line){
        .route = call->route != NULL ? call->route->name : "none",
        .client = call->client,
        .org = call->claims.org,
        .user = call->claims.user,
        .request_id = request->request_id,
        .traceparent = request->traceparent,
        .received = request->received,
    };
}

static void
log_answer(const struct api_call *call)
{
    struct answer_line line = line_of(call);

    log_line(&line, call->answered, call->exchange->reply.status);
}

void
respond_send(struct api_call *call)
{
    struct http_exchange *exchange = call->exchange;
    struct api *api = call->api;

    write_rate_headers(&exchange->reply.headers, &call->rate);
    compress_if_wanted(exchange);
    log_answer(call);
    metric_request(call->route != NULL ? call->route->name : "none", call->answered);
    http_exchange_send(exchange);
    atomic_fetch_sub(&api->unanswered, 1);
}

/* An answer that a key waits for goes through the engine, which keeps it, then sends. */
void
respond_ready(struct api_call *call)
{
    if (call->key_state == KEY_OPEN && idempotency_is_kept(call->answered))
        idempotency_keep(call);
    else
        respond_send(call);
}

/* --- answers ---------------------------------------------------------------- */

/* What the metrics call an answer that is no problem document. */
static enum hf_status
status_of_answer(int http_status)
{
    switch (http_status) {
    case 201:
        return HF_CREATED;
    case 202:
        return HF_ACCEPTED;
    case 304:
        return HF_NOT_MODIFIED;
    case 503:
        return HF_DRAINING; /* the body of /ready */
    default:
        return HF_OK;
    }
}

void
respond_body(struct api_call *call, int http_status, const char *content_type, struct buf *body)
{
    struct http_reply *reply = &call->exchange->reply;

    if (body->failed) {
        buf_fini(body);
        respond_refusal(call, HF_OVERLOADED, "There is no memory for the answer.");
        return;
    }
    reply->status = http_status;
    reply->content_type = content_type;
    buf_fini(&reply->body);
    reply->body = *body;
    *body = (struct buf){ 0 };
    call->answered = status_of_answer(http_status);
    respond_ready(call);
}

void
respond_json(struct api_call *call, int http_status, struct buf *body)
{
    respond_body(call, http_status, TYPE_JSON, body);
}

void
respond_shared(struct api_call *call, const char *content_type, struct http_body *body,
               bool is_gzip)
{
    struct http_reply *reply = &call->exchange->reply;

    reply->status = 200;
    reply->content_type = content_type;
    reply->shared = body;
    buf_append_text(&reply->headers, "Vary: Accept-Encoding\r\n");
    if (is_gzip)
        buf_append_text(&reply->headers, "Content-Encoding: gzip\r\n");
    call->answered = HF_OK;
    respond_send(call);
}

/* What ends with the call, of a line that is written behind it. */
struct kept_line {
    struct answer_line line;
    char client[ADDRESS_TEXT_BYTES];
    struct token_claims claims;
    char request_id[HTTP_REQUEST_ID_BYTES];
    char traceparent[64]; /* W3C's has 55 */
};

static void
keep_line(const struct api_call *call, struct kept_line *kept)
{
    struct answer_line *line = &kept->line;

    *line = line_of(call);
    snprintf(kept->client, sizeof(kept->client), "%s", line->client);
    snprintf(kept->request_id, sizeof(kept->request_id), "%s", line->request_id);
    kept->claims = call->claims;
    snprintf(kept->traceparent, sizeof(kept->traceparent), "%.*s", SLICE_ARG(line->traceparent));
    line->traceparent = slice_of(kept->traceparent);
    line->client = kept->client;
    line->request_id = kept->request_id;
    line->org = kept->claims.org;
    line->user = kept->claims.user;
}

/* Once the stream has begun its connection may end at any time, and the call with it. */
void
respond_stream(struct api_call *call, struct desk_tools *tools,
               enum hf_status (*begin)(struct api_call *call, struct desk_tools *tools))
{
    struct http_reply *reply = &call->exchange->reply;
    struct api *api = call->api;
    struct kept_line kept;

    reply->content_type = TYPE_EVENTS;
    respond_header(call, "Cache-Control", SLICE_LITERAL("no-cache"));
    respond_header(call, "X-Accel-Buffering", SLICE_LITERAL("no"));
    write_rate_headers(&reply->headers, &call->rate);
    keep_line(call, &kept);
    enum hf_status status = begin(call, tools);
    if (status != HF_OK) {
        respond_refusal(call, status, NULL);
        return;
    }
    log_line(&kept.line, HF_OK, 200);
    metric_request(kept.line.route, HF_OK);
    atomic_fetch_sub(&api->unanswered, 1);
}

void
respond_no_body(struct api_call *call, int http_status)
{
    call->exchange->reply.status = http_status;
    call->exchange->reply.content_type = NULL;
    call->answered = status_of_answer(http_status);
    respond_ready(call);
}

void
respond_header(struct api_call *call, const char *name, struct slice value)
{
    http_reply_header(&call->exchange->reply, name, value);
}

void
respond_tier(struct api_call *call, enum op_tier tier)
{
    static const char *const lines[] = {
        [TIER_HOT] = "X-Holdfast-Tier: hot\r\n",
        [TIER_REDIS] = "X-Holdfast-Tier: redis\r\n",
        [TIER_POSTGRES] = "X-Holdfast-Tier: postgres\r\n",
    };
    buf_append_text(&call->exchange->reply.headers, lines[tier]);
}

/* --- refusals --------------------------------------------------------------- */

void
respond_problem(struct api_call *call, enum hf_status status, const struct problem *problem)
{
    reply_problem(call->exchange, status, problem);
    call->answered = status;
    respond_ready(call);
}

void
respond_refusal(struct api_call *call, enum hf_status status, const char *detail)
{
    respond_problem(call, status, &(struct problem){ .detail = detail });
}
