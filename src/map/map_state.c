/*
 * map_state.c - status, version and end of an event's seats, and in which order they changed.
 *
 * Seats are linked by when they changed, the newest first, so that what changed since
 * a position is found without looking at the rest. A position stands for one change of
 * what a map says, also one that time makes: a hold's end passes. The counts of seats move with
 * each change, so that nobody has to walk over the seats to know them.
 */
#include <stdlib.h>
#include <string.h>

#include "holdfast/cold.h"
#include "holdfast/json.h"
#include "map_internal.h"

/* Columns of read_seat_map that move, and of read_areas. */
enum { SEAT_STATUS = 8, SEAT_IN_PAYMENT, SEAT_VERSION, SEAT_UNTIL, SEAT_USER = 16 };
enum { AREA_ID, AREA_NAME, AREA_CAPACITY, AREA_HELD, AREA_SOLD, AREA_PRICE, AREA_VERSION };

#define NEVER INT64_MAX

static void
areas_free(struct map_area *areas, int count)
{
    for (int i = 0; i < count; i++)
        free(areas[i].name);
    free(areas);
}

void
map_state_fini(struct map_state *state)
{
    choices_free(state->choices);
    layout_put(state->layout);
    free(state->seats);
    seat_ends_fini(&state->ends);
    areas_free(state->areas, state->area_count);
    memset(state, 0, sizeof(*state));
}

/* --- the order of change -------------------------------------------------- */

static void
unlink_seat(struct map_state *state, uint32_t i)
{
    struct map_seat *seat = &state->seats[i];

    if (seat->newer != LAYOUT_NONE)
        state->seats[seat->newer].older = seat->older;
    else if (state->newest == i)
        state->newest = seat->older;
    if (seat->older != LAYOUT_NONE)
        state->seats[seat->older].newer = seat->newer;
}

static void
link_newest(struct map_state *state, uint32_t i)
{
    struct map_seat *seat = &state->seats[i];

    seat->newer = LAYOUT_NONE;
    seat->older = state->newest;
    if (state->newest != LAYOUT_NONE)
        state->seats[state->newest].newer = i;
    state->newest = i;
}

/* --- counts and ends ------------------------------------------------------ */

/* Adds a seat to the counts, or takes it out again. */
static void
tally(struct seat_map_counts *counts, const struct map_seat *seat, int by)
{
    counts->total += seat->status != SEAT_REMOVED ? by : 0;
    counts->held += seat->status == SEAT_HELD && !seat->over ? by : 0;
    counts->sold += seat->status == SEAT_SOLD ? by : 0;
    counts->blocked += seat->status == SEAT_BLOCKED ? by : 0;
}

static void
note_end(struct map_state *state, uint32_t i)
{
    seat_ends_note(&state->ends, state->seats, i);
    state->next_end.us =
        state->ends.count == 0 ? NEVER : state->seats[state->ends.heap[0]].until.us;
}

void
map_state_set(struct map_state *state, uint32_t i, const struct map_seat *now, uint64_t position)
{
    struct map_seat *seat = &state->seats[i];

    hf_assert(position >= state->position);
    unlink_seat(state, i);
    tally(&state->counts, seat, -1);
    *seat = *now;
    tally(&state->counts, seat, 1);
    note_end(state, i);
    seat->changed_at = position;
    link_newest(state, i);
    state->position = position;
    choices_moved(state->choices, i, seat);
}

bool
map_state_sweep(struct map_state *state, struct db_time now, uint64_t position)
{
    bool found = false;

    while (state->next_end.us <= now.us) {
        uint32_t i = state->ends.heap[0];
        struct map_seat seat = state->seats[i];
        seat.over = true;
        seat.from = FROM_NOBODY; /* time is in no record */
        map_state_set(state, i, &seat, position);
        found = true;
    }
    return found;
}

bool
map_seat_differs(const struct map_seat *a, const struct map_seat *b)
{
    return a->version != b->version || a->status != b->status || a->in_payment != b->in_payment ||
           a->until.us != b->until.us;
}

void
map_state_count(const struct map_state *state, struct seat_map_counts *counts)
{
    *counts = state->counts;
    for (int i = 0; i < state->area_count; i++) {
        counts->total += state->areas[i].capacity;
        counts->area_held += state->areas[i].held;
        counts->sold += state->areas[i].sold;
    }
    counts->held += counts->area_held;
    counts->available = counts->total - counts->held - counts->sold - counts->blocked;
}

/* --- what a loading found ---------------------------------------------------- */

/* A status that this binary doesn't know can't be sold by it. */
static enum seat_status
read_status(const struct pg_result *rows, int row)
{
    enum seat_status status;

    return seat_status_parse(pg_get_text(rows, row, SEAT_STATUS), &status) ? status : SEAT_BLOCKED;
}

static uint64_t
read_user(const struct pg_result *rows, int row)
{
    struct slice user = pg_get_text(rows, row, SEAT_USER);

    return user.len > 0 ? hash_seeded(user.ptr, user.len) : 0;
}

