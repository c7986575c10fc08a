/*
 * keys.c - every key that holdfast has in Redis.
 *
 * All keys of an event have its hash tag, so that one script may touch them in a cluster. Ids are
 * [A-Za-z0-9._-] only: no id can end a tag or a part of a key.
 */
#include "warm_internal.h"

#include <string.h>

static void
append_event(struct buf *out, struct slice org, struct slice event)
{
    buf_append_text(out, "holdfast:{org:");
    buf_append_slice(out, org);
    buf_append_text(out, ":event:");
    buf_append_slice(out, event);
    buf_append_char(out, '}');
}

void
warm_key_seat(struct buf *out, struct slice org, struct slice event, struct slice seat)
{
    append_event(out, org, event);
    buf_append_text(out, ":seat:");
    buf_append_slice(out, seat);
}

void
warm_key_seat_holds(struct buf *out, struct slice org, struct slice event)
{
    append_event(out, org, event);
    buf_append_text(out, ":seat_holds");
}

void
warm_key_hold_meta(struct buf *out, struct slice org, struct slice event,
                   const struct uuid *hold_id)
{
    char text[UUID_TEXT_BYTES];
    uuid_format(hold_id, text);
    append_event(out, org, event);
    buf_append_text(out, ":hold:");
    buf_append_text(out, text);
    buf_append_text(out, ":meta");
}

void
warm_key_occupancy(struct buf *out, struct slice org, struct slice event)
{
    append_event(out, org, event);
    buf_append_text(out, ":occupancy");
}

void
warm_key_seat_holds_beside(struct buf *out, struct slice seat_key)
{
    const char *end = memchr(seat_key.ptr, '}', seat_key.len);
    hf_assert(end != NULL); /* warm_key_seat wrote it */
    buf_append(out, seat_key.ptr, (size_t)(end + 1 - seat_key.ptr));
    buf_append_text(out, ":seat_holds");
}

/* What stands between `before` and the next `end`; *key begins behind it then. */
static bool
take_part(struct slice *key, const char *before, char end, struct slice *part)
{
    size_t skip = strlen(before);
    if (key->len < skip || memcmp(key->ptr, before, skip) != 0)
        return false;
    const char *begin = key->ptr + skip;
    const char *stop = memchr(begin, end, key->len - skip);
    if (stop == NULL)
        return false;
    *part = (struct slice){ begin, (size_t)(stop - begin) };
    *key = (struct slice){ stop, key->len - skip - part->len };
    return true;
}

bool
warm_key_event(struct slice key, struct slice *org, struct slice *event)
{
    return take_part(&key, "holdfast:{org:", ':', org) && take_part(&key, ":event:", '}', event);
}

void
warm_key_mark(struct buf *out)
{
    buf_append_text(out, "holdfast:mark");
}
