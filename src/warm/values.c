/*
 * values.c - what stands under the keys, and the words that carry it to Redis.
 *
 * Commands are written in Redis' protocol straight into a buffer, each word with its length: no
 * format string exists that a client's text could be part of.
 */
#include "warm_internal.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/json.h"

/* "<org>/<event>/<seat>": a value says of which seat it is, so that a copied one isn't believed. */
struct warm_path {
    char text[3 * (ID_BYTES_MAX + 1)];
    size_t len;
};

static struct slice
path_slice(const struct warm_path *path)
{
    return (struct slice){ path->text, path->len };
}

static void
seat_path(struct warm_path *path, struct slice org, struct slice event, struct slice seat)
{
    int len = snprintf(path->text, sizeof(path->text), "%.*s/%.*s/%.*s", SLICE_ARG(org),
                       SLICE_ARG(event), SLICE_ARG(seat));
    hf_assert(len > 0 && (size_t)len < sizeof(path->text)); /* ids are short */
    path->len = (size_t)len;
}

void
warm_value(struct buf *out, const struct warm_hold *hold)
{
    char time[DB_TIME_TEXT_BYTES];
    struct warm_path path;
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
    seat_path(&path, hold->org, hold->event, hold->seat);
    json_field_text(&w, "seat", path_slice(&path));
    db_time_format(hold->as_of, time);
    json_field_text(&w, "as_of", slice_of(time));
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
warm_score(const struct warm_hold *hold)
{
    return hold->held_until.us / TIME_US_PER_MS;
}

bool
warm_has_meta(const struct warm_hold *holds, int i)
{
    return holds[i].source.len > 0 &&
           (i == 0 || !uuid_equal(&holds[i - 1].hold_id, &holds[i].hold_id));
}

void
warm_meta(struct warm_meta *meta, const struct warm_hold *hold)
{
    uuid_format(&hold->hold_id, meta->hold_id);
    db_time_format(hold->held_until, meta->held_until);
    db_time_format(hold->held_at, meta->created_at);
    const struct warm_meta_field fields[WARM_META_FIELDS] = {
        { "hold_id", slice_of(meta->hold_id) },
        { "user_id", hold->user },
        { "event_id", hold->event },
        { "held_until", slice_of(meta->held_until) },
        { "created_at", slice_of(meta->created_at) },
        { "source", hold->source },
        { "status", SLICE_LITERAL("active") },
    };
    memcpy(meta->field, fields, sizeof(fields));
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

/* The as_of of a value that warm_value wrote: a text of a fixed length, right before the version.
 */
static bool
as_of_of(struct slice value, struct db_time *as_of)
{
    static const char tail[] = "\",\"version\":";
    const size_t text_len = DB_TIME_TEXT_BYTES - 1, tail_len = sizeof(tail) - 1;
    size_t at = value.len > 0 ? value.len - 1 : 0; /* of the brace */

    while (at > 0 && value.ptr[at - 1] >= '0' && value.ptr[at - 1] <= '9')
        at--;
    if (at < tail_len + text_len || memcmp(value.ptr + at - tail_len, tail, tail_len) != 0)
        return false;
    return db_time_parse((struct slice){ value.ptr + at - tail_len - text_len, text_len }, as_of);
}

static bool
read_text(const cJSON *value, const char *name, struct slice *text)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(value, name);
    if (!cJSON_IsString(item))
        return false;
    *text = slice_of(item->valuestring);
    return true;
}

static bool
read_time(const cJSON *value, const char *name, struct db_time *time)
{
    struct slice text;
    return read_text(value, name, &text) && db_time_parse(text, time);
}

static bool
names_seat(const cJSON *value, struct slice org, struct slice event, struct slice seat)
{
    struct warm_path path;
    struct slice named;
    seat_path(&path, org, event, seat);
    return read_text(value, "seat", &named) && slice_equal(named, path_slice(&path));
}

bool
warm_value_read(struct slice text, struct slice org, struct slice event, struct slice seat,
                struct warm_reading *reading)
{
    struct json_error error;
    struct slice hold, user;
    cJSON *value = json_parse(text, &error);
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(value, "version");
    bool whole = names_seat(value, org, event, seat) && read_text(value, "hold_id", &hold) &&
                 uuid_parse(hold, &reading->hold_id) && read_text(value, "user_id", &user) &&
                 id_is_valid(user) && read_time(value, "expires_at", &reading->held_until) &&
                 read_time(value, "as_of", &reading->as_of) &&
                 json_is_int(version, 1, INT64_C(1) << 53, &reading->version);
    if (whole) {
        memcpy(reading->user, user.ptr, user.len);
        reading->user[user.len] = '\0';
    }
    cJSON_Delete(value);
    return whole;
}

bool
warm_value_is(struct slice text, const struct warm_hold *hold)
{
    struct warm_hold same = *hold;
    struct buf wanted = { 0 };

    if (!as_of_of(text, &same.as_of))
        return false;
    warm_value(&wanted, &same);
    bool is = !wanted.failed && slice_equal(buf_slice(&wanted), text);
    buf_fini(&wanted);
    return is;
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
