/*
 * admin_release_body.c - what an administrator wants released: holds by name, seats of an event
 * by name, or whatever is held of an event. Exactly one of the three.
 */
#include "admin_release.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "events_internal.h"

#define NOTES_BYTES_MAX 2000

struct fields {
    const cJSON *hold_ids, *event_id, *seat_ids, *all, *notes; /* NULL: not given */
};

static const cJSON *
field_of(const cJSON *json, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);

    return cJSON_IsNull(value) ? NULL : value;
}

static void
wrong(struct release *release, struct field_errors *errors, const char *field, const char *reason)
{
    field_errors_add(&release->call->arena, errors, slice_of(field), reason);
}

static void
missing(struct release *release, struct field_errors *errors, const char *field)
{
    field_errors_missing(&release->call->arena, errors, slice_of(field));
}

/* Which of the three forms it is, if it is one. */
static void
check_form(struct release *release, const struct fields *fields, struct field_errors *errors)
{
    static const char beside[] = "can't stand beside hold_ids";

    if (fields->hold_ids != NULL) {
        if (fields->event_id != NULL)
            wrong(release, errors, "event_id", beside);
        if (fields->seat_ids != NULL)
            wrong(release, errors, "seat_ids", beside);
        if (fields->all != NULL)
            wrong(release, errors, "all", beside);
        return;
    }
    if (fields->event_id == NULL)
        missing(release, errors,
                fields->seat_ids == NULL && fields->all == NULL ? "hold_ids" : "event_id");
    else if (fields->seat_ids == NULL && fields->all == NULL)
        missing(release, errors, "seat_ids");
    if (fields->seat_ids != NULL && fields->all != NULL)
        wrong(release, errors, "all", "can't stand beside seat_ids");
}

static void
check_values(struct release *release, const struct fields *fields, struct field_errors *errors)
{
    const cJSON *event = fields->event_id;

    if (event != NULL && !cJSON_IsString(event))
        wrong(release, errors, "event_id", "is not a text");
    else if (event != NULL && !id_is_valid(slice_of(event->valuestring)))
        field_errors_bad_id(&release->call->arena, errors, SLICE_LITERAL("event_id"));
    if (fields->all != NULL && !cJSON_IsTrue(fields->all))
        wrong(release, errors, "all", "is not true");
    if (fields->notes != NULL &&
        (!cJSON_IsString(fields->notes) || strlen(fields->notes->valuestring) > NOTES_BYTES_MAX))
        wrong(release, errors, "notes", "is not a text of at most 2000 bytes");
}

/* False: the call is answered. */
static bool
read_each_hold(struct release *release, const cJSON *list)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, list)
    {
        struct uuid *hold = &release->holds[release->hold_count];
        if (!cJSON_IsString(item) || !uuid_parse(slice_of(item->valuestring), hold)) {
            respond_field_error(release->call, "hold_ids", "has something that is no id of a hold");
            return false;
        }
        release->hold_count++;
    }
    return true;
}

/* False: the call is answered. A hold that is named twice is skipped the second time. */
static bool
read_holds(struct release *release, const cJSON *list)
{
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;

    if (count < 1 || count > RELEASE_NAMED_MAX) {
        respond_field_error(release->call, "hold_ids", "is not a list of 1 to 10000 holds");
        return false;
    }
    release->holds = arena_alloc(&release->call->arena, (size_t)count * sizeof(*release->holds));
    if (release->holds == NULL)
        respond_refusal(release->call, HF_OVERLOADED, NULL);
    return release->holds != NULL && read_each_hold(release, list);
}

bool
release_read_body(struct release *release)
{
    struct field_errors errors = { 0 };
    const cJSON *json = call_json(release->call);
    if (json == NULL)
        return false;

    struct fields fields = { field_of(json, "hold_ids"), field_of(json, "event_id"),
                             field_of(json, "seat_ids"), field_of(json, "all"),
                             field_of(json, "notes") };
    check_form(release, &fields, &errors);
    check_values(release, &fields, &errors);
    if (errors.count > 0) {
        respond_field_errors(release->call, &errors);
        return false;
    }
    release->notes = fields.notes != NULL ? slice_of(fields.notes->valuestring) : SLICE_EMPTY;
    if (fields.hold_ids != NULL)
        return read_holds(release, fields.hold_ids);
    release->event = slice_of(fields.event_id->valuestring);
    if (fields.seat_ids != NULL)
        release->seats = seat_ids_read(release->call, fields.seat_ids, &release->seat_count);
    return fields.seat_ids == NULL || release->seats != NULL;
}
