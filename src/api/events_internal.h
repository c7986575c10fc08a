/*
 * events_internal.h - what the handlers of events, seats and imports share.
 *
 *   events_policy.c  the fields of a policy: names, limits, defaults, JSON
 *   events_tx.c      a write of the desk as one transaction, repeated where that helps
 *   seats_batch.c    seats on their way to Postgres, in portions
 *   events_put.c     PUT of an event (events_body.c reads its body, events_put.h is between them)
 *   events_read.c    GET of one and of all
 *   csv.c, csv_table.c, import_rows.c, import.c  seats from a CSV file
 *   seat_ids.c       the seats that an administrator's request names
 *   seats_tell.c     what a transaction changed, told to memory, streams and peers
 */
#ifndef HOLDFAST_EVENTS_INTERNAL_H
#define HOLDFAST_EVENTS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/arena.h"
#include "holdfast/cold.h"
#include "holdfast/engine.h"
#include "holdfast/events.h"
#include "holdfast/json.h"
#include "holdfast/slice.h"
#include "holdfast/status.h"

struct cJSON;
struct api_call;
struct field_errors;
struct seat_columns;

/* --- events_policy.c -------------------------------------------------------- */

/* In the order of the columns of read_events and the parameters of put_event. */
enum policy_name {
    POLICY_HOLD_TTL,
    POLICY_EXTEND_BY,
    POLICY_MAX_HOLD,
    POLICY_MAX_SEATS_PER_HOLD,
    POLICY_MAX_SEATS_PER_USER,
    POLICY_ONE_HOLD_PER_USER,
    POLICY_ONE_SEAT_PER_USER,
    POLICY_NO_SINGLE_SEAT_GAP,
    POLICY_PAYMENT_TIMEOUT,
    POLICY_REHOLD_COOLDOWN,
    POLICY_WAITLIST_MODE, /* 0 offer, 1 confirm */
    POLICY_WAITLIST_OFFER_TTL,
    POLICY_COUNT
};

#define EVENT_NAME_BYTES_MAX 255

/* A row of `events`. Text lives in the call's arena or in the result it was read from. */
struct event_row {
    struct slice event, name;
    enum event_kind kind;
    enum event_status status;
    char currency[4];
    int64_t version; /* 0: there is no such row yet */
    int32_t policy[POLICY_COUNT];
    bool has_focal; /* the point that the best seats are nearest to */
    float focal_x, focal_y;
};

void policy_defaults(int32_t policy[POLICY_COUNT], enum event_kind kind,
                     int64_t max_seats_per_hold);
/* Takes the fields that `json` (an object) names into `policy`; what is wrong goes to `errors`. */
void policy_read_json(struct arena *arena, int32_t policy[POLICY_COUNT], const struct cJSON *json,
                      struct field_errors *errors);
/* What the fields must be together, e.g. hold_ttl <= max_hold. */
void policy_check(struct arena *arena, const int32_t policy[POLICY_COUNT],
                  struct field_errors *errors);
void policy_add_params(struct pg_params *params, const int32_t policy[POLICY_COUNT]);

/* A row of read_events or list_events; the name is copied into `arena`. False: no memory, or not
 * readable. */
HF_MUST_CHECK bool event_row_read(struct arena *arena, const struct pg_result *rows, int row,
                                  struct event_row *event);
/* Members of the event's JSON object, without its braces. */
void event_row_write(struct json_writer *w, const struct event_row *event);
/* Tells the node's memory. `read_at`: when the read that it rests on began. */
void event_row_learn(struct node *node, struct slice org, const struct event_row *event,
                     struct mono_time read_at);
/*
 * Reads the event's row. HF_OK, HF_EVENT_NOT_FOUND, or why it could not be read.
 * A row that is there is learned.
 */
HF_MUST_CHECK enum hf_status event_row_find(struct api_call *call, struct pg *pg, struct slice org,
                                            struct slice event_id, struct event_row *event);

/* --- events_tx.c -------------------------------------------------------------- */

/*
 * The statements of one transaction: sends them, reads their results, and tells what to do.
 * HF_OK commits. Anything else rolls back and is the answer, but for HF_SEAT_CONTENDED, which
 * runs it again while that may help. May be called several times: it begins from scratch.
 * After a NULL from pg_tx_next it returns HF_INTERNAL: what failed is found out here.
 */
typedef enum hf_status tx_body(struct pg *pg, void *context);

