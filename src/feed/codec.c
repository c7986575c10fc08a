/*
 * codec.c - changes as bytes: what is sent to peers and kept in the log.
 *
 * A byte says the format, then the changes follow. Each begins with 16 flags; what equals the
 * change before it is left out: the event, the clock reading, the hold with its user and end.
 * Numbers are varints (7 bits a byte, the lowest first), times differences (zigzag), texts have a
 * byte of length.
 *
 *   flags (2 bytes, little endian)
 *   org, event                  unless SAME_EVENT
 *   item                        seats and areas
 *   version                     all but FEED_SEATS
 *   held, sold                  areas
 *   at - the one before         unless SAME_AT
 *   hold (16 bytes), user       OWNER_GIVEN
 *   held_until - at             OWNER_GIVEN with HAS_UNTIL
 */
#include "feed_internal.h"

#include <string.h>

#define FORMAT 1

enum {
    KIND_SHIFT = 0,   /* 2 bits */
    STATUS_SHIFT = 2, /* 3 bits */
    REASON_SHIFT = 5, /* 3 bits */
    IN_PAYMENT = 1 << 8,
    SAME_EVENT = 1 << 9,
    SAME_AT = 1 << 10,
    OWNER_GIVEN = 1 << 11,
    OWNER_SAME = 1 << 12,
    HAS_UNTIL = 1 << 13,
    ALL_FLAGS = (1 << 14) - 1,
    /* Of a change that isn't a seat's: nothing that speaks of a seat's state. */
    SEAT_FLAGS = ALL_FLAGS & ~(3 | SAME_EVENT | SAME_AT)
};
_Static_assert(FEED_SEATS < 4 && SEAT_REMOVED < 8 && FEED_UNBLOCKED < 8, "they fit their bits");

#define VARINT_BYTES_MAX 10
#define NUMBERS_MAX      4 /* of one change: version, at, and end or two counts */
/* Beside its texts: flags, four bytes of length, hold. */
#define FIXED_BYTES_MAX (2 + 4 + 16 + NUMBERS_MAX * VARINT_BYTES_MAX)
_Static_assert(1 + FIXED_BYTES_MAX + 4 * ID_BYTES_MAX < FEED_RECORD_BYTES_MAX, "one always fits");

/* --- what may be written, and believed --------------------------------------------- */

static bool
is_name(struct slice text)
{
    return text.len > 0 && text.len <= ID_BYTES_MAX && memchr(text.ptr, '\0', text.len) == NULL;
}

/* As hot table, maps and events want it. */
static bool
is_sound(const struct feed_change *change)
{
    bool has_item = change->kind == FEED_SEAT || change->kind == FEED_AREA;

    return is_name(change->org) && is_name(change->event) &&
           (has_item ? is_name(change->item) : change->item.len == 0) &&
           (change->user.len == 0 || is_name(change->user)) && change->version >= 0 &&
           change->held >= 0 && change->sold >= 0 && change->status <= SEAT_REMOVED;
}

static bool
same_owner(const struct feed_change *a, const struct feed_change *b)
{
    return uuid_equal(&a->hold_id, &b->hold_id) && a->held_until.us == b->held_until.us &&
           slice_equal(a->user, b->user);
}

static bool
has_owner(const struct feed_change *change)
{
    return !uuid_is_nil(&change->hold_id) || change->user.len > 0 || change->held_until.us != 0;
}

static void
take_owner(struct feed_change *to, const struct feed_change *from)
{
    to->hold_id = from->hold_id;
    to->user = from->user;
    to->held_until = from->held_until;
}

/* --- writing -------------------------------------------------------------------------- */

int
codec_fit(const struct feed_change *changes, int count, size_t *bytes_max)
{
    int i = 0;

    *bytes_max = 1;
    for (; i < count; i++) {
        size_t more = FIXED_BYTES_MAX + changes[i].org.len + changes[i].event.len +
                      changes[i].item.len + changes[i].user.len;
        if (i > 0 && *bytes_max + more > FEED_RECORD_BYTES_MAX)
            break;
        *bytes_max += more;
    }
    return i;
}

static uint8_t *
put_number(uint8_t *at, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        *at++ = (uint8_t)(number | 0x80);
    *at++ = (uint8_t)number;
    return at;
}

