/*
 * feed_position.c - positions as text: base 36, "<incarnation>.<number>" joined by '_', then
 * "-<incarnation>.<number>.<changes>" of a record that a reader has in part. Without any mark: "0".
 *
 * Text comes back from clients, so only what feed_position_write writes is taken: sorted, each
 * incarnation once, no leading zeros.
 */
#include "holdfast/feed_position.h"

#include <string.h>

#define DIGITS_MAX 13 /* of 64 bits to the base of 36 */
#define MARK_BYTES (2 * DIGITS_MAX + 2)
_Static_assert((FEED_NODES_MAX + 1) * MARK_BYTES + DIGITS_MAX + 1 < FEED_POSITION_TEXT_BYTES,
               "the longest position fits: marks, a part, NUL");

/* --- marks -------------------------------------------------------------------- */

/* The first mark that is not below `incarnation`. */
static int
lower_bound(const struct feed_position *position, int64_t incarnation)
{
    int least = 0, end = position->count;

    while (least < end) {
        int middle = least + (end - least) / 2;
        if (position->marks[middle].incarnation < incarnation)
            least = middle + 1;
        else
            end = middle;
    }
    return least;
}

int
feed_position_find(const struct feed_position *position, int64_t incarnation)
{
    int i = lower_bound(position, incarnation);

    return i < position->count && position->marks[i].incarnation == incarnation ? i : -1;
}

uint64_t
feed_position_of(const struct feed_position *position, int64_t incarnation)
{
    int i = feed_position_find(position, incarnation);

    return i < 0 ? 0 : position->marks[i].number;
}

int
feed_position_add(struct feed_position *position, struct feed_mark mark)
{
    int i = lower_bound(position, mark.incarnation);

    if (i < position->count && position->marks[i].incarnation == mark.incarnation) {
        position->marks[i] = mark;
        return i;
    }
    if (position->count == FEED_NODES_MAX)
        return -1;
    memmove(&position->marks[i + 1], &position->marks[i],
            (size_t)(position->count - i) * sizeof(position->marks[0]));
    position->marks[i] = mark;
    position->count++;
    return i;
}

void
feed_position_complete(struct feed_position *position, const struct feed_position *left)
{
    if (position->count == 0)
        return;
    int64_t latest = position->marks[position->count - 1].incarnation;
    for (int i = 0; i < left->count && left->marks[i].incarnation < latest; i++) {
        if (feed_position_find(position, left->marks[i].incarnation) < 0)
            (void)feed_position_add(position, left->marks[i]);
    }
}

static bool
has_part(const struct feed_position *position, const struct feed_mark *part, uint32_t count)
{
    int i = feed_position_find(position, part->incarnation);

    if (i >= 0 && position->marks[i].number >= part->number)
        return true;
    return position->part_count >= count && position->part.incarnation == part->incarnation &&
           position->part.number == part->number;
}

bool
feed_position_covers(const struct feed_position *a, const struct feed_position *b)
{
    for (int i = 0; i < b->count; i++) {
        if (feed_position_of(a, b->marks[i].incarnation) < b->marks[i].number)
            return false;
    }
    return b->part_count == 0 || has_part(a, &b->part, b->part_count);
}

/* --- writing ------------------------------------------------------------------- */

static char *
write_number(char *at, uint64_t number)
{
    char reversed[DIGITS_MAX];
    int len = 0;

    do {
        reversed[len++] = "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36];
        number /= 36;
    } while (number > 0);
    while (len > 0)
        *at++ = reversed[--len];
    return at;
}

static char *
write_mark(char *at, struct feed_mark mark)
{
    at = write_number(at, (uint64_t)mark.incarnation);
    *at++ = '.';
    return write_number(at, mark.number);
}

size_t
feed_position_write(const struct feed_position *position, char text[FEED_POSITION_TEXT_BYTES])
{
    char *at = text;

    hf_assert(position->count >= 0 && position->count <= FEED_NODES_MAX);
    if (position->count == 0)
        *at++ = '0';
    for (int i = 0; i < position->count; i++) {
        if (i > 0)
            *at++ = '_';
        at = write_mark(at, position->marks[i]);
    }
    if (position->part_count > 0) {
        *at++ = '-';
        at = write_mark(at, position->part);
        *at++ = '.';
        at = write_number(at, position->part_count);
    }
    *at = '\0';
    return (size_t)(at - text);
}

/* --- reading -------------------------------------------------------------------- */

struct reader {
    const char *at, *end;
};

static int
digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : -1;
}

/* most: at least 35. */
static bool
read_number(struct reader *reader, uint64_t most, uint64_t *number)
{
    const char *start = reader->at;
    int digit;

    *number = 0;
    for (; reader->at < reader->end && (digit = digit_of(*reader->at)) >= 0; reader->at++) {
        if (*number > (most - (uint64_t)digit) / 36)
            return false;
        *number = *number * 36 + (uint64_t)digit;
    }
    return reader->at - start == 1 || (reader->at - start > 1 && *start != '0');
}

static bool
read_char(struct reader *reader, char c)
{
    if (reader->at == reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

static bool
read_mark(struct reader *reader, struct feed_mark *mark)
{
    uint64_t incarnation;

    if (!read_number(reader, INT64_MAX, &incarnation) || incarnation == 0 ||
        !read_char(reader, '.') || !read_number(reader, UINT64_MAX, &mark->number))
        return false;
    mark->incarnation = (int64_t)incarnation;
    return true;
}

static bool
read_marks(struct reader *reader, struct feed_position *position)
{
    if (reader->end - reader->at == 1 || (reader->end - reader->at > 1 && reader->at[1] == '-'))
        return read_char(reader, '0');
    do {
        if (position->count == FEED_NODES_MAX ||
            !read_mark(reader, &position->marks[position->count]))
            return false;
        int last = position->count++;
        if (last > 0 && position->marks[last].incarnation <= position->marks[last - 1].incarnation)
            return false;
    } while (read_char(reader, '_'));
    return true;
}

/* A part of a record that the marks have already is none. */
static bool
read_part(struct reader *reader, struct feed_position *position)
{
    uint64_t count;

    if (!read_mark(reader, &position->part) || !read_char(reader, '.') ||
        !read_number(reader, UINT32_MAX, &count) || count == 0)
        return false;
    position->part_count = (uint32_t)count;
    return position->part.number > feed_position_of(position, position->part.incarnation);
}

bool
feed_position_parse(struct slice text, struct feed_position *position)
{
    struct reader reader = { text.ptr, text.ptr + text.len };

    position->count = 0;
    position->part_count = 0;
    position->part = (struct feed_mark){ 0, 0 };
    if (text.len >= FEED_POSITION_TEXT_BYTES || !read_marks(&reader, position))
        return false;
    if (read_char(&reader, '-') && !read_part(&reader, position))
        return false;
    return reader.at == reader.end;
}
