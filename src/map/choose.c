/*
 * choose.c - the best free seats of a map, and which of them are under way.
 *
 * Two sets of seats, as bits: FREE, as Postgres had them; OPEN, those of them that nobody has been
 * given to try for (under way) and that nobody just failed to get (doubtful, for a moment).
 *
 * For each number of seats that is asked for, all windows of so many side by side are sorted once,
 * the best first. A choice walks them until one is open. Each list remembers how many at its
 * beginning are not: a sale doesn't look at them again until a seat is freed.
 */
#include "choose.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/ids.h"
#include "holdfast/seating.h"

#define GOOD_MAX   64 /* windows that one is drawn from */
#define SPLITS_MAX 4  /* ways to cut a party in two */
/* Of one way: so many first groups are tried; of one choice, all ways together: so many windows are
 * looked at. Who is then not cut in two sits in more groups. */
#define SPLIT_TRIES_MAX 16
#define SPLIT_LOOKS_MAX 50000
/* Of one choice: the whole, two for each way to cut it, and halves of up to 500. */
_Static_assert(WINDOWS_MAX >= 1 + 2 * SPLITS_MAX + 10, "a choice finds all windows it needs");

#define DOUBT_US (200 * TIME_US_PER_MS)

enum seats_kind { OPEN, FREE, SEATS_KINDS };

/* All windows of `size` seats side by side, by their first seats, the best first. */
struct windows {
    int size; /* 0: none yet */
    uint32_t count;
    uint32_t *starts;
    uint64_t used; /* when last */
    /* So many at the beginning have a seat that is not of that kind, as long as none becomes it. */
    uint32_t from[SEATS_KINDS];
    uint64_t freed[SEATS_KINDS];
};

struct choices {
    struct layout *layout; /* shared */
    uint64_t *kinds[SEATS_KINDS];
    uint64_t *under_way, *doubtful;
    uint64_t *chosen;            /* by the search that runs; else none */
    uint64_t freed[SEATS_KINDS]; /* counts seats that became it */
    int doubts;
    struct mono_time doubted_at; /* the oldest of them */
    uint64_t uses;
    struct windows windows[WINDOWS_MAX];
    uint8_t *row;       /* room for one */
    uint32_t *verdicts; /* of rows, by the walk that judged them */
    uint32_t walks;
    uint64_t looks; /* counts windows that were looked at */
};

uint64_t
choices_looks(const struct choices *choices)
{
    return choices->looks;
}

/* --- which seats are what -------------------------------------------------------- */

static bool
is_free(const struct map_seat *seat)
{
    return seat->status == SEAT_AVAILABLE || (seat->status == SEAT_HELD && seat->over);
}

static void
set_kind(struct choices *choices, enum seats_kind kind, uint32_t i, bool is_it)
{
    bool was = bit_is_set(choices->kinds[kind], i);

    if (is_it && !was) {
        bit_set(choices->kinds[kind], i);
        choices->freed[kind]++;
    } else if (!is_it && was) {
        bit_clear(choices->kinds[kind], i);
    }
}

static void
settle_open(struct choices *choices, uint32_t i)
{
    set_kind(choices, OPEN, i,
             bit_is_set(choices->kinds[FREE], i) && !bit_is_set(choices->under_way, i) &&
                 !bit_is_set(choices->doubtful, i));
}

static void
forget_doubt(struct choices *choices, uint32_t i)
{
    if (!bit_is_set(choices->doubtful, i))
        return;
    bit_clear(choices->doubtful, i);
    choices->doubts--;
}

void
choices_moved(struct choices *choices, uint32_t i, const struct map_seat *now)
{
    if (choices == NULL)
        return;
    forget_doubt(choices, i);
    set_kind(choices, FREE, i, is_free(now));
    settle_open(choices, i);
}

static void
begin_way(struct choices *choices, uint32_t i)
{
    hf_assert(!bit_is_set(choices->under_way, i));
    bit_set(choices->under_way, i);
    settle_open(choices, i);
}

void
choices_give_back(struct choices *choices, uint32_t i, bool is_doubtful, struct mono_time now)
{
    bit_clear(choices->under_way, i);
    if (is_doubtful && !bit_is_set(choices->doubtful, i)) {
        if (choices->doubts++ == 0)
            choices->doubted_at = now;
        bit_set(choices->doubtful, i);
    }
    settle_open(choices, i);
}

/* Who was in the way may be gone. */
static void
forget_old_doubts(struct choices *choices, struct mono_time now)
{
    if (choices->doubts == 0 || now.us - choices->doubted_at.us < DOUBT_US)
        return;
    for (uint32_t i = 0; choices->doubts > 0; i++) {
        forget_doubt(choices, i);
        settle_open(choices, i);
    }
}

