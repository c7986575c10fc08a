/*
 * buf.h - a growing byte buffer that remembers whether memory ran out.
 *
 * Appends never fail one by one: after the first failed allocation the buffer
 * is `failed`, further appends do nothing, and the caller asks once at the end.
 *
 * Memory:   buf_fini frees; a zeroed struct is an empty buffer.
 * Threads:  a buffer has one user at a time.
 */
#ifndef HOLDFAST_BUF_H
#define HOLDFAST_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "holdfast/assert.h"
#include "holdfast/slice.h"

struct buf {
    char *data; /* NUL after len whenever data is not NULL */
    size_t len;
    size_t capacity;
    bool failed;
};

void buf_fini(struct buf *buf);
void buf_clear(struct buf *buf); /* keeps the memory, forgets the failure */
bool buf_reserve(struct buf *buf, size_t more);
void buf_append(struct buf *buf, const void *bytes, size_t len);
void buf_append_slice(struct buf *buf, struct slice text);
void buf_append_text(struct buf *buf, const char *text);
void buf_append_char(struct buf *buf, char c);
void buf_append_int(struct buf *buf, long long number);
void buf_printf(struct buf *buf, const char *format, ...) HF_PRINTF(2, 3);

static inline struct slice
buf_slice(const struct buf *buf)
{
    return (struct slice){ buf->data ? buf->data : "", buf->len };
}

#endif
