/*
 * counts_json.c - the counts of an event as JSON.
 *
 * Percentages are of the total, in tenths, and together with the blocked share they are
 * 100.0 to the tenth (largest remainder).
 */
#include <stdio.h>
#include <string.h>

#include "holdfast/json.h"
#include "map_internal.h"

enum share { AVAILABLE, HELD, SOLD, BLOCKED, SHARE_COUNT };

#define TENTHS 1000

/* Tenths of a percent of each count; they sum to TENTHS unless all counts are 0. */
static void
divide_into_tenths(const int64_t counts[SHARE_COUNT], int64_t tenths[SHARE_COUNT])
{
    int64_t rest[SHARE_COUNT];
    int64_t total = 0;
    int64_t left = TENTHS;

    for (int i = 0; i < SHARE_COUNT; i++)
        total += counts[i];
    memset(tenths, 0, SHARE_COUNT * sizeof(*tenths));
    if (total == 0)
        return;
    for (int i = 0; i < SHARE_COUNT; i++) {
        tenths[i] = counts[i] * TENTHS / total;
        rest[i] = counts[i] * TENTHS % total;
        left -= tenths[i];
    }
    for (; left > 0; left--) {
        int largest = 0;
        for (int i = 1; i < SHARE_COUNT; i++)
            largest = rest[i] > rest[largest] ? i : largest;
        tenths[largest]++;
        rest[largest] = -1;
    }
}

static void
write_percent(struct json_writer *w, const char *name, int64_t tenths)
{
    char text[16];

    snprintf(text, sizeof(text), "%d.%d", (int)(tenths / 10), (int)(tenths % 10));
    json_name(w, name);
    json_raw(w, slice_of(text));
}

void
seat_map_counts_write(struct buf *out, const struct seat_map_counts *counts, struct db_time now)
{
    const int64_t shares[SHARE_COUNT] = { counts->available, counts->held, counts->sold,
                                          counts->blocked };
    struct json_writer w;
    int64_t tenths[SHARE_COUNT];
    char time[DB_TIME_TEXT_BYTES];

    divide_into_tenths(shares, tenths);
    db_time_format(now, time);
    json_writer_init(&w, out);
    json_object_begin(&w);
    json_field_int(&w, "available", counts->available);
    json_field_int(&w, "held", counts->held);
    json_field_int(&w, "sold", counts->sold);
    json_field_int(&w, "blocked", counts->blocked);
    json_field_int(&w, "total", counts->total);
    write_percent(&w, "percent_available", tenths[AVAILABLE]);
    write_percent(&w, "percent_held", tenths[HELD]);
    write_percent(&w, "percent_sold", tenths[SOLD]);
    write_percent(&w, "percent_blocked", tenths[BLOCKED]);
    json_field_text(&w, "timestamp", slice_of(time));
    json_object_end(&w);
}
