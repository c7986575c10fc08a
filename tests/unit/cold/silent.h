/*
 * silent.h - servers that take connections and then say little or nothing, as a stopped one does.
 */
#ifndef HOLDFAST_TESTS_COLD_SILENT_H
#define HOLDFAST_TESTS_COLD_SILENT_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENT_MOST 8

/* Listens on loopback; the kernel accepts, nobody reads. */
struct silent {
    int listener;
    int port;
};

static inline struct silent
silent_open(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t len = sizeof(address);
    struct silent server = { .listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(server.listener, SILENT_MOST), 0);
    assert_int_equal(getsockname(server.listener, (struct sockaddr *)&address, &len), 0);
    server.port = ntohs(address.sin_port);
    return server;
}

/* A socket that is connected to it. */
__attribute__((unused)) static int
silent_connect(const struct silent *server)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(server->port) };
    int end = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(connect(end, (struct sockaddr *)&address, sizeof(address)) == 0 ||
                errno == EINPROGRESS);
    return end;
}

/* How many have connected since the last look. */
__attribute__((unused)) static int
silent_visitors(const struct silent *server)
{
    struct pollfd fd = { .fd = server->listener, .events = POLLIN };
    int visitors = 0;

    while (poll(&fd, 1, 0) > 0) {
        close(accept(server->listener, NULL, NULL));
        visitors++;
    }
    return visitors;
}

static inline void
silent_close(struct silent *server)
{
    close(server->listener);
}

/* --- one that greets first ----------------------------------------------------- */

/* Authentication is not needed, this is a primary, the session is ready: and then nothing. */
static const char silent_greeting[] = "R\0\0\0\010\0\0\0\0"
                                      "S\0\0\0\030server_version\00015.0\0"
                                      "S\0\0\0\031client_encoding\0UTF8\0"
                                      "S\0\0\0\027in_hot_standby\0off\0"
                                      "S\0\0\0\046default_transaction_read_only\0off\0"
                                      "Z\0\0\0\005I";

/* Greets whoever comes, until the listener is shut down. */
__attribute__((unused)) static void *
silent_greeter(void *context)
{
    const struct silent *server = context;
    int guests[SILENT_MOST], count = 0, guest;

    while (count < SILENT_MOST && (guest = accept(server->listener, NULL, NULL)) >= 0) {
        if (write(guest, silent_greeting, sizeof(silent_greeting) - 1) < 0) {
            close(guest);
            continue;
        }
        guests[count++] = guest;
    }
    while (count > 0) {
        close(guests[--count]);
    }
    return NULL;
}

#endif
