/*
 * timer_wheel.c - see timer_wheel.h for the model.
 *
 * The invariant that all rests on: a timer in level L agrees with wheel->tick in
 * every digit above L and has a larger digit at L. Hence the lowest level in use
 * has the next slot to come, and its lowest bit names it.
 */
#include "timer_wheel.h"

#include <stddef.h>

#define BITS(level) ((level)*TIMER_SLOT_BITS)

_Static_assert(INT64_MAX / TIMER_TICK_US < (INT64_C(1) << BITS(TIMER_LEVELS)),
               "the levels must reach every time that can be named");
_Static_assert(TIMER_SLOTS == 64, "a level's bits are one uint64_t");

static struct timer_node *
node_of(struct link *link)
{
    _Static_assert(offsetof(struct timer_node, link) == 0, "a link is its node");
    return (struct timer_node *)link;
}

void
timer_wheel_init(struct timer_wheel *wheel)
{
    *wheel = (struct timer_wheel){ 0 };
    link_init(&wheel->moving);
    link_init(&wheel->due);
    for (int level = 0; level < TIMER_LEVELS; level++) {
        for (int slot = 0; slot < TIMER_SLOTS; slot++) {
            link_init(&wheel->slots[level][slot]);
        }
    }
}

/* Where a clock's time lies on the wheel's own axis, which never goes back. */
static int64_t
wheel_position_us(const struct timer_wheel *wheel, struct db_time time)
{
    int64_t position_us;
    if (__builtin_add_overflow(time.us, wheel->behind_us, &position_us)) {
        return INT64_MAX;
    }
    return position_us < 0 ? 0 : position_us;
}

/* The first tick that doesn't begin before `at`, and is still to come. */
static int64_t
wheel_tick_for(const struct timer_wheel *wheel, struct db_time at)
{
    int64_t position_us = wheel_position_us(wheel, at);
    int64_t tick = position_us / TIMER_TICK_US + (position_us % TIMER_TICK_US != 0);
    return tick > wheel->tick_goal ? tick : wheel->tick_goal + 1;
}

static void
wheel_place(struct timer_wheel *wheel, struct timer_node *node)
{
    int64_t tick = wheel_tick_for(wheel, node->at);
    hf_assert(tick > wheel->tick);
    int highest_bit = 63 - __builtin_clzll((uint64_t)(tick ^ wheel->tick));
    int level = highest_bit / TIMER_SLOT_BITS;
    int slot = (int)(tick >> BITS(level)) & (TIMER_SLOTS - 1);

    link_append(&wheel->slots[level][slot], &node->link);
    wheel->used[level] |= UINT64_C(1) << slot;
}

/* Unlinks the node; if that empties a slot, its bit goes too. */
static void
wheel_unlink(struct timer_wheel *wheel, struct timer_node *node)
{
    struct link *neighbour = node->link.next;
    link_unlink(&node->link);
    if (!link_is_empty(neighbour)) {
        return;
    }
    /* Only a head can be left alone in its ring; it may also be that of `moving` or `due`. */
    uintptr_t first = (uintptr_t)&wheel->slots[0][0];
    uintptr_t head = (uintptr_t)neighbour;
    if (head >= first && head < first + sizeof(wheel->slots)) {
        size_t index = (head - first) / sizeof(struct link);
        wheel->used[index / TIMER_SLOTS] &= ~(UINT64_C(1) << (index % TIMER_SLOTS));
    }
}

void
timer_wheel_arm(struct timer_wheel *wheel, struct timer_node *node, struct db_time at)
{
    node->at = at;
    wheel_place(wheel, node);
    wheel->armed++;
}

void
timer_wheel_disarm(struct timer_wheel *wheel, struct timer_node *node)
{
    hf_assert(wheel->armed > 0);
    wheel_unlink(wheel, node);
    wheel->armed--;
}

