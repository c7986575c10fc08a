/*
 * lock.h - mutexes that know their rank.
 *
 * Ranks and purposes stand in lock.def. Taking a lock while holding one of the
 * same or a higher rank is a bug and aborts (so are two locks of one rank).
 * Under a lock: no I/O, no callback, a bounded number of steps.
 */
#ifndef HOLDFAST_LOCK_H
#define HOLDFAST_LOCK_H

#include <pthread.h>

enum lock_rank {
#define LOCK(rank, name, guards) LOCK_##name = rank,
#include "holdfast/lock.def"
#undef LOCK
};

struct lock {
    pthread_mutex_t mutex;
    enum lock_rank rank;
};

void lock_init(struct lock *lock, enum lock_rank rank);
void lock_fini(struct lock *lock);
void lock_take(struct lock *lock);
void lock_drop(struct lock *lock);

/* Asserts that this thread holds a lock of this rank. */
void lock_assert_held(const struct lock *lock);

/* Waits on `cond`, giving the lock up meanwhile; wakes at `timeout_us` at the latest (-1: never).
 */
void lock_wait(struct lock *lock, pthread_cond_t *cond, long timeout_us);
/* A condition variable on CLOCK_MONOTONIC, as lock_wait needs it. */
void lock_cond_init(pthread_cond_t *cond);

#endif
