/*
 * assert.c - the last words of a process whose invariant broke.
 *
 * It may be called under any lock and with a damaged heap, so it takes no lock
 * and allocates nothing: one line on the stack, one write, abort.
 */
#include "holdfast/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base_internal.h"

#define LAST_LINE_BYTES 1024
#define ESCAPED_BYTES   400 /* both escaped texts and the frame fit into the line */

/* Copies what fits. The texts come from our own source: quotes and backslashes at the worst. */
static void
copy_escaped(char *to, size_t room, const char *from)
{
    size_t len = 0;

    for (; *from != '\0' && len + 3 < room; from++) {
        if (*from == '"' || *from == '\\')
            to[len++] = '\\';
        to[len++] = (unsigned char)*from < 0x20 ? ' ' : *from;
    }
    to[len] = '\0';
}

_Noreturn void
hf_assert_failed(const char *what, const char *file, int line)
{
    char time[DB_TIME_TEXT_BYTES], invariant[ESCAPED_BYTES], place[ESCAPED_BYTES];
    char text[LAST_LINE_BYTES];

    time_text_format(wall_clock_us(), time);
    copy_escaped(invariant, sizeof(invariant), what);
    copy_escaped(place, sizeof(place), file);
    int len = snprintf(text, sizeof(text),
                       "{\"time\":\"%s\",\"level\":\"error\",\"event\":\"assertion_failed\","
                       "\"invariant\":\"%s\",\"file\":\"%s\",\"line\":%d}\n",
                       time, invariant, place, line);
    if (len > 0 && write(STDERR_FILENO, text, (size_t)len) < 0)
        abort(); /* nobody is left to tell */
    abort();
}
