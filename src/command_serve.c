/*
 * command_serve.c - `holdfast serve`: every room started in order, stopped in the reverse.
 *
 * The main thread starts the rooms, then only waits for signals: SIGTERM and SIGINT are
 * blocked before the first thread exists, so no other thread ever takes one.
 *
 * Drain: /ready says 503 at once; for drain_delay the node goes on accepting, each
 * answer with Connection: close, so that balancers look elsewhere; then the listener
 * closes, what is in flight is finished until drain_timeout, and the rooms stop. A
 * second signal ends the process at once with exit status 1.
 */
#include <errno.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commands.h"
#include "holdfast/api.h"
#include "holdfast/baggage.h"
#include "holdfast/delivery.h"
#include "holdfast/desk.h"
#include "holdfast/fanout.h"
#include "holdfast/feed.h"
#include "holdfast/log.h"
#include "holdfast/payments.h"
#include "holdfast/repair.h"
#include "holdfast/streams.h"
#include "holdfast/thread.h"
#include "holdfast/upkeep.h"
#include "holdfast/waitlist.h"

#define POSTGRES_RETRY_US (500 * TIME_US_PER_MS)
#define DRAIN_LOOK_US     (5 * TIME_US_PER_MS)
#define CLOSE_WAIT_US     (100 * TIME_US_PER_MS)
#define STOP_SHARE        20 /* one part in so many of drain_timeout is for stopping the rooms */
#define AWAIT_TRUST_US    (1 * (int64_t)TIME_US_PER_S)
#define ERROR_BYTES       512

struct server {
    struct node node;
    struct api *api;
    struct http_handler handler;
    struct upkeep *upkeep;
    struct repair *repair;
    struct acceptor *acceptor;
    sigset_t signals; /* those that end us; blocked in every thread */
};

/* --- signals ------------------------------------------------------------------------- */

static void
block_signals(struct server *server)
{
    sigemptyset(&server->signals);
    sigaddset(&server->signals, SIGTERM);
    sigaddset(&server->signals, SIGINT);
    hf_must(pthread_sigmask(SIG_BLOCK, &server->signals, NULL));
    signal(SIGPIPE, SIG_IGN); /* a client that went away is an error of write, no more */
}

/* Waits until a signal says that we shall end; at most `us`. */
static bool
told_to_end_within(struct server *server, int64_t us)
{
    struct timespec wait = { us / TIME_US_PER_S, us % TIME_US_PER_S * 1000 };
    int signal_number;

    do {
        signal_number = sigtimedwait(&server->signals, NULL, &wait);
    } while (signal_number < 0 && errno == EINTR);
    return signal_number > 0;
}

static void
wait_until_told_to_end(struct server *server)
{
    int signal_number;

    hf_must(sigwait(&server->signals, &signal_number));
    LOG_EVENT(LOG_INFO, "draining", log_int("signal", signal_number));
}

static void
end_at_once(int signal_number)
{
    (void)signal_number;
    _exit(EXIT_FAILED);
}

/* From now on a signal doesn't wait for the main thread to look. */
static void
let_second_signal_end_us(struct server *server)
{
    struct sigaction action = { .sa_handler = end_at_once };

    hf_must(sigaction(SIGTERM, &action, NULL));
    hf_must(sigaction(SIGINT, &action, NULL));
    hf_must(pthread_sigmask(SIG_UNBLOCK, &server->signals, NULL));
}

/* --- the database ----------------------------------------------------------------------- */

/* What libpq would take for a connection string must be one; anything else is a database's name. */
static bool
database_url_is_good(const char *url)
{
    char *why = NULL;
    bool is_name = strchr(url, '=') == NULL && strstr(url, "://") == NULL;

    if (url[0] == '\0') {
        fprintf(stderr, "holdfast serve: DATABASE_URL is not set\n");
        return false;
    }
    if (is_name)
        return true;
    PQconninfoOption *options = PQconninfoParse(url, &why);
    if (options == NULL)
        fprintf(stderr, "holdfast serve: DATABASE_URL: %s", why != NULL ? why : "no memory\n");
    PQconninfoFree(options);
    PQfreemem(why);
    return options != NULL;
}

enum wait { WAIT_DONE, WAIT_FAILED, WAIT_TOLD_TO_END };

static bool
starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Logs a reason to wait once, not each time round. */
static void
log_waiting(char last[ERROR_BYTES], const char *error)
{
    if (strcmp(last, error) == 0)
        return;
    snprintf(last, ERROR_BYTES, "%s", error);
    LOG_EVENT(LOG_WARN, "waiting_for_postgres", log_text("error", error));
}

