/*
 * read.c - what Postgres is asked each second: where anybody waits, and which offers have ended.
 *
 * Both are read in portions, one behind the other. An event that is new, or where somebody came
 * whom this node didn't hear of (he joined at another one), is looked at; so is any from time to
 * time.
 */
#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "waitlist_internal.h"

#include <stdio.h>

#define EVENTS_AT_ONCE 1000
#define OFFERS_AT_ONCE 500
#define SWEEP_US       (10 * (int64_t)TIME_US_PER_S)
#define STATEMENT_US   (700 * TIME_US_PER_MS)

/* NULL: it failed, and another turn comes. */
static struct pg_result *
run(struct waitlist *room, enum pg_statement statement, const struct pg_params *params)
{
    struct mono_time deadline = { mono_now().us + STATEMENT_US };
    struct pg_result *rows = NULL;

    if (pg_run(room->pg, statement, params, deadline, &rows) == PG_DONE)
        return rows;
    LOG_EVENT(LOG_DEBUG, "waitlist_read_failed", log_text("error", pg_last_error(room->pg)));
    pg_result_free(&rows);
    return NULL;
}

/* --- where anybody waits ----------------------------------------------------------------- */

/* Columns of waiting_events. */
enum { EVENT_ORG, EVENT_EVENT, EVENT_NEWEST };

/* Nodes look at different times. */
static struct mono_time
next_sweep(void)
{
    struct uuid chance = uuid_v7_new();

    return (struct mono_time){ mono_now().us + SWEEP_US + chance.bytes[15] * SWEEP_US / 512 };
}

static void
see_locked(struct waitlist *room, struct slice org, struct slice event, int64_t newest)
{
    static const struct news anything = { .whole = true };
    struct list *list = list_get_locked(room, org, event);
    if (list == NULL)
        return;
    list->pass = room->pass;
    if (list->newest == newest && mono_now().us < list->sweep_due.us)
        return;
    list->newest = newest;
    list->sweep_due = next_sweep();
    list_tell_locked(room, list, &anything, 0);
}

/* From here the reading goes on; or anew, the pass is over. */
static void
remember_place(struct waitlist *room, const struct pg_result *rows)
{
    int last = pg_rows(rows) - 1;
    bool is_over = pg_rows(rows) < EVENTS_AT_ONCE;
    struct slice org = is_over ? SLICE_EMPTY : pg_get_text(rows, last, EVENT_ORG);
    struct slice event = is_over ? SLICE_EMPTY : pg_get_text(rows, last, EVENT_EVENT);

    snprintf(room->after_org, sizeof(room->after_org), "%.*s", SLICE_ARG(org));
    snprintf(room->after_event, sizeof(room->after_event), "%.*s", SLICE_ARG(event));
}

bool
read_events(struct waitlist *room)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, slice_of(room->after_org));
    pg_param_text(&params, slice_of(room->after_event));
    pg_param_int4(&params, EVENTS_AT_ONCE);
    struct pg_result *rows = run(room, STATEMENT_WAITING_EVENTS, &params);
    if (rows == NULL)
        return false;
    bool more = pg_rows(rows) == EVENTS_AT_ONCE;
    lock_take(&room->lock);
    for (int row = 0; row < pg_rows(rows); row++)
        see_locked(room, pg_get_text(rows, row, EVENT_ORG), pg_get_text(rows, row, EVENT_EVENT),
                   pg_get_int(rows, row, EVENT_NEWEST));
    if (!more)
        lists_end_pass_locked(room);
    lock_drop(&room->lock);
    remember_place(room, rows);
    pg_result_free(&rows);
    return more;
}

/* --- offers ------------------------------------------------------------------------------ */

/* Columns of ended_offers. */
enum { OFFER_ORG, OFFER_ENTRY, OFFER_PLACE, OFFER_ENDED };

static void
settle(struct waitlist *room, struct pg_array *orgs, struct pg_array *entries)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_array(&params, orgs);
    pg_param_array(&params, entries);
    pg_param_bool(&params, false);
    for (int i = 0; i < 4; i++) /* the system does it */
        pg_param_null(&params);
    struct pg_result *rows = run(room, STATEMENT_SETTLE_OFFERS, &params);
    pg_result_free(&rows);
}

static void
settle_ended(struct waitlist *room, const struct pg_result *rows)
{
    struct pg_array orgs, entries;

    pg_array_init(&orgs, PG_TEXT);
    pg_array_init(&entries, PG_UUID);
    for (int row = 0; row < pg_rows(rows); row++) {
        struct uuid entry = pg_get_uuid(rows, row, OFFER_ENTRY);
        if (!pg_get_bool(rows, row, OFFER_ENDED))
            continue;
        pg_array_text(&orgs, pg_get_text(rows, row, OFFER_ORG));
        pg_array_uuid(&entries, &entry);
    }
    if (entries.count > 0)
        settle(room, &orgs, &entries);
    pg_array_fini(&orgs);
    pg_array_fini(&entries);
}

bool
read_offers(struct waitlist *room)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_int8(&params, room->after_offer);
    pg_param_int4(&params, OFFERS_AT_ONCE);
    struct pg_result *rows = run(room, STATEMENT_ENDED_OFFERS, &params);
    if (rows == NULL)
        return false;
    int count = pg_rows(rows);
    settle_ended(room, rows);
    room->after_offer = count == OFFERS_AT_ONCE ? pg_get_int(rows, count - 1, OFFER_PLACE) : 0;
    pg_result_free(&rows);
    return count == OFFERS_AT_ONCE;
}

/* --- for /metrics -------------------------------------------------------------------------- */

void
read_count(struct waitlist *room)
{
    struct pg_params params;

    pg_params_init(&params);
    struct pg_result *rows = run(room, STATEMENT_COUNT_WAITING, &params);
    if (rows != NULL)
        metric_set(METRIC_WAITLIST_WAITING, pg_get_int(rows, 0, 0));
    pg_result_free(&rows);
}
