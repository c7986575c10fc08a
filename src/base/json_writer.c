/*
 * json_writer.c - JSON into a struct buf, without printf and without a tree.
 *
 * A comma is due before a value when one of the same depth came before it; after
 * a name none is due. That is all the state there is.
 */
#include "holdfast/json.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_internal.h"
#include "holdfast/assert.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* Bytes that stand in a string as they are; the others are looked at one by one. */
static const bool plain[256] = {
    [0x20 ... 0x21] = true, /* up to the quote */
    [0x23 ... 0x5b] = true, /* up to the backslash */
    [0x5d ... 0x7f] = true,
};

/*
 * How many bytes from p on belong together: one character if *valid, else the
 * largest start of one that is replaced as a whole (Unicode 15, section 3.9).
 */
static size_t
utf8_take(const uint8_t *p, size_t left, bool *valid)
{
    uint8_t lead = p[0], low = 0x80, high = 0xbf;
    size_t more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    size_t taken = 1;

    *valid = false;
    if (lead < 0xc2 || lead > 0xf4)
        return 1;
    /* No overlong forms, no surrogates, nothing beyond U+10FFFF. */
    if (lead == 0xe0)
        low = 0xa0;
    else if (lead == 0xed)
        high = 0x9f;
    else if (lead == 0xf0)
        low = 0x90;
    else if (lead == 0xf4)
        high = 0x8f;
    while (taken <= more && taken < left && p[taken] >= low && p[taken] <= high) {
        low = 0x80;
        high = 0xbf;
        taken++;
    }
    *valid = taken == more + 1;
    return taken;
}

