/*
 * events.h - what this node knows about events: status and policy.
 *
 * A copy of rows of Postgres, filled by the engine and by admin work; the feed tells of those that
 * peers changed. It may be behind: grants are judged in SQL against the event's row itself, which
 * also refuses a request that was prepared with another version of the policy. Refusals from memory
 * ask events_find, and rest on it for hot_lease after the read.
 *
 * Callers: api, engine, feed, upkeep. Threads: any. Locks: rank EVENTS. Memory: callers get copies.
 * Limits: EVENTS_MAX events; past it the one longest unused goes.
 */
#ifndef HOLDFAST_EVENTS_H
#define HOLDFAST_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast/clock.h"
#include "holdfast/ids.h"
#include "holdfast/slice.h"

#define EVENTS_MAX 65536

enum event_status { EVENT_SCHEDULED, EVENT_ON_SALE, EVENT_CLOSED, EVENT_CANCELLED };
enum event_kind { EVENT_KIND_EVENT, EVENT_KIND_SHOW, EVENT_KIND_FLIGHT };

struct policy {
    int32_t hold_ttl_s, extend_by_s, max_hold_s;
    int32_t max_seats_per_hold, max_seats_per_user; /* 0: no limit (per user) */
    bool one_hold_per_user;
    bool one_seat_per_user; /* who confirms gives back what they had confirmed before */
    bool no_single_seat_gap;
};

struct event_info {
    int64_t version; /* of the event's row; 0: not known */
    enum event_status status;
    enum event_kind kind;
    char currency[4];
    struct policy policy;
    struct mono_time read_at; /* when the read that it rests on began */
};

struct events; /* opaque */

struct events *events_new(void);
void events_free(struct events **events);

/*
 * False: not known, or outdated; then *info is what was read last (version 0: nothing), good for a
 * statement that judges the version itself. The caller judges the age by info->read_at.
 */
bool events_find(struct events *events, struct slice org, struct slice event,
                 struct event_info *info);
/* Takes in a row; an older version than the known one is ignored. */
void events_learn(struct events *events, struct slice org, struct slice event,
                  const struct event_info *info);
/*
 * The row has `version` at least, for certain: what is known is void until such a row is learned,
 * also when nothing is known yet and an older one is on its way.
 */
void events_outdated(struct events *events, struct slice org, struct slice event, int64_t version);
/* Forgets everything (another server answers now). */
void events_forget(struct events *events);

const char *event_status_word(enum event_status status);
bool event_status_parse(struct slice word, enum event_status *status);
const char *event_kind_word(enum event_kind kind);
bool event_kind_parse(struct slice word, enum event_kind *kind);

#endif
