/*
 * idempotency.c - a repeated POST gets the answer that the first one got.
 *
 * A refusal before the engine is kept too (only the engine can tell whether the
 * same key came with another body before), so it travels as an OP_ANSWER: the
 * reply is ready, the engine only claims the key, stores or replays, and sends.
 * What is kept is the status, the type and the body as it is before compression.
 */
#include "idempotency.h"

#include <openssl/evp.h>
#include <stddef.h>

#define KEY_BYTES_MAX 255
#define KEY_METHOD    SLICE_LITERAL("POST") /* no other method takes a key */

static bool
key_is_valid(struct slice key)
{
    if (key.len < 1 || key.len > KEY_BYTES_MAX)
        return false;
    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] < ' ' || key.ptr[i] > '~')
            return false;
    }
    return true;
}

/* The header is a structured string (in quotes) by its draft; many clients send it bare. */
static struct slice
without_quotes(struct slice key)
{
    if (key.len >= 2 && key.ptr[0] == '"' && key.ptr[key.len - 1] == '"')
        return (struct slice){ key.ptr + 1, key.len - 2 };
    return key;
}

bool
idempotency_read(struct api_call *call)
{
    const struct http_request *request = &call->exchange->request;

    if (request->method != HTTP_METHOD_POST || request->idempotency_key.len == 0)
        return true;
    struct slice key = without_quotes(request->idempotency_key);
    if (!key_is_valid(key)) {
        respond_field_error(call, "Idempotency-Key", "is not 1-255 printable ASCII characters");
        return false;
    }
    call->key = key;
    call->key_state = KEY_OPEN;
    return true;
}

/* The length before each part: no two different requests join to the same bytes. */
static bool
digest_add(EVP_MD_CTX *sha, struct slice part)
{
    uint64_t len = part.len;
    return EVP_DigestUpdate(sha, &len, sizeof(len)) == 1 &&
           EVP_DigestUpdate(sha, part.ptr, part.len) == 1;
}

bool
call_key_digest(struct api_call *call)
{
    const struct http_request *request = &call->exchange->request;

    if (call->key_digested)
        return true;
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    if (sha == NULL)
        return false;
    call->key_digested = EVP_DigestInit_ex(sha, EVP_sha256(), NULL) == 1 &&
                         digest_add(sha, KEY_METHOD) && digest_add(sha, request->path) &&
                         digest_add(sha, request->body) &&
                         EVP_DigestFinal_ex(sha, call->key_digest, NULL) == 1;
    EVP_MD_CTX_free(sha);
    return call->key_digested;
}

bool
idempotency_hand_over(struct api_call *call, struct op *op)
{
    if (call->key_state != KEY_OPEN)
        return true;
    call->key_state = KEY_SETTLED;
    if (!call_key_digest(call))
        return false;
    op->keyed = true;
    op->key = call->key;
    op->key_method = KEY_METHOD;
    op->key_path = call->exchange->request.path;
    memcpy(op->key_digest, call->key_digest, sizeof(op->key_digest));
    return true;
}

bool
idempotency_is_kept(enum hf_status status)
{
    int http = status_http(status);
    return http < 500 && http != 401 && http != 429 && status != HF_REQUEST_IN_PROGRESS &&
           status != HF_IDEMPOTENCY_KEY_REUSED && status != HF_SEAT_CONTENDED;
}

/* --- for ops ---------------------------------------------------------------- */

void
idempotency_answer(struct op *op, int *status, struct slice *type, struct slice *body)
{
    const struct api_call *call = op->context;
    const struct http_reply *reply = &call->exchange->reply;

    *status = reply->status;
    *type = slice_of(reply->content_type != NULL ? reply->content_type : "");
    *body = buf_slice(&reply->body);
}

/* The types that are ever kept, as the literals that a reply needs. */
static const char *
known_type(struct slice type)
{
    static const char *const types[] = { TYPE_JSON, TYPE_PROBLEM };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (slice_is(type, types[i]))
            return types[i];
    }
    return NULL;
}

void
idempotency_replay(struct op *op, int status, struct slice type, struct slice body)
{
    idempotency_fill(op->context, status, type, body);
}

void
idempotency_fill(struct api_call *call, int status, struct slice type, struct slice body)
{
    struct http_reply *reply = &call->exchange->reply;

    reply_clear(reply);
    reply->status = status;
    reply->content_type = known_type(type);
    buf_append_slice(&reply->body, body);
    call->answered = status < 300 ? HF_OK : HF_BAD_REQUEST;
    if (reply->body.failed) {
        reply_problem(call->exchange, HF_OVERLOADED, NULL);
        call->answered = HF_OVERLOADED;
    }
}

/* --- an answer that is ready -------------------------------------------------- */

/* The op and the reply that it shall keep: the exchange's own may be written anew meanwhile. */
struct ready_answer {
    struct op op;
    enum hf_status status;
    struct http_reply reply;
};

static struct ready_answer *
ready_answer_of(struct op *op)
{
    return (struct ready_answer *)((char *)op - offsetof(struct ready_answer, op));
}

/* As the op says: the ready reply, or that it can't be kept (then that is the answer). */
static void
answer_finish(struct op *op)
{
    struct api_call *call = op->context;
    const struct ready_answer *ready = ready_answer_of(op);
    struct http_reply *reply = &call->exchange->reply;

    call->answered = op->status;
    if (op->status != ready->status) {
        reply_problem(
            call->exchange, op->status,
            &(struct problem){ .detail = op->detail, .retry_after_s = op->retry_after_s });
        return;
    }
    reply_clear(reply);
    reply->status = ready->reply.status;
    reply->content_type = ready->reply.content_type;
    buf_append_slice(&reply->headers, buf_slice(&ready->reply.headers));
    buf_append_slice(&reply->body, buf_slice(&ready->reply.body));
    if (reply->headers.failed || reply->body.failed) {
        call->answered = HF_OVERLOADED;
        reply_problem(call->exchange, HF_OVERLOADED, NULL);
    }
}

static void
answer_send(struct op *op)
{
    struct api_call *call = op->context;
    struct ready_answer *ready = ready_answer_of(op);

    buf_fini(&ready->reply.headers);
    buf_fini(&ready->reply.body);
    arena_fini(&op->arena);
    respond_send(call);
}

static void
fill_op(struct api_call *call, struct op *op)
{
    op->kind = OP_ANSWER;
    op->org = call_org(call);
    op->user = op->actor = call_user(call);
    op->privileged = call_is_privileged(call);
    op->request_id = slice_of(call->exchange->request.request_id);
    op->status = call->answered;
    op->received = call->exchange->request.received;
    op->deadline = call->deadline;
    op->context = call;
    op->finish = answer_finish;
    op->send = answer_send;
    op->answer = idempotency_answer;
    op->replay = idempotency_replay;
}

void
idempotency_keep(struct api_call *call)
{
    struct ready_answer *ready = arena_alloc(&call->arena, sizeof(*ready));
    if (ready == NULL || !idempotency_hand_over(call, &ready->op)) {
        call->key_state = KEY_SETTLED;
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    fill_op(call, &ready->op);
    ready->status = call->answered;
    ready->reply = call->exchange->reply;
    call->exchange->reply.headers = call->exchange->reply.body = (struct buf){ 0 };
    engine_submit(call->api->node->engine, &ready->op);
}