/* --- windows -------------------------------------------------------------------------- */

struct ranked {
    int64_t far; /* of all its seats */
    uint32_t start;
};

static int
compare_ranked(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;

    if (a->far != b->far)
        return a->far > b->far ? 1 : -1;
    return (a->start > b->start) - (a->start < b->start);
}

static bool
is_one_block(const struct hall *hall, uint32_t start, uint32_t size)
{
    if (size > hall->count - start)
        return false;
    for (uint32_t i = start; i + 1 < start + size; i++)
        if (bit_is_set(hall->ends, i))
            return false;
    return true;
}

static int64_t
far_of(const struct hall *hall, uint32_t start, int size)
{
    int64_t far = 0;

    for (int i = 0; i < size; i++)
        far += hall->far[start + (uint32_t)i];
    return far;
}

bool
windows_new(const struct layout *layout, int size, struct new_windows *made)
{
    const struct hall *hall = &layout->hall;
    struct ranked *ranked = calloc(hall->count + 1, sizeof(*ranked));

    *made = (struct new_windows){ .size = size };
    for (uint32_t i = 0; ranked != NULL && i < hall->count; i++) {
        if (is_one_block(hall, i, (uint32_t)size))
            ranked[made->count++] = (struct ranked){ far_of(hall, i, size), i };
    }
    made->starts = calloc(made->count + 1, sizeof(*made->starts));
    if (ranked == NULL || made->starts == NULL) {
        free(made->starts);
        free(ranked);
        return false;
    }
    qsort(ranked, made->count, sizeof(*ranked), compare_ranked);
    for (uint32_t i = 0; i < made->count; i++)
        made->starts[i] = ranked[i].start;
    free(ranked);
    return true;
}

/* Those of that size; NULL: they have to be made. */
static struct windows *
find_windows(struct choices *choices, int size)
{
    for (int i = 0; i < WINDOWS_MAX; i++) {
        if (choices->windows[i].size == size) {
            choices->windows[i].used = ++choices->uses;
            return &choices->windows[i];
        }
    }
    return NULL;
}

void
choices_take_windows(struct choices *choices, const struct layout *layout, struct new_windows *made)
{
    struct windows *oldest = &choices->windows[0];

    if (layout != choices->layout || find_windows(choices, made->size) != NULL) {
        free(made->starts);
        return;
    }
    for (int i = 1; i < WINDOWS_MAX; i++)
        if (choices->windows[i].used < oldest->used)
            oldest = &choices->windows[i];
    free(oldest->starts);
    *oldest = (struct windows){
        .size = made->size, .count = made->count, .starts = made->starts, .used = ++choices->uses
    };
}

/* --- life ------------------------------------------------------------------------------- */

void
choices_free(struct choices *choices)
{
    if (choices == NULL)
        return;
    for (int i = 0; i < SEATS_KINDS; i++)
        free(choices->kinds[i]);
    for (int i = 0; i < WINDOWS_MAX; i++)
        free(choices->windows[i].starts);
    free(choices->under_way);
    free(choices->doubtful);
    free(choices->chosen);
    free(choices->row);
    free(choices->verdicts);
    layout_put(choices->layout);
    free(choices);
}

struct choices *
choices_new(const struct map_state *state)
{
    const struct hall *hall = &state->layout->hall;
    struct choices *choices = calloc(1, sizeof(*choices));
    if (choices == NULL)
        return NULL;
    choices->layout = layout_get(state->layout);
    choices->kinds[OPEN] = bits_new(hall->count);
    choices->kinds[FREE] = bits_new(hall->count);
    choices->under_way = bits_new(hall->count);
    choices->doubtful = bits_new(hall->count);
    choices->chosen = bits_new(hall->count);
    choices->row = calloc(hall->row_most + 1, 1);
    choices->verdicts = calloc(hall->row_count + 1, sizeof(*choices->verdicts));
    if (choices->kinds[OPEN] == NULL || choices->kinds[FREE] == NULL ||
        choices->under_way == NULL || choices->doubtful == NULL || choices->chosen == NULL ||
        choices->row == NULL || choices->verdicts == NULL) {
        choices_free(choices);
        return NULL;
    }
    for (uint32_t i = 0; i < hall->count; i++)
        choices_moved(choices, i, &state->seats[i]);
    return choices;
}

