/*
 * watch.c - whether Redis lives, and whether it is still the Redis of before.
 *
 * A restarted Redis has another run id, whatever it loaded. One that was flushed has lost the mark:
 * a key that all nodes of this Redis share, a random id that never ends. Who finds none sets a new
 * one (NX: the first wins), and everybody who knew the old one sees that it changed.
 */
#include "warm_internal.h"

#include <stdio.h>
#include <string.h>

#define OFFER_AFTER_US                                                                             \
    (800 * TIME_US_PER_MS) /* half-open: a batch may have the trial until then                     \
                            */

/* --- the run id ------------------------------------------------------------------------------ */

/* False: Redis didn't tell (a proxy may not): then only the mark says. */
static bool
read_run_id(const redisReply *info, char *out, size_t bytes)
{
    static const char name[] = "run_id:";
    const char *at = info->type == REDIS_REPLY_STRING ? strstr(info->str, name) : NULL;
    if (at == NULL)
        return false;
    at += sizeof(name) - 1;
    size_t len = strcspn(at, "\r\n");
    if (len == 0 || len >= bytes)
        return false;
    memcpy(out, at, len);
    out[len] = '\0';
    return true;
}

static bool
run_id_changed(struct warm_watching *watching, const redisReply *info)
{
    char run_id[sizeof(watching->run_id)];
    if (!read_run_id(info, run_id, sizeof(run_id)))
        return false;
    bool changed = watching->run_id[0] != '\0' && strcmp(run_id, watching->run_id) != 0;
    memcpy(watching->run_id, run_id, sizeof(run_id));
    return changed;
}

bool
warm_run_id(struct warm *warm, char run_id[WARM_RUN_ID_BYTES])
{
    if (!warm_ready(warm))
        return false;
    warm_begin(warm, 2, "INFO");
    warm_word(&warm->command, SLICE_LITERAL("server"));
    redisReply *info = warm_ask(warm);
    bool told = info != NULL && read_run_id(info, run_id, WARM_RUN_ID_BYTES);
    if (info != NULL)
        freeReplyObject(info);
    return told;
}

/* --- the mark ----------------------------------------------------------------------------------
 */

/* SET <mark> <new> NX GET: the mark that stands there, or none and `fresh` stands there now. */
static bool
mark_changed(struct warm_watching *watching, const redisReply *reply, const char *fresh)
{
    char mark[sizeof(watching->mark)] = "";
    if (reply->type == REDIS_REPLY_STRING)
        snprintf(mark, sizeof(mark), "%s", reply->str);
    else if (reply->type == REDIS_REPLY_NIL)
        snprintf(mark, sizeof(mark), "%s", fresh);
    bool none = reply->type != REDIS_REPLY_STRING; /* what was here before is not known */
    bool changed = none || (watching->mark[0] != '\0' && strcmp(mark, watching->mark) != 0);
    memcpy(watching->mark, mark, sizeof(mark));
    return changed;
}

static bool
queue_questions(struct warm *warm, const char *fresh)
{
    warm_begin(warm, 2, "INFO");
    warm_word(&warm->command, SLICE_LITERAL("server"));
    if (!warm_queue(warm))
        return false;
    warm_begin(warm, 5, "SET");
    warm_key_mark(&warm->word);
    warm_add_built(warm);
    warm_word(&warm->command, slice_of(fresh));
    warm_word(&warm->command, SLICE_LITERAL("NX"));
    warm_word(&warm->command, SLICE_LITERAL("GET"));
    return warm_queue(warm);
}

/* Somebody put another type there: away with it, the next look sets a mark. */
static bool
clear_mark(struct warm *warm)
{
    warm_begin(warm, 2, "DEL");
    warm_key_mark(&warm->word);
    warm_add_built(warm);
    redisReply *reply = warm_ask(warm);
    if (reply == NULL)
        return false;
    freeReplyObject(reply);
    return true;
}

/* Asks who it is. False: Redis failed. */
static bool
look(struct warm *warm)
{
    struct uuid id = uuid_v7_new();
    char fresh[UUID_TEXT_BYTES];
    uuid_format(&id, fresh);
    if (!queue_questions(warm, fresh))
        return false;
    struct mono_time deadline = warm_link_deadline(&warm->link);
    redisReply *info = warm_link_reply(&warm->link, deadline);
    redisReply *mark = info != NULL ? warm_link_reply(&warm->link, deadline) : NULL;
    bool answered = mark != NULL;
    if (answered) {
        bool restarted = run_id_changed(&warm->watching, info);
        bool wiped = mark_changed(&warm->watching, mark, fresh);
        if (restarted || wiped)
            warm_tier_distrust(warm->link.tier,
                               restarted ? "it was restarted" : "it lost its mark");
        bool strange = warm_reply_is_error(mark, "WRONGTYPE");
        freeReplyObject(mark);
        answered = !strange || clear_mark(warm);
    }
    if (info != NULL)
        freeReplyObject(info);
    if (answered)
        warm_link_worked(&warm->link);
    return answered;
}

/* --- once a second --------------------------------------------------------------------------- */

static void
probe(struct warm *warm)
{
    struct breaker *breaker = warm_tier_breaker(warm->link.tier);
    if (!breaker_probe_is_due(breaker, mono_now()))
        return;
    bool lives = warm_link_probe(&warm->link); /* it has read replies: the scripts' digests */
    warm->watching.half_open_at = mono_now();
    breaker_probed(breaker, warm->watching.half_open_at, lives);
}

bool
warm_watch(struct warm *warm)
{
    if (!warm->on)
        return false;
    switch (breaker_state(warm_tier_breaker(warm->link.tier))) {
    case BREAKER_OPEN:
        probe(warm);
        return false;
    case BREAKER_HALF_OPEN:
        if (mono_now().us < warm->watching.half_open_at.us + OFFER_AFTER_US)
            return false;
        break;
    case BREAKER_CLOSED:
        break;
    }
    return warm_ready(warm) && look(warm);
}
