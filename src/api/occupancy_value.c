/*
 * occupancy_value.c - what was counted: until when it stands, and how Redis keeps it.
 *
 * A value has the feed's position from before its statement. So it is told only where this node has
 * no change that may be missing in it: at or past the node's own position. What no record tells
 * (a node that committed and was killed, an import whose rows were lost) shows as distrust, and
 * what time does is foreseen by the statement.
 *
 * In Redis a value carries a seal that a node of the same database can make: whatever is altered
 * there, copied from elsewhere, or comes from another database, is no value.
 */
#include <cjson/cJSON.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "holdfast/json.h"
#include "occupancy_internal.h"

#define FRESH_US  (500 * TIME_US_PER_MS) /* beside nodes that aren't heard: well under a second */
#define SEAL_HEAD ",\"seal\":\""
#define SEAL_TAIL "\"}"
#define SEAL_HEX  64
#define SEAL_LEN  (sizeof(SEAL_HEAD) - 1 + SEAL_HEX + sizeof(SEAL_TAIL) - 1)

/* --- from Postgres --------------------------------------------------------------- */

/* Columns of the statement. */
enum { EVENT_EXISTS, AVAILABLE, HELD, SOLD, BLOCKED, NOW, ENDS_AT, AREAS_END_AT };

static struct db_time
time_or_never(const struct pg_result *rows, int column)
{
    return pg_is_null(rows, 0, column) ? (struct db_time){ INT64_MAX }
                                       : pg_get_time(rows, 0, column);
}

static void
add_up(struct seat_map_counts *counts)
{
    counts->total = counts->available + counts->held + counts->sold + counts->blocked;
}

void
occupancy_value_begin(struct occupancy_value *value, const struct node *node)
{
    *value = (struct occupancy_value){ 0 };
    feed_position(node->feed, &value->position);
    if (!fanout_channel(node->fanout, value->source))
        value->source[0] = '\0'; /* then it stands nowhere */
}

bool
occupancy_value_read(struct occupancy_value *value, const struct pg_result *rows)
{
    value->counts = (struct seat_map_counts){ .available = pg_get_int(rows, 0, AVAILABLE),
                                              .held = pg_get_int(rows, 0, HELD),
                                              .sold = pg_get_int(rows, 0, SOLD),
                                              .blocked = pg_get_int(rows, 0, BLOCKED) };
    add_up(&value->counts);
    value->as_of = pg_get_time(rows, 0, NOW);
    value->ends_at = time_or_never(rows, ENDS_AT);
    value->areas_end_at = time_or_never(rows, AREAS_END_AT);
    return pg_get_bool(rows, 0, EVENT_EXISTS);
}

/* --- until when it stands --------------------------------------------------------- */

/* What was read up to then is void, or too old beside nodes that aren't heard. */
static int64_t
void_up_to_us(const struct node *node, struct db_time now)
{
    int64_t distrusted_us = seat_maps_distrusted_at(node->maps).us;

    if (!seat_maps_trusted(node->maps))
        return now.us - FRESH_US;
    if (distrusted_us == INT64_MIN) /* never */
        return now.us - OCCUPANCY_KEEP_MS * TIME_US_PER_MS;
    return now.us - (mono_now().us - distrusted_us);
}

static bool
is_of_this_database(const struct occupancy_value *value, const struct node *node)
{
    char source[FANOUT_CHANNEL_BYTES];

    return fanout_channel(node->fanout, source) && strcmp(source, value->source) == 0;
}

bool
occupancy_value_stands(const struct occupancy_value *value, const struct node *node,
                       const struct feed_position *position)
{
    struct db_time now;
    int64_t error_us;

    if (!db_clock_read(node->clock, mono_now(), &now, &error_us))
        return false;
    return value->as_of.us - error_us > void_up_to_us(node, now) &&
           value->as_of.us > now.us - OCCUPANCY_KEEP_MS * TIME_US_PER_MS &&
           value->as_of.us < now.us + error_us + TIME_US_PER_S &&
           now.us + error_us < value->ends_at.us && is_of_this_database(value, node) &&
           feed_position_covers(&value->position, position);
}

/* --- as Redis keeps it ------------------------------------------------------------ */

