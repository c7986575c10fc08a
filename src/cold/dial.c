/*
 * dial.c - opens a connection before a deadline, to whichever host of DATABASE_URL takes one.
 *
 * libpq's own walk along a list of hosts goes on from a refusal, but never from silence: a server
 * that is stopped, or a network that swallows packets, would use up everybody's time. So each host
 * is tried by itself, with an even share of the time that is left: one silent host of two costs
 * half of it. Who took a connection last is tried first by all that come after (identity.c).
 *
 * Two things are the system's, and no deadline of ours ends them: looking a name up (addresses
 * need none), and which address of a name is tried: libpq goes on from one that refuses, but not
 * from one that is silent. So each server should have a name, or an address, of its own.
 */
#include "cold_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define PARAMETERS_MAX  128 /* the libraries of today know some fifty keywords */
#define HOST_BYTES      256 /* names have 253 at most, paths of sockets 107 */

#define DEFAULTS_EXPAND 1 /* dbname may be a whole connection string */

/* What an element of a list belongs to: the three keywords that are lists, one element a host. */
enum list { LIST_HOST, LIST_HOSTADDR, LIST_PORT, LIST_COUNT };
static const char *const list_keywords[LIST_COUNT] = { "host", "hostaddr", "port" };

/* DATABASE_URL, taken apart. */
struct target {
    const char *url;
    PQconninfoOption *options; /* NULL: not for us to read; libpq takes it, or says what is wrong */
    int hosts;
};

/* One try. Names and values of libpq, and room for what belongs to this host alone. */
struct attempt {
    int count;
    const char *names[PARAMETERS_MAX];
    const char *values[PARAMETERS_MAX];
    char elements[LIST_COUNT][HOST_BYTES];
};

/* --- lists of hosts ------------------------------------------------------------- */

static enum list
list_of(const char *keyword)
{
    enum list list = LIST_HOST;
    while (list < LIST_COUNT && strcmp(list_keywords[list], keyword) != 0) {
        list++;
    }
    return list;
}

static int
count_elements(const char *text)
{
    int count = text != NULL && text[0] != '\0' ? 1 : 0;
    for (; count > 0 && *text != '\0'; text++) {
        count += *text == ',' ? 1 : 0;
    }
    return count;
}

/* Element `index` of "a,b,c"; a list of one has the same for all. */
static const char *
element(const char *text, int index, char out[HOST_BYTES])
{
    if (count_elements(text) == 1) {
        index = 0;
    }
    for (; index > 0; index--) {
        text = strchr(text, ',') + 1;
    }
    snprintf(out, HOST_BYTES, "%.*s", (int)strcspn(text, ","), text);
    return out;
}

/* Lists that don't fit together are libpq's to refuse: one host, as they are. */
static int
count_hosts(const PQconninfoOption *options)
{
    int counts[LIST_COUNT] = { 0 };
    for (; options->keyword != NULL; options++) {
        enum list list = list_of(options->keyword);
        if (list < LIST_COUNT) {
            counts[list] = count_elements(options->val);
        }
    }
    int hosts = counts[LIST_HOSTADDR] > 0 ? counts[LIST_HOSTADDR] : counts[LIST_HOST];
    bool fits = (counts[LIST_HOST] == 0 || counts[LIST_HOST] == hosts) &&
                (counts[LIST_PORT] <= 1 || counts[LIST_PORT] == hosts);
    return fits && hosts > 0 ? hosts : 1;
}

static struct target
target_of(const char *url)
{
    struct target target = { .url = url, .options = PQconninfoParse(url, NULL), .hosts = 1 };
    if (target.options != NULL) {
        target.hosts = count_hosts(target.options);
    }
    return target;
}

/* --- one host --------------------------------------------------------------------- */

static void
set(struct attempt *attempt, const char *name, const char *value)
{
    hf_assert(attempt->count + 1 < PARAMETERS_MAX);
    attempt->names[attempt->count] = name;
    attempt->values[attempt->count] = value;
    attempt->count++;
    attempt->names[attempt->count] = NULL;
}

