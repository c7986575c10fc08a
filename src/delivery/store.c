/*
 * store.c - what Postgres is asked and told: route, take, settle, forget.
 *
 * Each is one statement and leaves a state from which any node can go on: what was taken and not
 * settled is due again when its lease ends. So a lost answer needs no more than another try.
 */
#include <string.h>

#include "delivery_internal.h"
#include "holdfast/cold.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"

#define STATEMENT_US  (5 * (int64_t)TIME_US_PER_S)
#define PATIENCE_US   (10 * (int64_t)TIME_US_PER_S) /* no transaction of ours takes longer */
#define ROUTE_ROWS    5000
#define PURGE_ROWS    5000
#define LEASE_MORE_US (5 * (int64_t)TIME_US_PER_S) /* beside twice delivery_timeout, to settle */
#define PAUSE_MAX_US  (3600 * (int64_t)TIME_US_PER_S)
#define TRIMS_AT_ONCE 20
#define DOUBLINGS_MAX 24

/* NULL: it failed; another turn comes. */
static struct pg_result *
run(struct delivery *delivery, enum pg_statement statement, const struct pg_params *params,
    enum pg_outcome *outcome)
{
    struct pg_result *rows = NULL;

    struct mono_time deadline = delivery_deadline(delivery, STATEMENT_US);
    *outcome = pg_run(delivery->pg, statement, params, deadline, &rows);
    if (*outcome == PG_BUG || *outcome == PG_DATA_ERROR)
        LOG_EVENT(LOG_ERROR, "delivery_statement_failed",
                  log_text("sqlstate", pg_last_sqlstate(delivery->pg)),
                  log_text("error", pg_last_error(delivery->pg)));
    else if (*outcome != PG_DONE)
        LOG_EVENT(LOG_DEBUG, "delivery_waits", log_text("error", pg_last_error(delivery->pg)));
    return *outcome == PG_DONE ? rows : NULL;
}

/* --- route --------------------------------------------------------------------------------------
 */

/* Columns of route_outbox. */
enum { ROUTED, MORE };

bool
delivery_route(struct delivery *delivery)
{
    struct pg_params params;
    enum pg_outcome outcome;

    pg_params_init(&params);
    pg_param_bool(&params, mail_is_on(delivery->node->config));
    pg_param_int8(&params, PATIENCE_US);
    pg_param_int4(&params, ROUTE_ROWS);
    struct pg_result *rows = run(delivery, STATEMENT_ROUTE_OUTBOX, &params, &outcome);
    bool more = rows != NULL && pg_rows(rows) > 0 && pg_get_bool(rows, 0, MORE);
    pg_result_free(&rows);
    return more;
}

/* --- take
 * ----------------------------------------------------------------------------------------- */

/* Columns of take_deliveries. */
enum {
    ORG,
    CHANNEL,
    SUBJECT,
    EVENT,
    LEASE,
    ATTEMPTS,
    TODO_TO,
    URL,
    SECRET,
    EVENT_NAME,
    ID,
    TOLD_AS,
    KIND,
    EMAIL,
    PAYLOAD,
    AT
};

static struct outbox_event
event_of(const struct pg_result *rows, int row)
{
    return (struct outbox_event){ .told_as = pg_get_int(rows, row, TOLD_AS),
                                  .kind = pg_get_text(rows, row, KIND),
                                  .email = pg_get_text(rows, row, EMAIL),
                                  .payload = pg_get_text(rows, row, PAYLOAD),
                                  .at = pg_get_text(rows, row, AT) };
}

/* Where a delivery ends if it succeeds: at its last event, or at all that there was for it. */
static void
add_events(struct transfer *transfer, const struct pg_result *rows, int first, int end)
{
    int row = first;

    while (row < end) {
        struct outbox_event event = event_of(rows, row);
        if (!webhook_add(transfer, &event))
            break;
        transfer->up_to = pg_get_int(rows, row++, ID);
    }
    if (row == end && end - first < EVENTS_AT_ONCE)
        transfer->up_to = pg_get_int(rows, first, TODO_TO);
}

static void
prepare_webhook(struct delivery *delivery, struct transfer *transfer, const struct pg_result *rows,
                int first, int end)
{
    struct slice url = arena_copy(&transfer->arena, pg_get_text(rows, first, URL));

    add_events(transfer, rows, first, end);
    if (url.ptr == NULL)
        transfer_fail(transfer, TRANSFER_LEFT, "no memory");
    else
        webhook_prepare(transfer, url.ptr, pg_get_text(rows, first, SECRET),
                        delivery->node->config);
}

