/*
 * memory.c - what the hot table believes of an event's seats, beside what Postgres says.
 *
 * An entry that is newer than the read, or whose commit is being settled, is looked at again a
 * moment later, after a new read.
 */
#include "repair_internal.h"

#include <stdlib.h>

#define LOOKS 3

struct memory_look {
    struct comparison *c;
    struct buf last;     /* the page's last seat */
    struct pg_array ids; /* seats of which memory says otherwise */
    int64_t held;        /* in Postgres, and not over */
};

static bool
says_the_same(const struct seat_view *view, const struct pg_result *rows, int row)
{
    struct uuid hold = pg_get_uuid(rows, row, WS_HOLD);
    struct slice user = pg_get_text(rows, row, WS_USER);
    enum seat_status status;

    if (pg_is_null(rows, row, WS_STATUS) ||
        !seat_status_parse(pg_get_text(rows, row, WS_STATUS), &status))
        return false;
    bool same = view->version == pg_get_int(rows, row, WS_VERSION) && view->status == status;
    if (!same || (status != SEAT_HELD && status != SEAT_SOLD))
        return same;
    return uuid_equal(&view->hold_id, &hold) &&
           view->user_hash == (user.len > 0 ? hash_seeded(user.ptr, user.len) : 0) &&
           view->held_until.us == pg_get_time(rows, row, WS_UNTIL).us;
}

/* Memory believes something of the seat, and Postgres says otherwise. */
static bool
differs(const struct comparison *c, const struct pg_result *rows, int row)
{
    struct seat_key key = { c->org, c->event, pg_get_text(rows, row, WS_SEAT) };
    struct seat_view view;
    struct db_time now;
    int64_t error_us;
    struct mono_time mono = mono_now();

    return id_is_valid(key.seat) && db_clock_read(c->node->clock, mono, &now, &error_us) &&
           hot_table_read(c->node->hot, &key, now, error_us, mono, &view) &&
           !says_the_same(&view, rows, row);
}

static void
take_differing(struct memory_look *look, const struct pg_result *rows)
{
    pg_array_reset(&look->ids);
    for (int row = 0; row < pg_rows(rows); row++) {
        if (differs(look->c, rows, row))
            pg_array_text(&look->ids, pg_get_text(rows, row, WS_SEAT));
    }
}

/* Looks at those again that differ, until none does or they have differed LOOKS times. */
static enum hf_status
look_again(struct memory_look *look)
{
    enum hf_status status = HF_OK;

    for (int i = 1; status == HF_OK && look->ids.count > 0 && i < LOOKS; i++) {
        struct pg_result *rows = NULL;
        compare_rest(look->c, MOMENT_US);
        status = compare_ask_seats(look->c, &look->ids, &rows);
        if (status == HF_OK)
            take_differing(look, rows);
        pg_result_free(&rows);
    }
    return status;
}

static int64_t
count_held(const struct comparison *c, const struct pg_result *rows)
{
    int64_t held = 0;

    for (int row = 0; row < pg_rows(rows); row++) {
        struct warm_want want;
        warm_want_read(c, rows, row, &want);
        held += want.need == NEED_HOLD;
    }
    return held;
}

static enum hf_status
look_at_page(struct memory_look *look, bool *more)
{
    struct pg_result *rows;
    enum hf_status status = compare_ask_page(look->c, buf_slice(&look->last), &rows);

    *more = false;
    if (status != HF_OK)
        return status;
    int count = pg_rows(rows);
    buf_clear(&look->last);
    if (count > 0)
        buf_append_slice(&look->last, pg_get_text(rows, count - 1, WS_SEAT));
    *more = count == PORTION && !look->last.failed;
    look->held += count_held(look->c, rows);
    take_differing(look, rows);
    pg_result_free(&rows);
    status = look_again(look);
    look->c->left += look->ids.count;
    return status;
}

static enum hf_status
look_at_all(struct comparison *c, int64_t *held)
{
    struct memory_look look = { .c = c };
    enum hf_status status;
    bool more;

    pg_array_init(&look.ids, PG_TEXT);
    while ((status = look_at_page(&look, &more)) == HF_OK && more &&
           (status = compare_goes_on(c)) == HF_OK)
        compare_rest(c, YIELD_US);
    pg_array_fini(&look.ids);
    buf_fini(&look.last);
    *held = look.held;
    return status;
}

enum hf_status
repair_look_at_memory(struct node *node, struct pg *pg, struct slice org, struct slice event,
                      struct mono_time deadline, struct repair_memory *memory)
{
    struct comparison c = { .node = node,
                            .pg = pg,
                            .org = org,
                            .event = event,
                            .mode = REPAIR_LOOK,
                            .deadline = deadline };
    struct db_time now = { 0 };
    int64_t error_us;

    *memory = (struct repair_memory){ 0 };
    enum hf_status status = look_at_all(&c, &memory->db_count);
    memory->agrees = status == HF_OK && c.left == 0;
    if (db_clock_read(node->clock, mono_now(), &now, &error_us))
        memory->hot_count = hot_table_count_held(node->hot, org, event, now);
    return status;
}
