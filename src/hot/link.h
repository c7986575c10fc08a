/*
 * link.h - a doubly linked ring; the head is a link of its own.
 *
 * An empty head, and a link that is in no ring, point at themselves, so that
 * unlinking twice is harmless. Memory: intrusive, nothing is allocated.
 * Threads: none; whoever owns the ring has its lock.
 */
#ifndef HOLDFAST_HOT_LINK_H
#define HOLDFAST_HOT_LINK_H

#include <stdbool.h>

struct link {
    struct link *next;
    struct link *prev;
};

static inline void
link_init(struct link *link)
{
    link->next = link;
    link->prev = link;
}

static inline bool
link_is_empty(const struct link *head)
{
    return head->next == head;
}

static inline void
link_append(struct link *head, struct link *link)
{
    link->next = head;
    link->prev = head->prev;
    head->prev->next = link;
    head->prev = link;
}

static inline void
link_unlink(struct link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link_init(link);
}

/* Moves the whole ring of `from` behind what `to` has; `from` is empty then. */
static inline void
link_splice(struct link *to, struct link *from)
{
    if (link_is_empty(from)) {
        return;
    }
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    link_init(from);
}

#endif
