/*
 * seat_import.h - seats of an event from a CSV file: all of them or none.
 *
 * Callers:  the API's route, and `holdfast import`.
 * Threads:  any, one at a time per connection; blocks on Postgres.
 * Memory:   the batch takes about as much again as the file while it runs.
 * Limits:   IMPORT_ERRORS_MAX errors are kept; the file's size is the caller's business.
 */
#ifndef HOLDFAST_SEAT_IMPORT_H
#define HOLDFAST_SEAT_IMPORT_H

#include <stdint.h>

#include "holdfast/arena.h"
#include "holdfast/buf.h"
#include "holdfast/clock.h"
#include "holdfast/cold.h"
#include "holdfast/slice.h"
#include "holdfast/status.h"

#define IMPORT_ERRORS_MAX 1000

struct import_error {
    int64_t line;       /* counted from 1, the header's */
    struct slice field; /* cut from the file, or static; may be empty */
    const char *reason; /* static text */
};

struct import_errors {
    int64_t count; /* all; the first IMPORT_ERRORS_MAX of them are kept */
    struct import_error items[IMPORT_ERRORS_MAX];
};

struct node;

/* Borrowed for the call. */
struct seat_import {
    struct node *node; /* whose memory the seats may be in; NULL: nobody's, it is a command */
    struct slice org, event;
    struct slice actor, request_id, client_ip, user_agent; /* empty: the system, none */
    struct slice csv;
    struct mono_time deadline;
};

struct seat_changes;

struct seat_import_result {
    int64_t imported, updated;    /* seats that are new, and that stood and differ now */
    struct import_errors *errors; /* in the arena; NULL: the file is fine */
    struct seat_changes *changes; /* in the arena; for telling memory */
};

/*
 * HF_OK: committed. HF_INVALID_FIELD: result->errors says what is wrong with the file.
 * HF_EVENT_NOT_FOUND, or why it could not be done. Nothing was imported then.
 */
HF_MUST_CHECK enum hf_status seat_import_run(struct pg *pg, struct arena *arena,
                                             const struct seat_import *import,
                                             struct seat_import_result *result);
/* Gives the results' rows back; the arena's memory stays. */
void seat_import_result_fini(struct seat_import_result *result);

/* {"imported":…,"updated":…,"errors":[…]} */
void seat_import_write(struct buf *out, const struct seat_import_result *result);

#endif
