/*
 * news.c - what may have come free: a few seats by name, else anything.
 *
 * By name it costs a look at those seats; else at all seats of the event.
 */
#include <string.h>

#include "waitlist_internal.h"

bool
news_is_empty(const struct news *news)
{
    return !news->whole && news->count == 0;
}

static const struct free_seat *
find(const struct news *news, struct slice seat)
{
    for (int i = 0; i < news->count; i++)
        if (slice_is(seat, news->seats[i].id))
            return &news->seats[i];
    return NULL;
}

void
news_add(struct news *news, struct slice seat, struct mono_time heard)
{
    if (find(news, seat) != NULL)
        return;
    if (seat.len == 0 || seat.len > ID_BYTES_MAX || news->count == FREE_SEATS_MAX) {
        news->whole = true;
        return;
    }
    struct free_seat *added = &news->seats[news->count++];
    memcpy(added->id, seat.ptr, seat.len);
    added->id[seat.len] = '\0';
    added->heard = heard;
}

void
news_merge(struct news *news, const struct news *more)
{
    news->whole = news->whole || more->whole;
    for (int i = 0; i < more->count; i++)
        news_add(news, slice_of(more->seats[i].id), more->seats[i].heard);
}

bool
news_heard(const struct news *news, struct slice seat, struct mono_time *heard)
{
    const struct free_seat *found = find(news, seat);

    if (found != NULL)
        *heard = found->heard;
    return found != NULL;
}
