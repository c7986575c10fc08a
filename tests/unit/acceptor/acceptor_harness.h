/*
 * acceptor_harness.h - a real acceptor on 127.0.0.1, a handler that tests steer, and
 * a client that reads bytes as they come.
 *
 * The handler answers at once, except /held: those exchanges are kept until the test's
 * thread answers them, in the order that it likes. So order is chosen, not hoped for.
 */
#ifndef ACCEPTOR_HARNESS_H
#define ACCEPTOR_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "holdfast/http.h"

#define HELD_MAX          4096
#define CLIENT_PATIENCE_S 20

struct harness {
    struct config config;
    struct http_handler handler;
    struct acceptor *acceptor;
    uint16_t port;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct http_exchange *held[HELD_MAX];
    int held_count;
    bool gate_closed; /* /gate keeps its loop's thread until it opens */
    int at_gate;

    atomic_int handled;
    atomic_int freed;      /* user_free calls */
    struct http_body *big; /* for /shared */
};

/* --- the handler ------------------------------------------------------------- */

static inline void
harness_user_freed(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static inline void
harness_hold(struct harness *h, struct http_exchange *exchange)
{
    pthread_mutex_lock(&h->lock);
    hf_assert(h->held_count < HELD_MAX);
    h->held[h->held_count++] = exchange;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static inline void
harness_pass_gate(struct harness *h)
{
    pthread_mutex_lock(&h->lock);
    h->at_gate++;
    pthread_cond_broadcast(&h->changed);
    while (h->gate_closed)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

/* The answer says which request it is for: its path, and a body if there was one. */
static inline void
harness_answer(struct http_exchange *exchange)
{
    exchange->reply.status = 200;
    exchange->reply.content_type = "text/plain";
    buf_append_slice(&exchange->reply.body, exchange->request.path);
    if (exchange->request.body.len > 0)
        buf_append_char(&exchange->reply.body, ' ');
    buf_append_slice(&exchange->reply.body, exchange->request.body);
    http_exchange_send(exchange);
}

/* Its end will be counted too. */
static inline void
harness_count(struct harness *h, struct http_exchange *exchange)
{
    atomic_fetch_add(&h->handled, 1);
    exchange->user = &h->freed;
    exchange->user_free = harness_user_freed;
}

static inline void
harness_handle(void *context, struct http_exchange *exchange)
{
    struct harness *h = context;
    struct http_reply *reply = &exchange->reply;
    const struct slice path = exchange->request.path;

    harness_count(h, exchange);
    if (path.len >= 5 && memcmp(path.ptr, "/held", 5) == 0) {
        harness_hold(h, exchange);
        return;
    }
    if (slice_is(path, "/gate"))
        harness_pass_gate(h);
    if (slice_is(path, "/close"))
        reply->close = true;
    if (slice_is(path, "/header"))
        http_reply_header(reply, "X-Test", SLICE_LITERAL("a\r\nInjected: b"));
    if (slice_is(path, "/no-content") || slice_is(path, "/not-modified")) {
        reply->status = slice_is(path, "/no-content") ? 204 : 304;
        http_exchange_send(exchange);
        return;
    }
    if (slice_is(path, "/shared")) {
        reply->status = 200;
        reply->content_type = "application/octet-stream";
        reply->shared = http_body_get(h->big);
        http_exchange_send(exchange);
        return;
    }
    if (slice_is(path, "/no-memory"))
        reply->body.failed = true;
    if (slice_is(path, "/many-headers")) {
        for (int i = 0; i < 100; i++)
            http_reply_header(reply, "X-Many",
                              SLICE_LITERAL("0123456789012345678901234567890123456789"));
    }
    harness_answer(exchange);
}

static inline size_t
harness_body_max(void *context, enum http_method method, struct slice path)
{
    (void)context;
    (void)method;
    return slice_is(path, "/tiny") ? 16 : (size_t)16 * 1024 * 1024;
}

static inline void
harness_refuse(void *context, struct http_exchange *exchange, enum hf_status status,
               const char *detail)
{
    (void)context;
    exchange->reply.status = status_http(status);
    exchange->reply.content_type = "application/problem+json";
    buf_printf(&exchange->reply.body, "{\"code\":\"%s\",\"detail\":\"%s\"}", status_code(status),
               detail);
}

/* Waits until `count` exchanges are held. */
static inline void
harness_wait_held(struct harness *h, int count)
{
    pthread_mutex_lock(&h->lock);
    while (h->held_count < count)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static inline int
harness_held(struct harness *h)
{
    pthread_mutex_lock(&h->lock);
    int count = h->held_count;
    pthread_mutex_unlock(&h->lock);
    return count;
}

/* held[at], for this thread to answer. */
static inline struct http_exchange *
harness_take_held(struct harness *h, int at)
{
    pthread_mutex_lock(&h->lock);
    struct http_exchange *exchange = h->held[at];
    h->held[at] = NULL;
    pthread_mutex_unlock(&h->lock);
    hf_assert(exchange != NULL);
    return exchange;
}

static inline void
harness_release(struct harness *h, int at)
{
    harness_answer(harness_take_held(h, at));
}

static inline void
harness_forget_held(struct harness *h)
{
    pthread_mutex_lock(&h->lock);
    for (int i = 0; i < h->held_count; i++)
        hf_assert(h->held[i] == NULL);
    h->held_count = 0;
    pthread_mutex_unlock(&h->lock);
}

static inline void
harness_close_gate(struct harness *h)
{
    pthread_mutex_lock(&h->lock);
    h->gate_closed = true;
    h->at_gate = 0;
    pthread_mutex_unlock(&h->lock);
}

static inline void
harness_wait_at_gate(struct harness *h)
{
    pthread_mutex_lock(&h->lock);
    while (h->at_gate == 0)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static inline void
harness_open_gate(struct harness *h)
{
    pthread_mutex_lock(&h->lock);
    h->gate_closed = false;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

/* --- start and stop ---------------------------------------------------------- */

static inline void
harness_init(struct harness *h)
{
    *h = (struct harness){ 0 };
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    h->handler = (struct http_handler){ h, harness_handle, harness_body_max, harness_refuse };
    h->config.listen = (char *)(uintptr_t) "127.0.0.1:0";
    h->config.loops = 1;
    h->config.connections_max = 4000;
    h->config.header_max = 16384;
    h->config.uri_max = 8192;
    h->config.body_memory_max = 256 * 1024 * 1024;
    h->config.header_timeout = h->config.body_timeout = 60 * TIME_US_PER_S;
    h->config.idle_timeout = h->config.write_timeout = 60 * TIME_US_PER_S;
}

static inline void
harness_start(struct harness *h)
{
    char error[256] = "";
    h->acceptor = acceptor_start(&h->config, &h->handler, "node-1", error, sizeof(error));
    if (h->acceptor == NULL)
        fail_msg("%s", error);
    const char *colon = strrchr(acceptor_address(h->acceptor), ':');
    assert_non_null(colon);
    h->port = (uint16_t)strtoul(colon + 1, NULL, 10);
    assert_true(h->port != 0);
}

static inline void
harness_stop(struct harness *h)
{
    acceptor_stop(&h->acceptor);
    assert_null(h->acceptor);
    assert_int_equal(h->handled, h->freed); /* every exchange has ended, once */
    if (h->big != NULL) {
        assert_int_equal(h->big->refs, 1);
        http_body_put(h->big);
    }
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
}

/* --- the client -------------------------------------------------------------- */

struct client {
    int fd;
    char *bytes; /* received, not used yet */
    size_t len, capacity;
};

struct response {
    int status;
    char head[16384];
    char *body;
    size_t body_len;
};

static inline int
client_socket(void)
{
    struct timeval patience = { .tv_sec = CLIENT_PATIENCE_S };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    return fd;
}

static inline int
client_connect_fd(const struct harness *h, int fd)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(h->port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    return connect(fd, (struct sockaddr *)&to, sizeof(to));
}

static inline struct client
client_open(const struct harness *h)
{
    struct client client = { .fd = client_socket() };
    assert_int_equal(client_connect_fd(h, client.fd), 0);
    return client;
}

/* A client whose kernel takes little, so that the server's writes soon stand still. */
static inline struct client
client_open_narrow(const struct harness *h)
{
    struct client client = { .fd = client_socket() };
    int bytes = 65536;
    setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    assert_int_equal(client_connect_fd(h, client.fd), 0);
    return client;
}

static inline void
client_close(struct client *client)
{
    close(client->fd);
    free(client->bytes);
    *client = (struct client){ .fd = -1 };
}

/* Closes with a reset, as a killed client does. */
static inline void
client_reset(struct client *client)
{
    struct linger reset = { 1, 0 };
    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    client_close(client);
}

static inline void
client_send_bytes(struct client *client, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(client->fd, bytes, len, MSG_NOSIGNAL);
        assert_true(sent > 0);
        bytes += sent;
        len -= (size_t)sent;
    }
}

static inline void
client_send(struct client *client, const char *text)
{
    client_send_bytes(client, text, strlen(text));
}

/* One more piece. False: the server closed in order. A reset fails the test. */
static inline bool
client_fill(struct client *client)
{
    if (client->capacity - client->len < 65536) {
        client->capacity = client->capacity * 2 + 65536;
        client->bytes = realloc(client->bytes, client->capacity);
        assert_non_null(client->bytes);
    }
    ssize_t got = recv(client->fd, client->bytes + client->len, 65536, 0);
    if (got < 0)
        fail_msg("recv: %s", strerror(errno));
    client->len += (size_t)got;
    return got > 0;
}

static inline void
client_use(struct client *client, size_t len)
{
    memmove(client->bytes, client->bytes + len, client->len - len);
    client->len -= len;
}

static inline const char *
response_header(const struct response *response, const char *name)
{
    static _Thread_local char value[8192];
    size_t name_len = strlen(name);
    for (const char *line = strstr(response->head, "\r\n"); line != NULL;
         line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, name_len) == 0 && line[name_len] == ':') {
            const char *end = strstr(line, "\r\n");
            snprintf(value, sizeof(value), "%.*s", (int)(end - line - (int)name_len - 2),
                     line + name_len + 2);
            return value;
        }
    }
    return NULL;
}

static inline void
response_fini(struct response *response)
{
    free(response->body);
    response->body = NULL;
}

/* Reads one answer; `no_body`: to a HEAD. */
static inline void
client_read_any(struct client *client, struct response *response, bool no_body)
{
    char *end;
    for (;;) {
        end = client->len > 0 ? memmem(client->bytes, client->len, "\r\n\r\n", 4) : NULL;
        if (end != NULL)
            break;
        if (!client_fill(client))
            fail_msg("closed before an answer");
    }
    size_t head_len = (size_t)(end - client->bytes) + 4;
    assert_true(head_len < sizeof(response->head));
    memcpy(response->head, client->bytes, head_len);
    response->head[head_len] = '\0';
    assert_memory_equal(response->head, "HTTP/1.1 ", 9);
    response->status = (int)strtol(response->head + 9, NULL, 10);
    client_use(client, head_len);

    const char *length = response_header(response, "Content-Length");
    response->body_len = length != NULL && !no_body ? strtoul(length, NULL, 10) : 0;
    while (client->len < response->body_len) {
        if (!client_fill(client))
            fail_msg("closed within an answer");
    }
    response->body = malloc(response->body_len + 1);
    assert_non_null(response->body);
    memcpy(response->body, client->bytes, response->body_len);
    response->body[response->body_len] = '\0';
    client_use(client, response->body_len);
}

static inline void
client_read(struct client *client, struct response *response)
{
    client_read_any(client, response, false);
}

/* Reads one answer and checks status and body. */
static inline void
client_expect(struct client *client, int status, const char *body)
{
    struct response response;
    client_read(client, &response);
    if (response.status != status || (body != NULL && strcmp(response.body, body) != 0))
        fail_msg("got %d '%s', expected %d '%s'", response.status, response.body, status,
                 body ? body : "*");
    response_fini(&response);
}

/* The server must have closed, in order, without another byte. */
static inline void
client_expect_end(struct client *client)
{
    assert_int_equal(client->len, 0);
    if (client_fill(client))
        fail_msg("bytes instead of the end: %.*s", (int)client->len, client->bytes);
}

static inline void
client_get(struct client *client, const char *path)
{
    char text[256];
    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    client_send(client, text);
}

/* Until that many requests were handled, ever: this is not missed by who comes late. */
static inline void
harness_wait_handled(struct harness *h, int count)
{
    struct timespec pause = { .tv_nsec = 2 * 1000 * 1000 };
    for (int i = 0; i < CLIENT_PATIENCE_S * 500 && atomic_load(&h->handled) < count; i++)
        nanosleep(&pause, NULL);
    assert_true(atomic_load(&h->handled) >= count);
}

/* Until the server counts `count` connections. */
static inline void
harness_wait_connections(struct harness *h, int64_t count)
{
    struct timespec pause = { .tv_nsec = 2 * 1000 * 1000 };
    for (int i = 0; i < CLIENT_PATIENCE_S * 500; i++) {
        if (acceptor_connections(h->acceptor) == count)
            return;
        nanosleep(&pause, NULL);
    }
    fail_msg("%ld connections instead of %ld", (long)acceptor_connections(h->acceptor),
             (long)count);
}

#endif
