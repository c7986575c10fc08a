/*
 * api_internal.h - what the files of this room share: one call, its route, its helpers.
 *
 * The way of one call, in the order the code runs:
 *   api.c      counts it against the limits, finds its route, asks who it is,
 *              checks ids of the path, the Content-Type and the Idempotency-Key
 *   <handler>  reads query and body, then answers, or hands over to engine or desk
 *   respond.c  writes status, headers, body; keeps the answer for a key; sends
 *
 * A handler runs on a loop thread and must not block. It leads to exactly one
 * respond_...(), at once or from another thread; after that the call is gone.
 *
 * Memory:  a call lives in its own arena, from the first line of api.c until the
 *          acceptor is through with the exchange. Everything that is allocated in
 *          call->arena, and every slice of the request, lives as long.
 * Threads: a call has one owner at a time.
 */
#ifndef HOLDFAST_API_INTERNAL_H
#define HOLDFAST_API_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/api.h"
#include "holdfast/api_keys.h"
#include "holdfast/arena.h"
#include "holdfast/desk.h"
#include "holdfast/engine.h"
#include "holdfast/http.h"
#include "holdfast/ids.h"
#include "holdfast/login_limit.h"
#include "holdfast/rate_limit.h"
#include "holdfast/slice.h"
#include "holdfast/status.h"
#include "holdfast/token.h"

#include "respond.h"

struct cJSON;
struct api_call;

/* --- routes (routes.c) --------------------------------------------------- */

enum route_access {
    ACCESS_OPEN,    /* no token is looked at */
    ACCESS_TOKEN,   /* any valid token */
    ACCESS_TICKET,  /* the same, or ?ticket=, which the handler looks at */
    ACCESS_SERVICE, /* role admin or service */
    ACCESS_ADMIN    /* role admin */
};

enum route_limit {
    LIMIT_NONE, /* probes and pages of the node itself; a webhook, which counts bad signatures */
    LIMIT_GENERAL,
    LIMIT_HOLD, /* shares the hold limit */
    LIMIT_MAP   /* a seat map: its event counts as a map */
};

enum route_body {
    BODY_NONE, /* a body is ignored */
    BODY_JSON, /* application/json, at most body_max */
    BODY_CSV   /* text/csv, at most import_body_max */
};

typedef void api_handler(struct api *api, struct api_call *call);

struct route {
    enum http_method method; /* a GET serves HEAD too */
    const char *pattern;     /* "/api/events/{event}/seats/{seat}" */
    enum route_access access;
    enum route_limit limit;
    enum route_body body;
    api_handler *handler;
    const char *name; /* static label of metrics and logs */
};

extern const struct route routes[];
extern const int route_count;

#define ROUTE_SEGMENTS_MAX 8
#define ROUTE_PARAMS_MAX   3

struct route_param {
    struct slice name;  /* "event" */
    struct slice value; /* decoded */
};

struct route_match {
    const struct route *route; /* NULL: nothing here, or not for this method */
    unsigned allow;            /* bit 1u << method for each method that this path takes */
    int param_count;
    struct route_param params[ROUTE_PARAMS_MAX];
};

/*
 * Replaces *text by its decoded copy in `arena` when it has escapes (a '+' is a space
 * only if `plus` says so). A bad escape leaves it as it is. False: no memory.
 */
HF_MUST_CHECK bool percent_decode(struct arena *arena, struct slice *text, bool plus);

/* Finds the route of `path`; decoded text is allocated in `arena`. False: no memory. */
HF_MUST_CHECK bool route_find(struct arena *arena, enum http_method method, struct slice path,
                              struct route_match *match);

/* --- the server and one call --------------------------------------------- */

struct api {
    struct node *node;
    struct token_verifier *verifier;
    struct rate_limiter *limiter;
    struct api_keys *keys;
    struct login_limit *logins;
    struct proxy_list *proxies;
    struct occupancies *occupancies;
    _Atomic int phase; /* enum api_phase */
    _Atomic int64_t unanswered;
};

/* Where the answer of a call with an Idempotency-Key stands. */
enum key_state {
    KEY_NONE,   /* the call has no key */
    KEY_OPEN,   /* the answer must still be kept: respond does it through the engine */
    KEY_SETTLED /* kept already (in the transaction of the call), or not to be kept */
};

