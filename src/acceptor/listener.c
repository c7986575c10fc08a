/*
 * listener.c - addresses in text, and sockets bound to them.
 */
#include "listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A burst of a sale's first second; the kernel caps it at net.core.somaxconn. */
#define BACKLOG 4096

static bool
parse_port(const char *text, in_port_t *port)
{
    unsigned long number = 0;
    if (*text == '\0' || strlen(text) > 5)
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        number = number * 10 + (unsigned long)(*text - '0');
    }
    *port = htons((in_port_t)number);
    return number <= 65535;
}

bool
listener_parse(const char *text, struct listener_address *address)
{
    char host[INET6_ADDRSTRLEN + 2];
    const char *colon = strrchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;

    *address = (struct listener_address){ 0 };
    if (len == 0 || len >= sizeof(host))
        return false;
    memcpy(host, text, len);
    host[len] = '\0';

    if (host[0] == '[' && host[len - 1] == ']') {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address->socket;
        host[len - 1] = '\0';
        in6->sin6_family = AF_INET6;
        address->len = sizeof(*in6);
        return parse_port(colon + 1, &in6->sin6_port) &&
               inet_pton(AF_INET6, host + 1, &in6->sin6_addr) == 1;
    }
    struct sockaddr_in *in = (struct sockaddr_in *)&address->socket;
    in->sin_family = AF_INET;
    address->len = sizeof(*in);
    return parse_port(colon + 1, &in->sin_port) && inet_pton(AF_INET, host, &in->sin_addr) == 1;
}

static bool
set_option(int fd, int level, int option)
{
    int on = 1;
    return setsockopt(fd, level, option, &on, sizeof(on)) == 0;
}

/* A bound socket, or -1 with errno. */
static int
bind_socket(const struct listener_address *address, bool reuse_port)
{
    int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    /* Connections inherit TCP_NODELAY from their listener: no call per connection. */
    if (set_option(fd, SOL_SOCKET, SO_REUSEADDR) && set_option(fd, IPPROTO_TCP, TCP_NODELAY) &&
        (!reuse_port || set_option(fd, SOL_SOCKET, SO_REUSEPORT)) &&
        bind(fd, (const struct sockaddr *)&address->socket, address->len) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* Another server may share the port only if it is asked to: find out without SO_REUSEPORT. */
static bool
port_is_free(const struct listener_address *address)
{
    int fd = bind_socket(address, false);
    if (fd < 0)
        return false;
    close(fd);
    return true;
}

static int
listen_socket(struct listener_address *address, bool reuse_port)
{
    int fd = bind_socket(address, reuse_port);
    if (fd < 0)
        return -1;
    socklen_t len = sizeof(address->socket);
    if (listen(fd, BACKLOG) == 0 && getsockname(fd, (struct sockaddr *)&address->socket, &len) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

bool
listener_open(struct listener_address *address, int *fds, size_t count, char *error,
              size_t error_bytes)
{
    char text[LISTENER_ADDRESS_BYTES];
    bool several = count > 1;
    size_t opened = 0;

    listener_format(address, text);
    if (!several || port_is_free(address)) {
        for (; opened < count; opened++) {
            fds[opened] = listen_socket(address, several);
            if (fds[opened] < 0)
                break;
        }
    }
    if (opened == count)
        return true;
    snprintf(error, error_bytes, "can't listen on %s: %s", text, strerror(errno));
    while (opened > 0)
        close(fds[--opened]);
    return false;
}

void
listener_format(const struct listener_address *address, char text[LISTENER_ADDRESS_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->socket.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address->socket;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        snprintf(text, LISTENER_ADDRESS_BYTES, "[%s]:%u", host, (unsigned)ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&address->socket;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        snprintf(text, LISTENER_ADDRESS_BYTES, "%s:%u", host, (unsigned)ntohs(in->sin_port));
    }
}

void
listener_format_peer(const struct sockaddr_storage *peer, char *text, size_t text_bytes)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)peer;
    const struct sockaddr_in *in = (const struct sockaddr_in *)peer;

    hf_assert(text_bytes >= INET6_ADDRSTRLEN);
    text[0] = '\0';
    if (peer->ss_family == AF_INET)
        inet_ntop(AF_INET, &in->sin_addr, text, (socklen_t)text_bytes);
    else if (peer->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
        inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], text, (socklen_t)text_bytes);
    else if (peer->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &in6->sin6_addr, text, (socklen_t)text_bytes);
}
