/*
 * machine.c - stands in for src/base/machine.c and lock.c: the seed decides what time it is, what
 * chance brings, and who runs.
 *
 * A lock is never held by a fiber that waits, so nobody ever waits for one. Before one is taken the
 * fiber may be set aside, as a thread may be anywhere: that is where steps of threads meet.
 */
#include <stdlib.h>

#include "base_internal.h"
#include "holdfast/lock.h"
#include "holdfast/thread.h"
#include "sim.h"

#define HELD_MAX        24
#define SET_ASIDE       40 /* one in so many locks */
#define SET_ASIDE_US    400
#define WALL_AT_ZERO_US (INT64_C(1780000000) * S) /* some day in 2026 */
#define AHEAD_MOST_US   (1000000 * S)
#define WALL_WRONG_US   (60 * S)

/* --- clocks and chance ---------------------------------------------------- */

static struct {
    int64_t ahead_us, wall_us; /* of the world's time; of the true wall clock */
} clocks[MACHINES];

void
machines_draw(void)
{
    for (int i = 0; i < MACHINES; i++) {
        clocks[i].ahead_us = chance_below(AHEAD_MOST_US);
        clocks[i].wall_us = chance_between(-WALL_WRONG_US, WALL_WRONG_US);
    }
}

int
machine_group(int machine, int start)
{
    return GROUP_NODE + start * MACHINES + machine;
}

int
machine_of(int group)
{
    return group < GROUP_NODE ? NOWHERE : (group - GROUP_NODE) % MACHINES;
}

int
machine_here(void)
{
    return machine_of(fiber_group());
}

static int64_t
ahead_us(int machine)
{
    return machine == NOWHERE ? 0 : clocks[machine].ahead_us;
}

struct mono_time
machine_time(int machine, int64_t sim_us)
{
    return (struct mono_time){ sim_us + ahead_us(machine) };
}

int64_t
machine_sim_us(struct mono_time time)
{
    return time.us - ahead_us(machine_here());
}

struct mono_time
mono_now(void)
{
    return machine_time(machine_here(), sim_now_us());
}

int64_t
wall_clock_us(void)
{
    int machine = machine_here();

    return WALL_AT_ZERO_US + sim_now_us() + (machine == NOWHERE ? 0 : clocks[machine].wall_us);
}

/* Called once before main, for the hash's seed: chance starts from zero then, always the same. */
void
random_fill(void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)(chance_next() >> 24);
}

/* --- threads -------------------------------------------------------------- */

static struct fiber *thread_fibers[1024]; /* a thread's id is its place here */
static unsigned long thread_count;

bool
thread_start(struct thread *thread, size_t stack_bytes, void *(*run)(void *), void *context)
{
    hf_assert(thread_count < sizeof(thread_fibers) / sizeof(thread_fibers[0]));
    thread->id = (pthread_t)thread_count;
    thread->started = true;
    thread_fibers[thread_count++] = fiber_start("thread", fiber_group(), stack_bytes, run, context);
    return true;
}

void
thread_join(struct thread *thread)
{
    if (!thread->started)
        return;
    struct fiber *fiber = thread_fibers[(unsigned long)thread->id];
    while (!fiber_is_over(fiber))
        fiber_wait(fiber, INT64_MAX);
    thread->started = false;
}

void
sleep_us(int64_t us)
{
    fiber_sleep(us);
}

/* --- locks ---------------------------------------------------------------- */

static const struct lock *held[HELD_MAX];
static unsigned held_count;

void
machine_assert_no_lock(void)
{
    hf_assert(held_count == 0);
}

void
lock_init(struct lock *lock, enum lock_rank rank)
{
    lock->rank = rank;
}

void
lock_fini(struct lock *lock)
{
    (void)lock;
}

void
lock_take(struct lock *lock)
{
    if (held_count == 0 && fiber_is_running() && chance_one_in(SET_ASIDE))
        fiber_sleep(chance_below(SET_ASIDE_US));
    hf_assert(held_count == 0 || held[held_count - 1]->rank < lock->rank);
    hf_assert(held_count < HELD_MAX);
    held[held_count++] = lock;
}

void
lock_drop(struct lock *lock)
{
    unsigned at = held_count;

    while (at > 0 && held[at - 1] != lock)
        at--;
    hf_assert(at > 0);
    for (held_count--; at <= held_count; at++)
        held[at - 1] = held[at];
}

void
lock_assert_held(const struct lock *lock)
{
    unsigned at = 0;

    while (at < held_count && held[at] != lock)
        at++;
    hf_assert(at < held_count);
}

void
lock_wait(struct lock *lock, pthread_cond_t *cond, long timeout_us)
{
    hf_assert(held_count == 1 && held[0] == lock);
    held_count = 0;
    fiber_wait(cond, timeout_us < 0 ? INT64_MAX : sim_now_us() + timeout_us);
    held[held_count++] = lock;
}

void
lock_cond_init(pthread_cond_t *cond)
{
    *cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

/* The rooms signal by libpthread's functions; the linker brings these calls here (--wrap). */
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);

int
__wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    fiber_wake_one(cond);
    return 0;
}

int
__wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    fiber_wake_all(cond);
    return 0;
}
