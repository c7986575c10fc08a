/*
 * solo_assign.c - a free seat for the first on an event's waitlist whom it fits (OP_ASSIGN).
 *
 * One entry is served in one transaction, under a lock of the event's waitlist that is only tried:
 * two nodes never serve the same list at once, and nobody waits for anybody. Who is next, and which
 * seat, is chosen from what stands committed; then the same statements as of any hold judge it,
 * under the user's lock and the seat's. So whoever comes to the seat first has it, from the list or
 * not; who lost it has his place still, and gets the next one that fits.
 *
 * By the event's waitlist_mode the seat is the user's at once (held and sold in this transaction),
 * or offered: a hold like any other, by its source known as the waitlist's. The policy's limits
 * hold; the rule of the single seat doesn't: a seat that came back is given to who waits, wherever
 * it stands. An entry that can't be served because of its user is passed over for a while, so that
 * it blocks nobody.
 */
#include "solo_internal.h"

#include "holdfast/metrics.h"

#define WAITLIST_LOCK_SALT                                                                         \
    0x77616974 /* keeps these lock keys apart from other uses of the hash                          \
                */
#define PASSED_OVER_US      (10 * (int64_t)TIME_US_PER_S)
#define PASSED_OVER_MOST_US (300 * (int64_t)TIME_US_PER_S)

/* --- before the transaction -------------------------------------------------------- */

enum hf_status
solo_look_assign(struct solo *solo)
{
    struct op *op = solo->op;
    struct worker *worker = solo->batch.worker;
    struct mono_time deadline = ops_store_deadline(worker->engine, &solo->op, 1);

    /* What is known will do, unless the statement has said that it is another by now. */
    bool known =
        op->info.version == 0 && events_find(worker->node->events, op->org, op->event, &op->info);
    if (!known && policies_read(worker, &op->org, &op->event, 1, deadline) != PG_DONE)
        return HF_STORE_UNAVAILABLE;
    (void)events_find(worker->node->events, op->org, op->event, &op->info);
    return op->info.version == 0 ? HF_NOT_FOUND : HF_OK;
}

/* --- who is next ------------------------------------------------------------------------ */

static int64_t
waitlist_lock_key(const struct op *op)
{
    uint64_t hash = hash_stable(op->org.ptr, op->org.len, WAITLIST_LOCK_SALT);

    return (int64_t)hash_stable(op->event.ptr, op->event.len, hash);
}

/* Two statements: the second one's snapshot must be younger than the lock. */
static void
send_pick(struct solo *solo)
{
    const struct op *op = solo->op;
    struct worker *worker = solo->batch.worker;
    struct pg_array *lock = worker_array(worker, 0, PG_INT8);
    struct pg_array *seats = worker_array(worker, 1, PG_TEXT);
    struct pg_params params;

    pg_array_int(lock, waitlist_lock_key(op));
    pg_params_init(&params);
    pg_param_array(&params, lock);
    pg_tx_send(worker->pg, STATEMENT_CLAIM_KEYS, &params);
    for (int i = 0; i < op->free_count; i++)
        pg_array_text(seats, op->free[i]);
    pg_params_init(&params);
    pg_param_text(&params, op->org);
    pg_param_text(&params, op->event);
    pg_param_array(&params, seats);
    pg_tx_send(worker->pg, STATEMENT_PICK_WAITING, &params);
    pg_tx_flush(worker->pg);
}

/* Columns of claim_keys and of pick_waiting. */
enum { CLAIM_POS, CLAIM_GOT };
enum { PICK_ENTRY, PICK_GOT, PICK_USER, PICK_EMAIL, PICK_SEAT, PICK_CONFIRMS, PICK_OFFER_TTL };

static enum hf_status
judge_pick(const struct pg_result *claim, const struct pg_result *pick)
{
    if (!pg_get_bool(claim, 0, CLAIM_GOT))
        return HF_SEAT_CONTENDED;
    if (pg_rows(pick) == 0)
        return HF_NOT_FOUND;
    return pg_get_bool(pick, 0, PICK_GOT) ? HF_OK : HF_SEAT_CONTENDED;
}

