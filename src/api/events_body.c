/*
 * events_body.c - the body of a PUT of an event: its fields, seats and areas, and what is wrong.
 *
 * The body is laid over the stored row, so that a policy field that it doesn't name keeps its value
 * (or, with another kind, gets that kind's default).
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "events_put.h"

#define AREA_CAPACITY_MAX INT32_MAX
#define AREAS_MAX         1000                   /* few by nature; they are compared one by one */
#define PRICE_MAX         INT64_C(1000000000000) /* no checkout's sum passes an int64 */

struct slice
put_path(char *text, size_t bytes, const char *list, int index, const char *name)
{
    if (index < 0 && list == NULL)
        snprintf(text, bytes, "%s", name);
    else if (index < 0)
        snprintf(text, bytes, "%s.%s", list, name);
    else
        snprintf(text, bytes, "%s[%d].%s", list, index, name);
    return slice_of(text);
}

struct reader {
    struct put *put;
    const struct cJSON *object;
    const char *list; /* "seats", "areas" */
    int index;
};

static void
wrong(struct reader *r, const char *name, const char *reason)
{
    char path[96];

    field_errors_add(&r->put->call->arena, &r->put->errors,
                     put_path(path, sizeof(path), r->list, r->index, name), reason);
}

static void
bad_id(struct reader *r, const char *name)
{
    char path[96];

    field_errors_bad_id(&r->put->call->arena, &r->put->errors,
                        put_path(path, sizeof(path), r->list, r->index, name));
}

static void
missing(struct reader *r, const char *name)
{
    char path[96];

    field_errors_missing(&r->put->call->arena, &r->put->errors,
                         put_path(path, sizeof(path), r->list, r->index, name));
}

/* The member; NULL when it isn't there or is null. */
static const struct cJSON *
member(const struct reader *r, const char *name)
{
    const struct cJSON *item = cJSON_GetObjectItemCaseSensitive(r->object, name);

    return cJSON_IsNull(item) ? NULL : item;
}

/* A text, or a whole number taken as text. ptr NULL: neither (or no memory). */
static struct slice
as_text(struct reader *r, const struct cJSON *item)
{
    char digits[24];
    int64_t number;

    if (cJSON_IsString(item))
        return slice_of(item->valuestring);
    if (!json_is_int(item, INT32_MIN, INT32_MAX, &number))
        return (struct slice){ NULL, 0 };
    snprintf(digits, sizeof(digits), "%lld", (long long)number);
    return arena_copy(&r->put->call->arena, slice_of(digits));
}

static struct slice
check_text(struct reader *r, const char *name, struct slice text, size_t bytes_max)
{
    if (text.ptr == NULL)
        wrong(r, name, "is not a text");
    else if (text.len == 0 || text.len > bytes_max)
        wrong(r, name, "is empty or too long");
    return text;
}

static struct slice
optional_text(struct reader *r, const char *name, size_t bytes_max)
{
    const struct cJSON *item = member(r, name);
    struct slice none = { NULL, 0 };

    if (item == NULL)
        return none;
    return check_text(r, name, cJSON_IsString(item) ? slice_of(item->valuestring) : none,
                      bytes_max);
}

static struct slice
needed_text(struct reader *r, const char *name, size_t bytes_max)
{
    if (member(r, name) != NULL)
        return optional_text(r, name, bytes_max);
    missing(r, name);
    return SLICE_EMPTY;
}

/* A row or a seat's number: 12 means "12". */
static struct slice
needed_label(struct reader *r, const char *name)
{
    const struct cJSON *item = member(r, name);

    if (item != NULL)
        return check_text(r, name, as_text(r, item), SEAT_TEXT_BYTES_MAX);
    missing(r, name);
    return SLICE_EMPTY;
}

static struct slice
needed_id(struct reader *r, const char *name)
{
    const struct cJSON *item = member(r, name);
    if (item == NULL) {
        missing(r, name);
        return SLICE_EMPTY;
    }
    if (!cJSON_IsString(item)) {
        wrong(r, name, "is not a text");
        return SLICE_EMPTY;
    }
    struct slice text = slice_of(item->valuestring);
    if (!id_is_valid(text))
        bad_id(r, name);
    return text;
}

