/*
 * fuzz_http.c - the acceptor's parser: bytes in, requests or refusals out.
 *
 * Beside not crashing: how the bytes are cut into reads must not matter. The input
 * (after one byte that steers the cutting) is fed once whole and once in pieces, and
 * both must give the same requests and the same refusal. Whatever is taken must be
 * what the strict rules promise.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "outbox.h"
#include "parser.h"

#define REQUESTS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t
body_max(void *context, enum http_method method, struct slice path)
{
    (void)context;
    hf_assert(method <= HTTP_METHOD_OPTIONS && path.len > 0);
    return 3000;
}

static const struct http_handler handler = { .body_max = body_max };
static const struct parser_rules rules = { 2048, 512, &handler };

/* One number for all that came of the bytes. */
struct digest {
    uint64_t hash;
    int requests;
};

static void
digest_bytes(struct digest *digest, const void *bytes, size_t len)
{
    digest->hash = (digest->hash ^ len) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < len; i++)
        digest->hash = (digest->hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
}

static void
digest_slice(struct digest *digest, struct slice text)
{
    digest_bytes(digest, text.ptr, text.len);
}

static void
check_line_text(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        hf_assert(head_scan_is_text((unsigned char)text.ptr[i]));
}

static void
digest_request(struct digest *digest, const struct exchange *exchange)
{
    const struct http_request *request = &exchange->public.request;
    const struct slice lines[] = {
        request->target,        request->path,          request->query,
        request->authorization, request->content_type,  request->idempotency_key,
        request->traceparent,   request->if_none_match, request->accept_encoding,
        request->forwarded_for, request->user_agent,    request->last_event_id,
        request->api_key,       request->signature,
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        check_line_text(lines[i]);
        digest_slice(digest, lines[i]);
    }
    hf_assert(request->target.len <= rules.uri_max && exchange->head.len <= rules.header_max);
    hf_assert(request->body.len <= 3000 && request->request_id[0] != '\0');
    digest_slice(digest, request->body);
    digest_bytes(digest, &request->method, sizeof(request->method));
    digest_bytes(digest, &exchange->keep_alive, sizeof(exchange->keep_alive));
    digest->requests++;
}

/* The length of the next piece: from a small generator, or all there is. */
static size_t
next_piece(uint32_t *steer, size_t left)
{
    if (*steer == 0)
        return left;
    *steer = *steer * 1664525u + 1013904223u;
    size_t piece = 1 + (*steer >> 24) % 17;
    return piece < left ? piece : left;
}

static struct digest
run(struct exchange_pool *pool, const uint8_t *data, size_t size, uint32_t steer)
{
    struct digest digest = { 0 };
    struct parser parser;
    struct exchange *exchange = NULL;
    enum parser_event event = PARSER_MORE;

    parser_init(&parser, &rules);
    while (size > 0 && event != PARSER_REFUSED && digest.requests < REQUESTS_MAX) {
        if (exchange == NULL) {
            exchange = exchange_get(pool);
            if (exchange == NULL)
                abort();
            parser_begin(&parser, exchange);
        }
        size_t piece = next_piece(&steer, size);
        size_t used = parser_feed(&parser, (const char *)data, piece, &event);
        hf_assert(used <= piece && (event != PARSER_MORE || used == piece));
        data += used;
        size -= used;
        if (event == PARSER_REQUEST) {
            digest_request(&digest, exchange);
            exchange_put(pool, exchange);
            exchange = NULL;
        }
    }
    if (event == PARSER_REFUSED) {
        hf_assert(parser.detail != NULL && status_http(parser.refusal) >= 400);
        digest_bytes(&digest, &parser.refusal, sizeof(parser.refusal));
    }
    if (exchange != NULL)
        exchange_put(pool, exchange);
    return digest;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_budget budget = { .max = SIZE_MAX };
    struct outbox outbox = { 0 };
    struct exchange_pool pool;

    if (size == 0)
        return 0;
    exchange_pool_init(&pool, &budget, &outbox);
    struct digest whole = run(&pool, data + 1, size - 1, 0);
    struct digest cut = run(&pool, data + 1, size - 1, data[0] + 1u);
    hf_assert(whole.requests == cut.requests && whole.hash == cut.hash);
    exchange_pool_fini(&pool);
    hf_assert(budget.used == 0);
    return 0;
}
