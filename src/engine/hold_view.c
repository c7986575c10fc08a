/*
 * hold_view.c - a hold as it is shown: from the rows that made it, or read again.
 *
 * Texts point into the result that they came from where the view is used before that is
 * freed (a hold just made), and are copied into the arena otherwise.
 */
#include "engine_internal.h"

#include <string.h>

static const char *const hold_status_words[] = { [HOLD_ACTIVE] = "active",
                                                 [HOLD_CONVERTED] = "converted",
                                                 [HOLD_EXPIRED] = "expired",
                                                 [HOLD_CANCELLED] = "cancelled" };

const char *
hold_status_word(enum hold_status status)
{
    hf_assert(status >= HOLD_ACTIVE && status <= HOLD_CANCELLED);
    return hold_status_words[status];
}

bool
hold_status_parse(struct slice word, enum hold_status *status)
{
    for (int i = HOLD_ACTIVE; i <= HOLD_CANCELLED; i++) {
        if (slice_is(word, hold_status_words[i])) {
            *status = (enum hold_status)i;
            return true;
        }
    }
    return false;
}

/* --- just made ------------------------------------------------------------------- */

static void
seat_line(struct hold_line *line, const struct pg_result *rows, int row, struct slice seat)
{
    *line = (struct hold_line){
        .seat = seat,
        .section = pg_get_text(rows, row, HS_SECTION),
        .row = pg_get_text(rows, row, HS_ROW),
        .number = pg_get_text(rows, row, HS_NUMBER),
        .quantity = 1,
        .version = pg_get_int(rows, row, HS_VERSION),
        .has_price = !pg_is_null(rows, row, HS_PRICE),
        .price = pg_get_int(rows, row, HS_PRICE),
        .status = HOLD_ACTIVE,
    };
}

static void
area_line(struct hold_line *line, const struct pg_result *rows, int row, const struct op_area *area)
{
    *line = (struct hold_line){
        .area = area->id,
        .quantity = area->quantity,
        .version = pg_get_int(rows, row, HA_VERSION),
        .has_price = !pg_is_null(rows, row, HA_PRICE),
        .price = pg_get_int(rows, row, HA_PRICE),
        .status = HOLD_ACTIVE,
    };
}

struct hold_view *
hold_view_new(struct op *op, const struct pg_result *seats, int seat_first, int seat_end,
              const struct pg_result *areas, int area_first, int area_end)
{
    int count = seat_end - seat_first + area_end - area_first;
    struct hold_view *view = arena_alloc(&op->arena, sizeof(*view));
    struct hold_line *lines = arena_alloc(&op->arena, (size_t)count * sizeof(*lines));
    if (view == NULL || lines == NULL)
        return NULL;
    *view = (struct hold_view){
        .hold_id = op->hold_id,
        .event = op->event,
        .user = op->user,
        .cart_token = op->cart_token,
        .source = op->source,
        .status = HOLD_ACTIVE,
        .line_count = count,
        .lines = lines,
    };
    memcpy(view->currency, op->info.currency, sizeof(view->currency));
    for (int row = seat_first; row < seat_end; row++)
        seat_line(lines++, seats, row, op->seats[row - seat_first].id);
    for (int row = area_first; row < area_end; row++)
        area_line(lines++, areas, row, &op->areas[row - area_first]);
    if (seat_end > seat_first) {
        view->created_at = pg_get_time(seats, seat_first, HS_BORN);
        view->held_until = pg_get_time(seats, seat_first, HS_UNTIL);
        view->now = pg_get_time(seats, seat_first, HS_NOW);
    } else {
        view->created_at = pg_get_time(areas, area_first, HA_BORN);
        view->held_until = pg_get_time(areas, area_first, HA_UNTIL);
        view->now = pg_get_time(areas, area_first, HA_NOW);
    }
    return view;
}

/* --- read again ------------------------------------------------------------------- */

enum hold_status
hold_status_of(struct slice word)
{
    enum hold_status status = HOLD_CANCELLED;
    (void)hold_status_parse(word, &status);
    return status;
}

/* What the lines say about the whole. */
struct lines_seen {
    bool active, in_payment, sold;
    int last; /* the row that ended last, of those that are sold if there are any */
    struct db_time last_at;
};

static struct lines_seen
look_at_lines(const struct pg_result *rows, int first, int end)
{
    struct lines_seen seen = { .last = -1 };
    for (int row = first; row < end; row++) {
        if (hold_status_of(pg_get_text(rows, row, RH_STATUS)) == HOLD_ACTIVE) {
            seen.active = true;
            seen.in_payment |= pg_get_bool(rows, row, RH_IN_PAYMENT);
            continue;
        }
        struct db_time ended = pg_get_time(rows, row, RH_ENDED);
        bool sold = hold_status_of(pg_get_text(rows, row, RH_STATUS)) == HOLD_CONVERTED;
        if (seen.last < 0 || sold > seen.sold ||
            (sold == seen.sold && ended.us >= seen.last_at.us)) {
            seen.last = row;
            seen.last_at = ended;
            seen.sold = sold;
        }
    }
    return seen;
}

/*
 * A line is the hold's if it has the hold's status; of a cancelled hold those that ended last, so
 * that seats which were removed earlier don't come back.
 */
static bool
line_belongs(const struct pg_result *rows, int row, enum hold_status status, struct db_time last_at)
{
    if (hold_status_of(pg_get_text(rows, row, RH_STATUS)) != status)
        return false;
    return status != HOLD_CANCELLED || pg_get_time(rows, row, RH_ENDED).us == last_at.us;
}

