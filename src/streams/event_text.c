/*
 * event_text.c - what readers are told, as Server-Sent Events.
 *
 * Ids of seats and positions have no character that JSON or an event's line would escape.
 */
#include "streams_internal.h"

static void
write_id(struct buf *out, const struct feed_position *id)
{
    char text[FEED_POSITION_TEXT_BYTES];

    if (id == NULL)
        return;
    size_t len = feed_position_write(id, text);
    buf_append_text(out, "id: ");
    buf_append(out, text, len);
    buf_append_char(out, '\n');
}

static const char *
event_of(const struct seat_map_news *news)
{
    if (news->added)
        return "event: seat_added\n";
    switch (news->status) {
    case SEAT_AVAILABLE: /* what frees a seat has a reason, but it isn't read with the map */
        return news->freed || news->reason != FEED_REASON_NONE ? "event: seat_released\n"
                                                               : "event: seat_changed\n";
    case SEAT_HELD:
        return "event: seat_held\n";
    case SEAT_SOLD:
        return "event: seat_sold\n";
    case SEAT_BLOCKED:
        return "event: seat_blocked\n";
    case SEAT_REMOVED:
        return "event: seat_removed\n";
    }
    return "";
}

void
event_write_seat(struct buf *out, const struct seat_map_news *news)
{
    const char *reason = feed_reason_word(news->reason);
    char time[DB_TIME_TEXT_BYTES];

    buf_append_text(out, event_of(news));
    write_id(out, news->after);
    buf_append_text(out, "data: {\"seat_id\":\"");
    buf_append_slice(out, news->seat);
    buf_append_text(out, "\",\"status\":\"");
    buf_append_text(out, seat_status_word(news->status));
    buf_append_text(out, "\",\"version\":");
    buf_append_int(out, news->version);
    if (reason != NULL) {
        buf_append_text(out, ",\"reason\":\"");
        buf_append_text(out, reason);
        buf_append_char(out, '"');
    }
    db_time_format(news->at, time);
    buf_append_text(out, ",\"timestamp\":\"");
    buf_append_text(out, time);
    buf_append_text(out, "\"}\n\n");
}

void
event_write_counts(struct buf *out, const struct seat_map_counts *counts,
                   const struct feed_position *id, struct db_time now)
{
    buf_append_text(out, "event: occupancy_changed\n");
    write_id(out, id);
    buf_append_text(out, "data: ");
    seat_map_counts_write(out, counts, now);
    buf_append_text(out, "\n\n");
}

void
event_write_reset(struct buf *out, const struct feed_position *id)
{
    buf_append_text(out, "event: reset\n");
    write_id(out, id);
    buf_append_text(out, "data: {}\n\n");
}

/* Without data a browser dispatches nothing, but takes the id in. */
void
event_write_alive(struct buf *out, const struct feed_position *id)
{
    buf_append_text(out, ": alive\n");
    write_id(out, id);
    buf_append_char(out, '\n');
}
