/*
 * hold_request.h - the bodies of requests about holds: one table of fields a body, one reader.
 *
 * All fields are looked at before anything is refused, so that a client hears of all
 * its mistakes at once. A null is the same as leaving the field out; unknown fields
 * are ignored.
 *
 * Memory: slices point into the body, lists are in the call's arena.
 * Limits: SEATS_IN_REQUEST_MAX seats, as many areas and as many holds in one request.
 */
#ifndef HOLDFAST_HOLD_REQUEST_H
#define HOLDFAST_HOLD_REQUEST_H

#include "api_internal.h"

#define SEATS_IN_REQUEST_MAX 500 /* max_seats_per_hold can't be set higher */

struct seat_list {
    int count;
    struct op_seat *items;
};

struct area_list {
    int count;
    struct op_area *items;
};

struct uuid_list {
    int count;
    struct uuid *items;
};

/* What some body of a request about holds may say; what was not said is zero. */
struct hold_request {
    struct slice event, cart_token, user, to_user, source, customer_email, reason, notes;
    struct slice payment_method;
    struct slice section, type;
    int64_t quantity, price_min, price_max;
    bool adjacent, accessible;
    struct slice intent, verdict, provider_key; /* a payment provider's webhook */
    struct slice last_name, pnr;                /* of check-ins and logins */
    int64_t weight;                             /* of a bag, in hundredths of a kilogram */
    struct seat_list seats; /* seat_ids, add_seat_ids; of a confirm: those whose version counts */
    struct seat_list drop;  /* remove_seat_ids */
    struct area_list areas;
    struct uuid_list holds;
    int64_t ttl_s;
    int64_t seconds;
    uint32_t given;      /* bit i: the body has field i of its spec, and not null */
    bool has_seed_names; /* showId or showSeatIds: the server makes the cart token */
};

enum field_type {
    FIELD_ID,       /* struct slice: an identifier */
    FIELD_WORD,     /* struct slice: 1..max characters, none of them a control */
    FIELD_PROSE,    /* struct slice: 0..max characters; lines are fine */
    FIELD_EMAIL,    /* struct slice */
    FIELD_SOURCE,   /* struct slice: web, scanner or offline_sync */
    FIELD_VERDICT,  /* struct slice: succeeded or failed */
    FIELD_INT,      /* int64_t: min..max */
    FIELD_COUNT,    /* int64_t: min.., INT64_MAX for whatever is more than that */
    FIELD_WEIGHT,   /* int64_t: hundredths, rounded up, of a number that isn't negative */
    FIELD_BOOL,     /* bool */
    FIELD_SEAT_IDS, /* struct seat_list */
    FIELD_VERSIONS, /* struct seat_list from {seat: version} */
    FIELD_AREAS,    /* struct area_list; quantities min..max */
    FIELD_WISH,     /* {seatType?, section?}, each up to max characters: `type` and `section` */
    FIELD_HOLD_IDS  /* struct uuid_list */
};

struct field_spec {
    const char *name;
    enum field_type type;
    size_t offset; /* in struct hold_request; specs of one offset are names of one field */
    int64_t min, max;
    bool is_needed;
    bool is_seed_name;
};

struct body_spec {
    bool is_optional; /* an empty body is fine */
    const struct field_spec *fields;
    int count;
};

/* Whether a text that didn't come in JSON could be a FIELD_WORD of 1 to max characters. */
bool word_is_good(struct slice text, int64_t max);

/* False: the body was refused and the call is gone. */
HF_MUST_CHECK bool hold_request_read(struct api_call *call, const struct body_spec *spec,
                                     struct hold_request *request);

#endif
