/*
 * engine_internal.h - what the files of the engine share.
 *
 *   engine.c      start, stop, answer
 *   dispatch.c    hot check and claims: refused, parked, or on to the queue
 *   release_count.c  releases for /metrics
 *   pace.c        how long an op would wait, and whether it is let in
 *   worker.c      the loop of one worker: gather, prepare, run, keep its connection
 *   watch.c       ops that no worker comes to in time
 *   doubts.c      lost outcomes of the desk's transactions
 *   prepare.c     deadlines and policies, before a transaction begins
 *   batch.c       one transaction for many ops, and what its outcome means
 *   op_hold.c     hold_seats: parameters and verdicts
 *   gap.c         the rule of the single seat, over the seating rows that seats are taken of
 *   best.c        which seats a hold of the best ones takes
 *   op_area.c     hold_areas: the same for quantities
 *   op_change.c   change_holds: extend, confirm, transfer, release, expire
 *   solo*.c       ops that need a transaction of their own (patch, mixed, replace, grow, checkouts,
 *                 payments, what gives back what was sold, seats for who waits)
 *   keys.c        Idempotency-Keys
 *   settle.c      what a committed change tells memory and Redis
 *   tell.c        the same for the feed: maps, streams and peers
 *   hold_view.c   holds as they are shown
 *   checkout_view.c  checkouts as they are shown
 */
#ifndef HOLDFAST_ENGINE_INTERNAL_H
#define HOLDFAST_ENGINE_INTERNAL_H

#include <stdatomic.h>

#include "holdfast/engine.h"
#include "holdfast/op_queue.h"
#include "holdfast/thread.h"

#define ENGINE_ARRAYS 24   /* the most array parameters of one statement */
#define BATCH_MOST    1024 /* the most that batch_max can be */
#define LOCKED_TRIES  3    /* of a hold that met another node's row lock */
#define PREPARED_MAX  8    /* times that an op is prepared anew before we give up */
#define REPEATS_MAX   3    /* of a transaction after a deadlock or lock timeout */

/*
 * Shares of request_timeout. An op with less than the first left is not put into a transaction
 * any more; a transaction ends by the second before the first of its ops' deadlines, so that there
 * is time to learn an outcome that was lost.
 */
#define OP_TIME_LEAST_SHARE 5
#define SETTLE_TIME_SHARE   10
_Static_assert(SETTLE_TIME_SHARE > OP_TIME_LEAST_SHARE, "a transaction has some time");

/* What one op takes a worker, in the mean (pace.c). */
struct pace {
    _Atomic int64_t op_ns;       /* 0: not known */
    _Atomic int64_t measured_us; /* when */
};

#define DESKS_MAX 64 /* threads of the desk, as config.def has it */

/* Since when a transaction may have committed and nobody was told; 0: there is none. */
struct transacting {
    _Atomic int64_t since_us;
    bool hangs; /* for too long: the watch's */
};

struct engine {
    struct node *node;
    struct op_queue *queue;
    int worker_count;
    struct worker *workers;
    struct thread watch;
    struct asker *asker;
    struct pace pace;
    _Atomic int64_t outstanding;
    _Atomic unsigned replan;    /* counts up when plans should be made anew */
    _Atomic int64_t workers_up; /* workers whose connection works */
    _Atomic int64_t moved_us;   /* when a worker last took ops, or Postgres answered it */
    _Atomic int64_t trouble_us; /* when the store was last seen away */
    _Atomic bool silent;        /* engine_store_is_silent */
    _Atomic bool stopping;      /* the watch ends */

    struct transacting desk[DESKS_MAX]; /* each is one thread's while it commits */
};

struct worker {
    struct engine *engine;
    struct node *node;
    struct thread thread;
    unsigned replan_seen;
    unsigned batches;   /* since its plans were made */
    int64_t reading_us; /* that reading maps took since ops were gathered */
    bool up;            /* its connection works; counted in workers_up */
    bool in_doubt;      /* `doubt`'s outcome is not known, though its ops were told so */
    struct uuid doubt;  /* a batch id */
    struct transacting transacting; /* until what it ran is told to memory and feed */
    uint64_t random;                /* state of the jitter */
    struct pg *pg;
    struct warm *warm;
    int batch_max;
    struct op **ops; /* room for one batch */
    struct pg_array arrays[ENGINE_ARRAYS];

