/*
 * idempotency_tx.c - whether a call on the desk was answered before, as engine/keys.c finds out.
 *
 * Both lock the same number for the same key, and both read what was kept after the lock,
 * in a statement of its own, so that an answer committed just before is seen.
 */

#include "idempotency.h"
#include "holdfast/thread.h"

#define KEY_PAUSE_US (20 * TIME_US_PER_MS)
#define KEY_WAIT_US  (2 * TIME_US_PER_S)
#define DIGEST_BYTES 32
#define HEX_BYTES    (2 * DIGEST_BYTES)

/* Columns of read_keys. */
enum { STORED_POS, STORED_DIGEST, STORED_STATUS, STORED_TYPE, STORED_BODY };

struct key_columns {
    struct pg_array items[9];
    int count;
};

static const struct slice key_method = { "POST", 4 };

/* What idempotency_run runs under the key. */
struct keyed_work {
    struct api_call *call;
    tx_body *body;
    void *context;
};

static int64_t
lock_number(const struct api_call *call)
{
    return engine_key_lock(call_org(call), call_user(call), key_method,
                           call->exchange->request.path, call->key);
}

static struct slice
digest_text(const struct api_call *call, char text[HEX_BYTES])
{
    static const char hex[] = "0123456789abcdef";

    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        text[2 * i] = hex[call->key_digest[i] >> 4];
        text[2 * i + 1] = hex[call->key_digest[i] & 15];
    }
    return (struct slice){ text, HEX_BYTES };
}

/* --- one-element arrays ------------------------------------------------------------ */

static void
add_text(struct key_columns *columns, struct slice text)
{
    struct pg_array *array = &columns->items[columns->count++];

    pg_array_init(array, PG_TEXT);
    pg_array_text(array, text);
}

static void
add_identity(struct key_columns *columns, const struct api_call *call)
{
    add_text(columns, call_org(call));
    add_text(columns, call_user(call));
    add_text(columns, key_method);
    add_text(columns, call->exchange->request.path);
    add_text(columns, call->key);
}

static void
add_params(struct pg_params *params, struct key_columns *columns)
{
    for (int i = 0; i < columns->count; i++)
        pg_param_array(params, &columns->items[i]);
}

static void
columns_fini(struct key_columns *columns)
{
    for (int i = 0; i < columns->count; i++)
        pg_array_fini(&columns->items[i]);
}

/* --- claim --------------------------------------------------------------------------- */

static void
send_claim(struct api_call *call, struct pg *pg)
{
    struct pg_params params;
    struct pg_array lock;

    pg_array_init(&lock, PG_INT8);
    pg_array_int(&lock, lock_number(call));
    pg_params_init(&params);
    pg_param_array(&params, &lock);
    pg_tx_send(pg, STATEMENT_CLAIM_KEYS, &params);
    pg_array_fini(&lock);
}

static void
send_read(struct api_call *call, struct pg *pg)
{
    int64_t keep_s = call->api->node->config->idempotency_keep / TIME_US_PER_S;
    struct key_columns columns = { 0 };
    struct pg_params params;

    add_identity(&columns, call);
    pg_params_init(&params);
    add_params(&params, &columns);
    pg_param_int4(&params, (int32_t)keep_s);
    pg_tx_send(pg, STATEMENT_READ_KEYS, &params);
    columns_fini(&columns);
}

/* What was kept becomes the reply, unless it was for another body. */
static enum hf_status
take_stored(struct api_call *call, const struct pg_result *stored)
{
    char text[HEX_BYTES];

    if (!slice_equal(pg_get_text(stored, 0, STORED_DIGEST), digest_text(call, text)))
        return HF_IDEMPOTENCY_KEY_REUSED;
    idempotency_fill(call, (int)pg_get_int(stored, 0, STORED_STATUS),
                     pg_get_text(stored, 0, STORED_TYPE), pg_get_text(stored, 0, STORED_BODY));
    return HF_NOT_MODIFIED;
}

