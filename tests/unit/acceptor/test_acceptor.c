/* Loops and listeners: addresses, limits, threads, draining. */
#include "acceptor_harness.h"

#include <sys/resource.h>

#include "listener.h"

#define H "Host: a\r\n"

static struct harness h;

static int
set_up(void **state)
{
    (void)state;
    harness_init(&h);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    if (h.acceptor != NULL)
        harness_stop(&h);
    return 0;
}

static void
addresses_are_read_and_written(void **state)
{
    static const char *good[] = { "127.0.0.1:8080", "0.0.0.0:0", "[::1]:65535", "[::]:1" };
    static const char *bad[] = {
        "",
        ":",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1: 1",
        "localhost:80",
        "::1:80",
        "[::1]",
        "[::1:80",
        "1.2.3.4.5:80",
        "[1.2.3.4]:80",
        "127.0.0.1:000080",
        "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:1"
    };
    struct listener_address address;
    char text[LISTENER_ADDRESS_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(listener_parse(good[i], &address));
        listener_format(&address, text);
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (listener_parse(bad[i], &address))
            fail_msg("'%s' was taken", bad[i]);
    }
}

static void
an_ipv4_peer_of_an_ipv6_socket_is_shown_as_ipv4(void **state)
{
    struct sockaddr_storage peer = { 0 };
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&peer;
    char text[HTTP_ADDRESS_BYTES];
    (void)state;
    in6->sin6_family = AF_INET6;
    assert_int_equal(inet_pton(AF_INET6, "::ffff:10.1.2.3", &in6->sin6_addr), 1);
    listener_format_peer(&peer, text, sizeof(text));
    assert_string_equal(text, "10.1.2.3");
    assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &in6->sin6_addr), 1);
    listener_format_peer(&peer, text, sizeof(text));
    assert_string_equal(text, "2001:db8::1");
}

static void
a_bad_address_is_an_error_that_names_it(void **state)
{
    char error[256];
    (void)state;
    h.config.listen = (char *)(uintptr_t) "nowhere:1";
    assert_null(acceptor_start(&h.config, &h.handler, "n", error, sizeof(error)));
    assert_non_null(strstr(error, "nowhere:1"));
}

static void
a_second_server_on_the_port_is_refused(void **state)
{
    static const int loops[][2] = { { 1, 1 }, { 1, 2 }, { 2, 1 }, { 2, 2 } };
    char error[256], address[64];
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct acceptor *first, *second;
        struct config other = h.config;
        h.config.loops = loops[i][0];
        other.loops = loops[i][1];
        first = acceptor_start(&h.config, &h.handler, "n", error, sizeof(error));
        assert_non_null(first);
        snprintf(address, sizeof(address), "%s", acceptor_address(first));
        other.listen = address;
        second = acceptor_start(&other, &h.handler, "n", error, sizeof(error));
        assert_null(second);
        assert_non_null(strstr(error, address));
        acceptor_stop(&first);
    }
}

static void
it_serves_on_ipv6(void **state)
{
    char error[256];
    (void)state;
    h.config.listen = (char *)(uintptr_t) "[::1]:0";
    h.acceptor = acceptor_start(&h.config, &h.handler, "n", error, sizeof(error));
    if (h.acceptor == NULL && strstr(error, "Cannot assign") != NULL) {
        print_message("this machine has no IPv6\n");
        return;
    }
    assert_non_null(h.acceptor);
    struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
    struct client client = { .fd = socket(AF_INET6, SOCK_STREAM, 0) };
    to.sin6_port =
        htons((uint16_t)strtoul(strrchr(acceptor_address(h.acceptor), ':') + 1, NULL, 10));
    assert_int_equal(connect(client.fd, (struct sockaddr *)&to, sizeof(to)), 0);
    client_get(&client, "/six");
    client_expect(&client, 200, "/six");
    client_close(&client);
}

static void
several_loops_share_one_port(void **state)
{
    enum { CLIENTS = 64 };
    struct client clients[CLIENTS];
    (void)state;
    h.config.loops = 4;
    harness_start(&h);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_open(&h);
        client_get(&clients[i], i % 2 ? "/held" : "/now");
    }
    harness_wait_held(&h, CLIENTS / 2);
    for (int i = CLIENTS / 2 - 1; i >= 0; i--)
        harness_release(&h, i);
    for (int i = 0; i < CLIENTS; i++) {
        client_expect(&clients[i], 200, i % 2 ? "/held" : "/now");
        client_close(&clients[i]);
    }
}

