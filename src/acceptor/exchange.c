/*
 * exchange.c - storage of exchanges, and what handlers do with a reply.
 */
#include "exchange.h"

#include <stdlib.h>
#include <string.h>

/* Under AddressSanitizer nothing is kept, so that a late use is seen. */
#ifdef __SANITIZE_ADDRESS__
#define POOL_FREE_MAX 0
#else
#define POOL_FREE_MAX 1024
#endif
/* A reply's buffer up to this size stays with its exchange for the next request. */
#define KEEP_BUFFER_BYTES 8192
#define HEAP_BYTES_MIN    4096

_Static_assert(offsetof(struct exchange, public) == 0, "handlers' pointer is ours");

bool
memory_budget_take(struct memory_budget *budget, size_t bytes)
{
    size_t before = atomic_fetch_add_explicit(&budget->used, bytes, memory_order_relaxed);
    if (before <= budget->max && bytes <= budget->max - before)
        return true;
    memory_budget_give(budget, bytes);
    return false;
}

void
memory_budget_give(struct memory_budget *budget, size_t bytes)
{
    size_t before = atomic_fetch_sub_explicit(&budget->used, bytes, memory_order_relaxed);
    hf_assert(before >= bytes);
}

void
exchange_pool_init(struct exchange_pool *pool, struct memory_budget *budget, struct outbox *outbox)
{
    *pool = (struct exchange_pool){ .budget = budget, .outbox = outbox };
}

static void
exchange_destroy(struct exchange *exchange)
{
    buf_fini(&exchange->public.reply.headers);
    buf_fini(&exchange->public.reply.body);
    exchange->magic = 0;
    free(exchange);
}

void
exchange_pool_fini(struct exchange_pool *pool)
{
    hf_assert(pool->live == 0);
    while (pool->free != NULL) {
        struct exchange *exchange = pool->free;
        pool->free = exchange->next;
        exchange_destroy(exchange);
    }
    pool->free_count = 0;
}

/* Everything but the arena's bytes and the reply's buffers, whose memory is kept. */
static void
exchange_reset(struct exchange *exchange, struct exchange_pool *pool)
{
    struct buf headers = exchange->public.reply.headers;
    struct buf body = exchange->public.reply.body;
    memset(exchange, 0, offsetof(struct exchange, arena));
    exchange->public.reply.headers = headers;
    exchange->public.reply.body = body;
    exchange->magic = EXCHANGE_MAGIC;
    exchange->budget = pool->budget;
    exchange->outbox = pool->outbox;
    exchange->head.data = exchange->arena;
    exchange->head.capacity = EXCHANGE_ARENA_BYTES;

    struct http_request *request = &exchange->public.request;
    request->target = request->path = request->query = request->body = SLICE_EMPTY;
    request->authorization = request->content_type = request->idempotency_key = SLICE_EMPTY;
    request->traceparent = request->if_none_match = request->accept_encoding = SLICE_EMPTY;
    request->forwarded_for = request->user_agent = request->last_event_id = SLICE_EMPTY;
    request->api_key = request->signature = SLICE_EMPTY;
}

struct exchange *
exchange_get(struct exchange_pool *pool)
{
    struct exchange *exchange = pool->free;
    if (exchange != NULL) {
        pool->free = exchange->next;
        pool->free_count--;
    } else {
        exchange = malloc(sizeof(*exchange));
        if (exchange == NULL)
            return NULL;
        exchange->public.reply.headers = (struct buf){ 0 };
        exchange->public.reply.body = (struct buf){ 0 };
    }
    exchange_reset(exchange, pool);
    pool->live++;
    return exchange;
}

static void
keep_or_free(struct buf *buf)
{
    if (buf->capacity <= KEEP_BUFFER_BYTES)
        buf_clear(buf);
    else
        buf_fini(buf);
}

static void
bytes_free(struct exchange *exchange, struct exchange_bytes *bytes)
{
    if (!bytes->on_heap)
        return;
    memory_budget_give(exchange->budget, bytes->capacity);
    free(bytes->data);
    bytes->on_heap = false;
}

