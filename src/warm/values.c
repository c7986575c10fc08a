/*
 * values.c - what stands under the keys, and the words that carry it to Redis.
 *
 * Commands are written in Redis' protocol straight into a buffer, each word with its length: no
 * format string exists that a client's text could be part of.
 */
#include "warm_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/json.h"

void
warm_value(struct buf *out, const struct warm_hold *hold)
{
    char time[DB_TIME_TEXT_BYTES];
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

/* {"hold_id":"<36 characters>","user_id":... */
#define HOLD_ID_AT  12
#define HOLD_ID_LEN 36

/* The number before the closing brace, where warm_value puts the version; -1: there is none. */
static int64_t
version_of(struct slice value)
{
    if (value.len < 2 || value.ptr[value.len - 1] != '}') {
        return -1;
    }
    int64_t version = 0, place = 1;
    for (size_t i = value.len - 1; i-- > 0 && value.ptr[i] >= '0' && value.ptr[i] <= '9';) {
        if (place > INT64_MAX / 100) {
            return -1; /* not a number of ours */
        }
        version += (value.ptr[i] - '0') * place;
        place *= 10;
    }
    return place == 1 ? -1 : version;
}

bool
warm_value_replaces(struct slice value, struct slice old)
{
    /* The same hold of the same user: both begin alike, up to the quote behind the user's id. */
    size_t user_at = HOLD_ID_AT + HOLD_ID_LEN + sizeof("\",\"user_id\":\"") - 1;
    if (old.len <= user_at || value.len <= user_at) {
        return false;
    }
    const char *quote = memchr(value.ptr + user_at, '"', value.len - user_at);
    size_t head = quote != NULL ? (size_t)(quote - value.ptr) + 1 : value.len;
    if (old.len < head || memcmp(old.ptr, value.ptr, head) != 0) {
        return false;
    }
    return version_of(old) <= version_of(value);
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
    int len = snprintf(text, sizeof(text), "%lld", (long long)number);
    warm_word(out, (struct slice){ text, (size_t)len });
}

struct slice
warm_word_at(struct slice command, int index)
{
    const char *at = memchr(command.ptr, '\n', command.len); /* behind "*<words>" */
    const char *end = command.ptr + command.len;
    for (int i = 0; at != NULL && at + 1 < end; i++) {
        size_t len = strtoul(at + 2, NULL, 10); /* "$<length>" */
        const char *word = memchr(at + 1, '\n', (size_t)(end - at - 1));
        hf_assert(word != NULL && len + 2 < (size_t)(end - word)); /* we wrote it ourselves */
        if (i == index) {
            return (struct slice){ word + 1, len };
        }
        at = word + 1 + len + 1;
    }
    return SLICE_EMPTY;
}
