/*
 * simulation.c - runs seeds, each in a process of its own, and tells which of them found something.
 *
 *   holdfast_simulation [--seeds N] [--from SEED] [--jobs N] [--minutes M] [--digests] [--go-on]
 *   holdfast_simulation --seed S [--trace]
 *   holdfast_simulation --repeatable N      each of N seeds gives the same digest twice
 *
 * Exit status: 0, 1 (a seed found a violation; it was printed with the last of its trace), 2
 * (usage).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clients.h"
#include "faults.h"
#include "holdfast/fanout.h"
#include "holdfast/log.h"
#include "node.h"
#include "oracle.h"
#include "sim.h"
#include "store.h"

#define JOBS_MAX        16
#define REAL_LIMIT_S    120 /* a seed that takes longer than this hangs */
#define START_LIMIT_US  (60 * S)
#define END_LIMIT_US    (10 * S)
#define REST_US         (300 * MS)
#define CALM_LATE_US    (600 * MS)
#define REPEATS_LATE_US (4 * S)
#define REAPER_SPARE_US (2500 * MS)
#define SEEDS_TELL      20 /* fewer may happen to have one node each */
#define TRUST_LATE_US   (5 * S)

/* --- one seed ------------------------------------------------------------- */

static bool calm, repeats, ending;
static int64_t busy_us;

static void
draw_store(void)
{
    store.seat_count = (int)chance_between(3, SEATS_MAX);
    store.identity = 1;
    store.event_version = 1;
    store.event_status = EVENT_ON_SALE;
    store.clock_offset_us = chance_between(-3600 * S, 3600 * S);
    store.clock_drift_ppm = chance_between(-60, 60);
    store.policy = (struct policy){ .hold_ttl_s = (int32_t)chance_between(1, 4),
                                    .extend_by_s = (int32_t)chance_between(1, 3),
                                    .max_hold_s = (int32_t)chance_between(4, 8),
                                    .max_seats_per_hold = (int32_t)chance_between(2, 3),
                                    .max_seats_per_user = chance_one_in(4) ? 3 : 0,
                                    .one_hold_per_user = chance_one_in(6),
                                    .one_seat_per_user = chance_one_in(3),
                                    .no_single_seat_gap = chance_one_in(2) };
    for (int i = 0; i < store.seat_count; i++) {
        struct seat_row *row = &store.seats[i];
        snprintf(row->id, sizeof(row->id), "A%d", i + 1);
        if (i > 0)
            row->line = row[-1].line + chance_one_in(5);
        row->aisle_after = chance_one_in(8);
        row->is.version = 1;
        store.histories[i].pasts = calloc(1, sizeof(struct past));
        store.histories[i].pasts[0] = (struct past){ .state = row->is };
        store.histories[i].count = store.histories[i].capacity = 1;
    }
}

/* Keeps a node up: starts it again some time after it ended. */
static void *
supervise(void *argument)
{
    struct sim_node *node = argument;

    for (;;) {
        fiber_sleep(chance_between(20 * MS, 400 * MS));
        if (node->phase == NODE_FAILED)
            node_crash(node);
        if (node->phase == NODE_DOWN && !ending)
            node_start(node);
    }
    return NULL;
}

static void
await_nodes(enum node_phase phase, int64_t limit_us)
{
    int64_t end_us = sim_now_us() + limit_us;

    while (!nodes_are(phase)) {
        if (sim_now_us() > end_us)
            violation("not all nodes %s", phase == NODE_UP ? "come up" : "end");
        fiber_sleep(10 * MS);
    }
}

/* How late a hold's end may be. In a calm seed the wheels alone have to see to it. */
static int64_t
late_us(void)
{
    if (calm)
        return CALM_LATE_US + (repeats ? REPEATS_LATE_US : 0);
    return sim_config.reaper_interval_ms * MS + REAPER_SPARE_US;
}

static bool
all_trusted(void)
{
    for (int i = 0; i < sim_node_count; i++)
        if (!fanout_is_trusted(sim_nodes[i].node.fanout))
            return false;
    return true;
}

/* Who can hear each other trust each other again. */
static void
await_trust(void)
{
    int64_t end_us = sim_now_us() + TRUST_LATE_US;

    while ((sim_redis || sim_node_count == 1) && !all_trusted()) {
        if (sim_now_us() > end_us)
            violation("not all nodes are trusted again");
        fiber_sleep(10 * MS);
    }
}

static void
check_breaker(const struct sim_node *node)
{
    if (node->node.tier != NULL &&
        breaker_state(warm_tier_breaker(node->node.tier)) == BREAKER_OPEN)
        violation("the breaker of %s stays open", node->node.id);
}

