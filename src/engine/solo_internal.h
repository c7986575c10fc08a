/*
 * solo_internal.h - what the files of solo ops share.
 *
 *   solo.c         the transaction around the pieces, and what follows it
 *   solo_pieces.c  steps that all of them take: read, lock, take, judge
 *   solo_hold.c    new holds: of seats and areas, or replacing the user's other hold
 *   solo_change.c  holds that exist: a patch, or a hold request that grows one
 *   solo_checkout.c  checkouts: begun and cancelled, and what payments share with them
 *   solo_payment.c   payments: begun and settled
 *   solo_baggage.c   the same of a bag's surcharge: settled
 *   solo_late.c      a payment that succeeded when its holds were over
 *   solo_return.c    what was sold is given back, alone or beside another sale to the same user
 *   solo_assign.c    a seat for the first on a waitlist whom it fits
 */
#ifndef HOLDFAST_SOLO_INTERNAL_H
#define HOLDFAST_SOLO_INTERNAL_H

#include "engine_internal.h"

#define SOLO_HOLDS_MAX     64  /* active holds of one user that a new one may replace */
#define CHECKOUT_HOLDS_MAX 256 /* of one checkout */

struct late_hold;

struct solo {
    struct batch batch;
    struct op *op;
    struct hold_view *before; /* the hold that is changed, as it is under its lock */
    bool paying;              /* a payment for it is in flight */
    struct uuid result_hold;  /* whose view is the answer */
    int *adds;                /* seats to take, by index into op->seats */
    int add_count;
    int *new_areas; /* areas that the hold gets */
    int new_area_count;
    bool resized;
    struct pg_result *sizes; /* resize_areas */
    struct pg_result *units; /* count_units */
    int64_t planned;         /* units that the hold shall have */
    bool seats_follow;       /* the seats are sent when the areas are known */

    /* of a checkout */
    struct uuid *holds; /* each once */
    int hold_count;
    struct checkout_view *seen;      /* as it is under its lock (before: as it was found) */
    struct pg_result *checkout_rows; /* read_checkout */
    bool writes;                     /* there is something to commit */
    struct late_hold *late;          /* its holds, taken anew */
    int late_count;
    struct uuid *taken_anew; /* the ids of those, in the order of seen->holds */
    int own_tried;           /* how many of op->own this run has taken something out of */

    /* of a waitlist */
    struct uuid entry;        /* who is served */
    bool confirms;            /* the seat is theirs at once, not offered */
    bool passes_over;         /* they can't be served, because of who they are */
    struct pg_result *sale;   /* change_holds, of the seat that is theirs at once */
    struct pg_result *served; /* assign_waiting */

    /* of what is given back */
    struct slice holder;        /* OP_RETURN: whose seat it was when it was looked at */
    struct pg_result *returned; /* return_seats */
};

/* --- solo.c ------------------------------------------------------------------- */

/* The op's hold as it is now, within the transaction; over by now: the op hears so. */
HF_MUST_CHECK bool solo_view_result(struct solo *solo, const struct uuid *hold);

/* --- solo_pieces.c ------------------------------------------------------------ */

bool solo_is_good(enum hf_status status);
/* Takes a piece's refusal into the whole, if it comes first in the order of refusals. */
void solo_merge(struct op *op, enum hf_status status);
bool view_has_seat(const struct hold_view *hold, struct slice seat);
const struct hold_line *view_area(const struct hold_view *hold, struct slice area);
/* Reads a hold into solo->before, before the transaction; NULL if there is none. */
HF_MUST_CHECK enum pg_outcome solo_read_before(struct solo *solo, const struct uuid *hold);
/* The same within the transaction, under the locks. False, here and below: the transaction failed.
 */
HF_MUST_CHECK bool solo_read_locked(struct solo *solo, const struct uuid *hold);
HF_MUST_CHECK bool solo_skip(struct solo *solo, int results);
/* Sends the locks of a user (may be empty), of a hold (may be NULL), and of areas; their results
 * are due. */
void solo_send_locks(struct solo *solo, struct slice user, const struct uuid *hold);
/* Before anything is released or taken: may the seats of solo->adds be user's, who gives these
 * holds up, if none is to be left alone? */
HF_MUST_CHECK bool solo_decide_gap(struct solo *solo, struct slice user,
                                   const struct uuid *replaced, int replaced_count);
void solo_send_count(struct solo *solo, struct slice user);
/* After solo_send_count's result: what the user would have with solo->planned, against the policy.
 */
void solo_judge_limits(struct solo *solo);
/* Plans to take every seat and area of the request. False: no memory. */
HF_MUST_CHECK bool solo_take_all(struct solo *solo);
void solo_send_takes(struct solo *solo, const struct hold_growth *growth);
HF_MUST_CHECK bool solo_read_takes(struct solo *solo);
/* granted: the status if all were taken. */
void solo_judge_takes(struct solo *solo, enum hf_status granted);
/* Verdicts of change_holds: what can't be done to one hold now stops the whole. */
void solo_judge_changes(struct solo *solo);

/* --- solo_hold.c, solo_change.c: run the pieces; the op has the verdict --------- */

HF_MUST_CHECK bool solo_run_mixed(struct solo *solo);
HF_MUST_CHECK bool solo_run_replace(struct solo *solo);
HF_MUST_CHECK bool solo_run_change(struct solo *solo);
/* Locks the user, and the active holds that they have at the event. Returns how many; -1: the
 * transaction failed. */
