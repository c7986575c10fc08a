/*
 * checkout_json.c - a checkout as answers show it.
 *
 * Like a hold's, these depend on nothing but what Postgres had, so that a repetition says the same.
 */
#include "checkout_json.h"

#include "hold_json.h"

#define CANCELLED_MESSAGE                                                                          \
    "Your order has been cancelled. Seats are now available for other customers."

static void
write_head(struct json_writer *w, const char *status, const struct checkout_view *checkout)
{
    json_field_text(w, "status", slice_of(status));
    json_field_uuid(w, "checkout_id", &checkout->checkout_id);
}

/* Hold i of the checkout; NULL: it was transferred away, and is another user's to see. */
static const struct hold_view *
hold_shown(const struct checkout_view *checkout, int i)
{
    const struct hold_view *hold = checkout->holds[i];

    return slice_equal(hold->user, checkout->user) ? hold : NULL;
}

static void
write_tickets(struct json_writer *w, const struct checkout_view *checkout)
{
    json_name(w, "tickets");
    json_array_begin(w);
    for (int i = 0; i < checkout->hold_count; i++) {
        if (hold_shown(checkout, i) != NULL)
            hold_json_tickets(w, checkout->holds[i]);
    }
    json_array_end(w);
}

void
checkout_json_completed(struct json_writer *w, const void *view)
{
    const struct checkout_view *checkout = view;

    json_object_begin(w);
    write_head(w, checkout_status_word(CHECKOUT_COMPLETED), checkout);
    write_tickets(w, checkout);
    json_object_end(w);
}

void
checkout_json_pending(struct json_writer *w, const void *view)
{
    const struct checkout_view *checkout = view;

    json_object_begin(w);
    write_head(w, "payment_pending", checkout);
    json_field_uuid(w, "payment_intent_id", &checkout->intent_id);
    json_object_end(w);
}

/* --- the whole ---------------------------------------------------------------------- */

static void
write_holds(struct json_writer *w, const struct checkout_view *checkout)
{
    json_name(w, "holds");
    json_array_begin(w);
    for (int i = 0; i < checkout->hold_count; i++) {
        if (hold_shown(checkout, i) != NULL)
            hold_json_write(w, checkout->holds[i]);
    }
    json_array_end(w);
}

void
checkout_json_whole(struct json_writer *w, const void *view)
{
    const struct checkout_view *checkout = view;
    char text[DB_TIME_TEXT_BYTES];

    db_time_format(checkout->expires_at, text);
    json_object_begin(w);
    write_head(w, checkout_status_word(checkout->status), checkout);
    json_field_text(w, "event_id", checkout->event);
    write_holds(w, checkout);
    json_field_text(w, "expires_at", slice_of(text));
    json_field_int(w, "amount", checkout->amount);
    json_field_text(w, "currency", slice_of(checkout->currency));
    if (checkout->has_intent) {
        json_field_uuid(w, "payment_intent_id", &checkout->intent_id);
        json_field_text(w, "payment_status", slice_of(intent_status_word(checkout->intent_status)));
    }
    if (checkout->status == CHECKOUT_COMPLETED)
        write_tickets(w, checkout);
    json_object_end(w);
}

/* --- cancelled ---------------------------------------------------------------------- */

/* What ran out before was not released by this. */
static bool
was_released(const struct hold_view *hold)
{
    return hold != NULL && hold->status == HOLD_CANCELLED;
}

/* How many seats. */
static int64_t
write_released_seats(struct json_writer *w, const struct hold_view *hold)
{
    int64_t count = 0;

    for (int i = 0; was_released(hold) && i < hold->line_count; i++) {
        const struct hold_line *line = &hold->lines[i];
        if (line->seat.len == 0)
            continue;
        json_object_begin(w);
        json_field_text(w, "seat_id", line->seat);
        json_field_text(w, "block", line->section);
        json_field_text(w, "row", line->row);
        json_field_text(w, "number", line->number);
        json_object_end(w);
        count++;
    }
    return count;
}

/* How many places. */
static int64_t
write_released_areas(struct json_writer *w, const struct hold_view *hold)
{
    int64_t count = 0;

    for (int i = 0; was_released(hold) && i < hold->line_count; i++) {
        const struct hold_line *line = &hold->lines[i];
        if (line->seat.len > 0)
            continue;
        json_object_begin(w);
        json_field_text(w, "area_id", line->area);
        json_field_int(w, "quantity", line->quantity);
        json_object_end(w);
        count += line->quantity;
    }
    return count;
}

void
checkout_json_cancelled(struct json_writer *w, const void *view)
{
    const struct checkout_view *checkout = view;
    int64_t count = 0;

    json_object_begin(w);
    write_head(w, checkout_status_word(CHECKOUT_CANCELLED), checkout);
    json_name(w, "released_seats");
    json_array_begin(w);
    for (int i = 0; i < checkout->hold_count; i++)
        count += write_released_seats(w, hold_shown(checkout, i));
    json_array_end(w);
    json_name(w, "released_areas");
    json_array_begin(w);
    for (int i = 0; i < checkout->hold_count; i++)
        count += write_released_areas(w, hold_shown(checkout, i));
    json_array_end(w);
    json_field_int(w, "released_count", count);
    json_field_text(w, "message", SLICE_LITERAL(CANCELLED_MESSAGE));
    json_object_end(w);
}
