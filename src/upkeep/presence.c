/*
 * presence.c - this node among the living ones, and what follows when it is alone.
 *
 * Alone, memory needs no lease: nobody else changes anything. So whenever somebody was
 * there beside us, be it for a moment (the sequence of incarnations moved), what memory
 * knows rests on reads before that and is void: distrust first, then trust anew.
 *
 * A crashed node's row lives for 10 s. Who starts again under the same name watches that
 * row for two beats: if it moves, the other one lives; if not, it is taken over.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "holdfast/events.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"
#include "holdfast/seat_map.h"
#include "upkeep_internal.h"

#define WATCH_US      (2500 * (int64_t)TIME_US_PER_MS) /* two heartbeats, and half of one to be late */
#define LOOK_US       (100 * TIME_US_PER_MS)
#define ALONE_READ_US (2 * (int64_t)TIME_US_PER_S)
#define JOIN_US       (5 * (int64_t)TIME_US_PER_S)
#define PATIENCE_US   (20 * (int64_t)TIME_US_PER_S)

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

/* True: the row stood still as *seen_at has it. False: it moved (or is gone: then *seen_at is 0).
 */
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
        upkeep->newest = upkeep->incarnation;
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

/* --- alone or not ------------------------------------------------------------------ */

static void
void_memory(struct upkeep *upkeep)
{
    hot_table_distrust(upkeep->node->hot);
    seat_maps_distrust(upkeep->node->maps);
    events_forget(upkeep->node->events);
}

static void
set_alone(struct upkeep *upkeep, bool alone)
{
    if (upkeep->alone == alone)
        return;
    if (alone)
        void_memory(upkeep); /* who was here may have left something that we never heard of */
    upkeep->alone = alone;
    hot_table_set_trusted(upkeep->node->hot, alone);
    seat_maps_set_trusted(upkeep->node->maps, alone);
    LOG_EVENT(LOG_INFO, alone ? "alone" : "not_alone", log_int("incarnation", upkeep->incarnation));
}

/* What may commit any moment, unheard of, is as a peer that writes. */
void
presence_check_age(struct upkeep *upkeep)
{
    if (mono_now().us - upkeep->alive_at.us > ALONE_READ_US ||
        engine_is_in_doubt(upkeep->node->engine))
        set_alone(upkeep, false);
}

/* Columns of node_heartbeat. */
enum { MINE, OTHERS, NEWEST };

static void
take_beat(struct upkeep *upkeep, const struct pg_result *rows, struct mono_time began)
{
    int64_t others = pg_get_int(rows, 0, OTHERS);
    int64_t newest = pg_get_int(rows, 0, NEWEST);
    bool mine = pg_get_bool(rows, 0, MINE);

    metric_set(METRIC_NODES_ALIVE, others + 1);
    if (!mine)
        LOG_EVENT(LOG_ERROR, "name_taken_over", log_int("incarnation", upkeep->incarnation));
    if (newest != upkeep->newest) {
        upkeep->newest = newest;
        void_memory(upkeep);
    }
    upkeep->alive_at = began;
    set_alone(upkeep, mine && others == 0 && !engine_is_in_doubt(upkeep->node->engine));
}

void
presence_heartbeat(struct upkeep *upkeep)
{
    struct mono_time began = mono_now();
    struct pg_params params;
    struct pg_result *rows = NULL;

    if (!pg_is_connected(upkeep->pg))
        set_alone(upkeep, false); /* connecting may take longer than trust lasts */
    pg_params_init(&params);
    pg_param_text(&params, slice_of(upkeep->node->id));
    pg_param_int8(&params, upkeep->incarnation);
    pg_param_text(&params, slice_of(upkeep->node->config->listen));
    struct mono_time deadline = { began.us + UPKEEP_STATEMENT_US };
    if (pg_ready_until(upkeep->pg, deadline) &&
        pg_run(upkeep->pg, STATEMENT_NODE_HEARTBEAT, &params, deadline, &rows) == PG_DONE)
        take_beat(upkeep, rows, began);
    else
        set_alone(upkeep, false);
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
    if (!pg_ready_until(upkeep->pg, deadline) ||
        pg_run(upkeep->pg, STATEMENT_NODE_LEAVE, &params, deadline, NULL) != PG_DONE)
        LOG_EVENT(LOG_WARN, "row_left_behind", log_text("error", pg_last_error(upkeep->pg)));
}
