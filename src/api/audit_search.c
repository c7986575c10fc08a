/*
 * audit_search.c - looks for audit entries in stretches of time, the newest first.
 *
 * The indexes say which blocks may have what fits, not in which order (0005_audit.sql); and what
 * is asked for may be rare, common, or have been common once. So:
 *
 *   a window     is looked at up to LOOK_MAX rows that fit. Fewer: these are all, in order. Else it
 *                is thick, and its newer half comes first.
 *   the first    has an event's newest ROWS_FIRST, or the organization's newest second. If
 * something of that fits, wider ones follow; if not, all that is left, which is quick for what is
 * rare.
 *
 * All in one snapshot, so that no entry is given twice or left out between two windows. A page that
 * has more windows than parts is cut short; the next one goes on behind it.
 */
#include "audit_search.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "holdfast/clock.h"

#define LOOK_MAX         200000
#define ROWS_FIRST       5000
#define WINDOW_FIRST_US  (10 * (int64_t)TIME_US_PER_S)
#define WINDOW_ENOUGH_US (600 * (int64_t)TIME_US_PER_S) /* what isn't in it counts as rare */
#define WIDEN_MAX        64
#define WINDOW_LEAST_US                                                                            \
    TIME_US_PER_MS /* all that a narrower one holds is sorted: one import's rows, say */
#define WINDOW_ALL_US INT64_MAX
#define NOTHING_THICK INT64_MIN
#define NUMBER_BYTES  40

struct search {
    struct pg *pg;
    const struct audit_question *question;
    struct mono_time deadline;
    struct audit_found *found;
    struct audit_place before; /* what is newer has been looked at */
    int64_t from_us;           /* where the window begins that is looked at */
    int64_t window_us;         /* how wide it may be */
    int64_t thick_us;          /* something fits here, and perhaps much until `before` */
    int64_t empty_us;          /* the newer end of the first window: nothing is there */
    bool was_empty;            /* the last window */
    bool tried_all;            /* a window had all that is left */
};

/* Text parameters end with a NUL. */
enum {
    P_ORG,
    P_EVENT,
    P_SEAT,
    P_HOLD,
    P_USER,
    P_ACTION,
    P_FROM,
    P_UNTIL,
    P_ID,
    P_LOOK,
    P_LIMIT,
    P_COUNT
};

struct find_params {
    const char *values[P_COUNT];
    char texts[P_ACTION + 1][ID_BYTES_MAX + 1];
    char numbers[P_COUNT - P_FROM][NUMBER_BYTES];
};

static void
set_text(struct find_params *params, int at, struct slice text)
{
    hf_assert(text.len <= ID_BYTES_MAX);
    snprintf(params->texts[at], sizeof(params->texts[at]), "%.*s", SLICE_ARG(text));
    params->values[at] = text.len > 0 ? params->texts[at] : NULL;
}

/* Times as constants of the plan: so months out of the window aren't even planned for. */
static void
set_time(struct find_params *params, int at, int64_t us)
{
    time_t seconds = us / TIME_US_PER_S;
    struct tm parts;
    char text[sizeof("2026-01-31 12:34:56")] = "";

    gmtime_r(&seconds, &parts);
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(params->numbers[at - P_FROM], NUMBER_BYTES, "%s.%06u+00", text,
             (unsigned)(us % TIME_US_PER_S));
    params->values[at] = params->numbers[at - P_FROM];
}

static void
set_number(struct find_params *params, int at, int64_t number)
{
    snprintf(params->numbers[at - P_FROM], NUMBER_BYTES, "%" PRId64, number);
    params->values[at] = params->numbers[at - P_FROM];
}

/* One more than is wanted tells whether there is more. */
static int
still_wanted(const struct search *search)
{
    return search->question->limit + 1 - search->found->count;
}

