/*
 * read_map.c - a map from Postgres.
 */
#include "holdfast/cold.h"
#include "map_internal.h"

void
seat_map_reading_begin(struct seat_map_reading *reading, struct db_clock *clock,
                       const struct feed_position *feed)
{
    struct db_time now;
    int64_t error_us;

    *reading = (struct seat_map_reading){ .began = mono_now(), .feed = feed };
    if (db_clock_read(clock, reading->began, &now, &error_us))
        reading->now.us = now.us + error_us;
}

/* An idle connection's death shows only when it is used; a read may simply ask again. */
static enum pg_outcome
read_rows(struct pg *pg, enum pg_statement statement, struct slice org, struct slice event,
          struct mono_time deadline, struct pg_result **rows)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, org);
    pg_param_text(&params, event);
    enum pg_outcome outcome = pg_run(pg, statement, &params, deadline, rows);
    if ((outcome == PG_UNAVAILABLE || outcome == PG_UNKNOWN) && pg_ready_until(pg, deadline))
        outcome = pg_run(pg, statement, &params, deadline, rows);
    return outcome;
}

enum pg_outcome
seat_maps_read(struct seat_maps *maps, struct pg *pg, struct slice org, struct slice event,
               const struct seat_map_reading *reading, struct mono_time deadline)
{
    struct pg_result *seats = NULL;
    struct pg_result *areas = NULL;
    enum pg_outcome outcome = read_rows(pg, STATEMENT_READ_SEAT_MAP, org, event, deadline, &seats);

    if (outcome == PG_DONE)
        outcome = read_rows(pg, STATEMENT_READ_AREAS, org, event, deadline, &areas);
    if (outcome == PG_DONE && !seat_maps_load(maps, org, event, seats, areas, reading))
        outcome = PG_REPEAT;
    pg_result_free(&areas);
    pg_result_free(&seats);
    return outcome;
}
