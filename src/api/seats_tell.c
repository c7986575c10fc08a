/*
 * seats_tell.c - what a statement of the desk changed, told to this node's memory.
 */
#include "events_internal.h"

#include "holdfast/hot_table.h"
#include "holdfast/ids.h"

#define NEWS_AT_ONCE 256

const struct seat_columns seat_change_columns = {
    .seat = 0, .version = 1, .status = 2, .hold = 3, .user = 4, .until = 5, .in_payment = 6
};

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

void
seats_tell(struct node *node, struct slice org, struct slice event, const struct pg_result *rows,
           const struct seat_columns *columns,
           bool (*wanted)(const struct pg_result *rows, int row), struct mono_time began)
{
    struct seat_news news[NEWS_AT_ONCE];
    int count = 0;

    for (int row = 0; row < pg_rows(rows); row++) {
        struct seat_news *next = &news[count];
        if (pg_is_null(rows, row, columns->seat) || (wanted != NULL && !wanted(rows, row)) ||
            !seat_view_read(rows, row, columns, &next->view))
            continue;
        next->org = org;
        next->event = event;
        next->seat = pg_get_text(rows, row, columns->seat);
        next->hold_user = pg_get_text(rows, row, columns->user);
        if (++count == NEWS_AT_ONCE) {
            engine_tell(node, news, count, began);
            count = 0;
        }
    }
    if (count > 0)
        engine_tell(node, news, count, began);
}