void
exchange_put(struct exchange_pool *pool, struct exchange *exchange)
{
    HF_MAGIC_CHECK(exchange, EXCHANGE_MAGIC);
    hf_assert(exchange->state != EXCHANGE_HANDLED && pool->live > 0);
    if (exchange->public.user_free != NULL)
        exchange->public.user_free(exchange->public.user);
    if (exchange->public.reply.shared != NULL)
        http_body_put(exchange->public.reply.shared);
    bytes_free(exchange, &exchange->head);
    bytes_free(exchange, &exchange->body);
    buf_fini(&exchange->forwarded);
    buf_fini(&exchange->answer_overflow);
    keep_or_free(&exchange->public.reply.headers);
    keep_or_free(&exchange->public.reply.body);
    pool->live--;
    if (pool->free_count >= POOL_FREE_MAX) {
        exchange_destroy(exchange);
        return;
    }
    exchange->magic = 0;
    exchange->next = pool->free;
    pool->free = exchange;
    pool->free_count++;
}

void
exchange_orphan(struct exchange_pool *pool, struct exchange *exchange)
{
    exchange->conn = NULL;
    if (exchange->state == EXCHANGE_ANSWERED)
        exchange_put(pool, exchange);
}

void
exchange_send(struct exchange *exchange)
{
    hf_assert(!exchange->sent); /* exactly once */
    exchange->sent = true;
    outbox_post_answer(exchange->outbox, &exchange->home);
}

/* Makes room for `len` more bytes, on the heap. */
static bool
bytes_grow(struct exchange *exchange, struct exchange_bytes *bytes, size_t len)
{
    size_t capacity = bytes->capacity * 2;
    if (capacity < bytes->len + len)
        capacity = bytes->len + len;
    if (capacity < HEAP_BYTES_MIN)
        capacity = HEAP_BYTES_MIN;
    if (!memory_budget_take(exchange->budget, capacity))
        return false;
    char *data = bytes->on_heap ? realloc(bytes->data, capacity) : malloc(capacity);
    if (data == NULL) {
        memory_budget_give(exchange->budget, capacity);
        return false;
    }
    if (bytes->on_heap)
        memory_budget_give(exchange->budget, bytes->capacity);
    else if (bytes->len > 0)
        memcpy(data, bytes->data, bytes->len);
    bytes->data = data;
    bytes->capacity = capacity;
    bytes->on_heap = true;
    return true;
}

static bool
bytes_append(struct exchange *exchange, struct exchange_bytes *bytes, const char *more, size_t len)
{
    if (len > bytes->capacity - bytes->len && !bytes_grow(exchange, bytes, len))
        return false;
    memcpy(bytes->data + bytes->len, more, len);
    bytes->len += len;
    return true;
}

bool
exchange_head_append(struct exchange *exchange, const char *bytes, size_t len)
{
    hf_assert(exchange->body.len == 0);
    return bytes_append(exchange, &exchange->head, bytes, len);
}

bool
exchange_body_append(struct exchange *exchange, const char *bytes, size_t len)
{
    if (exchange->body.data == NULL) { /* the body begins in what the head left of the arena */
        size_t taken = exchange->head.on_heap ? 0 : exchange->head.len;
        exchange->body.data = exchange->arena + taken;
        exchange->body.capacity = EXCHANGE_ARENA_BYTES - taken;
    }
    return bytes_append(exchange, &exchange->body, bytes, len);
}

struct http_body *
http_body_alloc(size_t room)
{
    struct http_body *body = malloc(sizeof(*body) + room);
    if (body == NULL)
        return NULL;
    atomic_init(&body->refs, 1);
    body->len = 0;
    return body;
}

struct http_body *
http_body_new(const void *bytes, size_t len)
{
    struct http_body *body = http_body_alloc(len);
    if (body == NULL)
        return NULL;
    body->len = len;
    if (len > 0)
        memcpy(body->bytes, bytes, len);
    return body;
}

struct http_body *
http_body_get(struct http_body *body)
{
    int before = atomic_fetch_add_explicit(&body->refs, 1, memory_order_relaxed);
    hf_assert(before > 0);
    return body;
}

void
http_body_put(struct http_body *body)
{
    int before = atomic_fetch_sub_explicit(&body->refs, 1, memory_order_acq_rel);
    hf_assert(before > 0);
    if (before == 1)
        free(body);
}

void
http_reply_header(struct http_reply *reply, const char *name, struct slice value)
{
    struct buf *headers = &reply->headers;
    buf_append_text(headers, name);
    buf_append(headers, ": ", 2);
    size_t at = headers->len;
    buf_append_slice(headers, value);
    if (headers->failed)
        return;
    for (; at < headers->len; at++) { /* no value may begin a line of its own */
        if (headers->data[at] == '\r' || headers->data[at] == '\n' || headers->data[at] == '\0')
            headers->data[at] = ' ';
    }
    buf_append(headers, "\r\n", 2);
}