/* Rows first..end-1 are one delivery. One that can't be begun is due again when its lease ends. */
static void
begin(struct delivery *delivery, const struct pg_result *rows, int first, int end,
      struct mono_time lease_ends)
{
    bool is_mail = slice_is(pg_get_text(rows, first, CHANNEL), "mail");
    struct transfer *transfer =
        transfer_new(is_mail ? CHANNEL_MAIL : CHANNEL_WEBHOOK, pg_get_text(rows, first, ORG),
                     pg_get_text(rows, first, SUBJECT), pg_get_text(rows, first, EVENT));
    if (transfer == NULL)
        return;
    transfer->lease = pg_get_int(rows, first, LEASE);
    transfer->attempts = (int)pg_get_int(rows, first, ATTEMPTS);
    transfer->lease_ends = lease_ends;
    transfer->up_to = pg_get_int(rows, first, TODO_TO);
    if (pg_is_null(rows, first, ID)) {
        transfer->outcome = TRANSFER_TOLD; /* its events are gone: too old, or too many */
    } else if (is_mail) {
        struct outbox_event event = event_of(rows, first);
        mail_prepare(transfer, &event, pg_get_text(rows, first, EVENT_NAME),
                     delivery->node->config);
    } else {
        prepare_webhook(delivery, transfer, rows, first, end);
    }
    transfer_begin(delivery, transfer);
}

static bool
is_same_delivery(const struct pg_result *rows, int a, int b)
{
    return slice_equal(pg_get_text(rows, a, CHANNEL), pg_get_text(rows, b, CHANNEL)) &&
           slice_equal(pg_get_text(rows, a, ORG), pg_get_text(rows, b, ORG)) &&
           slice_equal(pg_get_text(rows, a, SUBJECT), pg_get_text(rows, b, SUBJECT));
}

void
delivery_take(struct delivery *delivery)
{
    const struct config *config = delivery->node->config;
    int64_t lease_us = 2 * config->delivery_timeout + LEASE_MORE_US;
    struct mono_time lease_ends = { mono_now().us + lease_us };
    struct pg_params params;
    enum pg_outcome outcome;

    pg_params_init(&params);
    pg_param_int4(&params, (int32_t)config->delivery_under_way - delivery->count);
    pg_param_int4(&params, (int32_t)config->delivery_per_org);
    pg_param_int8(&params, lease_us);
    pg_param_bool(&params, mail_is_on(config));
    pg_param_int4(&params, EVENTS_AT_ONCE);
    struct pg_result *rows = run(delivery, STATEMENT_TAKE_DELIVERIES, &params, &outcome);
    int count = rows != NULL ? pg_rows(rows) : 0;
    for (int first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && is_same_delivery(rows, first, end);)
            end++;
        begin(delivery, rows, first, end, lease_ends);
    }
    pg_result_free(&rows);
}

/* --- settle
 * ---------------------------------------------------------------------------------------- */

static const char *
outcome_word(enum transfer_outcome outcome)
{
    switch (outcome) {
    case TRANSFER_TOLD:
        return "told";
    case TRANSFER_FAILED:
        return "failed";
    case TRANSFER_HOPELESS:
        return "hopeless";
    case TRANSFER_UNDER_WAY:
    case TRANSFER_LEFT:
        break;
    }
    return "left";
}

/* Twice as long after each failure, and half of it by chance, so that receivers that came back
 * aren't met by all at once. */
static int64_t
pause_us(const struct config *config, int attempts)
{
    int64_t pause = config->delivery_backoff
                    << (attempts < DOUBLINGS_MAX ? attempts : DOUBLINGS_MAX);
    struct uuid dice = uuid_v7_new(); /* its last bytes are random */

    if (pause > PAUSE_MAX_US)
        pause = PAUSE_MAX_US;
    return pause / 2 + pause / 2 * dice.bytes[15] / 255;
}

enum { A_ORG, A_CHANNEL, A_SUBJECT, A_LEASE, A_UP_TO, A_OUTCOME, A_ERROR, A_PAUSE, ARRAYS };

static const enum pg_type array_types[ARRAYS] = {
    [A_ORG] = PG_TEXT,   [A_CHANNEL] = PG_TEXT, [A_SUBJECT] = PG_TEXT, [A_LEASE] = PG_INT8,
    [A_UP_TO] = PG_INT8, [A_OUTCOME] = PG_TEXT, [A_ERROR] = PG_TEXT,   [A_PAUSE] = PG_INT8,
};

