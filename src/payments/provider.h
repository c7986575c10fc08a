/*
 * provider.h - what a payment provider has to do: one small interface, and the calls that it gets.
 *
 * payments.c    the room's thread: calls in, timers, who is told what
 * settle.c      OP_PAY_SETTLE of the room's own
 * simulated.c   answers by the method's name; charges nobody
 * http.c        asks a provider over HTTP
 *
 * A call is one question to one provider: charge this, or what became of that charge. begin leads
 * to exactly one payment_call_answer (in begin itself or later), unless the room gives the call up
 * before. After the answer the call is gone.
 *
 * Threads: all of it on the room's.
 */
#ifndef HOLDFAST_PROVIDER_H
#define HOLDFAST_PROVIDER_H

#include "holdfast/arena.h"
#include "holdfast/payments.h"

struct provider;
struct http_call;

struct payment_call {
    struct payment_call *next, *prev; /* one list of the room at a time */
    struct payments *room;
    const struct provider *provider;
    struct arena arena; /* owns the slices of `payment` */
    struct payment payment;
    bool is_ask;
    struct mono_time begun;

    /* of an ask */
    bool last;

    /* of a charge: until `patience`, the caller is told; then told is NULL, and the room settles */
    struct mono_time patience;
    void (*told)(void *context, enum payment_outcome outcome);
    void *context;

    /* of one that is paid, and that no caller waits for: until the engine has stored it */
    int tries; /* 0: it is none */
    struct mono_time settle_until;

    /* the provider's own */
    struct mono_time answer_at; /* simulated: when it answers, and what; 0: not by time */
    enum payment_outcome answer;
    struct http_call *http; /* NULL: none */
};

struct provider {
    const char *name; /* as intents have it */
    /* Whether its settings will do. False: error names the one that won't. */
    bool (*check)(const struct config *config, char *error, size_t error_bytes);
    void (*begin)(struct payment_call *call);
    /* Frees what begin took, whether the call was answered or is given up. A second time it does
     * nothing. */
    void (*end)(struct payment_call *call);
};

extern const struct provider provider_simulated, provider_http;

/*
 * What the provider says.
 *
 *            of a charge                            of an ask
 * PAID       it is paid                             it was paid
 * DECLINED   it is not paid, for good               the same
 * UNDECIDED  taken on, or nobody knows whether      not decided yet, or it knows of no such charge
 * UNREACHED  for certain nothing was asked of it    the question was not answered
 */
void payment_call_answer(struct payment_call *call, enum payment_outcome outcome);
/* The same, `us` from now. */
void payment_call_answer_in(struct payment_call *call, int64_t us, enum payment_outcome outcome);

#endif
