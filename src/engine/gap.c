/*
 * gap.c - no single seat is left alone: the rule, where an event's policy has it, over the seating
 * rows that a transaction takes seats of.
 *
 * The rows are locked and then read, before any seat is locked; each op is judged here in the
 * order of the batch, as if those judged good before it had their seats. Only what is judged good
 * is tried: the others go to hold_seats to be looked at, since every other refusal comes before
 * this one. Afterwards, where one verdict rests on another op's seats, these must really have been
 * taken.
 */
#include "engine_internal.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/seating.h"

#define LOCK_NOT_AVAILABLE "55P03"

enum gap_state { GAP_SEAT_FREE, GAP_SEAT_HELD, GAP_SEAT_TAKEN, GAP_SEAT_REMOVED };

struct gap_seat {
    struct slice id, user; /* user: who holds it */
    struct uuid hold;
    enum gap_state state;
    int line, place; /* its row; its place there, once it is in order */
};

/* A seating row. */
struct gap_line {
    int first, count; /* its seats, as they came: by id */
    int row;          /* of the first one in the result */
    int places;       /* without the removed ones */
    bool touched;     /* an op before has got seats in it */
};

/* What one op chooses. */
struct gap_choice {
    struct op *op;
    struct slice user;           /* whose the seats will be */
    const int *only;             /* which of the op's seats; NULL: all, in order */
    int first, count;            /* these, by their places in what is asked for */
    const struct uuid *replaced; /* holds that are given up for it */
    int replaced_count;
};

struct gaps {
    struct arena arena;
    struct pg_result *rows; /* what slices point into */
    int choice_count, asked_count, seat_count, line_count;
    struct gap_choice *choices;
    struct gap_seat **asked; /* NULL: there is no such seat */
    struct gap_seat *seats;
    struct gap_line *lines;
    struct gap_seat **order; /* seats[] by their places in the row */
    uint8_t *breaks, *flags; /* by places */
    int *alone;
    bool lost;   /* no memory: nobody is judged, and nothing taken */
    bool shared; /* a verdict rests on what an op before is to get */
};

bool
op_has_gap_rule(const struct op *op)
{
    return op_is_seat_hold(op) && op->info.policy.no_single_seat_gap;
}

/* --- what is asked for --------------------------------------------------------------------- */

struct gaps *
gaps_new(int choices_max)
{
    struct gaps *gaps = calloc(1, sizeof(*gaps));
    if (gaps == NULL)
        return NULL;
    gaps->choices = arena_alloc(&gaps->arena, (size_t)choices_max * sizeof(*gaps->choices));
    gaps->lost = gaps->choices == NULL;
    return gaps;
}

void
gaps_free(struct gaps **gaps)
{
    if (*gaps == NULL)
        return;
    pg_result_free(&(*gaps)->rows);
    arena_fini(&(*gaps)->arena);
    free(*gaps);
    *gaps = NULL;
}

void
gaps_add(struct gaps *gaps, struct op *op, struct slice user, const int *only, int count)
{
    op->gap = OP_GAP_LOOKED; /* until it is judged */
    op->gap_count = 0;
    if (gaps == NULL || gaps->lost)
        return;
    gaps->choices[gaps->choice_count++] = (struct gap_choice){
        .op = op, .user = user, .only = only, .first = gaps->asked_count, .count = count
    };
    gaps->asked_count += count;
}

void
gaps_replace(struct gaps *gaps, const struct uuid *holds, int count)
{
    if (gaps == NULL || gaps->lost)
        return;
    gaps->choices[gaps->choice_count - 1].replaced = holds;
    gaps->choices[gaps->choice_count - 1].replaced_count = count;
}

/* --- the rows as they are ------------------------------------------------------------------- */

/* Columns of read_rows. */
enum { RR_LINE, RR_POS, RR_SEAT, RR_NUMBER, RR_AISLE, RR_STATE, RR_USER, RR_HOLD };

static enum gap_state
state_of(struct slice word)
{
    if (slice_is(word, "free"))
        return GAP_SEAT_FREE;
    if (slice_is(word, "held"))
        return GAP_SEAT_HELD;
    return slice_is(word, "removed") ? GAP_SEAT_REMOVED : GAP_SEAT_TAKEN;
}