/* From here on the op is a hold of that seat for that user. False: no memory. */
static bool
become_hold(struct solo *solo, const struct pg_result *pick)
{
    struct op *op = solo->op;
    struct arena *arena = &op->arena;
    char *cart = arena_alloc(arena, UUID_TEXT_BYTES);

    solo->entry = pg_get_uuid(pick, 0, PICK_ENTRY);
    solo->confirms = pg_get_bool(pick, 0, PICK_CONFIRMS);
    op->seats = arena_alloc(arena, sizeof(*op->seats));
    op->user = arena_copy(arena, pg_get_text(pick, 0, PICK_USER));
    op->customer_email = arena_copy(arena, pg_get_text(pick, 0, PICK_EMAIL));
    if (cart == NULL || op->seats == NULL || op->user.ptr == NULL || op->customer_email.ptr == NULL)
        return false;
    op->seats[0] = (struct op_seat){ .id = arena_copy(arena, pg_get_text(pick, 0, PICK_SEAT)),
                                     .expect_version = -1 };
    op->seat_count = 1;
    uuid_format(&solo->entry, cart);
    op->cart_token = slice_of(cart);
    op->source = SLICE_LITERAL("waitlist");
    op->seconds = solo->confirms ? 0 : (int32_t)pg_get_int(pick, 0, PICK_OFFER_TTL);
    op->hold_id = solo->result_hold = uuid_v7_new(); /* units are counted beside it */
    op->user_hash = hash_seeded(op->user.ptr, op->user.len);
    return op->seats[0].id.ptr != NULL;
}

/* The op's status: HF_OK, or why nobody is served. */
static bool
pick(struct solo *solo)
{
    struct pg_result *claim = NULL, *rows = NULL;

    send_pick(solo);
    bool ok = batch_next(&solo->batch, &claim) && batch_next(&solo->batch, &rows);
    if (ok)
        solo->op->status = judge_pick(claim, rows);
    if (ok && solo->op->status == HF_OK)
        ok = become_hold(solo, rows);
    pg_result_free(&claim);
    pg_result_free(&rows);
    return ok;
}

/* --- the seat ----------------------------------------------------------------------------- */

/* Somebody was faster than the choice: another seat, or another entry, is chosen. HF_OK: it was
 * that very user. */
static bool
is_lost(enum hf_status status)
{
    return status == HF_OK || status == HF_SEAT_TAKEN || status == HF_SEAT_SOLD ||
           status == HF_SEAT_BLOCKED || status == HF_SEAT_NOT_FOUND;
}

/* What the refusal of the hold means for the list. */
static void
judge_take(struct solo *solo)
{
    struct op *op = solo->op;

    op->grow = op->same = false;
    op->grow_hold = (struct uuid){ { 0 } };
    if (op->fate != FATE_ANSWER || op->status == HF_CREATED)
        return;
    if (op->status == HF_EVENT_CLOSED || op->status == HF_EVENT_NOT_FOUND) {
        op->status = HF_NOT_FOUND;
    } else if (is_lost(op->status)) {
        op->fate = FATE_AGAIN;
    } else if (status_http(op->status) < 500 && op->status != HF_SEAT_CONTENDED) {
        solo->passes_over = true;
        op->fate = FATE_AGAIN;
    }
}

static bool
take(struct solo *solo)
{
    struct uuid holds[SOLO_HOLDS_MAX];
    int count = solo_lock_user_holds(solo, holds);

    if (count < 0 || !solo_take_all(solo))
        return false;
    if (!solo->op->info.policy.one_hold_per_user)
        count = 0; /* they keep what they have */
    solo->holds = holds;
    solo->hold_count = count;
    solo_send_area_locks(solo, solo->op->user);
    solo->batch.due++;
    solo->hold_count = 0;
    if (!solo_replace(solo, holds, count))
        return false;
    judge_take(solo);
    return true;
}