void
choices_follow(struct map_state *state)
{
    struct choices *old = state->choices;
    if (old == NULL)
        return;
    struct choices *new = choices_new(state);
    for (uint32_t i = 0; new != NULL &&i < old->layout->count; i++) {
        if (!bit_is_set(old->under_way, i))
            continue;
        uint32_t at = layout_find(state->layout, layout_id(old->layout, i));
        if (at != LAYOUT_NONE)
            begin_way(new, at);
    }
    choices_free(old);
    state->choices = new;
}

/* --- one search --------------------------------------------------------------------------- */

struct search {
    struct choices *choices;
    const struct hall *hall;
    const struct seat_wish *wish;
    enum seats_kind kind;
    uint64_t section, type; /* hashes of the wished ones */
    bool accessible_too;    /* the wished type is one of accessible seats */
    uint32_t *seats;        /* chosen so far */
    int count;
    int missing;     /* windows of that size have to be made first; 0: none */
    bool is_split;   /* what is looked at now is to be one of two groups */
    int split_looks; /* how many windows may still be looked at for that */
};

static bool
is_chosen(const struct search *search, uint32_t seat)
{
    return bit_is_set(search->choices->chosen, seat);
}

static void
add_window(struct search *search, uint32_t start, int size)
{
    for (int i = 0; i < size; i++) {
        bit_set(search->choices->chosen, start + (uint32_t)i);
        search->seats[search->count++] = start + (uint32_t)i;
    }
}

static void
forget_chosen(struct search *search)
{
    while (search->count > 0)
        bit_clear(search->choices->chosen, search->seats[--search->count]);
}

static bool
price_is_wished(const struct seat_wish *wish, int64_t price)
{
    bool any = wish->price_min == INT64_MIN && wish->price_max == INT64_MAX;

    return any || (price != HALL_NO_PRICE && price >= wish->price_min && price <= wish->price_max);
}

static bool
is_wished(const struct search *search, uint32_t seat)
{
    const struct hall *hall = search->hall;
    const struct seat_wish *wish = search->wish;
    bool is_accessible = bit_is_set(hall->accessible, seat);

    if (wish->accessible ? !is_accessible : is_accessible && !search->accessible_too)
        return false;
    if (wish->section.len > 0 && hall->rows[hall->row[seat]].section != search->section)
        return false;
    return (wish->type.len == 0 || hall->type[seat] == search->type) &&
           price_is_wished(wish, hall->price[seat]);
}

/* --- the gap rule --------------------------------------------------------------------------- */

static bool
stays_free(const struct search *search, uint32_t seat)
{
    return bit_is_set(search->choices->kinds[search->kind], seat) && !is_chosen(search, seat);
}

/* What is taken before or after the window leaves no free seat there, or more than one. */
static bool
leaves_one(const struct search *search, uint32_t start, uint32_t size)
{
    const uint64_t *ends = search->hall->ends;
    uint32_t last = start + size - 1, left = start - 1, right = last + 1;

    if (start > 0 && !bit_is_set(ends, left) && stays_free(search, left) &&
        !(left > 0 && !bit_is_set(ends, left - 1) && stays_free(search, left - 1)))
        return true;
    return !bit_is_set(ends, last) && stays_free(search, right) &&
           (bit_is_set(ends, right) || !stays_free(search, right + 1));
}

/* The rule itself, for the window's whole row. */
static bool
row_allows(const struct search *search, uint32_t start, uint32_t size)
{
    const struct hall *hall = search->hall;
    const struct hall_row *row = &hall->rows[hall->row[start]];
    uint8_t *seats = search->choices->row;

    for (uint32_t i = row->first; i < row->end; i++) {
        bool is_taken = !bit_is_set(search->choices->kinds[search->kind], i);
        bool is_ours = (i >= start && i < start + size) || is_chosen(search, i);
        seats[i - row->first] =
            (uint8_t)((is_taken ? SEATING_TAKEN : 0) | (is_ours ? SEATING_CHOSEN : 0) |
                      (bit_is_set(hall->ends, i) ? SEATING_BREAK : 0));
    }
    return seating_left_alone(seats, (int)(row->end - row->first), NULL, 0) == 0;
}

static bool
row_has_chosen(const struct search *search, uint32_t row)
{
    for (int i = 0; i < search->count; i++)
        if (search->hall->row[search->seats[i]] == row)
            return true;
    return false;
}

/* --- walking ---------------------------------------------------------------------------------- */

/* Windows of one size, the best first. */
struct walk {
    struct search *search;
    struct windows *windows; /* NULL: they have to be made */
    uint32_t next;
    uint32_t id; /* among walks, for verdicts; a verdict is 2 * id + whether it is allowed */
};

