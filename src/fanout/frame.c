/*
 * frame.c - a message of the channel, to bytes and back.
 *
 *   "HFf1" flags:1 idlen:1 id incarnation:8 serial:8 last:8 sent_at:8 { number:8 len:4 bytes }...
 *
 * Numbers are little-endian. Another format has another magic: who doesn't know it hears nothing
 * from that node, and so doesn't trust. Flags that are not known are ignored.
 */
#include "fanout_internal.h"

#include <stdio.h>

#define MAGIC        SLICE_LITERAL("HFf1")
#define FLAG_DOUBT   1
#define FLAG_GOODBYE 2
#define FLAG_WHO     4
#define NUMBER_MAX   (UINT64_MAX / 2) /* so that no sum of ours overflows */

/* --- writing ------------------------------------------------------------------------- */

static void
put_number(struct buf *out, uint64_t number, int bytes)
{
    char text[8];
    for (int i = 0; i < bytes; i++)
        text[i] = (char)(number >> (8 * i));
    buf_append(out, text, (size_t)bytes);
}

void
frame_write(struct buf *out, const struct frame *frame)
{
    struct slice id = slice_of(frame->node);
    int flags = (frame->in_doubt ? FLAG_DOUBT : 0) | (frame->farewell ? FLAG_GOODBYE : 0) |
                (frame->who ? FLAG_WHO : 0);
    buf_append_slice(out, MAGIC);
    put_number(out, (uint64_t)flags, 1);
    put_number(out, id.len, 1);
    buf_append_slice(out, id);
    put_number(out, (uint64_t)frame->incarnation, 8);
    put_number(out, frame->serial, 8);
    put_number(out, frame->last, 8);
    put_number(out, (uint64_t)frame->sent_at.us, 8);
}

void
frame_add(struct buf *out, uint64_t number, struct slice bytes)
{
    put_number(out, number, 8);
    put_number(out, bytes.len, 4);
    buf_append_slice(out, bytes);
}

/* --- reading ------------------------------------------------------------------------- */

/* What is left to read; bad: it ended too early. */
struct reader {
    struct slice rest;
    bool bad;
};

static struct slice
get_bytes(struct reader *reader, size_t len)
{
    struct slice bytes = SLICE_EMPTY;
    if (reader->bad || reader->rest.len < len) {
        reader->bad = true;
        return bytes;
    }
    bytes = (struct slice){ reader->rest.ptr, len };
    reader->rest = (struct slice){ reader->rest.ptr + len, reader->rest.len - len };
    return bytes;
}

static uint64_t
get_number(struct reader *reader, int bytes)
{
    struct slice text = get_bytes(reader, (size_t)bytes);
    uint64_t number = 0;
    for (int i = 0; !reader->bad && i < bytes; i++)
        number |= (uint64_t)(unsigned char)text.ptr[i] << (8 * i);
    return number;
}

static void
read_head(struct reader *reader, struct frame *frame)
{
    struct slice magic = get_bytes(reader, MAGIC.len);
    int flags = (int)get_number(reader, 1);
    struct slice id = get_bytes(reader, get_number(reader, 1));
    frame->in_doubt = (flags & FLAG_DOUBT) != 0;
    frame->farewell = (flags & FLAG_GOODBYE) != 0;
    frame->who = (flags & FLAG_WHO) != 0;
    frame->incarnation = (int64_t)get_number(reader, 8);
    frame->serial = get_number(reader, 8);
    frame->last = get_number(reader, 8);
    frame->sent_at.us = (int64_t)get_number(reader, 8);
    frame->records = reader->rest;
    reader->bad = reader->bad || !slice_equal(magic, MAGIC) || !id_is_valid(id);
    if (!reader->bad)
        snprintf(frame->node, sizeof(frame->node), "%.*s", SLICE_ARG(id));
}

static bool
is_sane(const struct frame *frame)
{
    return frame->incarnation > 0 && frame->serial > 0 && frame->serial < NUMBER_MAX &&
           frame->last < NUMBER_MAX && frame->sent_at.us >= 0 && frame->sent_at.us < INT64_MAX / 2;
}

static void
read_record(struct reader *reader, struct frame_record *record)
{
    record->number = get_number(reader, 8);
    record->bytes = get_bytes(reader, get_number(reader, 4));
}

static bool
records_are_whole(const struct frame *frame)
{
    struct reader reader = { frame->records, false };
    uint64_t before = 0;
    while (reader.rest.len > 0) {
        struct frame_record record;
        read_record(&reader, &record);
        if (reader.bad || record.number <= before || record.number > frame->last)
            return false;
        before = record.number;
    }
    return true;
}

bool
frame_read(struct slice bytes, struct frame *frame)
{
    struct reader reader = { bytes, bytes.len > FRAME_BYTES_MAX };
    read_head(&reader, frame);
    return !reader.bad && is_sane(frame) && records_are_whole(frame);
}

bool
frame_next(struct frame *frame, struct frame_record *record)
{
    struct reader reader = { frame->records, false };
    if (frame->records.len == 0)
        return false;
    read_record(&reader, record);
    hf_assert(!reader.bad); /* frame_read has looked */
    frame->records = reader.rest;
    return true;
}
