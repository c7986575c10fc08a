/*
 * json_scan.c - decides whether some bytes are one strict JSON value.
 *
 * The model. The text is walked once, without recursion, by two steps that take
 * turns: "a value is due here" and "a value just ended here". What is open is
 * one bit a level (object or array), so the depth costs no memory.
 *
 * Names. The names of all open objects lie on one stack; an object's names are
 * those above its base. As long as an object is small, each new name is compared
 * with the earlier ones; a large object is sorted when it closes, so that no
 * body costs more than its length times a logarithm. Names are compared as what
 * they mean: "a" and "\u0061" are the same name. The stack begins inside the
 * scanner; only a text with more than NAMES_INLINE open names allocates, and a
 * name takes at least five bytes of the text, so the memory is bounded by it.
 *
 * Order. Code points compare as their UTF-8 bytes do, so names without escapes
 * can be compared by memcmp and the others code point by code point, in one order.
 */
#include "holdfast/json.h"

#include <stdlib.h>

#define NAMES_INLINE 32 /* no request of the API has more names open at once */
#define NAMES_SMALL  16 /* up to here, comparing beats sorting */

_Static_assert(JSON_DEPTH_MAX <= 64, "the open containers are the bits of a uint64_t");

struct name {
    const unsigned char *ptr; /* between the quotes, escapes as written */
    size_t len;
    bool escaped;
};

struct scan {
    const unsigned char *start;
    const unsigned char *at;
    const unsigned char *end;
    const char *reason; /* set by the first failure; `at` is then its place */

    int depth;
    uint64_t objects;            /* bit d-1: the container at depth d is an object */
    size_t base[JSON_DEPTH_MAX]; /* where the names of the object at depth d begin */

    struct name *names; /* inline_names, or malloc'ed */
    size_t name_count;
    size_t name_capacity;
    struct name inline_names[NAMES_INLINE];
};

enum step {
    STEP_VALUE, /* a value is due */
    STEP_AFTER, /* a value just ended */
    STEP_DONE,
    STEP_FAILED
};

static bool
fail(struct scan *s, const unsigned char *at, const char *reason)
{
    s->at = at;
    s->reason = reason;
    return false;
}

static bool
unexpected(struct scan *s)
{
    return fail(s, s->at, s->at == s->end ? "the text ends too early" : "unexpected character");
}

