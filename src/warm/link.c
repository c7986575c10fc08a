/*
 * link.c - the one connection to Redis, and what its failures mean.
 *
 * A context of hiredis is dead after any error of its own and after a timeout (the late reply would
 * answer the next command), so it is closed at once. A connect proves nothing: a stopped Redis
 * accepts too; so the link counts as open only after replies. Errors that Redis answers are
 * failures as well (OOM, READONLY, LOADING, MISCONF, MOVED, NOAUTH: it can't be used now), save
 * those that speak of one key or script.
 */
#include "warm_internal.h"

#include <stdio.h>
#include <string.h>

#include "holdfast/log.h"
#include "holdfast/metrics.h"

void
warm_link_init(struct warm_link *link, const struct config *config, struct warm_tier *tier)
{
    *link = (struct warm_link){ .tier = tier };
    link->usable = warm_address_parse(slice_of(config->redis_url), &link->address);
    link->timeout.tv_sec = config->redis_timeout_ms / 1000;
    link->timeout.tv_usec = config->redis_timeout_ms % 1000 * 1000;
    if (!link->usable) {
        LOG_EVENT(LOG_ERROR, "redis_url_bad",
                  log_text("hint", "redis://[[user]:password@]host[:port][/db] or unix:/path"));
    }
}

void
warm_link_close(struct warm_link *link)
{
    if (link->context != NULL) {
        redisFree(link->context);
        link->context = NULL;
    }
}

static void
link_failed(struct warm_link *link, const char *why)
{
    char text[sizeof(link->logged)];
    snprintf(text, sizeof(text), "%s", why);
    if (strcmp(text, link->logged) != 0) {
        memcpy(link->logged, text, sizeof(text));
        LOG_EVENT(LOG_WARN, "redis_down", log_text("error", text));
    }
    metric_add(METRIC_REDIS_FAILURES_TOTAL, 1);
    metric_set(METRIC_REDIS_UP, 0);
    breaker_failed(warm_tier_breaker(link->tier), mono_now());
    warm_link_close(link);
}

void
warm_link_worked(struct warm_link *link)
{
    breaker_worked(warm_tier_breaker(link->tier), mono_now());
    if (link->logged[0] != '\0') {
        LOG_EVENT(LOG_INFO, "redis_up", log_text("error", ""));
        link->logged[0] = '\0';
    }
    metric_set(METRIC_REDIS_UP, 1);
}

/* --- sending and receiving --------------------------------------------------- */

bool
warm_link_queue(struct warm_link *link, struct slice command)
{
    if (redisAppendFormattedCommand(link->context, command.ptr, command.len) != REDIS_OK) {
        link_failed(link, link->context->errstr);
        return false;
    }
    metric_add(METRIC_REDIS_COMMANDS_TOTAL, 1);
    return true;
}

bool
warm_link_push(struct warm_link *link)
{
    int done = 0;
    while (!done) { /* each write waits for the timeout at the most, then fails */
        if (redisBufferWrite(link->context, &done) != REDIS_OK) {
            link_failed(link, link->context->errstr);
            return false;
        }
    }
    return true;
}

struct mono_time
warm_link_deadline(const struct warm_link *link)
{
    int64_t us = link->timeout.tv_sec * INT64_C(1000000) + link->timeout.tv_usec;
    return (struct mono_time){ mono_now().us + us };
}

bool
warm_reply_is_error(const redisReply *reply, const char *code)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, code, strlen(code)) == 0;
}

static bool
is_fault(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && !warm_reply_is_error(reply, "WRONGTYPE") &&
           !warm_reply_is_error(reply, "NOSCRIPT");
}

