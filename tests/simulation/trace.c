/*
 * trace.c - what happened in a seed: a digest of all of it, and the last lines in words.
 *
 * The digest (FNV-1a) takes in every line and every switch between fibers, so two runs with the
 * same digest went the same way.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

#define LINES_KEPT 80
#define LINE_BYTES 240

static uint64_t seed_now, digest;
static bool loud;
static char lines[LINES_KEPT][LINE_BYTES];
static uint64_t line_count;

static void
mix(const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        digest = (digest ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001B3);
}

void
trace_mix(uint64_t word)
{
    digest = (digest ^ word) * UINT64_C(0x100000001B3);
    digest ^= digest >> 29;
}

void
trace(const char *format, ...)
{
    char *line = lines[line_count++ % LINES_KEPT];
    int64_t now = sim_now_us();
    va_list args;

    int len = snprintf(line, LINE_BYTES, "%3" PRId64 ".%06" PRId64 " ", now / S, now % S);
    va_start(args, format);
    vsnprintf(line + len, LINE_BYTES - (size_t)len, format, args);
    va_end(args);
    mix(line, strlen(line));
    if (loud)
        puts(line);
}

uint64_t
trace_digest(void)
{
    return digest;
}

/* Straight to the descriptor: also from a signal's handler. */
static void
tell_last_lines(const char *why)
{
    uint64_t first = line_count > LINES_KEPT ? line_count - LINES_KEPT : 0;

    fflush(stdout);
    dprintf(STDERR_FILENO, "--- the last events of seed %" PRIu64 "\n", seed_now);
    for (uint64_t i = first; !loud && i < line_count; i++)
        dprintf(STDERR_FILENO, "%s\n", lines[i % LINES_KEPT]);
    dprintf(STDERR_FILENO, "VIOLATION seed %" PRIu64 " at %" PRId64 " us: %s\n", seed_now,
            sim_now_us(), why);
}

static void
caught(int signal_number)
{
    tell_last_lines(signal_number == SIGALRM ? "it did not come to an end"
                                             : strsignal(signal_number));
    _exit(1);
}

void
trace_start(uint64_t seed, bool aloud)
{
    seed_now = seed;
    digest = UINT64_C(0xCBF29CE484222325);
    loud = aloud;
    signal(SIGABRT, caught); /* a broken assertion of a room */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they tell more */
    signal(SIGSEGV, caught);
    signal(SIGBUS, caught);
#endif
    signal(SIGALRM, caught);
}

void
violation(const char *format, ...)
{
    char why[400];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    tell_last_lines(why);
    _exit(1);
}
