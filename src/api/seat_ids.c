/*
 * seat_ids.c - the list of seats that an administrator's request names.
 */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "api_internal.h"
#include "events_internal.h"

#define SEATS_MAX 10000

static int
compare_slices(const void *left, const void *right)
{
    const struct slice *a = left;
    const struct slice *b = right;
    size_t least = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->ptr, b->ptr, least);

    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

/* The seat that is in the list twice, or NULL. Sorts the list: rows are locked in key order. */
static const struct slice *
find_double(struct slice *seats, int count)
{
    qsort(seats, (size_t)count, sizeof(*seats), compare_slices);
    for (int i = 1; i < count; i++) {
        if (slice_equal(seats[i - 1], seats[i]))
            return &seats[i];
    }
    return NULL;
}

/* False: the call is answered. */
static bool
read_each(struct api_call *call, const cJSON *list, struct slice *seats)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item)) {
            respond_field_error(call, "seat_ids", "has something that is no text");
            return false;
        }
        *seats = slice_of(item->valuestring);
        if (!id_is_valid(*seats++)) {
            respond_bad_id(call, "seat_ids");
            return false;
        }
    }
    return true;
}

struct slice *
seat_ids_read(struct api_call *call, const cJSON *list, int *count)
{
    *count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (*count < 1 || *count > SEATS_MAX) {
        respond_field_error(call, "seat_ids", "is not a list of 1 to 10000 seats");
        return NULL;
    }
    struct slice *seats = arena_alloc(&call->arena, (size_t)*count * sizeof(*seats));
    if (seats == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return NULL;
    }
    if (!read_each(call, list, seats))
        return NULL;
    const struct slice *twice = find_double(seats, *count);
    if (twice == NULL)
        return seats;
    struct seat_error error = { *twice, HF_DUPLICATE_SEAT };
    respond_problem(call, HF_DUPLICATE_SEAT, &(struct problem){ .seats = &error, .seat_count = 1 });
    return NULL;
}
