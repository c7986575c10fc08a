/*
 * hold_request.c - reads the fields of a body as a table says.
 */
#include "hold_request.h"

#include <stdio.h>

#include "json_cursor.h"
#include "holdfast/decimal.h"
#include "holdfast/json.h"

#define FIELD_NAME_BYTES 96
#define FIELDS_MAX       32

struct reader {
    struct arena *arena;
    struct field_errors errors;
    struct seat_error *twice; /* seats that are named twice */
    int twice_count;
    bool no_memory;
};

/* --- what is wrong ------------------------------------------------------------ */

static void
wrong(struct reader *reader, const char *field, const char *reason)
{
    field_errors_add(reader->arena, &reader->errors, slice_of(field), reason);
}

/* "seat_ids[3]" */
struct element_name {
    char text[FIELD_NAME_BYTES];
};

static struct element_name
name_element(const char *list, int index, const char *member)
{
    struct element_name name;

    snprintf(name.text, sizeof(name.text), "%s[%d]%s", list, index, member);
    return name;
}

static void
wrong_element(struct reader *reader, const char *list, int index, const char *member,
              const char *reason)
{
    wrong(reader, name_element(list, index, member).text, reason);
}

static void
bad_id(struct reader *reader, const char *field)
{
    field_errors_bad_id(reader->arena, &reader->errors, slice_of(field));
}

/* A reason with numbers in it lives in the arena, as the errors do. */
static const char *
reason_with(struct reader *reader, const char *format, long long a, long long b)
{
    char text[96];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* both callers' formats stand in this file   \
                                                      */
    snprintf(text, sizeof(text), format, a, b);
#pragma GCC diagnostic pop
    struct slice copy = arena_copy(reader->arena, slice_of(text));
    return copy.ptr != NULL ? copy.ptr : "is out of range";
}

/* --- texts -------------------------------------------------------------------- */

/* The text of a string value; anything else is wrong. */
static bool
take_text(struct reader *reader, const char *field, struct json_value value, struct slice *text)
{
    if (value.kind != JSON_STRING) {
        wrong(reader, field, "is not a text");
        return false;
    }
    if (!json_value_text(reader->arena, value, text)) {
        reader->no_memory = true;
        return false;
    }
    return true;
}

/* Code points of valid UTF-8; *has_control: one of C0, DEL or C1 is there, but for lines if they
 * are fine. */
static int64_t
count_characters(struct slice text, bool lines, bool *has_control)
{
    int64_t count = 0;

    *has_control = false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c & 0xc0) != 0x80)
            count++;
        bool is_line = lines && (c == '\n' || c == '\r' || c == '\t');
        bool is_c1 = c == 0xc2 && i + 1 < text.len && (unsigned char)text.ptr[i + 1] < 0xa0;
        if ((c < 0x20 && !is_line) || c == 0x7f || is_c1)
            *has_control = true;
    }
    return count;
}

bool
word_is_good(struct slice text, int64_t max)
{
    bool has_control;
    int64_t count = count_characters(text, false, &has_control);

    return utf8_is_valid(text) && !has_control && count >= 1 && count <= max;
}

static void
read_prose(struct reader *reader, const struct field_spec *spec, struct json_value value,
           struct slice *out)
{
    bool lines = spec->type == FIELD_PROSE;
    bool has_control;
    struct slice text;

    if (!take_text(reader, spec->name, value, &text))
        return;
    int64_t count = count_characters(text, lines, &has_control);
    if (count < spec->min || count > spec->max)
        wrong(reader, spec->name,
              reason_with(reader, "is not %lld to %lld characters long", spec->min, spec->max));
    else if (has_control)
        wrong(reader, spec->name, "has control characters");
    else
        *out = text;
}

static void
read_id(struct reader *reader, const struct field_spec *spec, struct json_value value,
        struct slice *out)
{
    struct slice text;

    if (!take_text(reader, spec->name, value, &text))
        return;
    if (id_is_valid(text))
        *out = text;
    else
        bad_id(reader, spec->name);
}

static void
read_source(struct reader *reader, const struct field_spec *spec, struct json_value value,
            struct slice *out)
{
    struct slice text;

