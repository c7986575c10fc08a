/*
 * config_value.c - what a setting's text means, by kind.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_internal.h"
#include "holdfast/assert.h"

struct unit {
    const char *suffix;
    int64_t factor;
};

/* The first one of each is what a bare number means; then rising, up to the empty end. */
static const struct unit int_units[] = { { "", 1 }, { NULL, 0 } };
static const struct unit duration_units[] = {
    { "", TIME_US_PER_MS },        { "ms", TIME_US_PER_MS },        { "s", TIME_US_PER_S },
    { "m", 60LL * TIME_US_PER_S }, { "h", 3600LL * TIME_US_PER_S }, { NULL, 0 },
};
static const struct unit size_units[] = {
    { "", 1 }, { "KiB", 1LL << 10 }, { "MiB", 1LL << 20 }, { "GiB", 1LL << 30 }, { NULL, 0 },
};

static const struct unit *
units_of(enum config_kind kind)
{
    hf_assert(kind == CONFIG_KIND_INT || kind == CONFIG_KIND_DURATION || kind == CONFIG_KIND_SIZE);
    return kind == CONFIG_KIND_INT        ? int_units
           : kind == CONFIG_KIND_DURATION ? duration_units
                                          : size_units;
}

bool
config_kind_is_text(enum config_kind kind)
{
    return kind == CONFIG_KIND_TEXT || kind == CONFIG_KIND_SECRET;
}

const char *
config_kind_describe(enum config_kind kind)
{
    switch (kind) {
    case CONFIG_KIND_TEXT:
    case CONFIG_KIND_SECRET:
        return "text without control characters";
    case CONFIG_KIND_INT:
        return "a whole number";
    case CONFIG_KIND_DURATION:
        return "a duration such as 50ms, 10s, 15m or 24h (a bare number means milliseconds)";
    case CONFIG_KIND_SIZE:
        return "a size such as 512, 16KiB, 1MiB or 2GiB";
    case CONFIG_KIND_BOOL:
        return "on or off";
    }
    return "";
}

bool
config_number_parse(enum config_kind kind, const char *text, int64_t *value)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    char *end;

    if (!isdigit((unsigned char)digits[0]))
        return false; /* strtoll would take spaces and a plus */
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0)
        return false;
    for (const struct unit *unit = units_of(kind); unit->suffix != NULL; unit++) {
        if (strcmp(end, unit->suffix) == 0)
            return !__builtin_mul_overflow(number, unit->factor, value);
    }
    return false;
}

void
config_number_format(enum config_kind kind, int64_t value, char text[CONFIG_NUMBER_BYTES])
{
    const struct unit *best = units_of(kind);

    if (kind == CONFIG_KIND_DURATION)
        best++; /* "0ms" rather than "0" */
    for (const struct unit *unit = best; unit->suffix != NULL; unit++) {
        if (value != 0 && value % unit->factor == 0)
            best = unit;
    }
    snprintf(text, CONFIG_NUMBER_BYTES, "%" PRId64 "%s", value / best->factor, best->suffix);
}

bool
config_bool_parse(const char *text, bool *value)
{
    static const char *const yes[] = { "on", "true", "1" };
    static const char *const no[] = { "off", "false", "0" };

    for (size_t i = 0; i < 3; i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *value = strcmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}
