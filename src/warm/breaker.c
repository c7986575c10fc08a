/*
 * breaker.c - when Redis may be used, and when it is left alone.
 *
 * One failure opens a pause that doubles with each further one; a success ends it.
 */
#include "warm_internal.h"

#define PAUSE_MIN_US (100 * INT64_C(1000))
#define PAUSE_MAX_US (1000 * INT64_C(1000))

bool
warm_breaker_allows(const struct warm_breaker *breaker, struct mono_time now)
{
    return now.us >= breaker->try_at.us;
}

void
warm_breaker_note(struct warm_breaker *breaker, struct mono_time now, bool worked)
{
    breaker->worked = worked;
    if (worked) {
        breaker->pause_us = 0;
        breaker->try_at.us = 0;
        return;
    }
    int64_t pause = breaker->pause_us == 0 ? PAUSE_MIN_US : breaker->pause_us * 2;
    breaker->pause_us = pause < PAUSE_MAX_US ? pause : PAUSE_MAX_US;
    breaker->try_at.us = now.us + breaker->pause_us;
}