/* The seat's lock is held, and the hold was just made: only its event's end is in the way. */
static void
judge_sale(struct solo *solo)
{
    struct op piece = { .kind = OP_CONFIRM };

    op_judge_word(&piece, pg_get_text(solo->sale, 0, CH_CODE));
    if (piece.status != HF_OK)
        solo->op->status = piece.status == HF_EVENT_CLOSED ? HF_NOT_FOUND : HF_SEAT_CONTENDED;
}

static void
send_entry(struct solo *solo)
{
    const struct op *op = solo->op;
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, op->org);
    pg_param_uuid(&params, &solo->entry);
    pg_param_uuid(&params, &op->hold_id);
    pg_param_text(&params, op->seats[0].id);
    if (solo->confirms)
        pg_param_null(&params);
    else
        pg_param_time(&params, op->ends_at);
    pg_tx_send(solo->batch.worker->pg, STATEMENT_ASSIGN_WAITING, &params);
}

/* The seat is theirs: sold, and what they had bought before is given back where they may have one.
 */
static bool
confirm(struct solo *solo)
{
    struct op *op = solo->op;

    send_solo_change(&solo->batch, op, "confirm", &op->hold_id, 1, NULL);
    send_entry(solo);
    pg_tx_flush(solo->batch.worker->pg);
    if (!batch_next(&solo->batch, &solo->sale) || !batch_next(&solo->batch, &solo->served))
        return false;
    judge_sale(solo);
    return op->status != HF_CREATED || !op->info.policy.one_seat_per_user ||
           solo_give_back(solo, op->user, &op->hold_id, 1);
}

static bool
offer(struct solo *solo)
{
    send_entry(solo);
    pg_tx_flush(solo->batch.worker->pg);
    return batch_next(&solo->batch, &solo->served) && solo_view_result(solo, &solo->op->hold_id);
}

static bool
serve(struct solo *solo)
{
    struct op *op = solo->op;

    if (!take(solo))
        return false;
    if (op->fate != FATE_ANSWER || op->status != HF_CREATED)
        return true;
    return solo->confirms ? confirm(solo) : offer(solo);
}

bool
solo_run_assign(struct solo *solo)
{
    solo->op->fate = FATE_ANSWER;
    solo->passes_over = false;
    return pick(solo) && (solo->op->status != HF_OK || serve(solo));
}

/* --- afterwards ------------------------------------------------------------------------------ */

/* It isn't the op's fault: it goes on to the next entry, and behind a few of them lets others have
 * the worker. Where this fails the entry is tried again, and fails the same way. */
void
solo_pass_over(struct solo *solo)
{
    struct op *op = solo->op;
    struct worker *worker = solo->batch.worker;
    struct pg_params params;
    struct pg_result *rows = NULL;

    metric_add(METRIC_WAITLIST_ASSIGNMENTS_FAILED, 1);
    pg_params_init(&params);
    pg_param_text(&params, op->org);
    pg_param_uuid(&params, &solo->entry);
    pg_param_int8(&params, PASSED_OVER_US);
    pg_param_int8(&params, PASSED_OVER_MOST_US);
    if (pg_run(worker->pg, STATEMENT_PASS_OVER, &params,
               ops_store_deadline(worker->engine, &solo->op, 1), &rows) != PG_DONE) {
        op->fate = FATE_LATER;
    } else if (op->prepared == PREPARED_MAX) {
        op->prepared = op->locked_tries = 0;
        op->fate = FATE_LATER;
    }
    pg_result_free(&rows);
}

/* Held and sold within one transaction: memory and Redis hear of the sale alone. */
static void
settle_sale(struct solo *solo, struct waiter_list *waiters)
{
    struct batch sale = solo->batch;

    sale.rows = (struct batch_rows){ .changes = solo->sale };
    redis_settle(&sale);
    settle_change_rows(&sale, waiters);
}

void
solo_settle_assign(struct solo *solo, struct waiter_list *waiters)
{
    if (solo->sale != NULL)
        settle_sale(solo, waiters);
    metric_add(METRIC_WAITLIST_ASSIGNMENTS_SUCCESS, 1);
    metric_observe(METRIC_WAITLIST_WAIT_SECONDS, (uint64_t)pg_get_int(solo->served, 0, 0));
}