static void
add_to_arrays(struct pg_array arrays[ARRAYS], const struct transfer *transfer,
              const struct config *config)
{
    bool is_mail = transfer->channel == CHANNEL_MAIL;

    pg_array_text(&arrays[A_ORG], transfer->org);
    pg_array_text(&arrays[A_CHANNEL], slice_of(is_mail ? "mail" : "webhook"));
    pg_array_text(&arrays[A_SUBJECT], transfer->subject);
    pg_array_int(&arrays[A_LEASE], transfer->lease);
    pg_array_int(&arrays[A_UP_TO], transfer->up_to);
    pg_array_text(&arrays[A_OUTCOME], slice_of(outcome_word(transfer->outcome)));
    if (transfer->error != NULL)
        pg_array_text(&arrays[A_ERROR], slice_of(transfer->error));
    else
        pg_array_null(&arrays[A_ERROR]);
    pg_array_int(&arrays[A_PAUSE], pause_us(config, transfer->attempts));
}

static struct pg_result *
settle(struct delivery *delivery, enum pg_outcome *outcome)
{
    const struct config *config = delivery->node->config;
    struct pg_array arrays[ARRAYS] = { 0 };
    struct pg_params params;

    for (int i = 0; i < ARRAYS; i++)
        pg_array_init(&arrays[i], array_types[i]);
    for (const struct transfer *one = delivery->over; one != NULL; one = one->next)
        add_to_arrays(arrays, one, config);
    pg_params_init(&params);
    for (int i = 0; i < ARRAYS; i++)
        pg_param_array(&params, &arrays[i]);
    pg_param_int8(&params, config->delivery_give_up);
    struct pg_result *rows = run(delivery, STATEMENT_SETTLE_DELIVERIES, &params, outcome);
    for (int i = 0; i < ARRAYS; i++)
        pg_array_fini(&arrays[i]);
    return rows;
}

/* Columns of settle_deliveries. */
enum { S_ORG, S_CHANNEL, S_SUBJECT, S_DIED };

static void
tell_deaths(const struct pg_result *rows)
{
    for (int row = 0; row < pg_rows(rows); row++) {
        struct slice channel = pg_get_text(rows, row, S_CHANNEL);
        int64_t died = pg_get_int(rows, row, S_DIED);
        if (died == 0)
            continue;
        metric_add(slice_is(channel, "mail") ? METRIC_DEAD_LETTERS_MAIL_TOTAL
                                             : METRIC_DEAD_LETTERS_WEBHOOK_TOTAL,
                   (uint64_t)died);
        LOG_EVENT(LOG_WARN, "dead_letters", log_slice("org", pg_get_text(rows, row, S_ORG)),
                  log_slice("channel", channel),
                  log_slice("subject", pg_get_text(rows, row, S_SUBJECT)), log_int("events", died));
    }
}

static void
count_one(const struct transfer *transfer)
{
    bool is_mail = transfer->channel == CHANNEL_MAIL;

    if (transfer->outcome == TRANSFER_TOLD)
        metric_add(is_mail ? METRIC_TOLD_MAIL_TOTAL : METRIC_TOLD_WEBHOOK_TOTAL,
                   (uint64_t)transfer->events);
    else if (transfer->outcome != TRANSFER_LEFT)
        metric_add(is_mail ? METRIC_TRIES_FAILED_MAIL_TOTAL : METRIC_TRIES_FAILED_WEBHOOK_TOTAL, 1);
    if (transfer->error != NULL)
        LOG_EVENT(LOG_DEBUG, "delivery_failed", log_slice("org", transfer->org),
                  log_slice("subject", transfer->subject), log_text("error", transfer->error),
                  log_int("attempts", transfer->attempts + 1));
}

static void
forget_settled(struct delivery *delivery, bool counts)
{
    struct transfer *transfer;

    while ((transfer = delivery->over) != NULL) {
        delivery->over = transfer->next;
        delivery->count--;
        if (counts)
            count_one(transfer);
        transfer_free(transfer);
    }
}

/* Whose lease has ended is another's by now. */
static void
forget_late(struct delivery *delivery)
{
    struct mono_time now = mono_now();
    struct transfer **link = &delivery->over;

    while (*link != NULL) {
        struct transfer *transfer = *link;
        if (transfer->lease_ends.us > now.us) {
            link = &transfer->next;
            continue;
        }
        *link = transfer->next;
        delivery->count--;
        transfer_free(transfer);
    }
}

