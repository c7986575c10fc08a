/*
 * json_cursor.h - walks a JSON text that json_scan has passed, without a tree.
 *
 * For the bodies of hold requests: values stay where they came, a text without
 * escapes is a slice of the body, nothing is allocated for it.
 *
 * Caution: only for text that json_scan took; a cursor checks no grammar.
 * Threads: a cursor has one user at a time.
 */
#ifndef HOLDFAST_JSON_CURSOR_H
#define HOLDFAST_JSON_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/arena.h"
#include "holdfast/assert.h"
#include "holdfast/slice.h"

enum json_kind {
    JSON_NULL,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

struct json_value {
    enum json_kind kind;
    struct slice raw; /* as written: a string with its quotes, a container with its brackets */
};

struct json_cursor {
    const char *at;
    const char *end;
};

/* The value that `text` is. */
struct json_value json_value_of(struct slice text);

/* Walks the members of an object or the elements of an array. */
struct json_cursor json_cursor_open(struct json_value container);
/* False: no more members. The name is a JSON_STRING. */
bool json_cursor_member(struct json_cursor *cursor, struct json_value *name,
                        struct json_value *value);
/* False: no more elements. */
bool json_cursor_element(struct json_cursor *cursor, struct json_value *value);

/* The text of a JSON_STRING: a slice of the body, or, with escapes, a copy in `arena`. False: no
 * memory. */
HF_MUST_CHECK bool json_value_text(struct arena *arena, struct json_value value,
                                   struct slice *text);

/* True when the value is a whole number between min and max; *number gets it. */
bool json_value_int(struct json_value value, int64_t min, int64_t max, int64_t *number);
/* The same without an upper bound: a number that is too large for *number is INT64_MAX. */
bool json_value_count(struct json_value value, int64_t min, int64_t *number);

#endif