/* Of `text` and the database that it was counted in. False: it can't be made. */
static bool
seal_of(const struct occupancy_value *value, struct slice text, char seal[SEAL_HEX + 1])
{
    int key_len = (int)strlen(value->source);
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (key_len == 0 || HMAC(EVP_sha256(), value->source, key_len, (const unsigned char *)text.ptr,
                             text.len, mac, &len) == NULL)
        return false;
    hf_assert(len == SEAL_HEX / 2);
    for (unsigned i = 0; i < len; i++)
        snprintf(seal + 2 * (size_t)i, 3, "%02x", mac[i]);
    return true;
}

/* "<org>/<event>": a value says whose it is, so that a copied one isn't believed. */
static void
write_name(struct json_writer *w, struct slice org, struct slice event)
{
    char name[2 * (ID_BYTES_MAX + 1)];

    snprintf(name, sizeof(name), "%.*s/%.*s", SLICE_ARG(org), SLICE_ARG(event));
    json_field_text(w, "event", slice_of(name));
}

void
occupancy_value_write(const struct occupancy_value *value, struct slice org, struct slice event,
                      struct buf *out)
{
    char position[FEED_POSITION_TEXT_BYTES];
    char time[DB_TIME_TEXT_BYTES];
    char seal[SEAL_HEX + 1];
    struct json_writer w;

    feed_position_write(&value->position, position);
    db_time_format(value->as_of, time);
    json_writer_init(&w, out);
    json_object_begin(&w);
    json_field_int(&w, "available", value->counts.available);
    json_field_int(&w, "held", value->counts.held);
    json_field_int(&w, "sold", value->counts.sold);
    json_field_int(&w, "blocked", value->counts.blocked);
    json_field_int(&w, "total", value->counts.total);
    json_field_text(&w, "timestamp", slice_of(time));
    write_name(&w, org, event);
    json_field_int(&w, "as_of_us", value->as_of.us);
    json_field_int(&w, "ends_at_us", value->ends_at.us == INT64_MAX ? 0 : value->ends_at.us);
    json_field_text(&w, "position", slice_of(position));
    if (out->failed || !seal_of(value, buf_slice(out), seal)) {
        buf_clear(out);
        return;
    }
    buf_append_text(out, SEAL_HEAD);
    buf_append_text(out, seal);
    buf_append_text(out, SEAL_TAIL);
}

static bool
is_sealed(const struct occupancy_value *value, struct slice text)
{
    char seal[SEAL_HEX + 1];

    if (text.len <= SEAL_LEN)
        return false;
    struct slice body = { text.ptr, text.len - SEAL_LEN };
    const char *end = body.ptr + body.len;
    if (memcmp(end, SEAL_HEAD, sizeof(SEAL_HEAD) - 1) != 0 || !seal_of(value, body, seal))
        return false;
    return CRYPTO_memcmp(end + sizeof(SEAL_HEAD) - 1, seal, SEAL_HEX) == 0;
}

static bool
take_int(const cJSON *json, const char *name, int64_t *number)
{
    return json_is_int(cJSON_GetObjectItemCaseSensitive(json, name), 0, INT64_MAX / 1024, number);
}

static bool
take_fields(struct occupancy_value *value, const cJSON *json, struct slice org, struct slice event)
{
    const char *whose = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "event"));
    const char *position = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "position"));
    char name[2 * (ID_BYTES_MAX + 1)];

    snprintf(name, sizeof(name), "%.*s/%.*s", SLICE_ARG(org), SLICE_ARG(event));
    bool is_good = whose != NULL && strcmp(whose, name) == 0 && position != NULL &&
                   feed_position_parse(slice_of(position), &value->position) &&
                   take_int(json, "available", &value->counts.available) &&
                   take_int(json, "held", &value->counts.held) &&
                   take_int(json, "sold", &value->counts.sold) &&
                   take_int(json, "blocked", &value->counts.blocked) &&
                   take_int(json, "as_of_us", &value->as_of.us) &&
                   take_int(json, "ends_at_us", &value->ends_at.us);
    if (is_good && value->ends_at.us == 0)
        value->ends_at.us = INT64_MAX;
    add_up(&value->counts);
    return is_good;
}

bool
occupancy_value_parse(struct occupancy_value *value, const struct node *node, struct slice org,
                      struct slice event, struct slice text)
{
    struct json_error error;

    *value = (struct occupancy_value){ 0 };
    if (!fanout_channel(node->fanout, value->source) || !is_sealed(value, text))
        return false;
    cJSON *json = json_parse(text, &error);
    bool is_good = json != NULL && take_fields(value, json, org, event);
    cJSON_Delete(json);
    return is_good;
}