bool
delivery_settle(struct delivery *delivery)
{
    enum pg_outcome outcome;
    struct pg_result *rows = settle(delivery, &outcome);

    switch (outcome) {
    case PG_DONE:
        tell_deaths(rows);
        forget_settled(delivery, true);
        break;
    case PG_DATA_ERROR: /* told by the log; the leases end by themselves */
    case PG_BUG:
        forget_settled(delivery, false);
        break;
    case PG_REPEAT:
    case PG_UNAVAILABLE:
    case PG_UNKNOWN: /* again is the same, where it did take place */
        forget_late(delivery);
        break;
    }
    pg_result_free(&rows);
    return delivery->over == NULL;
}

/* --- forget
 * ------------------------------------------------------------------------------------------ */

static bool
is_stopping(struct delivery *delivery)
{
    return atomic_load(&delivery->stopping);
}

/* True: the next organization may have too much as well. */
static bool
trim(struct delivery *delivery)
{
    struct pg_params params;
    enum pg_outcome outcome;

    pg_params_init(&params);
    pg_param_int8(&params, delivery->node->config->outbox_max);
    pg_param_int4(&params, PURGE_ROWS);
    struct pg_result *rows = run(delivery, STATEMENT_TRIM_OUTBOX, &params, &outcome);
    for (int row = 0; rows != NULL && row < pg_rows(rows); row++) {
        int64_t gone = pg_get_int(rows, row, 1);
        int64_t untold = pg_get_int(rows, row, 2);
        metric_add(METRIC_OUTBOX_DROPPED_TOTAL, (uint64_t)untold);
        LOG_EVENT(LOG_WARN, "outbox_full", log_slice("org", pg_get_text(rows, row, 0)),
                  log_int("gone", gone), log_int("untold", untold));
    }
    bool trimmed = rows != NULL && pg_rows(rows) > 0;
    pg_result_free(&rows);
    return trimmed;
}

static void
purge(struct delivery *delivery, enum pg_statement statement)
{
    struct pg_params params;
    enum pg_outcome outcome;

    pg_params_init(&params);
    pg_param_int8(&params, delivery->node->config->outbox_retention);
    pg_param_int4(&params, PURGE_ROWS);
    struct pg_result *rows = run(delivery, statement, &params, &outcome);
    pg_result_free(&rows);
}

static void
purge_dead(struct delivery *delivery)
{
    const struct config *config = delivery->node->config;
    struct pg_params params;
    enum pg_outcome outcome;

    pg_params_init(&params);
    pg_param_int8(&params, config->outbox_retention);
    pg_param_int8(&params, config->outbox_max);
    pg_param_int4(&params, PURGE_ROWS);
    struct pg_result *rows = run(delivery, STATEMENT_PURGE_DEAD_LETTERS, &params, &outcome);
    int64_t trimmed = rows != NULL ? pg_get_int(rows, 0, 1) : 0;
    pg_result_free(&rows);
    if (trimmed == 0)
        return;
    metric_add(METRIC_DEAD_LETTERS_DROPPED_TOTAL, (uint64_t)trimmed);
    LOG_EVENT(LOG_WARN, "dead_letters_full", log_int("gone", trimmed));
}

void
delivery_purge(struct delivery *delivery)
{
    static const enum pg_statement purges[] = { STATEMENT_PURGE_OUTBOX, STATEMENT_PURGE_TOLD };

    for (int i = 0; i < TRIMS_AT_ONCE && !is_stopping(delivery) && trim(delivery); i++)
        ;
    for (size_t i = 0; i < sizeof(purges) / sizeof(purges[0]) && !is_stopping(delivery); i++)
        purge(delivery, purges[i]);
    if (!is_stopping(delivery))
        purge_dead(delivery);
}

/* Columns of outbox_numbers. */
enum { N_HOOKS, N_MAILS, N_OLDEST_S, N_DEAD };

void
delivery_count(struct delivery *delivery)
{
    struct pg_params params;
    enum pg_outcome outcome;

    pg_params_init(&params);
    struct pg_result *rows = run(delivery, STATEMENT_OUTBOX_NUMBERS, &params, &outcome);
    if (rows != NULL) {
        metric_set(METRIC_OUTBOX_WAITING_WEBHOOK, pg_get_int(rows, 0, N_HOOKS));
        metric_set(METRIC_OUTBOX_WAITING_MAIL, pg_get_int(rows, 0, N_MAILS));
        metric_set(METRIC_OUTBOX_OLDEST_SECONDS, (int64_t)pg_get_double(rows, 0, N_OLDEST_S));
        metric_set(METRIC_DEAD_LETTERS, pg_get_int(rows, 0, N_DEAD));
    }
    pg_result_free(&rows);
}
