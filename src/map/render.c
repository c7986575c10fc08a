/*
 * render.c - what a map says, as JSON; and the same, compressed.
 *
 * A snapshot is copied under the map's lock (some 60 bytes a seat); the writing, which
 * takes much longer, is done from the copy. Seats go out in display order.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "holdfast/http.h"
#include "holdfast/json.h"
#include "map_internal.h"

#define SEAT_TAIL_BYTES                                                                            \
    96                       /* status, version, held_until and braces of one seat: 84 at the most \
                              */
#define SEATS_FRAME_BYTES 16 /* the list's name and brackets */
#define GZIP_LEVEL        1  /* a map compresses well; time counts more than the last tenth */
#define GZIP_WINDOW       (15 + 16) /* zlib's way to say: gzip, not zlib */

/* --- the snapshot ---------------------------------------------------------- */

uint32_t
snapshot_count(const struct map_state *state, const struct map_reader *reader, uint32_t most)
{
    uint32_t count = 0;
    uint32_t i = state->newest;

    while (i != LAYOUT_NONE && count < most && state->seats[i].changed_at > reader->position) {
        count++;
        i = state->seats[i].older;
    }
    return count;
}

static int
compare_index(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

static void
pick_changed(struct snapshot *shot, const struct map_state *state, const struct map_reader *reader)
{
    for (uint32_t i = state->newest;
         i != LAYOUT_NONE && state->seats[i].changed_at > reader->position;
         i = state->seats[i].older) {
        if (reader_lacks(reader, &state->seats[i]))
            shot->index[shot->count++] = i;
    }
    qsort(shot->index, shot->count, sizeof(*shot->index), compare_index);
}

static void
pick_standing(struct snapshot *shot, const struct map_state *state)
{
    for (uint32_t i = 0; i < state->layout->count; i++) {
        if (state->seats[i].status != SEAT_REMOVED)
            shot->index[shot->count++] = i;
    }
}

static bool
copy_areas(struct snapshot *shot, const struct map_state *state)
{
    shot->areas = calloc((size_t)state->area_count + 1, sizeof(*shot->areas));
    if (shot->areas == NULL)
        return false;
    for (; shot->area_count < state->area_count; shot->area_count++) {
        struct map_area *area = &shot->areas[shot->area_count];
        *area = state->areas[shot->area_count];
        area->name = strdup(area->name);
        if (area->name == NULL)
            return false;
    }
    return true;
}

bool
snapshot_take(struct snapshot *shot, const struct map_state *state, const struct map_reader *reader)
{
    uint32_t room = reader->has_nothing ? state->layout->count
                                        : snapshot_count(state, reader, state->layout->count);

    memset(shot, 0, sizeof(*shot));
    shot->layout = layout_get(state->layout);
    shot->position = state->position;
    shot->full = reader->has_nothing;
    shot->index = malloc((room + 1) * sizeof(*shot->index));
    shot->seats = malloc((room + 1) * sizeof(*shot->seats));
    if (shot->index == NULL || shot->seats == NULL || !copy_areas(shot, state)) {
        snapshot_fini(shot);
        return false;
    }
    if (shot->full)
        pick_standing(shot, state);
    else
        pick_changed(shot, state, reader);
    for (uint32_t k = 0; k < shot->count; k++)
        shot->seats[k] = state->seats[shot->index[k]];
    return true;
}

void
snapshot_fini(struct snapshot *shot)
{
    layout_put(shot->layout);
    free(shot->index);
    free(shot->seats);
    for (int i = 0; i < shot->area_count; i++)
        free(shot->areas[i].name);
    free(shot->areas);
    memset(shot, 0, sizeof(*shot));
}

/* --- writing ------------------------------------------------------------------ */

static void
write_area(struct json_writer *w, const struct map_area *area)
{
    json_object_begin(w);
    json_field_text(w, "area_id", slice_of(area->id));
    json_name(w, "name");
    json_raw(w, slice_of(area->name));
    json_field_int(w, "capacity", area->capacity);
    json_field_int(w, "available", area->capacity - area->held - area->sold);
    json_field_int(w, "held", area->held);
    json_field_int(w, "sold", area->sold);
    if (area->has_price)
        json_field_int(w, "price", area->price);
    json_object_end(w);
}

static void
write_head(struct buf *out, const struct snapshot *shot, struct slice event, struct slice show,
           const char *version)
{
    struct json_writer w;

    json_writer_init(&w, out);
    json_object_begin(&w);
    if (show.len > 0) {
        json_name(&w, "show");
        json_raw(&w, show);
    } else {
        json_field_text(&w, "event_id", event);
    }
    json_field_text(&w, "version", slice_of(version));
    if (shot->full && show.len == 0)
        json_field_bool(&w, "full", true);
    json_name(&w, "areas");
    json_array_begin(&w);
    for (int i = 0; i < shot->area_count; i++)
        write_area(&w, &shot->areas[i]);
    json_array_end(&w);
}

/*
 * Seats are most of a body, so they are written without a check per piece: room for all of
 * them is made first.
 */
struct pen {
    char *at;
};

static inline void
pen_bytes(struct pen *pen, const char *bytes, size_t len)
{
    memcpy(pen->at, bytes, len);
    pen->at += len;
}

#define PEN(pen, literal) pen_bytes((pen), (literal), sizeof(literal) - 1)

static void
pen_int(struct pen *pen, int64_t number)
{
    char digits[20];
    size_t at = sizeof(digits);
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;

    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0)
        *pen->at++ = '-';
    pen_bytes(pen, digits + at, sizeof(digits) - at);
}

