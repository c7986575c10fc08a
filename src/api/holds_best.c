/*
 * holds_best.c - POST /api/events/{event}/holds/best: the best free seats, whichever they are.
 */
#include "api_internal.h"
#include "hold_submit.h"

#define SEAT_TEXT_MAX 128
#define PRICE_MAX     INT64_C(1000000000000) /* as seats can have */

/* In the order of best_fields, for what differs from zero if it isn't said. */
enum { QUANTITY, ADJACENT, ACCESSIBLE, PRICE_MIN, PRICE_MAX_ };

static const struct field_spec best_fields[] = {
    [QUANTITY] = { "quantity", FIELD_COUNT, AT(quantity), 1, 0, true, false },
    [ADJACENT] = { "adjacent", FIELD_BOOL, AT(adjacent), 0, 0, false, false },
    [ACCESSIBLE] = { "accessible", FIELD_BOOL, AT(accessible), 0, 0, false, false },
    [PRICE_MIN] = { "price_min", FIELD_INT, AT(price_min), 0, PRICE_MAX, false, false },
    [PRICE_MAX_] = { "price_max", FIELD_INT, AT(price_max), 0, PRICE_MAX, false, false },
    { "section", FIELD_WORD, AT(section), 1, SEAT_TEXT_MAX, false, false },
    { "type", FIELD_WORD, AT(type), 1, SEAT_TEXT_MAX, false, false },
    CART_FIELDS(true),
};
static const struct body_spec best_body = { false, best_fields, COUNT(best_fields) };

static bool
is_said(const struct hold_request *request, int field)
{
    return request->given & (1u << field);
}

/* NULL: no memory. */
static struct op_best *
wish_of(struct api_call *call, const struct hold_request *request)
{
    struct op_best *best = arena_alloc(&call->arena, sizeof(*best));

    if (best == NULL)
        return NULL;
    /* More than any hold may have is too many, however many more. */
    best->quantity = (int)(request->quantity < SEATS_IN_REQUEST_MAX ? request->quantity
                                                                    : SEATS_IN_REQUEST_MAX + 1);
    best->section = request->section;
    best->type = request->type;
    best->adjacent = is_said(request, ADJACENT) ? request->adjacent : true;
    best->accessible = request->accessible;
    best->price_min = is_said(request, PRICE_MIN) ? request->price_min : INT64_MIN;
    best->price_max = is_said(request, PRICE_MAX_) ? request->price_max : INT64_MAX;
    return best;
}

void
holds_best_post(struct api *api, struct api_call *call)
{
    struct hold_request request;

    (void)api;
    if (!hold_request_read(call, &best_body, &request))
        return;
    struct op_best *best = wish_of(call, &request);
    if (best == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    if (best->price_min > best->price_max) {
        respond_field_error(call, "price_min", "is more than price_max");
        return;
    }
    request.event = call->event;
    hold_submit(call, &request, best);
}
