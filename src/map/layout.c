/*
 * layout.c - the seats of an event in display order, with the JSON that never changes.
 *
 * All prefixes stand in one piece of text, in order, so that writing a map walks
 * memory forwards. An id has no character that JSON would escape, so it is found in
 * its own prefix and needs no copy.
 */
#include <stdlib.h>
#include <string.h>

#include "holdfast/cold.h"
#include "holdfast/ids.h"
#include "holdfast/json.h"
#include "holdfast/seating.h"
#include "map_internal.h"

#define PREFIX_HEAD "{\"seat_id\":\""

/* Columns of read_seat_map. */
enum { SEAT, SECTION, ROW, NUMBER, TYPE, PRICE, X, Y, STATUS, AISLE_AFTER = 12, ACCESSIBLE };
enum { FOCAL_X = ACCESSIBLE + 1, FOCAL_Y };

/* A row and what it is sorted by; the slices are the result's. */
struct sort_key {
    struct slice section, row, number, id;
    int at;
};

static int
compare_keys(const void *left, const void *right)
{
    const struct sort_key *a = left;
    const struct sort_key *b = right;
    int order = natural_compare(a->section, b->section);

    if (order == 0)
        order = natural_compare(a->row, b->row);
    if (order == 0)
        order = natural_compare(a->number, b->number);
    return order != 0 ? order : natural_compare(a->id, b->id);
}

/* The rows' numbers in display order; NULL: no memory. */
static int *
sorted_rows(const struct pg_result *rows, uint32_t count)
{
    struct sort_key *keys = calloc(count + 1, sizeof(*keys));
    int *order = calloc(count + 1, sizeof(*order));
    if (keys == NULL || order == NULL) {
        free(keys);
        free(order);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        int at = (int)i;
        keys[i] =
            (struct sort_key){ pg_get_text(rows, at, SECTION), pg_get_text(rows, at, ROW),
                               pg_get_text(rows, at, NUMBER), pg_get_text(rows, at, SEAT), at };
    }
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (uint32_t i = 0; i < count; i++)
        order[i] = keys[i].at;
    free(keys);
    return order;
}

static uint64_t
mix(uint64_t print, const void *bytes, size_t len)
{
    return (print ^ hash_seeded(bytes, len)) * 0x9E3779B97F4A7C15U;
}

static uint64_t
mix_number(uint64_t print, const struct pg_result *rows, int row, int column)
{
    double value = pg_get_double(rows, row, column);

    return mix(print + pg_is_null(rows, row, column), &value, sizeof(value));
}

/* All that a prefix and a place in the house are made from; a null differs from an empty text. */
static uint64_t
print_of(const struct pg_result *rows, int row)
{
    uint64_t print = 0;

    for (int column = SECTION; column <= TYPE; column++) {
        struct slice text = pg_get_text(rows, row, column);
        print = mix(print + pg_is_null(rows, row, column), text.ptr, text.len);
    }
    int64_t price = pg_is_null(rows, row, PRICE) ? -1 : pg_get_int(rows, row, PRICE);
    print = mix(print, &price, sizeof(price));
    for (int column = X; column <= Y; column++)
        print = mix_number(print, rows, row, column);
    for (int column = FOCAL_X; column <= FOCAL_Y; column++)
        print = mix_number(print, rows, row, column);
    bool flags[] = { pg_get_bool(rows, row, AISLE_AFTER), pg_get_bool(rows, row, ACCESSIBLE),
                     slice_is(pg_get_text(rows, row, STATUS), "removed") };
    return mix(print, flags, sizeof(flags));
}

static void
write_coordinate(struct json_writer *w, const char *name, const struct pg_result *rows, int row,
                 int column)
{
    if (pg_is_null(rows, row, column))
        return;
    json_name(w, name);
    json_float(w, (float)pg_get_double(rows, row, column));
}

