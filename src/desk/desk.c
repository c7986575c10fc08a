/*
 * desk.c - a bounded queue in front of a few threads, each with its own connections.
 *
 * A job counts as outstanding from desk_submit until its run or fail has returned,
 * so a desk without outstanding jobs has answered everything.
 *
 * A thread with nothing to do looks after its connection, so that the next job finds one. A job
 * waits for a connection neither long nor past its deadline: a try that failed is followed by a
 * pause, in which all that wait are told at once. And since all threads may be busy with jobs that
 * take long or hang, a watch answers those that wait until their time is up, and all of them while
 * the engine knows that Postgres is away.
 *
 * Long jobs wait in a queue of their own. They go first, but never onto the last thread: so neither
 * kind waits for the other for long. A job that isn't to run yet waits in a third one, from which
 * the watch moves it.
 */
#include "holdfast/desk.h"

#include <stdlib.h>

#include "holdfast/assert.h"
#include "holdfast/lock.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "holdfast/thread.h"

#define DESK_STACK_BYTES (1024 * 1024) /* handlers keep lines of CSV and SQL on it */
#define WATCH_US         (20 * TIME_US_PER_MS)
#define REPLAN_US        (10 * (int64_t)TIME_US_PER_S)
#define IDLE_LOOK_US     (500 * TIME_US_PER_MS) /* how often an idle connection is looked at */
#define LEAST_US         (20 * TIME_US_PER_MS) /* a statement that is cut off costs its connection */
#define CONNECT_US       (1 * (int64_t)TIME_US_PER_S)

struct desk_thread {
    struct desk *desk;
    struct thread thread;
    struct mono_time replan_at; /* the thread's own */
    struct desk_tools tools;
};

struct job_queue {
    struct desk_job *first, **last;
};

struct desk {
    /* fixed after start */
    int64_t queue_max;
    struct node *node;
    int thread_count;
    struct desk_thread *threads;
    struct thread watch;
    struct desk_tools watch_tools; /* without Postgres */

    /* guarded by lock */
    struct lock lock;           /* rank QUEUE */
    pthread_cond_t work;        /* something waits, or it is over */
    pthread_cond_t idle;        /* nothing is outstanding */
    struct job_queue queues[2]; /* by is_long */
    struct job_queue later;     /* not to run yet */
    int64_t waiting;
    int64_t outstanding; /* waiting, or running */
    int long_running;
    bool stopping; /* what still waits is answered with fail, then the threads end */
};

/* --- the queue --------------------------------------------------------- */

static void
queue_init(struct job_queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}

/* Unlinks *link, a job of the queue or NULL, and returns it. */
static struct desk_job *
unlink_locked(struct desk *desk, struct job_queue *queue, struct desk_job **link)
{
    struct desk_job *job = *link;
    if (job == NULL)
        return NULL;
    *link = job->next;
    if (*link == NULL)
        queue->last = link;
    job->next = NULL;
    metric_set(METRIC_DESK_DEPTH, --desk->waiting);
    return job;
}

static void
append_locked(struct job_queue *queue, struct desk_job *job)
{
    job->next = NULL;
    *queue->last = job;
    queue->last = &job->next;
}

/* Those whose time has come by `now` are to run. */
static void
move_due_locked(struct desk *desk, struct mono_time now)
{
    struct job_queue later = desk->later;
    struct desk_job *job, *next;

    queue_init(&desk->later);
    for (job = later.first; job != NULL; job = next) {
        bool is_due = job->not_before.us <= now.us;
        next = job->next;
        append_locked(is_due ? &desk->queues[job->is_long] : &desk->later, job);
        if (is_due)
            pthread_cond_signal(&desk->work);
    }
}

/* A job that may run now, or that is only to be refused; NULL: there is none. */
static struct desk_job *
pop_locked(struct desk *desk)
{
    bool may_be_long = desk->stopping || desk->long_running < desk->thread_count - 1;
    bool is_long = may_be_long && desk->queues[true].first != NULL;
    struct job_queue *queue = &desk->queues[is_long];
    struct desk_job *job = unlink_locked(desk, queue, &queue->first);
    if (job != NULL && is_long)
        desk->long_running++;
    return job;
}

/* The next job; NULL: none came for a while, or the thread's end. *stopping: none may run. */
static struct desk_job *
take(struct desk *desk, bool *stopping)
{
    struct mono_time until = { mono_now().us + IDLE_LOOK_US };
    struct desk_job *job;
    lock_take(&desk->lock);
    while ((job = pop_locked(desk)) == NULL && !desk->stopping) {
        int64_t left_us = until.us - mono_now().us;
        if (left_us <= 0)
            break;
        lock_wait(&desk->lock, &desk->work, (long)left_us);
    }
    *stopping = desk->stopping;
    lock_drop(&desk->lock);
    return job;
}

