/*
 * values.c - what stands under the keys, and the words that carry it to Redis.
 *
 * Commands are written in Redis' protocol straight into a buffer, each word with its length: no
 * format string exists that a client's text could be part of.
 */
#include "warm_internal.h"

#include <stdio.h>

#include "holdfast/json.h"

void
warm_value(struct buf *out, const struct warm_hold *hold)
{
    char               time[DB_TIME_TEXT_BYTES];
    struct json_writer w;

    json_writer_init(&w, out);
    json_object_begin(&w);
    json_field_uuid(&w, "hold_id", &hold->hold_id);
    json_field_text(&w, "user_id", hold->user);
    json_field_text(&w, "cart_token", hold->cart_token);
    db_time_format(hold->held_until, time);
    json_field_text(&w, "expires_at", slice_of(time));
    db_time_format(hold->held_at, time);
    json_field_text(&w, "held_at", slice_of(time));
    json_field_int(&w, "version", hold->version);
    json_object_end(&w);
}

void
warm_member(struct buf *out, const struct warm_hold *hold)
{
    char text[UUID_TEXT_BYTES];
    uuid_format(&hold->hold_id, text);
    buf_append_slice(out, hold->seat);
    buf_append_char(out, ':');
    buf_append_text(out, text);
    buf_append_char(out, ':');
    buf_append_slice(out, hold->user);
}

int64_t
warm_keep_ms(const struct warm_hold *hold)
{
    if (hold->ttl_ms <= -WARM_KEEP_MS) {
        return 1;
    }
    return hold->ttl_ms + WARM_KEEP_MS;
}

void
warm_command(struct buf *out, int words, const char *name)
{
    buf_append_char(out, '*');
    buf_append_int(out, words);
    buf_append(out, "\r\n", 2);
    warm_word(out, slice_of(name));
}

void
warm_word(struct buf *out, struct slice word)
{
    buf_append_char(out, '$');
    buf_append_int(out, (long long)word.len);
    buf_append(out, "\r\n", 2);
    buf_append_slice(out, word);
    buf_append(out, "\r\n", 2);
}

void
warm_word_int(struct buf *out, int64_t number)
{
    char text[24];
    int  len = snprintf(text, sizeof(text), "%lld", (long long)number);
    warm_word(out, (struct slice){ text, (size_t)len });
}
