/* seat_status.c - the words for a seat's status, as Postgres and the API write them. */
#include "holdfast/hot_table.h"

static const char *const words[] = {
    [SEAT_AVAILABLE] = "available", [SEAT_HELD] = "held",       [SEAT_SOLD] = "sold",
    [SEAT_BLOCKED] = "blocked",     [SEAT_REMOVED] = "removed",
};

#define WORDS (sizeof(words) / sizeof(words[0]))

const char *
seat_status_word(enum seat_status status)
{
    hf_assert((unsigned)status < WORDS);
    return words[status];
}

bool
seat_status_parse(struct slice word, enum seat_status *status)
{
    for (unsigned i = 0; i < WORDS; i++) {
        if (slice_is(word, words[i])) {
            *status = (enum seat_status)i;
            return true;
        }
    }
    return false;
}