static bool
optional_int(struct reader *r, const char *name, int64_t most, int64_t *value)
{
    const struct cJSON *item = member(r, name);
    if (item == NULL)
        return false;
    if (json_is_int(item, 0, most, value))
        return true;
    wrong(r, name, "is not a whole number that it can be");
    return false;
}

static bool
optional_double(struct reader *r, const char *name, double *value)
{
    const struct cJSON *item = member(r, name);
    if (item == NULL)
        return false;
    if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) <= 1e9)) {
        wrong(r, name, "is not a number that it can be");
        return false;
    }
    *value = item->valuedouble;
    return true;
}

static bool
needed_double(struct reader *r, const char *name, double *value)
{
    if (member(r, name) == NULL)
        missing(r, name);
    return optional_double(r, name, value);
}

/* The attributes as they were meant: printed again from the tree. */
static struct slice
optional_attributes(struct reader *r)
{
    const struct cJSON *item = member(r, "attributes");
    struct slice none = { NULL, 0 };
    if (item == NULL)
        return none;
    if (!cJSON_IsObject(item)) {
        wrong(r, "attributes", "is not an object");
        return none;
    }
    char *printed = cJSON_PrintUnformatted(item);
    if (printed == NULL)
        return none;
    struct slice text = arena_copy(&r->put->call->arena, slice_of(printed));
    cJSON_free(printed);
    if (text.len > ATTRIBUTES_BYTES_MAX)
        wrong(r, "attributes", "is too long");
    return text;
}

static void
add_duplicate(struct put *put, struct slice seat)
{
    /* As many as there are field errors told at most: room is made once. */
    if (put->duplicates == NULL)
        put->duplicates =
            arena_alloc(&put->call->arena, FIELD_ERRORS_MAX * sizeof(struct seat_error));
    if (put->duplicates != NULL && put->duplicate_count < FIELD_ERRORS_MAX)
        put->duplicates[put->duplicate_count++] = (struct seat_error){ seat, HF_DUPLICATE_SEAT };
}

static void
read_seat(struct put *put, const struct cJSON *object, int index)
{
    struct reader r = { put, object, "seats", index };
    struct seat_row row = { 0 };
    int before = put->errors.count;

    row.seat = needed_id(&r, "seat_id");
    row.section = needed_text(&r, "section", SEAT_TEXT_BYTES_MAX);
    row.row = needed_label(&r, "row");
    row.number = needed_label(&r, "number");
    row.type = optional_text(&r, "type", SEAT_TEXT_BYTES_MAX);
    row.has_price = optional_int(&r, "price", PRICE_MAX, &row.price);
    row.has_x = optional_double(&r, "x", &row.x);
    row.has_y = optional_double(&r, "y", &row.y);
    row.attributes = optional_attributes(&r);
    if (put->errors.count == before && !seat_batch_add(&put->seats, &row))
        add_duplicate(put, row.seat);
}

static void
read_seats(struct put *put)
{
    const struct cJSON *list = cJSON_GetObjectItemCaseSensitive(put->json, "seats");
    const struct cJSON *item;
    int index = 0;

    if (list == NULL || cJSON_IsNull(list))
        return;
    if (!cJSON_IsArray(list)) {
        field_errors_add(&put->call->arena, &put->errors, SLICE_LITERAL("seats"), "is not a list");
        return;
    }
    cJSON_ArrayForEach(item, list) read_seat(put, item, index++);
}

static bool
area_is_there(const struct put *put, struct slice area)
{
    for (int i = 0; i < put->area_count; i++) {
        if (slice_equal(put->areas[i].area, area))
            return true;
    }
    return false;
}

static void
read_area(struct put *put, const struct cJSON *object, int index)
{
    struct reader r = { put, object, "areas", index };
    struct area_row *row = &put->areas[put->area_count];
    int64_t capacity = 0;

    row->area = needed_id(&r, "area_id");
    row->name = needed_text(&r, "name", EVENT_NAME_BYTES_MAX);
    if (member(&r, "capacity") == NULL)
        missing(&r, "capacity");
    else
        (void)optional_int(&r, "capacity", AREA_CAPACITY_MAX, &capacity);
    row->capacity = (int32_t)capacity;
    row->has_price = optional_int(&r, "price", PRICE_MAX, &row->price);
    if (area_is_there(put, row->area))
        wrong(&r, "area_id", "is in the list twice");
    put->area_count++;
}

