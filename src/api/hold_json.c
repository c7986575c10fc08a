/*
 * hold_json.c - a hold as every answer shows it.
 *
 * Nothing in here looks at a clock: what is left of the hold is told by the reading
 * that came with it, so that an answer that is kept for a key says the same again.
 */
#include "hold_json.h"

#include "holdfast/clock.h"

static void
write_seats(struct json_writer *w, const struct hold_view *hold)
{
    json_name(w, "seats");
    json_array_begin(w);
    for (int i = 0; i < hold->line_count; i++) {
        const struct hold_line *line = &hold->lines[i];
        if (line->seat.len == 0)
            continue;
        json_object_begin(w);
        json_field_text(w, "seat_id", line->seat);
        json_field_text(w, "section", line->section);
        json_field_text(w, "row", line->row);
        json_field_text(w, "number", line->number);
        json_field_int(w, "version", line->version);
        json_object_end(w);
    }
    json_array_end(w);
}

static void
write_areas(struct json_writer *w, const struct hold_view *hold)
{
    json_name(w, "areas");
    json_array_begin(w);
    for (int i = 0; i < hold->line_count; i++) {
        const struct hold_line *line = &hold->lines[i];
        if (line->seat.len > 0)
            continue;
        json_object_begin(w);
        json_field_text(w, "area_id", line->area);
        json_field_int(w, "quantity", line->quantity);
        json_object_end(w);
    }
    json_array_end(w);
}

/* False: something has no price (or the sum is beyond all sense), so there is no amount. */
static bool
amount_of(const struct hold_view *hold, int64_t *amount)
{
    int64_t sum = 0, part;

    for (int i = 0; i < hold->line_count; i++) {
        const struct hold_line *line = &hold->lines[i];
        if (!line->has_price || __builtin_mul_overflow(line->price, line->quantity, &part) ||
            __builtin_add_overflow(sum, part, &sum))
            return false;
    }
    *amount = sum;
    return hold->line_count > 0;
}

static void
write_amount(struct json_writer *w, const struct hold_view *hold)
{
    int64_t amount;

    if (!amount_of(hold, &amount))
        return;
    json_field_int(w, "amount", amount);
    json_field_text(w, "currency", slice_of(hold->currency));
}

static int64_t
seconds_left(const struct hold_view *hold)
{
    int64_t left_us = hold->held_until.us - hold->now.us;

    return hold->status == HOLD_ACTIVE && left_us > 0 ? left_us / TIME_US_PER_S : 0;
}

void
hold_json_tickets(struct json_writer *w, const struct hold_view *hold)
{
    for (int i = 0; i < hold->line_count; i++) {
        const struct hold_line *line = &hold->lines[i];
        for (int t = 0; t < line->ticket_count; t++) {
            json_object_begin(w);
            json_field_uuid(w, "ticket_id", &line->tickets[t]);
            if (line->seat.len > 0)
                json_field_text(w, "seat_id", line->seat);
            else
                json_field_text(w, "area_id", line->area);
            json_object_end(w);
        }
    }
}

void
hold_json_write(struct json_writer *w, const struct hold_view *hold)
{
    json_object_begin(w);
    json_field_uuid(w, "hold_id", &hold->hold_id);
    json_field_text(w, "event_id", hold->event);
    json_field_text(w, "user_id", hold->user);
    json_field_text(w, "cart_token", hold->cart_token);
    json_field_text(w, "status", slice_of(hold_status_word(hold->status)));
    json_field_text(w, "source", hold->source);
    write_seats(w, hold);
    write_areas(w, hold);
    write_amount(w, hold);
    json_field_time(w, "expires_at", hold->held_until);
    json_field_int(w, "expires_in_seconds", seconds_left(hold));
    json_field_time(w, "created_at", hold->created_at);
    if (hold->reason.len > 0)
        json_field_text(w, "reason", hold->reason);
    if (hold->status == HOLD_CONVERTED) {
        json_name(w, "tickets");
        json_array_begin(w);
        hold_json_tickets(w, hold);
        json_array_end(w);
    }
    json_object_end(w);
}
