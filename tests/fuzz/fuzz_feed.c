/*
 * fuzz_feed.c - a peer's record, and a position that a client sends back.
 *
 * Beside not crashing: what the decoder takes can be written, and is the same when it is read
 * again; what is taken as a position is written back letter by letter.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "feed_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_position(struct slice text)
{
    struct feed_position position;
    char again[FEED_POSITION_TEXT_BYTES];

    if (!feed_position_parse(text, &position))
        return;
    hf_assert(feed_position_write(&position, again) == text.len);
    hf_assert(memcmp(again, text.ptr, text.len) == 0);
    hf_assert(feed_position_covers(&position, &position));
}

static void
check_same(const struct feed_change *a, const struct feed_change *b)
{
    hf_assert(a->kind == b->kind && a->status == b->status && a->reason == b->reason);
    hf_assert(slice_equal(a->org, b->org) && slice_equal(a->event, b->event));
    hf_assert(slice_equal(a->item, b->item) && slice_equal(a->user, b->user));
    hf_assert(uuid_equal(&a->hold_id, &b->hold_id) && a->held_until.us == b->held_until.us);
    hf_assert(a->version == b->version && a->held == b->held && a->sold == b->sold);
    hf_assert(a->at.us == b->at.us && a->in_payment == b->in_payment);
}

static void
check_again(const struct feed_change *changes, uint32_t count)
{
    struct codec_reader reader;
    struct feed_change change;
    size_t bytes_max;

    if ((uint32_t)codec_fit(changes, (int)count, &bytes_max) < count)
        return;
    char *bytes = malloc(bytes_max);
    size_t len = codec_write(bytes, changes, (int)count);
    hf_assert(len > 0 && len <= bytes_max);
    codec_begin(&reader, (struct slice){ bytes, len });
    for (uint32_t i = 0; i < count; i++) {
        hf_assert(codec_next(&reader, &change) == CODEC_CHANGE);
        check_same(&change, &changes[i]);
    }
    hf_assert(codec_next(&reader, &change) == CODEC_END);
    free(bytes);
}

static void
check_record(struct slice bytes)
{
    struct codec_reader reader;
    uint32_t count;
    uint64_t events;

    if (!codec_check(bytes, &count, &events))
        return;
    struct feed_change *changes = calloc(count + 1, sizeof(*changes));
    codec_begin(&reader, bytes);
    for (uint32_t i = 0; i < count; i++)
        hf_assert(codec_next(&reader, &changes[i]) == CODEC_CHANGE);
    check_again(changes, count);
    free(changes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = { (const char *)data, size };

    check_record(bytes);
    check_position(bytes);
    return 0;
}