static void
write_prefix(struct buf *out, const struct pg_result *rows, int row)
{
    struct json_writer w;

    json_writer_init(&w, out);
    json_object_begin(&w);
    json_field_text(&w, "seat_id", pg_get_text(rows, row, SEAT));
    json_field_text(&w, "section", pg_get_text(rows, row, SECTION));
    json_field_text(&w, "row", pg_get_text(rows, row, ROW));
    json_field_text(&w, "number", pg_get_text(rows, row, NUMBER));
    if (!pg_is_null(rows, row, TYPE))
        json_field_text(&w, "type", pg_get_text(rows, row, TYPE));
    if (!pg_is_null(rows, row, PRICE))
        json_field_int(&w, "price", pg_get_int(rows, row, PRICE));
    write_coordinate(&w, "x", rows, row, X);
    write_coordinate(&w, "y", rows, row, Y);
    buf_append_text(out, ",\"status\":");
}

static bool
write_prefixes(struct layout *layout, const struct pg_result *rows, const int *row_of)
{
    struct buf text = { 0 };

    for (uint32_t i = 0; i < layout->count; i++) {
        layout->starts[i] = (uint32_t)text.len;
        layout->prints[i] = print_of(rows, row_of[i]);
        layout->id_lens[i] = (uint8_t)pg_get_text(rows, row_of[i], SEAT).len;
        write_prefix(&text, rows, row_of[i]);
    }
    if (text.failed || text.len > UINT32_MAX) {
        buf_fini(&text);
        return false;
    }
    layout->starts[layout->count] = (uint32_t)text.len;
    layout->text = text.data; /* owned from here on */
    layout->text_len = text.len;
    return true;
}

static void
fill_slots(struct layout *layout)
{
    for (uint32_t i = 0; i <= layout->slot_mask; i++)
        layout->slots[i] = LAYOUT_NONE;
    for (uint32_t i = 0; i < layout->count; i++) {
        struct slice id = layout_id(layout, i);
        uint32_t slot = (uint32_t)hash_seeded(id.ptr, id.len) & layout->slot_mask;
        while (layout->slots[slot] != LAYOUT_NONE)
            slot = (slot + 1) & layout->slot_mask;
        layout->slots[slot] = i;
    }
}

static void
layout_free(struct layout *layout)
{
    hall_fini(&layout->hall);
    free(atomic_load(&layout->by_row));
    free(layout->text);
    free(layout->id_lens);
    free(layout->prints);
    free(layout->starts);
    free(layout->slots);
    free(layout);
}

static struct layout *
layout_alloc(uint32_t count)
{
    struct layout *layout = calloc(1, sizeof(*layout));
    if (layout == NULL)
        return NULL;
    uint32_t slots = 2;
    while (slots < 2 * count)
        slots *= 2;
    layout->count = count;
    layout->slot_mask = slots - 1;
    layout->slots = malloc(slots * sizeof(*layout->slots));
    layout->starts = calloc(count + 1, sizeof(*layout->starts));
    layout->prints = calloc(count + 1, sizeof(*layout->prints));
    layout->id_lens = calloc(count + 1, sizeof(*layout->id_lens));
    atomic_init(&layout->refs, 1);
    if (layout->slots == NULL || layout->starts == NULL || layout->prints == NULL ||
        layout->id_lens == NULL) {
        layout_free(layout);
        return NULL;
    }
    return layout;
}

struct layout *
layout_new(const struct pg_result *rows, int **row_of)
{
    uint32_t count = (uint32_t)pg_rows(rows);
    int *order = sorted_rows(rows, count);
    struct layout *layout = order == NULL ? NULL : layout_alloc(count);

    if (layout != NULL &&
        (!write_prefixes(layout, rows, order) || !hall_init(&layout->hall, rows, order, count))) {
        layout_free(layout);
        layout = NULL;
    }
    if (layout == NULL) {
        free(order);
        return NULL;
    }
    fill_slots(layout);
    *row_of = order;
    return layout;
}

bool
layout_matches(const struct layout *layout, const struct pg_result *rows, int **row_of)
{
    if ((uint32_t)pg_rows(rows) != layout->count)
        return false;
    int *order = calloc(layout->count + 1, sizeof(*order));
    for (int row = 0; order != NULL && row < pg_rows(rows); row++) {
        /* Ids are unique in the table: as many rows as seats, each found, is all of them. */
        uint32_t seat = layout_find(layout, pg_get_text(rows, row, SEAT));
        if (seat == LAYOUT_NONE || layout->prints[seat] != print_of(rows, row)) {
            free(order);
            return false;
        }
        order[seat] = row;
    }
    *row_of = order;
    return order != NULL;
}

