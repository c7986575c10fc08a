/*
 * cells.h - values between the rooms and the fake store: parameters as cells, results as rows.
 */
#ifndef HOLDFAST_SIM_CELLS_H
#define HOLDFAST_SIM_CELLS_H

#include "holdfast/arena.h"
#include "holdfast/cold.h"

/* One value of any type; what its type doesn't need is zero. */
struct cell {
    bool null;
    int64_t number; /* bool, int, time in us */
    struct slice text;
    struct uuid uuid;
};

/* A statement on its way: parameters copied, each a list of cells (a scalar has one). */
struct call {
    enum pg_statement statement;
    int count;
    struct {
        int count;
        struct cell *cells;
    } params[PG_PARAMS_MAX];
    struct arena arena;
};

struct call *call_new(enum pg_statement statement, const struct pg_params *params);
void call_free(struct call *call);
/* Element `i` of parameter `param` (0..). */
const struct cell *call_cell(const struct call *call, int param, int i);
int64_t call_number(const struct call *call, int param, int i);
struct slice call_text(const struct call *call, int param, int i);
struct uuid call_uuid(const struct call *call, int param, int i);

/* Rows are added one after the other; cells that nobody sets are null. */
struct pg_result *rows_new(int columns);
void rows_add(struct pg_result *rows);
/* They concern the row added last. */
void rows_number(struct pg_result *rows, int column, int64_t number);
void rows_text(struct pg_result *rows, int column, const char *text);
void rows_uuid(struct pg_result *rows, int column, const struct uuid *uuid);

#endif
