/* The strict look at header bytes: what passes, what doesn't, in any pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "head_scan.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct text {
    const char *bytes;
    size_t len;
};
#define TEXT(literal)                                                                              \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

/* Feeds `text` in pieces of `step` bytes. */
static enum head_scan_result
scan(struct text text, size_t step, size_t *used)
{
    struct head_scan scan;
    enum head_scan_result result = HEAD_SCAN_MORE;

    head_scan_begin(&scan);
    for (*used = 0; *used < text.len && result == HEAD_SCAN_MORE;) {
        size_t len = text.len - *used < step ? text.len - *used : step;
        size_t took = head_scan_run(&scan, text.bytes + *used, len, &result);
        assert_true(result != HEAD_SCAN_MORE || took == len);
        *used += took;
    }
    if (result == HEAD_SCAN_BAD)
        assert_non_null(scan.reason);
    return result;
}

static void
a_header_ends_at_its_empty_line_whatever_the_pieces(void **state)
{
    static const struct text good[] = {
        TEXT("GET / HTTP/1.1\r\n\r\n"),
        TEXT("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        TEXT("POST /x HTTP/1.1\r\nHost:a\r\nX-Empty:\r\nX-Tab:\ta\t\r\nX-High: \xc3\xbc\r\n\r\n"),
        TEXT("odd\r\n!#$%&'*+-.^_`|~09azAZ: {}\"\r\n\r\n"),
    };
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        for (size_t step = 1; step <= good[i].len; step++) {
            size_t used;
            assert_int_equal(scan(good[i], step, &used), HEAD_SCAN_DONE);
            assert_int_equal(used, good[i].len);
        }
    }
}

static void
nothing_after_the_empty_line_is_taken(void **state)
{
    struct text text = TEXT("GET / HTTP/1.1\r\n\r\n\0\r\rrest");
    size_t used;
    (void)state;
    assert_int_equal(scan(text, text.len, &used), HEAD_SCAN_DONE);
    assert_int_equal(used, 18);
}

static void
bytes_that_two_readers_could_read_differently_are_refused(void **state)
{
    static const struct text bad[] = {
        TEXT("GET / HTTP/1.1\nHost: a\r\n\r\n"), /* bare LF in the request line */
        TEXT("GET / HTTP/1.1\r\nHost: a\n\r\n"), /* bare LF after a header */
        TEXT("GET / HTTP/1.1\r\nX: \rTransfer-Encoding: chunked\r\n\r\n"), /* bare CR */
        TEXT("GET / HTTP/1.1\r\nX: a\r\r\n\r\n"),                          /* CR CR LF */
        TEXT("GET / HTTP/1.1\r\nHost: a\r\n\n"),       /* bare LF as empty line */
        TEXT("GET / HTTP/1.1\r\nHost: a\r\n\rX"),      /* bare CR as empty line */
        TEXT("GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n"),  /* folded with a space */
        TEXT("GET / HTTP/1.1\r\nX: a\r\n\tb\r\n\r\n"), /* folded with a tab */
        TEXT("GET / HTTP/1.1\r\n: a\r\n\r\n"),         /* no name */
        TEXT("GET / HTTP/1.1\r\nX : a\r\n\r\n"),       /* a space before the colon */
        TEXT("GET / HTTP/1.1\r\nX Y: a\r\n\r\n"),      /* a space in the name */
        TEXT("GET / HTTP/1.1\r\nX\r\n\r\n"),           /* no colon */
        TEXT("GET / HTTP/1.1\r\nX(: a\r\n\r\n"),       /* no token */
        TEXT("GET / HTTP/1.1\r\nX\x80: a\r\n\r\n"),    /* not ASCII in a name */
        TEXT("GET / HTTP/1.1\r\nX: a\0b\r\n\r\n"),     /* NUL */
        TEXT("GET / HTTP/1.1\r\nX\0: a\r\n\r\n"),      /* NUL in a name */
        TEXT("GET / HTTP/1.1\r\nX: a\x01\r\n\r\n"),    /* a control character */
        TEXT("GET / HTTP/1.1\r\nX: a\x7f\r\n\r\n"),    /* DEL */
        TEXT("GET /\x80 HTTP/1.1\r\n\r\n"),            /* not ASCII in the target */
        TEXT("GET\t/ HTTP/1.1\r\n\r\n"),               /* a tab in the request line */
        TEXT("GET /\0 HTTP/1.1\r\n\r\n"),              /* NUL in the target */
    };
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        for (size_t step = 1; step <= bad[i].len; step++) {
            size_t used;
            if (scan(bad[i], step, &used) != HEAD_SCAN_BAD)
                fail_msg("case %zu passed in pieces of %zu", i, step);
        }
    }
}

static void
every_control_character_is_refused_in_a_value_but_the_tab(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        char text[] = "G / H\r\nX: a?b\r\n\r\n";
        text[11] = (char)c;
        size_t used;
        enum head_scan_result result = scan((struct text){ text, sizeof(text) - 1 }, 99, &used);
        int allowed = c == '\t' || (c >= 0x20 && c != 0x7f);
        assert_int_equal(result, allowed ? HEAD_SCAN_DONE : HEAD_SCAN_BAD);
    }
}

static void
a_trailer_is_scanned_like_header_lines(void **state)
{
    struct head_scan trailer;
    enum head_scan_result result;
    (void)state;
    head_scan_begin_trailer(&trailer);
    assert_int_equal(head_scan_run(&trailer, "\r\n", 2, &result), 2);
    assert_int_equal(result, HEAD_SCAN_DONE);
    head_scan_begin_trailer(&trailer);
    assert_int_equal(head_scan_run(&trailer, "A: b\r\n\r\nGET", 11, &result), 8);
    assert_int_equal(result, HEAD_SCAN_DONE);
    head_scan_begin_trailer(&trailer);
    head_scan_run(&trailer, " A: b\r\n", 7, &result);
    assert_int_equal(result, HEAD_SCAN_BAD);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_ends_at_its_empty_line_whatever_the_pieces),
        cmocka_unit_test(nothing_after_the_empty_line_is_taken),
        cmocka_unit_test(bytes_that_two_readers_could_read_differently_are_refused),
        cmocka_unit_test(every_control_character_is_refused_in_a_value_but_the_tab),
        cmocka_unit_test(a_trailer_is_scanned_like_header_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