struct layout *
layout_get(struct layout *layout)
{
    atomic_fetch_add_explicit(&layout->refs, 1, memory_order_relaxed);
    return layout;
}

void
layout_put(struct layout *layout)
{
    if (layout != NULL && atomic_fetch_sub_explicit(&layout->refs, 1, memory_order_acq_rel) == 1)
        layout_free(layout);
}

bool
layout_same(const struct layout *a, const struct layout *b)
{
    return a == b || (a->count == b->count && a->text_len == b->text_len &&
                      memcmp(a->prints, b->prints, a->count * sizeof(*a->prints)) == 0 &&
                      (a->text_len == 0 || memcmp(a->text, b->text, a->text_len) == 0));
}

struct slice
layout_prefix(const struct layout *layout, uint32_t seat)
{
    hf_assert(seat < layout->count);
    return (struct slice){ layout->text + layout->starts[seat],
                           layout->starts[seat + 1] - layout->starts[seat] };
}

struct slice
layout_id(const struct layout *layout, uint32_t seat)
{
    struct slice prefix = layout_prefix(layout, seat);
    return (struct slice){ prefix.ptr + sizeof(PREFIX_HEAD) - 1, layout->id_lens[seat] };
}

uint32_t
layout_find(const struct layout *layout, struct slice id)
{
    uint32_t slot = (uint32_t)hash_seeded(id.ptr, id.len) & layout->slot_mask;

    for (; layout->slots[slot] != LAYOUT_NONE; slot = (slot + 1) & layout->slot_mask) {
        if (slice_equal(layout_id(layout, layout->slots[slot]), id))
            return layout->slots[slot];
    }
    return LAYOUT_NONE;
}

/* --- by row ------------------------------------------------------------------ */

/* Cuts the next JSON string off *rest and gives it without its quotes, escapes as they stand. */
static struct slice
next_string(struct slice *rest)
{
    const char *end = rest->ptr + rest->len;
    const char *begin = (const char *)memchr(rest->ptr, '"', rest->len) + 1;
    const char *at = begin;

    while (*at != '"')
        at += *at == '\\' ? 2 : 1;
    *rest = (struct slice){ at + 1, (size_t)(end - at - 1) };
    return (struct slice){ begin, (size_t)(at - begin) };
}

/* What a prefix begins with: seat_id, section, row and number, each with its name. */
static struct sort_key
row_key(const struct layout *layout, uint32_t seat)
{
    struct slice rest = layout_prefix(layout, seat);
    struct slice texts[8];

    for (int i = 0; i < 8; i++)
        texts[i] = next_string(&rest);
    return (struct sort_key){
        .section = SLICE_EMPTY, .row = texts[5], .number = texts[7], .id = texts[1], .at = (int)seat
    };
}

static uint32_t *
sort_by_row(const struct layout *layout)
{
    struct sort_key *keys = calloc(layout->count + 1, sizeof(*keys));
    uint32_t *order = calloc(layout->count + 1, sizeof(*order));

    for (uint32_t i = 0; keys != NULL && i < layout->count; i++)
        keys[i] = row_key(layout, i);
    if (keys != NULL)
        qsort(keys, layout->count, sizeof(*keys), compare_keys);
    for (uint32_t i = 0; keys != NULL && order != NULL && i < layout->count; i++)
        order[i] = (uint32_t)keys[i].at;
    if (keys == NULL) {
        free(order);
        order = NULL;
    }
    free(keys);
    return order;
}

const uint32_t *
layout_by_row(struct layout *layout)
{
    uint32_t *known = atomic_load(&layout->by_row);
    uint32_t *made = known == NULL ? sort_by_row(layout) : NULL;

    if (made == NULL || atomic_compare_exchange_strong(&layout->by_row, &known, made))
        return made != NULL ? made : known;
    free(made); /* another one was quicker */
    return known;
}
