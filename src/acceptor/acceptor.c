/*
 * acceptor.c - the door of the server: loops started, drained and stopped together.
 */
#include "acceptor_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A name for people, in every answer's header: what can't stand there is not said. */
static char *
make_node_line(const char *node_id)
{
    struct http_reply line = { 0 };
    http_reply_header(&line, "X-Holdfast-Node", slice_of(node_id != NULL ? node_id : ""));
    if (line.headers.failed) {
        buf_fini(&line.headers);
        return NULL;
    }
    return line.headers.data; /* the caller frees it */
}

static void
acceptor_free(struct acceptor *acceptor)
{
    free(acceptor->node_line);
    free(acceptor->loops);
    free(acceptor);
}

static struct acceptor *
acceptor_new(const struct config *config, const struct http_handler *handler, const char *node_id)
{
    struct acceptor *acceptor = calloc(1, sizeof(*acceptor));
    if (acceptor == NULL)
        return NULL;
    acceptor->config = config;
    acceptor->handler = handler;
    acceptor->rules = (struct parser_rules){
        .header_max = (size_t)config->header_max,
        .uri_max = (size_t)config->uri_max,
        .handler = handler,
    };
    acceptor->budget.max = (size_t)config->body_memory_max;
    acceptor->loops = calloc((size_t)config->loops + 1, sizeof(*acceptor->loops));
    acceptor->node_line = make_node_line(node_id);
    if (acceptor->loops != NULL && acceptor->node_line != NULL) {
        acceptor->streams_loop = &acceptor->loops[config->loops];
        return acceptor;
    }
    acceptor_free(acceptor);
    return NULL;
}

static void
stop_some(struct loop *loops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        loop_order(&loops[i], LOOP_ORDER_STOP);
    for (size_t i = 0; i < count; i++)
        loop_join(&loops[i]);
}

/* The streams' loop, started first, is the last to go: until then others hand streams to it. */
static void
stop_loops(struct acceptor *acceptor)
{
    stop_some(acceptor->loops, acceptor->loop_count);
    stop_some(acceptor->streams_loop, 1);
    acceptor->loop_count = 0;
}

/* Each loop takes its socket; those of loops that didn't start are closed here. */
static bool
start_loops(struct acceptor *acceptor, const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!loop_start(&acceptor->loops[i], acceptor, (unsigned)i, fds[i])) {
            while (++i < count)
                close(fds[i]);
            stop_loops(acceptor);
            return false;
        }
        acceptor->loop_count++;
    }
    return true;
}

static bool
start_all(struct acceptor *acceptor, const int *fds, size_t count)
{
    if (loop_start(acceptor->streams_loop, acceptor, (unsigned)count, -1))
        return start_loops(acceptor, fds, count);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    return false;
}

static bool
listen_and_start(struct acceptor *acceptor, char *error, size_t error_bytes)
{
    const struct config *config = acceptor->config;
    struct listener_address address;
    size_t count = (size_t)config->loops;
    int *fds = calloc(count, sizeof(*fds));

    if (fds == NULL) {
        snprintf(error, error_bytes, "out of memory");
        return false;
    }
    bool started = false;
    if (!listener_parse(config->listen, &address)) {
        snprintf(error, error_bytes,
                 "listen: '%s' is no address and port such as 127.0.0.1:8080"
                 " or [::1]:8080",
                 config->listen);
    } else if (listener_open(&address, fds, count, error, error_bytes)) {
        listener_format(&address, acceptor->address);
        started = start_all(acceptor, fds, count);
        if (!started)
            snprintf(error, error_bytes, "can't start an acceptor loop");
    }
    free(fds);
    return started;
}

bool
acceptor_address_is_valid(const char *listen)
{
    struct listener_address address;
    return listener_parse(listen, &address);
}

struct acceptor *
acceptor_start(const struct config *config, const struct http_handler *handler, const char *node_id,
               char *error, size_t error_bytes)
{
    struct acceptor *acceptor = acceptor_new(config, handler, node_id);
    if (acceptor == NULL) {
        snprintf(error, error_bytes, "out of memory");
        return NULL;
    }
    if (listen_and_start(acceptor, error, error_bytes))
        return acceptor;
    acceptor_free(acceptor);
    return NULL;
}

const char *
acceptor_address(const struct acceptor *acceptor)
{
    return acceptor->address;
}

int64_t
acceptor_connections(const struct acceptor *acceptor)
{
    return atomic_load_explicit(&acceptor->connections, memory_order_relaxed);
}

void
acceptor_drain_begin(struct acceptor *acceptor)
{
    atomic_store_explicit(&acceptor->draining, true, memory_order_relaxed);
}

void
acceptor_drain_close(struct acceptor *acceptor)
{
    acceptor_drain_begin(acceptor);
    for (size_t i = 0; i <= acceptor->loop_count; i++) /* and the streams' */
        loop_order(&acceptor->loops[i], LOOP_ORDER_DRAIN);
    for (size_t i = 0; i <= acceptor->loop_count; i++) {
        while (sem_wait(&acceptor->loops[i].drained) != 0)
            ; /* a signal */
    }
}

void
acceptor_stop(struct acceptor **acceptor)
{
    if (*acceptor == NULL)
        return;
    stop_loops(*acceptor);
    acceptor_free(*acceptor);
    *acceptor = NULL;
}
