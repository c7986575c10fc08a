/*
 * hall.c - an event's seats as places: who sits next to whom, how far it is to the focal point,
 * what a buyer may wish of a seat.
 *
 * A distance is a whole number of 2^-40 of the house's size, so that sums of them are exact and
 * what is symmetric is equal. Without coordinates of every seat, a seat's distance is its place in
 * display order.
 */
#include <math.h>
#include <stdlib.h>

#include "holdfast/cold.h"
#include "holdfast/ids.h"
#include "holdfast/seating.h"
#include "map_internal.h"

/* Columns of read_seat_map. */
enum { SECTION = 1, ROW, NUMBER, TYPE, PRICE, X, Y, STATUS, AISLE_AFTER = 12, ACCESSIBLE };
enum { FOCAL_X = ACCESSIBLE + 1, FOCAL_Y };

#define DISTANCE_BITS 40 /* and 9 for a sum of 500 */

/* What a house is made from. */
struct plan {
    struct hall *hall;
    const struct pg_result *rows;
    const int *row_of;
};

static struct slice
text_of(const struct plan *plan, uint32_t seat, int column)
{
    return pg_get_text(plan->rows, plan->row_of[seat], column);
}

/* --- rows and blocks ---------------------------------------------------------------- */

static bool
is_same_row(const struct plan *plan, uint32_t a, uint32_t b)
{
    return slice_equal(text_of(plan, a, SECTION), text_of(plan, b, SECTION)) &&
           slice_equal(text_of(plan, a, ROW), text_of(plan, b, ROW));
}

/* Display order puts the seats of a row side by side, in the order of their numbers. */
static uint32_t
end_of_row(const struct plan *plan, uint32_t first)
{
    uint32_t end = first + 1;

    while (end < plan->hall->count && is_same_row(plan, first, end))
        end++;
    return end;
}

/*
 * A removed seat is a place that nobody can be given: for who sits next to whom that is the same as
 * none.
 */
static void
cut_row(const struct plan *plan, struct seating_label *labels, uint8_t *ends, uint32_t first,
        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        labels[i] = (struct seating_label){
            .number = text_of(plan, first + i, NUMBER),
            .aisle_after = pg_get_bool(plan->rows, plan->row_of[first + i], AISLE_AFTER),
            .tag = (int)i,
        };
    }
    (void)seating_order(labels, (int)count, ends);
    for (uint32_t i = 0; i < count; i++) {
        hf_assert(labels[i].tag == (int)i);
        if (ends[i] & SEATING_BREAK)
            bit_set(plan->hall->ends, first + i);
    }
}

static bool
cut_rows(const struct plan *plan)
{
    struct hall *hall = plan->hall;
    struct seating_label *labels = calloc(hall->count + 1, sizeof(*labels));
    uint8_t *ends = calloc(hall->count + 1, 1);
    bool is_done = labels != NULL && ends != NULL;

    for (uint32_t first = 0, end; is_done && first < hall->count; first = end) {
        end = end_of_row(plan, first);
        struct slice section = text_of(plan, first, SECTION);
        cut_row(plan, labels, ends, first, end - first);
        hall->rows[hall->row_count] = (struct hall_row){
            .first = first, .end = end, .section = hash_seeded(section.ptr, section.len)
        };
        if (end - first > hall->row_most)
            hall->row_most = end - first;
        for (uint32_t i = first; i < end; i++)
            hall->row[i] = hall->row_count;
        hall->row_count++;
    }
    free(ends);
    free(labels);
    return is_done;
}

/* --- wishes ---------------------------------------------------------------------------- */

bool
hall_type_is_accessible(struct slice type)
{
    return slice_is(type, "accessible") || slice_is(type, "wheelchair");
}

static void
note_wishes(const struct plan *plan)
{
    struct hall *hall = plan->hall;

    for (uint32_t i = 0; i < hall->count; i++) {
        int row = plan->row_of[i];
        struct slice type = pg_get_text(plan->rows, row, TYPE);
        hall->type[i] = hash_seeded(type.ptr, type.len);
        hall->price[i] =
            pg_is_null(plan->rows, row, PRICE) ? HALL_NO_PRICE : pg_get_int(plan->rows, row, PRICE);
        if (pg_get_bool(plan->rows, row, ACCESSIBLE) || hall_type_is_accessible(type))
            bit_set(hall->accessible, i);
    }
}

