/*
 * op.h - one thing that somebody wants done to a hold, and what became of it.
 *
 * Life: the API (or the node itself, for expiry) makes an op, fills the request
 * part and hands it to engine_submit. The engine fills the result part and calls
 * op->finish (writes the answer from the result) and then, exactly once, op->send
 * (gives the answer away), from any thread. The op's owner frees it.
 *
 * Between finish and send of an op with an Idempotency-Key the engine stores the
 * answer in the op's own transaction; if that has to be repeated, finish is called
 * again and writes the answer anew. finish must depend on the result only.
 */
#ifndef HOLDFAST_OP_H
#define HOLDFAST_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/arena.h"
#include "holdfast/buf.h"
#include "holdfast/clock.h"
#include "holdfast/events.h"
#include "holdfast/hot_table.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"
#include "holdfast/status.h"

enum op_kind {
    OP_HOLD, /* take seats and areas for user */
    OP_EXTEND,
    OP_CANCEL, /* release the whole hold */
    OP_REMOVE, /* release `drop` seats of it */
    OP_CONFIRM,
    OP_TRANSFER, /* to to_user */
    OP_PATCH,    /* add `seats`, release `drop`, set `areas` */
    OP_EXPIRE,   /* the hold's time may have come; by the node itself */
    OP_RETURN,   /* seats[0], held or sold, of `user` (empty: of whoever has it) is free again */
    /*
     * A free seat to the first on the event's waitlist whom it fits. HF_CREATED: somebody has one;
     * HF_NOT_FOUND: nobody is to be served now; HF_SEAT_CONTENDED: others are at it, try again.
     */
    OP_ASSIGN,

    /* Of a checkout: each a transaction of its own, all or nothing. */
    OP_CHECKOUT_START,  /* of `holds`, or of all that user has there */
    OP_CHECKOUT_CANCEL, /* releases its holds */
    /*
     * Stores the intent, marks its holds as in payment. HF_OK and not `same`: the provider is to be
     * asked, and OP_PAY_SETTLE has the answer (and keeps it for an Idempotency-Key). `same`:
     * nothing to be asked, the checkout is completed or being paid already, as `checkout` tells.
     */
    OP_PAY,
    /*
     * What became of the payment: sells, releases, or takes the mark back. HF_OK whenever the
     * intent's state is known, whichever it is: the answer follows checkout->intent_status.
     */
    OP_PAY_SETTLE,

    OP_ANSWER /* the answer is ready (status set): only keep it for the Idempotency-Key */
};

enum hold_status { HOLD_ACTIVE, HOLD_CONVERTED, HOLD_EXPIRED, HOLD_CANCELLED };
const char *hold_status_word(enum hold_status status);
bool hold_status_parse(struct slice word, enum hold_status *status);

/* A seat that a request names, and what became of it. */
struct op_seat {
    struct slice id;
    int64_t expect_version; /* confirm: the version it must have; -1: any */
    enum hf_status code;    /* result: HF_OK or why not */
    bool claimed;           /* engine: this op has the hot claim */
    bool own;               /* engine: the user has it already */
};

struct op_area {
    struct slice id;
    int32_t quantity; /* for OP_PATCH 0 removes */
    enum hf_status code;
};

/*
 * Which seats an OP_HOLD is to find by itself: seats and seat_count are the engine's then. They are
 * chosen from memory when it is prepared, and anew whenever the race for them was lost.
 */
struct op_best {
    int quantity;
    struct slice section, type;   /* empty: any */
    bool adjacent;                /* side by side in one row, or none */
    bool accessible;              /* accessible seats; else none of them */
    int64_t price_min, price_max; /* INT64_MIN, INT64_MAX: any, also seats without a price */

    /* engine's own */
    char (*ids)[ID_BYTES_MAX + 1]; /* of the seats */
    int losses;                    /* races that were lost */
    bool is_lost;                  /* the last one, and its seats were not given back yet */
    bool is_reader;                /* it is to load the map */
};

/* One seat or area of a hold, as Postgres has it. */
struct hold_line {
    struct slice seat, section, row, number; /* seat.len == 0: an area */
    struct slice area;
    int32_t quantity;
    int64_t version;
    bool has_price;
    int64_t price; /* of one unit */
    enum hold_status status;
    int ticket_count;
    struct uuid *tickets;
};

