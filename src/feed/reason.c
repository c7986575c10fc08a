/*
 * reason.c - why a seat was freed, in the words of API.md and of Postgres.
 */
#include "holdfast/feed.h"

static const char *const words[] = {
    [FEED_REASON_NONE] = NULL,
    [FEED_TTL_EXPIRED] = "ttl_expired",
    [FEED_USER_CANCELLED] = "user_cancelled",
    [FEED_PAYMENT_FAILED] = "payment_failed",
    [FEED_ADMIN_OVERRIDE] = "admin_override",
    [FEED_WAITLIST_LAPSED] = "waitlist_lapsed",
    [FEED_REPLACED] = "replaced",
    [FEED_UNBLOCKED] = "unblocked",
};

const char *
feed_reason_word(enum feed_reason reason)
{
    return words[reason];
}

enum feed_reason
feed_reason_parse(struct slice word)
{
    for (int i = FEED_REASON_NONE + 1; i <= FEED_UNBLOCKED; i++) {
        if (slice_is(word, words[i]))
            return (enum feed_reason)i;
    }
    return FEED_REASON_NONE;
}