/* Small differences of either sign become small numbers. */
static uint8_t *
put_difference(uint8_t *at, struct db_time time, struct db_time from)
{
    int64_t difference = (int64_t)((uint64_t)time.us - (uint64_t)from.us);

    return put_number(at, ((uint64_t)difference << 1) ^ (uint64_t)(difference >> 63));
}

static uint8_t *
put_text(uint8_t *at, struct slice text)
{
    *at++ = (uint8_t)text.len;
    memcpy(at, text.ptr, text.len);
    return at + text.len;
}

static unsigned
flags_of(const struct feed_change *change, const struct feed_change *last)
{
    unsigned flags = (unsigned)change->kind << KIND_SHIFT;

    if (slice_equal(change->event, last->event) && slice_equal(change->org, last->org))
        flags |= SAME_EVENT;
    if (change->at.us == last->at.us)
        flags |= SAME_AT;
    if (change->kind != FEED_SEAT)
        return flags;
    flags |= (unsigned)change->status << STATUS_SHIFT | (unsigned)change->reason << REASON_SHIFT;
    if (change->in_payment)
        flags |= IN_PAYMENT;
    if (!has_owner(change))
        return flags;
    if (same_owner(change, last))
        return flags | OWNER_SAME;
    return flags | OWNER_GIVEN | (change->held_until.us != 0 ? HAS_UNTIL : 0);
}

static uint8_t *
put_owner(uint8_t *at, const struct feed_change *change, unsigned flags)
{
    memcpy(at, change->hold_id.bytes, sizeof(change->hold_id.bytes));
    at = put_text(at + sizeof(change->hold_id.bytes), change->user);
    return flags & HAS_UNTIL ? put_difference(at, change->held_until, change->at) : at;
}

static uint8_t *
put_change(uint8_t *at, const struct feed_change *change, struct feed_change *last)
{
    unsigned flags = flags_of(change, last);

    *at++ = (uint8_t)flags;
    *at++ = (uint8_t)(flags >> 8);
    if (!(flags & SAME_EVENT))
        at = put_text(put_text(at, change->org), change->event);
    if (change->kind == FEED_SEAT || change->kind == FEED_AREA)
        at = put_text(at, change->item);
    if (change->kind != FEED_SEATS)
        at = put_number(at, (uint64_t)change->version);
    if (change->kind == FEED_AREA)
        at = put_number(put_number(at, (uint64_t)change->held), (uint64_t)change->sold);
    if (!(flags & SAME_AT))
        at = put_difference(at, change->at, last->at);
    if (flags & OWNER_GIVEN) {
        at = put_owner(at, change, flags);
        take_owner(last, change);
    }
    last->org = change->org;
    last->event = change->event;
    last->at = change->at;
    return at;
}

size_t
codec_write(char *out, const struct feed_change *changes, int count)
{
    struct feed_change last = { .kind = FEED_SEAT };
    uint8_t *at = (uint8_t *)out;

    *at++ = FORMAT;
    for (int i = 0; i < count; i++) {
        if (!is_sound(&changes[i]))
            return 0;
        at = put_change(at, &changes[i], &last);
    }
    return (size_t)(at - (uint8_t *)out);
}

/* --- reading ---------------------------------------------------------------------------- */

void
codec_begin(struct codec_reader *reader, struct slice bytes)
{
    memset(reader, 0, sizeof(*reader));
    reader->at = (const uint8_t *)bytes.ptr;
    reader->end = reader->at + bytes.len;
    if (bytes.len > 0 && *reader->at == FORMAT)
        reader->at++;
    else
        reader->end = NULL; /* nothing of it can be read */
}

static bool
get_number(struct codec_reader *reader, uint64_t *number)
{
    *number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (reader->at == reader->end)
            return false;
        uint64_t bits = *reader->at & 0x7f;
        if (shift == 63 && bits > 1)
            return false;
        *number |= bits << shift;
        if (!(*reader->at++ & 0x80))
            return true;
    }
    return false;
}

static bool
get_count(struct codec_reader *reader, int64_t *count)
{
    uint64_t number;
    bool good = get_number(reader, &number);

    *count = (int64_t)number; /* what is negative now is unsound */
    return good;
}

static bool
get_difference(struct codec_reader *reader, struct db_time from, struct db_time *time)
{
    uint64_t number;
    bool good = get_number(reader, &number);

    time->us = (int64_t)((uint64_t)from.us + ((number >> 1) ^ (0 - (number & 1))));
    return good;
}

