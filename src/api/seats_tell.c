/*
 * seats_tell.c - what a transaction of the desk changed, told to memory, streams and peers.
 */
#include "events_internal.h"

#include "holdfast/hot_table.h"
#include "holdfast/ids.h"

#define CHANGES_AT_ONCE 256

const struct seat_columns seat_change_columns = { .seat = 0,
                                                  .version = 1,
                                                  .status = 2,
                                                  .hold = 3,
                                                  .user = 4,
                                                  .until = 5,
                                                  .in_payment = 6,
                                                  .now = 7,
                                                  .ended = -1 };

bool
seat_view_read(const struct pg_result *rows, int row, const struct seat_columns *columns,
               struct seat_view *view)
{
    struct slice user = pg_get_text(rows, row, columns->user);

    *view = (struct seat_view){
        .in_payment = pg_get_bool(rows, row, columns->in_payment),
        .hold_id = pg_get_uuid(rows, row, columns->hold),
        .user_hash = user.len > 0 ? hash_seeded(user.ptr, user.len) : 0,
        .held_until = pg_get_time(rows, row, columns->until),
        .version = pg_get_int(rows, row, columns->version),
    };
    return seat_status_parse(pg_get_text(rows, row, columns->status), &view->status);
}

static struct feed_change
change_of_row(const struct tell *tell, const struct pg_result *rows, int row,
              const struct seat_columns *columns, const struct seat_view *view)
{
    return (struct feed_change){
        .kind = FEED_SEAT,
        .reason = view->status == SEAT_AVAILABLE ? tell->reason : FEED_REASON_NONE,
        .status = view->status,
        .in_payment = view->in_payment,
        .org = tell->org,
        .event = tell->event,
        .item = pg_get_text(rows, row, columns->seat),
        .version = view->version,
        .hold_id = view->hold_id,
        .user = pg_get_text(rows, row, columns->user),
        .held_until = view->held_until,
        .at = pg_get_time(rows, row, columns->now),
    };
}

/* A hold that was over was ended first: a change of its own. */
static int
put_row(const struct tell *tell, const struct pg_result *rows, int row,
        const struct seat_columns *columns, const struct seat_view *view,
        struct feed_change changes[2])
{
    struct feed_change last = change_of_row(tell, rows, row, columns, view);
    int count = 0;

    if (columns->ended >= 0 && !pg_is_null(rows, row, columns->ended))
        changes[count++] = (struct feed_change){ .kind = FEED_SEAT,
                                                 .reason = FEED_TTL_EXPIRED,
                                                 .status = SEAT_AVAILABLE,
                                                 .org = last.org,
                                                 .event = last.event,
                                                 .item = last.item,
                                                 .version = last.version - 1,
                                                 .at = last.at };
    changes[count++] = last;
    return count;
}

void
seats_tell(const struct tell *tell, const struct pg_result *rows,
           const struct seat_columns *columns,
           bool (*wanted)(const struct pg_result *rows, int row))
{
    struct feed_change changes[CHANGES_AT_ONCE];
    struct seat_view view;
    int count = 0;

    for (int row = 0; row < pg_rows(rows); row++) {
        if (pg_is_null(rows, row, columns->seat) || (wanted != NULL && !wanted(rows, row)) ||
            !seat_view_read(rows, row, columns, &view))
            continue;
        count += put_row(tell, rows, row, columns, &view, &changes[count]);
        if (count > CHANGES_AT_ONCE - 2) {
            engine_tell(tell->node, changes, count, tell->began);
            count = 0;
        }
    }
    engine_tell(tell->node, changes, count, tell->began);
}

void
event_tell(const struct tell *tell, enum feed_kind kind, int64_t version)
{
    struct feed_change change = {
        .kind = kind, .org = tell->org, .event = tell->event, .version = version
    };

    engine_tell(tell->node, &change, 1, tell->began);
}