redisReply *
warm_link_reply(struct warm_link *link, struct mono_time deadline)
{
    /* hiredis bounds each read; a Redis that drips its replies is bounded here. */
    if (mono_now().us > deadline.us) {
        link_failed(link, "too slow");
        return NULL;
    }
    void *reply = NULL;
    if (redisGetReply(link->context, &reply) != REDIS_OK || reply == NULL) {
        link_failed(link, link->context->errstr);
        return NULL;
    }
    if (is_fault(reply)) {
        link_failed(link, ((redisReply *)reply)->str);
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

/* --- connecting -------------------------------------------------------------- */

/* Queues one command made of words that we have as C strings. */
static bool
queue_words(struct warm_link *link, int words, const char *const *word)
{
    struct buf command = { 0 };
    warm_command(&command, words, word[0]);
    for (int i = 1; i < words; i++) {
        warm_word(&command, slice_of(word[i]));
    }
    bool built = !command.failed;
    if (!built) {
        link_failed(link, "no memory");
    }
    bool done = built && warm_link_queue(link, buf_slice(&command));
    buf_fini(&command);
    return done;
}

/* AUTH and SELECT, if the address asks for them. *queued counts the replies that are due. */
static bool
queue_greeting(struct warm_link *link, int *queued)
{
    const struct warm_address *address = &link->address;
    char db[16];
    snprintf(db, sizeof(db), "%d", address->db);

    const char *const with_user[] = { "AUTH", address->user, address->password };
    const char *const without[] = { "AUTH", address->password };
    const char *const choose[] = { "SELECT", db };
    *queued = 0;
    if (address->password[0] != '\0') {
        bool named = address->user[0] != '\0';
        if (!queue_words(link, named ? 3 : 2, named ? with_user : without)) {
            return false;
        }
        (*queued)++;
    }
    if (address->db != 0) {
        if (!queue_words(link, 2, choose)) {
            return false;
        }
        (*queued)++;
    }
    return true;
}

static bool
read_greeting(struct warm_link *link, int queued, struct mono_time deadline)
{
    for (int i = 0; i < queued; i++) {
        redisReply *reply = warm_link_reply(link, deadline);
        if (reply == NULL) {
            return false;
        }
        freeReplyObject(reply);
    }
    return true;
}

static bool
read_sha(struct warm_link *link, int script, struct mono_time deadline)
{
    redisReply *reply = warm_link_reply(link, deadline);
    if (reply == NULL) {
        return false;
    }
    bool good = reply->type == REDIS_REPLY_STRING && reply->len == sizeof(link->sha[0]) - 1;
    if (good) {
        memcpy(link->sha[script], reply->str, sizeof(link->sha[0]));
    }
    freeReplyObject(reply);
    if (!good) {
        link_failed(link, "SCRIPT LOAD did not answer with a digest");
    }
    return good;
}

static bool
queue_scripts(struct warm_link *link)
{
    for (int i = 0; i < SCRIPT_COUNT; i++) {
        const char *const load[] = { "SCRIPT", "LOAD", warm_scripts[i].lua };
        if (!queue_words(link, 3, load)) {
            return false;
        }
    }
    return true;
}

static bool
read_scripts(struct warm_link *link, struct mono_time deadline)
{
    for (int i = 0; i < SCRIPT_COUNT; i++) {
        if (!read_sha(link, i, deadline)) {
            return false;
        }
    }
    return true;
}

bool
warm_link_load_scripts(struct warm_link *link)
{
    struct mono_time deadline = warm_link_deadline(link);
    return queue_scripts(link) && read_scripts(link, deadline);
}

static bool
link_connect(struct warm_link *link)
{
    const struct warm_address *address = &link->address;
    link->context = address->is_unix
                        ? redisConnectUnixWithTimeout(address->host, link->timeout)
                        : redisConnectWithTimeout(address->host, address->port, link->timeout);
    if (link->context == NULL || link->context->err != 0) {
        link_failed(link, link->context != NULL ? link->context->errstr : "no memory");
        return false;
    }
    if (redisSetTimeout(link->context, link->timeout) != REDIS_OK) {
        link_failed(link, link->context->errstr);
        return false;
    }
    int greeting = 0;
    struct mono_time deadline = warm_link_deadline(link);
    return queue_greeting(link, &greeting) && queue_scripts(link) &&
           read_greeting(link, greeting, deadline) && read_scripts(link, deadline);
}

bool
warm_link_open(struct warm_link *link)
{
    if (!link->usable || !breaker_allows(warm_tier_breaker(link->tier), mono_now())) {
        metric_add(METRIC_REDIS_FALLBACKS_TOTAL, 1);
        warm_link_close(link); /* what it was doing is of no use to anybody any more */
        return false;
    }
    return link->context != NULL || link_connect(link);
}