    /* what the Redis steps are about; grows and stays */
    struct warm_hold *warm_holds;
    int warm_capacity;

    /* what the feed will be told of the transaction; grows and stays */
    struct feed_change *changes;
    int change_count, change_capacity;
    bool change_lost; /* no memory for one */
};

struct gaps; /* gap.c */

/* The results of one transaction's statements; those not sent are NULL. */
struct batch_rows {
    struct pg_result *reclaimed, *areas, *seats, *changes, *views, *shown;
    struct gaps *gaps; /* NULL: no policy has the rule */
};

struct batch {
    struct worker *worker;
    struct op **ops;
    int count;
    struct uuid id;
    struct mono_time began, deadline;
    int due;     /* results to come that say nothing: of locks */
    bool torn;   /* ops have left since the rows were read: these fit no more */
    bool fallen; /* rolled back: verdicts of the rule of the single seat rested on seats that were
                    not taken */
    bool stuck;  /* it failed, or has to: others have a seating row, and keep it */
    struct batch_rows rows;
};

/* --- waiters: ops that claims gave back ------------------------------------ */

struct waiter_list {
    struct hot_waiter *first, **end;
};
void waiter_list_init(struct waiter_list *list);
/* Appends a whole chain. */
void waiter_list_add(struct waiter_list *list, struct hot_waiter *chain);

/* --- dispatch.c -------------------------------------------------------------- */

/* Sends ops on their way: memory's answer, a parking place, or the queue. */
void dispatch(struct engine *engine, struct waiter_list *waiters);
/* Ends the op's claims without having learned anything. */
void claims_drop(struct engine *engine, struct op *op, struct waiter_list *waiters);
/* Puts the op's seats in the order of claims. False: no memory. */
HF_MUST_CHECK bool claims_order(struct engine *engine, struct op *op);
/* Claims them without waiting for anybody's claim. False: one is not to be had; others may be. */
HF_MUST_CHECK bool claims_take_at_once(struct engine *engine, struct op *op);
struct seat_key op_seat_key(const struct op *op, const struct op_seat *seat);

/* --- engine.c ------------------------------------------------------------------ */

/* Answers and forgets the op; its claims must have ended. */
void engine_answer(struct engine *engine, struct op *op);
/* Sets a status with nothing to show; for outcomes found before or instead of a transaction. */
void op_fail(struct op *op, enum hf_status status);
void op_detail(struct op *op, const char *format, ...) HF_PRINTF(2, 3);
/* Calls op->finish, unless it was done. */
void engine_finish(struct op *op);
/* Drops the claims and answers. */
void engine_refuse(struct engine *engine, struct op *op, enum hf_status status);

/* --- late_grant.c --------------------------------------------------------------- */

/* Before the answers: grants that are over by now are none. After the transaction, */
void void_late_grants(struct batch *batch);
/* or within it, in the place of that. False: the transaction failed. */
HF_MUST_CHECK bool void_late_grants_within(struct batch *batch);

/* --- release_count.c ------------------------------------------------------------ */

/* Counts the op, once it is settled, if it was to release something. */
void count_release(const struct op *op);

/* --- pace.c -------------------------------------------------------------------- */

/* A worker had `count` ops in its hands for that long, and was through with them. */
void pace_measure(struct engine *engine, int count, struct mono_time began, struct mono_time ended);

static inline int64_t
op_time_least_us(const struct engine *engine)
{
    return engine->node->config->request_timeout / OP_TIME_LEAST_SHARE;
}

/* --- watch.c ------------------------------------------------------------------- */

/* Also begins and ends doubt about transactions that hang: those of workers. */
void *watch_main(void *context);

/* --- doubts.c ------------------------------------------------------------------ */

/* From the loss of a transaction's outcome (node_is_in_doubt) until memory and feed have what
 * became of it, or were told to miss it. */
void doubt_begins(struct node *node);
void doubt_is_over(struct node *node);