struct api_call {
    struct api *api;
    struct http_exchange *exchange;
    const struct route *route;  /* NULL: none was found */
    struct arena arena;         /* holds this struct too */
    struct token_claims claims; /* empty on ACCESS_OPEN */
    struct route_match match;
    struct slice event;              /* {event} of the path: a valid id, or empty */
    struct slice seat;               /* {seat} */
    struct uuid hold_id;             /* {hold} */
    struct uuid checkout_id;         /* {checkout} */
    struct uuid intent_id;           /* {intent} */
    struct uuid checkin_id;          /* {checkin} */
    struct uuid waitlist_id;         /* {waitlist} */
    char client[ADDRESS_TEXT_BYTES]; /* whose request it is, behind the proxies */
    struct rate_result rate;
    struct mono_time deadline; /* request_timeout after the last byte came */
    struct cJSON *json;        /* the tree of call_json; freed with the call */
    void *state;               /* the handler's own, usually in call->arena */

    enum key_state key_state;
    struct slice key;       /* without its quotes */
    uint8_t key_digest[32]; /* see call_key_digest */
    bool key_digested;

    enum hf_status answered; /* for the metrics */
};

static inline struct slice
call_org(const struct api_call *call)
{
    return slice_of(call->claims.org);
}

static inline struct slice
call_user(const struct api_call *call)
{
    return slice_of(call->claims.user);
}

/* agent, service and admin may act for others. */
static inline bool
call_is_privileged(const struct api_call *call)
{
    return call->claims.role != ROLE_USER;
}

/* The value of `name` in the path, decoded; empty when the route has no such parameter. */
struct slice call_param(const struct api_call *call, const char *name);

/*
 * The first value of `name` in the query, percent-decoded in call->arena.
 * False: it is not there (or there is no memory). A bad escape stays as it was sent.
 */
bool call_query(struct api_call *call, const char *name, struct slice *value);

/*
 * The same as a whole number between min and max; `fallback` when it is not there.
 * False: it was no such number; a 400 invalid_field has been sent and the call is gone.
 */
HF_MUST_CHECK bool call_query_int(struct api_call *call, const char *name, int64_t min, int64_t max,
                                  int64_t fallback, int64_t *value);

/* The same as a time; *time stays as it is when it is not there. False: answered, as above. */
HF_MUST_CHECK bool call_query_time(struct api_call *call, const char *name, struct db_time *time);
/*
 * `from` and `to`: without them the day up to what was answered last. False: answered, as above; so
 * are times that lie the wrong way round.
 */
HF_MUST_CHECK bool call_query_range(struct api_call *call, struct db_time *from,
                                    struct db_time *to);

/*
 * The body as a JSON object; the tree lives as long as the call. NULL: the body was
 * empty, no JSON or no object; a 400 has been sent and the call is gone.
 */
HF_MUST_CHECK const struct cJSON *call_json(struct api_call *call);

/*
 * The beginning of its User-Agent, as plain ASCII: a header may have any bytes, the audit log takes
 * UTF-8 only. ptr NULL: no memory.
 */
struct slice call_user_agent(struct api_call *call);
/* From where the call comes, for the audit log: the client's address and its user agent. */
void call_add_origin(struct api_call *call, struct pg_params *params);

/*
 * The database's clock now; this machine's before the first round trip. Nothing that was committed
 * is later than this, its error and the leeway together, as far as this node knows.
 */
#define CLOCK_LEEWAY_US TIME_US_PER_S
struct db_time call_now(struct api *api, int64_t *error_us);

/*
 * SHA-256 over method, path and body into call->key_digest (once; a big body takes its
 * time: not on a loop). False: no memory.
 */
HF_MUST_CHECK bool call_key_digest(struct api_call *call);

/*
 * What the files of this room ask before the handler runs (auth.c). False: a refusal
 * has been sent and the call is gone.
 */
HF_MUST_CHECK bool call_authenticate(struct api_call *call);
HF_MUST_CHECK bool call_authorize(struct api_call *call);
/*
 * A passenger's token is for one event: whatever names another one (the path, which api.c looks at,
 * a field of the body, a query) is refused. False: so it was, and the call is gone.
 */
HF_MUST_CHECK bool call_may_use_event(struct api_call *call, struct slice event);
/* The same of a thing whose event the store told: what is of another event is as if it did not
 * exist. */
bool call_sees_event(const struct api_call *call, struct slice event);
/* Counts the call against its address's limits (api.c does, but for LIMIT_NONE). False: it is over
 * one, a 429 has been sent and the call is gone. */
HF_MUST_CHECK bool call_within_limits(struct api_call *call);

/* --- the desk's lane (desk_call.c) ---------------------------------------- */

