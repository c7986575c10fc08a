/*
 * statements.h - what the files of the fake store's statements share.
 */
#ifndef HOLDFAST_SIM_STATEMENTS_H
#define HOLDFAST_SIM_STATEMENTS_H

#include "store.h"

#define DATA_ERROR   "P0001"
#define UNIQUE_ERROR "23505"
#define LOCK_ERROR   "55P03"

/* NULL: it failed with *sqlstate, which is NULL before. */
struct pg_result *statement_hold_seats(struct tx *tx, const struct call *call,
                                       const char **sqlstate);
struct pg_result *statement_change_holds(struct tx *tx, const struct call *call,
                                         const char **sqlstate);

#endif