/*
 * Runs it; HF_OK: it is committed. `pg` is connected (a desk's tools). `node`: whose memory is
 * doubted when the outcome is lost; NULL for a command, which has none.
 */
HF_MUST_CHECK enum hf_status tx_run(struct node *node, struct pg *pg, struct mono_time deadline,
                                    tx_body *body, void *context);

/* Before a transaction whose plans must fit the tables as they are now. */
void tx_replan(struct pg *pg);

/* --- seats_batch.c ------------------------------------------------------------ */

#define SEAT_TEXT_BYTES_MAX  128 /* of section, row, number, type */
#define ATTRIBUTES_BYTES_MAX 4096

struct seat_row {
    struct slice seat, section, row, number;
    struct slice type;       /* ptr NULL: none */
    struct slice attributes; /* JSON object; ptr NULL: none */
    bool has_price, has_x, has_y;
    int64_t price;
    double x, y;
};

struct seat_chunk;
struct id_slot;

/* Seats to write: columns in portions, and the set of their ids. Zeroed, it is empty. */
struct seat_batch {
    int64_t count;
    struct seat_chunk *first, *last;
    struct id_slot *slots; /* a hash set, at most half full */
    size_t slot_count;
    bool failed; /* no memory */
};
void seat_batch_fini(struct seat_batch *batch);
/* False: its id is in the batch already. Ids are borrowed until seat_batch_fini, the rest is
 * copied. */
HF_MUST_CHECK bool seat_batch_add(struct seat_batch *batch, const struct seat_row *row);

/* Seats that stood and were changed by an import, as the statement returned them. */
struct seat_changes {
    int64_t added, changed;
    int64_t event_version; /* of the event's row, if an import changed it */
    int result_count;
    struct pg_result **results; /* one a portion */
};
void seat_changes_fini(struct seat_changes *changes);
/* Whose seats they are, who sends them and from where (empty: the system, none). */
struct seat_origin {
    struct slice org, event, actor, request_id, client_ip, user_agent;
};

/*
 * Writes the batch inside an open transaction, before which tx_replan was called. False: pg_tx_next
 * failed, or no memory.
 */
HF_MUST_CHECK bool seat_batch_send(struct pg *pg, const struct seat_batch *batch,
                                   const struct seat_origin *origin, struct seat_changes *changes);
/* Columns of change_seats, for seats_tell. */
extern const struct seat_columns seat_change_columns;

/* --- seat_ids.c ----------------------------------------------------------------- */

/*
 * The seats of `list` (the field seat_ids), in the order of their keys, in the call's arena. NULL:
 * it is no list of valid ids, none of them twice; the call is answered.
 */
HF_MUST_CHECK struct slice *seat_ids_read(struct api_call *call, const struct cJSON *list,
                                          int *count);

/* --- seats_tell.c --------------------------------------------------------------- */

/*
 * Columns that a statement returns a seat's state in; -1: it has none such. now: the clock reading;
 * ended: the hold that was over and was ended first. A row whose seat column is null is passed
 * over.
 */
struct seat_columns {
    int seat, version, status, hold, user, until, in_payment, now, ended;
};

/* A committed transaction that changed an event. */
struct tell {
    struct node *node;
    struct slice org, event;
    struct mono_time began;
    enum feed_reason reason; /* why seats that are free now were freed */
};

/* Tells of the rows for which `wanted` says yes (NULL: of all). Before the request is answered. */
void seats_tell(const struct tell *tell, const struct pg_result *rows,
                const struct seat_columns *columns,
                bool (*wanted)(const struct pg_result *rows, int row));
/* FEED_EVENT: its row has this version now. FEED_SEATS (version 0): its map must be read again. */
void event_tell(const struct tell *tell, enum feed_kind kind, int64_t version);

/* One row as a view of its seat. False: a status that this binary doesn't know. */
HF_MUST_CHECK bool seat_view_read(const struct pg_result *rows, int row,
                                  const struct seat_columns *columns, struct seat_view *view);

/* --- import_rows.c ---------------------------------------------------------------- */

struct import_errors;

/*
 * Reads a CSV file into `batch`. Every line that is wrong is told in `errors`.
 * `arena` gets texts whose quotes had to be undone. False: no memory.
 */
HF_MUST_CHECK bool import_read_csv(struct arena *arena, struct slice csv, struct seat_batch *batch,
                                   struct import_errors *errors);

#endif