typedef void desk_run(struct api_call *call, struct desk_tools *tools);
typedef void desk_fail(struct api_call *call, struct desk_tools *tools, enum hf_status status);

/*
 * Runs `run` on a desk thread with a ready connection; it must answer the call.
 * Queue full, deadline passed or Postgres away: the call is answered with 503.
 */
void call_on_desk(struct api_call *call, desk_run *run);

/* The same for a `run` that may take longer than a request does; it leaves a thread to the
 * others. */
void call_on_desk_long(struct api_call *call, desk_run *run);

/*
 * The same, but `fail` answers when Postgres is away or time is up, e.g. from memory
 * (tools is NULL when the queue was full: then it runs on the calling thread; tools->pg may be
 * NULL).
 */
void call_on_desk_or(struct api_call *call, desk_run *run, desk_fail *fail);

/* A read: pg_run, and once more on a new connection when the old one turned out to be dead. */
HF_MUST_CHECK enum pg_outcome call_read(struct api_call *call, struct desk_tools *tools,
                                        enum pg_statement statement, const struct pg_params *params,
                                        struct pg_result **rows);

/* The status that tells a client of an outcome other than PG_DONE; faults of ours are logged with
 * `pg`. */
enum hf_status call_outcome(struct api_call *call, enum pg_outcome outcome, const struct pg *pg);

/* --- handlers ------------------------------------------------------------- */

/* holds.c, holds_best.c, hold_read.c */
api_handler holds_best_post, holds_post, seat_hold_post, holds_list, hold_get, hold_patch,
    hold_extend, hold_delete, hold_seat_delete, hold_transfer, hold_confirm;

/* hold_read.c, at the desk: the hold of the path, in the call's arena. HF_HOLD_NOT_FOUND, or why it
 * couldn't be read. */
HF_MUST_CHECK enum hf_status hold_find(struct api_call *call, struct desk_tools *tools,
                                       struct hold_view **hold);

/* checkouts.c, checkout_pay.c, checkout_read.c */
api_handler checkouts_post, checkout_get, checkout_complete, checkout_cancel;

/* waitlist.c, waitlist_leave.c, waitlist_read.c */
api_handler waitlist_post, flight_waitlist_post, waitlist_list, flight_waitlist_list, waitlist_get,
    waitlist_delete;

/* payment_webhook.c, dead_letters.c */
api_handler payment_webhook_post, dead_letters_get, dead_letter_replay;

/* system.c, openapi.c */
api_handler health_get, ready_get, metrics_get, openapi_get, problem_page_get, home_get;

/* Beside other nodes a seat map may be this old: well under a second. */
#define SEAT_MAP_FRESH_US (500 * TIME_US_PER_MS)
/* seats_map.c: a map was served, and had to be read from Postgres or not. */
void seat_map_served(bool was_read);

/* flights.c */
api_handler flight_seatmap_get, flight_seat_hold, flight_seat_cancel, flight_hold_confirm;

/* seat_events.c */
api_handler flight_events_get;

/* events.c, import.c, seats.c, admin.c */
api_handler events_put, events_get, events_list, events_import, seats_map_get, show_seats_get,
    seat_get, seat_delete, seats_block, seats_unblock, admin_verify_get;

/* occupancy.c, occupancy_history.c, analytics.c */
api_handler occupancy_get, occupancy_history_get, analytics_get;
/* occupancy_count.c: whose event is being counted. NULL: no memory. */
struct occupancies *occupancies_new(struct node *node);
void occupancies_free(struct occupancies **occupancies);

/* audit_api.c */
api_handler audit_get;

/* admin_release.c */
api_handler seats_release;

/* checkins.c, checkins_import.c, baggage.c, pnr_login.c */
api_handler checkins_post, checkin_get, checkins_import, baggage_post, pnr_login_post;

/* stream.c, stream_ticket.c */
api_handler stream_get, stream_ticket_post;

/* registry.c */
api_handler registry_get, registry_reconcile;

/* webhooks_admin.c */
api_handler webhook_put, webhook_get, webhook_delete, webhook_letters_get, webhook_letters_replay;

/* peers.c */
struct json_writer;
void peers_write_metrics(struct buf *out, struct fanout *fanout);
/* "trusted", "peers_known" and "peers_heard", as fields of an object. */
void peers_write_summary(struct json_writer *w, struct fanout *fanout);
/* What this node has heard of the peer of that incarnation, as fields of an object. */
void peers_write_one(struct json_writer *w, struct fanout *fanout, int64_t incarnation);

/* abuse.c */
api_handler abuse_recent_get, abuse_unblock_post;

#endif