static bool
get_bytes(struct codec_reader *reader, size_t len, const char **bytes)
{
    if ((size_t)(reader->end - reader->at) < len)
        return false;
    *bytes = (const char *)reader->at;
    reader->at += len;
    return true;
}

static bool
get_text(struct codec_reader *reader, struct slice *text)
{
    const char *len;

    if (!get_bytes(reader, 1, &len))
        return false;
    text->len = (uint8_t)*len;
    return get_bytes(reader, text->len, &text->ptr);
}

static bool
flags_are_good(unsigned flags)
{
    bool is_seat = (flags & 3) == FEED_SEAT;
    bool given = flags & OWNER_GIVEN;

    return (flags & ~(unsigned)ALL_FLAGS) == 0 && (is_seat || (flags & SEAT_FLAGS) == 0) &&
           !(given && (flags & OWNER_SAME)) && (given || !(flags & HAS_UNTIL));
}

static bool
get_flags(struct codec_reader *reader, struct feed_change *change, unsigned *flags)
{
    const char *bytes;

    if (!get_bytes(reader, 2, &bytes))
        return false;
    *flags = (uint8_t)bytes[0] | (unsigned)(uint8_t)bytes[1] << 8;
    *change = (struct feed_change){ .kind = (enum feed_kind)(*flags & 3),
                                    .status = (enum seat_status)(*flags >> STATUS_SHIFT & 7),
                                    .reason = (enum feed_reason)(*flags >> REASON_SHIFT & 7),
                                    .in_payment = *flags & IN_PAYMENT,
                                    .item = SLICE_EMPTY,
                                    .user = SLICE_EMPTY };
    return flags_are_good(*flags);
}

static bool
get_owner(struct codec_reader *reader, struct feed_change *change, unsigned flags)
{
    const char *hold;

    if (!(flags & OWNER_GIVEN)) {
        if (flags & OWNER_SAME)
            take_owner(change, &reader->last);
        return true;
    }
    if (!get_bytes(reader, sizeof(change->hold_id.bytes), &hold) ||
        !get_text(reader, &change->user) ||
        (flags & HAS_UNTIL && !get_difference(reader, change->at, &change->held_until)))
        return false;
    memcpy(change->hold_id.bytes, hold, sizeof(change->hold_id.bytes));
    take_owner(&reader->last, change);
    return true;
}

static bool
get_change(struct codec_reader *reader, struct feed_change *change)
{
    unsigned flags;

    if (!get_flags(reader, change, &flags))
        return false;
    change->org = reader->last.org;
    change->event = reader->last.event;
    change->at = reader->last.at;
    if (!(flags & SAME_EVENT) &&
        (!get_text(reader, &change->org) || !get_text(reader, &change->event)))
        return false;
    if ((change->kind == FEED_SEAT || change->kind == FEED_AREA) &&
        !get_text(reader, &change->item))
        return false;
    if (change->kind != FEED_SEATS && !get_count(reader, &change->version))
        return false;
    if (change->kind == FEED_AREA &&
        (!get_count(reader, &change->held) || !get_count(reader, &change->sold)))
        return false;
    if (!(flags & SAME_AT) && !get_difference(reader, reader->last.at, &change->at))
        return false;
    return get_owner(reader, change, flags) && is_sound(change);
}

enum codec_read
codec_next(struct codec_reader *reader, struct feed_change *change)
{
    if (reader->end == NULL)
        return CODEC_GARBLED;
    if (reader->at == reader->end)
        return CODEC_END;
    if (!get_change(reader, change)) {
        reader->end = NULL;
        return CODEC_GARBLED;
    }
    reader->last.org = change->org;
    reader->last.event = change->event;
    reader->last.at = change->at;
    return CODEC_CHANGE;
}

uint64_t
codec_event_bit(struct slice event)
{
    return (uint64_t)1 << (hash_seeded(event.ptr, event.len) & 63);
}

bool
codec_check(struct slice bytes, uint32_t *change_count, uint64_t *events)
{
    struct codec_reader reader;
    struct feed_change change;
    struct slice event = SLICE_EMPTY;
    enum codec_read read;

    *change_count = 0;
    *events = 0;
    codec_begin(&reader, bytes);
    while ((read = codec_next(&reader, &change)) == CODEC_CHANGE) {
        (*change_count)++;
        if (change.event.ptr != event.ptr)
            *events |= codec_event_bit(change.event);
        event = change.event;
    }
    return read == CODEC_END;
}