static void
read_areas(struct put *put)
{
    const struct cJSON *list = cJSON_GetObjectItemCaseSensitive(put->json, "areas");
    const struct cJSON *item;
    int index = 0;

    if (list == NULL || cJSON_IsNull(list))
        return;
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : -1;
    put->areas = count < 0 || count > AREAS_MAX
                     ? NULL
                     : arena_alloc(&put->call->arena, ((size_t)count + 1) * sizeof(*put->areas));
    if (put->areas == NULL) {
        field_errors_add(&put->call->arena, &put->errors, SLICE_LITERAL("areas"),
                         "is not a list of at most 1000");
        return;
    }
    cJSON_ArrayForEach(item, list) read_area(put, item, index++);
}

static bool
is_currency(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < 'A' || text.ptr[i] > 'Z')
            return false;
    }
    return text.len == 3;
}

static void
read_currency(struct reader *r, struct event_row *wish)
{
    const struct cJSON *item = member(r, "currency");

    if (item == NULL)
        return;
    if (cJSON_IsString(item) && is_currency(slice_of(item->valuestring)))
        memcpy(wish->currency, item->valuestring, 3);
    else
        wrong(r, "currency", "is not three capital letters (ISO 4217)");
}

static void
read_kind(struct reader *r, struct event_row *wish)
{
    const struct cJSON *item = member(r, "kind");

    if (item == NULL)
        missing(r, "kind");
    else if (!cJSON_IsString(item) || !event_kind_parse(slice_of(item->valuestring), &wish->kind))
        wrong(r, "kind", "is not event, show or flight");
}

static void
read_status(struct reader *r, struct event_row *wish)
{
    const struct cJSON *item = member(r, "status");

    if (item == NULL)
        missing(r, "status");
    else if (!cJSON_IsString(item) ||
             !event_status_parse(slice_of(item->valuestring), &wish->status))
        wrong(r, "status", "is not scheduled, on_sale, closed or cancelled");
}

/* Not named: as it was; null: none. */
static void
read_focal_point(struct reader *r, struct event_row *wish)
{
    const struct cJSON *item = cJSON_GetObjectItemCaseSensitive(r->object, "focal_point");
    struct reader point = { r->put, item, "focal_point", -1 };
    double x, y;

    if (item == NULL)
        return;
    wish->has_focal = false;
    wish->focal_x = wish->focal_y = 0;
    if (cJSON_IsNull(item))
        return;
    if (!cJSON_IsObject(item))
        wrong(r, "focal_point", "is not an object");
    else if (needed_double(&point, "x", &x) && needed_double(&point, "y", &y)) {
        wish->has_focal = true;
        wish->focal_x = (float)x;
        wish->focal_y = (float)y;
    }
}

void
put_read_lists(struct put *put)
{
    read_seats(put);
    read_areas(put);
    put->list_errors = put->errors;
}

void
put_read_event(struct put *put, const struct event_row *stored)
{
    struct reader r = { put, put->json, NULL, -1 };
    struct event_row *wish = &put->wish;

    *wish = *stored;
    read_kind(&r, wish);
    if (stored->version == 0) {
        memcpy(wish->currency, "USD", sizeof("USD"));
        wish->event = put->call->event;
    }
    if (stored->version == 0 || wish->kind != stored->kind)
        policy_defaults(wish->policy, wish->kind, put->call->api->node->config->max_seats_per_hold);
    wish->name = needed_text(&r, "name", EVENT_NAME_BYTES_MAX);
    read_status(&r, wish);
    read_currency(&r, wish);
    read_focal_point(&r, wish);
    const struct cJSON *policy = member(&r, "policy");
    if (policy != NULL && !cJSON_IsObject(policy))
        wrong(&r, "policy", "is not an object");
    else if (policy != NULL)
        policy_read_json(&put->call->arena, wish->policy, policy, &put->errors);
    if (put->errors.count == 0)
        policy_check(&put->call->arena, wish->policy, &put->errors);
}
