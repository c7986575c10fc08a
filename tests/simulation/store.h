/*
 * store.h - a small model of Postgres: rows, transactions, locks, a clock of its own.
 *
 * A statement happens at one instant; between two of them others may run. What a transaction wrote
 * is seen by itself alone until it commits. Seat rows are locked without waiting (SKIP LOCKED),
 * keys and batch ids with waiting, up to a timeout. One organization, one event, seats only, in
 * some seating rows: areas of general admission are not modelled.
 */
#ifndef HOLDFAST_SIM_STORE_H
#define HOLDFAST_SIM_STORE_H

#include "cells.h"
#include "holdfast/events.h"
#include "holdfast/hot_table.h"
#include "holdfast/op.h"
#include "sim.h"

#define SEATS_MAX  12
#define NAME_BYTES 24
#define ORG        "o"
#define EVENT      "e"

struct seat_state {
    enum seat_status status;
    struct uuid hold;
    char user[NAME_BYTES];
    int64_t until_us; /* 0 unless held */
    bool in_payment;
    int64_t version;
};

struct tx; /* opaque */

struct seat_row {
    char id[NAME_BYTES];
    int line; /* its seating row; numbers are counted through the house */
    bool aisle_after;
    struct seat_state is, next; /* committed; as its writer sees it */
    struct tx *locker;          /* NULL: nobody */
    bool written;               /* next counts, for the locker */
};

struct line_state {
    bool exists;
    char user[NAME_BYTES];
    int64_t until_us;
    enum hold_status status;
    char reason[NAME_BYTES];
    int64_t ended_us; /* 0: not yet */
    bool in_payment, was_sold;
    struct uuid checkout; /* nil: none */
};

/* One line of a hold: a row of seat_holds. */
struct line_row {
    struct line_row *next_line; /* of all lines, the newest first */
    struct uuid hold;
    int line, seat;
    char cart[NAME_BYTES], source[NAME_BYTES];
    int64_t born_us;
    struct line_state is, next;
    struct tx *writer;
};

struct key_row {
    struct key_row *next_key;
    char identity[200]; /* user, method, path, key */
    char digest[65], type[40], body[400];
    int status;
    bool committed;
    struct tx *writer;
};

#define HOLDS_OF_CHECKOUT 16

struct checkout_state {
    bool exists;
    enum checkout_status status;
    struct uuid intent; /* nil: none */
    struct uuid holds[HOLDS_OF_CHECKOUT];
    int hold_count;
};

struct checkout_row {
    struct checkout_row *next_checkout;
    struct uuid id;
    char user[NAME_BYTES];
    struct checkout_state is, next;
    struct tx *writer;
};

struct intent_state {
    bool exists;
    enum intent_status status;
};

struct intent_row {
    struct intent_row *next_intent;
    struct uuid id, checkout;
    struct intent_state is, next;
    struct tx *writer;
};

/* Who committed a state, if not a node on one of the machines: somebody who is none of them. */
enum { BY_RIVAL = -2 };

/* One committed state of a seat, kept for ever. */
struct past {
    struct seat_state state;
    int64_t since_us;         /* mono time of the commit */
    int64_t told_us;          /* when its maker heard of it; INT64_MAX: not yet */
    int maker;                /* the machine of its node, or BY_RIVAL */
    char request[NAME_BYTES]; /* which request did it */
};

struct history {
    int count, capacity;
    struct past *pasts;
};

struct store {
    struct policy policy;
    enum event_status event_status;
    int64_t event_version;
    int seat_count;
    struct seat_row seats[SEATS_MAX];
    struct history histories[SEATS_MAX];
    struct line_row *lines;
    struct key_row *keys;
    struct checkout_row *checkouts;
    struct intent_row *intents;
    int64_t clock_offset_us, clock_drift_ppm;
    int64_t identity;                /* which server it is */
    int64_t away_until_us;           /* nobody reaches it before */
    int64_t lost_until_us[MACHINES]; /* one machine doesn't, alone */
};
extern struct store store;

int64_t store_now(void);              /* the database's clock */
int store_find_seat(struct slice id); /* -1: there is none */

/* --- transactions (store.c) ----------------------------------------------- */

enum lock_kind { LOCK_IS_KEY, LOCK_IS_BATCH };

/* maker: a machine or BY_RIVAL */
struct tx *tx_begin(int maker);
/* Applies all of it, and tells the oracle. */
void tx_commit(struct tx *tx);
void tx_abort(struct tx *tx);
/* A fail-over or restart: every transaction that has not committed is gone. */
void store_abort_all(void);
bool tx_is_over(const struct tx *tx);
/* The node has heard that it committed. */
void tx_was_told(struct tx *tx);