/* was_long: it was taken as a long one, to run. */
static void
job_is_done(struct desk *desk, bool was_long)
{
    lock_take(&desk->lock);
    hf_assert(desk->outstanding > 0 && desk->long_running >= was_long);
    desk->long_running -= was_long;
    if (--desk->outstanding == 0)
        pthread_cond_broadcast(&desk->idle);
    lock_drop(&desk->lock);
}

bool
desk_submit(struct desk *desk, struct desk_job *job)
{
    lock_take(&desk->lock);
    bool room = desk->waiting < desk->queue_max && !desk->stopping;
    if (room) {
        bool may_run = job->not_before.us <= mono_now().us;
        append_locked(may_run ? &desk->queues[job->is_long] : &desk->later, job);
        desk->outstanding++;
        metric_set(METRIC_DESK_DEPTH, ++desk->waiting);
        pthread_cond_signal(&desk->work);
    }
    lock_drop(&desk->lock);
    if (!room)
        metric_add(METRIC_OVERLOADED_TOTAL, 1);
    return room;
}

int64_t
desk_outstanding(struct desk *desk)
{
    lock_take(&desk->lock);
    int64_t outstanding = desk->outstanding;
    lock_drop(&desk->lock);
    return outstanding;
}

/* --- the threads ------------------------------------------------------- */

/* Plans made while tables were small are ruinous when they have grown. */
static void
replan_when_due(struct desk_thread *self)
{
    struct mono_time now = mono_now();

    if (now.us < self->replan_at.us || !pg_is_connected(self->tools.pg))
        return;
    self->replan_at.us = now.us + REPLAN_US;
    if (pg_replan(self->tools.pg) != PG_DONE)
        LOG_EVENT(LOG_DEBUG, "replan_failed", log_text("error", pg_last_error(self->tools.pg)));
}

static bool
store_is_ready(struct desk_thread *self, struct mono_time deadline)
{
    struct mono_time enough = { mono_now().us + CONNECT_US };
    return pg_ready_until(self->tools.pg, enough.us < deadline.us ? enough : deadline);
}

static void
do_job(struct desk_thread *self, struct desk_job *job, bool stopping)
{
    bool is_late = mono_now().us + LEAST_US >= job->deadline.us;
    bool is_up = engine_store_is_up(self->tools.node->engine);
    /* A statement before it that hung until it was too late has cost the connection. */
    if (stopping || (is_late && is_up && pg_is_connected(self->tools.pg)))
        job->fail(job, &self->tools, HF_OVERLOADED);
    else if (is_late || !is_up || !store_is_ready(self, job->deadline))
        job->fail(job, &self->tools, HF_STORE_UNAVAILABLE);
    else
        job->run(job, &self->tools);
}

/* Connecting takes longer than a read should: it is done while nobody waits for it. */
static void
keep_connected(struct desk_thread *self)
{
    if (pg_ready_until(self->tools.pg, (struct mono_time){ mono_now().us + CONNECT_US }))
        replan_when_due(self);
}

static void *
desk_main(void *argument)
{
    struct desk_thread *self = argument;
    bool stopping = false;

    keep_connected(self);
    while (!stopping) {
        struct desk_job *job;
        while ((job = take(self->desk, &stopping)) != NULL) {
            bool was_long = job->is_long;
            do_job(self, job, stopping);
            job_is_done(self->desk, was_long);
            replan_when_due(self);
        }
        if (!stopping)
            keep_connected(self);
    }
    return NULL;
}

/* --- the watch --------------------------------------------------------- */

/* A job of the queue whose time is up by `up_to`; NULL: there is none. */
static struct desk_job *
take_late_locked(struct desk *desk, struct job_queue *queue, struct mono_time up_to)
{
    struct desk_job **link = &queue->first;
    while (*link != NULL && (*link)->deadline.us > up_to.us)
        link = &(*link)->next;
    return unlink_locked(desk, queue, link);
}

static struct desk_job *
take_late(struct desk *desk, struct mono_time up_to)
{
    lock_take(&desk->lock);
    struct desk_job *job = take_late_locked(desk, &desk->queues[false], up_to);
    if (job == NULL)
        job = take_late_locked(desk, &desk->queues[true], up_to);
    if (job == NULL)
        job = take_late_locked(desk, &desk->later, up_to);
    lock_drop(&desk->lock);
    return job;
}

