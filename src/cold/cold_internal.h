/*
 * cold_internal.h - what the files of the cold room share.
 *
 * The way of a connection: connect.c has it opened when it is time (backoff), dial.c opens it at
 * one of the hosts, session.c makes it ours (settings, identity, statements, clock), io.c moves its
 * bytes with deadlines, run.c and tx.c use it, settle.c asks a new one what became of an old one's
 * transaction.
 *
 * Every connection stays in libpq's pipeline mode from the end of connect.c on.
 */
#ifndef HOLDFAST_COLD_INTERNAL_H
#define HOLDFAST_COLD_INTERNAL_H

#include <stdatomic.h>

#include <libpq-fe.h>

#include "holdfast/cold.h"
#include "holdfast/lock.h"

/* --- what db/embed.cmake writes ----------------------------------------- */

struct pg_statement_text {
    const char *name; /* also the name of the prepared statement */
    const char *sql;
};
extern const struct pg_statement_text pg_statements[STATEMENT_COUNT];
extern const struct pg_statement_text pg_reports[REPORT_COUNT];

struct pg_migration {
    int number;
    const char *name;
    const char *checksum; /* SHA-256 of the file, in hexadecimal */
    const char *sql;
};
extern const struct pg_migration pg_migrations[];
extern const int pg_migration_count;

/* --- a connection ------------------------------------------------------- */

#define PG_ERROR_BYTES    512
#define PG_SQLSTATE_BYTES 6
#define PG_CONNECT_US     (2 * INT64_C(1000000)) /* to connect, all hosts together */
#define PG_READY_US       (3 * INT64_C(1000000)) /* that, and to set the session up */
#define PG_ASIDE_US       (1 * INT64_C(1000000)) /* what nobody asked for: the clock, new plans */
#define PG_TRY_LEAST_US   (50 * INT64_C(1000))   /* less time than that is not worth a try */
#define PG_BACKOFF_MIN_US (50 * INT64_C(1000))
#define PG_BACKOFF_MAX_US (1000 * INT64_C(1000))
#define PG_CLOCK_EVERY_US (5 * INT64_C(1000000)) /* clocks drift apart: observe again */

#define PG_TX_NAMED_MAX   32 /* statements of a transaction that the log can name */

/* A statement that goes to the server ahead of the command that uses it for the first time. */
struct pg_parse {
    int before; /* the command's place among the commands */
    enum pg_statement statement;
};

/* A transaction between pg_tx_begin and pg_tx_end. */
struct pg_tx {
    bool open;
    bool flushed;     /* the answers to all that was queued were asked for */
    bool closed;      /* COMMIT or ROLLBACK and a Sync are queued */
    bool commit_sent; /* from here on a lost connection means PG_UNKNOWN */
    bool failed;
    bool warned;             /* a warning came while COMMIT was being answered */
    enum pg_outcome failure; /* the first one, when failed */
    struct mono_time deadline;
    int queued; /* commands sent, in order: BEGIN, batch id, ... */
    int answered;
    int sync_at;        /* how many commands came before the flush's Sync; NO_SYNC: none is due */
    int statements_end; /* when closed: where the caller's statements end */
    int commit_at;      /* the place of COMMIT among them */
    const char *names[PG_TX_NAMED_MAX];
    int parses_queued, parses_answered;
    struct pg_parse parses[STATEMENT_COUNT];
};

struct pg {
    /* fixed after pg_new */
    const struct config *config;
    struct pg_identity *identity;
    struct db_clock *clock;
    char application_name[64];

    PGconn *conn;              /* NULL: not connected */
    unsigned generation;       /* of the identity, when this session was opened */
    struct mono_time clock_at; /* when the clock was last observed */
    struct mono_time try_at;   /* not before this */
    int64_t backoff_us;

    bool prepared[STATEMENT_COUNT]; /* this session knows it, or will before it is asked for it */
    struct pg_tx tx;

    char sqlstate[PG_SQLSTATE_BYTES]; /* of the last failure; "" if the server gave none */
    char error[PG_ERROR_BYTES];
    char logged[PG_ERROR_BYTES]; /* what the log was told last: each change once */
};

/* --- sqlstate.c --------------------------------------------------------- */

/* The one place where a SQLSTATE becomes an outcome. NULL or "": the server said nothing. */
enum pg_outcome pg_classify(const char *sqlstate);

/* True for the states that mean "this session is not what it should be": open another one. */
bool pg_sqlstate_spoils_session(const char *sqlstate);

