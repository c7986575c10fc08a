/*
 * log.h - one JSON object a line on stderr.
 *
 * LOG_EVENT(LOG_WARN, "redis_down", log_int("failures", 5)) writes
 * {"time":"...","level":"warn","event":"redis_down","node":"n1","failures":5}.
 *
 * Threads: any. A line is written whole. Lines below the level cost a compare.
 */
#ifndef HOLDFAST_LOG_H
#define HOLDFAST_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/slice.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log_field {
    const char *name;
    enum { LOG_FIELD_TEXT, LOG_FIELD_INT } kind;
    struct slice text;
    int64_t number;
};

static inline struct log_field
log_text(const char *name, const char *text)
{
    return (struct log_field){ name, LOG_FIELD_TEXT, slice_of(text ? text : ""), 0 };
}

static inline struct log_field
log_slice(const char *name, struct slice text)
{
    return (struct log_field){ name, LOG_FIELD_TEXT, text, 0 };
}

static inline struct log_field
log_int(const char *name, int64_t number)
{
    return (struct log_field){ name, LOG_FIELD_INT, SLICE_EMPTY, number };
}

void log_init(enum log_level level, const char *node_id); /* node_id is copied */
bool log_level_parse(const char *text, enum log_level *level);
bool log_enabled(enum log_level level);

/* event: a stable snake_case word. Every field is escaped; nothing is cut. */
void log_write(enum log_level level, const char *event, const struct log_field *fields, int count);

#define LOG_EVENT(level, event, ...)                                                               \
    do {                                                                                           \
        if (log_enabled(level)) {                                                                  \
            const struct log_field fields_[] = { __VA_ARGS__ };                                    \
            log_write(level, event, fields_, (int)(sizeof(fields_) / sizeof(fields_[0])));         \
        }                                                                                          \
    } while (0)

#endif