static void
fill_params(const struct search *search, struct find_params *params)
{
    const struct audit_question *q = search->question;

    set_text(params, P_ORG, q->org);
    set_text(params, P_EVENT, q->event);
    set_text(params, P_SEAT, q->seat);
    set_text(params, P_HOLD, q->hold);
    set_text(params, P_USER, q->user);
    set_text(params, P_ACTION, q->action);
    set_time(params, P_FROM, search->from_us);
    set_time(params, P_UNTIL, search->before.at_us);
    set_number(params, P_ID, search->before.id);
    set_number(params, P_LOOK, LOOK_MAX);
    if (search->before.at_us - search->from_us <= WINDOW_LEAST_US)
        params->values[P_LOOK] = NULL;
    set_number(params, P_LIMIT, still_wanted(search));
}

static void
keep(struct search *search, struct pg_result **rows)
{
    struct audit_found *found = search->found;

    found->count += pg_rows(*rows);
    if (pg_rows(*rows) > 0)
        found->parts[found->part_count++] = *rows;
    else
        pg_result_free(rows);
}

/* What is thick may be one moment with nothing around it: behind an empty half the rest is tried.
 */
static int64_t
thick_window_begin(const struct search *search)
{
    int64_t wide_us = search->before.at_us - search->thick_us;

    if (wide_us <= WINDOW_LEAST_US)
        return search->thick_us;
    return search->thick_us + (search->was_empty ? 1 : wide_us / 2);
}

static void
choose_window(struct search *search)
{
    int64_t oldest_us = search->question->from_us;

    if (search->thick_us != NOTHING_THICK)
        search->from_us = thick_window_begin(search);
    else if (search->before.at_us - oldest_us <= search->window_us)
        search->from_us = oldest_us;
    else
        search->from_us = search->before.at_us - search->window_us;
}

/* So much wider that it should have what is wanted, if it is as dense as the last one. */
static void
widen(struct search *search, int64_t seen_us, int found)
{
    int64_t by = found > 0 ? 2 + 3 * (int64_t)(still_wanted(search) / found) / 2 : WIDEN_MAX;

    if (by > WIDEN_MAX)
        by = WIDEN_MAX;
    search->window_us = seen_us < WINDOW_ALL_US / by ? (seen_us + 1) * by : WINDOW_ALL_US;
}

/* The window was looked at in full: the next one lies before it. */
static void
move_on(struct search *search, int found)
{
    int64_t seen_us = search->before.at_us - search->from_us - search->empty_us;

    search->empty_us = 0;
    search->was_empty = found == 0;
    search->before = (struct audit_place){ search->from_us, 0 };
    if (search->from_us <= search->thick_us)
        search->thick_us = NOTHING_THICK;
    if (found == 0 && seen_us >= WINDOW_ENOUGH_US && !search->tried_all)
        search->window_us = WINDOW_ALL_US;
    else
        widen(search, seen_us, found);
}

/* More fits than was looked at. The newest of that isn't the newest of all, but a mark on the way.
 */
static void
narrow(struct search *search, const struct pg_result *rows)
{
    int64_t newest_us = pg_get_time(rows, 0, AC_AT).us;

    search->tried_all = true; /* or more than that */
    search->was_empty = false;
    search->thick_us = newest_us < search->before.at_us ? newest_us : search->from_us;
}

static enum pg_outcome
look(struct search *search)
{
    struct find_params params;
    struct pg_result *rows = NULL;

    choose_window(search);
    fill_params(search, &params);
    enum pg_outcome outcome = pg_run_text(search->pg, pg_report_text(search->question->report),
                                          P_COUNT, params.values, search->deadline, &rows);
    if (outcome != PG_DONE)
        return outcome;
    if (pg_rows(rows) > 0 && params.values[P_LOOK] != NULL &&
        pg_get_int(rows, 0, AC_SEEN) == LOOK_MAX) {
        narrow(search, rows);
        pg_result_free(&rows);
    } else {
        int found = pg_rows(rows);
        keep(search, &rows);
        move_on(search, found);
    }
    return PG_DONE;
}

static bool
is_over(const struct search *search)
{
    return still_wanted(search) <= 0 || search->before.at_us < search->question->from_us ||
           (search->before.at_us == search->question->from_us && search->before.id == 0) ||
           search->found->part_count == AUDIT_PARTS_MAX;
}