static void
pen_status(struct pen *pen, enum seat_status status)
{
    switch (status) {
    case SEAT_AVAILABLE:
        PEN(pen, "\"available\",\"version\":");
        break;
    case SEAT_HELD:
        PEN(pen, "\"held\",\"version\":");
        break;
    case SEAT_SOLD:
        PEN(pen, "\"sold\",\"version\":");
        break;
    case SEAT_BLOCKED:
        PEN(pen, "\"blocked\",\"version\":");
        break;
    case SEAT_REMOVED:
        PEN(pen, "\"removed\",\"version\":");
        break;
    }
}

static void
pen_seat(struct pen *pen, struct slice prefix, const struct map_seat *seat)
{
    bool held = seat->status == SEAT_HELD && !seat->over;

    pen_bytes(pen, prefix.ptr, prefix.len);
    pen_status(pen, seat->status == SEAT_HELD && seat->over ? SEAT_AVAILABLE : seat->status);
    pen_int(pen, seat->version);
    if (held) {
        PEN(pen, ",\"held_until\":\"");
        db_time_format(seat->until, pen->at); /* its NUL is overwritten */
        pen->at += DB_TIME_TEXT_BYTES - 1;
        PEN(pen, "\"");
    }
    PEN(pen, "}");
}

/* A removed seat says only that: its place is nobody's any more. */
static void
pen_removed(struct pen *pen, struct slice id, const struct map_seat *seat)
{
    PEN(pen, "{\"seat_id\":\"");
    pen_bytes(pen, id.ptr, id.len);
    PEN(pen, "\",\"status\":");
    pen_status(pen, SEAT_REMOVED);
    pen_int(pen, seat->version);
    PEN(pen, "}");
}

/* What the seats take at the most: a removed one takes less than its prefix. */
static size_t
seats_bytes(const struct snapshot *shot)
{
    size_t prefixes = 0;

    for (uint32_t k = 0; k < shot->count; k++)
        prefixes += layout_prefix(shot->layout, shot->index[k]).len;
    return prefixes + (size_t)shot->count * SEAT_TAIL_BYTES + SEATS_FRAME_BYTES;
}

static void
pen_seats(struct pen *pen, const struct snapshot *shot)
{
    PEN(pen, ",\"seats\":[");
    for (uint32_t k = 0; k < shot->count; k++) {
        if (k > 0)
            PEN(pen, ",");
        if (shot->seats[k].status == SEAT_REMOVED)
            pen_removed(pen, layout_id(shot->layout, shot->index[k]), &shot->seats[k]);
        else
            pen_seat(pen, layout_prefix(shot->layout, shot->index[k]), &shot->seats[k]);
    }
    PEN(pen, "]}");
}

/* Head and seats, in memory that is the body's from the start. */
static struct http_body *
put_together(const struct snapshot *shot, const struct buf *head)
{
    size_t room = head->len + seats_bytes(shot);
    struct http_body *body = http_body_alloc(room);
    if (body == NULL)
        return NULL;
    struct pen pen = { body->bytes };
    pen_bytes(&pen, head->data, head->len);
    pen_seats(&pen, shot);
    body->len = (size_t)(pen.at - body->bytes);
    hf_assert(body->len <= room);
    return body;
}

struct http_body *
render_body(struct snapshot *shot, struct slice event, struct slice show, const char *version)
{
    struct buf head = { 0 };

    write_head(&head, shot, event, show, version);
    struct http_body *body = head.failed ? NULL : put_together(shot, &head);
    buf_fini(&head);
    return body;
}

struct http_body *
render_gzip(const struct http_body *plain)
{
    z_stream z = { 0 };
    struct http_body *body = NULL;

    if (plain->len > UINT32_MAX / 2 ||
        deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return NULL;
    size_t room = deflateBound(&z, (uLong)plain->len);
    unsigned char *out = malloc(room);
    if (out != NULL) {
        z.next_in = (unsigned char *)(uintptr_t)plain->bytes;
        z.avail_in = (uInt)plain->len;
        z.next_out = out;
        z.avail_out = (uInt)room;
        if (deflate(&z, Z_FINISH) == Z_STREAM_END)
            body = http_body_new(out, z.total_out);
    }
    free(out);
    deflateEnd(&z);
    return body;
}