static void
twelve_hundred_connections_at_once(void **state)
{
    enum { CLIENTS = 1200 };
    static struct client clients[CLIENTS];
    struct rlimit limit;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 8192 ? limit.rlim_max : 8192;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    harness_start(&h);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = client_open(&h);
    harness_wait_connections(&h, CLIENTS);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CLIENTS; i++)
            client_get(&clients[i], "/x");
        for (int i = 0; i < CLIENTS; i++)
            client_expect(&clients[i], 200, "/x");
    }
    for (int i = 0; i < CLIENTS; i++)
        client_close(&clients[i]);
    harness_wait_connections(&h, 0);
}

static void
connections_over_the_limit_wait_for_their_turn(void **state)
{
    struct client clients[20];
    (void)state;
    h.config.connections_max = 16;
    harness_start(&h);
    for (int i = 0; i < 20; i++) {
        clients[i] = client_open(&h); /* the kernel takes them all */
        client_get(&clients[i], "/x");
    }
    for (int i = 0; i < 16; i++)
        client_expect(&clients[i], 200, "/x");
    assert_int_equal(acceptor_connections(h.acceptor), 16);
    assert_int_equal(atomic_load(&h.handled), 16);
    for (int i = 0; i < 4; i++)
        client_close(&clients[i]);
    for (int i = 16; i < 20; i++)
        client_expect(&clients[i], 200, "/x");
    for (int i = 4; i < 20; i++)
        client_close(&clients[i]);
}

static int64_t
cpu_us(void)
{
    struct timespec used;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    return (int64_t)used.tv_sec * TIME_US_PER_S + used.tv_nsec / 1000;
}

