/*
 * version.c - public versions of maps, and what a reader who names one has.
 *
 * "<boot>-<position>" tells this process what changed since. "-<time>-<feed position>" is added
 * when the map had everything (seat_maps_is_whole): so any node can tell a difference too.
 *
 * What another node's reader lacks. A map here has what was read (its base), and what records
 * brought since. A reader whose feed position has all of the base's lacks exactly what came in
 * records that his position doesn't have (`from` of each seat) - if nothing changed that no record
 * ever told. That happens: a node commits and is killed before it tells. Then
 *  - the reader's position names that node and ours doesn't any more: he is given the whole; or
 *  - it was gone, for us, before our base was read. The reader's version is from SETTLE_US later
 *    at the least. By then the node that gave it had noticed as well (it was trusted, so it had
 *    read the table of nodes at most two seconds before, heard all of them, and read the map after
 *    that), so he has it.
 * A distrust makes us read the map again, which is a new base. Whatever else is in doubt, the whole
 * map is always right.
 */
#include <stdio.h>
#include <string.h>

#include "map_internal.h"

void
version_write(const struct map_version *version, char text[VERSION_TEXT_BYTES])
{
    int len = snprintf(text, VERSION_TEXT_BYTES, "%s-%llu", version->boot,
                       (unsigned long long)version->position);

    if (!version->is_told)
        return;
    len += snprintf(text + len, (size_t)(VERSION_TEXT_BYTES - len), "-%llu-",
                    (unsigned long long)(version->at.us / TIME_US_PER_MS));
    feed_position_write(&version->feed, text + len);
}

/* Takes digits from the front. False: there are none, or too many. */
static bool
take_number(struct slice *text, uint64_t *number)
{
    size_t len = 0;

    *number = 0;
    for (; len < text->len && text->ptr[len] >= '0' && text->ptr[len] <= '9'; len++) {
        if (len == 19)
            return false;
        *number = *number * 10 + (uint64_t)(text->ptr[len] - '0');
    }
    *text = (struct slice){ text->ptr + len, text->len - len };
    return len > 0;
}

static bool
take_dash(struct slice *text)
{
    if (text->len == 0 || text->ptr[0] != '-')
        return false;
    *text = (struct slice){ text->ptr + 1, text->len - 1 };
    return true;
}

bool
version_parse(struct slice text, struct map_version *version)
{
    size_t boot_len = sizeof(version->boot) - 1;
    uint64_t at_ms;

    if (text.len < boot_len)
        return false;
    memcpy(version->boot, text.ptr, boot_len);
    version->boot[boot_len] = '\0';
    version->is_told = false;
    text = (struct slice){ text.ptr + boot_len, text.len - boot_len };
    if (!take_dash(&text) || !take_number(&text, &version->position))
        return false;
    if (text.len == 0)
        return true;
    if (!take_dash(&text) || !take_number(&text, &at_ms) || !take_dash(&text) ||
        at_ms > INT64_MAX / TIME_US_PER_MS || !feed_position_parse(text, &version->feed))
        return false;
    version->at.us = (int64_t)at_ms * TIME_US_PER_MS;
    version->is_told = true;
    return true;
}

bool
base_is_in(const struct map_base *base, struct map_version *version,
           const struct feed_position *now)
{
    if (!base->is_known || !version->is_told || version->at.us < base->settled.us)
        return false;
    for (int i = 0; i < version->feed.count; i++) {
        if (feed_position_find(now, version->feed.marks[i].incarnation) < 0)
            return false; /* lost, as far as we know */
    }
    feed_position_complete(&version->feed, now);
    return feed_position_covers(&version->feed, &base->feed);
}

bool
reader_lacks(const struct map_reader *reader, const struct map_seat *seat)
{
    return reader->feed == NULL ||
           feed_position_of(reader->feed, seat->from.incarnation) < seat->from.number;
}