/* False: no memory or no thread; asker_stop is needed in any case. */
HF_MUST_CHECK bool asker_start(struct engine *engine);
void asker_stop(struct engine *engine);

/* --- worker.c ------------------------------------------------------------------ */

void *worker_main(void *context);
/* Nobody waits for this transaction's outcome any more, but the worker does nothing else until it
 * is known. */
void worker_doubts(struct worker *worker, const struct uuid *batch_id);
/* Who is late from now on on account of it hears so. */
void store_had_trouble(struct engine *engine);
/* Memory may miss a commit of ours: what it says rests on reads from now on. So it is with
 * peers. */
void memory_doubts(struct node *node);

/* --- prepare.c ----------------------------------------------------------------- */

/* True if a transaction may still be begun for the op. */
bool op_has_time(const struct engine *engine, const struct op *op, struct mono_time now);
/* What it hears if not. */
enum hf_status op_late_status(const struct engine *engine, const struct op *op);
/* The earliest deadline of the ops; ops[] isn't empty. */
struct mono_time ops_deadline(struct op *const *ops, int count);
/* When a transaction, or a read before it, must have its answer. */
struct mono_time ops_store_deadline(const struct engine *engine, struct op *const *ops, int count);

/* Answers those that are late already, so that nobody else's transaction hurries for them. Returns
 * how many are left. */
int refuse_late(struct worker *worker, struct op **ops, int count, struct mono_time now);
/* Leaves in ops[] those that may go into a transaction now; the others are answered or put back.
 * Returns how many. */
int prepare(struct worker *worker, struct op **ops, int count);
/* Reads status and policy of the ops' events that are not known, or no longer right. */
HF_MUST_CHECK enum pg_outcome policies_read(struct worker *worker, const struct slice *orgs,
                                            const struct slice *events, int count,
                                            struct mono_time deadline);
/* The lock keys, as every node computes them. */
int64_t user_lock_key(struct slice org, struct slice user);
int64_t hold_lock_key(const struct uuid *hold);
/* True if holding for this op has to be judged under its user's lock. */
bool op_needs_user_lock(const struct op *op);

/* --- batch.c -------------------------------------------------------------------- */

/* Runs ops in one transaction, splitting where one of them fails; answers or puts back each. */
void batch_run(struct worker *worker, struct op **ops, int count);
/* True if the same transaction may be tried again: after a deadlock or lock timeout, once after
 * 23505 or P0001. */
bool batch_may_repeat(const struct batch *batch, enum pg_outcome outcome, int repeats);
/* Answers those ops of the batch for which a transaction can't be begun any more. False: none is
 * left. */
HF_MUST_CHECK bool batch_has_time(struct batch *batch);
/* A new batch id, BEGIN. */
void batch_begin(struct batch *batch);
/* Reads the next statement's rows into *slot. False: the transaction has failed. */
HF_MUST_CHECK bool batch_next(struct batch *batch, struct pg_result **slot);
/* Reads the results that are due, and say nothing. */
HF_MUST_CHECK bool batch_skip_due(struct batch *batch);
void batch_rows_free(struct batch_rows *rows);
/* After a transaction that is known to have ended well: settle, answer, put back. */
void batch_settle(struct batch *batch);
/* After one that is known to have changed nothing: what each op hears. */
void batch_fail(struct batch *batch, enum hf_status status);
/*
 * Learns a lost outcome (law 7). Ops whose time is up meanwhile hear outcome_unknown and leave the
 * batch. HF_OK: committed; HF_STORE_UNAVAILABLE: it never will; HF_OUTCOME_UNKNOWN: no op is left.
 */
enum hf_status batch_outcome(struct batch *batch);
/* Puts a lost but committed, or never committed, batch's ops back to be run again. */
void batch_run_again(struct batch *batch, bool committed);
/* Puts an op back after a pause that grows with its tries. */
void op_later(struct worker *worker, struct op *op);
void op_again(struct worker *worker, struct op *op);
/* Puts an op back that couldn't get a seating row; from now on it keeps nobody waiting. */
void op_wait_for_row(struct worker *worker, struct op *op);
/* For jitter and choices only. */
uint64_t worker_random(struct worker *worker);
/* Sends lock_keys for distinct keys, users first. */
void send_lock_keys(struct batch *batch, int64_t *users, int user_count, int64_t *holds,
                    int hold_count);
