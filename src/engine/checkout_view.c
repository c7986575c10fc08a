/*
 * checkout_view.c - a checkout as it is shown: from the rows of read_checkout.
 */
#include "engine_internal.h"

#include <string.h>

static const char *const checkout_words[] = { [CHECKOUT_OPEN] = "open",
                                              [CHECKOUT_PAYING] = "paying",
                                              [CHECKOUT_COMPLETED] = "completed",
                                              [CHECKOUT_CANCELLED] = "cancelled",
                                              [CHECKOUT_FAILED] = "failed" };

static const char *const intent_words[] = { [INTENT_PROCESSING] = "processing",
                                            [INTENT_PENDING] = "pending",
                                            [INTENT_SUCCEEDED] = "succeeded",
                                            [INTENT_FAILED] = "failed",
                                            [INTENT_EXPIRED] = "expired",
                                            [INTENT_REFUND_REQUIRED] = "refund_required",
                                            [INTENT_VOID] = "void" };

const char *
checkout_status_word(enum checkout_status status)
{
    hf_assert(status >= CHECKOUT_OPEN && status <= CHECKOUT_FAILED);
    return checkout_words[status];
}

bool
checkout_status_parse(struct slice word, enum checkout_status *status)
{
    for (int i = CHECKOUT_OPEN; i <= CHECKOUT_FAILED; i++) {
        if (slice_is(word, checkout_words[i])) {
            *status = (enum checkout_status)i;
            return true;
        }
    }
    return false;
}

const char *
intent_status_word(enum intent_status status)
{
    hf_assert(status >= INTENT_PROCESSING && status <= INTENT_VOID);
    return intent_words[status];
}

bool
intent_status_parse(struct slice word, enum intent_status *status)
{
    for (int i = INTENT_PROCESSING; i <= INTENT_VOID; i++) {
        if (slice_is(word, intent_words[i])) {
            *status = (enum intent_status)i;
            return true;
        }
    }
    return false;
}

/* --- from rows ---------------------------------------------------------------------- */

static bool
view_head(struct arena *arena, const struct pg_result *rows, struct checkout_view *view)
{
    struct slice currency = pg_get_text(rows, 0, RC_CURRENCY);

    *view = (struct checkout_view){ .checkout_id = pg_get_uuid(rows, 0, RC_CHECKOUT),
                                    .event = arena_copy(arena, pg_get_text(rows, 0, RC_EVENT)),
                                    .user = arena_copy(arena, pg_get_text(rows, 0, RC_USER)),
                                    .amount = pg_get_int(rows, 0, RC_AMOUNT),
                                    .of_flight = pg_get_bool(rows, 0, RC_FLIGHT),
                                    .has_intent = !pg_is_null(rows, 0, RC_INTENT),
                                    .intent_id = pg_get_uuid(rows, 0, RC_INTENT) };
    memcpy(view->currency, currency.ptr, currency.len < 3 ? currency.len : 3);
    return view->event.ptr != NULL && view->user.ptr != NULL &&
           checkout_status_parse(pg_get_text(rows, 0, RC_STATUS), &view->status) &&
           (!view->has_intent ||
            intent_status_parse(pg_get_text(rows, 0, RC_INTENT_STATUS), &view->intent_status));
}

static int
count_holds(const struct pg_result *rows)
{
    int count = 0;
    for (int row = 0; row < pg_rows(rows); row++)
        count += row == 0 || pg_get_int(rows, row, RH_POS) != pg_get_int(rows, row - 1, RH_POS);
    return count;
}

static bool
view_holds(struct arena *arena, const struct pg_result *rows, struct checkout_view *view)
{
    int first = 0;
    for (int end = 1; end <= pg_rows(rows); end++) {
        if (end < pg_rows(rows) && pg_get_int(rows, end, RH_POS) == pg_get_int(rows, first, RH_POS))
            continue;
        struct hold_view *hold = hold_view_from_rows(arena, rows, first, end);
        if (hold == NULL)
            return false;
        view->holds[view->hold_count++] = hold;
        first = end;
    }
    return true;
}

static int64_t
price_of(const struct hold_view *hold)
{
    int64_t sum = 0;
    for (int i = 0; i < hold->line_count; i++)
        sum += hold->lines[i].price * hold->lines[i].quantity;
    return sum;
}

/*
 * The end of the first of its holds to end. While it may be paid, the amount is that of the holds
 * as they are now: what a payment would be for (add_payment).
 */
static void
sum_holds(struct checkout_view *view)
{
    int64_t amount = 0;
    bool payable = view->status == CHECKOUT_OPEN;
    view->expires_at = view->holds[0]->held_until;
    for (int i = 0; i < view->hold_count; i++) {
        const struct hold_view *hold = view->holds[i];
        if (hold->held_until.us < view->expires_at.us)
            view->expires_at = hold->held_until;
        payable = payable && hold->status == HOLD_ACTIVE && slice_equal(hold->user, view->user);
        amount += price_of(hold);
    }
    if (payable)
        view->amount = amount;
}

struct checkout_view *
checkout_view_from_rows(struct arena *arena, const struct pg_result *rows)
{
    struct checkout_view *view = arena_alloc(arena, sizeof(*view));

    if (view == NULL || pg_rows(rows) == 0 || !view_head(arena, rows, view))
        return NULL;
    view->holds = arena_alloc(arena, (size_t)count_holds(rows) * sizeof(struct hold_view *));
    if (view->holds == NULL || !view_holds(arena, rows, view))
        return NULL;
    sum_holds(view);
    return view;
}