static void
without_descriptors_it_waits_and_does_not_spin(void **state)
{
    struct rlimit before, none;
    struct timeval wait = { .tv_usec = 400000 }, patience = { .tv_sec = CLIENT_PATIENCE_S };
    char byte;
    (void)state;
    harness_start(&h);
    struct client client = { .fd = client_socket() };
    int next = dup(client.fd); /* the lowest descriptor that is free */
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(client_connect_fd(&h, client.fd), 0);
    client_get(&client, "/x");

    int64_t cpu = cpu_us();
    setsockopt(client.fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    assert_int_equal(recv(client.fd, &byte, 1, 0), -1); /* neither answered nor closed */
    assert_int_equal(errno, EAGAIN);
    assert_true(cpu_us() - cpu < 200 * TIME_US_PER_MS);

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    setsockopt(client.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    client_expect(&client, 200, "/x");
    client_close(&client);
}

/* --- answers from many threads ------------------------------------------------ */

struct answerer {
    pthread_t thread;
    int number, count;
};

static void *
answer_every_nth(void *context)
{
    struct answerer *answerer = context;
    for (int i = answerer->number; i < answerer->count; i += 4) {
        harness_wait_held(&h, i + 1);
        harness_release(&h, i);
    }
    return NULL;
}

static void
answers_come_from_four_threads_at_once(void **state)
{
    enum { CLIENTS = 16, DEPTH = 8, ROUNDS = 20, ALL = CLIENTS * DEPTH * ROUNDS };
    struct client clients[CLIENTS];
    struct answerer answerers[4];
    char path[32];
    (void)state;
    h.config.loops = 2;
    harness_start(&h);
    for (int i = 0; i < 4; i++) {
        answerers[i] = (struct answerer){ .number = i, .count = ALL };
        assert_int_equal(
            pthread_create(&answerers[i].thread, NULL, answer_every_nth, &answerers[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = client_open(&h);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS * DEPTH; i++) {
            snprintf(path, sizeof(path), "/held-%d-%d", round, i);
            client_get(&clients[i % CLIENTS], path);
        }
        for (int i = 0; i < CLIENTS * DEPTH; i++) {
            snprintf(path, sizeof(path), "/held-%d-%d", round, i);
            client_expect(&clients[i % CLIENTS], 200, path);
        }
    }
    for (int i = 0; i < 4; i++)
        pthread_join(answerers[i].thread, NULL);
    for (int i = 0; i < CLIENTS; i++)
        client_close(&clients[i]);
}

/* --- draining ----------------------------------------------------------------- */

static void
expect_last(struct client *client, const char *body)
{
    struct response response;
    client_read(client, &response);
    assert_int_equal(response.status, 200);
    assert_string_equal(response.body, body);
    assert_string_equal(response_header(&response, "Connection"), "close");
    response_fini(&response);
    client_expect_end(client);
    client_close(client);
}

static void
once_draining_begins_each_answer_is_the_last(void **state)
{
    (void)state;
    harness_start(&h);
    struct client old = client_open(&h), busy = client_open(&h);
    client_get(&old, "/x");
    client_expect(&old, 200, "/x");
    client_get(&busy, "/held");
    harness_wait_held(&h, 1);
    acceptor_drain_begin(h.acceptor);
    client_get(&old, "/y");
    expect_last(&old, "/y");
    struct client new = client_open(&h); /* it still accepts */
    client_get(&new, "/z");
    expect_last(&new, "/z");
    harness_release(&h, 0);
    expect_last(&busy, "/held");
    harness_wait_connections(&h, 0);
}

static void
a_pipeline_under_way_is_answered_whole_while_draining(void **state)
{
    struct response response;
    (void)state;
    harness_start(&h);
    struct client client = client_open(&h);
    for (int i = 0; i < 3; i++)
        client_get(&client, "/held");
    harness_wait_held(&h, 3);
    acceptor_drain_begin(h.acceptor);
    for (int i = 0; i < 2; i++) {
        harness_release(&h, i);
        client_read(&client, &response);
        assert_null(response_header(&response, "Connection"));
        response_fini(&response);
    }
    harness_release(&h, 2);
    expect_last(&client, "/held");
}

static void *
drain_close_in_a_thread(void *context)
{
    acceptor_drain_close(context);
    return NULL;
}

static void
draining_serves_the_queue_then_shuts_the_door(void **state)
{
    enum { WAITING = 100 };
    static struct client waiting[WAITING];
    pthread_t drainer;
    (void)state;
    harness_start(&h);
    struct client idle = client_open(&h), gate = client_open(&h), busy = client_open(&h);
    client_get(&idle, "/x");
    client_expect(&idle, 200, "/x");
    client_get(&busy, "/held");
    harness_wait_held(&h, 1);

    harness_close_gate(&h); /* the loop stands still ... */
    client_get(&gate, "/gate");
    harness_wait_at_gate(&h);
    for (int i = 0; i < WAITING; i++) { /* ... while these get into its accept queue */
        waiting[i] = client_open(&h);
        client_get(&waiting[i], "/queued");
    }
    acceptor_drain_begin(h.acceptor);
    assert_int_equal(pthread_create(&drainer, NULL, drain_close_in_a_thread, h.acceptor), 0);
    harness_open_gate(&h);
    pthread_join(drainer, NULL);

    struct client late = { .fd = client_socket() };
    assert_int_equal(client_connect_fd(&h, late.fd), -1);
    assert_int_equal(errno, ECONNREFUSED);
    client_close(&late);
    expect_last(&gate, "/gate");
    for (int i = 0; i < WAITING; i++)
        expect_last(&waiting[i], "/queued");
    client_expect_end(&idle);
    client_close(&idle);
    harness_wait_connections(&h, 1); /* the busy one is waited for */
    harness_release(&h, 0);
    expect_last(&busy, "/held");
    harness_wait_connections(&h, 0);
}

static void
one_that_connects_but_asks_nothing_does_not_hold_up_draining(void **state)
{
    (void)state;
    h.config.loops = 2;
    harness_start(&h);
    struct client silent = client_open(&h);
    acceptor_drain_close(h.acceptor);
    client_expect_end(&silent);
    client_close(&silent);
    harness_wait_connections(&h, 0);
}

static void
stopping_closes_what_is_open(void **state)
{
    (void)state;
    h.config.loops = 2;
    harness_start(&h);
    struct client idle = client_open(&h), half = client_open(&h);
    client_get(&idle, "/x");
    client_expect(&idle, 200, "/x");
    client_send(&half, "POST /x HTTP/1.1\r\n" H "Content-Length: 5000\r\n\r\nab");
    client_get(&idle, "/y");
    client_expect(&idle, 200, "/y");
    harness_stop(&h);
    client_close(&idle);
    client_close(&half);
}

static void
two_hundred_starts_and_stops_leave_nothing_behind(void **state)
{
    char error[256];
    (void)state;
    for (int i = 0; i < 200; i++) {
        h.config.loops = 1 + i % 3;
        struct acceptor *acceptor =
            acceptor_start(&h.config, &h.handler, "n", error, sizeof(error));
        if (acceptor == NULL)
            fail_msg("%s", error);
        acceptor_stop(&acceptor);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(addresses_are_read_and_written),
        CASE(an_ipv4_peer_of_an_ipv6_socket_is_shown_as_ipv4),
        CASE(a_bad_address_is_an_error_that_names_it),
        CASE(a_second_server_on_the_port_is_refused),
        CASE(it_serves_on_ipv6),
        CASE(several_loops_share_one_port),
        CASE(twelve_hundred_connections_at_once),
        CASE(connections_over_the_limit_wait_for_their_turn),
        CASE(without_descriptors_it_waits_and_does_not_spin),
        CASE(answers_come_from_four_threads_at_once),
        CASE(once_draining_begins_each_answer_is_the_last),
        CASE(a_pipeline_under_way_is_answered_whole_while_draining),
        CASE(draining_serves_the_queue_then_shuts_the_door),
        CASE(one_that_connects_but_asks_nothing_does_not_hold_up_draining),
        CASE(stopping_closes_what_is_open),
        CASE(two_hundred_starts_and_stops_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
