/*
 * repair.c - the thread: watches Redis, rebuilds what isn't trusted, compares a sample.
 *
 * Redis or Postgres being away is normal life: what could not be done is done when they are back.
 * After a distrust all events are gone through; an event that was rebuilt is trusted and is not
 * rebuilt again, so a pass that broke off goes on where it was. A doubt names its event, so only
 * that one is. An event that can't be made equal keeps nobody waiting: it is tried again later.
 */
#include <stdio.h>
#include <stdlib.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "holdfast/thread.h"
#include "repair_internal.h"

#define WATCH_US      (1 * (int64_t)TIME_US_PER_S)
#define STEP_US       (20 * TIME_US_PER_MS)
#define EVENT_US      (60 * (int64_t)TIME_US_PER_S) /* far more than the largest event takes */
#define STATEMENT_US  (2 * (int64_t)TIME_US_PER_S)
#define RETRY_US      (3 * (int64_t)TIME_US_PER_S) /* what could not be made equal */
#define COMPARE_SHARE 5 /* comparing takes one part in so many of the time */
#define EVENTS_PAGE   100
#define STACK_BYTES   (256 * 1024)

struct repair {
    struct node *node;
    struct pg *pg;
    struct warm *warm;
    struct thread thread;
    _Atomic bool stopping;

    /* the thread's own */
    uint64_t generation;       /* of the tier, that `due` is about */
    bool busy_due;             /* the busy events come first, and didn't yet */
    struct warm_events due;    /* to be rebuilt where they aren't trusted */
    struct warm_events failed; /* could not be made equal: not before retry_due */
    struct mono_time watch_due, retry_due, compare_due;
    bool comparing;                /* a pass is under way */
    struct mono_time compare_next; /* it goes on then */
    struct repair_cursor sample;   /* how far it has come */
};

static bool
is_stopping(struct repair *repair)
{
    return atomic_load_explicit(&repair->stopping, memory_order_relaxed);
}

/* --- one event --------------------------------------------------------------------------- */

static void
count_report(const struct repair_report *report, bool was_trusted)
{
    metric_add(was_trusted ? METRIC_REPAIR_COMPARED_TOTAL : METRIC_REPAIR_REBUILT_TOTAL, 1);
    metric_add(METRIC_REPAIR_RESTORED_TOTAL, (uint64_t)report->restored);
    metric_add(METRIC_REPAIR_REMOVED_TOTAL, (uint64_t)report->removed);
    if (was_trusted)
        metric_add(METRIC_REPAIR_DRIFT_TOTAL, (uint64_t)report->differing);
    metric_observe(METRIC_REPAIR_SECONDS, (uint64_t)report->duration_us);
}

/* One line for each event that differed; `left` is what could not be mended. */
static void
log_report(const struct comparison *c, enum hf_status status)
{
    const struct repair_report *report = c->report;
    const char *event = status != HF_OK ? "warm_tier_half_mended"
                        : c->trusted    ? "warm_tier_drifted"
                                        : "warm_tier_rebuilt";

    if (report->restored == 0 && report->removed == 0 && report->differing == 0)
        return;
    LOG_EVENT(c->trusted || status != HF_OK || !report->equal ? LOG_WARN : LOG_INFO, event,
              log_slice("org", c->org), log_slice("event_id", c->event),
              log_int("differing", report->differing), log_int("restored", report->restored),
              log_int("removed", report->removed), log_int("left", status == HF_OK ? c->left : -1),
              log_int("us", report->duration_us));
}

static void
note_failed(struct repair *repair, struct slice org, struct slice event)
{
    if (repair->failed.count == 0 && !repair->failed.all)
        repair->retry_due.us = mono_now().us + RETRY_US;
    warm_events_add(&repair->failed, org, event);
}

/* Whether the others have a chance where one event failed. */
static bool
stores_are_there(struct repair *repair)
{
    return pg_is_connected(repair->pg) &&
           breaker_state(warm_tier_breaker(repair->node->tier)) == BREAKER_CLOSED;
}