/* Those whose time is up before the watch looks again; where the store is away, all of them. */
static void
answer_late(struct desk *desk)
{
    bool is_up = engine_store_is_up(desk->node->engine);
    struct mono_time up_to = { is_up ? mono_now().us + WATCH_US : INT64_MAX };
    struct desk_job *job;
    while ((job = take_late(desk, up_to)) != NULL) {
        job->fail(job, &desk->watch_tools, is_up ? HF_OVERLOADED : HF_STORE_UNAVAILABLE);
        job_is_done(desk, false);
    }
}

static void *
desk_watch_main(void *argument)
{
    struct desk *desk = argument;
    bool stopping = false;

    while (!stopping) {
        answer_late(desk);
        sleep_us(WATCH_US);
        lock_take(&desk->lock);
        move_due_locked(desk, mono_now());
        stopping = desk->stopping;
        lock_drop(&desk->lock);
    }
    return NULL;
}

/* --- start and stop ------------------------------------------------------ */

static bool
desk_thread_start(struct desk_thread *self, struct node *node, struct desk *desk)
{
    self->desk = desk;
    self->tools.node = node;
    self->tools.pg = pg_new(node->config, "holdfast desk", node->identity, node->clock);
    self->tools.warm = warm_new(node->config, node->tier);
    if (self->tools.pg == NULL || self->tools.warm == NULL)
        return false;
    return thread_start(&self->thread, DESK_STACK_BYTES, desk_main, self);
}

static void
desk_thread_stop(struct desk_thread *self)
{
    thread_join(&self->thread);
    if (self->tools.warm != NULL)
        warm_free(&self->tools.warm);
    if (self->tools.pg != NULL)
        pg_free(&self->tools.pg);
}

static bool
watch_start(struct desk *desk)
{
    desk->watch_tools.node = desk->node;
    desk->watch_tools.warm = warm_new(desk->node->config, desk->node->tier);
    return desk->watch_tools.warm != NULL &&
           thread_start(&desk->watch, DESK_STACK_BYTES, desk_watch_main, desk);
}

static void
tell_to_stop(struct desk *desk)
{
    lock_take(&desk->lock);
    desk->stopping = true;
    move_due_locked(desk, (struct mono_time){ INT64_MAX });
    pthread_cond_broadcast(&desk->work);
    lock_drop(&desk->lock);
}

static void
wait_until_idle(struct desk *desk, struct mono_time deadline)
{
    lock_take(&desk->lock);
    for (;;) {
        int64_t left_us = deadline.us - mono_now().us;
        if (desk->outstanding == 0 || left_us <= 0)
            break;
        lock_wait(&desk->lock, &desk->idle, (long)left_us);
    }
    lock_drop(&desk->lock);
}

static void
desk_free(struct desk *desk)
{
    tell_to_stop(desk);
    thread_join(&desk->watch);
    if (desk->watch_tools.warm != NULL)
        warm_free(&desk->watch_tools.warm);
    for (int i = 0; i < desk->thread_count; i++)
        desk_thread_stop(&desk->threads[i]);
    hf_assert(desk->waiting == 0 && desk->outstanding == 0);
    pthread_cond_destroy(&desk->idle);
    pthread_cond_destroy(&desk->work);
    lock_fini(&desk->lock);
    free(desk->threads);
    free(desk);
}

struct desk *
desk_start(struct node *node)
{
    int count = (int)node->config->desks;
    struct desk *desk = calloc(1, sizeof(*desk));
    struct desk_thread *threads = calloc((size_t)count, sizeof(*threads));
    if (desk == NULL || threads == NULL) {
        free(desk);
        free(threads);
        return NULL;
    }
    desk->node = node;
    desk->queue_max = node->config->desk_queue_max;
    desk->thread_count = count;
    desk->threads = threads;
    queue_init(&desk->queues[false]);
    queue_init(&desk->queues[true]);
    queue_init(&desk->later);
    lock_init(&desk->lock, LOCK_QUEUE);
    lock_cond_init(&desk->work);
    lock_cond_init(&desk->idle);
    bool ready = watch_start(desk);
    for (int i = 0; ready && i < count; i++)
        ready = desk_thread_start(&threads[i], node, desk);
    if (!ready) {
        desk_free(desk);
        return NULL;
    }
    return desk;
}

void
desk_stop(struct desk **desk, struct mono_time deadline)
{
    if (*desk == NULL)
        return;
    wait_until_idle(*desk, deadline);
    desk_free(*desk);
    *desk = NULL;
}