static enum hf_status
claim(struct api_call *call, struct pg *pg)
{
    enum hf_status status = HF_INTERNAL; /* tx_run finds out what failed */

    send_claim(call, pg);
    send_read(call, pg);
    pg_tx_flush(pg);
    struct pg_result *got = pg_tx_next(pg);
    struct pg_result *stored = got != NULL ? pg_tx_next(pg) : NULL;
    if (stored == NULL || pg_rows(got) != 1)
        status = HF_INTERNAL;
    else if (pg_rows(stored) > 0)
        status = take_stored(call, stored);
    else
        status = pg_get_bool(got, 0, 1) ? HF_OK : HF_REQUEST_IN_PROGRESS;
    pg_result_free(&got);
    pg_result_free(&stored);
    return status;
}

/* --- the look -------------------------------------------------------------------------- */

static enum hf_status
claim_body(struct pg *pg, void *context)
{
    return claim(context, pg);
}

enum hf_status
idempotency_look_up(struct api_call *call, struct pg *pg)
{
    int64_t give_up_us = call->exchange->request.received.us + KEY_WAIT_US;
    enum hf_status status;

    if (call->key_state != KEY_OPEN)
        return HF_OK;
    if (!call_key_digest(call))
        return HF_OVERLOADED;
    for (;;) {
        status = tx_run(call->api->node, pg, call->deadline, claim_body, call);
        if (status != HF_REQUEST_IN_PROGRESS || mono_now().us >= give_up_us)
            break;
        sleep_us(KEY_PAUSE_US);
    }
    if (status == HF_NOT_MODIFIED)
        call->key_state = KEY_SETTLED; /* respond doesn't keep it once more */
    return status;
}

bool
idempotency_is_new(struct api_call *call, struct pg *pg)
{
    enum hf_status status = idempotency_look_up(call, pg);

    if (status == HF_NOT_MODIFIED)
        respond_send(call); /* as it was answered before */
    else if (status != HF_OK)
        respond_refusal(call, status, NULL);
    return status == HF_OK;
}

/* --- work under the key ---------------------------------------------------------------- */

static void
add_number(struct key_columns *columns, int number)
{
    struct pg_array *array = &columns->items[columns->count++];

    pg_array_init(array, PG_INT4);
    pg_array_int(array, number);
}

/* HF_INTERNAL: tx_run finds out what failed. */
static enum hf_status
store(struct api_call *call, struct pg *pg)
{
    const struct http_reply *reply = &call->exchange->reply;
    struct key_columns columns = { 0 };
    struct pg_params params;
    char text[HEX_BYTES];

    add_identity(&columns, call);
    add_text(&columns, digest_text(call, text));
    add_number(&columns, reply->status);
    add_text(&columns, slice_of(reply->content_type));
    add_text(&columns, buf_slice(&reply->body));
    pg_params_init(&params);
    add_params(&params, &columns);
    pg_tx_send(pg, STATEMENT_STORE_KEYS, &params);
    columns_fini(&columns);
    struct pg_result *done = pg_tx_next(pg);
    enum hf_status status = done != NULL ? HF_OK : HF_INTERNAL;
    pg_result_free(&done);
    return status;
}

static enum hf_status
keyed_body(struct pg *pg, void *context)
{
    struct keyed_work *work = context;
    bool has_key = work->call->key_state == KEY_OPEN;
    enum hf_status status = has_key ? claim(work->call, pg) : HF_OK;

    if (status == HF_OK)
        status = work->body(pg, work->context);
    /* A 503 for want of memory is no answer for good. */
    if (status == HF_OK && has_key && work->call->exchange->reply.status < 500)
        status = store(work->call, pg);
    return status;
}

enum hf_status
idempotency_run(struct api_call *call, struct pg *pg, tx_body *body, void *context)
{
    struct keyed_work work = { call, body, context };
    int64_t give_up_us = call->exchange->request.received.us + KEY_WAIT_US;
    enum hf_status status;

    if (call->key_state == KEY_OPEN && !call_key_digest(call))
        return HF_OVERLOADED;
    for (;;) {
        status = tx_run(call->api->node, pg, call->deadline, keyed_body, &work);
        if (status != HF_REQUEST_IN_PROGRESS || mono_now().us >= give_up_us)
            break;
        sleep_us(KEY_PAUSE_US);
    }
    if (status != HF_OK && status != HF_NOT_MODIFIED)
        return status;
    call->key_state = KEY_SETTLED;
    respond_send(call);
    return HF_OK;
}