static enum wait
migrate_when_possible(struct server *server)
{
    const struct config *config = server->node.config;
    char error[ERROR_BYTES], last[ERROR_BYTES] = "";
    int applied;

    while (!pg_migrate(config, &applied, error, sizeof(error))) {
        if (!starts_with(error, "connect: ")) {
            fprintf(stderr, "holdfast serve: %s\n", error);
            return WAIT_FAILED;
        }
        log_waiting(last, error);
        if (told_to_end_within(server, POSTGRES_RETRY_US))
            return WAIT_TOLD_TO_END;
    }
    if (applied > 0)
        LOG_EVENT(LOG_INFO, "migrated", log_int("applied", applied));
    return WAIT_DONE;
}

/* The first session also reads the clock and the identity, which all rooms count on. */
static enum wait
await_session(struct server *server)
{
    struct node *node = &server->node;
    struct pg *pg = pg_new(node->config, "holdfast start", node->identity, node->clock);
    char last[ERROR_BYTES] = "";
    enum wait outcome = WAIT_DONE;

    if (pg == NULL)
        return WAIT_FAILED;
    while (!pg_ready(pg) || !pg_prepare_all(pg)) {
        log_waiting(last, pg_last_error(pg));
        if (told_to_end_within(server, POSTGRES_RETRY_US)) {
            outcome = WAIT_TOLD_TO_END;
            break;
        }
    }
    pg_free(&pg);
    return outcome;
}

static enum wait
await_postgres(struct server *server)
{
    enum wait outcome =
        server->node.config->auto_migrate ? migrate_when_possible(server) : WAIT_DONE;
    return outcome == WAIT_DONE ? await_session(server) : outcome;
}

/* Another server answers now (a fail-over, a restore): what we believe about the old one is
 * void. */
static void
forget_everything(void *context)
{
    struct node *node = context;

    LOG_EVENT(LOG_WARN, "postgres_changed");
    if (node->hot != NULL)
        hot_table_distrust(node->hot);
    if (node->events != NULL)
        events_forget(node->events);
    if (node->maps != NULL)
        seat_maps_forget(node->maps);
    if (node->feed != NULL)
        feed_break(node->feed);
    if (node->fanout != NULL)
        fanout_another_postgres(node->fanout);
    warm_tier_distrust(node->tier, "Postgres is another one");
}

/* --- rooms, in the order of their start ---------------------------------------------------- */

static bool
failed(const char *what)
{
    fprintf(stderr, "holdfast serve: %s could not be started\n", what);
    return false;
}

/* "node-" and 8 hex digits of chance, unless the node has a name. */
static void
name_node(struct node *node)
{
    struct uuid dice = uuid_v7_new(); /* its last bytes are random */

    if (node->config->node_id[0] != '\0')
        snprintf(node->id, sizeof(node->id), "%s", node->config->node_id);
    else
        snprintf(node->id, sizeof(node->id), "node-%02x%02x%02x%02x", dice.bytes[12],
                 dice.bytes[13], dice.bytes[14], dice.bytes[15]);
}

/* A connection is a descriptor: as many as the system lets us have. */
static void
raise_descriptor_limit(const struct config *config)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || (int64_t)limit.rlim_cur < config->connections_max)
        LOG_EVENT(LOG_WARN, "few_descriptors", log_int("descriptors", (int64_t)limit.rlim_cur),
                  log_int("connections_max", config->connections_max));
}

static bool
start_base(struct server *server)
{
    struct node *node = &server->node;
    enum log_level level = LOG_INFO;

    name_node(node);
    log_level_parse(node->config->log_level, &level);
    log_init(level, node->id);
    raise_descriptor_limit(node->config);
    node->clock = db_clock_new();
    node->identity = pg_identity_new();
    node->tier = warm_tier_new(node->config);
    if (node->clock == NULL || node->identity == NULL || node->tier == NULL)
        return failed("what all rooms share");
    return true;
}

/* Looks closely at keys, proxies, address, payments, baggage and delivery: what is wrong there is
 * told before Postgres is waited for. */
static bool
start_api(struct server *server)
{
    const struct config *config = server->node.config;
    char error[ERROR_BYTES] = "";

    if (!acceptor_address_is_valid(config->listen)) {
        fprintf(stderr,
                "holdfast serve: listen: '%s' is no address and port such as 127.0.0.1:8080\n",
                config->listen);
        return false;
    }
    if (payments_check(config, error, sizeof(error)) &&
        baggage_check(config, error, sizeof(error)) && delivery_check(config, error, sizeof(error)))
        server->api = api_new(&server->node, error, sizeof(error));
    if (server->api == NULL)
        fprintf(stderr, "holdfast serve: %s\n", error);
    return server->api != NULL;
}