static int
compare_id(const void *key, const void *element)
{
    struct slice id = *(const struct slice *)key, of = ((const struct gap_seat *)element)->id;
    int order = memcmp(id.ptr, of.ptr, id.len < of.len ? id.len : of.len);

    return order != 0 ? order : (id.len > of.len) - (id.len < of.len);
}

/* NULL: never, each is one of its row. */
static struct gap_seat *
find_seat(const struct gaps *gaps, const struct gap_line *line, struct slice id)
{
    return bsearch(&id, gaps->seats + line->first, (size_t)line->count, sizeof(*gaps->seats),
                   compare_id);
}

static void
take_row(struct gaps *gaps, int row)
{
    const struct pg_result *rows = gaps->rows;
    int line = (int)pg_get_int(rows, row, RR_LINE) - 1;
    struct slice id = pg_get_text(rows, row, RR_SEAT);

    if (!pg_is_null(rows, row, RR_POS)) {
        gaps->asked[pg_get_int(rows, row, RR_POS) - 1] = find_seat(gaps, &gaps->lines[line], id);
        return;
    }
    if (line == gaps->line_count)
        gaps->lines[gaps->line_count++] =
            (struct gap_line){ .first = gaps->seat_count, .row = row };
    gaps->lines[line].count++;
    gaps->seats[gaps->seat_count++] =
        (struct gap_seat){ .id = id,
                           .user = pg_get_text(rows, row, RR_USER),
                           .hold = pg_get_uuid(rows, row, RR_HOLD),
                           .state = state_of(pg_get_text(rows, row, RR_STATE)),
                           .line = line };
}

/* labels: room for all of them. */
static void
put_in_order(struct gaps *gaps, struct gap_line *line, struct seating_label *labels)
{
    for (int i = 0; i < line->count; i++)
        labels[i] =
            (struct seating_label){ .number = pg_get_text(gaps->rows, line->row + i, RR_NUMBER),
                                    .aisle_after = pg_get_bool(gaps->rows, line->row + i, RR_AISLE),
                                    .is_removed =
                                        gaps->seats[line->first + i].state == GAP_SEAT_REMOVED,
                                    .tag = line->first + i };
    line->places = seating_order(labels, line->count, gaps->breaks + line->first);
    for (int place = 0; place < line->places; place++) {
        gaps->order[line->first + place] = &gaps->seats[labels[place].tag];
        gaps->seats[labels[place].tag].place = place;
    }
}

static bool
make_room(struct gaps *gaps, size_t rows)
{
    struct arena *arena = &gaps->arena;

    gaps->asked = arena_alloc(arena, ((size_t)gaps->asked_count + 1) * sizeof(*gaps->asked));
    gaps->seats = arena_alloc(arena, rows * sizeof(*gaps->seats));
    gaps->lines = arena_alloc(arena, rows * sizeof(*gaps->lines));
    gaps->order = arena_alloc(arena, rows * sizeof(*gaps->order));
    gaps->breaks = arena_alloc(arena, rows);
    gaps->flags = arena_alloc(arena, rows);
    gaps->alone = arena_alloc(arena, rows * sizeof(*gaps->alone));
    return gaps->asked != NULL && gaps->seats != NULL && gaps->lines != NULL &&
           gaps->order != NULL && gaps->breaks != NULL && gaps->flags != NULL &&
           gaps->alone != NULL;
}

void
gaps_read(struct gaps *gaps, struct pg_result **rows)
{
    int count = pg_rows(*rows);
    struct seating_label *labels = arena_alloc(&gaps->arena, ((size_t)count + 1) * sizeof(*labels));

    gaps->rows = *rows;
    *rows = NULL;
    gaps->lost = labels == NULL || !make_room(gaps, (size_t)count + 1);
    if (gaps->lost)
        return;
    for (int row = 0; row < count; row++)
        take_row(gaps, row);
    for (int i = 0; i < gaps->line_count; i++)
        put_in_order(gaps, &gaps->lines[i], labels);
}

