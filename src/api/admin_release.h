/*
 * admin_release.h - what the files of the administrator's release share.
 *
 *   admin_release.c        the request in its three forms, which holds it means, the answer
 *   admin_release_body.c   its body
 *   admin_release_ops.c    the holds on their way through the engine, a few at a time
 *
 * Threads: one release is one thread's of the desk.
 * Limits:  RELEASE_NAMED_MAX holds or seats by name, any number by event; RELEASE_TIME_US.
 */
#ifndef HOLDFAST_ADMIN_RELEASE_H
#define HOLDFAST_ADMIN_RELEASE_H

#include "api_internal.h"

#define RELEASE_REASON      "admin_override"
#define RELEASE_NAMED_MAX   10000
#define RELEASE_SKIPPED_MAX 1000 /* are listed; the others are counted */
#define RELEASE_TIME_US     (15 * 60 * (int64_t)TIME_US_PER_S) /* a million holds need no more */
#define RELEASE_PATIENCE_US (10 * (int64_t)TIME_US_PER_S) /* of a store that gives nothing back */
#define RELEASE_PAUSE_US    (100 * (int64_t)TIME_US_PER_MS)

/* A hold that is to be released, or some seats of it; and what became of it. */
struct release_target {
    struct uuid hold_id;
    int seat_count; /* 0: the whole hold */
    struct op_seat *seats;
    bool is_over;    /* it was over before its seats could be released: only to be ended as such */
    bool is_unknown; /* it may have been released already by a try whose outcome was lost */
    struct release_target *next;
};

/* What was not released, and why. */
struct release_skip {
    struct uuid hold_id; /* nil: none */
    struct slice seat;   /* empty: the whole hold */
    const char *reason;
};

/* One request, and how far it is. Memory is the call's. */
struct release {
    struct api_call *call;
    struct slice event; /* empty: holds by name */
    struct slice notes;
    int hold_count; /* of holds by name */
    struct uuid *holds;
    int seat_count; /* of seats by name: those still to be decided */
    struct slice *seats;
    struct mono_time until;
    int64_t total, decided; /* holds; of seats by name, seats */
    int64_t holds_released, seats_released;
    int64_t skipped;
    int skips_listed;
    struct release_skip *skips;
};

/* --- admin_release_body.c ---------------------------------------------------- */

/* False: the body was refused, and the call is gone. */
HF_MUST_CHECK bool release_read_body(struct release *release);

/* --- admin_release_ops.c ----------------------------------------------------- */

/*
 * Releases them, and calls release_decided for each. HF_OK: for all of them. Otherwise it was ended
 * before: the node goes out of service, time is up, or the store has given nothing for a while.
 */
HF_MUST_CHECK enum hf_status release_targets(struct release *release, const struct op *model,
                                             struct release_target *targets, int count);
/* Whether a release that waits since then for the store, which says `trouble`, may wait on: HF_OK.
 */
HF_MUST_CHECK enum hf_status release_may_go_on(const struct release *release,
                                               struct mono_time since, enum hf_status trouble);

/* --- admin_release.c --------------------------------------------------------- */

/* HF_OK: so many of its seats (an area's units count as seats) are free now; else why not. */
void release_decided(struct release *release, struct release_target *target, enum hf_status verdict,
                     int64_t seats);

#endif