/* A hold, as Postgres had it at `now`. Everything lives in the op's arena. */
struct hold_view {
    struct uuid hold_id;
    struct slice event, user, cart_token, source, reason; /* reason.len == 0: none */
    char currency[4];
    enum hold_status status; /* as it is to be shown: past its end it is expired */
    bool ended_now;          /* in a checkout's: by the op that shows it, and committed */
    struct db_time created_at, held_until, now;
    int line_last;  /* the highest number that a line of it ever had */
    int line_count; /* those that are the hold's: of an active hold the active ones */
    struct hold_line *lines;
};

enum checkout_status {
    CHECKOUT_OPEN,
    CHECKOUT_PAYING,
    CHECKOUT_COMPLETED,
    CHECKOUT_CANCELLED,
    CHECKOUT_FAILED
};
const char *checkout_status_word(enum checkout_status status); /* "open", ... */
bool checkout_status_parse(struct slice word, enum checkout_status *status);

enum intent_status {
    INTENT_PROCESSING,
    INTENT_PENDING,
    INTENT_SUCCEEDED,
    INTENT_FAILED,
    INTENT_EXPIRED, /* nobody said that it was paid, in time */
    INTENT_REFUND_REQUIRED,
    INTENT_VOID /* the provider couldn't be asked */
};
const char *intent_status_word(enum intent_status status); /* "processing", ... */
bool intent_status_parse(struct slice word, enum intent_status *status);

/* What is known of a payment. */
enum payment_outcome {
    PAYMENT_PAID,
    PAYMENT_DECLINED,
    PAYMENT_UNDECIDED, /* the provider has taken it on and will tell by webhook */
    PAYMENT_UNREACHED, /* it was never asked, for certain: the mark is taken back */
    PAYMENT_TIMED_OUT /* payment_timeout has passed, and the provider doesn't say that it is paid */
};

/* A checkout, as Postgres had it. Everything lives in the op's arena. */
struct checkout_view {
    struct uuid checkout_id;
    struct slice event, user;
    enum checkout_status status;
    int64_t amount;
    char currency[4];
    struct db_time expires_at; /* the earliest end of its holds */
    int hold_count;
    struct hold_view **holds;
    bool of_flight; /* its event is one */
    bool has_intent;
    struct uuid intent_id;
    enum intent_status intent_status;
};

enum op_tier { TIER_HOT, TIER_REDIS, TIER_POSTGRES };

/* Its choice of seats against the rule of the single seat, where the policy has it (gap.c). */
enum op_gap {
    OP_GAP_GOOD,    /* or there is no such rule: its seats may be taken */
    OP_GAP_REFUSED, /* the rule refuses it, unless anything else does */
    OP_GAP_OWN,     /* the user has some of them: all, or a hold of theirs is to grow */
    OP_GAP_LOOKED   /* not all of them are free: not judged, and nothing is taken */
};

/* What the engine does with an op after a transaction. */
enum op_fate {
    FATE_ANSWER, /* the result stands */
    FATE_LATER,  /* a row was locked by another: again after a pause */
    FATE_AGAIN   /* it must be prepared anew, at once */
};

#define OP_DETAIL_BYTES 160

struct op {
    struct hot_waiter waiter; /* first: the hot table links parked ops by it */