/* True when the text changes rows: then a lost answer leaves it open whether it did. */
bool pg_sql_writes(const char *sql);

/* --- io.c: bytes and answers, each wait with a deadline ------------------- */

/*
 * The next PGresult, or NULL: none is due, or pg->conn was closed because it is lost or late.
 * Never blocks past the deadline.
 */
PGresult *pg_io_result(struct pg *pg, struct mono_time deadline);

/* The answer to one command, and the NULL behind it. NULL: the connection was closed. */
PGresult *pg_io_answer(struct pg *pg, struct mono_time deadline);

/*
 * Reads the answer to a Sync. PG_DONE: it came. PG_UNKNOWN: it didn't, and the connection is
 * closed. Else the class of an error that came before it: a deferred trigger of an autocommit.
 */
enum pg_outcome pg_io_sync(struct pg *pg, struct mono_time deadline);

/* Sends what is queued, as far as the socket takes it now. False: connection closed. */
bool pg_io_push(struct pg *pg);

/* Closes the connection because of what stands in `why`, kept as pg->error. */
void pg_io_lost(struct pg *pg, const char *why);

/* Milliseconds until the deadline, rounded up so that a wait doesn't end just before it. */
int pg_io_ms_left(struct mono_time deadline);

/* --- errors ---------------------------------------------------------------- */

/* libpq's messages end with a newline, some have several lines: the log has one. May be in place.
 */
void pg_copy_line(char *out, size_t bytes, const char *text);

/* Takes over SQLSTATE and message of a failed result; returns its class. */
enum pg_outcome pg_note_result(struct pg *pg, const PGresult *result);
void pg_note_error(struct pg *pg, const char *sqlstate, const char *text);

/* True when the server ends the connection with this result, or libpq made it up itself. */
bool pg_result_is_fatal(const PGresult *result);

/* Logs pg->error unless the log was told the same last. `what` is a stable word, `statement` may
 * be NULL. */
void pg_log_failure(struct pg *pg, const char *what, const char *statement);

/* --- session.c, identity.c -------------------------------------------------- */

/* Sets and checks the session, reads the identity, observes the clock. False: unusable, for a
 * reason that the server gave if the connection is still there. */
bool pg_session_open(struct pg *pg, struct mono_time deadline);
/* Puts the statement's text into the pipeline, ahead of its first use. False: could not be queued.
 */
bool pg_session_queue_parse(struct pg *pg, enum pg_statement statement);
/* The answer to it: whether this session knows the statement now. */
bool pg_session_saw_parse(struct pg *pg, enum pg_statement statement, const PGresult *result);
bool pg_session_observe_clock(struct pg *pg, struct mono_time deadline);

/* Tells what server a session reached; calls back if it is another one. Returns the generation. */
unsigned pg_identity_saw(struct pg_identity *identity, struct db_clock *clock,
                         int64_t system_identifier, int64_t timeline);
unsigned pg_identity_generation(struct pg_identity *identity);

/* The number of the host to begin with: the one that is known to be good, or not known to be bad.
 */
unsigned pg_identity_first_host(struct pg_identity *identity);
void pg_identity_prefer_host(struct pg_identity *identity, unsigned host);

/* All connections meet the same trouble: true for the first that has this reason not to connect. */
bool pg_identity_trouble_is_news(struct pg_identity *identity, const char *reason);
/* True for the first that connects after a trouble. */
bool pg_identity_trouble_is_over(struct pg_identity *identity);

/* --- dial.c ------------------------------------------------------------------- */

/*
 * Opens a plain connection as `url` says, trying its hosts in turn, beginning with number *first,
 * which is left at the one that took it. NULL: none before the deadline; error says why, of each.
 */
PGconn *pg_dial(const char *url, const char *application_name, unsigned *first,
                struct mono_time deadline, char error[PG_ERROR_BYTES]);

/* --- tx.c, for settle.c ------------------------------------------------------- */

void pg_tx_send_text(struct pg *pg, const char *sql, int count, const char *const *values);

/* Postgres counts its microseconds from 2000-01-01, we from 1970-01-01. */
#define PG_EPOCH_US (INT64_C(946684800) * TIME_US_PER_S)

/* --- result.c ------------------------------------------------------------------ */

/* A pg_result is libpq's PGresult under a name that does not drag its header along. */
static inline struct pg_result *
pg_result_of(PGresult *result)
{
    return (struct pg_result *)result;
}

#endif
