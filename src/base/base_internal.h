/*
 * base_internal.h - what the files of base share with each other.
 */
#ifndef HOLDFAST_BASE_INTERNAL_H
#define HOLDFAST_BASE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/buf.h"
#include "holdfast/clock.h"
#include "holdfast/slice.h"

/* This machine's wall clock in Unix microseconds: log lines and UUIDs, never a judgement. */
int64_t wall_clock_us(void);

/* Bytes of chance that nobody can guess. */
void random_fill(void *bytes, size_t len);

/* Writes Unix microseconds as RFC 3339 UTC with milliseconds, rounded down. */
void time_text_format(int64_t unix_us, char text[DB_TIME_TEXT_BYTES]);

/* Appends `text` as the inside of a JSON string: escaped, bad UTF-8 replaced. */
void json_escape_append(struct buf *out, struct slice text);

/* ---- settings ---- */

enum config_kind {
    CONFIG_KIND_TEXT,
    CONFIG_KIND_SECRET,
    CONFIG_KIND_INT,
    CONFIG_KIND_DURATION,
    CONFIG_KIND_SIZE,
    CONFIG_KIND_BOOL,
};

#define CONFIG_NUMBER_BYTES 32

bool config_kind_is_text(enum config_kind kind);

/* "a whole number", ...: completes the sentence "'x' is not ...". */
const char *config_kind_describe(enum config_kind kind);

/* Reads an INT, a DURATION (to microseconds) or a SIZE (to bytes). False: it is none. */
bool config_number_parse(enum config_kind kind, const char *text, int64_t *value);

/* Writes it in the largest unit that keeps it exact; config_number_parse reads it back. */
void config_number_format(enum config_kind kind, int64_t value, char text[CONFIG_NUMBER_BYTES]);

bool config_bool_parse(const char *text, bool *value);

#endif
