/*
 * solo_internal.h - what the files of solo ops share.
 *
 *   solo.c         the transaction around the pieces, and what follows it
 *   solo_pieces.c  steps that all of them take: read, lock, take, judge
 *   solo_hold.c    new holds: of seats and areas, or replacing the user's other hold
 *   solo_change.c  holds that exist: a patch, or a hold request that grows one
 */
#ifndef HOLDFAST_SOLO_INTERNAL_H
#define HOLDFAST_SOLO_INTERNAL_H

#include "engine_internal.h"

#define SOLO_HOLDS_MAX 64 /* active holds of one user that a new one may replace */

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
};

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
/* Sends the locks of a user (may be empty), of a hold (may be NULL), and of areas. Returns how many
 * results are due. */
int solo_send_locks(struct solo *solo, struct slice user, const struct uuid *hold);
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
/* Verdicts of change_holds' releases: one that can't be released now stops the whole. */
void solo_judge_releases(struct solo *solo);

/* --- solo_hold.c, solo_change.c: run the pieces; the op has the verdict --------- */

HF_MUST_CHECK bool solo_run_mixed(struct solo *solo);
HF_MUST_CHECK bool solo_run_replace(struct solo *solo);
HF_MUST_CHECK bool solo_run_change(struct solo *solo);
/* What a patch (or growth) is about, before any lock. HF_OK: go on; else what the op hears. */
HF_MUST_CHECK enum hf_status solo_look_first(struct solo *solo);

#endif
