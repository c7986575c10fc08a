/*
 * event_names.h - each (org, event) of a shard once, so that its seats share the text.
 *
 * A seat's entry names its event by a 32-bit number. The number is good while at
 * least one seat refers to it; the last one to go frees the name, so there are
 * never more names than entries.
 *
 * Threads, locks: none; the shard's lock guards it. Looking up allocates nothing.
 * Memory:   owns the text.
 */
#ifndef HOLDFAST_HOT_EVENT_NAMES_H
#define HOLDFAST_HOT_EVENT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/slice.h"

struct event_name; /* one (org, event) */

struct event_slot {
    struct event_name *name; /* NULL: this number is free */
    uint32_t next_free;      /* only while it is */
};

struct event_names {
    struct event_name *by_text; /* uthash head */
    struct event_slot *by_number;
    uint32_t numbers;    /* size of by_number */
    uint32_t first_free; /* == numbers: none */
};

void event_names_init(struct event_names *names);
/* Frees all names, whoever refers to them. */
void event_names_fini(struct event_names *names);

/* `text`: org, NUL, event. False: no seat of this event is here. */
bool event_names_find(const struct event_names *names, struct slice text, uint32_t *number);

/* Finds or makes the name, and refers to it once more. False: no memory. */
HF_MUST_CHECK bool event_names_get(struct event_names *names, struct slice text, uint32_t *number);
/* Gives one reference back. */
void event_names_put(struct event_names *names, uint32_t number);

/* Borrowed: good while the number is. */
void event_names_tell(const struct event_names *names, uint32_t number, struct slice *org,
                      struct slice *event);

/* How many entries refer to a number; 0: it is free. For tests. */
uint32_t event_names_references(const struct event_names *names, uint32_t number);

#endif
