/*
 * slice.h - a borrowed piece of text: pointer and length travel together.
 *
 * Memory:   a slice never owns what it points at; it is as long-lived as the
 *           buffer it was cut from. Text need not end in NUL.
 */
#ifndef HOLDFAST_SLICE_H
#define HOLDFAST_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
    const char *ptr;
    size_t len;
};

#define SLICE_LITERAL(text) ((struct slice){ (text), sizeof(text) - 1 })
#define SLICE_EMPTY         ((struct slice){ "", 0 })
/* For printf: printf("%.*s", SLICE_ARG(s)). */
#define SLICE_ARG(s) (int)(s).len, (s).ptr

static inline struct slice
slice_of(const char *text)
{
    return (struct slice){ text, strlen(text) };
}

static inline bool
slice_equal(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool
slice_is(struct slice a, const char *text)
{
    return slice_equal(a, slice_of(text));
}

#endif
