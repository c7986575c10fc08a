/*
 * delivery_internal.h - what the files of the delivery room share.
 *
 * delivery.c      the thread: what is due when
 * store.c         what Postgres is asked and told
 * transfer.c      one delivery under way, with libcurl
 * webhook.c       what a webhook is sent, and what may be one
 * mail.c          a mail on its way to the SMTP server (mail_text.c: what it says)
 * own_network.c   addresses that no webhook may go to
 */
#ifndef HOLDFAST_DELIVERY_INTERNAL_H
#define HOLDFAST_DELIVERY_INTERNAL_H

#include <curl/curl.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "holdfast/arena.h"
#include "holdfast/buf.h"
#include "holdfast/delivery.h"
#include "holdfast/thread.h"

/* Events of one webhook call at the most. */
#define EVENTS_AT_ONCE 100

enum channel { CHANNEL_WEBHOOK, CHANNEL_MAIL };

enum transfer_outcome {
    TRANSFER_UNDER_WAY,
    TRANSFER_TOLD,
    TRANSFER_FAILED,
    TRANSFER_HOPELESS, /* no try will ever do better */
    TRANSFER_LEFT      /* we stopped: another node's turn */
};

/* One delivery that this node has leased. Lives from its taking until it is settled. */
struct transfer {
    struct transfer *next;
    struct arena arena; /* owns this struct and its texts */
    enum channel channel;
    struct slice org, subject, event;
    int64_t lease;
    int attempts;  /* that failed before this one */
    int64_t up_to; /* told up to here when it succeeds */
    int events;
    struct mono_time lease_ends;
    bool allow_private;

    CURL *easy;
    struct curl_slist *headers, *recipients;
    struct buf body;
    size_t sent, heard;  /* bytes of the body; of the answer */
    bool is_own_network; /* the address was refused */
    char curl_error[CURL_ERROR_SIZE];

    enum transfer_outcome outcome;
    const char *error; /* in the arena, or static; NULL: none */
};

/* An event of the outbox as take_deliveries has it; texts are borrowed from the rows. */
struct outbox_event {
    int64_t told_as;
    struct slice kind, email, payload, at;
};

struct delivery {
    struct node *node;
    struct thread thread;
    CURLM *multi;
    struct pg *pg;

    /* atomic */
    _Atomic bool stopping;
    _Atomic int64_t stop_by_us;  /* what is under way then is left */
    _Atomic int64_t deadline_us; /* of the stop, for Postgres; INT64_MAX until then */

    /* the thread's own */
    int count; /* of under_way and over together */
    struct transfer *under_way, *over;
    struct mono_time route_due, take_due, purge_due, numbers_due, replan_due;
};

/* From now, or until the stop's deadline. */
static inline struct mono_time
delivery_deadline(struct delivery *delivery, int64_t patience_us)
{
    int64_t until_us = mono_now().us + patience_us;
    int64_t stop_us = atomic_load(&delivery->deadline_us);

    return (struct mono_time){ until_us < stop_us ? until_us : stop_us };
}

static inline bool
mail_is_on(const struct config *config)
{
    return config->smtp_url[0] != '\0';
}

/* --- store.c ------------------------------------------------------------------------------- */

/* True: there is more to route soon. */
bool delivery_route(struct delivery *delivery);
/* Takes what is due and begins it. */
void delivery_take(struct delivery *delivery);
/* Tells what became of those that are over, and frees them. False: Postgres is away; later. */
bool delivery_settle(struct delivery *delivery);
void delivery_purge(struct delivery *delivery);
void delivery_count(struct delivery *delivery);

/* --- transfer.c ---------------------------------------------------------------------------- */

/* NULL: no memory. */
struct transfer *transfer_new(enum channel channel, struct slice org, struct slice subject,
                              struct slice event);
void transfer_free(struct transfer *transfer);
/* Hands it to libcurl; one that has an outcome already (or can't be begun) is over. */
void transfer_begin(struct delivery *delivery, struct transfer *transfer);
/* Lets libcurl work, and moves what has ended to `over`. */
void transfers_run(struct delivery *delivery);
/* Ends all that is under way, as left. */
void transfers_leave(struct delivery *delivery);
/* It can't be sent, and why. */
void transfer_fail(struct transfer *transfer, enum transfer_outcome outcome, const char *error);

/* --- webhook.c ----------------------------------------------------------------------------- */

/* Adds one event to the body; false: there is no room for it beside the others. */
bool webhook_add(struct transfer *transfer, const struct outbox_event *event);
/* Ends the body, signs it, and tells libcurl what to do. */
void webhook_prepare(struct transfer *transfer, const char *url, struct slice secret,
                     const struct config *config);

/* --- mail.c, mail_text.c -------------------------------------------------------------------- */

/* Whether a mail may go there: an address of ASCII without anything that could end a line. */
bool mail_address_is_good(struct slice address);
void mail_prepare(struct transfer *transfer, const struct outbox_event *event,
                  struct slice event_name, const struct config *config);

struct mail {
    struct slice kind, to, from, org, event_name, payload;
    int64_t id;
    int64_t unix_s; /* its date */
};
/* The whole message. False: no such kind, or no memory. */
HF_MUST_CHECK bool mail_write(struct buf *out, const struct mail *mail);

/* --- own_network.c -------------------------------------------------------------------------- */

/* Loopback, link-local, private, shared, and all else that isn't the public Internet; also what is
 * one of them inside an IPv6 address. */
bool address_is_of_own_network(const struct sockaddr *address);

#endif
