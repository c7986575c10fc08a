/*
 * scales.h - what knows a bag's weight: one small interface, and the calls that it gets.
 *
 * baggage.c    rules, the room's thread, who is told what
 * simulated.c  believes the passenger
 * http.c       asks over HTTP
 *
 * begin leads to exactly one weighing_answer (in begin itself or later), unless the room gives the
 * call up before; end frees what begin took, then and after an answer.
 *
 * Threads: http on the room's; simulated on the caller's.
 */
#ifndef HOLDFAST_SCALES_H
#define HOLDFAST_SCALES_H

#include <curl/curl.h>
#include <stdatomic.h>

#include "holdfast/arena.h"
#include "holdfast/baggage.h"
#include "holdfast/lock.h"
#include "holdfast/thread.h"

struct scales;
struct http_call;

struct baggage {
    /* fixed after start */
    const struct config *config;
    const struct scales *scales;
    struct baggage_rules rules;
    CURLM *multi; /* NULL: no thread is needed; used by it alone, but for the wakeup */
    struct thread thread;
    bool curl_is_ready; /* curl_global_init did it, and is to be undone */

    /* guarded by lock */
    struct lock lock;               /* rank SCALES */
    struct weighing_call *arrivals; /* not begun yet, in order */
    bool stopping;

    /* the thread's own */
    struct weighing_call *calls; /* begun and not over */
    bool fails;                  /* the last call got no answer, and the log says so */

    /* atomic, any thread */
    _Atomic int64_t under_way;
};

struct weighing_call {
    struct weighing_call *next, *prev; /* one list of the room at a time */
    struct baggage *room;
    struct arena arena; /* owns the slices of `bag` */
    struct bag bag;
    struct mono_time patience;
    void (*told)(void *context, enum weighing outcome, int64_t weight);
    void *context;
    struct http_call *http; /* http's own; NULL: none */
};

struct scales {
    const char *name;
    bool is_asked; /* over a wire, by the room's thread; else begin answers at once */
    /* Whether its settings will do. False: error names the one that won't. */
    bool (*check)(const struct config *config, char *error, size_t error_bytes);
    void (*begin)(struct weighing_call *call);
    void (*end)(struct weighing_call *call);
};

extern const struct scales scales_simulated, scales_http;

/* What the scales say; the call is gone. */
void weighing_answer(struct weighing_call *call, enum weighing outcome, int64_t weight);

/* http.c: lets transfers go on as far as they can. */
void scales_http_turn(struct baggage *room);

/* http.c: what the body of an answer of 200 says. False: nothing that we know. */
HF_MUST_CHECK bool scales_http_weight(struct slice body, int64_t *weight);

#endif