    if (!take_text(reader, spec->name, value, &text))
        return;
    if (slice_is(text, "web") || slice_is(text, "scanner") || slice_is(text, "offline_sync"))
        *out = text;
    else
        wrong(reader, spec->name, "is none of web, scanner, offline_sync");
}

static void
read_verdict(struct reader *reader, const struct field_spec *spec, struct json_value value,
             struct slice *out)
{
    struct slice text;

    if (!take_text(reader, spec->name, value, &text))
        return;
    if (slice_is(text, "succeeded") || slice_is(text, "failed"))
        *out = text;
    else
        wrong(reader, spec->name, "is neither succeeded nor failed");
}

/* Something, an @, something: whether it can be delivered is not ours to know. */
static void
read_email(struct reader *reader, const struct field_spec *spec, struct json_value value,
           struct slice *out)
{
    struct slice text = SLICE_EMPTY;

    read_prose(reader, spec, value, &text);
    if (text.len == 0)
        return;
    const char *at = memchr(text.ptr, '@', text.len);
    if (at == NULL || at == text.ptr || at == text.ptr + text.len - 1)
        wrong(reader, spec->name, "is no e-mail address");
    else
        *out = text;
}

/* --- lists -------------------------------------------------------------------- */

/* -1: not a list of at most SEATS_IN_REQUEST_MAX elements, which was said. */
static int
count_elements(struct reader *reader, const char *field, struct json_value list)
{
    struct json_cursor cursor = json_cursor_open(list);
    struct json_value element;
    int count = 0;

    if (list.kind != JSON_ARRAY) {
        wrong(reader, field, "is not a list");
        return -1;
    }
    while (json_cursor_element(&cursor, &element)) {
        if (++count > SEATS_IN_REQUEST_MAX) {
            wrong(reader, field,
                  reason_with(reader, "has more than %lld elements", SEATS_IN_REQUEST_MAX, 0));
            return -1;
        }
    }
    return count;
}

/* Lists are short; a quadratic look is quicker than a table until SEATS_SCAN_MAX. */
#define SEATS_SCAN_MAX 32
#define SEAT_SLOTS     1024
_Static_assert(SEAT_SLOTS >= 2 * SEATS_IN_REQUEST_MAX, "the table must stay half empty");

static bool
seen_by_scan(const struct op_seat *seats, int index)
{
    for (int i = 0; i < index; i++) {
        if (slice_equal(seats[i].id, seats[index].id))
            return true;
    }
    return false;
}

/* slots hold index + 1; 0 is free. */
static bool
seen_by_table(const struct op_seat *seats, int index, uint16_t *slots)
{
    size_t at = hash_seeded(seats[index].id.ptr, seats[index].id.len) % SEAT_SLOTS;

    while (slots[at] != 0) {
        if (slice_equal(seats[slots[at] - 1].id, seats[index].id))
            return true;
        at = (at + 1) % SEAT_SLOTS;
    }
    slots[at] = (uint16_t)(index + 1);
    return false;
}

static void
note_twice(struct reader *reader, struct slice seat)
{
    if (reader->twice == NULL)
        reader->twice =
            arena_alloc(reader->arena, SEATS_IN_REQUEST_MAX * 2 * sizeof(*reader->twice));
    if (reader->twice == NULL)
        reader->no_memory = true;
    else if (reader->twice_count < SEATS_IN_REQUEST_MAX * 2)
        reader->twice[reader->twice_count++] = (struct seat_error){ seat, HF_DUPLICATE_SEAT };
}

static void
find_twice(struct reader *reader, const struct seat_list *list)
{
    uint16_t *slots = NULL;

    if (list->count > SEATS_SCAN_MAX) {
        slots = arena_alloc(reader->arena, SEAT_SLOTS * sizeof(*slots));
        if (slots == NULL) {
            reader->no_memory = true;
            return;
        }
    }
    for (int i = 0; i < list->count; i++) {
        bool is_seen =
            slots != NULL ? seen_by_table(list->items, i, slots) : seen_by_scan(list->items, i);
        if (is_seen)
            note_twice(reader, list->items[i].id);
    }
}

static bool
read_seat_id(struct reader *reader, const char *list, int index, struct json_value value,
             struct slice *id)
{
    if (value.kind != JSON_STRING) {
        wrong_element(reader, list, index, "", "is not a text");
        return false;
    }
    if (!json_value_text(reader->arena, value, id)) {
        reader->no_memory = true;
        return false;
    }
    if (id_is_valid(*id))
        return true;
    bad_id(reader, name_element(list, index, "").text);
    return false;
}

