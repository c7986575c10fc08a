/*
 * seating.h - a seating row as people sit in it: its order, who sits next to whom, and which choice
 * of seats leaves one alone.
 *
 * A row is all seats of one event with the same section and row. It is cut into blocks: by an aisle
 * (`aisle_after` of a seat), and by a break in its numbering. Nobody sits next to somebody across
 * one.
 *
 * A seat is alone when it is free and has no free neighbour. The rule: a choice must not leave a
 * seat alone that wasn't before; unless every choice of as many seats in that row would.
 *
 * Pure: no I/O, no locks, any thread.
 */
#ifndef HOLDFAST_SEATING_H
#define HOLDFAST_SEATING_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/slice.h"

/* <0, 0, >0: texts with runs of digits compared as numbers. A total order: 0 only for equal
 * bytes. */
int natural_compare(struct slice a, struct slice b);

/* A seat of a row, as the house has it. */
struct seating_label {
    struct slice number;
    bool aisle_after;
    bool is_removed; /* was one; its place is empty */
    int tag;         /* the caller's own */
};

/* What is said of a seat, or'd. None of it: it is free, and another one stands right after it. */
enum {
    SEATING_TAKEN = 1,  /* by another, or blocked: can't be chosen */
    SEATING_MINE = 2,   /* the chooser has it by now; free as soon as it isn't chosen (again) */
    SEATING_CHOSEN = 4, /* is the chooser's afterwards */
    SEATING_BREAK = 8   /* no neighbour after it: the end of a block */
};

/*
 * Puts the labels in order and the removed ones at the end, and sets seats[i] of the others to
 * SEATING_BREAK or 0. Returns how many those are.
 *
 * Numbers that end in digits, and single letters, are counted: more than one step to the next is a
 * break (of letters, I and O may be left out). A step is two where a row of three or more has odd
 * numbers only, or even ones. Of other texts only the order counts.
 */
int seating_order(struct seating_label *labels, int count, uint8_t *seats);

/*
 * Judges the choice. Returns how many seats it would leave alone against the rule, and their places
 * in alone[], at most alone_max; 0: it is allowed.
 */
int seating_left_alone(const uint8_t *seats, int count, int *alone, int alone_max);

#endif
