/*
 * arena.h - memory that is freed all at once: what belongs to one request.
 *
 * Threads:  an arena has one user at a time; it moves with its request.
 * Memory:   everything from arena_alloc lives until arena_fini.
 */
#ifndef HOLDFAST_ARENA_H
#define HOLDFAST_ARENA_H

#include <stddef.h>

#include "holdfast/slice.h"

struct arena_block;

/* Zeroed, it is an empty arena. */
struct arena {
    struct arena_block *blocks;
};

/* Zeroed memory, aligned for anything. NULL: no memory. */
void *arena_alloc(struct arena *arena, size_t bytes);

/* A copy that ends in NUL (not counted in len). ptr is NULL when there is no memory. */
struct slice arena_copy(struct arena *arena, struct slice text);

void arena_fini(struct arena *arena);

#endif
