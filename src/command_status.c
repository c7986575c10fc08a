/*
 * command_status.c - `holdfast status`: the stores, the living nodes and the sales, at a glance.
 *
 * Reads what stands in Postgres and asks Redis who it is; no node is asked. Only a Postgres that
 * can't be used fails the command: without Redis holdfast works.
 */
#include <stdio.h>

#include "commands.h"
#include "holdfast/cold.h"
#include "holdfast/log.h"
#include "holdfast/warm.h"

#define STATEMENT_US (10 * (int64_t)TIME_US_PER_S)

/* NULL: it failed, and stderr says why. */
static struct pg_result *
ask(struct pg *pg, enum pg_report report)
{
    struct mono_time deadline = { mono_now().us + STATEMENT_US };
    struct pg_result *rows = NULL;

    if (pg_run_text(pg, pg_report_text(report), 0, NULL, deadline, &rows) == PG_DONE)
        return rows;
    fprintf(stderr, "holdfast status: %s\n", pg_last_error(pg));
    return NULL;
}

/* --- the stores ------------------------------------------------------------------------- */

/* Columns of postgres_server. */
enum { VERSION, SYSTEM_IDENTIFIER, TIMELINE };

static bool
show_postgres(struct pg *pg)
{
    struct mono_time sent = mono_now();
    struct pg_result *rows = ask(pg, REPORT_POSTGRES_SERVER);
    int64_t us = mono_now().us - sent.us;

    if (rows == NULL)
        return false;
    struct slice system = pg_get_text(rows, 0, SYSTEM_IDENTIFIER);
    printf("postgres  up, version %.*s, system %.*s, timeline %lld, round trip %lld.%03lld ms\n",
           SLICE_ARG(pg_get_text(rows, 0, VERSION)),
           SLICE_ARG(system.len > 0 ? system : SLICE_LITERAL("(hidden)")),
           (long long)pg_get_int(rows, 0, TIMELINE), (long long)(us / TIME_US_PER_MS),
           (long long)(us % TIME_US_PER_MS));
    pg_result_free(&rows);
    return true;
}

static void
show_redis(const struct config *config)
{
    struct warm_tier *tier = warm_tier_new(config);
    struct warm *warm = tier != NULL ? warm_new(config, tier) : NULL;
    char run_id[WARM_RUN_ID_BYTES];

    if (warm == NULL)
        printf("redis     not asked: no memory\n");
    else if (!warm_is_on(warm))
        printf("redis     off\n");
    else if (warm_run_id(warm, run_id))
        printf("redis     up, run id %s\n", run_id);
    else
        printf("redis     down\n");
    warm_free(&warm);
    warm_tier_free(&tier);
}

/* --- the nodes ----------------------------------------------------------------------------- */

/* Columns of nodes. */
enum { NODE_ID, INCARNATION, ADDRESS, HEARTBEAT_AGE_MS };

static bool
show_nodes(struct pg *pg)
{
    struct pg_result *rows = ask(pg, REPORT_NODES);

    if (rows == NULL)
        return false;
    printf("nodes     %d\n", pg_rows(rows));
    for (int row = 0; row < pg_rows(rows); row++)
        printf("  %.*s  incarnation %lld, at %.*s, heartbeat %lld ms ago\n",
               SLICE_ARG(pg_get_text(rows, row, NODE_ID)),
               (long long)pg_get_int(rows, row, INCARNATION),
               SLICE_ARG(pg_get_text(rows, row, ADDRESS)),
               (long long)pg_get_int(rows, row, HEARTBEAT_AGE_MS));
    pg_result_free(&rows);
    return true;
}

/* --- the sales ------------------------------------------------------------------------------- */

/* Columns of sales. */
enum { ORG, EVENT, AVAILABLE, HELD, SOLD, EVENTS };

static bool
show_sales(struct pg *pg)
{
    struct pg_result *rows = ask(pg, REPORT_SALES);

    if (rows == NULL)
        return false;
    int count = pg_rows(rows);
    int64_t events = count > 0 ? pg_get_int(rows, 0, EVENTS) : 0;
    printf("on sale   %lld events\n", (long long)events);
    for (int row = 0; row < count; row++)
        printf("  %.*s %.*s  held %lld, sold %lld, available %lld\n",
               SLICE_ARG(pg_get_text(rows, row, ORG)), SLICE_ARG(pg_get_text(rows, row, EVENT)),
               (long long)pg_get_int(rows, row, HELD), (long long)pg_get_int(rows, row, SOLD),
               (long long)pg_get_int(rows, row, AVAILABLE));
    if (events > count)
        printf("  and %lld more\n", (long long)(events - count));
    pg_result_free(&rows);
    return true;
}

int
command_status(const struct config *config, int argc, char **argv)
{
    struct command_store store;

    if (command_takes_no_words(argc, argv) != EXIT_DONE)
        return EXIT_USAGE;
    log_init(LOG_ERROR, "status");
    bool up = command_store_open(&store, config, "status");
    if (!up)
        printf("postgres  down\n");
    else
        up = show_postgres(store.pg);
    show_redis(config);
    bool whole = up && show_nodes(store.pg) && show_sales(store.pg);
    command_store_fini(&store);
    return whole ? EXIT_DONE : EXIT_FAILED;
}
