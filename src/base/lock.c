/*
 * lock.c - mutexes that know their rank.
 *
 * Each thread remembers which locks it has, in the order of taking, which is the
 * order of ranks; so one look at the last one decides whether the next is allowed.
 */
#include "holdfast/lock.h"

#include <errno.h>
#include <stdbool.h>
#include <time.h>

#include "holdfast/assert.h"

#define HELD_MAX                 24 /* more than there are ranks */

#define LOCK(rank, name, guards) +1
_Static_assert(0
#include "holdfast/lock.def"
                   <= HELD_MAX,
               "a thread may hold one lock of every rank");
#undef LOCK

static _Thread_local const struct lock *held[HELD_MAX];
static _Thread_local unsigned held_count;

void
lock_init(struct lock *lock, enum lock_rank rank)
{
    lock->rank = rank;
    hf_must(pthread_mutex_init(&lock->mutex, NULL));
}

void
lock_fini(struct lock *lock)
{
    hf_must(pthread_mutex_destroy(&lock->mutex));
}

void
lock_take(struct lock *lock)
{
    hf_assert(held_count == 0 || held[held_count - 1]->rank < lock->rank);
    hf_must(pthread_mutex_lock(&lock->mutex));
    held[held_count++] = lock;
}

/* Where this thread's stack has the lock; held_count if it hasn't. */
static unsigned
held_index(const struct lock *lock)
{
    unsigned i = held_count;

    while (i > 0) {
        if (held[--i] == lock)
            return i;
    }
    return held_count;
}

void
lock_drop(struct lock *lock)
{
    unsigned at = held_index(lock);

    hf_assert(at < held_count);
    held_count--;
    for (; at < held_count; at++)
        held[at] = held[at + 1];
    hf_must(pthread_mutex_unlock(&lock->mutex));
}

void
lock_assert_held(const struct lock *lock)
{
    hf_assert(held_index(lock) < held_count);
}

static struct timespec
deadline_after(long timeout_us)
{
    struct timespec ts;

    hf_must(clock_gettime(CLOCK_MONOTONIC, &ts));
    ts.tv_sec += timeout_us / 1000000;
    ts.tv_nsec += timeout_us % 1000000 * 1000;
    if (ts.tv_nsec >= 1000000000) {
        ts.tv_sec++;
        ts.tv_nsec -= 1000000000;
    }
    return ts;
}

/* A thread that sleeps must have no other lock: those who need it would sleep with it. */
void
lock_wait(struct lock *lock, pthread_cond_t *cond, long timeout_us)
{
    hf_assert(held_count == 1 && held[0] == lock);
    if (timeout_us < 0) {
        hf_must(pthread_cond_wait(cond, &lock->mutex));
        return;
    }
    struct timespec deadline = deadline_after(timeout_us);
    int result = pthread_cond_timedwait(cond, &lock->mutex, &deadline);
    hf_assert(result == 0 || result == ETIMEDOUT);
}

void
lock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    hf_must(pthread_condattr_init(&attributes));
    hf_must(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    hf_must(pthread_cond_init(cond, &attributes));
    hf_must(pthread_condattr_destroy(&attributes));
}
