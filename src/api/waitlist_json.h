/*
 * waitlist_json.h - one entry of a waitlist, as every answer shows it; and as it is read.
 */
#ifndef HOLDFAST_WAITLIST_JSON_H
#define HOLDFAST_WAITLIST_JSON_H

#include "api_internal.h"
#include "holdfast/json.h"

#define NO_WAITLIST_ENTRY "There is no such entry of a waitlist."

/* Columns of read_waiting; of list_waiting, which goes on behind them. */
enum waiting_column {
    WAITING_ENTRY,
    WAITING_PLACE,
    WAITING_EVENT,
    WAITING_USER,
    WAITING_STATE,
    WAITING_POSITION,
    WAITING_TYPE,
    WAITING_SECTION,
    WAITING_SEAT,
    WAITING_HOLD,
    WAITING_CREATED,
    WAITING_UNTIL,
    WAITING_KIND
};

void waitlist_json_entry(struct json_writer *w, const struct pg_result *rows, int row);

/* Answers with the entry that the path names, as it stands. Another's is as if it did not exist,
 * but for those who act for others. On the desk. */
void waitlist_answer_entry(struct api_call *call, struct desk_tools *tools);

#endif