static void
read_seat_ids(struct reader *reader, const struct field_spec *spec, struct json_value value,
              struct seat_list *out)
{
    struct json_cursor cursor = json_cursor_open(value);
    struct json_value element;
    struct seat_list list = { 0 };
    int count = count_elements(reader, spec->name, value);

    if (count <= 0)
        return;
    list.items = arena_alloc(reader->arena, (size_t)count * sizeof(*list.items));
    if (list.items == NULL) {
        reader->no_memory = true;
        return;
    }
    for (int i = 0; json_cursor_element(&cursor, &element); i++) {
        struct op_seat *seat = &list.items[list.count];
        seat->expect_version = -1;
        if (read_seat_id(reader, spec->name, i, element, &seat->id))
            list.count++;
    }
    find_twice(reader, &list);
    *out = list;
}

/* {"A1": 7}: names can't repeat, json_scan has seen to that. */
static void
read_versions(struct reader *reader, const struct field_spec *spec, struct json_value value,
              struct seat_list *out)
{
    struct json_cursor cursor = json_cursor_open(value);
    struct json_value name, version;
    struct op_seat *items;

    if (value.kind != JSON_OBJECT) {
        wrong(reader, spec->name, "is not an object of seats and versions");
        return;
    }
    items = arena_alloc(reader->arena, SEATS_IN_REQUEST_MAX * sizeof(*items));
    if (items == NULL) {
        reader->no_memory = true;
        return;
    }
    for (int count = 0; json_cursor_member(&cursor, &name, &version); count++) {
        if (count == SEATS_IN_REQUEST_MAX) {
            wrong(reader, spec->name, "has too many seats");
            return;
        }
        if (!read_seat_id(reader, spec->name, count, name, &items[count].id))
            return;
        if (!json_value_int(version, 0, INT64_MAX, &items[count].expect_version)) {
            wrong_element(reader, spec->name, count, "", "is not a version");
            return;
        }
        *out = (struct seat_list){ count + 1, items };
    }
}

static void
read_area(struct reader *reader, const struct field_spec *spec, int index, struct json_value value,
          struct op_area *area)
{
    struct json_cursor cursor = json_cursor_open(value);
    struct json_value name, member;
    struct slice word;
    bool is_named = false;
    int64_t quantity = -1;

    if (value.kind != JSON_OBJECT) {
        wrong_element(reader, spec->name, index, "", "is not an object");
        return;
    }
    while (json_cursor_member(&cursor, &name, &member)) {
        if (!json_value_text(reader->arena, name, &word)) {
            reader->no_memory = true;
            return;
        }
        if (slice_is(word, "area_id") && member.kind == JSON_STRING) {
            is_named = true;
            if (!json_value_text(reader->arena, member, &area->id)) {
                reader->no_memory = true;
                return;
            }
        }
        if (slice_is(word, "quantity") && !json_value_int(member, spec->min, spec->max, &quantity))
            quantity = -1;
    }
    if (!is_named)
        wrong_element(reader, spec->name, index, ".area_id", "is not a text");
    else if (!id_is_valid(area->id))
        bad_id(reader, name_element(spec->name, index, ".area_id").text);
    if (quantity < 0)
        wrong_element(
            reader, spec->name, index, ".quantity",
            reason_with(reader, "is not a whole number from %lld to %lld", spec->min, spec->max));
    area->quantity = (int32_t)quantity;
}

static bool
area_is_named_before(const struct op_area *areas, int index)
{
    for (int i = 0; i < index; i++) {
        if (slice_equal(areas[i].id, areas[index].id))
            return true;
    }
    return false;
}

static void
read_areas(struct reader *reader, const struct field_spec *spec, struct json_value value,
           struct area_list *out)
{
    struct json_cursor cursor = json_cursor_open(value);
    struct json_value element;
    int count = count_elements(reader, spec->name, value);

