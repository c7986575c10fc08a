/*
 * ends.c - which of an event's held seats ends next.
 *
 * A binary heap of seats by their end, and where in it each seat is, so that a seat whose end
 * moved is found without a search. Only seats that time can end are in it.
 */
#include <stdlib.h>

#include "map_internal.h"

bool
seat_ends_init(struct seat_ends *ends, uint32_t seats)
{
    ends->count = 0;
    ends->heap = calloc(seats + 1, sizeof(*ends->heap));
    ends->place = calloc(seats + 1, sizeof(*ends->place));
    if (ends->heap != NULL && ends->place != NULL)
        return true;
    seat_ends_fini(ends);
    return false;
}

void
seat_ends_fini(struct seat_ends *ends)
{
    free(ends->heap);
    free(ends->place);
    *ends = (struct seat_ends){ 0 };
}

static bool
can_end(const struct map_seat *seat)
{
    return seat->status == SEAT_HELD && !seat->in_payment && !seat->over;
}

static void
put(struct seat_ends *ends, uint32_t at, uint32_t seat)
{
    ends->heap[at] = seat;
    ends->place[seat] = at + 1;
}

/* Moves what stands at `at` towards the top while it ends sooner than what is above it. */
static uint32_t
rise(struct seat_ends *ends, const struct map_seat *seats, uint32_t at)
{
    uint32_t seat = ends->heap[at];

    while (at > 0 && seats[seat].until.us < seats[ends->heap[(at - 1) / 2]].until.us) {
        put(ends, at, ends->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(ends, at, seat);
    return at;
}

static void
sink(struct seat_ends *ends, const struct map_seat *seats, uint32_t at)
{
    uint32_t seat = ends->heap[at];

    for (uint32_t below = 2 * at + 1; below < ends->count; below = 2 * at + 1) {
        if (below + 1 < ends->count &&
            seats[ends->heap[below + 1]].until.us < seats[ends->heap[below]].until.us)
            below++;
        if (seats[seat].until.us <= seats[ends->heap[below]].until.us)
            break;
        put(ends, at, ends->heap[below]);
        at = below;
    }
    put(ends, at, seat);
}

static void
take_out(struct seat_ends *ends, const struct map_seat *seats, uint32_t seat)
{
    uint32_t at = ends->place[seat] - 1;
    uint32_t last = ends->heap[--ends->count];

    ends->place[seat] = 0;
    if (last == seat)
        return;
    put(ends, at, last);
    sink(ends, seats, rise(ends, seats, at));
}

void
seat_ends_note(struct seat_ends *ends, const struct map_seat *seats, uint32_t seat)
{
    bool is_in = ends->place[seat] != 0;

    if (!can_end(&seats[seat])) {
        if (is_in)
            take_out(ends, seats, seat);
        return;
    }
    if (!is_in)
        put(ends, ends->count++, seat);
    sink(ends, seats, rise(ends, seats, ends->place[seat] - 1));
}