static struct walk
walk_begin(struct search *search, int size)
{
    struct choices *choices = search->choices;
    struct windows *windows = find_windows(choices, size);
    struct walk walk = { .search = search, .windows = windows };

    if (windows == NULL) {
        search->missing = size;
        return walk;
    }
    if (windows->freed[search->kind] != choices->freed[search->kind]) {
        windows->freed[search->kind] = choices->freed[search->kind];
        windows->from[search->kind] = 0;
    }
    walk.next = windows->from[search->kind];
    choices->walks = choices->walks == UINT32_MAX / 2 ? 1 : choices->walks + 1;
    if (choices->walks == 1)
        memset(choices->verdicts, 0, search->hall->row_count * sizeof(*choices->verdicts));
    walk.id = choices->walks;
    return walk;
}

/* All windows that would leave a seat alone in a row stand or fall together: there is a better
 * choice in it, or none. */
static bool
is_allowed(const struct walk *walk, uint32_t start)
{
    const struct search *search = walk->search;
    uint32_t size = (uint32_t)walk->windows->size, row = search->hall->row[start];
    uint32_t *verdict = &search->choices->verdicts[row];

    if (!search->wish->no_gap || !leaves_one(search, start, size))
        return true;
    if (row_has_chosen(search, row))
        return row_allows(search, start, size);
    if (*verdict / 2 != walk->id)
        *verdict = 2 * walk->id + row_allows(search, start, size);
    return *verdict % 2;
}

static bool
has_all(const uint64_t *bits, uint32_t start, uint32_t size)
{
    for (uint32_t i = start, end = start + size; i < end;) {
        uint32_t at = i % BITS_WORD, most = BITS_WORD - at;
        uint32_t count = end - i < most ? end - i : most;
        uint64_t asked = (UINT64_MAX >> (BITS_WORD - count)) << at;
        if ((bits[i / BITS_WORD] & asked) != asked)
            return false;
        i += count;
    }
    return true;
}

/* Counts a look. False: none is left for this. */
static bool
may_look(struct search *search)
{
    if (search->is_split && search->split_looks-- <= 0)
        return false;
    search->choices->looks++;
    return true;
}

static bool
fits(const struct walk *walk, uint32_t start)
{
    const struct search *search = walk->search;

    for (uint32_t i = start; i < start + (uint32_t)walk->windows->size; i++)
        if (!is_wished(search, i) || is_chosen(search, i))
            return false;
    return is_allowed(walk, start);
}

/* The first seat of the next window that fits; LAYOUT_NONE: there is none. */
static uint32_t
walk_next(struct walk *walk)
{
    struct windows *windows = walk->windows;
    enum seats_kind kind = walk->search->kind;
    const uint64_t *bits = walk->search->choices->kinds[kind];

    while (windows != NULL && walk->next < windows->count && may_look(walk->search)) {
        uint32_t at = walk->next++, start = windows->starts[at];
        if (has_all(bits, start, (uint32_t)windows->size)) {
            if (fits(walk, start))
                return start;
        } else if (windows->from[kind] == at) {
            windows->from[kind]++;
        }
    }
    return LAYOUT_NONE;
}

static bool
overlaps_any(const uint32_t *starts, uint32_t count, uint32_t start, uint32_t size)
{
    for (uint32_t i = 0; i < count; i++)
        if (start < starts[i] + size && starts[i] < start + size)
            return true;
    return false;
}

/*
 * Adds the best window of that size, or one of the good ones. False: none fits. The good ones are
 * those that as many parties in turn would get: whoever gets one leaves the others whole.
 */
static bool
add_best(struct search *search, int size)
{
    struct walk walk = walk_begin(search, size);
    uint32_t good[GOOD_MAX], start;
    uint32_t most = search->wish->among < GOOD_MAX ? search->wish->among : GOOD_MAX;
    uint32_t found = 0;

    while (found < most && (start = walk_next(&walk)) != LAYOUT_NONE)
        if (!overlaps_any(good, found, start, (uint32_t)size))
            good[found++] = start;
    if (found > 0)
        add_window(search, good[search->wish->random % found], size);
    return found > 0;
}

/* --- in two groups ------------------------------------------------------------------------------
 */

struct pair {
    uint32_t first, second; /* LAYOUT_NONE: there is none */
    int first_size;
    int64_t far;
};

/*
 * The best two windows of these sizes. The best second one may overlap the best first one, but not
 * more first ones than the party has seats.
 */
