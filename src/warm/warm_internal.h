/*
 * warm_internal.h - what the files of the warm room share.
 *
 * tier.c is what all connections of a node share (breaker.c says when Redis may be used), address.c
 * reads redis_url, link.c owns one connection, keys.c builds every key and values.c what stands
 * under them, calls.c keeps what was sent until its reply was read, warm.c is what the engine and
 * reads call, find.c and mend.c what repair calls, watch.c what the watcher calls, publish.c and
 * listen.c what the fan-out calls.
 */
#ifndef HOLDFAST_WARM_INTERNAL_H
#define HOLDFAST_WARM_INTERNAL_H

#include <hiredis/hiredis.h>

#include "holdfast/buf.h"
#include "holdfast/warm_repair.h"

#include "warm/scripts.h" /* enum warm_script, by db/embed.cmake */

struct warm_script_text {
    const char *name;
    const char *lua;
};
extern const struct warm_script_text warm_scripts[SCRIPT_COUNT];

/* --- keys.c: the only place that builds keys ------------------------------ */

/* Each appends one key to `out`, which it does not clear. */
void warm_key_seat(struct buf *out, struct slice org, struct slice event, struct slice seat);
void warm_key_seat_holds(struct buf *out, struct slice org, struct slice event);
void warm_key_hold_meta(struct buf *out, struct slice org, struct slice event,
                        const struct uuid *hold_id);
void warm_key_occupancy(struct buf *out, struct slice org, struct slice event);
/* The seat_holds of the event that a seat's key is of. */
void warm_key_seat_holds_beside(struct buf *out, struct slice seat_key);

/* One for all nodes: it is gone when Redis lost what it had (watch.c). */
void warm_key_mark(struct buf *out);
/* The event that a key of ours is of. False: it is none of ours. */
bool warm_key_event(struct slice key, struct slice *org, struct slice *event);

/* --- tier.c ------------------------------------------------------------------ */

uint64_t warm_event_hash(struct slice org, struct slice event); /* never 0 */

/* What became of a use, told to breaker, metrics and log. `why` may be any text. */
void warm_tier_failed(struct warm_tier *tier, const char *why);
void warm_tier_worked(struct warm_tier *tier);

/* --- values.c ------------------------------------------------------------- */

#define WARM_VALUE_MAX      4096 /* bytes of a value that are read; none of ours is longer */
#define WARM_SEATS_PER_CALL 400  /* of one event: bounds a script's run and its unpack() */
#define WARM_KEEP_MS        60000 /* keys outlive their hold by this: clocks differ, cleaning is late */

/* The JSON under a seat's key. db/scripts read it as text: hold_id, user_id first, version last. */
void warm_value(struct buf *out, const struct warm_hold *hold);
/* "<seat>:<hold>:<user>" */
void warm_member(struct buf *out, const struct warm_hold *hold);
int64_t warm_score(const struct warm_hold *hold);

#define WARM_META_FIELDS 7

/* The hash under a hold's meta key; it has its own texts of times, so it isn't to be moved. */
struct warm_meta {
    struct warm_meta_field {
        const char *name;
        struct slice value;
    } field[WARM_META_FIELDS];
    char hold_id[UUID_TEXT_BYTES], held_until[DB_TIME_TEXT_BYTES], created_at[DB_TIME_TEXT_BYTES];
};
void warm_meta(struct warm_meta *meta, const struct warm_hold *hold);
/* holds[i] is the first seat of its hold, and its meta is known. */
bool warm_has_meta(const struct warm_hold *holds, int i);

/* Milliseconds that the hold's keys live, at least 1. */
int64_t warm_keep_ms(const struct warm_hold *hold);

/*
 * True when `value` may stand where it replaced `old`: nothing newer of the same hold is lost, and
 * no other hold was there.
 */
bool warm_value_replaces(struct slice value, struct slice old);

/* A command in Redis' protocol, binary-safe: begin with the number of words, then add each. */
void warm_command(struct buf *out, int words, const char *name);
void warm_word(struct buf *out, struct slice word);
void warm_word_int(struct buf *out, int64_t number);
/* Word `index` of a command that was written by these. */
struct slice warm_word_at(struct slice command, int index);

/* --- address.c -------------------------------------------------------------- */

struct warm_address {
    bool is_unix;
    char host[256]; /* or the socket's path */
    int port;
    int db;
    char user[128]; /* "": the default user */
    char password[256];
};

/* redis://[[user]:password@]host[:port][/db] or unix:/path. False: it is neither. */
bool warm_address_parse(struct slice url, struct warm_address *address);

/* --- link.c ------------------------------------------------------------------- */

struct warm_link {
    /* fixed after init */
    bool usable; /* the address makes sense */
    struct warm_address address;
    struct timeval timeout;

    struct warm_tier *tier; /* NULL: what fails is its owner's business alone, told in `trouble` */
    char trouble[128];