/* What the URL may override. */
static void
set_defaults(struct attempt *attempt, const char *application_name)
{
    set(attempt, "application_name", application_name);
    set(attempt, "keepalives_idle", "5");
    set(attempt, "keepalives_interval", "2");
    set(attempt, "keepalives_count", "3");
    set(attempt, "tcp_user_timeout", "5000");
    set(attempt, "target_session_attrs", "read-write");
}

static void
set_options(struct attempt *attempt, const struct target *target, int host)
{
    if (target->options == NULL) {
        set(attempt, "dbname", target->url);
        return;
    }
    for (const PQconninfoOption *option = target->options; option->keyword != NULL; option++) {
        const char *value = option->val;
        enum list list = list_of(option->keyword);
        if (value == NULL) {
            continue;
        }
        if (list < LIST_COUNT && target->hosts > 1) {
            value = element(value, host, attempt->elements[list]);
        }
        set(attempt, option->keyword, value);
    }
}

static PGconn *
start(const struct target *target, int host, const char *application_name)
{
    struct attempt attempt = { .count = 0 };
    set_defaults(&attempt, application_name);
    set_options(&attempt, target, host);
    set(&attempt, "client_encoding", "UTF8"); /* not for the URL to say */
    return PQconnectStartParams(attempt.names, attempt.values,
                                target->options == NULL ? DEFAULTS_EXPAND : 0);
}

/* Goes through libpq's states. PGRES_POLLING_OK, _FAILED; another one: the time was up in it. */
static PostgresPollingStatusType
go_on(PGconn *conn, struct mono_time deadline)
{
    PostgresPollingStatusType state =
        PQstatus(conn) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
    while (state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED) {
        /* Each state may have another socket. */
        struct pollfd fd = { .fd = PQsocket(conn),
                             .events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT };
        int ready = poll(&fd, 1, pg_io_ms_left(deadline));
        if (ready == 0) {
            break;
        }
        if (ready > 0 || errno != EINTR) {
            state = PQconnectPoll(conn);
        }
    }
    return state;
}

/* --- all of them -------------------------------------------------------------------- */

static void
add_error(char error[PG_ERROR_BYTES], const char *text)
{
    size_t len = strlen(error);
    snprintf(error + len, PG_ERROR_BYTES - len, "%s%s", len > 0 ? "; " : "", text);
    pg_copy_line(error, PG_ERROR_BYTES, error);
}

/* NULL: this host took none in time; its reason stands behind the others'. */
static PGconn *
try_host(const struct target *target, int host, const char *application_name,
         struct mono_time deadline, char error[PG_ERROR_BYTES])
{
    PGconn *conn = start(target, host, application_name);
    if (conn == NULL) {
        add_error(error, "no memory");
        return NULL;
    }
    PostgresPollingStatusType state = go_on(conn, deadline);
    if (state == PGRES_POLLING_OK) {
        return conn;
    }
    if (state == PGRES_POLLING_FAILED) {
        add_error(error, PQerrorMessage(conn));
    } else {
        char silent[PG_ERROR_BYTES];
        snprintf(silent, sizeof(silent), "server at \"%s\", port %s is silent", PQhost(conn),
                 PQport(conn));
        add_error(error, silent);
    }
    PQfinish(conn);
    return NULL;
}

/* An even share of the time that is left. */
static struct mono_time
share(struct mono_time deadline, int hosts_left)
{
    int64_t now_us = mono_now().us;
    return (struct mono_time){ now_us + (deadline.us - now_us) / hosts_left };
}

PGconn *
pg_dial(const char *url, const char *application_name, unsigned *first, struct mono_time deadline,
        char error[PG_ERROR_BYTES])
{
    struct target target = target_of(url);
    unsigned begin = *first;
    PGconn *conn = NULL;

    error[0] = '\0';
    for (int tried = 0; tried < target.hosts && conn == NULL; tried++) {
        unsigned host = (begin + (unsigned)tried) % (unsigned)target.hosts;
        conn = try_host(&target, (int)host, application_name, share(deadline, target.hosts - tried),
                        error);
        if (conn != NULL) {
            *first = host;
        }
    }
    PQconninfoFree(target.options);
    return conn;
}
