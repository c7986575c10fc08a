/*
 * thread.h - threads, and standing still.
 *
 * Together with lock.h, pthread_cond_signal and _broadcast, mono_now (clock.h) and the random bytes
 * behind ids.h this is all by which a room depends on the machine's time and scheduling. The
 * simulation links others in their place and runs the same rooms on one thread, from a seed
 * (tests/simulation).
 */
#ifndef HOLDFAST_THREAD_H
#define HOLDFAST_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/assert.h"

/* In the owner's memory, zeroed before the start. */
struct thread {
    pthread_t id;
    bool started;
};

/* Runs run(context) beside the caller. False: the system gives no thread. */
HF_MUST_CHECK bool thread_start(struct thread *thread, size_t stack_bytes, void *(*run)(void *),
                                void *context);
/* Waits for its end; nothing if it was never started. */
void thread_join(struct thread *thread);

/* Sleeps that long, whatever signals come. */
void sleep_us(int64_t us);

#endif
