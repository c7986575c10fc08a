/*
 * deadline.c - rings of deadlines.
 */
#include "deadline.h"

#include "holdfast/assert.h"

void
deadline_list_init(struct deadline_list *list, uint64_t after_ms)
{
    list->ends = (struct deadline){ &list->ends, &list->ends, 0 };
    list->after_ms = after_ms;
}

bool
deadline_is_armed(const struct deadline *deadline)
{
    return deadline->next != NULL;
}

void
deadline_arm(struct deadline_list *list, struct deadline *deadline, uint64_t now_ms)
{
    struct deadline *last = list->ends.prev == deadline ? deadline->prev : list->ends.prev;
    deadline_disarm(deadline);
    deadline->at_ms = now_ms + list->after_ms;
    hf_assert(last == &list->ends || last->at_ms <= deadline->at_ms);
    deadline->prev = last;
    deadline->next = &list->ends;
    last->next = deadline;
    list->ends.prev = deadline;
}

void
deadline_disarm(struct deadline *deadline)
{
    if (!deadline_is_armed(deadline))
        return;
    deadline->prev->next = deadline->next;
    deadline->next->prev = deadline->prev;
    deadline->prev = deadline->next = NULL;
}

struct deadline *
deadline_take_due(struct deadline_list *list, uint64_t now_ms)
{
    struct deadline *first = list->ends.next;
    if (first == &list->ends || first->at_ms > now_ms)
        return NULL;
    deadline_disarm(first);
    return first;
}