    /* --- request: filled by the maker, constant afterwards ---------------- */
    enum op_kind kind;
    struct arena arena; /* owns every slice below */
    struct slice org;
    struct slice user;  /* for whom: the token's user, or whom an agent acts for */
    struct slice actor; /* who: the token's user; empty: the system */
    bool privileged;    /* agent, service, admin: may act on others' holds, hold before the sale */
    struct slice request_id;
    struct slice event; /* OP_HOLD, OP_RETURN, OP_ASSIGN; empty where only the hold is named */
    struct slice bound_event; /* a hold of another event is not found; empty: any will do */
    struct uuid hold_id;      /* the hold; for OP_HOLD the new one's id */
    int seat_count;           /* seats to take */
    struct op_seat *seats;    /* in request order */
    struct op_best *best;     /* OP_HOLD: instead of seats; NULL: none */
    int drop_count;           /* seats to release */
    struct op_seat *drop;
    int area_count;
    struct op_area *areas;
    struct slice cart_token, source, customer_email;
    struct slice notes; /* a client's own words for a release; may be empty */
    const char *reason; /* why it is released: "user_cancelled", ...; static text */
    int32_t seconds;    /* hold: ttl (0: the policy's); extend: by how much (0: the policy's) */
    struct slice to_user;
    struct slice client_ip, user_agent; /* from where; empty: the system */
    struct uuid checkout_id;            /* OP_CHECKOUT_*, OP_PAY; for _START the new one's id */
    int hold_count;                     /* OP_CHECKOUT_START: the holds named; 0: all active ones */
    struct uuid *holds;
    struct uuid intent_id;        /* OP_PAY: the new one's id; OP_PAY_SETTLE */
    const char *provider;         /* OP_PAY: its name; static text */
    struct slice method;          /* OP_PAY: payment_method */
    enum payment_outcome outcome; /* OP_PAY_SETTLE */
    int free_count; /* OP_ASSIGN: seats that may be free; 0: any of the event may be */
    struct slice *free;
    struct slice provider_key; /* OP_PAY_SETTLE: of the webhook that said so; empty: none */
    bool keyed;                /* has an Idempotency-Key */
    struct slice key, key_method, key_path;
    uint8_t key_digest[32];              /* SHA-256 of method, path and body */
    struct mono_time received, deadline; /* each op has one */
    void *context;                       /* the maker's */
    void (*finish)(struct op *op);
    void (*send)(struct op *op);
    /* Gives the answer that finish wrote (for an op with a key): body and type. */
    void (*answer)(struct op *op, int *status, struct slice *type, struct slice *body);
    /* Instead of finish: the answer of an earlier request with the same key. */
    void (*replay)(struct op *op, int status, struct slice type, struct slice body);

    /* --- result: filled by the engine before finish ----------------------- */
    enum hf_status status;
    enum op_tier tier;              /* who knew */
    bool same;                      /* nothing was changed: it was so already */
    bool of_flight;                 /* the hold or checkout that it was about is one of a flight */
    int changed;                    /* how many seats and areas of a hold a change of it changed */
    struct hold_view *hold;         /* NULL when there is none to show */
    struct checkout_view *checkout; /* the same, of OP_CHECKOUT_* and OP_PAY* */
    int32_t retry_after_s;          /* 0: none */
    int gap_count;                  /* HF_SINGLE_SEAT_GAP: the seats that would be left alone */
    struct slice *gap_seats;        /* in the arena */
    char detail[OP_DETAIL_BYTES];   /* a sentence, or empty */
    const char *field;              /* the field that is wrong; static text, or NULL */

    /* --- engine's own ------------------------------------------------------ */
    struct op *next;             /* queue */
    struct mono_time not_before; /* a retry waits until then */
    struct mono_time queued_at;
    int locked_tries; /* how often a row was locked by another */
    int prepared;     /* how often it was prepared anew */
    int claim_next;   /* how many of claim_order are claimed */
    int *claim_order; /* indices of seats in the hot table's total order */
    uint64_t user_hash;
    enum op_fate fate;
    enum op_gap gap;
    bool solo;      /* needs a transaction of its own */
    bool row_waits; /* another has a seating row of it for long: tried alone, and not waited for */
    bool may_have_run; /* an outcome was lost, it committed: run it as a repeat */
    bool finished;     /* finish was called (an op with a key: before its commit) */
    bool is_baggage;   /* OP_PAY_SETTLE: of a bag's surcharge; checkout_id is the check-in's */
    bool refund;       /* OP_PAY_SETTLE: paid too late, and what was paid for is gone */
    int own_count;     /* the same: newer holds of the payer that have some of it */
    struct uuid *own;
    bool grow;               /* OP_HOLD that adds its free seats to the hold grow_hold */
    struct uuid grow_hold;   /* also: the hold to show when nothing was changed */
    struct event_info info;  /* of the event it was prepared with */
    int row_first, row_end;  /* its rows in the statement's result */
    int *sent;               /* which seats those rows are about; NULL: all, in order */
    struct slice hold_event; /* of the hold, as the statement found it */
    struct db_time judged_at, ends_at;
};

#endif