static void
escape_ascii(struct buf *out, uint8_t c)
{
    static const char hex[] = "0123456789abcdef";

    switch (c) {
    case '"':
        buf_append(out, "\\\"", 2);
        break;
    case '\\':
        buf_append(out, "\\\\", 2);
        break;
    case '\b':
        buf_append(out, "\\b", 2);
        break;
    case '\f':
        buf_append(out, "\\f", 2);
        break;
    case '\n':
        buf_append(out, "\\n", 2);
        break;
    case '\r':
        buf_append(out, "\\r", 2);
        break;
    case '\t':
        buf_append(out, "\\t", 2);
        break;
    default:
        buf_append(out, (char[]){ '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] }, 6);
    }
}

/* Copies runs of what may stay; most texts are one run. */
void
json_escape_append(struct buf *out, struct slice text)
{
    const uint8_t *at = (const uint8_t *)text.ptr;
    const uint8_t *end = at + text.len;
    const uint8_t *run = at;

    while (at < end) {
        if (plain[*at]) {
            at++;
            continue;
        }
        bool valid = false;
        size_t taken = *at < 0x80 ? 1 : utf8_take(at, (size_t)(end - at), &valid);
        if (!valid) {
            buf_append(out, run, (size_t)(at - run));
            if (*at < 0x80)
                escape_ascii(out, *at);
            else
                buf_append(out, REPLACEMENT, 3);
            run = at + taken;
        }
        at += taken;
    }
    buf_append(out, run, (size_t)(end - run));
}

void
json_writer_init(struct json_writer *w, struct buf *out)
{
    w->out = out;
    w->depth = 0;
    w->comma[0] = false;
}

static void
comma_if_due(struct json_writer *w)
{
    if (w->comma[w->depth])
        buf_append_char(w->out, ',');
}

static void
value_begin(struct json_writer *w)
{
    comma_if_due(w);
    w->comma[w->depth] = true;
}

static void
nest(struct json_writer *w, char bracket)
{
    hf_assert(w->depth < JSON_NEST_MAX);
    value_begin(w);
    buf_append_char(w->out, bracket);
    w->comma[++w->depth] = false;
}

static void
unnest(struct json_writer *w, char bracket)
{
    hf_assert(w->depth > 0);
    w->depth--;
    buf_append_char(w->out, bracket);
}

void
json_object_begin(struct json_writer *w)
{
    nest(w, '{');
}

void
json_object_end(struct json_writer *w)
{
    unnest(w, '}');
}

void
json_array_begin(struct json_writer *w)
{
    nest(w, '[');
}

void
json_array_end(struct json_writer *w)
{
    unnest(w, ']');
}

void
json_name(struct json_writer *w, const char *name)
{
    comma_if_due(w);
    buf_append_char(w->out, '"');
    buf_append_text(w->out, name);
    buf_append(w->out, "\":", 2);
    w->comma[w->depth] = false;
}

void
json_text(struct json_writer *w, struct slice text)
{
    value_begin(w);
    buf_append_char(w->out, '"');
    json_escape_append(w->out, text);
    buf_append_char(w->out, '"');
}

void
json_int(struct json_writer *w, int64_t number)
{
    value_begin(w);
    buf_append_int(w->out, number);
}

/* What snprintf wrote as the decimal point, however many bytes it has in this locale, becomes '.'.
 */
static void
set_point(char *text)
{
    char *point = text + strspn(text, "-0123456789");
    size_t len = strcspn(point, "0123456789e");

    if (len == 0)
        return;
    *point = '.';
    memmove(point + 1, point + len, strlen(point + len) + 1);
}

/* JSON has no word for infinities and what is no number: they become null. */
void
json_float(struct json_writer *w, float number)
{
    char text[32];

    if (!isfinite(number)) {
        json_null(w);
        return;
    }
    for (int digits = 6; digits <= 9; digits++) { /* nine always do, and most are short */
        snprintf(text, sizeof(text), "%.*g", digits, (double)number);
        if (strtof(text, NULL) == number)
            break;
    }
    set_point(text);
    json_raw(w, slice_of(text));
}

/* Decimal point whatever the locale; what JSON has no word for becomes null. */
void
json_double(struct json_writer *w, double number, int decimals)
{
    hf_assert(decimals >= 0 && decimals <= 9);
    long long unit = 1;
    for (int i = 0; i < decimals; i++)
        unit *= 10;
    double scaled = number * (double)unit;
    if (!isfinite(scaled) || fabs(scaled) > 9e18) {
        json_null(w);
        return;
    }

    value_begin(w);
    long long whole = llround(scaled);
    if (whole < 0)
        buf_append_char(w->out, '-');
    whole = llabs(whole);
    buf_append_int(w->out, whole / unit);
    if (decimals == 0)
        return;
    buf_append_char(w->out, '.');
    for (unit /= 10; unit > 0; unit /= 10)
        buf_append_char(w->out, (char)('0' + whole / unit % 10));
}

void
json_bool(struct json_writer *w, bool value)
{
    json_raw(w, value ? SLICE_LITERAL("true") : SLICE_LITERAL("false"));
}

void
json_null(struct json_writer *w)
{
    json_raw(w, SLICE_LITERAL("null"));
}

void
json_raw(struct json_writer *w, struct slice json)
{
    value_begin(w);
    buf_append_slice(w->out, json);
}

void
json_uuid(struct json_writer *w, const struct uuid *uuid)
{
    char text[1 + UUID_TEXT_BYTES];

    value_begin(w);
    text[0] = '"';
    uuid_format(uuid, text + 1);
    text[UUID_TEXT_BYTES] = '"'; /* in the place of the NUL */
    buf_append(w->out, text, sizeof(text));
}

void
json_field_text(struct json_writer *w, const char *name, struct slice text)
{
    json_name(w, name);
    json_text(w, text);
}

void
json_field_time(struct json_writer *w, const char *name, struct db_time time)
{
    char text[DB_TIME_TEXT_BYTES];

    db_time_format(time, text);
    json_field_text(w, name, slice_of(text));
}

void
json_field_int(struct json_writer *w, const char *name, int64_t number)
{
    json_name(w, name);
    json_int(w, number);
}

void
json_field_bool(struct json_writer *w, const char *name, bool value)
{
    json_name(w, name);
    json_bool(w, value);
}

void
json_field_uuid(struct json_writer *w, const char *name, const struct uuid *uuid)
{
    json_name(w, name);
    json_uuid(w, uuid);
}
