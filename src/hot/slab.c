/* slab.c - see slab.h. A free item holds the pointer to the next free one. */
#include "slab.h"

#include <stddef.h>
#include <stdlib.h>

struct chunk {
    struct link link; /* in open or full */
    void *free;       /* items that were given back */
    uint16_t cut;     /* places that were ever used; those beyond are untouched */
    uint16_t out;
    _Alignas(8) char items[];
};

static uint32_t
places_per_chunk(const struct slab *slab)
{
    return (SLAB_CHUNK_BYTES - (uint32_t)offsetof(struct chunk, items)) / slab->item_bytes;
}

void
slab_init(struct slab *slab, uint32_t item_bytes)
{
    hf_assert(item_bytes >= sizeof(void *) && item_bytes % 8 == 0);
    *slab = (struct slab){ .item_bytes = item_bytes };
    link_init(&slab->open);
    link_init(&slab->full);
}

static void
ring_free(struct link *head)
{
    while (!link_is_empty(head)) {
        struct link *link = head->next;
        link_unlink(link);
        free(link); /* a chunk begins with its link */
    }
}

void
slab_fini(struct slab *slab)
{
    ring_free(&slab->open);
    ring_free(&slab->full);
    slab->items = 0;
}

/* A chunk with a free place; NULL: no memory. */
static struct chunk *
open_chunk(struct slab *slab)
{
    if (!link_is_empty(&slab->open)) {
        return (struct chunk *)slab->open.next;
    }
    struct chunk *chunk = malloc(SLAB_CHUNK_BYTES);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->free = NULL;
    chunk->cut = 0;
    chunk->out = 0;
    link_append(&slab->open, &chunk->link);
    return chunk;
}

void *
slab_take(struct slab *slab, uint16_t *place)
{
    struct chunk *chunk = open_chunk(slab);
    if (chunk == NULL) {
        return NULL;
    }
    void *item = chunk->free;
    if (item != NULL) {
        chunk->free = *(void **)item;
        *place = (uint16_t)((size_t)((char *)item - chunk->items) / slab->item_bytes);
    } else {
        *place = chunk->cut++;
        item = chunk->items + (size_t)*place * slab->item_bytes;
    }
    chunk->out++;
    slab->items++;
    if (chunk->out == places_per_chunk(slab)) {
        link_unlink(&chunk->link);
        link_append(&slab->full, &chunk->link);
    }
    return item;
}

void
slab_give(struct slab *slab, void *item, uint16_t place)
{
    char *items = (char *)item - (size_t)place * slab->item_bytes;
    struct chunk *chunk = (struct chunk *)(items - offsetof(struct chunk, items));
    hf_assert(chunk->out > 0 && place < chunk->cut);

    *(void **)item = chunk->free;
    chunk->free = item;
    chunk->out--;
    slab->items--;
    link_unlink(&chunk->link);
    if (chunk->out == 0) {
        free(chunk);
    } else {
        /* Behind the others: one chunk is filled up before the next is touched. */
        link_append(&slab->open, &chunk->link);
    }
}

static int64_t
ring_validate(const struct slab *slab, const struct link *head, bool full)
{
    int64_t items = 0;
    for (const struct link *link = head->next; link != head; link = link->next) {
        const struct chunk *chunk = (const struct chunk *)link;
        hf_assert(chunk->cut <= places_per_chunk(slab));
        hf_assert((chunk->out == places_per_chunk(slab)) == full);
        uint32_t given_back = 0;
        for (void *item = chunk->free; item != NULL; item = *(void **)item) {
            given_back++;
        }
        hf_assert(chunk->out + given_back == chunk->cut);
        items += chunk->out;
    }
    return items;
}

void
slab_validate(const struct slab *slab)
{
    hf_assert(ring_validate(slab, &slab->open, false) + ring_validate(slab, &slab->full, true) ==
              slab->items);
}
