/*
 * buf.c - a growing byte buffer that remembers whether memory ran out.
 */
#include "holdfast/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 64
#define CAPACITY_MAX (SIZE_MAX / 2) /* so that doubling can't overflow */

void
buf_fini(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){ 0 };
}

void
buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

/* Out of the way of the usual append, which has room. */
static __attribute__((noinline)) bool
buf_grow(struct buf *buf, size_t more)
{
    if (more >= CAPACITY_MAX - buf->len) {
        buf->failed = true;
        return false;
    }
    size_t needed = buf->len + more + 1;
    size_t capacity = buf->capacity < CAPACITY_MIN ? CAPACITY_MIN : buf->capacity;
    while (capacity < needed)
        capacity *= 2;

    char *data = realloc(buf->data, capacity);
    if (data == NULL) {
        buf->failed = true;
        return false;
    }
    if (buf->data == NULL)
        data[0] = '\0';
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

/* The one byte beyond is for the NUL; an empty buffer has capacity 0 and always grows. */
bool
buf_reserve(struct buf *buf, size_t more)
{
    if (buf->failed)
        return false;
    return more < buf->capacity - buf->len || buf_grow(buf, more);
}

void
buf_append(struct buf *buf, const void *bytes, size_t len)
{
    if (len == 0 || !buf_reserve(buf, len))
        return;
    memcpy(buf->data + buf->len, bytes, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void
buf_append_slice(struct buf *buf, struct slice text)
{
    buf_append(buf, text.ptr, text.len);
}

void
buf_append_text(struct buf *buf, const char *text)
{
    buf_append(buf, text, strlen(text));
}

void
buf_append_char(struct buf *buf, char c)
{
    if (!buf_reserve(buf, 1))
        return;
    buf->data[buf->len++] = c;
    buf->data[buf->len] = '\0';
}

void
buf_append_int(struct buf *buf, long long number)
{
    char digits[24]; /* a sign and 19 digits fit */
    char *at = digits + sizeof(digits);
    unsigned long long rest =
        number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;

    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0)
        *--at = '-';
    buf_append(buf, at, (size_t)(digits + sizeof(digits) - at));
}

void
buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0)
        buf->failed = true;
    if (len <= 0 || !buf_reserve(buf, (size_t)len))
        return;

    va_start(args, format);
    vsnprintf(buf->data + buf->len, (size_t)len + 1, format, args);
    va_end(args);
    buf->len += (size_t)len;
}