    redisContext *context; /* NULL: not connected */
    uint64_t generation;   /* of the tier, when it connected */
    uint64_t number;       /* of this connection: counts up with each */
    bool trial;            /* it has the half-open breaker's one trial, and hasn't reported yet */
    char sha[SCRIPT_COUNT][41];
};

void warm_link_init(struct warm_link *link, const struct config *config, struct warm_tier *tier);
void warm_link_close(struct warm_link *link);

/*
 * Connects if need be and allowed. False at once while the breaker is open. idle: no reply is due,
 * so a connection that ended meanwhile, or is of another generation of the tier, is made anew.
 */
bool warm_link_open(struct warm_link *link, bool idle);
/* Connects whatever the breaker says: for its prober. */
bool warm_link_probe(struct warm_link *link);
/* Connects and logs in, no more. */
bool warm_link_greet(struct warm_link *link, struct mono_time deadline);

/* Queues a formatted command; push sends what is queued. False: the link failed and is closed. */
bool warm_link_queue(struct warm_link *link, struct slice command);
bool warm_link_push(struct warm_link *link);

/* When what is sent now must be done, and its replies must be here. */
struct mono_time warm_link_deadline(const struct warm_link *link);

/*
 * The next reply (caller: freeReplyObject). NULL: the link failed and is closed. Errors that speak
 * of one key or script only (WRONGTYPE, NOSCRIPT) are replies; all others are failures.
 */
redisReply *warm_link_reply(struct warm_link *link, struct mono_time deadline);

/* The last use worked: for the breaker, the metrics and the log. */
void warm_link_worked(struct warm_link *link);

bool warm_reply_is_error(const redisReply *reply, const char *code);
bool warm_link_load_scripts(struct warm_link *link);

/* --- calls.c -------------------------------------------------------------------- */

#define WARM_CALLS_MAX 1024

enum warm_call_kind {
    WARM_CALL_SCRIPT,  /* EVALSHA: sent again when Redis has forgotten the script */
    WARM_CALL_SET,     /* SET <seat key> <value> PX <ms> GET: the old value is looked at */
    WARM_CALL_MEMBERS, /* ZADD <seat_holds> ... */
    WARM_CALL_PLAIN    /* any other: its reply tells nothing more */
};

/* A command whose reply is due. */
struct warm_call {
    enum warm_call_kind kind;
    size_t at; /* of its text in the buffer beside it */
    size_t len;
};

struct warm_calls {
    struct buf text;
    int count;
    struct warm_call call[WARM_CALLS_MAX];
};

/* Until when an event's seat_holds is known to live, so that its PEXPIRE isn't sent with every
 * batch. Void with the connection: who loses it may have lost what it told, and a Redis that was
 * wiped is met by a new one. */
#define WARM_LIVES 1024 /* a power of two; events that share a place only send more often */

struct warm_life {
    uint64_t event; /* hash of org and event */
    int64_t until_ms;
};

/* What the watcher knows of the Redis of before. */
struct warm_watching {
    char run_id[WARM_RUN_ID_BYTES]; /* "": not seen yet */
    char mark[UUID_TEXT_BYTES];     /* "": not seen yet */
    struct mono_time half_open_at;  /* when its probe worked */
};

struct warm {
    bool on; /* fixed after warm_new */
    struct warm_link link;
    struct warm_watching watching;
    struct warm_life lives[WARM_LIVES];
    uint64_t lives_of; /* the connection that they were told over */

    struct warm_calls due;
    struct warm_calls again; /* used while `due` is being read */

    struct buf command; /* scratch, its memory is kept */
    struct buf word;
};

/* Sends warm->command and keeps it. False: it failed, and nothing is due any more. */
bool warm_call(struct warm *warm, enum warm_call_kind kind);
/*
 * Commands whose replies nobody needs: between mute and unmute Redis sends none, which halves their
 * cost on both sides. tell sends warm->command. False: the link failed.
 */
bool warm_mute(struct warm *warm);
bool warm_tell(struct warm *warm);
bool warm_unmute(struct warm *warm);
/* Forgets what is due, when its connection is gone, and doubts its events. */
void warm_calls_lost(struct warm *warm);

/* --- warm.c -------------------------------------------------------------------------- */

/* Connected, and no reply of an earlier call is in the way. False: without Redis. */
bool warm_ready(struct warm *warm);
/* warm->command: a new one of `words` words; warm->word is appended to it, and empty again. */
void warm_begin(struct warm *warm, int words, const char *name);
void warm_add_built(struct warm *warm);
/* find.c: where a piece that begins there ends. */
int warm_piece_end(int begin, int count);
/* Makes warm->command the read of one seat's key. */
void warm_build_get(struct warm *warm, struct slice org, struct slice event, struct slice seat);
/* Sends warm->command. False: it failed, the link is closed. */
bool warm_queue(struct warm *warm);
/* Sends warm->command and waits for its reply (caller: freeReplyObject). NULL: it failed. */
redisReply *warm_ask(struct warm *warm);

#endif