static void
skip_space(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

static bool
next_is(const struct scan *s, unsigned char c)
{
    return s->at < s->end && *s->at == c;
}

/* --- strings ----------------------------------------------------------- */

/* The bytes that a string may hold without a second look. */
static inline bool
is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static int
hex_digit(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four hex digits at `at`; -1 when they aren't there. */
static int32_t
hex4(const unsigned char *at, const unsigned char *end)
{
    int32_t value = 0;

    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/*
 * Length of the UTF-8 sequence at `at`; 0: there is none. RFC 3629: no overlong
 * form, no surrogate, at most U+10FFFF; all three are decided by the second byte.
 */
static size_t
utf8_sequence(const unsigned char *at, const unsigned char *end)
{
    unsigned char lead = at[0], least = 0x80, most = 0xBF; /* of the second byte */
    size_t len;

    if (lead >= 0xC2 && lead <= 0xDF)
        len = 2;
    else if ((lead & 0xF0) == 0xE0)
        len = 3;
    else if (lead >= 0xF0 && lead <= 0xF4)
        len = 4;
    else
        return 0;
    if (lead == 0xE0)
        least = 0xA0;
    else if (lead == 0xED)
        most = 0x9F;
    else if (lead == 0xF0)
        least = 0x90;
    else if (lead == 0xF4)
        most = 0x8F;
    if ((size_t)(end - at) < len || at[1] < least || at[1] > most)
        return 0;
    for (size_t i = 2; i < len; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    }
    return len;
}

bool
utf8_is_valid(struct slice text)
{
    const unsigned char *at = (const unsigned char *)text.ptr;
    const unsigned char *end = text.len > 0 ? at + text.len : at;

    while (at < end) {
        size_t len = *at < 0x80 ? 1 : utf8_sequence(at, end);
        if (len == 0)
            return false;
        at += len;
    }
    return true;
}

/* At the 'u' of an escape: moves behind it, and behind the second half of a pair. */
static bool
scan_unicode_escape(struct scan *s)
{
    const unsigned char *backslash = s->at - 1;
    int32_t code = hex4(s->at + 1, s->end);

    if (code < 0)
        return fail(s, backslash, "\\u needs four hexadecimal digits");
    if (code == 0)
        return fail(s, backslash, "\\u0000 is not accepted");
    s->at += 5;
    if (code < 0xD800 || code > 0xDFFF)
        return true;
    if (code < 0xDC00 && s->end - s->at >= 6 && s->at[0] == '\\' && s->at[1] == 'u') {
        int32_t low = hex4(s->at + 2, s->end);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            s->at += 6;
            return true;
        }
    }
    return fail(s, backslash, "half of a surrogate pair");
}

/* At a backslash. */
static bool
scan_escape(struct scan *s)
{
    s->at++;
    if (s->at == s->end)
        return unexpected(s);
    switch (*s->at) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        s->at++;
        return true;
    case 'u':
        return scan_unicode_escape(s);
    default:
        return fail(s, s->at - 1, "unknown escape");
    }
}

/* At the opening quote; moves behind the closing one. *text gets what is between. */
static bool
scan_string(struct scan *s, struct name *text)
{
    s->at++;
    text->ptr = s->at;
    text->escaped = false;
    for (;;) {
        while (s->at < s->end && is_plain(*s->at))
            s->at++;
        if (s->at == s->end)
            return unexpected(s);
        if (*s->at == '"') {
            text->len = (size_t)(s->at - text->ptr);
            s->at++;
            return true;
        }
        if (*s->at == '\\') {
            text->escaped = true;
            if (!scan_escape(s))
                return false;
        } else if (*s->at < 0x20) {
            return fail(s, s->at, "control character in a string");
        } else {
            size_t len = utf8_sequence(s->at, s->end);
            if (len == 0)
                return fail(s, s->at, "not UTF-8");
            s->at += len;
        }
    }
}

/* --- names ------------------------------------------------------------- */

/* The code point of an escape that was scanned already; *at is behind its backslash. */
static uint32_t
escaped_code_point(const unsigned char **at, const unsigned char *end)
{
    unsigned char c = *(*at)++;
    uint32_t code;

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
    case 'u':
        break;
    default:
        return c;
    }
    code = (uint32_t)hex4(*at, end);
    *at += 4;
    if (code >= 0xD800 && code <= 0xDBFF) {
        uint32_t low = (uint32_t)hex4(*at + 2, end);
        *at += 6;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    return code;
}

/* The next code point of a name that was scanned already. */
static uint32_t
next_code_point(const unsigned char **at, const unsigned char *end)
{
    unsigned char c = *(*at)++;
    uint32_t code;
    int more;

    if (c == '\\')
        return escaped_code_point(at, end);
    if (c < 0x80)
        return c;
    more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
    code = c & (0x3Fu >> more);
    while (more-- > 0)
        code = code << 6 | (*(*at)++ & 0x3F);
    return code;
}

static int
compare_escaped(const struct name *a, const struct name *b)
{
    const unsigned char *at_a = a->ptr, *end_a = a->ptr + a->len;
    const unsigned char *at_b = b->ptr, *end_b = b->ptr + b->len;

    while (at_a < end_a && at_b < end_b) {
        uint32_t code_a = next_code_point(&at_a, end_a);
        uint32_t code_b = next_code_point(&at_b, end_b);
        if (code_a != code_b)
            return code_a < code_b ? -1 : 1;
    }
    return (at_a < end_a) - (at_b < end_b);
}

static int
compare_names(const struct name *a, const struct name *b)
{
    size_t shorter = a->len < b->len ? a->len : b->len;
    int order;

    if (a->escaped || b->escaped)
        return compare_escaped(a, b);
    order = memcmp(a->ptr, b->ptr, shorter);
    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

/* Equal names in the order of the text, so that the later one is reported. */
static int
compare_for_sort(const void *a, const void *b)
{
    const struct name *name_a = a, *name_b = b;
    int order = compare_names(name_a, name_b);

    return order != 0 ? order : (name_a->ptr > name_b->ptr) - (name_a->ptr < name_b->ptr);
}

static bool
same_name(const struct name *a, const struct name *b)
{
    if (!a->escaped && !b->escaped && a->len != b->len)
        return false;
    return compare_names(a, b) == 0;
}

static bool
fail_twice(struct scan *s, const struct name *second)
{
    return fail(s, second->ptr - 1, "the same name twice in an object");
}

static bool
names_grow(struct scan *s)
{
    size_t capacity = s->name_capacity * 2;
    bool is_inline = s->names == s->inline_names;
    struct name *names;

    names = realloc(is_inline ? NULL : s->names, capacity * sizeof(*names));
    if (names == NULL)
        return fail(s, s->at, "no memory");
    if (is_inline)
        memcpy(names, s->inline_names, s->name_count * sizeof(*names));
    s->names = names;
    s->name_capacity = capacity;
    return true;
}

/* Where the names of the innermost object begin. */
static size_t
names_base(const struct scan *s)
{
    return s->base[s->depth - 1];
}

static bool
names_push(struct scan *s, const struct name *name)
{
    size_t base = names_base(s);

    if (s->name_count - base < NAMES_SMALL) {
        for (size_t i = base; i < s->name_count; i++) {
            if (same_name(&s->names[i], name))
                return fail_twice(s, name);
        }
    }
    if (s->name_count == s->name_capacity && !names_grow(s))
        return false;
    s->names[s->name_count++] = *name;
    return true;
}

/* The innermost object ends: the names of a large one are compared only now. */
static bool
names_pop(struct scan *s)
{
    size_t base = names_base(s);
    size_t count = s->name_count - base;
    struct name *names = s->names + base;

    s->name_count = base;
    if (count <= NAMES_SMALL)
        return true;
    qsort(names, count, sizeof(*names), compare_for_sort);
    for (size_t i = 1; i < count; i++) {
        if (compare_names(&names[i - 1], &names[i]) == 0)
            return fail_twice(s, &names[i]);
    }
    return true;
}

/* "name" : with the space around; afterwards a value is due. */
static bool
scan_name(struct scan *s)
{
    struct name name;

    skip_space(s);
    if (!next_is(s, '"'))
        return unexpected(s);
    if (!scan_string(s, &name) || !names_push(s, &name))
        return false;
    skip_space(s);
    if (!next_is(s, ':'))
        return unexpected(s);
    s->at++;
    return true;
}

/* --- numbers and words ------------------------------------------------- */

/* At least one digit. */
static bool
scan_digits(struct scan *s)
{
    const unsigned char *begin = s->at;

    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    return s->at > begin || unexpected(s);
}

static bool
scan_number(struct scan *s)
{
    if (*s->at == '-')
        s->at++;
    if (next_is(s, '0'))
        s->at++; /* a digit after it is refused as what can't follow a value */
    else if (!scan_digits(s))
        return false;
    if (next_is(s, '.')) {
        s->at++;
        if (!scan_digits(s))
            return false;
    }
    if (next_is(s, 'e') || next_is(s, 'E')) {
        s->at++;
        if (next_is(s, '+') || next_is(s, '-'))
            s->at++;
        return scan_digits(s);
    }
    return true;
}

static bool
scan_word(struct scan *s, struct slice word)
{
    if ((size_t)(s->end - s->at) < word.len || memcmp(s->at, word.ptr, word.len) != 0)
        return fail(s, s->at, "unexpected word");
    s->at += word.len;
    return true;
}

/* --- structure --------------------------------------------------------- */

static bool
inside_object(const struct scan *s)
{
    return s->objects >> (s->depth - 1) & 1;
}

/* At '{' or '['. */
static bool
container_open(struct scan *s)
{
    bool object = *s->at == '{';

    if (s->depth == JSON_DEPTH_MAX)
        return fail(s, s->at, "nested too deep");
    s->base[s->depth++] = s->name_count;
    s->objects &= ~(UINT64_C(1) << (s->depth - 1));
    s->objects |= (uint64_t)object << (s->depth - 1);
    s->at++;
    return true;
}

/* At the bracket that ends the innermost container. */
static bool
container_close(struct scan *s)
{
    if (inside_object(s) && !names_pop(s))
        return false;
    s->at++;
    s->depth--;
    return true;
}

static unsigned char
closing_bracket(const struct scan *s)
{
    return inside_object(s) ? '}' : ']';
}

static enum step
step_container(struct scan *s)
{
    if (!container_open(s))
        return STEP_FAILED;
    skip_space(s);
    if (next_is(s, closing_bracket(s)))
        return container_close(s) ? STEP_AFTER : STEP_FAILED;
    if (inside_object(s) && !scan_name(s))
        return STEP_FAILED;
    return STEP_VALUE;
}

static bool
scan_scalar(struct scan *s)
{
    struct name text;

    switch (*s->at) {
    case '"':
        return scan_string(s, &text);
    case 't':
        return scan_word(s, SLICE_LITERAL("true"));
    case 'f':
        return scan_word(s, SLICE_LITERAL("false"));
    case 'n':
        return scan_word(s, SLICE_LITERAL("null"));
    default:
        if (*s->at == '-' || (*s->at >= '0' && *s->at <= '9'))
            return scan_number(s);
        return unexpected(s);
    }
}

static enum step
step_value(struct scan *s)
{
    skip_space(s);
    if (s->at == s->end) {
        unexpected(s);
        return STEP_FAILED;
    }
    if (*s->at == '{' || *s->at == '[')
        return step_container(s);
    return scan_scalar(s) ? STEP_AFTER : STEP_FAILED;
}

static enum step
step_after(struct scan *s)
{
    skip_space(s);
    if (s->depth == 0) {
        if (s->at == s->end)
            return STEP_DONE;
        fail(s, s->at, "something follows the value");
        return STEP_FAILED;
    }
    if (next_is(s, closing_bracket(s)))
        return container_close(s) ? STEP_AFTER : STEP_FAILED;
    if (!next_is(s, ',')) {
        unexpected(s);
        return STEP_FAILED;
    }
    s->at++;
    if (inside_object(s) && !scan_name(s))
        return STEP_FAILED;
    return STEP_VALUE;
}

bool
json_scan(struct slice text, struct json_error *error)
{
    struct scan s; /* only what is used gets set: the arrays are large */
    enum step step = STEP_VALUE;

    s.start = (const unsigned char *)(text.len > 0 ? text.ptr : "");
    s.at = s.start;
    s.end = s.start + text.len;
    s.reason = NULL;
    s.depth = 0;
    s.objects = 0;
    s.names = s.inline_names;
    s.name_count = 0;
    s.name_capacity = NAMES_INLINE;

    while (step == STEP_VALUE || step == STEP_AFTER)
        step = step == STEP_VALUE ? step_value(&s) : step_after(&s);

    if (s.names != s.inline_names)
        free(s.names);
    if (step == STEP_FAILED)
        *error = (struct json_error){ .offset = (size_t)(s.at - s.start), .reason = s.reason };
    return step == STEP_DONE;
}
