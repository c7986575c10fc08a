/*
 * statements.h - what the files of the fake store's statements share.
 */
#ifndef HOLDFAST_SIM_STATEMENTS_H
#define HOLDFAST_SIM_STATEMENTS_H

#include "store.h"

#define DATA_ERROR      "P0001"
#define UNIQUE_ERROR    "23505"
#define LOCK_ERROR      "55P03"

#define LOCK_TIMEOUT_US (500 * MS)

/* NULL: it failed with *sqlstate, which is NULL before. */
struct pg_result *statement_hold_seats(struct tx *tx, const struct call *call,
                                       const char **sqlstate);
struct pg_result *statement_change_holds(struct tx *tx, const struct call *call,
                                         const char **sqlstate);
struct pg_result *statement_return_seats(struct tx *tx, const struct call *call,
                                         const char **sqlstate);
struct pg_result *statement_read_seat(struct tx *tx, const struct call *call);
/* Those of checkouts and payments. */
struct pg_result *statement_of_checkout(struct tx *tx, const struct call *call,
                                        const char **sqlstate);
/* Adds a line as read_holds shows it. */
void statement_hold_row(const struct tx *tx, struct pg_result *rows, int pos,
                        const struct line_row *line);

#endif
