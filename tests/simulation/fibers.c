/*
 * fibers.c - threads of the rooms as fibers (ucontext) on one thread, run by fake time and chance.
 *
 * Time stands still while a fiber runs and moves on between two of them. Of all whose time has come
 * chance picks one, so every interleaving of steps between two waits is possible, and the same
 * seed gives the same one. A fiber of a dead group is never run again.
 *
 * Sanitizers are told of each switch; a guard page stands below each stack.
 */
#include "sim.h"

#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK_FACTOR 4 /* red zones make frames larger */
#else
#define STACK_FACTOR 1
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#define FIBERS_MAX      1000
#define STACK_LEAST     (256 * 1024)
#define NEVER           INT64_MAX
#define SWITCH_COSTS_US 12 /* at most: time also passes for those who only work */

struct fiber {
    ucontext_t context;
    jmp_buf place;
    bool begun;
    const char *name;
    char *stack; /* above its guard page */
    size_t stack_bytes;
    void *(*run)(void *);
    void *argument;
    int number, group;
    int64_t wake_us;
    const void *waits_for;
    bool woken, over;
    void *fake_stack, *tsan;
    struct fiber *next_spare;
};

static struct fiber *live[FIBERS_MAX]; /* those that may run again, in the order of their start */
static int live_count;
static int started_count;
static struct fiber *current;
static ucontext_t scheduler;
static int64_t now_us = 1000 * S;
static int64_t still_until_us[MACHINES]; /* till then nobody runs there */
static bool stopping;

/* --- what the sanitizers hear --------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__)
static void *scheduler_fake_stack;
static const void *scheduler_bottom;
static size_t scheduler_bytes;
#endif
#if defined(__SANITIZE_THREAD__)
static void *scheduler_tsan;
#endif

static void
before_fiber(struct fiber *fiber)
{
    (void)fiber;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, fiber->stack, fiber->stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
    scheduler_tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->tsan, 0);
#endif
}

static void
back_in_scheduler(void)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, NULL, NULL);
#endif
}

static void
before_scheduler(struct fiber *fiber)
{
    (void)fiber;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fiber->over ? NULL : &fiber->fake_stack, scheduler_bottom,
                                   scheduler_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(scheduler_tsan, 0);
#endif
}

static void
back_in_fiber(struct fiber *fiber)
{
    (void)fiber;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &scheduler_bottom, &scheduler_bytes);
#endif
}

/* --- the switch ---------------------------------------------------------------------------
 *
 * swapcontext asks the kernel for the signal mask each time, which is a third of all our time. So
 * it only begins a fiber; from then on _setjmp and _longjmp do. Sanitizers have their own view of
 * longjmp (a stack is left for good), so they get swapcontext.
 */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static void
jump_to_fiber(struct fiber *fiber)
{
    swapcontext(&scheduler, &fiber->context);
}

static void
jump_to_scheduler(struct fiber *fiber)
{
    swapcontext(&fiber->context, &scheduler);
}
#else
static jmp_buf scheduler_place;

static void
jump_to_fiber(struct fiber *fiber)
{
    if (_setjmp(scheduler_place) != 0)
        return;
    if (fiber->begun)
        _longjmp(fiber->place, 1);
    fiber->begun = true;
    swapcontext(&scheduler, &fiber->context);
}

static void
jump_to_scheduler(struct fiber *fiber)
{
    if (_setjmp(fiber->place) == 0)
        _longjmp(scheduler_place, 1);
}
#endif

/* --- life ----------------------------------------------------------------- */

static void
leave(struct fiber *fiber)
{
    before_scheduler(fiber);
    jump_to_scheduler(fiber);
    back_in_fiber(fiber);
}

static void
fiber_main(void)
{
    struct fiber *fiber = current;

    back_in_fiber(fiber);
    fiber->run(fiber->argument);
    machine_assert_no_lock();
    fiber->over = true;
    fiber->wake_us = NEVER;
    fiber_wake_all(fiber);
    leave(fiber);
}

/* Stacks of fibers that came to their end, for the next ones. */
static struct fiber *spare;

static char *
stack_new(size_t bytes)
{
    for (struct fiber **link = &spare; *link != NULL; link = &(*link)->next_spare) {
        struct fiber *ended = *link;
        if (ended->stack_bytes != bytes)
            continue;
        *link = ended->next_spare;
#if defined(__SANITIZE_ADDRESS__)
        __asan_unpoison_memory_region(ended->stack, bytes);
#endif
        return ended->stack;
    }
    size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, guard + bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

    hf_assert(memory != MAP_FAILED);
    hf_must(mprotect(memory, guard, PROT_NONE));
    return memory + guard;
}

