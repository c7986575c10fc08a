/*
 * warm_start.c - the hot table before the first request: what is held and sold, with timers.
 */
#include <stdio.h>

#include "holdfast/log.h"
#include "upkeep_internal.h"

#define PORTION 5000

/* Columns of read_taken_seats. */
enum { ORG, EVENT, SEAT, STATUS, IN_PAYMENT, VERSION, HOLD, USER, UNTIL };

/* The last key that was read; the next portion begins behind it. */
struct position {
    char org[ID_BYTES_MAX + 1];
    char event[ID_BYTES_MAX + 1];
    char seat[ID_BYTES_MAX + 1];
};

static struct pg_result *
read_portion(struct pg *pg, const struct position *after, struct mono_time deadline)
{
    struct pg_params params;
    struct pg_result *rows = NULL;

    pg_params_init(&params);
    pg_param_text(&params, slice_of(after->org));
    pg_param_text(&params, slice_of(after->event));
    pg_param_text(&params, slice_of(after->seat));
    pg_param_int4(&params, PORTION);
    if (pg_run(pg, STATEMENT_READ_TAKEN_SEATS, &params, deadline, &rows) != PG_DONE)
        return NULL;
    return rows;
}

static void
move_on(struct position *position, const struct pg_result *rows)
{
    int last = pg_rows(rows) - 1;

    snprintf(position->org, sizeof(position->org), "%.*s", SLICE_ARG(pg_get_text(rows, last, ORG)));
    snprintf(position->event, sizeof(position->event), "%.*s",
             SLICE_ARG(pg_get_text(rows, last, EVENT)));
    snprintf(position->seat, sizeof(position->seat), "%.*s",
             SLICE_ARG(pg_get_text(rows, last, SEAT)));
}

static void
learn_row(struct node *node, const struct pg_result *rows, int row, struct db_time now,
          struct mono_time began)
{
    struct slice user = pg_get_text(rows, row, USER);
    struct seat_key key = { pg_get_text(rows, row, ORG), pg_get_text(rows, row, EVENT),
                            pg_get_text(rows, row, SEAT) };
    struct seat_view view = {
        .in_payment = pg_get_bool(rows, row, IN_PAYMENT),
        .hold_id = pg_get_uuid(rows, row, HOLD),
        .user_hash = user.len > 0 ? hash_seeded(user.ptr, user.len) : 0,
        .held_until = pg_get_time(rows, row, UNTIL),
        .version = pg_get_int(rows, row, VERSION),
    };

    if (!id_is_valid(key.org) || !id_is_valid(key.event) || !id_is_valid(key.seat) ||
        !seat_status_parse(pg_get_text(rows, row, STATUS), &view.status))
        return; /* a row written by hand */
    /* What is over already is the reaper's first sweep's. */
    bool arm = view.status == SEAT_HELD && view.held_until.us > now.us;
    hot_table_learn(node->hot, &key, &view, began, arm);
}

static bool
learn_all(struct node *node, struct pg *pg, int64_t *learned)
{
    struct position position = { "", "", "" };
    struct db_time now = { 0 };
    int64_t error_us;

    while (*learned < node->config->hot_seats_max && pg_ready(pg)) {
        struct mono_time began = mono_now();
        struct mono_time deadline = { began.us + node->config->request_timeout };
        struct pg_result *rows = read_portion(pg, &position, deadline);
        if (rows == NULL)
            return false;
        if (!db_clock_read(node->clock, mono_now(), &now, &error_us))
            now.us = 0;
        int count = pg_rows(rows);
        for (int row = 0; row < count && *learned < node->config->hot_seats_max;
             row++, (*learned)++)
            learn_row(node, rows, row, now, began);
        if (count > 0)
            move_on(&position, rows);
        pg_result_free(&rows);
        if (count < PORTION)
            return true;
    }
    return *learned >= node->config->hot_seats_max;
}

bool
upkeep_warm_start(struct node *node)
{
    struct pg *pg = pg_new(node->config, "holdfast warm start", node->identity, node->clock);
    struct mono_time began = mono_now();
    int64_t learned = 0;
    if (pg == NULL)
        return false;
    bool whole = learn_all(node, pg, &learned);
    LOG_EVENT(whole ? LOG_INFO : LOG_WARN, "warm_start", log_int("seats", learned),
              log_int("ms", (mono_now().us - began.us) / TIME_US_PER_MS));
    pg_free(&pg);
    return whole;
}