/* False: a store is away, or it is to stop; the others have to wait. */
static bool
mend_event(struct repair *repair, struct slice org, struct slice event)
{
    struct repair_report report;
    struct comparison c = { .node = repair->node,
                            .pg = repair->pg,
                            .warm = repair->warm,
                            .org = org,
                            .event = event,
                            .mode = REPAIR_MEND,
                            .deadline = { mono_now().us + EVENT_US },
                            .stopping = &repair->stopping,
                            .report = &report };

    if (is_stopping(repair) || !pg_ready(repair->pg))
        return false;
    enum hf_status status = compare_event(&c);
    if (status == HF_EVENT_NOT_FOUND)
        return true;
    count_report(&report, c.trusted);
    log_report(&c, status);
    if (is_stopping(repair) || (status != HF_OK && !stores_are_there(repair)))
        return false;
    if (!report.equal)
        note_failed(repair, org, event);
    return true;
}

/* --- which events -------------------------------------------------------------------------- */

static void
cursor_set(struct repair_cursor *cursor, struct slice org, struct slice event)
{
    snprintf(cursor->org, sizeof(cursor->org), "%.*s", SLICE_ARG(org));
    snprintf(cursor->event, sizeof(cursor->event), "%.*s", SLICE_ARG(event));
}

struct pg_result *
repair_next_events(struct pg *pg, struct slice org, struct slice event,
                   struct repair_cursor *cursor, struct mono_time deadline)
{
    struct pg_params params;
    struct pg_result *rows = NULL;

    pg_params_init(&params);
    pg_param_text(&params, org);
    pg_param_text(&params, event);
    pg_param_text(&params, slice_of(cursor->org));
    pg_param_text(&params, slice_of(cursor->event));
    pg_param_int4(&params, EVENTS_PAGE);
    if (pg_run(pg, STATEMENT_WARM_EVENTS, &params, deadline, &rows) != PG_DONE)
        return NULL;
    int last = pg_rows(rows) - 1;
    if (last >= 0)
        cursor_set(cursor, pg_get_text(rows, last, 0), pg_get_text(rows, last, 1));
    return rows;
}

static struct mono_time
statement_deadline(void)
{
    return (struct mono_time){ mono_now().us + STATEMENT_US };
}

/* --- after a distrust or a doubt -------------------------------------------------------------- */

/* False: a store is away. */
static bool
rebuild_event(struct repair *repair, struct slice org, struct slice event)
{
    return warm_tier_is_rebuilt(repair->node->tier, org, event) ||
           warm_events_name(&repair->failed, org, event) || mend_event(repair, org, event);
}

static bool
rebuild_rows(struct repair *repair, const struct pg_result *rows)
{
    bool going = true;

    for (int row = 0; going && row < pg_rows(rows); row++)
        going = rebuild_event(repair, pg_get_text(rows, row, 0), pg_get_text(rows, row, 1));
    return going;
}

/* Last in, first out: what is left when it breaks off is still due. */
static bool
rebuild_named(struct repair *repair)
{
    bool going = true;

    while (going && repair->due.count > 0) {
        const struct warm_event *name = &repair->due.event[repair->due.count - 1];
        going = rebuild_event(repair, slice_of(name->org), slice_of(name->event));
        repair->due.count -= going;
    }
    return going;
}

static bool
rebuild_busy_events(struct repair *repair)
{
    struct pg_result *rows = NULL;

    if (!pg_ready(repair->pg) || pg_run_text(repair->pg, pg_report_text(REPORT_WARM_BUSY_EVENTS), 0,
                                             NULL, statement_deadline(), &rows) != PG_DONE)
        return false;
    bool done = rebuild_rows(repair, rows);
    pg_result_free(&rows);
    return done;
}

static bool
rebuild_others(struct repair *repair)
{
    struct repair_cursor cursor = { "", "" };
    bool going = true, more = true;

    while (going && more) {
        struct pg_result *rows = pg_ready(repair->pg)
                                     ? repair_next_events(repair->pg, SLICE_EMPTY, SLICE_EMPTY,
                                                          &cursor, statement_deadline())
                                     : NULL;
        going = rows != NULL && rebuild_rows(repair, rows);
        more = rows != NULL && pg_rows(rows) > 0;
        pg_result_free(&rows);
    }
    return going;
}

/* Everything is void: what failed may work now. */
static void
note_generation(struct repair *repair)
{
    uint64_t generation = warm_tier_generation(repair->node->tier);

    if (generation == repair->generation)
        return;
    repair->generation = generation;
    repair->busy_due = true;
    repair->due = (struct warm_events){ .all = true };
    repair->failed = (struct warm_events){ 0 };
}