void send_read_holds(struct batch *batch, const struct slice *orgs, const struct uuid *holds,
                     int count);
void send_lock_areas(struct batch *batch);
/* Resets and returns array `i` of the worker for elements of `type`. */
struct pg_array *worker_array(struct worker *worker, int i, enum pg_type type);
/* Reads the database's clock for the node's estimate, outside of transactions. False: no answer. */
HF_MUST_CHECK bool worker_reads_clock(struct worker *worker, struct mono_time deadline);
/* Adds a text, or a null for an empty one. */
void worker_array_text(struct pg_array *array, struct slice text);

/* --- best.c ----------------------------------------------------------------------- */

enum best_step {
    BEST_READY, /* it may go into a transaction */
    BEST_BACK,  /* it must come alone: to be put back */
    BEST_GONE   /* it was answered or put back */
};
/* Chooses and claims seats for an op->best that has none. */
HF_MUST_CHECK enum best_step best_prepare(struct worker *worker, struct op *op, bool is_alone);
/* Without a transaction, but for the answer of its key. Not BEST_BACK. */
HF_MUST_CHECK enum best_step best_refuse(struct worker *worker, struct op *op,
                                         enum hf_status status);
/* After all other verdicts: which ops lost a race for seats. They begin again (best_again) with
 * others. */
void best_judge(struct batch *batch);
/* A transaction begins: what one before it said of the race is void. */
void best_begin(struct op *op);
bool best_is_lost(const struct op *op);
/* True: its seats can't be had for now, and it may choose others; then it is lost. */
HF_MUST_CHECK bool best_leaves(struct op *op);
void best_again(struct worker *worker, struct op *op);
/* Its seats are under way no more. */
void best_give_back(struct engine *engine, struct op *op, bool is_doubtful);

/* --- op_hold.c, op_area.c, op_change.c -------------------------------------------- */

/* What the rows of an existing hold give to lines that are added to it. */
struct hold_growth {
    struct db_time until, born;
    int line_next;
    struct uuid hold;
    struct slice user, cart_token, source;
};
/* The parameters that hold_seats and hold_areas share: one element per seat or area. */
enum {
    HC_ORD,
    HC_ORG,
    HC_EVENT,
    HC_ITEM,
    HC_HOLD,
    HC_USER,
    HC_CART,
    HC_TTL,
    HC_SOURCE,
    HC_VERSION,
    HC_PRIVILEGED,
    HC_EMAIL,
    HC_ACTOR,
    HC_REQUEST,
    HC_LINE,
    HC_UNTIL,
    HC_BORN,
    HOLD_COLUMNS
};
/* The worker's arrays 0 .. HOLD_COLUMNS-1, empty and of the right types. */
void hold_columns_take(struct worker *worker, struct pg_array **columns);
/* item: the seat or area; growth: NULL for a new hold. */
void hold_columns_add(struct pg_array **columns, const struct op *op, int ord, struct slice item,
                      int line, const struct hold_growth *growth);

/*
 * growth: NULL for new holds. only: NULL, or which of a single op's seats (areas) to take, by their
 * indices; kept in op->sent.
 */
void send_hold_seats(struct batch *batch, const struct hold_growth *growth, int *only,
                     int only_count);
void judge_hold_seats(struct batch *batch);
/* One op against its rows of hold_seats. */
void judge_seats_of(struct op *op, const struct pg_result *rows);
/* The op's seat that a row of its is about. */
struct op_seat *op_row_seat(const struct op *op, int row);
void send_hold_areas(struct batch *batch, const struct hold_growth *growth, const int *only,
                     int only_count);
void send_reclaim_areas(struct batch *batch);
void judge_hold_areas(struct batch *batch);
bool op_is_area_hold(const struct op *op);
bool op_is_seat_hold(const struct op *op);
bool op_is_change(const struct op *op);
/* Of a checkout, or of its payment. */
bool op_is_of_checkout(const struct op *op);
/* Whether what it is about may be of this event; else it is not found. */
bool op_may_be_of(const struct op *op, struct slice event);
void send_change_holds(struct batch *batch);
/* Within a solo op: one of change_holds' words for each of `holds`; "remove" is of the op's `drop`
 * seats. */