    if (count <= 0)
        return;
    struct op_area *items = arena_alloc(reader->arena, (size_t)count * sizeof(*items));
    if (items == NULL) {
        reader->no_memory = true;
        return;
    }
    for (int i = 0; i < count && json_cursor_element(&cursor, &element); i++) {
        read_area(reader, spec, i, element, &items[i]);
        if (items[i].id.len > 0 && area_is_named_before(items, i))
            wrong_element(reader, spec->name, i, ".area_id", "is named twice");
    }
    *out = (struct area_list){ count, items };
}

static bool
hold_is_named_before(const struct uuid *holds, int index)
{
    for (int i = 0; i < index; i++) {
        if (uuid_equal(&holds[i], &holds[index]))
            return true;
    }
    return false;
}

static void
read_hold_ids(struct reader *reader, const struct field_spec *spec, struct json_value value,
              struct uuid_list *out)
{
    struct json_cursor cursor = json_cursor_open(value);
    struct json_value element;
    struct slice text;
    int count = count_elements(reader, spec->name, value);

    if (count == 0)
        wrong(reader, spec->name, "names no hold");
    if (count <= 0)
        return;
    struct uuid *items = arena_alloc(reader->arena, (size_t)count * sizeof(*items));
    if (items == NULL) {
        reader->no_memory = true;
        return;
    }
    for (int i = 0; i < count && json_cursor_element(&cursor, &element); i++) {
        if (element.kind == JSON_STRING && !json_value_text(reader->arena, element, &text))
            reader->no_memory = true;
        else if (element.kind != JSON_STRING || !uuid_parse(text, &items[i]))
            wrong_element(reader, spec->name, i, "", "is no hold's id");
        else if (hold_is_named_before(items, i))
            wrong_element(reader, spec->name, i, "", "is named twice");
    }
    *out = (struct uuid_list){ count, items };
}

static void
read_int(struct reader *reader, const struct field_spec *spec, struct json_value value,
         int64_t *out)
{
    if (!json_value_int(value, spec->min, spec->max, out))
        wrong(reader, spec->name,
              reason_with(reader, "is not a whole number from %lld to %lld", spec->min, spec->max));
}

static void
read_weight(struct reader *reader, const struct field_spec *spec, struct json_value value,
            int64_t *out)
{
    if (value.kind != JSON_NUMBER || !decimal_hundredths_up(value.raw, out))
        wrong(reader, spec->name, "is not a number from 0");
}

static void
read_bool(struct reader *reader, const struct field_spec *spec, struct json_value value, bool *out)
{
    if (value.kind == JSON_TRUE || value.kind == JSON_FALSE)
        *out = value.kind == JSON_TRUE;
    else
        wrong(reader, spec->name, "is neither true nor false");
}

static void
read_wish(struct reader *reader, const struct field_spec *spec, struct json_value value,
          struct hold_request *request)
{
    const struct field_spec type = { "seatPreferences.seatType", FIELD_PROSE, .max = spec->max };
    const struct field_spec section = { "seatPreferences.section", FIELD_PROSE, .max = spec->max };
    struct json_cursor cursor = json_cursor_open(value);
    struct json_value name, member;
    struct slice word;

    if (value.kind != JSON_OBJECT) {
        wrong(reader, spec->name, "is not an object");
        return;
    }
    while (json_cursor_member(&cursor, &name, &member)) {
        if (!json_value_text(reader->arena, name, &word)) {
            reader->no_memory = true;
            return;
        }
        if (member.kind != JSON_NULL && slice_is(word, "seatType"))
            read_prose(reader, &type, member, &request->type);
        if (member.kind != JSON_NULL && slice_is(word, "section"))
            read_prose(reader, &section, member, &request->section);
    }
}

/* --- the table ---------------------------------------------------------------- */

static void
read_field(struct reader *reader, const struct field_spec *spec, struct json_value value,
           struct hold_request *request)
{
    void *out = (char *)request + spec->offset;