static void
try_split(struct search *search, int first_size, struct pair *best)
{
    int size = search->wish->quantity, second_size = size - first_size;
    struct walk firsts = walk_begin(search, first_size);
    uint32_t first;

    for (int tries = 0;
         tries <= size && tries < SPLIT_TRIES_MAX && (first = walk_next(&firsts)) != LAYOUT_NONE;
         tries++) {
        add_window(search, first, first_size);
        struct walk seconds = walk_begin(search, second_size);
        uint32_t second = walk_next(&seconds);
        forget_chosen(search);
        if (second == LAYOUT_NONE)
            continue;
        int64_t far =
            far_of(search->hall, first, first_size) + far_of(search->hall, second, second_size);
        if (far < best->far)
            *best = (struct pair){ first, second, first_size, far };
    }
}

static bool
add_two_groups(struct search *search)
{
    int size = search->wish->quantity, half = (size + 1) / 2;
    int step = (size - 1 - half) / SPLITS_MAX + 1;
    struct pair best = { LAYOUT_NONE, LAYOUT_NONE, 0, INT64_MAX };

    search->is_split = true;
    for (int first_size = size - 1; first_size >= half; first_size -= step)
        try_split(search, first_size, &best);
    search->is_split = false;
    if (search->missing > 0 || best.first == LAYOUT_NONE)
        return false;
    add_window(search, best.first, best.first_size);
    add_window(search, best.second, size - best.first_size);
    return true;
}

/* --- however they stand
 * --------------------------------------------------------------------------- */

/* The best seats one by one; where the rule forbids gaps, in groups that are as large as halving
 * the rest finds them. */
static bool
add_any(struct search *search)
{
    int size = search->wish->no_gap ? search->wish->quantity : 1;

    while (search->missing == 0 && search->count < search->wish->quantity) {
        int rest = search->wish->quantity - search->count;
        if (size > rest)
            size = rest;
        struct walk walk = walk_begin(search, size);
        uint32_t start;
        while (search->wish->quantity - search->count >= size &&
               (start = walk_next(&walk)) != LAYOUT_NONE)
            add_window(search, start, size);
        if (search->count == search->wish->quantity)
            return true;
        if (size == 1)
            break;
        size = (size + 1) / 2 < size ? (size + 1) / 2 : 1;
    }
    forget_chosen(search);
    return false;
}

/* --- the choice
 * -------------------------------------------------------------------------------------- */

static bool
find(struct search *search, enum seats_kind kind)
{
    const struct seat_wish *wish = search->wish;

    search->kind = kind;
    forget_chosen(search);
    if (add_best(search, wish->quantity))
        return true;
    if (wish->adjacent || wish->quantity == 1 || search->missing > 0)
        return false;
    return add_two_groups(search) || (search->missing == 0 && add_any(search));
}

static int
count_free(const struct search *search)
{
    const uint64_t *bits = search->choices->kinds[FREE];
    int count = 0;

    for (uint32_t i = 0; i < search->hall->count && count < search->wish->quantity; i++)
        count += bit_is_set(bits, i) && is_wished(search, i);
    return count;
}

static int
compare_seats(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

static void
take(struct search *search, char (*ids)[ID_BYTES_MAX + 1])
{
    qsort(search->seats, (size_t)search->count, sizeof(*search->seats), compare_seats);
    for (int i = 0; i < search->count; i++) {
        struct slice id = layout_id(search->choices->layout, search->seats[i]);
        begin_way(search->choices, search->seats[i]);
        memcpy(ids[i], id.ptr, id.len);
        ids[i][id.len] = '\0';
    }
}

enum seat_choice
choices_choose(struct choices *choices, const struct seat_wish *wish, struct mono_time now,
               char (*ids)[ID_BYTES_MAX + 1], int *missing)
{
    uint32_t seats[SEATS_CHOSEN_MAX];
    struct search search = {
        .choices = choices,
        .hall = &choices->layout->hall,
        .wish = wish,
        .section = hash_seeded(wish->section.ptr, wish->section.len),
        .type = hash_seeded(wish->type.ptr, wish->type.len),
        .accessible_too = hall_type_is_accessible(wish->type),
        .seats = seats,
        .split_looks = SPLIT_LOOKS_MAX,
    };
    enum seat_choice choice;

    hf_assert(wish->quantity >= 1 && wish->quantity <= SEATS_CHOSEN_MAX && wish->among >= 1);
    forget_old_doubts(choices, now);
    if (find(&search, OPEN)) {
        take(&search, ids);
        choice = SEAT_CHOICE_MADE;
    } else if (search.missing == 0 && find(&search, FREE)) {
        choice = SEAT_CHOICE_LATER;
    } else {
        choice = count_free(&search) < wish->quantity ? SEAT_CHOICE_TOO_FEW : SEAT_CHOICE_APART;
    }
    forget_chosen(&search);
    *missing = search.missing;
    return choice;
}