static void
come_to_rest(void)
{
    clients_stop();
    while (clients_alive() > 0)
        fiber_sleep(10 * MS);
    await_nodes(NODE_UP, START_LIMIT_US);
    clients_settle_payments();
    oracle_payments();
    for (int i = 0; i < sim_node_count; i++)
        fiber_sleep(sim_nodes[i].still_until_us - sim_now_us());
    fiber_sleep(store.policy.max_hold_s * S + late_us());
    await_nodes(NODE_UP, START_LIMIT_US);
    await_trust();
    for (int i = 0; i < sim_node_count; i++)
        oracle_quiet(&sim_nodes[i], late_us());
    oracle_at_rest(true);
    fiber_sleep(REST_US);
    oracle_at_rest(false);
    clients_take_all();
    ending = true;
    for (int i = 0; i < sim_node_count; i++) {
        check_breaker(&sim_nodes[i]);
        node_drain(&sim_nodes[i]);
    }
    await_nodes(NODE_DOWN, END_LIMIT_US);
}

static void *
story(void *argument)
{
    (void)argument;
    for (int i = 0; i < sim_node_count; i++)
        fiber_start("supervisor", GROUP_WORLD, 0, supervise, &sim_nodes[i]);
    await_nodes(NODE_UP, START_LIMIT_US);
    chaos_start();
    clients_start((int)chance_between(2, 8));
    fiber_sleep(busy_us);
    faults_end();
    come_to_rest();
    fibers_stop();
    return NULL;
}

struct result {
    uint64_t digest;
    struct client_counts counts;
};

static struct result
play(uint64_t seed, bool aloud)
{
    chance_seed(seed);
    trace_start(seed, aloud);
    log_init((enum log_level)(LOG_ERROR + 1), "n1"); /* the trace tells */
    alarm(REAL_LIMIT_S);
    calm = chance_one_in(8);
    busy_us = chance_between(4, 12) * S;
    int nodes = (int)chance_between(1, MACHINES);
    faults_draw(nodes, calm);
    repeats = faults.repeat_one_in > 0;
    draw_store();
    machines_draw();
    sim_redis = !chance_one_in(4);
    nodes_configure(nodes, calm);
    oracle_begin(calm);
    trace("seed %" PRIu64 "%s: %d nodes%s, %d seats%s, ttl %d s, a user may have %d%s, %d workers",
          seed, calm ? " (calm)" : "", nodes, sim_redis ? "" : " without Redis", store.seat_count,
          store.policy.no_single_seat_gap ? " of which none is left alone" : "",
          (int)store.policy.hold_ttl_s, (int)store.policy.max_seats_per_user,
          store.policy.one_hold_per_user   ? " in one hold"
          : store.policy.one_seat_per_user ? " and buys one"
                                           : "",
          (int)sim_config.workers);
    fiber_start("story", GROUP_WORLD, 0, story, NULL);
    fibers_run();
    return (struct result){ trace_digest(), client_counts };
}

/* --- many seeds ----------------------------------------------------------- */

struct job {
    pid_t pid; /* 0: none */
    int pipe;
    uint64_t seed;
};

static struct options {
    uint64_t seeds, from, seed, repeatable;
    int64_t minutes;
    int jobs;
    bool one, aloud, digests, go_on;
} options = { .seeds = 1000, .from = 1, .jobs = 2 };

static struct client_counts sum;
static uint64_t played, failed;

