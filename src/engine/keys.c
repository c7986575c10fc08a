/*
 * keys.c - Idempotency-Keys: one request works under a key, its answer is kept in its own
 * transaction, and whoever comes later with the same key and body hears the same.
 *
 * The key is claimed with a lock that is never waited for inside a batch; who doesn't get
 * it goes back to the queue. The stored answers are read after the locks, in a statement
 * of their own, so that an answer committed just before is seen.
 */
#include "engine_internal.h"

#include <stdio.h>
#include <string.h>

#define KEY_LOCK_SALT     0x6b657973 /* keeps keys' locks apart from other uses of the hash */
#define KEY_PAUSE_US      (20 * TIME_US_PER_MS)
#define KEY_WAIT_US       (2 * TIME_US_PER_S) /* then: request_in_progress */
#define DIGEST_TEXT_BYTES 65

int64_t
engine_key_lock(struct slice org, struct slice user, struct slice method, struct slice path,
                struct slice key)
{
    const struct slice parts[] = { org, user, method, path, key };
    uint64_t hash = KEY_LOCK_SALT;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        hash = hash_stable(parts[i].ptr, parts[i].len, hash);
    return (int64_t)hash;
}

int64_t
key_lock_key(const struct op *op)
{
    return engine_key_lock(op->org, op->actor, op->key_method, op->key_path, op->key);
}

static void
digest_text(const struct op *op, char text[DIGEST_TEXT_BYTES])
{
    for (size_t i = 0; i < sizeof(op->key_digest); i++)
        snprintf(text + 2 * i, 3, "%02x", op->key_digest[i]);
}

/* org, user, method, path, key into arrays 0..4 */
static void
add_identity(struct pg_array **c, const struct op *op)
{
    pg_array_text(c[0], op->org);
    pg_array_text(c[1], op->actor);
    pg_array_text(c[2], op->key_method);
    pg_array_text(c[3], op->key_path);
    pg_array_text(c[4], op->key);
}

static void
send_claim(struct batch *batch)
{
    struct pg_array *locks = worker_array(batch->worker, 0, PG_INT8);
    struct pg_params params;
    for (int i = 0; i < batch->count; i++)
        pg_array_int(locks, key_lock_key(batch->ops[i]));
    pg_params_init(&params);
    pg_param_array(&params, locks);
    pg_tx_send(batch->worker->pg, STATEMENT_CLAIM_KEYS, &params);
}

static void
send_read(struct batch *batch)
{
    struct pg_array *columns[5];
    struct pg_params params;
    for (int i = 0; i < 5; i++)
        columns[i] = worker_array(batch->worker, i, PG_TEXT);
    for (int i = 0; i < batch->count; i++)
        add_identity(columns, batch->ops[i]);
    pg_params_init(&params);
    for (int i = 0; i < 5; i++)
        pg_param_array(&params, columns[i]);
    pg_param_int4(&params,
                  (int32_t)(batch->worker->node->config->idempotency_keep / TIME_US_PER_S));
    pg_tx_send(batch->worker->pg, STATEMENT_READ_KEYS, &params);
}

/* Somebody else works under this key: wait for it a while. */
static void
wait_for_first(struct batch *batch, struct op *op)
{
    struct mono_time now = mono_now();
    struct mono_time again = { now.us + KEY_PAUSE_US };
    struct engine *engine = batch->worker->engine;
    if (now.us - op->received.us > KEY_WAIT_US || !op_has_time(engine, op, again)) {
        engine_refuse(engine, op, HF_REQUEST_IN_PROGRESS);
        return;
    }
    op->not_before = again;
    op_queue_put_back(engine->queue, op);
}

static void
answer_stored(struct batch *batch, struct op *op, const struct pg_result *stored, int row)
{
    struct engine *engine = batch->worker->engine;
    struct waiter_list waiters;
    char digest[DIGEST_TEXT_BYTES];

    digest_text(op, digest);
    if (!slice_is(pg_get_text(stored, row, 1), digest)) {
        engine_refuse(engine, op, HF_IDEMPOTENCY_KEY_REUSED);
        return;
    }
    waiter_list_init(&waiters);
    claims_drop(engine, op, &waiters);
    op->replay(op, (int)pg_get_int(stored, row, 2), pg_get_text(stored, row, 3),
               pg_get_text(stored, row, 4));
    op->finished = true;
    op->kind = OP_ANSWER; /* nothing happened: it is not counted */
    engine_answer(engine, op);
    dispatch(engine, &waiters);
}

/* The row of read_keys for the op at place `i`, or -1. */
static int
stored_row(const struct pg_result *stored, int i)
{
    for (int row = 0; row < pg_rows(stored); row++)
        if (pg_get_int(stored, row, 0) == i + 1)
            return row;
    return -1;
}

bool
keys_claim(struct batch *batch)
{
    struct pg_result *got = NULL, *stored = NULL;
    int left = 0;

    send_claim(batch);
    send_read(batch);
    pg_tx_flush(batch->worker->pg);
    bool ok = batch_next(batch, &got) && batch_next(batch, &stored);
    if (ok && pg_rows(got) != batch->count)
        ok = false;
    for (int i = 0; ok && i < batch->count; i++) {
        struct op *op = batch->ops[i];
        int row = stored_row(stored, i);
        op->finished = false;
        if (row >= 0)
            answer_stored(batch, op, stored, row);
        else if (!pg_get_bool(got, i, 1))
            wait_for_first(batch, op);
        else
            batch->ops[left++] = op;
    }
    if (ok)
        batch->count = left;
    pg_result_free(&got);
    pg_result_free(&stored);
    return ok;
}

/* A payment is begun under the key, and what it came to is kept under it; until then whoever asks
 * hears that it is under way. */
bool
key_is_claimed(const struct op *op)
{
    return op->keyed && op->kind != OP_PAY_SETTLE;
}

bool
key_keeps_answer(const struct op *op)
{
    return op->keyed && op->kind != OP_PAY;
}

/* 202: the payment is not decided yet; who asks again under the key hears what it came to. */
static bool
is_kept(const struct op *op, int status)
{
    return status < 500 && status != 202 && status != 429 && op->status != HF_REQUEST_IN_PROGRESS &&
           op->status != HF_SEAT_CONTENDED;
}

bool
keys_store(struct batch *batch)
{
    struct pg_array *columns[9];
    struct pg_params params;
    struct pg_result *done = NULL;
    int kept = 0;

    for (int i = 0; i < batch->count; i++)
        batch->ops[i]->finished = false;
    if (!void_late_grants_within(batch))
        return false;
    for (int i = 0; i < 9; i++)
        columns[i] = worker_array(batch->worker, i, i == 6 ? PG_INT4 : PG_TEXT);
    for (int i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i];
        struct slice type, body;
        char digest[DIGEST_TEXT_BYTES];
        int status;
        if (op->fate != FATE_ANSWER)
            continue;
        engine_finish(op);
        op->answer(op, &status, &type, &body);
        if (!is_kept(op, status))
            continue;
        digest_text(op, digest);
        add_identity(columns, op);
        pg_array_text(columns[5], slice_of(digest));
        pg_array_int(columns[6], status);
        pg_array_text(columns[7], type);
        pg_array_text(columns[8], body);
        kept++;
    }
    if (kept == 0)
        return true;
    pg_params_init(&params);
    for (int i = 0; i < 9; i++)
        pg_param_array(&params, columns[i]);
    pg_tx_send(batch->worker->pg, STATEMENT_STORE_KEYS, &params);
    pg_tx_flush(batch->worker->pg);
    bool ok = batch_next(batch, &done);
    pg_result_free(&done);
    return ok;
}
