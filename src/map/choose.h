/*
 * choose.h - between choose.c, which knows seats, and choosing.c, which knows maps and locks.
 */
#ifndef HOLDFAST_MAP_CHOOSE_H
#define HOLDFAST_MAP_CHOOSE_H

#include "map_internal.h"

#define WINDOWS_MAX 20 /* numbers of seats that a map keeps windows of */

/* NULL: no memory. The state has a layout. */
struct choices *choices_new(const struct map_state *state);

/*
 * SEAT_CHOICE_LOAD is for the caller to say: here, what the map has is the truth. *missing: windows
 * of that size have to be made (windows_new) and given (choices_take_windows) first, then once
 * more; 0: none.
 */
HF_MUST_CHECK enum seat_choice choices_choose(struct choices *choices, const struct seat_wish *wish,
                                              struct mono_time now, char (*ids)[ID_BYTES_MAX + 1],
                                              int *missing);
/* How many windows were looked at, ever. */
uint64_t choices_looks(const struct choices *choices);
/* The try for the seat has ended, well or not. is_doubtful: not chosen again for a moment. */
void choices_give_back(struct choices *choices, uint32_t i, bool is_doubtful, struct mono_time now);

/* Windows on their way: they take a millisecond, so they are made without the lock. */
struct new_windows {
    int size;
    uint32_t count;
    uint32_t *starts;
};
HF_MUST_CHECK bool windows_new(const struct layout *layout, int size, struct new_windows *made);
/* Takes them, if they are of this layout and not there yet. */
void choices_take_windows(struct choices *choices, const struct layout *layout,
                          struct new_windows *made);

#endif
