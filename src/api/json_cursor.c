/*
 * json_cursor.c - steps over values by looking at their first byte.
 */
#include "json_cursor.h"

#include <math.h>
#include <stdlib.h>

#define NUMBER_BYTES_MAX 64
#define PLAIN_DIGITS_MAX 16
#define INT_DOUBLE_MAX   9007199254740991.0 /* beyond it a double can't tell neighbours apart */

static bool
is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void
skip_spaces(struct json_cursor *cursor)
{
    while (cursor->at < cursor->end && is_space(*cursor->at))
        cursor->at++;
}

/* Past the closing quote of the string that begins at `at`. */
static const char *
end_of_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++) {
        if (*at == '\\')
            at++;
    }
    return at < end ? at + 1 : end;
}

static const char *
end_of_container(const char *at, const char *end)
{
    int depth = 0;

    while (at < end) {
        if (*at == '"') {
            at = end_of_string(at, end);
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if ((*at == '}' || *at == ']') && --depth == 0)
            return at + 1;
        at++;
    }
    return end;
}

/* Numbers and the three words end where something that can't belong to them stands. */
static const char *
end_of_word(const char *at, const char *end)
{
    while (at < end && !is_space(*at) && *at != ',' && *at != '}' && *at != ']')
        at++;
    return at;
}

static enum json_kind
kind_of(char first)
{
    switch (first) {
    case '"':
        return JSON_STRING;
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_NUMBER;
    }
}

static struct json_value
take_value(struct json_cursor *cursor)
{
    struct json_value value = { JSON_NULL, { cursor->at, 0 } };
    const char *end = cursor->end;

    if (cursor->at == cursor->end)
        return value;
    value.kind = kind_of(*cursor->at);
    if (value.kind == JSON_STRING)
        end = end_of_string(cursor->at, cursor->end);
    else if (value.kind == JSON_OBJECT || value.kind == JSON_ARRAY)
        end = end_of_container(cursor->at, cursor->end);
    else
        end = end_of_word(cursor->at, cursor->end);
    value.raw.len = (size_t)(end - cursor->at);
    cursor->at = end;
    return value;
}

struct json_value
json_value_of(struct slice text)
{
    struct json_cursor cursor = { text.ptr, text.ptr + text.len };

    skip_spaces(&cursor);
    return take_value(&cursor);
}

struct json_cursor
json_cursor_open(struct json_value container)
{
    struct slice raw = container.raw;

    if (raw.len < 2)
        return (struct json_cursor){ raw.ptr, raw.ptr };
    return (struct json_cursor){ raw.ptr + 1, raw.ptr + raw.len - 1 };
}

/* To the next value: over spaces and the comma before it. */
static bool
advance(struct json_cursor *cursor)
{
    skip_spaces(cursor);
    if (cursor->at < cursor->end && *cursor->at == ',')
        cursor->at++;
    skip_spaces(cursor);
    return cursor->at < cursor->end;
}

bool
json_cursor_element(struct json_cursor *cursor, struct json_value *value)
{
    if (!advance(cursor))
        return false;
    *value = take_value(cursor);
    return true;
}

bool
json_cursor_member(struct json_cursor *cursor, struct json_value *name, struct json_value *value)
{
    if (!advance(cursor))
        return false;
    *name = take_value(cursor);
    skip_spaces(cursor);
    if (cursor->at < cursor->end && *cursor->at == ':')
        cursor->at++;
    skip_spaces(cursor);
    *value = take_value(cursor);
    return true;
}

/* --- texts -------------------------------------------------------------------- */

static unsigned
hex4(const char *at)
{
    unsigned value = 0;

    for (int i = 0; i < 4; i++) {
        char c = at[i];
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
        value = value << 4 | (digit & 15);
    }
    return value;
}

static size_t
put_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* \uXXXX, or two of them for one character; *at stands behind the 'u'. */
static unsigned
take_unicode(const char **at, const char *end)
{
    if (end - *at < 4) {
        *at = end;
        return 0xfffd;
    }
    unsigned c = hex4(*at);
    *at += 4;
    if (c >= 0xd800 && c < 0xdc00 && end - *at >= 6) {
        unsigned low = hex4(*at + 2);
        *at += 6;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    return c;
}

static char
simple_escape(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c;
    }
}

/* What is decoded is never longer than what was written. */
static size_t
unescape(struct slice inner, char *out)
{
    const char *at = inner.ptr;
    const char *end = inner.ptr + inner.len;
    size_t len = 0;

    while (at < end) {
        if (*at != '\\' || end - at < 2) {
            out[len++] = *at++;
            continue;
        }
        char c = at[1];
        at += 2;
        if (c == 'u')
            len += put_utf8(out + len, take_unicode(&at, end));
        else
            out[len++] = simple_escape(c);
    }
    return len;
}

bool
json_value_text(struct arena *arena, struct json_value value, struct slice *text)
{
    hf_assert(value.kind == JSON_STRING && value.raw.len >= 2);
    struct slice inner = { value.raw.ptr + 1, value.raw.len - 2 };

    *text = inner;
    if (inner.len == 0 || memchr(inner.ptr, '\\', inner.len) == NULL)
        return true;
    char *decoded = arena_alloc(arena, inner.len);
    if (decoded == NULL)
        return false;
    *text = (struct slice){ decoded, unescape(inner, decoded) };
    return true;
}

/* --- numbers ------------------------------------------------------------------ */

/* False: it has too many characters. */
static bool
double_of(struct slice raw, double *number)
{
    char text[NUMBER_BYTES_MAX + 1];

    if (raw.len > NUMBER_BYTES_MAX)
        return false;
    memcpy(text, raw.ptr, raw.len);
    text[raw.len] = '\0';
    *number = strtod(text, NULL);
    return true;
}

/* "7.0" and "7e0" are seven too. */
static bool
whole_double(struct slice raw, int64_t *number)
{
    double value;

    if (!double_of(raw, &value) || !isfinite(value) || value != trunc(value) ||
        fabs(value) > INT_DOUBLE_MAX)
        return false;
    *number = (int64_t)value;
    return true;
}

static bool
plain_digits(struct slice raw, int64_t *number)
{
    bool is_negative = raw.len > 0 && raw.ptr[0] == '-';
    int64_t sum = 0;

    if (raw.len > PLAIN_DIGITS_MAX)
        return false;
    for (size_t i = is_negative; i < raw.len; i++) {
        if (raw.ptr[i] < '0' || raw.ptr[i] > '9')
            return false;
        sum = sum * 10 + (raw.ptr[i] - '0');
    }
    *number = is_negative ? -sum : sum;
    return true;
}

bool
json_value_int(struct json_value value, int64_t min, int64_t max, int64_t *number)
{
    int64_t whole;

    if (value.kind != JSON_NUMBER)
        return false;
    if (!plain_digits(value.raw, &whole) && !whole_double(value.raw, &whole))
        return false;
    if (whole < min || whole > max)
        return false;
    *number = whole;
    return true;
}

/* Of digits alone, however many: JSON has no leading zeros. Of the rest, what a double can tell. */
static bool
is_beyond_int(struct slice raw)
{
    size_t digits = 0;
    double value;

    while (digits < raw.len && raw.ptr[digits] >= '0' && raw.ptr[digits] <= '9')
        digits++;
    if (digits == raw.len)
        return digits > PLAIN_DIGITS_MAX;
    return double_of(raw, &value) && value > INT_DOUBLE_MAX;
}

bool
json_value_count(struct json_value value, int64_t min, int64_t *number)
{
    if (json_value_int(value, min, INT64_MAX, number))
        return true;
    if (value.kind != JSON_NUMBER || !is_beyond_int(value.raw))
        return false;
    *number = INT64_MAX;
    return true;
}
