/*
 * lines.c - the lines of holds (rows of seat_holds): found, counted, closed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"
#include "store.h"

/* Held and not over; and sold, unless it will be given back: what a limit counts. */
int
store_units_of(const struct tx *tx, const char *user, const struct uuid *only_hold)
{
    int units = 0;

    for (struct line_row *line = store.lines; line != NULL; line = line->next_line) {
        const struct line_state *state = tx_sees_line(tx, line);
        if (!state->exists || strcmp(state->user, user) != 0)
            continue;
        if (only_hold != NULL &&
            (!uuid_equal(only_hold, &line->hold) || state->status != HOLD_ACTIVE))
            continue;
        units +=
            (state->status == HOLD_CONVERTED && !store.policy.one_seat_per_user) ||
            (state->status == HOLD_ACTIVE && (state->in_payment || state->until_us > store_now()));
    }
    return units;
}

struct line_row *
store_active_line(const struct tx *tx, const struct uuid *hold, int seat)
{
    for (struct line_row *line = store.lines; line != NULL; line = line->next_line) {
        const struct line_state *state = tx_sees_line(tx, line);
        if (state->exists && state->status == HOLD_ACTIVE && line->seat == seat &&
            (hold == NULL || uuid_equal(&line->hold, hold)))
            return line;
    }
    return NULL;
}

bool
store_close_line(struct tx *tx, struct line_row *line, enum hold_status status, const char *reason,
                 int64_t now)
{
    struct line_state *state = tx_write_line(tx, line);

    if (state == NULL)
        return false;
    state->status = status;
    state->was_sold |= status == HOLD_CONVERTED;
    state->in_payment = false;
    state->ended_us = now;
    snprintf(state->reason, sizeof(state->reason), "%s", reason);
    return true;
}

static int
compare_lines(const void *a, const void *b)
{
    const struct line_row *x = *(struct line_row *const *)a, *y = *(struct line_row *const *)b;

    return (x->line > y->line) - (x->line < y->line);
}

int
store_lines_of(const struct tx *tx, const struct uuid *hold,
               struct line_row *lines[LINES_OF_HOLD_MAX])
{
    int count = 0;

    for (struct line_row *line = store.lines; line != NULL; line = line->next_line) {
        if (!tx_sees_line(tx, line)->exists || !uuid_equal(&line->hold, hold))
            continue;
        hf_assert(count < LINES_OF_HOLD_MAX);
        lines[count++] = line;
    }
    qsort(lines, (size_t)count, sizeof(*lines), compare_lines);
    return count;
}