HF_MUST_CHECK int solo_lock_user_holds(struct solo *solo, struct uuid holds[SOLO_HOLDS_MAX]);
/* Behind all locks: the user gives `holds` up and gets what is planned, within the limits. */
HF_MUST_CHECK bool solo_replace(struct solo *solo, const struct uuid *holds, int count);
/* What a patch (or growth) is about, before any lock. HF_OK: go on; else what the op hears. */
HF_MUST_CHECK enum hf_status solo_look_first(struct solo *solo);

/* --- solo_checkout.c ------------------------------------------------------------ */

HF_MUST_CHECK bool solo_run_checkout_start(struct solo *solo);
HF_MUST_CHECK bool solo_run_checkout_cancel(struct solo *solo);
/*
 * Sends the locks of user (may be empty), of solo->holds, and of their areas and solo->seen's; with
 * a user those of what he has bought, too, so that it can be given back. Returns how many results
 * are due, -1: no memory. The second is the part about areas, one result.
 */
int solo_send_hold_locks(struct solo *solo, struct slice user);
void solo_send_area_locks(struct solo *solo, struct slice user);
/* As solo_look_first: which holds a new checkout is of. */
HF_MUST_CHECK enum hf_status solo_look_start(struct solo *solo);
/* The same of a checkout that exists: op->checkout_id. */
HF_MUST_CHECK enum hf_status solo_look_checkout(struct solo *solo);
/* Locks all that is decided about a checkout, then reads it anew: solo->seen, NULL if there is
 * none. user: whose lock is taken, too; may be empty. */
HF_MUST_CHECK bool solo_lock_checkout(struct solo *solo, struct slice user);
/* May the op's user do something to the checkout? False: refused. */
HF_MUST_CHECK bool solo_owns_checkout(struct solo *solo);
void solo_send_read_checkout(struct solo *solo);
/* Reads the answer of the one before into op->checkout. */
HF_MUST_CHECK bool solo_show_checkout(struct solo *solo);

/* Where a checkout, and its payment if intent isn't NULL, goes. */
struct settlement {
    const char *word;            /* what happens to its holds; NULL: nothing */
    const char *intent, *status; /* new statuses; NULL: as it is */
    const char *reason;          /* why it ended; NULL: it didn't, or well */
    const char *action, *kind;   /* audit action, domain event; NULL: none */
};
/* holds: what it consists of from now on; NULL: as before. */
void solo_send_settle(struct solo *solo, const struct settlement *settlement,
                      const struct uuid *intent, const struct uuid *holds, int hold_count);

/* --- solo_payment.c ------------------------------------------------------------- */

HF_MUST_CHECK bool solo_run_pay(struct solo *solo);
HF_MUST_CHECK bool solo_run_settle(struct solo *solo);
/* As solo_look_first: which checkout (or check-in) the payment is for. */
HF_MUST_CHECK enum hf_status solo_look_payment(struct solo *solo);
/* Under the locks: its status, and whether the delivery that the op is about is a new one. */
HF_MUST_CHECK bool solo_read_payment(struct solo *solo, enum intent_status *intent, bool *is_new);

/* --- solo_baggage.c ------------------------------------------------------------- */

HF_MUST_CHECK bool solo_run_baggage(struct solo *solo);

/* --- solo_late.c ------------------------------------------------------------------ */

/* Takes the seats and areas of the checkout's holds anew and sells them: solo->taken_anew are the
 * new ones. The op has the verdict. */
HF_MUST_CHECK bool solo_run_late(struct solo *solo);
/* What it committed, for Redis, memory and feed. */
void solo_settle_late(struct solo *solo, struct waiter_list *waiters);
void solo_free_late(struct solo *solo);

/* --- solo_assign.c ---------------------------------------------------------------- */

HF_MUST_CHECK bool solo_run_assign(struct solo *solo);
/* As solo_look_first: the event and its policy. */
HF_MUST_CHECK enum hf_status solo_look_assign(struct solo *solo);
/* After a transaction that could not serve an entry because of its user (passes_over): others come
 * first from now on, for a while. */
void solo_pass_over(struct solo *solo);
/* The sale that it committed, for Redis, memory and feed; behind what gave the seat its hold. */
void solo_settle_assign(struct solo *solo, struct waiter_list *waiters);

/* --- solo_return.c ---------------------------------------------------------------- */

/*
 * Behind a sale to user: where the policy is one seat per user, all that he had bought before, by
 * other holds than `keep`, is free again with the same commit. His lock is held, and those of
 * solo_send_area_locks. FATE_LATER if one of the seats is locked. False: the transaction failed.
 */
HF_MUST_CHECK bool solo_give_back(struct solo *solo, struct slice user, const struct uuid *keep,
                                  int keep_count);
/* A confirm of an event with that policy. */
HF_MUST_CHECK enum hf_status solo_look_confirm(struct solo *solo);
HF_MUST_CHECK bool solo_run_confirm(struct solo *solo);
HF_MUST_CHECK enum hf_status solo_look_return(struct solo *solo);
HF_MUST_CHECK bool solo_run_return(struct solo *solo);
/* What was given back, for Redis, memory and feed. */
void solo_settle_returned(struct solo *solo, struct waiter_list *waiters);

#endif