/* What failed is due again; where more did than have names, all that isn't trusted is. */
static void
note_retries(struct repair *repair)
{
    if (mono_now().us < repair->retry_due.us)
        return;
    warm_events_add_all(&repair->due, &repair->failed);
    repair->failed = (struct warm_events){ 0 };
}

static void
rebuild(struct repair *repair)
{
    note_generation(repair);
    note_retries(repair);
    warm_tier_take_doubted(repair->node->tier, &repair->due);
    if (!repair->due.all) {
        (void)rebuild_named(repair);
        return;
    }
    if (repair->busy_due)
        repair->busy_due = !rebuild_busy_events(repair);
    if (!repair->busy_due)
        repair->due.all = !rebuild_others(repair);
}

/* --- the sample ----------------------------------------------------------------------------------
 */

/* True: all of these were compared, and there is time left. */
static bool
compare_rows(struct repair *repair, const struct pg_result *rows, struct mono_time end)
{
    for (int row = 0; row < pg_rows(rows); row++) {
        struct slice org = pg_get_text(rows, row, 0), event = pg_get_text(rows, row, 1);
        if (mono_now().us >= end.us || !mend_event(repair, org, event))
            return false;
        cursor_set(&repair->sample, org, event);
    }
    return true;
}

/* Goes on with the pass from where the sample is. True: there are no more events. */
static bool
compare_some(struct repair *repair, struct mono_time end)
{
    bool going = true, last = false;

    while (going && !last && pg_ready(repair->pg)) {
        struct repair_cursor next = repair->sample;
        struct pg_result *rows =
            repair_next_events(repair->pg, SLICE_EMPTY, SLICE_EMPTY, &next, statement_deadline());
        if (rows == NULL)
            return false;
        last = pg_rows(rows) == 0;
        going = compare_rows(repair, rows, end);
        pg_result_free(&rows);
    }
    return last;
}

/*
 * A pass through all events, a little in each turn: whoever sells shares the cores with it. What
 * one large event took beyond its share is waited for before the next.
 */
static void
compare(struct repair *repair)
{
    struct mono_time began = mono_now();

    if (began.us < repair->compare_next.us)
        return;
    if (compare_some(repair, (struct mono_time){ began.us + WATCH_US / COMPARE_SHARE })) {
        repair->sample = (struct repair_cursor){ "", "" };
        repair->comparing = false;
    }
    struct mono_time now = mono_now();
    repair->compare_next.us = now.us + (now.us - began.us) * (COMPARE_SHARE - 1);
}

/* --- the thread --------------------------------------------------------------------------------
 */

static void
turn(struct repair *repair)
{
    if (!mono_is_due(&repair->watch_due, WATCH_US) || !warm_watch(repair->warm))
        return;
    rebuild(repair);
    if (mono_is_due(&repair->compare_due, repair->node->config->repair_interval))
        repair->comparing = true;
    if (repair->comparing)
        compare(repair);
}

static void *
repair_main(void *argument)
{
    struct repair *repair = argument;

    while (!is_stopping(repair)) {
        turn(repair);
        sleep_us(STEP_US);
    }
    return NULL;
}

static void
repair_free(struct repair *repair)
{
    if (repair->pg != NULL)
        pg_free(&repair->pg);
    warm_free(&repair->warm);
    free(repair);
}

struct repair *
repair_start(struct node *node)
{
    struct repair *repair = calloc(1, sizeof(*repair));

    if (repair == NULL)
        return NULL;
    repair->node = node;
    repair->compare_due.us = mono_now().us + node->config->repair_interval;
    repair->pg = pg_new(node->config, "holdfast repair", node->identity, node->clock);
    repair->warm = warm_new(node->config, node->tier);
    if (repair->pg == NULL || repair->warm == NULL ||
        (warm_tier_is_on(node->tier) &&
         !thread_start(&repair->thread, STACK_BYTES, repair_main, repair))) {
        repair_free(repair);
        return NULL;
    }
    return repair;
}

void
repair_stop(struct repair **repair)
{
    if (*repair == NULL)
        return;
    atomic_store(&(*repair)->stopping, true);
    thread_join(&(*repair)->thread);
    repair_free(*repair);
    *repair = NULL;
}
