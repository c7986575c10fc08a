/* payments_internal.h - the room itself, for its own files. See provider.h for who does what. */
#ifndef HOLDFAST_PAYMENTS_INTERNAL_H
#define HOLDFAST_PAYMENTS_INTERNAL_H

#include <curl/curl.h>
#include <stdatomic.h>

#include "holdfast/lock.h"
#include "holdfast/thread.h"
#include "provider.h"

struct payments {
    /* fixed after start */
    struct node *node;
    const struct provider *provider; /* for new intents */
    CURLM *multi;                    /* used by the thread alone, but for its wakeup */
    struct thread thread;
    bool curl_is_ready; /* curl_global_init did it, and is to be undone */

    /* guarded by lock */
    struct lock lock;              /* rank PAYMENTS */
    struct payment_call *arrivals; /* not begun yet, or to be settled again; in order */
    bool stopping;

    /* the thread's own */
    struct payment_call *calls;  /* begun and not over */
    struct mono_time timers_due; /* no timer of a call ends before */
    bool http_fails;             /* the last call over HTTP got no answer, and the log says so */

    /* atomic, any thread */
    _Atomic int64_t under_way; /* arrivals, calls, and those that ops have */
};

/* --- settle.c ------------------------------------------------------------------ */

/* Hands an OP_PAY_SETTLE to the engine. What fails stays due: upkeep of some node asks. */
void payments_settle(struct payments *room, const struct payment *payment,
                     enum payment_outcome outcome);
/* The same of what is paid. The call is the op's until payment_call_settled. */
void payments_settle_paid(struct payment_call *call);

/* --- payments.c ---------------------------------------------------------------- */

/* How a try ended; any thread. True: another one follows. False: the call is gone. */
bool payment_call_settled(struct payment_call *call, bool is_settled);

/* --- http.c -------------------------------------------------------------------- */

/* Lets transfers go on as far as they can; answers the calls whose transfer is over. */
void http_turn(struct payments *room);

/* What the provider's HTTP answer means. False: nothing that we know. */
HF_MUST_CHECK bool http_answer_means(bool is_ask, long status, struct slice body,
                                     enum payment_outcome *outcome);

#endif
