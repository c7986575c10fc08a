/*
 * choosing.c - the best seats of an event: when its map may be believed, and one choice at a time.
 */
#include "choose.h"
#include "event_map.h"

#define READING_US ((int64_t)TIME_US_PER_S) /* a reading that takes longer has failed */
/* A choice that has made windows so often has had others put theirs in their places each time. */
#define TURNS_MAX (2 * WINDOWS_MAX)

/* Who finds that the map has to be read reads it; others come again. */
static enum seat_choice
load_locked(struct event_map *map, const struct seat_wish *wish, struct mono_time now)
{
    if (!wish->is_reader && map->reading_since.us != 0 &&
        now.us - map->reading_since.us < READING_US)
        return SEAT_CHOICE_LATER;
    map->reading_since = now;
    return SEAT_CHOICE_LOAD;
}

/* While somebody reads it again, what is free in an old map is most likely free. */
static bool
has_the_house_locked(const struct event_map *map)
{
    return map->state.layout != NULL && map->read_at.us > map->needs_read_after.us;
}

/* "No" is only said of a map that has missed nothing since the request came. */
static bool
may_deny_locked(const struct seat_maps *maps, const struct event_map *map,
                const struct seat_wish *wish)
{
    return map->read_at.us >= wish->arrived.us || event_map_is_whole_locked(maps, map);
}

static enum seat_choice
choose_locked(struct seat_maps *maps, struct event_map *map, const struct seat_wish *wish,
              char (*ids)[ID_BYTES_MAX + 1], int *missing)
{
    struct map_state *state = &map->state;
    struct mono_time now = mono_now();

    *missing = 0;
    if (!event_map_may_serve_locked(maps, map, wish->arrived, wish->fresh_since)) {
        enum seat_choice choice = load_locked(map, wish, now);
        if (choice == SEAT_CHOICE_LOAD || !has_the_house_locked(map))
            return choice;
    }
    if (wish->now.us >= state->next_end.us)
        map_state_sweep(state, wish->now, seat_maps_next_position(maps));
    if (state->choices == NULL && (state->choices = choices_new(state)) == NULL)
        return SEAT_CHOICE_NO_MEMORY;
    enum seat_choice choice = choices_choose(state->choices, wish, now, ids, missing);
    bool is_denied = choice == SEAT_CHOICE_TOO_FEW || choice == SEAT_CHOICE_APART;
    if (*missing > 0 || !is_denied)
        return choice;
    if (!may_deny_locked(maps, map, wish))
        return load_locked(map, wish, now);
    return state->next_end.us <= wish->now_most.us ? SEAT_CHOICE_LATER : choice;
}

/* The lock is given up meanwhile. False: no memory. */
static bool
make_windows_locked(struct event_map *map, int size)
{
    struct layout *layout = layout_get(map->state.layout);
    struct new_windows made;

    lock_drop(&map->lock);
    bool is_made = windows_new(layout, size, &made);
    lock_take(&map->lock);
    if (is_made && map->state.choices != NULL)
        choices_take_windows(map->state.choices, layout, &made);
    else if (is_made)
        free(made.starts);
    layout_put(layout);
    return is_made;
}

/* Makes the windows that the choice lacks, one number of seats after the other. */
static enum seat_choice
choose_in_turns_locked(struct seat_maps *maps, struct event_map *map, const struct seat_wish *wish,
                       char (*ids)[ID_BYTES_MAX + 1])
{
    int missing;

    for (int turns = 0; turns < TURNS_MAX; turns++) {
        enum seat_choice choice = choose_locked(maps, map, wish, ids, &missing);
        if (missing == 0)
            return choice;
        if (!make_windows_locked(map, missing))
            return SEAT_CHOICE_NO_MEMORY;
    }
    return SEAT_CHOICE_LATER;
}

enum seat_choice
seat_maps_choose(struct seat_maps *maps, struct slice org, struct slice event,
                 const struct seat_wish *wish, char (*ids)[ID_BYTES_MAX + 1])
{
    struct event_map *map = event_map_find(maps, org, event, FIND_OR_MAKE);
    if (map == NULL)
        return SEAT_CHOICE_NO_MEMORY;
    event_map_used(maps, map);
    lock_take(&map->lock);
    enum seat_choice choice = choose_in_turns_locked(maps, map, wish, ids);
    lock_drop(&map->lock);
    event_map_put(map);
    return choice;
}

void
seat_maps_give_back(struct seat_maps *maps, struct slice org, struct slice event,
                    char (*ids)[ID_BYTES_MAX + 1], int count, bool is_doubtful)
{
    struct mono_time now = mono_now();
    struct event_map *map = event_map_find(maps, org, event, FIND_THERE);
    if (map == NULL)
        return;
    lock_take(&map->lock);
    for (int i = 0; map->state.choices != NULL && i < count; i++) {
        uint32_t seat = layout_find(map->state.layout, slice_of(ids[i]));
        if (seat != LAYOUT_NONE)
            choices_give_back(map->state.choices, seat, is_doubtful, now);
    }
    lock_drop(&map->lock);
    event_map_put(map);
}
