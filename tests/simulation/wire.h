/*
 * wire.h - connections to the fake Postgres: what goes over them, and what the world does to them.
 */
#ifndef HOLDFAST_SIM_WIRE_H
#define HOLDFAST_SIM_WIRE_H

#include "store.h"

#define NEVER INT64_MAX

enum message_kind { M_BEGIN, M_STATEMENT, M_RUN, M_COMMIT, M_ROLLBACK, M_SETTLE };

struct message {
    struct message *next;
    enum message_kind kind;
    int64_t arrives_us;
    struct uuid batch;
    struct call *call;
    int64_t timeout_us; /* of a question for an outcome */
};

enum answer_kind { A_ROWS, A_ERROR, A_FATAL, A_COMMITTED, A_ROLLED_BACK };

struct answer {
    struct answer *next;
    enum answer_kind kind;
    int64_t arrives_us;
    const char *state;
    struct pg_result *rows;
    bool told;     /* of a question: it committed */
    struct tx *tx; /* that committed */
};

struct wire {
    struct wire *next; /* of all that are open */
    int group;
    struct message *messages, **messages_end;
    struct answer *answers, **answers_end;
    int64_t last_message_us, last_answer_us;
    int64_t cut_us;     /* NEVER: whole */
    int64_t noticed_us; /* when the backend finds out */
    bool silent;        /* the client isn't told of the cut */
    bool killed;        /* the server ends the session at once */
    struct tx *tx;      /* the backend's */
    bool failed;        /* its transaction has failed: it skips what follows */
};

/* --- for the client (fake_cold.c) ----------------------------------------- */

/* A connection with a backend behind it, of the running fiber's group. */
struct wire *wire_open(void);
/* Both ways, from `at_us` on. silent: the client isn't told. */
void wire_cut(struct wire *wire, int64_t at_us, bool silent);
struct message *message_new(enum message_kind kind);
/* Takes the message. */
void wire_send(struct wire *wire, struct message *message);

/* --- for the world -------------------------------------------------------- */

/* The node of this group is gone: its sockets close. */
void cold_cut_group(int group);
/* Postgres ends, or another one answers: every session dies, and with it what has not committed. */
void cold_restart(int64_t away_us, bool another);
/* A machine (NOWHERE: nobody) doesn't reach Postgres for a while; what it is doing it goes on
 * doing.
 */
void cold_partition(int machine, int64_t away_us);
/* Somebody ends one session (pg_terminate_backend). */
void cold_end_one_session(void);

#endif