/* --- one choice --------------------------------------------------------------------------- */

static bool
gives_up(const struct gap_choice *choice, const struct gap_seat *seat)
{
    for (int i = 0; i < choice->op->drop_count; i++)
        if (slice_equal(choice->op->drop[i].id, seat->id))
            return true;
    for (int i = 0; i < choice->replaced_count; i++)
        if (uuid_equal(&choice->replaced[i], &seat->hold))
            return true;
    return false;
}

static bool
is_mine(const struct gap_choice *choice, const struct gap_seat *seat)
{
    return seat->state == GAP_SEAT_HELD && slice_equal(seat->user, choice->user);
}

/* What there is to judge: nothing, if a seat isn't free. */
static enum op_gap
look_at(const struct gaps *gaps, const struct gap_choice *choice)
{
    enum op_gap found = OP_GAP_GOOD;

    for (int i = 0; i < choice->count; i++) {
        const struct gap_seat *seat = gaps->asked[choice->first + i];
        bool mine = seat != NULL && is_mine(choice, seat);
        if (seat == NULL || (seat->state != GAP_SEAT_FREE && !mine))
            return OP_GAP_LOOKED;
        if (mine && !gives_up(choice, seat))
            found = OP_GAP_OWN;
    }
    return found;
}

static uint8_t
flag_of(const struct gap_choice *choice, const struct gap_seat *seat)
{
    if (seat->state == GAP_SEAT_FREE)
        return 0;
    if (!is_mine(choice, seat))
        return SEATING_TAKEN;
    return gives_up(choice, seat) ? SEATING_MINE : SEATING_MINE | SEATING_CHOSEN;
}

/* Names them to the op; without memory for it they stay unnamed. */
static void
name_alone(struct op *op, struct gap_seat *const *order, const int *alone, int count)
{
    struct slice *named = arena_alloc(&op->arena, (size_t)(op->gap_count + count) * sizeof(*named));

    if (named == NULL)
        return;
    for (int i = 0; i < op->gap_count; i++)
        named[i] = op->gap_seats[i];
    for (int i = 0; i < count; i++) {
        named[op->gap_count] = arena_copy(&op->arena, order[alone[i]]->id);
        op->gap_count += named[op->gap_count].ptr != NULL;
    }
    op->gap_seats = named;
}

/* True: the choice leaves seats of this row alone, against the rule. */
static bool
line_has_gap(struct gaps *gaps, const struct gap_choice *choice, const struct gap_line *line)
{
    struct gap_seat *const *order = gaps->order + line->first;

    for (int i = 0; i < line->places; i++)
        gaps->flags[i] = gaps->breaks[line->first + i] | flag_of(choice, order[i]);
    for (int i = 0; i < choice->count; i++) {
        const struct gap_seat *seat = gaps->asked[choice->first + i];
        if (&gaps->lines[seat->line] == line)
            gaps->flags[seat->place] |= SEATING_CHOSEN;
    }
    int count = seating_left_alone(gaps->flags, line->places, gaps->alone, line->places);
    if (count > 0)
        name_alone(choice->op, order, gaps->alone, count);
    return count > 0;
}

/* The row of its i-th seat; NULL: one before was of the same. */
static struct gap_line *
next_line(const struct gaps *gaps, const struct gap_choice *choice, int i)
{
    struct gap_seat *const *asked = gaps->asked + choice->first;

    for (int before = 0; before < i; before++)
        if (asked[before]->line == asked[i]->line)
            return NULL;
    return &gaps->lines[asked[i]->line];
}

static void
judge_choice(struct gaps *gaps, const struct gap_choice *choice)
{
    struct op *op = choice->op;

    op->gap_count = 0;
    op->gap = look_at(gaps, choice);
    for (int i = 0; op->gap != OP_GAP_LOOKED && op->gap != OP_GAP_OWN && i < choice->count; i++) {
        const struct gap_line *line = next_line(gaps, choice, i);
        if (line == NULL)
            continue;
        gaps->shared |= line->touched;
        if (line_has_gap(gaps, choice, line))
            op->gap = OP_GAP_REFUSED;
    }
}

/* --- all of them ---------------------------------------------------------------------------- */

