/* Connecting: hosts in turn, each with its share of the time. No Postgres is needed to be refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cold_internal.h"
#include "silent.h"

#define LIMIT_US (1500 * TIME_US_PER_MS)
#define SLACK_US                                                                                   \
    (2000 * TIME_US_PER_MS) /* of a busy machine; without a deadline it would be minutes */

struct dialled {
    PGconn *conn;
    unsigned first;
    int64_t took_us;
    char error[PG_ERROR_BYTES];
};

static struct dialled
dial(const char *url, unsigned first)
{
    struct dialled dialled = { .first = first };
    struct mono_time began = mono_now();
    dialled.conn = pg_dial(url, "test", &dialled.first, (struct mono_time){ began.us + LIMIT_US },
                           dialled.error);
    dialled.took_us = mono_now().us - began.us;
    return dialled;
}

/* A port on which nobody listens. */
static int
dead_port(void)
{
    struct silent server = silent_open();
    silent_close(&server);
    return server.port;
}

static const char *
two_hosts(char url[256], int port, int other_port)
{
    snprintf(url, 256, "postgresql://user@127.0.0.1:%d,127.0.0.1:%d/db", port, other_port);
    return url;
}

/* Where the error speaks of the port; fails the test if it doesn't. */
static const char *
told_of(const struct dialled *dialled, int port)
{
    char text[32];
    snprintf(text, sizeof(text), "port %d", port);
    const char *at = strstr(dialled->error, text);
    if (at == NULL) {
        fail_msg("%s is not in '%s'", text, dialled->error);
    }
    return at;
}

static void
a_silent_host_is_waited_for_until_the_deadline_and_named(void **state)
{
    (void)state;
    struct silent server = silent_open();
    char url[256];
    snprintf(url, sizeof(url), "postgresql://user@127.0.0.1:%d/db", server.port);
    struct dialled dialled = dial(url, 0);
    assert_null(dialled.conn);
    assert_in_range(dialled.took_us, LIMIT_US, LIMIT_US + SLACK_US);
    told_of(&dialled, server.port);
    assert_non_null(strstr(dialled.error, "silent"));
    silent_close(&server);
}

static void
silent_hosts_share_the_time(void **state)
{
    (void)state;
    struct silent servers[3];
    char url[256];
    for (int i = 0; i < 3; i++) {
        servers[i] = silent_open();
    }
    snprintf(url, sizeof(url), "host=127.0.0.1,127.0.0.1,127.0.0.1 port=%d,%d,%d user=user",
             servers[0].port, servers[1].port, servers[2].port);
    struct dialled dialled = dial(url, 0);
    assert_null(dialled.conn);
    assert_in_range(dialled.took_us, LIMIT_US, LIMIT_US + SLACK_US);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(silent_visitors(&servers[i]), 1);
        told_of(&dialled, servers[i].port);
        silent_close(&servers[i]);
    }
}

static void
what_a_refusal_leaves_is_the_next_hosts(void **state)
{
    (void)state;
    struct silent server = silent_open();
    int dead = dead_port();
    char url[256];
    struct dialled dialled = dial(two_hosts(url, dead, server.port), 0);
    assert_null(dialled.conn);
    assert_true(dialled.took_us >= LIMIT_US);
    assert_true(told_of(&dialled, dead) < told_of(&dialled, server.port));
    silent_close(&server);
}

static void
the_walk_begins_with_the_preferred_host_and_comes_round(void **state)
{
    (void)state;
    int a = dead_port(), b = dead_port();
    char url[256];
    two_hosts(url, a, b);
    for (unsigned first = 0; first < 5; first++) { /* a number beyond the list is one in it */
        struct dialled dialled = dial(url, first);
        assert_null(dialled.conn);
        assert_int_equal(dialled.first, first); /* nobody was better */
        assert_int_equal(told_of(&dialled, a) < told_of(&dialled, b), first % 2 == 0);
        assert_true(dialled.took_us < LIMIT_US);
        assert_null(strchr(dialled.error, '\n'));
    }
}

static void
addresses_and_one_port_for_all_are_lists_as_well(void **state)
{
    (void)state;
    int dead = dead_port();
    char url[256];
    snprintf(url, sizeof(url), "host=one.invalid,two.invalid hostaddr=127.0.0.1,127.0.0.2 port=%d",
             dead);
    struct dialled dialled = dial(url, 1);
    assert_null(dialled.conn);
    const char *first = strstr(dialled.error, "\"127.0.0.1\"");
    const char *second = strstr(dialled.error, "\"127.0.0.2\"");
    assert_true(first != NULL && second != NULL && second < first);
}

static void
lists_that_do_not_fit_together_are_refused_by_libpq(void **state)
{
    (void)state;
    struct dialled dialled = dial("host=a.invalid,b.invalid port=1,2,3", 0);
    assert_null(dialled.conn);
    assert_non_null(strstr(dialled.error, "could not match 3 port numbers to 2 hosts"));
    dialled = dial("host=a.invalid nonsense=1", 0);
    assert_null(dialled.conn);
    assert_non_null(strstr(dialled.error, "nonsense"));
}

static void
what_is_no_connection_string_is_a_databases_name(void **state)
{
    (void)state;
    hf_must(setenv("PGHOST", "/nonexistent", 1));
    struct dialled dialled = dial("shop", 0);
    hf_must(unsetenv("PGHOST"));
    assert_null(dialled.conn);
    assert_non_null(strstr(dialled.error, "/nonexistent"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_host_is_waited_for_until_the_deadline_and_named),
        cmocka_unit_test(silent_hosts_share_the_time),
        cmocka_unit_test(what_a_refusal_leaves_is_the_next_hosts),
        cmocka_unit_test(the_walk_begins_with_the_preferred_host_and_comes_round),
        cmocka_unit_test(addresses_and_one_port_for_all_are_lists_as_well),
        cmocka_unit_test(lists_that_do_not_fit_together_are_refused_by_libpq),
        cmocka_unit_test(what_is_no_connection_string_is_a_databases_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