/* Waits for the lock. False: timeout, or the transaction was ended meanwhile. */
bool tx_lock_key(struct tx *tx, int64_t key, int64_t timeout_us);
bool tx_try_key(struct tx *tx, int64_t key);

enum batch_insert { BATCH_IN, BATCH_THERE, BATCH_TIMEOUT };
/* Inserts a batch id; waits while another open transaction has it. */
enum batch_insert tx_insert_batch(struct tx *tx, const struct uuid *id, bool is_mark,
                                  int64_t timeout_us);
/* The committed transaction that inserted this id as its own; NULL: it was a question's. */
struct tx *store_batch_owner(const struct uuid *id);

bool tx_has_key(const struct tx *tx, int64_t key);
/* It has read the seating rows, all at once: what it takes under the rule of the single seat is
 * judged by what it saw. */
void tx_saw_rows(struct tx *tx);

const struct seat_state *tx_sees_seat(const struct tx *tx, int seat);
/* True: it is this transaction's now. */
bool tx_lock_seat(struct tx *tx, int seat);
struct seat_state *tx_write_seat(struct tx *tx, int seat, struct slice request);
/* The seat written last is taken under the rule of the single seat. */
void tx_is_ruled(struct tx *tx);
const struct line_state *tx_sees_line(const struct tx *tx, const struct line_row *line);
/* NULL: another transaction has written it. */
struct line_state *tx_write_line(struct tx *tx, struct line_row *line);
struct line_row *tx_add_line(struct tx *tx);
struct key_row *tx_add_key(struct tx *tx);
bool tx_sees_key(const struct tx *tx, const struct key_row *key);
void store_copy_name(char to[NAME_BYTES], struct slice from);
/* NULL: there is none that it sees. */
struct checkout_row *tx_find_checkout(const struct tx *tx, const struct uuid *id);
struct intent_row *tx_find_intent(const struct tx *tx, const struct uuid *id);
const struct checkout_state *tx_sees_checkout(const struct tx *tx, const struct checkout_row *row);
const struct intent_state *tx_sees_intent(const struct tx *tx, const struct intent_row *row);
/* Under the lock of the checkout. */
struct checkout_state *tx_write_checkout(struct tx *tx, struct checkout_row *row);
struct intent_state *tx_write_intent(struct tx *tx, struct intent_row *row);
struct checkout_row *tx_add_checkout(struct tx *tx, const struct uuid *id);
struct intent_row *tx_add_intent(struct tx *tx, const struct uuid *id);
/* Held, and nobody may take it over. */
bool seat_is_over(const struct seat_state *state, int64_t now);

/* --- lines of holds (lines.c) --------------------------------------------- */

#define LINES_OF_HOLD_MAX 32

/* hold NULL: of any hold. NULL: there is none. */
struct line_row *store_active_line(const struct tx *tx, const struct uuid *hold, int seat);
/* Held and not over; and sold, unless it will be given back: what a limit counts. only_hold NULL:
 * of any hold; else its active ones. */
int store_units_of(const struct tx *tx, const char *user, const struct uuid *only_hold);
/* False: another transaction has written it. */
bool store_close_line(struct tx *tx, struct line_row *line, enum hold_status status,
                      const char *reason, int64_t now);
/* In the order of their numbers. */
int store_lines_of(const struct tx *tx, const struct uuid *hold,
                   struct line_row *lines[LINES_OF_HOLD_MAX]);

/* --- statements (statements.c) -------------------------------------------- */

/* Runs one. NULL: it failed with *sqlstate. */
struct pg_result *store_run(struct tx *tx, const struct call *call, const char **sqlstate);

/* --- nodes (store.c): the table of living nodes --------------------------- */

#define NODES_MAX 8

struct node_row {
    char name[NAME_BYTES];
    int64_t incarnation, heartbeat_us;
};

struct departed_row {
    int64_t incarnation, records, left_at;
};

int64_t nodes_draw(void);   /* the next incarnation */
int64_t nodes_newest(void); /* the last that was drawn */
/* 0: another living node has this name. */
int64_t nodes_join(const char *name, int64_t stood_still_us);
/* Drops the dead. False: the row has another incarnation. */
bool nodes_beat(const char *name, int64_t incarnation);
/* The others; how many. */
int nodes_beside(const char *name, struct node_row others[NODES_MAX]);
void nodes_leave(const char *name, int64_t incarnation, int64_t records);
/* Those that left within ten minutes, the last ones first; how many, `most` (up to NODES_MAX). */
int nodes_departed(struct departed_row departed[NODES_MAX], int most);
int64_t nodes_heartbeat_of(const char *name); /* 0: no such row */

#endif
