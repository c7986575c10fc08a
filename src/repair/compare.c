/*
 * compare.c - one event: the steps of a comparison, and what they ask Postgres.
 *
 * Stray members go first: a member that comes back while it is dropped (a seat that was given back
 * and taken again by the same hold) is then found missing by the look at the seats.
 */
#include "repair_internal.h"

#include "holdfast/log.h"
#include "holdfast/thread.h"

#define STATEMENT_US (2 * (int64_t)TIME_US_PER_S) /* a portion takes milliseconds */
#define STEP_US      (20 * TIME_US_PER_MS)        /* how soon a rest ends when it is to stop */

/* --- time ---------------------------------------------------------------------- */

static bool
is_stopping(const struct comparison *c)
{
    return c->stopping != NULL && atomic_load_explicit(c->stopping, memory_order_relaxed);
}

enum hf_status
compare_goes_on(const struct comparison *c)
{
    return is_stopping(c) || mono_now().us >= c->deadline.us ? HF_OVERLOADED : HF_OK;
}

void
compare_rest(const struct comparison *c, int64_t us)
{
    for (; us > 0 && !is_stopping(c); us -= STEP_US)
        sleep_us(us < STEP_US ? us : STEP_US);
}

/* What somebody asked for and waits for goes on at once. */
void
compare_yield(const struct comparison *c, struct mono_time began)
{
    bool is_busy = c->stopping != NULL && engine_outstanding(c->node->engine) > 0;

    compare_rest(c, is_busy ? (mono_now().us - began.us) * (BUSY_SHARE - 1) : YIELD_US);
}

/* --- questions to Postgres -------------------------------------------------------- */

static enum hf_status
ask(const struct comparison *c, enum pg_statement statement, const struct pg_params *params,
    struct pg_result **rows)
{
    int64_t until_us = mono_now().us + STATEMENT_US;
    struct mono_time deadline = { until_us < c->deadline.us ? until_us : c->deadline.us };

    *rows = NULL;
    if (pg_run(c->pg, statement, params, deadline, rows) == PG_DONE)
        return HF_OK;
    LOG_EVENT(LOG_INFO, "repair_without_postgres", log_text("error", pg_last_error(c->pg)));
    return mono_now().us >= c->deadline.us ? HF_OVERLOADED : HF_STORE_UNAVAILABLE;
}

static void
begin_params(const struct comparison *c, struct pg_params *params)
{
    pg_params_init(params);
    pg_param_text(params, c->org);
    pg_param_text(params, c->event);
}

enum hf_status
compare_ask_seats(const struct comparison *c, struct pg_array *seats, struct pg_result **rows)
{
    struct pg_params params;

    begin_params(c, &params);
    pg_param_array(&params, seats);
    enum hf_status status = ask(c, STATEMENT_WARM_SEATS, &params, rows);
    if (status == HF_OK && pg_rows(*rows) != seats->count) {
        pg_result_free(rows);
        return HF_INTERNAL;
    }
    return status;
}

enum hf_status
compare_ask_page(const struct comparison *c, struct slice after, struct pg_result **rows)
{
    struct pg_params params;

    begin_params(c, &params);
    pg_param_text(&params, after);
    pg_param_int4(&params, PORTION);
    return ask(c, STATEMENT_WARM_SEAT_PAGE, &params, rows);
}

static enum hf_status
find_event(const struct comparison *c)
{
    struct pg_params params;
    struct pg_result *rows;

    begin_params(c, &params);
    enum hf_status status = ask(c, STATEMENT_WARM_EVENT, &params, &rows);
    if (status == HF_OK && !pg_get_bool(rows, 0, 0))
        status = HF_EVENT_NOT_FOUND;
    pg_result_free(&rows);
    return status;
}

/* --- rows ---------------------------------------------------------------------------- */

static enum warm_need
need_of_row(const struct pg_result *rows, int row)
{
    if (!id_is_valid(pg_get_text(rows, row, WS_SEAT)))
        return NEED_UNKNOWN;
    if (!slice_is(pg_get_text(rows, row, WS_STATUS), "held"))
        return NEED_NOTHING;
    if (pg_is_null(rows, row, WS_BORN))
        return NEED_UNKNOWN; /* held by no line: verify tells that */
    bool over = pg_get_time(rows, row, WS_UNTIL).us <= pg_get_time(rows, row, WS_NOW).us;
    return over ? NEED_MAYBE : NEED_HOLD;
}

void
warm_want_read(const struct comparison *c, const struct pg_result *rows, int row,
               struct warm_want *want)
{
    *want = (struct warm_want){ .need = need_of_row(rows, row),
                                .exists = !pg_is_null(rows, row, WS_STATUS) };
    if (want->need < NEED_MAYBE)
        return;
    struct db_time now = pg_get_time(rows, row, WS_NOW);
    struct db_time until = pg_get_time(rows, row, WS_UNTIL);
    want->hold = (struct warm_hold){
        .org = c->org,
        .event = c->event,
        .seat = pg_get_text(rows, row, WS_SEAT),
        .user = pg_get_text(rows, row, WS_USER),
        .cart_token = pg_get_text(rows, row, WS_CART),
        .source = pg_get_text(rows, row, WS_SOURCE),
        .hold_id = pg_get_uuid(rows, row, WS_HOLD),
        .held_at = pg_get_time(rows, row, WS_BORN),
        .held_until = until,
        .as_of = now,
        .version = pg_get_int(rows, row, WS_VERSION),
        .ttl_ms = (until.us - now.us) / TIME_US_PER_MS,
    };
    if (want->hold.ttl_ms < 1)
        want->hold.ttl_ms = 1;
}

/* --- the steps -------------------------------------------------------------------------- */

static enum hf_status
take_steps(struct comparison *c)
{
    enum hf_status status = find_event(c);

    if (status == HF_OK)
        status = compare_stray_members(c);
    if (status == HF_OK)
        status = compare_seats(c);
    if (status == HF_OK && c->mode != REPAIR_MEND)
        status = compare_stray_keys(c);
    return status;
}

enum hf_status
compare_event(struct comparison *c)
{
    struct warm_tier *tier = c->node->tier;
    struct mono_time began = mono_now();
    uint64_t ticket = warm_tier_ticket(tier, c->org, c->event);

    *c->report = (struct repair_report){ .redis_count = -1 };
    c->left = 0;
    c->trusted = warm_tier_is_rebuilt(tier, c->org, c->event);
    enum hf_status status = take_steps(c);
    c->report->equal = status == HF_OK && c->left == 0;
    if (status == HF_OK)
        c->report->redis_count = warm_count(c->warm, c->org, c->event);
    c->report->duration_us = mono_now().us - began.us;
    if (c->report->equal)
        warm_tier_rebuilt(tier, c->org, c->event, ticket);
    else if (status == HF_OK && c->trusted)
        warm_tier_doubt(tier, c->org, c->event);
    return status;
}

enum hf_status
repair_event(struct node *node, struct pg *pg, struct warm *warm, struct slice org,
             struct slice event, enum repair_mode mode, struct mono_time deadline,
             struct repair_report *report)
{
    struct comparison c = { .node = node,
                            .pg = pg,
                            .warm = warm,
                            .org = org,
                            .event = event,
                            .mode = mode,
                            .deadline = deadline,
                            .report = report };

    return compare_event(&c);
}