void send_solo_change(struct batch *batch, const struct op *op, const char *word,
                      const struct uuid *holds, int count, const char *reason);
void judge_changes(struct batch *batch);
/* Sets op->status and the like from the word that a statement gave. */
void op_judge_word(struct op *op, struct slice word);

/* --- gap.c ------------------------------------------------------------------------- */

/* True if it takes seats where the policy leaves no single one alone. */
bool op_has_gap_rule(const struct op *op);
/* NULL: no memory; then nobody's choice is judged, nor taken. */
struct gaps *gaps_new(int choices_max);
void gaps_free(struct gaps **gaps);
/* The seats of the op, or `only` those, are to be user's. gaps may be NULL. */
void gaps_add(struct gaps *gaps, struct op *op, struct slice user, const int *only, int count);
/* The choice that was added last gives these holds up. */
void gaps_replace(struct gaps *gaps, const struct uuid *holds, int count);
/*
 * Locks and reads the seating rows of all choices in batch->rows.gaps, and judges each: op->gap.
 * After the locks of users, holds and areas, before those of seats. False: the transaction failed.
 */
HF_MUST_CHECK bool gaps_decide(struct batch *batch);
/* The two halves of it. Takes the rows of read_rows. */
void gaps_read(struct gaps *gaps, struct pg_result **rows);
void gaps_judge(struct gaps *gaps);
/* True if a verdict rests on seats that another op of the batch was to get. gaps may be NULL. */
bool gaps_are_shared(const struct gaps *gaps);
/* True if all verdicts are the same with only those seats counted that hold_seats did give. */
HF_MUST_CHECK bool gaps_hold(struct gaps *gaps, const struct pg_result *seats);

/* --- solo.c ------------------------------------------------------------------------ */

void solo_run(struct worker *worker, struct op *op);

/* --- keys.c ------------------------------------------------------------------------ */

/*
 * Claims the keys of a batch whose transaction has begun. Ops that have their answer (stored
 * before, reused, still running) leave the batch. False: the transaction failed.
 */
HF_MUST_CHECK bool keys_claim(struct batch *batch);
/* Whether the op works only if nobody did under its key. */
bool key_is_claimed(const struct op *op);
/* Whether what it is answered is kept under its key. */
bool key_keeps_answer(const struct op *op);
/* The lock of an op's key. */
int64_t key_lock_key(const struct op *op);
/* Finishes the ops that will be answered and stores their answers. False: no memory. */
HF_MUST_CHECK bool keys_store(struct batch *batch);

/* --- settle.c ----------------------------------------------------------------------- */

/*
 * Memory learns a seat as a statement returned it; ends a claim when `claimed`. ours: this node
 * wrote the hold, so its wheel expires it; a hold that was only seen is its own node's to expire.
 */
void settle_seat(struct batch *batch, const struct seat_key *key, const struct seat_view *view,
                 bool claimed, bool ours, struct waiter_list *waiters);
/* The rows of hold_seats of one op: granted, or what was found. committed: what was taken
 * stands. waiters NULL: the transaction changed these seats once more, so that memory must not hear
 * of versions that nobody ever could see; only those who watch do. */
void settle_hold_rows(struct batch *batch, struct op *op, bool committed,
                      struct waiter_list *waiters);
/* Arms the timer of a hold that has areas only. */
void settle_area_timer(struct batch *batch, const struct op *op, const struct hold_view *hold);
/* The same for each such hold of a checkout that is open (again). */
void settle_checkout_timers(struct batch *batch, const struct op *op);
/* Everything that change_holds returned. waiters NULL: as above. */
void settle_change_rows(struct batch *batch, struct waiter_list *waiters);
/* What reclaim_areas freed, and what hold_areas took. */
void settle_area_rows(struct batch *batch);
/* One row of hold_areas that took something of `area`. */
void settle_area_row(struct batch *batch, const struct op *op, struct slice area, int row);
void settle_reclaimed_rows(struct batch *batch);
/* What a committed transaction means for Redis: put and remove. Nothing uncommitted is ever written
 * there. */
