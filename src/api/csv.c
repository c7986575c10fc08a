/*
 * csv.c - RFC 4180, to the letter where a file could be meant in two ways.
 */
#include "csv.h"

#include <string.h>

#define BYTE_ORDER_MARK "\xEF\xBB\xBF"

void
csv_init(struct csv *csv, struct slice text)
{
    size_t mark = sizeof(BYTE_ORDER_MARK) - 1;
    bool has_mark = text.len >= mark && memcmp(text.ptr, BYTE_ORDER_MARK, mark) == 0;

    csv->at = text.ptr + (has_mark ? mark : 0);
    csv->end = text.ptr + text.len;
    csv->line = 1;
}

static bool
at_line_end(const struct csv *csv)
{
    return csv->at == csv->end || *csv->at == '\n' ||
           (*csv->at == '\r' && csv->at + 1 < csv->end && csv->at[1] == '\n');
}

static void
take_line_end(struct csv *csv)
{
    if (csv->at < csv->end && *csv->at == '\r')
        csv->at++;
    if (csv->at < csv->end && *csv->at == '\n') {
        csv->at++;
        csv->line++;
    }
}

/* "" becomes ": `raw` is what stands between the outer quotes. */
static bool
undo_quotes(struct arena *arena, struct slice raw, struct slice *field)
{
    char *text = arena_alloc(arena, raw.len + 1);
    size_t len = 0;

    if (text == NULL)
        return false;
    for (size_t i = 0; i < raw.len; i++) {
        text[len++] = raw.ptr[i];
        if (raw.ptr[i] == '"')
            i++; /* its twin */
    }
    *field = (struct slice){ text, len };
    return true;
}

static enum csv_answer
bad(struct csv_record *record, const char *reason)
{
    record->reason = reason;
    return CSV_BAD;
}

/* at: behind the opening quote. */
static enum csv_answer
take_quoted(struct csv *csv, struct arena *arena, struct csv_record *record, struct slice *field)
{
    const char *from = csv->at;
    bool doubled = false;

    for (;; csv->at++) {
        if (csv->at == csv->end)
            return bad(record, "a quote is not closed");
        if (*csv->at == '\n')
            csv->line++;
        if (*csv->at != '"')
            continue;
        if (csv->at + 1 == csv->end || csv->at[1] != '"')
            break;
        doubled = true;
        csv->at++;
    }
    struct slice raw = { from, (size_t)(csv->at - from) };
    csv->at++;
    if (csv->at < csv->end && *csv->at != ',' && !at_line_end(csv))
        return bad(record, "text follows a closing quote");
    *field = raw;
    if (doubled && !undo_quotes(arena, raw, field))
        return CSV_NO_MEMORY;
    return CSV_RECORD;
}

static enum csv_answer
take_bare(struct csv *csv, struct csv_record *record, struct slice *field)
{
    const char *from = csv->at;

    while (csv->at < csv->end && *csv->at != ',' && !at_line_end(csv)) {
        if (*csv->at == '"')
            return bad(record, "a quote stands inside a field");
        if (*csv->at == '\r')
            return bad(record, "a carriage return stands alone");
        csv->at++;
    }
    *field = (struct slice){ from, (size_t)(csv->at - from) };
    return CSV_RECORD;
}

static enum csv_answer
take_field(struct csv *csv, struct arena *arena, struct csv_record *record)
{
    if (record->count == CSV_FIELDS_MAX)
        return bad(record, "too many fields");
    struct slice *field = &record->fields[record->count++];
    if (csv->at == csv->end || *csv->at != '"')
        return take_bare(csv, record, field);
    csv->at++;
    return take_quoted(csv, arena, record, field);
}

/* Behind a broken record: the next line. */
static void
skip_line(struct csv *csv)
{
    const char *next = memchr(csv->at, '\n', (size_t)(csv->end - csv->at));

    csv->at = next != NULL ? next : csv->end;
    take_line_end(csv);
}

static void
skip_empty_lines(struct csv *csv)
{
    while (csv->at < csv->end && at_line_end(csv))
        take_line_end(csv);
}

enum csv_answer
csv_next(struct csv *csv, struct arena *arena, struct csv_record *record)
{
    enum csv_answer answer;

    skip_empty_lines(csv);
    if (csv->at == csv->end)
        return CSV_END;
    record->line = csv->line;
    record->count = 0;
    record->reason = NULL;
    for (;;) {
        answer = take_field(csv, arena, record);
        if (answer != CSV_RECORD || csv->at == csv->end || *csv->at != ',')
            break;
        csv->at++;
    }
    if (answer == CSV_BAD)
        skip_line(csv);
    else
        take_line_end(csv);
    return answer;
}

/* --- UTF-8 ------------------------------------------------------------------------ */

static bool
is_tail(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

/* Bytes of the sequence at `at`, 0: none that is valid (RFC 3629). */
static size_t
sequence_len(const unsigned char *at, size_t left)
{
    if (at[0] < 0x80)
        return at[0] != 0;
    if (at[0] >= 0xC2 && at[0] <= 0xDF)
        return left >= 2 && is_tail(at[1]) ? 2 : 0;
    if (at[0] >= 0xE0 && at[0] <= 0xEF) {
        bool in_range =
            left >= 3 && (at[0] != 0xE0 || at[1] >= 0xA0) && (at[0] != 0xED || at[1] < 0xA0);
        return in_range && is_tail(at[1]) && is_tail(at[2]) ? 3 : 0;
    }
    if (at[0] >= 0xF0 && at[0] <= 0xF4) {
        bool in_range =
            left >= 4 && (at[0] != 0xF0 || at[1] >= 0x90) && (at[0] != 0xF4 || at[1] < 0x90);
        return in_range && is_tail(at[1]) && is_tail(at[2]) && is_tail(at[3]) ? 4 : 0;
    }
    return 0;
}

bool
csv_text_is_valid(struct slice text)
{
    const unsigned char *at = (const unsigned char *)text.ptr;

    for (size_t i = 0; i < text.len;) {
        size_t len = sequence_len(at + i, text.len - i);
        if (len == 0)
            return false;
        i += len;
    }
    return true;
}