/* Until which time the first window goes back; no row or null: further than anything. */
static enum pg_outcome
ask_first(struct search *search, struct pg_result **rows)
{
    struct find_params params;

    search->from_us = search->question->from_us;
    fill_params(search, &params);
    set_number(&params, P_LOOK, ROWS_FIRST);
    const char *const newest[] = { params.values[P_ORG], params.values[P_FROM],
                                   params.values[P_UNTIL] };
    const char *const window[] = { params.values[P_ORG], params.values[P_EVENT],
                                   params.values[P_FROM], params.values[P_UNTIL],
                                   params.values[P_LOOK] };
    return search->question->event.len > 0
               ? pg_run_text(search->pg, pg_report_text(REPORT_AUDIT_WINDOW), 5, window,
                             search->deadline, rows)
               : pg_run_text(search->pg, pg_report_text(REPORT_AUDIT_NEWEST), 3, newest,
                             search->deadline, rows);
}

static enum pg_outcome
measure_first(struct search *search)
{
    struct pg_result *rows = NULL;
    enum pg_outcome outcome = ask_first(search, &rows);
    bool is_known = outcome == PG_DONE && pg_rows(rows) > 0 && !pg_is_null(rows, 0, 0);

    if (is_known)
        search->window_us = search->before.at_us - pg_get_time(rows, 0, 0).us;
    if (is_known && search->question->event.len == 0) {
        search->empty_us = search->window_us;
        search->window_us += WINDOW_FIRST_US;
    }
    pg_result_free(&rows);
    return outcome;
}

/* In the order of an index, whatever the planner thinks of it. */
static const char in_order_sql[] =
    "SELECT set_config(name, 'off', true) FROM (VALUES ('enable_sort'), ('enable_bitmapscan'), "
    "('enable_seqscan')) AS v(name)";

/* By the blocks that may have it, with plans made for the values. */
static const char by_blocks_sql[] =
    "SELECT set_config(name, value, true) FROM (VALUES ('plan_cache_mode', 'force_custom_plan'), "
    "('enable_sort', 'on'), ('enable_bitmapscan', 'on'), ('enable_indexscan', 'off'), "
    "('enable_indexonlyscan', 'off'), ('enable_seqscan', 'off'), "
    "('max_parallel_workers_per_gather', '0'), ('work_mem', "
    "'32MB')) AS v(name, value)";

static enum pg_outcome
begin(struct search *search)
{
    static const char begin_sql[] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    struct pg *pg = search->pg;
    bool is_few = search->question->hold.len > 0; /* a hold has few: no first window */
    enum pg_outcome outcome = pg_run_text(pg, begin_sql, 0, NULL, search->deadline, NULL);

    if (outcome == PG_DONE && !is_few)
        outcome = pg_run_text(pg, in_order_sql, 0, NULL, search->deadline, NULL);
    if (outcome == PG_DONE && !is_few)
        outcome = measure_first(search);
    if (outcome == PG_DONE)
        outcome = pg_run_text(pg, by_blocks_sql, 0, NULL, search->deadline, NULL);
    return outcome;
}

enum pg_outcome
audit_search(struct pg *pg, const struct audit_question *question, struct mono_time deadline,
             struct audit_found *found)
{
    struct search search = { .pg = pg,
                             .question = question,
                             .deadline = deadline,
                             .found = found,
                             .before = question->before,
                             .window_us = WINDOW_ALL_US,
                             .thick_us = NOTHING_THICK };

    memset(found, 0, sizeof(*found));
    enum pg_outcome outcome = begin(&search);
    while (outcome == PG_DONE && !is_over(&search))
        outcome = look(&search);
    if (pg_is_connected(pg) && pg_run_text(pg, "ROLLBACK", 0, NULL, deadline, NULL) != PG_DONE)
        pg_drop(pg); /* it must not go on in a transaction that nobody knows of */
    found->more = found->count > question->limit || found->part_count == AUDIT_PARTS_MAX;
    if (found->count > question->limit)
        found->count = question->limit;
    return outcome;
}

void
audit_found_fini(struct audit_found *found)
{
    for (int i = 0; i < found->part_count; i++)
        pg_result_free(&found->parts[i]);
    found->part_count = 0;
}
