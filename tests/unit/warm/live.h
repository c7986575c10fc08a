/*
 * live.h - a real Redis for the tests of this folder: HOLDFAST_TEST_REDIS_URL, or they are skipped.
 *
 * Each case has an event of its own, so tests may share the server with others.
 */
#ifndef HOLDFAST_TEST_WARM_LIVE_H
#define HOLDFAST_TEST_WARM_LIVE_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "holdfast/log.h"
#include "warm_internal.h"

static struct config config;
static struct warm_tier *tier;
static struct warm *warm;
static redisContext *admin; /* a plain connection beside the one under test */
static char event_text[32];
static struct slice event;

#define ORG SLICE_LITERAL("acme")

static inline const char *
server(void)
{
    const char *url = getenv("HOLDFAST_TEST_REDIS_URL");
    return url != NULL && url[0] != '\0' ? url : NULL;
}

#define REDIS_OR_SKIP()                                                                            \
    do {                                                                                           \
        if (server() == NULL) {                                                                    \
            print_message("skipped: HOLDFAST_TEST_REDIS_URL is not set\n");                        \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

static inline redisReply *
redis(const char *format, const char *word)
{
    redisReply *reply = redisCommand(admin, format, word);
    assert_non_null(reply);
    return reply;
}

/* The reply to "<command> <key><suffix> ..." as text; numbers too. The caller frees it. */
static inline char *
ask(const char *command, const char *suffix, const char *rest)
{
    char line[512];
    snprintf(line, sizeof(line), "%s holdfast:{org:acme:event:%s}:%s%s%s", command, event_text,
             suffix, rest[0] != '\0' ? " " : "", rest);
    const char *words[8];
    int count = 0;
    for (char *word = strtok(line, " "); word != NULL && count < 8; word = strtok(NULL, " ")) {
        words[count++] = word;
    }
    redisReply *reply = redisCommandArgv(admin, count, words, NULL);
    assert_non_null(reply);
    char *text = NULL;
    if (reply->type == REDIS_REPLY_INTEGER) {
        assert_true(asprintf(&text, "%lld", reply->integer) > 0);
    } else {
        text = strdup(reply->str != NULL ? reply->str : "(nil)");
    }
    freeReplyObject(reply);
    assert_non_null(text);
    return text;
}

static inline void
assert_asked(const char *command, const char *suffix, const char *rest, const char *wanted)
{
    char *text = ask(command, suffix, rest);
    assert_string_equal(text, wanted);
    free(text);
}

static inline long long
ask_number(const char *command, const char *suffix, const char *rest)
{
    char *text = ask(command, suffix, rest);
    long long number = atoll(text);
    free(text);
    return number;
}

static inline struct warm_hold
hold_of(const char *seat, struct uuid id, const char *user, int64_t version)
{
    return (struct warm_hold){ .org = ORG,
                               .event = event,
                               .seat = slice_of(seat),
                               .user = slice_of(user),
                               .cart_token = SLICE_LITERAL("cart-1"),
                               .source = SLICE_LITERAL("web"),
                               .hold_id = id,
                               .held_at = { 1769863000 * INT64_C(1000000) },
                               .held_until = { 1769863900 * INT64_C(1000000) },
                               .as_of = { 1769863001 * INT64_C(1000000) },
                               .version = version,
                               .ttl_ms = 900000 };
}

static inline void
put_one(struct warm_hold hold)
{
    assert_true(warm_put(warm, &hold, 1));
    assert_true(warm_collect(warm));
}

static inline void
remove_one(struct warm_hold hold)
{
    assert_true(warm_remove(warm, &hold, 1));
    assert_true(warm_collect(warm));
}

/* Each case has an event of its own and a fresh warm tier. */
static inline int
open_case(void **state)
{
    static int number;
    (void)state;
    if (server() == NULL) {
        return 0;
    }
    snprintf(event_text, sizeof(event_text), "test-%d-%d", (int)getpid(), ++number);
    event = slice_of(event_text);
    tier = warm_tier_new(&config);
    warm = warm_new(&config, tier);
    return warm == NULL;
}

static inline int
close_case(void **state)
{
    (void)state;
    if (server() == NULL) {
        return 0;
    }
    warm_free(&warm);
    warm_tier_free(&tier);
    char pattern[64];
    snprintf(pattern, sizeof(pattern), "*event:%s}*", event_text);
    redisReply *keys = redis("KEYS %s", pattern);
    for (size_t i = 0; i < keys->elements; i++) {
        freeReplyObject(redis("DEL %s", keys->element[i]->str));
    }
    freeReplyObject(keys);
    return 0;
}

static inline int
open_all(void **state)
{
    (void)state;
    log_init(LOG_ERROR + 1, "test"); /* failures are what these tests are about */
    signal(SIGPIPE, SIG_IGN);        /* as the server does */
    if (server() == NULL) {
        return 0;
    }
    static char url[512];
    snprintf(url, sizeof(url), "%s", server());
    config.redis_url = url;
    config.redis_timeout_ms = 2000; /* the machine may be busy */
    struct warm_address address;
    assert_true(warm_address_parse(slice_of(url), &address));
    admin =
        address.is_unix ? redisConnectUnix(address.host) : redisConnect(address.host, address.port);
    assert_non_null(admin);
    assert_int_equal(admin->err, 0);
    char db[16];
    snprintf(db, sizeof(db), "%d", address.db);
    freeReplyObject(redis("SELECT %s", db));
    return 0;
}

static inline int
close_all(void **state)
{
    (void)state;
    if (admin != NULL) {
        redisFree(admin);
    }
    return 0;
}

#endif