/* From here on, for the others, the seats are the op's; or free again. */
static void
move_seats(struct gaps *gaps, const struct gap_choice *choice, enum gap_state to)
{
    for (int i = 0; i < choice->count; i++) {
        struct gap_seat *seat = gaps->asked[choice->first + i];
        seat->state = to;
        seat->user = choice->user;
        gaps->lines[seat->line].touched = true;
    }
}

void
gaps_judge(struct gaps *gaps)
{
    for (int i = 0; !gaps->lost && i < gaps->choice_count; i++) {
        judge_choice(gaps, &gaps->choices[i]);
        if (gaps->choices[i].op->gap == OP_GAP_GOOD)
            move_seats(gaps, &gaps->choices[i], GAP_SEAT_HELD);
    }
}

bool
gaps_are_shared(const struct gaps *gaps)
{
    return gaps != NULL && gaps->shared;
}

static bool
was_taken(const struct op *op, const struct pg_result *seats)
{
    return pg_get_bool(seats, op->row_first, HS_TAKEN);
}

bool
gaps_hold(struct gaps *gaps, const struct pg_result *seats)
{
    for (int i = 0; i < gaps->choice_count; i++)
        if (gaps->choices[i].op->gap == OP_GAP_GOOD)
            move_seats(gaps, &gaps->choices[i], GAP_SEAT_FREE);
    for (int i = 0; i < gaps->choice_count; i++) {
        const struct gap_choice *choice = &gaps->choices[i];
        enum op_gap before = choice->op->gap;
        if (before != OP_GAP_REFUSED && (before != OP_GAP_GOOD || !was_taken(choice->op, seats)))
            continue;
        judge_choice(gaps, choice);
        if (choice->op->gap != before)
            return false;
        if (before == OP_GAP_GOOD)
            move_seats(gaps, choice, GAP_SEAT_HELD);
    }
    return true;
}

/* --- within a transaction ------------------------------------------------------------------ */

static void
send_rows(struct batch *batch, const struct gaps *gaps)
{
    struct pg_array *org = worker_array(batch->worker, 0, PG_TEXT);
    struct pg_array *event = worker_array(batch->worker, 1, PG_TEXT);
    struct pg_array *seat = worker_array(batch->worker, 2, PG_TEXT);
    struct pg_params params, lock_params;

    for (int i = 0; i < gaps->choice_count; i++) {
        const struct gap_choice *choice = &gaps->choices[i];
        for (int s = 0; s < choice->count; s++) {
            pg_array_text(org, choice->op->org);
            pg_array_text(event, choice->op->event);
            pg_array_text(seat, choice->op->seats[choice->only ? choice->only[s] : s].id);
        }
    }
    pg_params_init(&params);
    pg_param_array(&params, org);
    pg_param_array(&params, event);
    pg_param_array(&params, seat);
    lock_params = params;
    pg_param_bool(&lock_params, !batch->ops[0]->row_waits);
    pg_tx_send(batch->worker->pg, STATEMENT_LOCK_ROWS, &lock_params);
    pg_tx_send(batch->worker->pg, STATEMENT_READ_ROWS, &params);
}

/* False: not all of them, or the transaction has failed. */
static bool
rows_are_locked(struct batch *batch)
{
    struct pg_result *missed = NULL;
    bool ok = batch_next(batch, &missed);

    batch->stuck = ok ? pg_get_int(missed, 0, 0) > 0
                      : strcmp(pg_last_sqlstate(batch->worker->pg), LOCK_NOT_AVAILABLE) == 0;
    pg_result_free(&missed);
    return ok && !batch->stuck;
}

bool
gaps_decide(struct batch *batch)
{
    struct gaps *gaps = batch->rows.gaps;
    struct pg_result *rows = NULL;

    if (gaps == NULL || gaps->lost)
        return true;
    send_rows(batch, gaps);
    pg_tx_flush(batch->worker->pg);
    if (!batch_skip_due(batch) || !rows_are_locked(batch) || !batch_next(batch, &rows))
        return false;
    gaps_read(gaps, &rows);
    gaps_judge(gaps);
    return true;
}
