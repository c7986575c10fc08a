/*
 * call.c - what handlers ask of a call: parameters, query, body, time.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <time.h>

#include "api_internal.h"
#include "holdfast/json.h"

#define DAY_US (24 * 3600 * (int64_t)TIME_US_PER_S)

/* --- percent-encoding ------------------------------------------------------- */

static int
hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decodes into `out`, which has room for text.len bytes. False: a bad escape. */
static bool
decode_into(struct slice text, bool plus, char *out, size_t *len)
{
    *len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '%') {
            int high = i + 2 < text.len ? hex_value(text.ptr[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_value(text.ptr[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        out[(*len)++] = c;
    }
    return true;
}

bool
percent_decode(struct arena *arena, struct slice *text, bool plus)
{
    bool has_escape = text->len > 0 && (memchr(text->ptr, '%', text->len) != NULL ||
                                        (plus && memchr(text->ptr, '+', text->len) != NULL));
    if (!has_escape)
        return true;
    char *decoded = arena_alloc(arena, text->len);
    size_t len;
    if (decoded == NULL)
        return false;
    if (decode_into(*text, plus, decoded, &len))
        *text = (struct slice){ decoded, len };
    return true;
}

/* --- path and query --------------------------------------------------------- */

struct slice
call_param(const struct api_call *call, const char *name)
{
    for (int i = 0; i < call->match.param_count; i++) {
        if (slice_is(call->match.params[i].name, name))
            return call->match.params[i].value;
    }
    return SLICE_EMPTY;
}

/* Cuts the next "name=value" off *query. */
static bool
next_pair(struct slice *query, struct slice *name, struct slice *value)
{
    if (query->len == 0)
        return false;
    const char *end = memchr(query->ptr, '&', query->len);
    size_t len = end != NULL ? (size_t)(end - query->ptr) : query->len;
    const char *equals = memchr(query->ptr, '=', len);
    size_t name_len = equals != NULL ? (size_t)(equals - query->ptr) : len;

    *name = (struct slice){ query->ptr, name_len };
    *value = equals != NULL ? (struct slice){ equals + 1, len - name_len - 1 } : SLICE_EMPTY;
    size_t used = end != NULL ? len + 1 : len;
    *query = (struct slice){ query->ptr + used, query->len - used };
    return true;
}

bool
call_query(struct api_call *call, const char *name, struct slice *value)
{
    struct slice query = call->exchange->request.query;
    struct slice given;

    while (next_pair(&query, &given, value)) {
        if (percent_decode(&call->arena, &given, true) && slice_is(given, name))
            return percent_decode(&call->arena, value, true);
    }
    return false;
}

/* Digits only; false when it isn't between min and max. */
static bool
parse_int(struct slice text, int64_t min, int64_t max, int64_t *value)
{
    int64_t number = 0;

    if (text.len == 0 || text.len > 18)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        number = number * 10 + (text.ptr[i] - '0');
    }
    *value = number;
    return number >= min && number <= max;
}

bool
call_query_int(struct api_call *call, const char *name, int64_t min, int64_t max, int64_t fallback,
               int64_t *value)
{
    struct slice text;
    char reason[96];

    *value = fallback;
    if (!call_query(call, name, &text) || parse_int(text, min, max, value))
        return true;
    snprintf(reason, sizeof(reason), "is not a whole number from %lld to %lld", (long long)min,
             (long long)max);
    respond_field_error(call, name, reason);
    return false;
}

bool
call_query_time(struct api_call *call, const char *name, struct db_time *time)
{
    struct slice text;
    struct db_time given;

    if (!call_query(call, name, &text))
        return true;
    if (!db_time_parse(text, &given) || given.us < 0) {
        respond_field_error(call, name, "is not a time like 2026-01-31T12:34:56Z");
        return false;
    }
    *time = given;
    return true;
}

bool
call_query_range(struct api_call *call, struct db_time *from, struct db_time *to)
{
    int64_t error_us;

    to->us = call_now(call->api, &error_us).us + error_us + CLOCK_LEEWAY_US;
    if (!call_query_time(call, "to", to))
        return false;
    from->us = to->us - DAY_US;
    if (!call_query_time(call, "from", from))
        return false;
    if (from->us > to->us) {
        respond_field_error(call, "from", "is later than `to`");
        return false;
    }
    return true;
}

/* --- origin ----------------------------------------------------------------- */

#define USER_AGENT_BYTES 200

struct slice
call_user_agent(struct api_call *call)
{
    struct slice given = call->exchange->request.user_agent;
    size_t len = given.len < USER_AGENT_BYTES ? given.len : USER_AGENT_BYTES;

    if (len == 0)
        return SLICE_EMPTY;
    char *text = arena_alloc(&call->arena, len);
    for (size_t i = 0; text != NULL && i < len; i++)
        text[i] = given.ptr[i] >= ' ' && given.ptr[i] <= '~' ? given.ptr[i] : '?';
    return (struct slice){ text, text != NULL ? len : 0 };
}

void
call_add_origin(struct api_call *call, struct pg_params *params)
{
    pg_param_optional(params, slice_of(call->client));
    pg_param_optional(params, call_user_agent(call));
}

/* --- body ------------------------------------------------------------------- */

void
respond_malformed_json(struct api_call *call, const struct json_error *error)
{
    char detail[160];

    snprintf(detail, sizeof(detail), "The body is not valid JSON: %s at byte %zu.", error->reason,
             error->offset);
    respond_refusal(call, HF_MALFORMED_JSON, detail);
}

const struct cJSON *
call_json(struct api_call *call)
{
    struct json_error error = { 0 };

    hf_assert(call->json == NULL);
    call->json = json_parse(call->exchange->request.body, &error);
    if (call->json == NULL) {
        respond_malformed_json(call, &error);
        return NULL;
    }
    if (!cJSON_IsObject(call->json)) {
        respond_field_error(call, "body", "is not an object");
        return NULL;
    }
    return call->json;
}

/* --- time ------------------------------------------------------------------- */

/* Before the first round trip this machine's clock judges tokens, and nothing else. */
struct db_time
call_now(struct api *api, int64_t *error_us)
{
    struct db_time now;
    struct timespec wall;

    if (db_clock_read(api->node->clock, mono_now(), &now, error_us))
        return now;
    clock_gettime(CLOCK_REALTIME, &wall);
    *error_us = TIME_US_PER_S;
    now.us = (int64_t)wall.tv_sec * TIME_US_PER_S + wall.tv_nsec / 1000;
    return now;
}
