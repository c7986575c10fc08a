/*
 * rate_limit.h - whose request it is, and whether that address may go on.
 *
 * Address. The client is the socket's other end, unless that is a trusted proxy:
 * then it is the last hop of X-Forwarded-For that is not trusted. A hop that is
 * no address ends the search: what is left of it was written by nobody we trust.
 *
 * Limits. Two kinds, per address:
 *   limits   rate_general_per_min, and rate_holds_per_min for all routes that
 *            hold, together. Over it: HF_RATE_LIMITED, and the request counts
 *            against neither.
 *   abuse    rate_burst_per_5s requests (refused ones count), rate_maps_per_2s
 *            distinct seat maps. One more blocks the address for block_duration:
 *            HF_BLOCKED, until then or until an admin unblocks it.
 * Each counter is a sliding window of slices that starts with the address's first
 * request. A request is forgotten after its window at the latest, one slice (a
 * tenth of the window) earlier at the earliest; so nobody is refused or blocked
 * for what is older than the window.
 * IPv6 clients are counted by their /64, of which one has all addresses it wants.
 * Counters and blocks are this node's own.
 *
 * Callers:  api, before anything else is done for a request.
 * Threads:  any.
 * Locks:    one stripe lock (rank RATE) for a few compares and adds; none when
 *           rate_limits is off.
 * Memory:   the limiter owns everything; results are copies.
 * Limits:   RATE_ADDRESSES_MAX addresses. When a set of the table is full, an
 *           address without a living block that was silent longest goes, then
 *           the one whose block ends first: a stranger is never refused because
 *           the table is full. RATE_EVENTS_MAX abuse events, the oldest goes.
 *           rate_maps_per_2s above RATE_MAPS_MAX switches that rule off.
 */
#ifndef HOLDFAST_RATE_LIMIT_H
#define HOLDFAST_RATE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/clock.h"
#include "holdfast/config.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"
#include "holdfast/status.h"

#define RATE_ADDRESSES_MAX 131072
#define RATE_EVENTS_MAX    1024
#define RATE_MAPS_MAX      256

/* --- the client's address ---------------------------------------------- */

#define ADDRESS_TEXT_BYTES 46 /* the longest IPv6 text and NUL, as in http.h */

struct proxy_list; /* opaque, constant after start */

/*
 * Reads `trusted_proxies`: addresses and CIDRs (v4, v6) separated by commas or
 * spaces; may be empty. NULL: error names the bad item, or says no memory.
 */
HF_MUST_CHECK struct proxy_list *proxy_list_new(const char *text, char *error, size_t error_bytes);
/* Takes the list; *list becomes NULL. NULL is fine. */
void proxy_list_free(struct proxy_list **list);

/*
 * Writes the client's address as text in its one canonical form. `peer` is the
 * socket's other end, `forwarded_for` the X-Forwarded-For header (empty: none).
 */
void client_address(const struct proxy_list *trusted, const char *peer, struct slice forwarded_for,
                    char address[ADDRESS_TEXT_BYTES]);

/* --- the limiter ------------------------------------------------------- */

enum rate_kind {
    RATE_GENERAL, /* any request */
    RATE_HOLD,    /* a route that holds: counts against both limits */
    RATE_MAP      /* a seat map: general, and its event is counted as one map */
};

/*
 * What the API answers with. Where limit is not 0:
 *   RateLimit-Policy: "name";q=limit;w=window_s
 *   RateLimit: "name";r=remaining;t=reset_s
 * and on a refusal Retry-After: retry_after_s.
 */
struct rate_result {
    enum hf_status status; /* HF_OK, HF_RATE_LIMITED or HF_BLOCKED */
    const char *name;      /* static: "general", "holds", "burst" or "maps" */
    int64_t limit;         /* 0: no limit applies */
    int64_t window_s;
    int64_t remaining;
    int64_t reset_s;       /* until some of the quota comes back */
    int64_t retry_after_s; /* at least 1 on a refusal, else 0 */
};

struct rate_limiter; /* opaque */

/* Keeps no pointer into config. NULL: no memory. */
HF_MUST_CHECK struct rate_limiter *rate_limiter_new(const struct config *config);
/* Takes the limiter; *limiter becomes NULL. NULL is fine. */
void rate_limiter_free(struct rate_limiter **limiter);

/*
 * Counts one request of `address` (from client_address) at `now` and judges it.
 * map: RATE_MAP only: what tells seat maps apart (org and event joined, or the
 * event alone); else SLICE_EMPTY.
 */
void rate_limit_check(struct rate_limiter *limiter, const char *address, enum rate_kind kind,
                      struct slice map, struct mono_time now, struct rate_result *result);

/* --- abuse ------------------------------------------------------------- */

struct abuse_event {
    struct uuid id;
    char ip[ADDRESS_TEXT_BYTES];
    const char *event_type; /* static: "rapid_seatmap_access", "burst_limit", "rate_limit" */
    struct mono_time detected;
    struct mono_time blocked_until; /* 0: this event did not block */
    int64_t request_count;
    int64_t time_window_ms;
    char details[96]; /* a sentence for the operator */
};

/*
 * Copies up to `max` events, the newest first, and returns how many. Their times
 * are this machine's: with a clock reading (wall, mono) made together, an event
 * was at wall.us - (mono.us - detected.us).
 */
int rate_limit_recent(struct rate_limiter *limiter, struct abuse_event *events, int max);

/* Ends the block of an address and forgets its counts. False: no address, or it was not blocked. */
bool rate_limit_unblock(struct rate_limiter *limiter, struct slice ip, struct mono_time now);

/* Addresses that are counted at this moment. Walks everything; for tests and admin use. */
int64_t rate_limit_addresses(struct rate_limiter *limiter);

#endif
