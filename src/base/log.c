/*
 * log.c - one JSON object a line on stderr.
 *
 * A line is built outside the lock and written under it, so lines never mix,
 * however long they are and whatever stderr is. This is the one lock under which
 * I/O is done: its rank is the highest, and nobody holds it but for a line.
 */
#include "holdfast/log.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base_internal.h"
#include "holdfast/ids.h"
#include "holdfast/json.h"
#include "holdfast/lock.h"

#define LINE_BYTES_USUAL 512
#define STUCK_MS         1000 /* a reader of stderr that takes nothing for so long loses the line */

static const char *const level_names[] = { "debug", "info", "warn", "error" };

static _Atomic int level_least = LOG_INFO;
static char node[ID_BYTES_MAX + 1]; /* fixed before the first thread starts */
static struct lock write_lock = { PTHREAD_MUTEX_INITIALIZER, LOCK_LOG };

void
log_init(enum log_level level, const char *node_id)
{
    atomic_store_explicit(&level_least, (int)level, memory_order_relaxed);
    snprintf(node, sizeof(node), "%s", node_id != NULL ? node_id : "");
}

bool
log_level_parse(const char *text, enum log_level *level)
{
    for (int i = LOG_DEBUG; i <= LOG_ERROR; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

bool
log_enabled(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&level_least, memory_order_relaxed);
}

static void
line_build(struct buf *line, enum log_level level, const char *event,
           const struct log_field *fields, int count)
{
    char time[DB_TIME_TEXT_BYTES];
    struct json_writer w;

    time_text_format(wall_clock_us(), time);
    json_writer_init(&w, line);
    json_object_begin(&w);
    json_field_text(&w, "time", slice_of(time));
    json_field_text(&w, "level", slice_of(level_names[level]));
    json_field_text(&w, "event", slice_of(event));
    if (node[0] != '\0')
        json_field_text(&w, "node", slice_of(node));
    for (int i = 0; i < count; i++) {
        if (fields[i].kind == LOG_FIELD_INT)
            json_field_int(&w, fields[i].name, fields[i].number);
        else
            json_field_text(&w, fields[i].name, fields[i].text);
    }
    json_object_end(&w);
    buf_append_char(line, '\n');
}

/* One write(2) unless the other end is full. */
static void
line_write_locked(struct slice line)
{
    while (line.len > 0) {
        ssize_t n = write(STDERR_FILENO, line.ptr, line.len);
        if (n >= 0) {
            line.ptr += n;
            line.len -= (size_t)n;
            continue;
        }
        struct pollfd stderr_poll = { STDERR_FILENO, POLLOUT, 0 };
        if (errno == EINTR || (errno == EAGAIN && poll(&stderr_poll, 1, STUCK_MS) > 0))
            continue;
        return; /* nobody reads: a log that can't be written has nobody to tell it to */
    }
}

void
log_write(enum log_level level, const char *event, const struct log_field *fields, int count)
{
    struct buf line = { 0 };

    if (!log_enabled(level))
        return;
    buf_reserve(&line, LINE_BYTES_USUAL);
    line_build(&line, level, event, fields, count);
    lock_take(&write_lock);
    line_write_locked(line.failed
                          ? SLICE_LITERAL("{\"level\":\"error\",\"event\":\"log_out_of_memory\"}\n")
                          : buf_slice(&line));
    lock_drop(&write_lock);
    buf_fini(&line);
}
