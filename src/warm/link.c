/*
 * link.c - the one connection to Redis, and what its failures mean.
 *
 * A context of hiredis is dead after any error of its own and after a timeout (the late reply would
 * answer the next command), so it is closed at once. A connect proves nothing: a stopped Redis
 * accepts too; so the link counts as open only after replies. The socket does not block: each wait
 * is a poll of ours that ends at one deadline, however slowly the bytes drip. Errors that Redis
 * answers are failures as well (OOM, READONLY, LOADING, MISCONF, MOVED, NOAUTH: it can't be used
 * now), save those that speak of one key or script.
 */
#include "warm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

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
    link->trial = false;
    if (link->tier != NULL)
        warm_tier_failed(link->tier, why);
    else
        snprintf(link->trouble, sizeof(link->trouble), "%s", why);
    warm_link_close(link); /* `why` may be its text */
}

void
warm_link_worked(struct warm_link *link)
{
    link->trial = false;
    warm_tier_worked(link->tier);
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

struct mono_time
warm_link_deadline(const struct warm_link *link)
{
    int64_t us = link->timeout.tv_sec * INT64_C(1000000) + link->timeout.tv_usec;
    return (struct mono_time){ mono_now().us + us };
}

/* False: nothing came (or could be sent) in time, the link failed. */
static bool
wait_until(struct warm_link *link, short events, struct mono_time deadline)
{
    for (;;) {
        struct pollfd fd = { .fd = link->context->fd, .events = events };
        int64_t left_us = deadline.us - mono_now().us;
        int left_ms = left_us > 0 ? (int)((left_us + TIME_US_PER_MS - 1) / TIME_US_PER_MS) : 0;
        int ready = poll(&fd, 1, left_ms);
        if (ready > 0)
            return true;
        if (ready < 0 && errno == EINTR)
            continue;
        link_failed(link, ready < 0 ? strerror(errno) : "too slow");
        return false;
    }
}

static bool
push_until(struct warm_link *link, struct mono_time deadline)
{
    int done = 0;
    for (;;) {
        if (redisBufferWrite(link->context, &done) != REDIS_OK) {
            link_failed(link, link->context->errstr);
            return false;
        }
        if (done)
            return true;
        if (!wait_until(link, POLLOUT, deadline))
            return false;
    }
}

bool
warm_link_push(struct warm_link *link)
{
    return push_until(link, warm_link_deadline(link));
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

/* NULL: the link failed. */
static redisReply *
read_reply(struct warm_link *link, struct mono_time deadline)
{
    for (;;) {
        void *reply = NULL;
        if (redisGetReplyFromReader(link->context, &reply) != REDIS_OK)
            break;
        if (reply != NULL)
            return reply;
        if (!push_until(link, deadline) || !wait_until(link, POLLIN, deadline))
            return NULL;
        if (redisBufferRead(link->context) != REDIS_OK)
            break;
    }
    link_failed(link, link->context->errstr);
    return NULL;
}

redisReply *
warm_link_reply(struct warm_link *link, struct mono_time deadline)
{
    redisReply *reply = read_reply(link, deadline);
    if (reply != NULL && is_fault(reply)) {
        link_failed(link, reply->str);
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
connect_socket(struct warm_link *link)
{
    const struct warm_address *address = &link->address;
    link->context = address->is_unix
                        ? redisConnectUnixWithTimeout(address->host, link->timeout)
                        : redisConnectWithTimeout(address->host, address->port, link->timeout);
    if (link->context == NULL || link->context->err != 0) {
        link_failed(link, link->context != NULL ? link->context->errstr : "no memory");
        return false;
    }
    int flags = fcntl(link->context->fd, F_GETFL);
    if (flags < 0 || fcntl(link->context->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        link_failed(link, strerror(errno));
        return false;
    }
    link->context->flags &= ~REDIS_BLOCK; /* for hiredis "try again" is no error then */
    return true;
}

bool
warm_link_greet(struct warm_link *link, struct mono_time deadline)
{
    int greeting = 0;
    return connect_socket(link) && queue_greeting(link, &greeting) &&
           read_greeting(link, greeting, deadline);
}

/* Connecting, greeting and scripts together take no longer than any other use may. */
static bool
link_connect(struct warm_link *link)
{
    struct mono_time deadline = warm_link_deadline(link);
    int greeting = 0;
    link->generation = warm_tier_generation(link->tier);
    link->number++;
    return connect_socket(link) && queue_greeting(link, &greeting) && queue_scripts(link) &&
           read_greeting(link, greeting, deadline) && read_scripts(link, deadline);
}

/*
 * An idle connection has nothing to say: what can be read is its end. To find that first saves a
 * use, and a failure that the breaker would count after each restart of Redis once for each thread.
 */
static bool
is_stale(const struct warm_link *link)
{
    char byte;
    return link->generation != warm_tier_generation(link->tier) ||
           recv(link->context->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
           (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* The half-open breaker gives its trial once; it lasts until this link has reported on it. */
static bool
is_allowed(struct warm_link *link)
{
    struct breaker *breaker = warm_tier_breaker(link->tier);
    enum breaker_state state = breaker_state(breaker);
    if (state == BREAKER_HALF_OPEN && link->trial)
        return true;
    bool allowed = breaker_allows(breaker, mono_now());
    link->trial = allowed && state == BREAKER_HALF_OPEN;
    return allowed;
}

bool
warm_link_open(struct warm_link *link, bool idle)
{
    if (!link->usable || !is_allowed(link)) {
        metric_add(METRIC_REDIS_FALLBACKS_TOTAL, 1);
        warm_link_close(link); /* what it was doing is of no use to anybody any more */
        return false;
    }
    if (link->context != NULL && idle && is_stale(link))
        warm_link_close(link);
    return link->context != NULL || link_connect(link);
}

bool
warm_link_probe(struct warm_link *link)
{
    warm_link_close(link);
    return link->usable && link_connect(link);
}