static bool
start_memory(struct node *node)
{
    const struct config *config = node->config;
    struct hot_table_limits limits = {
        .shards = (uint32_t)config->hot_shards,
        .seats_max = config->hot_seats_max,
        .parked_max = config->parked_max,
        .lease_us = config->hot_lease,
        .tombstone_us = 10 * TIME_US_PER_S,
    };

    node->hot = hot_table_new(&limits);
    node->events = events_new();
    node->maps = seat_maps_new((int)config->maps_max);
    node->feed = feed_new(node, config->feed_log_max);
    if (node->hot == NULL || node->events == NULL || node->maps == NULL || node->feed == NULL)
        return failed("the tables in memory");
    pg_identity_on_change(node->identity, forget_everything, node);
    return true;
}

/* Among the living nodes, heard by them and hearing them. */
static bool
start_among_peers(struct server *server)
{
    struct node *node = &server->node;
    char error[ERROR_BYTES] = "";

    server->upkeep = upkeep_join(node, error, sizeof(error));
    if (server->upkeep != NULL) {
        feed_start(node->feed, upkeep_incarnation(server->upkeep));
        node->fanout = fanout_start(node, upkeep_incarnation(server->upkeep), error, sizeof(error));
    }
    if (node->fanout == NULL) {
        fprintf(stderr, "holdfast serve: %s\n", error);
        return false;
    }
    if (!upkeep_start(server->upkeep))
        return failed("upkeep");
    if (!fanout_await_trust(node->fanout, AWAIT_TRUST_US))
        LOG_EVENT(LOG_WARN, "peers_not_heard", log_text("hint", "memory refuses by lease"));
    return true;
}

static bool
start_payments(struct node *node)
{
    char error[ERROR_BYTES] = "";

    node->payments = payments_start(node, error, sizeof(error));
    if (node->payments == NULL)
        fprintf(stderr, "holdfast serve: %s\n", error);
    return node->payments != NULL;
}

static bool
start_baggage(struct node *node)
{
    char error[ERROR_BYTES] = "";

    node->baggage = baggage_start(node->config, error, sizeof(error));
    if (node->baggage == NULL)
        fprintf(stderr, "holdfast serve: %s\n", error);
    return node->baggage != NULL;
}

static bool
start_delivery(struct node *node)
{
    char error[ERROR_BYTES] = "";

    node->delivery = delivery_start(node, error, sizeof(error));
    if (node->delivery == NULL)
        fprintf(stderr, "holdfast serve: %s\n", error);
    return node->delivery != NULL;
}

static bool
start_threads(struct server *server)
{
    struct node *node = &server->node;

    node->engine = engine_start(node);
    if (node->engine == NULL)
        return failed("the engine");
    if (!start_payments(node) || !start_baggage(node))
        return false;
    node->desk = desk_start(node);
    if (node->desk == NULL)
        return failed("the desk");
    if (!start_among_peers(server))
        return false;
    if (!upkeep_warm_start(node))
        LOG_EVENT(LOG_WARN, "cold_start", log_text("hint", "memory fills by and by"));
    node->streams = streams_start(node);
    if (node->streams == NULL)
        return failed("the streams");
    if (!start_delivery(node))
        return false;
    node->waitlist = waitlist_start(node);
    if (node->waitlist == NULL)
        return failed("the waitlist");
    server->repair = repair_start(node);
    return server->repair != NULL || failed("repair");
}

static bool
start_front(struct server *server)
{
    struct node *node = &server->node;
    char error[ERROR_BYTES] = "";

    server->handler = api_http_handler(server->api);
    api_set_phase(server->api, API_SERVING);
    server->acceptor =
        acceptor_start(node->config, &server->handler, node->id, error, sizeof(error));
    if (server->acceptor == NULL) {
        fprintf(stderr, "holdfast serve: %s\n", error);
        return false;
    }
    return true;
}

static void
say_listening(struct server *server)
{
    LOG_EVENT(LOG_INFO, "listening", log_text("address", acceptor_address(server->acceptor)),
              log_text("version", HOLDFAST_VERSION));
    printf("listening on %s\n", acceptor_address(server->acceptor));
    fflush(stdout);
}

/* --- drain, and the reverse of the start ------------------------------------------------------ */

