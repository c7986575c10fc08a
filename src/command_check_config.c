/*
 * command_check_config.c - `holdfast check-config`: the settings in force, and what is doubtful.
 *
 * A doubt is a line that begins with "warning:", on stderr like all that is said to people;
 * it doesn't fail the command. What would keep serve from starting does.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "holdfast/api_keys.h"
#include "holdfast/baggage.h"
#include "holdfast/cold.h"
#include "holdfast/delivery.h"
#include "holdfast/http.h"
#include "holdfast/payments.h"
#include "holdfast/rate_limit.h"
#include "holdfast/token.h"
#include "holdfast/warm.h"

#define ASK_TIMEOUT_US (5 * TIME_US_PER_S)

static void HF_PRINTF(1, 2) warn(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "warning: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
}

/* --- what serve would refuse ---------------------------------------------------------- */

static bool
keys_are_good(const struct config *config)
{
    char error[256];
    struct token_verifier *verifier = token_verifier_new(config, error, sizeof(error));
    bool good = verifier != NULL;

    if (!good)
        fprintf(stderr, "error: %s\n", error);
    token_verifier_free(&verifier);
    return good;
}

static bool
proxies_are_good(const struct config *config)
{
    char error[256];
    struct proxy_list *proxies = proxy_list_new(config->trusted_proxies, error, sizeof(error));
    bool good = proxies != NULL;

    if (!good)
        fprintf(stderr, "error: %s\n", error);
    proxy_list_free(&proxies);
    return good;
}

static bool
address_is_good(const struct config *config)
{
    bool good = acceptor_address_is_valid(config->listen);

    if (!good)
        fprintf(stderr, "error: listen: '%s' is no address and port such as 127.0.0.1:8080\n",
                config->listen);
    return good;
}

static bool
room_takes(const struct config *config,
           bool (*check)(const struct config *config, char *error, size_t error_bytes))
{
    char error[256];
    bool good = check(config, error, sizeof(error));

    if (!good)
        fprintf(stderr, "error: %s\n", error);
    return good;
}

/* --- doubts ------------------------------------------------------------------------------ */

static void
doubt_settings(const struct config *config)
{
    if (config->jwt_secret[0] == '\0' && config->jwt_keys_file[0] == '\0')
        warn("neither jwt_secret nor jwt_keys_file is set: every token will be refused");
    if (config->allow_unsafe_durability)
        warn("allow_unsafe_durability is on: a crash of the database server may lose confirmed "
             "holds");
    if (!config->rate_limits)
        warn("rate_limits is off: no client address is limited");
    if (strcmp(config->payment_provider, "simulated") == 0)
        warn("payment_provider is simulated: nobody is charged");
    if (strncmp(config->payment_url, "http:", 5) == 0)
        warn("payment_url is not https: what is sent there can be read and changed on its way");
    if (strncmp(config->baggage_provider_url, "http:", 5) == 0)
        warn("baggage_provider_url is not https: what is sent there can be read and changed on its "
             "way");
    if (config->api_keys[0] != '\0' && config->jwt_secret[0] == '\0')
        warn("api_keys are set without jwt_secret: no passenger's token can be signed, so nobody "
             "can log in");
    if (config->redis_url[0] == '\0')
        warn("redis_url is empty: there is no warm tier");
    if (config->drain_delay >= config->drain_timeout)
        warn("drain_delay is not below drain_timeout: nothing is left to finish what is in flight");
}

/* The one value that `sql` selects, as text; empty when it can't be asked. */
static void
ask(struct pg *pg, const char *sql, char *value, size_t value_bytes)
{
    struct mono_time deadline = { mono_now().us + ASK_TIMEOUT_US };
    struct pg_result *rows = NULL;

    value[0] = '\0';
    if (pg_run_text(pg, sql, 0, NULL, deadline, &rows) == PG_DONE && pg_rows(rows) == 1)
        snprintf(value, value_bytes, "%.*s", SLICE_ARG(pg_get_text(rows, 0, 0)));
    pg_result_free(&rows);
}

static void
doubt_server(struct pg *pg)
{
    struct buf report = { 0 };
    char value[128];

    ask(pg, "SELECT current_setting('synchronous_standby_names')", value, sizeof(value));
    if (value[0] == '\0')
        warn("the database has no synchronous standby: a fail-over may lose confirmed holds");
    ask(pg, "SELECT current_setting('full_page_writes')", value, sizeof(value));
    if (strcmp(value, "off") == 0)
        warn("the database has full_page_writes=off");
    if (pg_check_plans(pg, &report) > 0)
        warn("statements that no index serves:\n%s", report.data != NULL ? report.data : "");
    buf_fini(&report);
}

static void
doubt_postgres(const struct config *config)
{
    struct command_store store;

    if (config->database_url[0] == '\0') {
        warn("database_url is empty: serve will not start");
        return;
    }
    if (!command_store_init(&store, config, "check-config"))
        warn("no memory to ask Postgres");
    else if (!pg_ready(store.pg))
        warn("Postgres can't be used: %s", pg_last_error(store.pg));
    else
        doubt_server(store.pg);
    command_store_fini(&store);
}

static void
doubt_redis(const struct config *config)
{
    struct warm_tier *tier = warm_tier_new(config);
    struct warm *warm = tier != NULL ? warm_new(config, tier) : NULL;

    if (warm != NULL && warm_is_on(warm) && !warm_ping(warm))
        warn("Redis doesn't answer: the server works without it, more slowly");
    warm_free(&warm);
    warm_tier_free(&tier);
}

int
command_check_config(const struct config *config, int argc, char **argv)
{
    if (command_takes_no_words(argc, argv) != EXIT_DONE)
        return EXIT_USAGE;
    config_write(config, stdout);
    fflush(stdout);
    bool good = keys_are_good(config);
    good = proxies_are_good(config) && good;
    good = address_is_good(config) && good;
    good = room_takes(config, api_keys_check) && good;
    good = room_takes(config, payments_check) && good;
    good = room_takes(config, baggage_check) && good;
    good = room_takes(config, delivery_check) && good;
    doubt_settings(config);
    doubt_postgres(config);
    doubt_redis(config);
    return good ? EXIT_DONE : EXIT_FAILED;
}
