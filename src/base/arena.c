/*
 * arena.c - blocks in a list, the newest first; an allocation moves a cursor.
 *
 * The first block is sized for a usual request, so that it costs one malloc; blocks
 * double up to a limit. Something larger than that gets a block of its own behind
 * the newest, so that it doesn't waste what the newest has left.
 */
#include "holdfast/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#define BLOCK_FIRST_BYTES 4096
#define BLOCK_MAX_BYTES   65536

struct arena_block {
    struct arena_block *next;
    size_t used;
    size_t size;
    alignas(max_align_t) char bytes[];
};

static size_t
align_up(size_t bytes)
{
    return (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

static struct arena_block *
block_new(size_t size)
{
    struct arena_block *block = malloc(sizeof(*block) + size);
    if (block == NULL)
        return NULL;
    block->next = NULL;
    block->used = 0;
    block->size = size;
    return block;
}

static size_t
next_block_size(const struct arena_block *newest)
{
    if (newest == NULL)
        return BLOCK_FIRST_BYTES - sizeof(struct arena_block);
    size_t size = newest->size * 2;
    return size < BLOCK_MAX_BYTES ? size : BLOCK_MAX_BYTES;
}

/* A block with room for `bytes`, linked into the list. */
static struct arena_block *
block_add(struct arena *arena, size_t bytes)
{
    struct arena_block *newest = arena->blocks;
    size_t size = next_block_size(newest);
    bool oversized = bytes > size;
    struct arena_block *block = block_new(oversized ? bytes : size);
    if (block == NULL)
        return NULL;
    if (oversized && newest != NULL) {
        block->next = newest->next;
        newest->next = block;
    } else {
        block->next = newest;
        arena->blocks = block;
    }
    return block;
}

void *
arena_alloc(struct arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t need = align_up(bytes);
    struct arena_block *block = arena->blocks;
    if (block == NULL || block->size - block->used < need) {
        block = block_add(arena, need);
        if (block == NULL)
            return NULL;
    }
    void *memory = block->bytes + block->used;
    block->used += need;
    return memset(memory, 0, need);
}

struct slice
arena_copy(struct arena *arena, struct slice text)
{
    char *copy = arena_alloc(arena, text.len + 1);
    if (copy == NULL)
        return (struct slice){ NULL, 0 };
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    return (struct slice){ copy, text.len };
}

void
arena_fini(struct arena *arena)
{
    struct arena_block *block = arena->blocks;
    while (block != NULL) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    arena->blocks = NULL;
}
