/*
 * json.h - strict JSON in, quick JSON out.
 *
 * Reading: json_scan decides whether the bytes are one JSON value as RFC 8259
 * has it, in UTF-8 without BOM, with no name twice in an object, no \u0000, at
 * most JSON_DEPTH_MAX deep and with nothing after it; only then cJSON builds the
 * tree (it alone takes much that is no JSON).
 *
 * Writing: json_writer appends to a struct buf and puts the commas itself.
 *
 * Threads: any; a tree or a writer has one user at a time.
 */
#ifndef HOLDFAST_JSON_H
#define HOLDFAST_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/buf.h"
#include "holdfast/clock.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"

#define JSON_DEPTH_MAX 64

struct cJSON;

/* What is wrong and where, for the client: "unexpected character at byte 17". */
struct json_error {
    size_t offset;
    const char *reason; /* static text */
};

/* True: `text` is one strict JSON value. False: *error says why. */
bool json_scan(struct slice text, struct json_error *error);

/* Whether the bytes are UTF-8 as RFC 3629 has it; NUL is a character as any. */
bool utf8_is_valid(struct slice text);

/*
 * Scans, then builds the tree. The caller frees it with cJSON_Delete.
 * NULL: not JSON, or no memory (error->reason says which).
 */
struct cJSON *json_parse(struct slice text, struct json_error *error);

/* True when `item` is a number that is a whole one between min and max; *value gets it. */
bool json_is_int(const struct cJSON *item, int64_t min, int64_t max, int64_t *value);

#define JSON_NEST_MAX 16

struct json_writer {
    struct buf *out;
    int depth;
    bool comma[JSON_NEST_MAX + 1]; /* a comma is due before the next value */
};

void json_writer_init(struct json_writer *w, struct buf *out);
void json_object_begin(struct json_writer *w);
void json_object_end(struct json_writer *w);
void json_array_begin(struct json_writer *w);
void json_array_end(struct json_writer *w);
void json_name(struct json_writer *w, const char *name);  /* name is plain ASCII */
void json_text(struct json_writer *w, struct slice text); /* escapes; replaces bad UTF-8 */
void json_int(struct json_writer *w, int64_t number);
void json_double(struct json_writer *w, double number, int decimals);
/* The shortest that reads back as the same float. */
void json_float(struct json_writer *w, float number);
void json_bool(struct json_writer *w, bool value);
void json_null(struct json_writer *w);
void json_raw(struct json_writer *w, struct slice json); /* already JSON */
void json_uuid(struct json_writer *w, const struct uuid *uuid);

/* name and value in one call */
void json_field_text(struct json_writer *w, const char *name, struct slice text);
void json_field_int(struct json_writer *w, const char *name, int64_t number);
/* RFC 3339, as db_time_format writes it. */
void json_field_time(struct json_writer *w, const char *name, struct db_time time);
void json_field_bool(struct json_writer *w, const char *name, bool value);
void json_field_uuid(struct json_writer *w, const char *name, const struct uuid *uuid);

#endif