/* Heap and stacks lie elsewhere than in the parent's other children: no address may count. */
static void
shift_addresses(void)
{
    static void *kept;

    kept = malloc(123456);
    hf_assert(kept != NULL &&
              mmap(NULL, 3 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

static struct job
job_start(uint64_t seed, bool shifted)
{
    int ends[2];

    hf_must(pipe(ends));
    fflush(stdout);
    pid_t pid = fork();
    hf_assert(pid >= 0);
    if (pid == 0) {
        if (shifted)
            shift_addresses();
        struct result result = play(seed, false);
        bool told = write(ends[1], &result, sizeof(result)) == (ssize_t)sizeof(result);
        _exit(told ? 0 : 1);
    }
    close(ends[1]);
    return (struct job){ pid, ends[0], seed };
}

static void
add_up(const struct client_counts *counts)
{
    const uint64_t *from = (const uint64_t *)counts;
    uint64_t *to = (uint64_t *)&sum;

    for (size_t i = 0; i < sizeof(sum) / sizeof(*to); i++)
        to[i] += from[i];
}

/* True: it found nothing. */
static bool
job_end(struct job *job, struct result *result)
{
    int status;

    bool told = read(job->pipe, result, sizeof(*result)) == (ssize_t)sizeof(*result);
    close(job->pipe);
    while (waitpid(job->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    job->pid = 0;
    played++;
    if (!told || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        failed++;
        fprintf(stderr, "seed %" PRIu64 " failed\n", job->seed);
        return false;
    }
    add_up(&result->counts);
    if (options.digests)
        printf("%" PRIu64 " %016" PRIx64 "\n", job->seed, result->digest);
    return true;
}

/* Seeds in their order, `jobs` at a time; the first that fails ends it, unless told to go on. */
static bool
play_many(time_t end)
{
    struct job jobs[JOBS_MAX] = { { 0 } };
    struct result result;

    for (uint64_t i = 0; i < options.seeds && (end == 0 || time(NULL) < end); i++) {
        struct job *job = &jobs[i % (uint64_t)options.jobs];
        if (job->pid != 0 && !job_end(job, &result) && !options.go_on)
            break;
        *job = job_start(options.from + i, false);
    }
    for (int i = 0; i < options.jobs; i++)
        if (jobs[i].pid != 0)
            (void)job_end(&jobs[i], &result);
    return failed == 0;
}

static bool
play_twice(uint64_t seed)
{
    struct result first = { 0 }, second = { 0 };
    struct job one = job_start(seed, false), other = job_start(seed, true);
    bool good = job_end(&one, &first);

    good = job_end(&other, &second) && good;
    if (good && first.digest != second.digest) {
        fprintf(stderr, "seed %" PRIu64 " went two ways: %016" PRIx64 " and %016" PRIx64 "\n", seed,
                first.digest, second.digest);
        return false;
    }
    return good;
}

static void
say_sum(double seconds)
{
    printf("%" PRIu64 " seeds in %.1f s, %" PRIu64 " failed; %" PRIu64 " requests: %" PRIu64
           " created, %" PRIu64 " done, %" PRIu64 " refused from memory (%" PRIu64
           " seats of them in trust beside other nodes, %" PRIu64
           " that another one took), %" PRIu64 " refused, %" PRIu64 " unavailable, %" PRIu64
           " outcome unknown, %" PRIu64 " lost with a node; %" PRIu64 " checkouts, %" PRIu64
           " payments; %" PRIu64 " would have left a seat alone; %" PRIu64
           " seats returned, %" PRIu64 " replaced\n",
           played, seconds, failed, sum.asked, sum.created, sum.done, sum.refused_hot,
           sum.refused_trusted, sum.refused_by_news, sum.refused, sum.unavailable, sum.unknown,
           sum.lost, sum.checkouts, sum.payments, sum.lonely, sum.returned, sum.replaced);
}

/* Nodes that never trust each other are never wrong about each other; a rule that refuses nothing
 * is never broken. */
static bool
proves_something(void)
{
    if (sum.lonely == 0) {
        fprintf(stderr, "no choice would have left a seat alone: nothing is proved\n");
        return false;
    }
    if (sum.returned == 0 || sum.replaced == 0) {
        fprintf(stderr, "nothing was given back: nothing is proved\n");
        return false;
    }
    if (sum.refused_trusted > 0 && sum.refused_by_news > 0)
        return true;
    fprintf(stderr,
            "no node refused anything in trust in what another one told: nothing is proved\n");
    return false;
}

/* --- the command line ----------------------------------------------------- */

static int
usage(void)
{
    fprintf(stderr, "usage: holdfast_simulation [--seeds N] [--from SEED] [--jobs N] [--minutes M] "
                    "[--digests] [--go-on]\n"
                    "       holdfast_simulation --seed S [--trace]\n"
                    "       holdfast_simulation --repeatable N\n");
    return 2;
}

static bool
take_option(const char *name, const char *value)
{
    uint64_t number = value != NULL ? strtoull(value, NULL, 10) : 0;

    if (value == NULL)
        return false;
    if (strcmp(name, "--seeds") == 0)
        options.seeds = number;
    else if (strcmp(name, "--from") == 0)
        options.from = number;
    else if (strcmp(name, "--seed") == 0)
        options.seed = number, options.one = true;
    else if (strcmp(name, "--repeatable") == 0)
        options.repeatable = number;
    else if (strcmp(name, "--minutes") == 0)
        options.minutes = (int64_t)number, options.seeds = UINT64_MAX;
    else if (strcmp(name, "--jobs") == 0 && number > 0 && number <= JOBS_MAX)
        options.jobs = (int)number;
    else
        return false;
    return true;
}

static bool
take_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0)
            options.aloud = true;
        else if (strcmp(argv[i], "--digests") == 0)
            options.digests = true;
        else if (strcmp(argv[i], "--go-on") == 0)
            options.go_on = true;
        else if (!take_option(argv[i], argv[i + 1]))
            return false;
        else
            i++;
    }
    return true;
}

int
main(int argc, char **argv)
{
    struct timespec began, ended;
    bool good = true;

    if (!take_options(argc, argv))
        return usage();
    if (options.one) {
        struct result result = play(options.seed, options.aloud);
        printf("seed %" PRIu64 ": nothing found, digest %016" PRIx64 "\n", options.seed,
               result.digest);
        fflush(stdout);
        _exit(0); /* what killed nodes left in memory is nobody's leak */
    }
    clock_gettime(CLOCK_MONOTONIC, &began);
    if (options.repeatable > 0) {
        for (uint64_t i = 0; good && i < options.repeatable; i++)
            good = play_twice(options.from + i);
    } else {
        good = play_many(options.minutes > 0 ? time(NULL) + 60 * options.minutes : 0) &&
               (played < SEEDS_TELL || proves_something());
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    say_sum((double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9);
    return good ? 0 : 1;
}
