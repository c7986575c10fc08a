/*
 * deadline.h - timeouts of many connections at the price of a list.
 *
 * All deadlines of one kind last equally long, so a list in order of arming is in order
 * of ending: arming appends, disarming unlinks, and the tick looks at the list's head.
 * The 10,000 idle connections cost nothing until one is due.
 *
 * Threads:  the loop's own. Memory: the links live in the connections.
 */
#ifndef ACCEPTOR_DEADLINE_H
#define ACCEPTOR_DEADLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct deadline {
    struct deadline *prev, *next; /* NULL: not armed */
    uint64_t at_ms;
};

struct deadline_list {
    struct deadline ends; /* a ring: ends.next is due first */
    uint64_t after_ms;
};

void deadline_list_init(struct deadline_list *list, uint64_t after_ms);
bool deadline_is_armed(const struct deadline *deadline);
/* Arms it anew, if it is armed already. */
void deadline_arm(struct deadline_list *list, struct deadline *deadline, uint64_t now_ms);
void deadline_disarm(struct deadline *deadline);
/* Disarms and returns one that is due, or NULL. */
struct deadline *deadline_take_due(struct deadline_list *list, uint64_t now_ms);

#endif