static bool
line_from_row(struct arena *arena, const struct pg_result *rows, int row, struct hold_line *line)
{
    enum hold_status status = hold_status_of(pg_get_text(rows, row, RH_STATUS));
    /* Those of what was given back are void. */
    int tickets = status == HOLD_CONVERTED ? pg_get_uuids(rows, row, RH_TICKETS, NULL, 0) : 0;
    *line = (struct hold_line){
        .seat = arena_copy(arena, pg_get_text(rows, row, RH_SEAT)),
        .section = arena_copy(arena, pg_get_text(rows, row, RH_SECTION)),
        .row = arena_copy(arena, pg_get_text(rows, row, RH_ROW)),
        .number = arena_copy(arena, pg_get_text(rows, row, RH_NUMBER)),
        .area = arena_copy(arena, pg_get_text(rows, row, RH_AREA)),
        .quantity = (int32_t)pg_get_int(rows, row, RH_QUANTITY),
        .version = pg_get_int(rows, row, RH_VERSION),
        .has_price = !pg_is_null(rows, row, RH_PRICE),
        .price = pg_get_int(rows, row, RH_PRICE),
        .status = status,
        .ticket_count = tickets,
    };
    if (tickets > 0) {
        line->tickets = arena_alloc(arena, (size_t)tickets * sizeof(*line->tickets));
        if (line->tickets == NULL)
            return false;
        pg_get_uuids(rows, row, RH_TICKETS, line->tickets, tickets);
    }
    return line->seat.ptr && line->section.ptr && line->row.ptr && line->number.ptr &&
           line->area.ptr;
}

static bool
view_head(struct arena *arena, const struct pg_result *rows, int row, struct hold_view *view)
{
    struct slice currency = pg_get_text(rows, row, RH_CURRENCY);
    view->hold_id = pg_get_uuid(rows, row, RH_HOLD);
    view->event = arena_copy(arena, pg_get_text(rows, row, RH_EVENT));
    view->user = arena_copy(arena, pg_get_text(rows, row, RH_USER));
    view->cart_token = arena_copy(arena, pg_get_text(rows, row, RH_CART));
    view->source = arena_copy(arena, pg_get_text(rows, row, RH_SOURCE));
    view->created_at = pg_get_time(rows, row, RH_CREATED);
    view->held_until = pg_get_time(rows, row, RH_UNTIL);
    view->now = pg_get_time(rows, row, RH_NOW);
    memcpy(view->currency, currency.ptr, currency.len < 3 ? currency.len : 3);
    return view->event.ptr && view->user.ptr && view->cart_token.ptr && view->source.ptr;
}

/* The row that stands for the whole hold: an active one, else the one that ended last. */
static int
head_row(const struct pg_result *rows, int first, int end, const struct lines_seen *seen)
{
    if (!seen->active)
        return seen->last;
    for (int row = first; row < end; row++)
        if (hold_status_of(pg_get_text(rows, row, RH_STATUS)) == HOLD_ACTIVE)
            return row;
    return first;
}

struct hold_view *
hold_view_from_rows(struct arena *arena, const struct pg_result *rows, int first, int last)
{
    struct hold_view *view = arena_alloc(arena, sizeof(*view));
    struct hold_line *lines = arena_alloc(arena, (size_t)(last - first) * sizeof(*lines));
    struct lines_seen seen = look_at_lines(rows, first, last);
    if (view == NULL || lines == NULL || last <= first)
        return NULL;
    int head = head_row(rows, first, last, &seen);
    if (!view_head(arena, rows, head, view))
        return NULL;
    enum hold_status stored = hold_status_of(pg_get_text(rows, head, RH_STATUS));
    view->lines = lines;
    for (int row = first; row < last; row++) {
        int number = (int)pg_get_int(rows, row, RH_LINE);
        if (number > view->line_last)
            view->line_last = number;
        if (!line_belongs(rows, row, stored, seen.last_at))
            continue;
        if (!line_from_row(arena, rows, row, &lines[view->line_count++]))
            return NULL;
    }
    view->status = stored;
    view->reason = arena_copy(arena, pg_get_text(rows, head, RH_REASON));
    if (stored == HOLD_ACTIVE && !seen.in_payment && view->held_until.us <= view->now.us) {
        view->status = HOLD_EXPIRED; /* over, whether or not it was cleaned up */
        view->reason = slice_is(view->source, "waitlist") ? SLICE_LITERAL("waitlist_lapsed")
                                                          : SLICE_LITERAL("ttl_expired");
    }
    return view->reason.ptr != NULL ? view : NULL;
}

const struct hold_view *
op_hold_view(const struct op *op, const struct uuid *hold)
{
    const struct checkout_view *checkout = op->checkout;
    if (op->hold != NULL && uuid_equal(&op->hold->hold_id, hold))
        return op->hold;
    for (int i = 0; checkout != NULL && i < checkout->hold_count; i++)
        if (uuid_equal(&checkout->holds[i]->hold_id, hold))
            return checkout->holds[i];
    return NULL;
}

bool
op_show(struct op *op, const struct pg_result *views, int64_t pos)
{
    int count = pg_rows(views), first = 0;
    while (first < count && pg_get_int(views, first, RH_POS) < pos)
        first++;
    int end = first;
    while (end < count && pg_get_int(views, end, RH_POS) == pos)
        end++;
    if (end == first)
        return false;
    op->hold = hold_view_from_rows(&op->arena, views, first, end);
    return op->hold != NULL;
}