    switch (spec->type) {
    case FIELD_ID:
        read_id(reader, spec, value, out);
        return;
    case FIELD_WORD:
    case FIELD_PROSE:
        read_prose(reader, spec, value, out);
        return;
    case FIELD_EMAIL:
        read_email(reader, spec, value, out);
        return;
    case FIELD_SOURCE:
        read_source(reader, spec, value, out);
        return;
    case FIELD_VERDICT:
        read_verdict(reader, spec, value, out);
        return;
    case FIELD_INT:
        read_int(reader, spec, value, out);
        return;
    case FIELD_COUNT:
        if (!json_value_count(value, spec->min, out))
            wrong(reader, spec->name, "is not a whole number above zero");
        return;
    case FIELD_WEIGHT:
        read_weight(reader, spec, value, out);
        return;
    case FIELD_BOOL:
        read_bool(reader, spec, value, out);
        return;
    case FIELD_SEAT_IDS:
        read_seat_ids(reader, spec, value, out);
        return;
    case FIELD_VERSIONS:
        read_versions(reader, spec, value, out);
        return;
    case FIELD_AREAS:
        read_areas(reader, spec, value, out);
        return;
    case FIELD_WISH:
        read_wish(reader, spec, value, request);
        return;
    case FIELD_HOLD_IDS:
        read_hold_ids(reader, spec, value, out);
        return;
    }
}

static int
find_field(const struct body_spec *spec, struct slice name)
{
    for (int i = 0; i < spec->count; i++) {
        if (slice_is(name, spec->fields[i].name))
            return i;
    }
    return -1;
}

/* Bit i of the result: field i was there and not null. */
static uint32_t
read_members(struct reader *reader, const struct body_spec *spec, struct json_value body,
             struct hold_request *request)
{
    struct json_cursor cursor = json_cursor_open(body);
    struct json_value name, value;
    struct slice word;
    uint32_t given = 0;

    hf_assert(spec->count <= FIELDS_MAX);
    while (json_cursor_member(&cursor, &name, &value)) {
        if (!json_value_text(reader->arena, name, &word)) {
            reader->no_memory = true;
            return given;
        }
        int field = find_field(spec, word);
        if (field < 0 || value.kind == JSON_NULL)
            continue;
        given |= 1u << field;
        if (spec->fields[field].is_seed_name)
            request->has_seed_names = true;
        read_field(reader, &spec->fields[field], value, request);
    }
    return given;
}

/* A field is there under any of its names. */
static bool
is_given(const struct body_spec *spec, uint32_t given, size_t offset)
{
    for (int i = 0; i < spec->count; i++) {
        if (spec->fields[i].offset == offset && (given & (1u << i)))
            return true;
    }
    return false;
}

static void
find_missing(struct reader *reader, const struct body_spec *spec, uint32_t given)
{
    for (int i = 0; i < spec->count; i++) {
        const struct field_spec *field = &spec->fields[i];
        if (field->is_needed && !is_given(spec, given, field->offset))
            field_errors_missing(reader->arena, &reader->errors, slice_of(field->name));
    }
}

/* A seat that is to come and to go. */
static void
find_both(struct reader *reader, const struct hold_request *request)
{
    for (int i = 0; i < request->drop.count; i++) {
        for (int j = 0; j < request->seats.count; j++) {
            if (slice_equal(request->drop.items[i].id, request->seats.items[j].id))
                note_twice(reader, request->drop.items[i].id);
        }
    }
}

static bool
refuse_if_wrong(struct api_call *call, const struct reader *reader)
{
    if (reader->no_memory) {
        respond_refusal(call, HF_OVERLOADED, NULL);
    } else if (reader->errors.count > 0) {
        respond_field_errors(call, &reader->errors);
    } else if (reader->twice_count > 0) {
        respond_problem(
            call, HF_DUPLICATE_SEAT,
            &(struct problem){ .seats = reader->twice, .seat_count = reader->twice_count });
    } else {
        return false;
    }
    return true;
}

bool
hold_request_read(struct api_call *call, const struct body_spec *spec, struct hold_request *request)
{
    struct slice body = call->exchange->request.body;
    struct reader reader = { .arena = &call->arena };
    struct json_error error;

    *request = (struct hold_request){ 0 };
    if (body.len > 0 || !spec->is_optional) {
        if (!json_scan(body, &error)) {
            respond_malformed_json(call, &error);
            return false;
        }
        struct json_value value = json_value_of(body);
        if (value.kind != JSON_OBJECT) {
            respond_field_error(call, "body", "is not an object");
            return false;
        }
        request->given = read_members(&reader, spec, value, request);
    }
    find_missing(&reader, spec, request->given);
    find_both(&reader, request);
    return !refuse_if_wrong(call, &reader);
}