void redis_settle(struct batch *batch);

/* --- tell.c --------------------------------------------------------------------------- */

/* For the next tell_send; slices are borrowed until then. user: of the seat's hold, as it is
 * now. */
void tell_seat(struct worker *worker, const struct seat_key *key, const struct seat_view *view,
               struct slice user, enum feed_reason reason, struct db_time at);
/* version: of the seat between the two changes. */
void tell_takeover(struct worker *worker, const struct seat_key *key, int64_t version,
                   enum feed_reason reason, struct db_time at);
struct area_counts {
    struct slice org, event, area;
    int64_t held, sold, version;
};
void tell_area(struct worker *worker, const struct area_counts *area, struct db_time at);
/* The transaction is committed: the feed takes in what was gathered. Before its ops are
 * answered. */
void tell_send(struct worker *worker);

/* --- hold_view.c ---------------------------------------------------------------------- */

/* The view of a hold that was just made, from its rows of hold_seats and hold_areas. */
struct hold_view *hold_view_new(struct op *op, const struct pg_result *seats, int seat_first,
                                int seat_end, const struct pg_result *areas, int area_first,
                                int area_end);
/* Points op->hold at the rows whose pos is `pos` in a result of read_holds. False: none, or no
 * memory. */
bool op_show(struct op *op, const struct pg_result *views, int64_t pos);
enum hold_status hold_status_of(struct slice word);
/* The hold among those that the op shows; NULL: none of them. */
const struct hold_view *op_hold_view(const struct op *op, const struct uuid *hold);

/* Columns of the statements' results. */
enum {
    HS_POS,
    HS_ORD,
    HS_CODE,
    HS_TAKEN,
    HS_VERSION,
    HS_STATUS,
    HS_IN_PAYMENT,
    HS_HOLD,
    HS_USER,
    HS_UNTIL,
    HS_SECTION,
    HS_ROW,
    HS_NUMBER,
    HS_PRICE,
    HS_BORN,
    HS_NOW,
    HS_TAKEOVER,
    HS_OVER_WHY
};
enum {
    HA_POS,
    HA_ORD,
    HA_CODE,
    HA_TAKEN,
    HA_HOLD,
    HA_UNTIL,
    HA_PRICE,
    HA_VERSION,
    HA_BORN,
    HA_NOW,
    HA_HELD,
    HA_SOLD
};
enum {
    CH_ORD,
    CH_CODE,
    CH_EVENT,
    CH_UNTIL,
    CH_NOW,
    CH_BORN,
    CH_OWNER,
    CH_EVENT_VERSION,
    CH_SEAT,
    CH_AREA,
    CH_VERSION,
    CH_STATUS,
    CH_HOLD,
    CH_USER,
    CH_SEAT_UNTIL,
    CH_ENDED,
    CH_HELD,
    CH_SOLD,
    CH_IN_PAYMENT,
    CH_FLIGHT,
    CH_WHY
};
enum {
    RH_POS,
    RH_HOLD,
    RH_EVENT,
    RH_USER,
    RH_CART,
    RH_SOURCE,
    RH_CREATED,
    RH_UNTIL,
    RH_NOW,
    RH_CURRENCY,
    RH_LINE,
    RH_SEAT,
    RH_SECTION,
    RH_ROW,
    RH_NUMBER,
    RH_AREA,
    RH_QUANTITY,
    RH_VERSION,
    RH_PRICE,
    RH_STATUS,
    RH_REASON,
    RH_ENDED,
    RH_TICKETS,
    RH_IN_PAYMENT
};
/* Those of read_checkout go on behind read_holds'. */
enum {
    RC_CHECKOUT = RH_IN_PAYMENT + 1,
    RC_EVENT,
    RC_USER,
    RC_STATUS,
    RC_AMOUNT,
    RC_CURRENCY,
    RC_INTENT,
    RC_INTENT_STATUS,
    RC_MINE,
    RC_FLIGHT
};

#endif