static void
read_seats(struct map_state *fresh, const struct pg_result *rows, const int *row_of)
{
    for (uint32_t i = 0; i < fresh->layout->count; i++) {
        int row = row_of[i];
        fresh->seats[i] = (struct map_seat){
            .until = pg_get_time(rows, row, SEAT_UNTIL),
            .version = pg_get_int(rows, row, SEAT_VERSION),
            .user_hash = read_user(rows, row),
            .newer = LAYOUT_NONE,
            .older = LAYOUT_NONE,
            .status = read_status(rows, row),
            .in_payment = pg_get_bool(rows, row, SEAT_IN_PAYMENT),
        };
    }
}

static bool
read_area(struct map_area *area, const struct pg_result *rows, int row)
{
    struct slice id = pg_get_text(rows, row, AREA_ID);
    struct buf name = { 0 };
    struct json_writer w;

    if (id.len > ID_BYTES_MAX)
        return false;
    memcpy(area->id, id.ptr, id.len);
    json_writer_init(&w, &name);
    json_text(&w, pg_get_text(rows, row, AREA_NAME));
    if (name.failed) {
        buf_fini(&name);
        return false;
    }
    area->name = name.data; /* owned from here on */
    area->capacity = pg_get_int(rows, row, AREA_CAPACITY);
    area->held = pg_get_int(rows, row, AREA_HELD);
    area->sold = pg_get_int(rows, row, AREA_SOLD);
    area->has_price = !pg_is_null(rows, row, AREA_PRICE);
    area->price = pg_get_int(rows, row, AREA_PRICE);
    area->version = pg_get_int(rows, row, AREA_VERSION);
    return true;
}

static bool
read_areas(struct map_state *fresh, const struct pg_result *rows)
{
    int count = pg_rows(rows);

    fresh->areas = calloc((size_t)count + 1, sizeof(*fresh->areas));
    if (fresh->areas == NULL)
        return false;
    for (; fresh->area_count < count; fresh->area_count++) {
        if (!read_area(&fresh->areas[fresh->area_count], rows, fresh->area_count))
            return false;
    }
    return true;
}

bool
map_state_read(struct map_state *fresh, struct layout *known, const struct pg_result *seats,
               const struct pg_result *areas)
{
    int *row_of;

    memset(fresh, 0, sizeof(*fresh));
    fresh->newest = LAYOUT_NONE;
    fresh->next_end.us = NEVER;
    if (known != NULL && layout_matches(known, seats, &row_of))
        fresh->layout = layout_get(known);
    else
        fresh->layout = layout_new(seats, &row_of);
    if (fresh->layout == NULL)
        return false;
    fresh->seats = calloc(fresh->layout->count + 1, sizeof(*fresh->seats));
    bool has_room = fresh->seats != NULL && seat_ends_init(&fresh->ends, fresh->layout->count);
    if (has_room)
        read_seats(fresh, seats, row_of);
    free(row_of);
    if (!has_room || !read_areas(fresh, areas)) {
        map_state_fini(fresh);
        return false;
    }
    return true;
}

/* --- merging it ----------------------------------------------------------------- */

/*
 * Decides between what is known and what was read: the newer version, and of equal ones
 * the known one, unless the read one says something else. True: the read one is a change.
 * Who has the new base has what was read, and what nobody could be said to have before it.
 */
static bool
merge_seat(const struct map_seat *known, struct map_seat *read)
{
    if (read->version > known->version ||
        (read->version == known->version && map_seat_differs(known, read)))
        return true;
    if (is_from_record(known->from) || known->version > read->version)
        read->from = known->from;
    if (known->version > read->version)
        read->user_hash = known->user_hash;
    read->status = known->status;
    read->in_payment = known->in_payment;
    read->until = known->until;
    read->version = known->version;
    read->over = known->over;
    read->changed_at = known->changed_at;
    return false;
}

static int
compare_changes(const void *left, const void *right)
{
    const struct map_seat *a = *(const struct map_seat *const *)left;
    const struct map_seat *b = *(const struct map_seat *const *)right;

    return (a->changed_at > b->changed_at) - (a->changed_at < b->changed_at);
}