/* Takes in what the clock says now, which may be less than before. */
static void
wheel_set_clock(struct timer_wheel *wheel, struct db_time now)
{
    if (now.us < wheel->now.us) {
        wheel->behind_us += wheel->now.us - now.us;
        link_splice(&wheel->moving, &wheel->due); /* to be judged again by the clock of now */
    }
    wheel->now = now;
    int64_t tick = wheel_position_us(wheel, now) / TIMER_TICK_US;
    hf_assert(tick >= wheel->tick_goal);
    wheel->tick_goal = tick;
}

/* The tick at which a slot begins that is still to come. */
static int64_t
slot_begin(const struct timer_wheel *wheel, int level, int slot)
{
    int64_t block = wheel->tick >> BITS(level + 1) << BITS(level + 1);
    return block | (int64_t)slot << BITS(level);
}

/* Goes to the next slot in use and takes its timers out. False: none up to the goal. */
static bool
wheel_reach_slot(struct timer_wheel *wheel)
{
    int level = 0;
    while (level < TIMER_LEVELS && wheel->used[level] == 0) {
        level++;
    }
    if (level == TIMER_LEVELS) {
        return false;
    }
    int slot = __builtin_ctzll(wheel->used[level]);
    int64_t begin = slot_begin(wheel, level, slot);
    if (begin > wheel->tick_goal) {
        return false;
    }
    wheel->tick = begin;
    wheel->used[level] &= ~(UINT64_C(1) << slot);
    link_splice(&wheel->moving, &wheel->slots[level][slot]);
    return true;
}

/* A timer of a slot that was reached: it is due, or moves down, or the clock was set back. */
static void
wheel_move_one(struct timer_wheel *wheel)
{
    struct timer_node *node = node_of(wheel->moving.next);
    link_unlink(&node->link);
    if (node->at.us <= wheel->now.us) {
        link_append(&wheel->due, &node->link);
    } else {
        wheel_place(wheel, node);
    }
}

bool
timer_wheel_turn(struct timer_wheel *wheel, struct db_time now, int steps)
{
    wheel_set_clock(wheel, now);
    for (; steps > 0; steps--) {
        if (!link_is_empty(&wheel->moving)) {
            wheel_move_one(wheel);
        } else if (!wheel_reach_slot(wheel)) {
            wheel->tick = wheel->tick_goal;
            return true;
        }
    }
    return false;
}

struct timer_node *
timer_wheel_pop(struct timer_wheel *wheel)
{
    if (link_is_empty(&wheel->due)) {
        return NULL;
    }
    struct timer_node *node = node_of(wheel->due.next);
    hf_assert(node->at.us <= wheel->now.us);
    timer_wheel_disarm(wheel, node);
    return node;
}

static int64_t
ring_validate(const struct link *head)
{
    int64_t count = 0;
    for (const struct link *link = head->next; link != head; link = link->next) {
        hf_assert(link->next->prev == link);
        hf_assert(link->prev->next == link);
        count++;
    }
    return count;
}

static int64_t
slot_validate(const struct timer_wheel *wheel, int level, int slot)
{
    struct link *head = (struct link *)&wheel->slots[level][slot];
    int64_t count = ring_validate(head);
    hf_assert((count > 0) == ((wheel->used[level] >> slot & 1) != 0));
    hf_assert(count == 0 || slot_begin(wheel, level, slot) > wheel->tick);
    for (struct link *link = head->next; link != head; link = link->next) {
        /* It is looked at not later than it is due. */
        hf_assert(slot_begin(wheel, level, slot) <= wheel_tick_for(wheel, node_of(link)->at));
    }
    return count;
}

void
timer_wheel_validate(const struct timer_wheel *wheel)
{
    hf_assert(wheel->tick <= wheel->tick_goal);
    hf_assert(wheel->behind_us >= 0);
    int64_t count = ring_validate(&wheel->moving) + ring_validate(&wheel->due);
    for (int level = 0; level < TIMER_LEVELS; level++) {
        for (int slot = 0; slot < TIMER_SLOTS; slot++) {
            count += slot_validate(wheel, level, slot);
        }
    }
    hf_assert(count == wheel->armed);
}