/* --- distances --------------------------------------------------------------------------- */

struct point {
    double x, y;
};

/* What was meant by a float4: 0.1, not 0.100000001. Else what is symmetric wouldn't be. */
static double
coordinate(const struct plan *plan, int row, int column)
{
    float value = (float)pg_get_double(plan->rows, row, column);
    double thousands = round((double)value * 1000) / 1000;

    return (float)thousands == value ? thousands : (double)value;
}

static bool
is_removed(const struct plan *plan, int row)
{
    return slice_is(pg_get_text(plan->rows, row, STATUS), "removed");
}

/* False: some seat has none, or there are no seats. *front: the middle of the x range, least y. */
static bool
find_front(const struct plan *plan, struct point *front)
{
    double least_x = INFINITY, most_x = -INFINITY, least_y = INFINITY;

    for (int row = 0; row < (int)plan->hall->count; row++) {
        if (is_removed(plan, row))
            continue;
        if (pg_is_null(plan->rows, row, X) || pg_is_null(plan->rows, row, Y))
            return false;
        double x = coordinate(plan, row, X);
        least_x = fmin(least_x, x);
        most_x = fmax(most_x, x);
        least_y = fmin(least_y, coordinate(plan, row, Y));
    }
    *front = (struct point){ (least_x + most_x) / 2, least_y };
    return most_x >= least_x;
}

static struct point
focal_point(const struct plan *plan, struct point front)
{
    if (pg_is_null(plan->rows, 0, FOCAL_X) || pg_is_null(plan->rows, 0, FOCAL_Y))
        return front;
    return (struct point){ coordinate(plan, 0, FOCAL_X), coordinate(plan, 0, FOCAL_Y) };
}

static double
distance(const struct plan *plan, uint32_t seat, struct point from)
{
    int row = plan->row_of[seat];

    if (is_removed(plan, row))
        return 0;
    return hypot(coordinate(plan, row, X) - from.x, coordinate(plan, row, Y) - from.y);
}

static void
measure(const struct plan *plan)
{
    struct hall *hall = plan->hall;
    struct point focal;
    double most = 0;
    int exponent;

    if (!find_front(plan, &focal)) {
        for (uint32_t i = 0; i < hall->count; i++)
            hall->far[i] = i;
        return;
    }
    focal = focal_point(plan, focal);
    for (uint32_t i = 0; i < hall->count; i++)
        most = fmax(most, distance(plan, i, focal));
    (void)frexp(most, &exponent);
    for (uint32_t i = 0; i < hall->count; i++)
        hall->far[i] = llrint(ldexp(distance(plan, i, focal), DISTANCE_BITS - exponent));
}

/* --- the whole ------------------------------------------------------------------------------- */

bool
hall_init(struct hall *hall, const struct pg_result *rows, const int *row_of, uint32_t count)
{
    struct plan plan = { hall, rows, row_of };

    *hall = (struct hall){ .count = count };
    hall->ends = bits_new(count);
    hall->accessible = bits_new(count);
    hall->far = calloc(count + 1, sizeof(*hall->far));
    hall->price = calloc(count + 1, sizeof(*hall->price));
    hall->type = calloc(count + 1, sizeof(*hall->type));
    hall->row = calloc(count + 1, sizeof(*hall->row));
    hall->rows = calloc(count + 1, sizeof(*hall->rows));
    if (hall->ends == NULL || hall->accessible == NULL || hall->far == NULL ||
        hall->price == NULL || hall->type == NULL || hall->row == NULL || hall->rows == NULL ||
        !cut_rows(&plan)) {
        hall_fini(hall);
        return false;
    }
    struct hall_row *fitting = realloc(hall->rows, (hall->row_count + 1) * sizeof(*hall->rows));
    if (fitting != NULL)
        hall->rows = fitting;
    note_wishes(&plan);
    measure(&plan);
    return true;
}

void
hall_fini(struct hall *hall)
{
    free(hall->ends);
    free(hall->accessible);
    free(hall->far);
    free(hall->price);
    free(hall->type);
    free(hall->row);
    free(hall->rows);
    *hall = (struct hall){ 0 };
}
