/*
 * presence.c - this node among the living ones. What follows from who else is there decides the
 * fan-out: it is told each reading of the table.
 *
 * A crashed node's row lives for 10 s. Who starts again under the same name watches that
 * row for two beats: if it moves, the other one lives; if not, it is taken over.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "holdfast/fanout.h"
#include "holdfast/feed.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "upkeep_internal.h"

#define WATCH_US     (2500 * (int64_t)TIME_US_PER_MS) /* two heartbeats, and half of one to be late */
#define LOOK_US      (100 * TIME_US_PER_MS)
#define JOIN_US      (5 * (int64_t)TIME_US_PER_S)
#define DEPARTED_MAX 16 /* whom positions may name beside the living */
#define PATIENCE_US  (20 * (int64_t)TIME_US_PER_S)

/* --- joining -------------------------------------------------------------------- */

enum join { JOIN_DONE, JOIN_NAME_TAKEN, JOIN_FAILED };

/* seen_at 0: no row was watched. */
static enum join
try_to_join(struct upkeep *upkeep, struct db_time seen_at)
{
    struct mono_time deadline = { mono_now().us + JOIN_US };
    struct pg_params params;
    struct pg_result *rows = NULL;

    pg_params_init(&params);
    pg_param_text(&params, slice_of(upkeep->node->id));
    pg_param_text(&params, slice_of(upkeep->node->config->listen));
    if (seen_at.us != 0)
        pg_param_time(&params, seen_at);
    else
        pg_param_null(&params);
    if (!pg_ready_until(upkeep->pg, deadline) ||
        pg_run(upkeep->pg, STATEMENT_NODE_JOIN, &params, deadline, &rows) != PG_DONE)
        return JOIN_FAILED;
    bool joined = pg_rows(rows) > 0;
    if (joined)
        upkeep->incarnation = pg_get_int(rows, 0, 0);
    pg_result_free(&rows);
    return joined ? JOIN_DONE : JOIN_NAME_TAKEN;
}

/* Postgres may go away in the middle of a start: that is no reason to give up at once. */
static enum join
join_patiently(struct upkeep *upkeep, struct db_time seen_at)
{
    struct mono_time end = { mono_now().us + PATIENCE_US };
    enum join join = try_to_join(upkeep, seen_at);

    while (join == JOIN_FAILED && mono_now().us < end.us) {
        sleep_us(LOOK_US);
        join = try_to_join(upkeep, seen_at);
    }
    return join;
}

/* When the row of our name last said that it lives; 0: there is none, or it can't be read. */
static struct db_time
read_heartbeat(struct upkeep *upkeep)
{
    struct mono_time deadline = { mono_now().us + JOIN_US };
    struct pg_params params;
    struct pg_result *rows = NULL;
    struct db_time at = { 0 };

    pg_params_init(&params);
    pg_param_text(&params, slice_of(upkeep->node->id));
    if (pg_ready_until(upkeep->pg, deadline) &&
        pg_run(upkeep->pg, STATEMENT_READ_NODE, &params, deadline, &rows) == PG_DONE &&
        pg_rows(rows) > 0)
        at = pg_get_time(rows, 0, 0);
    pg_result_free(&rows);
    return at;
}

/* True: the row stood still as *seen_at has it. False: it moved (or is gone: then *seen_at is
 * 0). */
static bool
stands_still(struct upkeep *upkeep, struct db_time *seen_at)
{
    struct mono_time end = { mono_now().us + WATCH_US };

    *seen_at = read_heartbeat(upkeep);
    while (seen_at->us != 0 && mono_now().us < end.us) {
        sleep_us(LOOK_US);
        struct db_time now_at = read_heartbeat(upkeep);
        if (now_at.us != seen_at->us) {
            seen_at->us = now_at.us == 0 ? 0 : seen_at->us;
            return false;
        }
    }
    return seen_at->us != 0;
}

bool
presence_join(struct upkeep *upkeep, char *error, size_t error_bytes)
{
    struct db_time seen_at;
    enum join join = join_patiently(upkeep, (struct db_time){ 0 });

    if (join == JOIN_NAME_TAKEN && (stands_still(upkeep, &seen_at) || seen_at.us == 0))
        join = join_patiently(upkeep, seen_at);
    switch (join) {
    case JOIN_DONE:
        LOG_EVENT(LOG_INFO, "joined", log_int("incarnation", upkeep->incarnation));
        return true;
    case JOIN_NAME_TAKEN:
        snprintf(error, error_bytes,
                 "another living node is called %s: give this one another node_id",
                 upkeep->node->id);
        return false;
    case JOIN_FAILED:
        snprintf(error, error_bytes, "can't enter the table of nodes: %s",
                 pg_last_error(upkeep->pg));
        return false;
    }
    return false;
}

/* --- who was there ---------------------------------------------------------------- */

/* Columns of read_departed. */
enum { DEPARTED, RECORDS, AGE };

