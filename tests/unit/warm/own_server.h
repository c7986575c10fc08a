/*
 * own_server.h - a Redis of this program's own, so that it may be stopped, flushed and killed.
 *
 * Only where HOLDFAST_TEST_REDIS_URL says that there is a redis-server (live.h).
 */
#ifndef HOLDFAST_TEST_WARM_OWN_SERVER_H
#define HOLDFAST_TEST_WARM_OWN_SERVER_H

#include <sys/prctl.h>
#include <sys/wait.h>

#include "live.h"

static char folder[] = "/tmp/hf-redis-XXXXXX";
static char own_url[64];
static pid_t own_server;

static inline void
pause_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

static inline redisContext *
own_connection(void)
{
    struct warm_address address;
    assert_true(warm_address_parse(slice_of(own_url), &address));
    redisContext *context = redisConnectUnix(address.host);
    assert_non_null(context);
    return context;
}

/* The type of the reply to a plain command beside the connections under test; 0: none came. */
static inline int
own_command(const char *command)
{
    redisContext *context = own_connection();
    redisReply *reply = context->err == 0 ? redisCommand(context, command) : NULL;
    int type = reply != NULL ? reply->type : 0;
    if (reply != NULL)
        freeReplyObject(reply);
    redisFree(context);
    return type;
}

static inline void
start_server(void)
{
    own_server = fork();
    assert_true(own_server >= 0);
    if (own_server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (chdir(folder) == 0 && freopen("/dev/null", "w", stdout) != NULL)
            execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", "redis.sock",
                   "--save", "", "--dir", ".", (char *)NULL);
        _exit(127);
    }
    for (int tries = 0; own_command("PING") != REDIS_REPLY_STATUS; tries++) {
        assert_true(tries < 2000);
        pause_ms(10);
    }
}

static inline void
kill_server(void)
{
    assert_int_equal(kill(own_server, SIGKILL), 0);
    assert_int_equal(waitpid(own_server, NULL, 0), own_server);
}

static inline int
open_program(void **state)
{
    (void)state;
    log_init(LOG_ERROR + 1, "test");
    signal(SIGPIPE, SIG_IGN);
    if (server() == NULL)
        return 0;
    assert_non_null(mkdtemp(folder));
    snprintf(own_url, sizeof(own_url), "unix:%s/redis.sock", folder);
    start_server();
    return 0;
}

static inline int
close_program(void **state)
{
    (void)state;
    if (server() == NULL)
        return 0;
    kill_server();
    static const char *const left[] = { "redis.sock", "dump.rdb" };
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        char path[64];
        snprintf(path, sizeof(path), "%s/%s", folder, left[i]);
        unlink(path);
    }
    rmdir(folder);
    return 0;
}

#endif
