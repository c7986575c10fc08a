/*
 * machine.c - what the rooms get from this machine: its clocks, its chance, its threads.
 *
 * Nothing else in the rooms asks the system for these, so a program that defines the functions of
 * this file and of lock.c itself decides what time it is and who runs next (tests/simulation).
 */
#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "base_internal.h"
#include "holdfast/assert.h"
#include "holdfast/thread.h"

/* --- clocks -------------------------------------------------------------------- */

static int64_t
clock_us(clockid_t id)
{
    struct timespec ts;

    hf_must(clock_gettime(id, &ts));
    return (int64_t)ts.tv_sec * TIME_US_PER_S + ts.tv_nsec / 1000;
}

int64_t
wall_clock_us(void)
{
    return clock_us(CLOCK_REALTIME);
}

/* BOOTTIME goes on while the machine is suspended: a hold's time does too. */
struct mono_time
mono_now(void)
{
    return (struct mono_time){ clock_us(CLOCK_BOOTTIME) };
}

/* --- chance ---------------------------------------------------------------------- */

void
random_fill(void *bytes, size_t len)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = getrandom((uint8_t *)bytes + got, len - got, 0);
        hf_assert(n > 0 || errno == EINTR);
        if (n > 0)
            got += (size_t)n;
    }
}

/* --- threads ------------------------------------------------------------------- */

bool
thread_start(struct thread *thread, size_t stack_bytes, void *(*run)(void *), void *context)
{
    pthread_attr_t attributes;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    thread->started = pthread_attr_setstacksize(&attributes, stack_bytes) == 0 &&
                      pthread_create(&thread->id, &attributes, run, context) == 0;
    pthread_attr_destroy(&attributes);
    return thread->started;
}

void
thread_join(struct thread *thread)
{
    if (thread->started)
        hf_must(pthread_join(thread->id, NULL));
    thread->started = false;
}

void
sleep_us(int64_t us)
{
    struct timespec wait = { us / TIME_US_PER_S, us % TIME_US_PER_S * 1000 };

    while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
        continue;
}