static struct mono_time
after(int64_t us)
{
    return (struct mono_time){ mono_now().us + us };
}

static bool
is_quiet(struct server *server)
{
    return api_unanswered(server->api) == 0 && acceptor_connections(server->acceptor) == 0;
}

/* Until nobody waits for an answer and all have taken theirs, or time is up. */
static void
finish_what_is_in_flight(struct server *server, struct mono_time deadline)
{
    while (!is_quiet(server) && mono_now().us < deadline.us)
        sleep_us(DRAIN_LOOK_US);
}

static void
drain(struct server *server, struct mono_time deadline)
{
    api_set_phase(server->api, API_DRAINING);
    acceptor_drain_begin(server->acceptor);
    waitlist_close(server->node.waitlist); /* other nodes go on */
    sleep_us(server->node.config->drain_delay);
    streams_close(server->node.streams);
    acceptor_drain_close(server->acceptor);
    finish_what_is_in_flight(server, deadline);
}

/*
 * Requests that come on open connections from now on are refused before they reach a room.
 * Those that were let in are waited for; past the deadline they wait in engine or desk,
 * which answer them when they stop. The least wait is for a handler on its way there.
 */
static void
close_front(struct server *server, struct mono_time deadline)
{
    struct mono_time least = after(CLOSE_WAIT_US);

    if (server->api == NULL)
        return;
    api_set_phase(server->api, API_CLOSED);
    while (api_unanswered(server->api) > 0 &&
           mono_now().us < (deadline.us > least.us ? deadline.us : least.us))
        sleep_us(DRAIN_LOOK_US);
}

static void
stop_rooms(struct server *server, struct mono_time deadline)
{
    struct node *node = &server->node;

    close_front(server, deadline);
    if (server->repair != NULL)
        repair_stop(&server->repair);
    waitlist_stop(node->waitlist, deadline); /* it hands ops to the engine */
    delivery_stop(&node->delivery, deadline);
    payments_stop(node->payments); /* before upkeep looks whether the engine is quiet */
    baggage_stop(node->baggage);
    if (server->upkeep != NULL)
        upkeep_stop(&server->upkeep);
    if (node->desk != NULL)
        desk_stop(&node->desk, deadline);
    baggage_free(&node->baggage); /* a job of the desk may have weighed until now */
    if (node->engine != NULL)
        engine_stop(&node->engine, deadline);
    waitlist_free(&node->waitlist); /* a job of the desk told of who joined, an op came back */
    payments_free(&node->payments); /* an op that the engine ended may have charged until now */
    if (server->acceptor != NULL)
        acceptor_stop(&server->acceptor);
    streams_stop(&node->streams);
    fanout_stop(&node->fanout, !node_is_in_doubt(node));
    feed_free(&node->feed);
    if (node->maps != NULL)
        seat_maps_free(&node->maps);
    if (node->events != NULL)
        events_free(&node->events);
    if (node->hot != NULL)
        hot_table_free(&node->hot);
    api_free(&server->api);
    if (node->identity != NULL)
        pg_identity_free(&node->identity);
    if (node->tier != NULL)
        warm_tier_free(&node->tier);
    if (node->clock != NULL)
        db_clock_free(&node->clock);
}

static int
serve(struct server *server)
{
    const struct config *config = server->node.config;
    int status = EXIT_FAILED;

    if (!start_base(server) || !start_api(server))
        goto stop;
    switch (await_postgres(server)) {
    case WAIT_DONE:
        break;
    case WAIT_TOLD_TO_END:
        status = EXIT_DONE;
        goto stop;
    case WAIT_FAILED:
        goto stop;
    }
    if (!start_memory(&server->node) || !start_threads(server) || !start_front(server))
        goto stop;
    say_listening(server);
    wait_until_told_to_end(server);
    /* What waits, waits a little less than drain_timeout: the process must be gone by then. */
    struct mono_time deadline = after(config->drain_timeout - config->drain_timeout / STOP_SHARE);
    let_second_signal_end_us(server);
    drain(server, deadline);
    stop_rooms(server, deadline);
    return EXIT_DONE;
stop:
    stop_rooms(server, after(config->drain_timeout));
    return status;
}

int
command_serve(const struct config *config, int argc, char **argv)
{
    struct server server = { .node = { .config = config } };

    if (command_takes_no_words(argc, argv) != EXIT_DONE)
        return EXIT_USAGE;
    if (!database_url_is_good(config->database_url))
        return EXIT_FAILED;
    block_signals(&server);
    return serve(&server);
}