void
presence_know_departed(struct upkeep *upkeep)
{
    struct mono_time deadline = { mono_now().us + UPKEEP_STATEMENT_US };
    struct pg_params params;
    struct pg_result *rows = NULL;

    pg_params_init(&params);
    pg_param_int4(&params, DEPARTED_MAX);
    if (!pg_ready_until(upkeep->pg, deadline) ||
        pg_run(upkeep->pg, STATEMENT_READ_DEPARTED, &params, deadline, &rows) != PG_DONE)
        return; /* whoever names them begins anew */
    for (int row = 0; row < pg_rows(rows); row++)
        feed_adopt(upkeep->node->feed, pg_get_int(rows, row, DEPARTED),
                   (uint64_t)pg_get_int(rows, row, RECORDS), pg_get_int(rows, row, AGE));
    pg_result_free(&rows);
}

/* --- who else is there ------------------------------------------------------------ */

/* Columns of node_heartbeat. */
enum { MINE, NEWEST, DATABASE, OTHER_ID, OTHER_INCARNATION };

static void
read_others(const struct pg_result *rows, struct fanout_table *table)
{
    for (int row = 0; row < pg_rows(rows); row++) {
        struct slice id = pg_get_text(rows, row, OTHER_ID);
        if (pg_is_null(rows, row, OTHER_ID))
            continue;
        if (table->count == FEED_NODES_MAX) {
            table->too_many = true;
            return;
        }
        struct fanout_node *other = &table->others[table->count++];
        snprintf(other->id, sizeof(other->id), "%.*s", SLICE_ARG(id));
        other->incarnation = pg_get_int(rows, row, OTHER_INCARNATION);
    }
}

/*
 * Another one has our name, and lives: our row was dropped while we stood still for 10 s. When it
 * leaves, or dies, the name is ours again, under a new incarnation: what we are told of ourselves
 * from before belongs to nobody any more.
 */
static void
join_anew(struct upkeep *upkeep)
{
    if (!upkeep->name_is_lost)
        LOG_EVENT(LOG_ERROR, "name_taken_over", log_int("incarnation", upkeep->incarnation));
    upkeep->name_is_lost = true;
    if (try_to_join(upkeep, (struct db_time){ 0 }) != JOIN_DONE)
        return;
    upkeep->name_is_lost = false;
    LOG_EVENT(LOG_INFO, "joined", log_int("incarnation", upkeep->incarnation));
    feed_start(upkeep->node->feed, upkeep->incarnation);
}

static void
take_beat(struct upkeep *upkeep, const struct pg_result *rows, struct mono_time began)
{
    struct fanout_table table = { .began = began,
                                  .system = pg_identity_system(upkeep->node->identity),
                                  .timeline = pg_identity_timeline(upkeep->node->identity),
                                  .database = pg_get_int(rows, 0, DATABASE),
                                  .incarnation = upkeep->incarnation,
                                  .mine = pg_get_bool(rows, 0, MINE),
                                  .newest = pg_get_int(rows, 0, NEWEST) };

    read_others(rows, &table);
    metric_set(METRIC_NODES_ALIVE, table.count + 1);
    fanout_know_nodes(upkeep->node->fanout, &table);
    if (table.mine)
        upkeep->name_is_lost = false; /* its row came back when the other one had left */
    else
        join_anew(upkeep);
}

void
presence_heartbeat(struct upkeep *upkeep)
{
    struct mono_time began = mono_now();
    struct pg_params params;
    struct pg_result *rows = NULL;

    if (!pg_is_connected(upkeep->pg))
        fanout_table_unreadable(upkeep->node->fanout); /* connecting may take longer than trust */
    pg_params_init(&params);
    pg_param_text(&params, slice_of(upkeep->node->id));
    pg_param_int8(&params, upkeep->incarnation);
    pg_param_text(&params, slice_of(upkeep->node->config->listen));
    struct mono_time deadline = { began.us + UPKEEP_STATEMENT_US };
    if (pg_ready_until(upkeep->pg, deadline) &&
        pg_run(upkeep->pg, STATEMENT_NODE_HEARTBEAT, &params, deadline, &rows) == PG_DONE)
        take_beat(upkeep, rows, began);
    else
        fanout_table_unreadable(upkeep->node->fanout);
    pg_result_free(&rows);
}

void
presence_leave(struct upkeep *upkeep)
{
    struct mono_time deadline = { mono_now().us + UPKEEP_STATEMENT_US };
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, slice_of(upkeep->node->id));
    pg_param_int8(&params, upkeep->incarnation);
    pg_param_int8(&params, (int64_t)feed_last(upkeep->node->feed));
    if (!pg_ready_until(upkeep->pg, deadline) ||
        pg_run(upkeep->pg, STATEMENT_NODE_LEAVE, &params, deadline, NULL) != PG_DONE)
        LOG_EVENT(LOG_WARN, "row_left_behind", log_text("error", pg_last_error(upkeep->pg)));
}
