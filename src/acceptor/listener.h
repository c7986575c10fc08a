/*
 * listener.h - from "127.0.0.1:8080" or "[::1]:0" to listening sockets.
 *
 * Several loops listen on one port with SO_REUSEPORT each: the kernel spreads the
 * connections, no lock, no thundering herd. One loop doesn't set it, so that a second
 * server on the port is refused; for several loops the port is tried without it first.
 *
 * Callers:  acceptor_start. Threads: any. Memory: none kept.
 */
#ifndef ACCEPTOR_LISTENER_H
#define ACCEPTOR_LISTENER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "holdfast/assert.h"

#define LISTENER_ADDRESS_BYTES 64 /* "[" 45 "]:" 5 NUL */

struct listener_address {
    struct sockaddr_storage socket;
    socklen_t len;
};

HF_MUST_CHECK bool listener_parse(const char *text, struct listener_address *address);

/* Opens `count` sockets on one port; port 0 becomes the true one in *address. */
HF_MUST_CHECK bool listener_open(struct listener_address *address, int *fds, size_t count,
                                 char *error, size_t error_bytes);

/* With port: "127.0.0.1:8080", "[::1]:8080". */
void listener_format(const struct listener_address *address, char text[LISTENER_ADDRESS_BYTES]);

/* Without port; an IPv4 address that came through an IPv6 socket is shown as IPv4. */
void listener_format_peer(const struct sockaddr_storage *peer, char *text, size_t text_bytes);

#endif
