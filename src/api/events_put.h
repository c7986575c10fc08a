/*
 * events_put.h - the request of a PUT of an event, between its reading and its transaction.
 */
#ifndef HOLDFAST_EVENTS_PUT_H
#define HOLDFAST_EVENTS_PUT_H

#include "api_internal.h"
#include "events_internal.h"

struct area_row {
    struct slice area, name;
    int32_t capacity;
    bool has_price;
    int64_t price;
};

struct put {
    struct api_call *call;
    const struct cJSON *json;

    /* what the body says */
    struct event_row wish;
    struct seat_batch seats;
    int area_count;
    struct area_row *areas;
    struct field_errors list_errors; /* of seats and areas: they don't depend on what is stored */
    struct field_errors errors;
    int duplicate_count;
    struct seat_error *duplicates; /* seats that are in the body twice */

    /* what the transaction found */
    bool created, row_differs, focal_moved;
    struct seat_changes changes;
    int areas_changed;
    int areas_reclaimed; /* areas that lost lines that were over */
    int areas_short;     /* areas whose capacity is below what is held and sold */
    int64_t seat_count;
};

/* --- events_body.c -------------------------------------------------------------- */

/* Reads seats and areas; what is wrong goes to put->errors. They don't depend on what is stored. */
void put_read_lists(struct put *put);
/* Lays the body over what is stored (an empty row for a new event): put->wish. */
void put_read_event(struct put *put, const struct event_row *stored);
/* "seats[3].row"; the field alone for index -1. */
struct slice put_path(char *text, size_t bytes, const char *list, int index, const char *name);

#endif