struct fiber *
fiber_start(const char *name, int group, size_t stack_bytes, void *(*run)(void *), void *argument)
{
    struct fiber *fiber = calloc(1, sizeof(*fiber));

    hf_assert(fiber != NULL && live_count < FIBERS_MAX);
    fiber->name = name;
    fiber->group = group;
    fiber->number = started_count++;
    fiber->stack_bytes = STACK_FACTOR * (stack_bytes > STACK_LEAST ? stack_bytes : STACK_LEAST);
    fiber->stack = stack_new(fiber->stack_bytes);
    fiber->run = run;
    fiber->argument = argument;
    fiber->wake_us = now_us + chance_below(50);
#if defined(__SANITIZE_THREAD__)
    fiber->tsan = __tsan_create_fiber(0);
#endif
    hf_must(getcontext(&fiber->context));
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = fiber->stack_bytes;
    makecontext(&fiber->context, fiber_main, 0);
    live[live_count++] = fiber;
    return fiber;
}

bool
fiber_is_over(const struct fiber *fiber)
{
    return fiber->over;
}

static void
forget_the_over(void)
{
    int left = 0;

    for (int i = 0; i < live_count; i++) {
        if (!live[i]->over) {
            live[left++] = live[i];
            continue;
        }
#if defined(__SANITIZE_THREAD__)
        __tsan_destroy_fiber(live[i]->tsan);
#endif
    }
    live_count = left;
}

void
fibers_stand_still(int machine, int64_t us)
{
    if (still_until_us[machine] < now_us + us)
        still_until_us[machine] = now_us + us;
}

void
fibers_kill(int group)
{
    hf_assert(current == NULL || current->group != group);
    for (int i = 0; i < live_count; i++)
        if (live[i]->group == group)
            live[i]->over = true;
    forget_the_over();
}

/* --- who is next ---------------------------------------------------------- */

static int64_t
due_us(const struct fiber *fiber)
{
    int machine = machine_of(fiber->group);
    int64_t still_us = machine == NOWHERE ? 0 : still_until_us[machine];

    return fiber->wake_us > still_us ? fiber->wake_us : still_us;
}

static int64_t
earliest_due(void)
{
    int64_t earliest = NEVER;

    for (int i = 0; i < live_count; i++) {
        int64_t us = due_us(live[i]);
        if (us < earliest)
            earliest = us;
    }
    return earliest;
}

/* One of those whose time has come. */
static struct fiber *
pick(void)
{
    struct fiber *ready[FIBERS_MAX];
    int count = 0;

    for (int i = 0; i < live_count; i++)
        if (due_us(live[i]) <= now_us)
            ready[count++] = live[i];
    return ready[chance_below(count)];
}

static void
run_one(void)
{
    int64_t earliest = earliest_due();

    if (earliest == NEVER)
        violation("nobody can go on: all wait for each other");
    if (earliest > now_us)
        now_us = earliest;
    struct fiber *fiber = pick();
    trace_mix((uint64_t)now_us << 10 | (uint64_t)fiber->number);
    current = fiber;
    before_fiber(fiber);
    jump_to_fiber(fiber);
    back_in_scheduler();
    current = NULL;
    if (fiber->over) {
        forget_the_over();
        fiber->next_spare = spare;
        spare = fiber;
    }
    now_us += chance_below(SWITCH_COSTS_US);
}

void
fibers_run(void)
{
    while (!stopping)
        run_one();
}

void
fibers_stop(void)
{
    stopping = true;
}

/* --- waiting -------------------------------------------------------------- */

int64_t
sim_now_us(void)
{
    return now_us;
}

bool
fiber_is_running(void)
{
    return current != NULL;
}

int
fiber_group(void)
{
    return current != NULL ? current->group : GROUP_WORLD;
}

static void
wait_until(int64_t wake_us)
{
    machine_assert_no_lock();
    hf_assert(current != NULL);
    current->wake_us = wake_us;
    leave(current);
}

void
fiber_sleep(int64_t us)
{
    wait_until(now_us + (us > 0 ? us : 0));
}

bool
fiber_wait(const void *channel, int64_t end_us)
{
    struct fiber *self = current;

    hf_assert(self != NULL);
    self->waits_for = channel;
    self->woken = false;
    wait_until(end_us);
    self->waits_for = NULL;
    return self->woken;
}

static void
wake(struct fiber *fiber)
{
    fiber->waits_for = NULL;
    fiber->woken = true;
    fiber->wake_us = now_us + chance_below(40);
}

void
fiber_wake_one(const void *channel)
{
    struct fiber *waiting[FIBERS_MAX];
    int count = 0;

    for (int i = 0; i < live_count; i++)
        if (live[i]->waits_for == channel)
            waiting[count++] = live[i];
    if (count > 0)
        wake(waiting[chance_below(count)]);
}

void
fiber_wake_all(const void *channel)
{
    for (int i = 0; i < live_count; i++)
        if (live[i]->waits_for == channel)
            wake(live[i]);
}
