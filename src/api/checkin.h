/*
 * checkin.h - a check-in as rows tell it and as JSON shows it, and who may see it.
 */
#ifndef HOLDFAST_CHECKIN_H
#define HOLDFAST_CHECKIN_H

#include "api_internal.h"
#include "holdfast/json.h"

#define LAST_NAME_MAX 128 /* characters */

/* Columns of read_checkin; find_checkin has others behind them. */
enum {
    CI_CHECKIN,
    CI_EVENT,
    CI_PASSENGER,
    CI_LAST_NAME,
    CI_STATE,
    CI_WEIGHT,
    CI_INTENT,
    CI_SEAT,
    CI_CREATED,
    CI_TOKEN_ENDS
};

/* A passenger's own; those who act for others see all. Another's is as if it did not exist. */
bool checkin_is_visible(const struct api_call *call, const struct pg_result *rows);

/* op_json: `rows` is a result of read_checkin. */
void checkin_json_write(struct json_writer *w, const void *rows);

/* "name": the uuid of that column, or null. */
void checkin_json_uuid(struct json_writer *w, const char *name, const struct pg_result *rows,
                       int column);
/* The same of a text. */
void checkin_json_text(struct json_writer *w, const char *name, const struct pg_result *rows,
                       int column);

/* A name or a PNR without its surrounding blanks and controls. */
struct slice trim_blanks(struct slice text);

/* Sends read_checkin within a transaction. */
void checkin_send_read(struct pg *pg, struct slice org, const struct uuid *checkin);

/* A passenger's check-in for a flight, as a request or a line of a list says it. */
struct checkin_wish {
    struct slice event, passenger, last_name;
};
/*
 * Sends put_checkins for `count` of them (no passenger of a flight twice) within a transaction. The
 * new ids are made here.
 */
void checkins_send_put(struct pg *pg, struct api_call *call, const struct checkin_wish *wishes,
                       size_t count);
/* Columns of put_checkins. */
enum { PC_EVENT, PC_PASSENGER, PC_CHECKIN, PC_MADE, PC_CHANGED };

#endif
