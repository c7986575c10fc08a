/*
 * slab.h - items of one size, cut from chunks, without a header per item.
 *
 * A million entries from malloc would cost 16 bytes each more. An item is known by
 * its pointer and the number of its place in the chunk, which its owner keeps (two
 * bytes) and gives back with it. A chunk without items goes back to malloc.
 *
 * Threads, locks: none; the owner's lock guards it.
 * Memory:   a chunk is one malloc of SLAB_CHUNK_BYTES; pages that no item was cut
 *           from yet are never touched.
 */
#ifndef HOLDFAST_HOT_SLAB_H
#define HOLDFAST_HOT_SLAB_H

#include <stdint.h>

#include "holdfast/assert.h"
#include "link.h"

#define SLAB_CHUNK_BYTES (32 * 1024 - 16) /* with malloc's header: eight pages */

struct slab {
    uint32_t item_bytes; /* a multiple of 8 */
    int64_t items;       /* handed out */
    struct link open;    /* chunks with a free place, the one to cut from first */
    struct link full;
};

void slab_init(struct slab *slab, uint32_t item_bytes);
/* Frees all chunks; items that are still out are gone with them. */
void slab_fini(struct slab *slab);

/* An item and its place; its bytes are not set. NULL: no memory. */
HF_MUST_CHECK void *slab_take(struct slab *slab, uint16_t *place);
void slab_give(struct slab *slab, void *item, uint16_t place);

/* Asserts that the chunks' counts add up. For tests. */
void slab_validate(const struct slab *slab);

#endif