/* Links seats that carry their changed_at but no order yet. False: no memory. */
static bool
link_all(struct map_state *state)
{
    uint32_t count = state->layout->count;
    struct map_seat **order = malloc((count + 1) * sizeof(struct map_seat *));
    if (order == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        order[i] = &state->seats[i];
    qsort(order, count, sizeof(struct map_seat *), compare_changes);
    state->newest = LAYOUT_NONE;
    for (uint32_t i = 0; i < count; i++)
        link_newest(state, (uint32_t)(order[i] - state->seats));
    free(order);
    return true;
}

struct map_area *
map_area_find(struct map_area *areas, int count, struct slice id)
{
    for (int i = 0; i < count; i++) {
        if (slice_is(id, areas[i].id))
            return &areas[i];
    }
    return NULL;
}

bool
map_area_make_room(struct map_area *area)
{
    bool is_short = area->capacity < area->held + area->sold;

    if (is_short)
        area->capacity = area->held + area->sold;
    return is_short;
}

/*
 * Counts are those of the newer version; what the area is, records don't say: that is as it was
 * read. True: `read` says something else than `known` now.
 */
static bool
merge_area(const struct map_area *known, struct map_area *read)
{
    bool is_newer = read->version > known->version;

    if (read->version < known->version) {
        read->held = known->held;
        read->sold = known->sold;
        read->version = known->version;
        map_area_make_room(read);
    }
    return is_newer || read->capacity != known->capacity || strcmp(read->name, known->name) != 0 ||
           read->has_price != known->has_price || read->price != known->price;
}

static bool
merge_areas(struct map_state *state, struct map_state *fresh)
{
    bool changed = state->area_count != fresh->area_count;

    for (int i = 0; i < fresh->area_count; i++) {
        struct map_area *known =
            map_area_find(state->areas, state->area_count, slice_of(fresh->areas[i].id));
        changed |= known == NULL || merge_area(known, &fresh->areas[i]);
    }
    areas_free(state->areas, state->area_count);
    state->areas = fresh->areas;
    state->area_count = fresh->area_count;
    fresh->areas = NULL;
    fresh->area_count = 0;
    return changed;
}

static void
tell(struct merge_listener *listener, const struct map_state *state, uint32_t i,
     const struct map_seat *known)
{
    const struct map_seat *now = &state->seats[i];

    if (listener == NULL || (known == NULL && now->status == SEAT_REMOVED) ||
        (known != NULL && now->version <= known->version))
        return;
    listener->moved(listener, layout_id(state->layout, i), known, now);
}

/* The same seats in the same order: only what moved is touched. */
static bool
merge_same_layout(struct map_state *state, struct map_state *fresh, uint64_t position,
                  struct merge_listener *listener)
{
    bool changed = false;

    for (uint32_t i = 0; i < state->layout->count; i++) {
        struct map_seat known = state->seats[i];
        if (merge_seat(&known, &fresh->seats[i])) {
            map_state_set(state, i, &fresh->seats[i], position);
            tell(listener, state, i, &known);
            changed = true;
        } else {
            state->seats[i].from = fresh->seats[i].from;
            state->seats[i].user_hash = fresh->seats[i].user_hash;
        }
    }
    return changed;
}

static void
merge_into_new_layout(const struct map_state *state, struct map_state *fresh, uint64_t position,
                      struct merge_listener *listener)
{
    for (uint32_t i = 0; i < fresh->layout->count; i++) {
        struct map_seat *seat = &fresh->seats[i];
        uint32_t at = state->layout == NULL
                          ? LAYOUT_NONE
                          : layout_find(state->layout, layout_id(fresh->layout, i));
        const struct map_seat *known = at == LAYOUT_NONE ? NULL : &state->seats[at];
        if (known == NULL || merge_seat(known, seat) ||
            !slice_equal(layout_prefix(state->layout, at), layout_prefix(fresh->layout, i)))
            seat->changed_at = position;
        tell(state->layout == NULL ? NULL : listener, fresh, i, known);
    }
}

static void
take_layout(struct map_state *state, struct map_state *fresh)
{
    layout_put(state->layout);
    free(state->seats);
    seat_ends_fini(&state->ends);
    state->layout = fresh->layout;
    state->seats = fresh->seats;
    state->ends = fresh->ends;
    fresh->layout = NULL;
    fresh->seats = NULL;
    fresh->ends = (struct seat_ends){ 0 };
    choices_follow(state);
}

static void
count_anew(struct map_state *state)
{
    state->counts = (struct seat_map_counts){ 0 };
    state->next_end.us = NEVER;
    for (uint32_t i = 0; i < state->layout->count; i++) {
        tally(&state->counts, &state->seats[i], 1);
        note_end(state, i);
    }
}

bool
map_state_merge(struct map_state *state, struct map_state *fresh, uint64_t position,
                struct merge_listener *listener)
{
    bool changed;

    if (state->layout != NULL && layout_same(state->layout, fresh->layout)) {
        changed = merge_same_layout(state, fresh, position, listener);
    } else {
        bool first = state->layout == NULL;
        merge_into_new_layout(state, fresh, position, listener);
        take_layout(state, fresh);
        if (first || !link_all(state)) {
            /* Without an order of change nothing can be told but the whole. */
            state->floor = position;
            state->newest = LAYOUT_NONE;
            for (uint32_t i = 0; i < state->layout->count; i++)
                link_newest(state, i);
        }
        count_anew(state);
        changed = true;
    }
    changed |= merge_areas(state, fresh);
    if (changed)
        state->position = position;
    map_state_fini(fresh);
    return changed;
}
