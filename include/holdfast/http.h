/*
 * http.h - one HTTP request and its answer, between the acceptor and the rest.
 *
 * Callers:  the acceptor makes exchanges; handlers read the request, fill the
 *           reply and send it.
 * Threads:  http_exchange_send and what is said of streams: from any thread. Before
 *           that, an exchange has one owner at a time (loop -> queue -> worker -> loop).
 * Memory:   the request's slices live as long as the exchange. After
 *           http_exchange_send the exchange is the acceptor's again.
 * Limits:   header, target, body and all bodies together, as configured; of streams
 *           what waits for a slow reader.
 */
#ifndef HOLDFAST_HTTP_H
#define HOLDFAST_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "holdfast/assert.h"
#include "holdfast/buf.h"
#include "holdfast/clock.h"
#include "holdfast/config.h"
#include "holdfast/slice.h"
#include "holdfast/status.h"

enum http_method {
    HTTP_METHOD_GET,
    HTTP_METHOD_HEAD,
    HTTP_METHOD_POST,
    HTTP_METHOD_PUT,
    HTTP_METHOD_PATCH,
    HTTP_METHOD_DELETE,
    HTTP_METHOD_OPTIONS
};

#define HTTP_ADDRESS_BYTES    46
#define HTTP_REQUEST_ID_BYTES 65

struct http_request {
    enum http_method method;
    struct slice target; /* as sent: path and query */
    struct slice path;   /* up to the '?' */
    struct slice query;  /* after the '?', or empty */
    struct slice body;
    /* The headers that somebody reads; empty when absent. */
    struct slice authorization, content_type, idempotency_key, traceparent, if_none_match,
        accept_encoding, forwarded_for, user_agent, last_event_id, api_key, signature;
    char peer[HTTP_ADDRESS_BYTES];          /* address of the socket's other end */
    char request_id[HTTP_REQUEST_ID_BYTES]; /* theirs if it was sane, else made here */
    struct mono_time received;              /* when the last byte came */
};

/* A body shared by many answers (a seat map): counted, freed by the last. */
struct http_body {
    atomic_int refs;
    size_t len;
    char bytes[];
};
struct http_body *http_body_new(const void *bytes, size_t len); /* one reference; NULL: no memory */
/* Room for `room` bytes, for a body that is written in place: the maker fills bytes and sets
 * len. */
struct http_body *http_body_alloc(size_t room);
struct http_body *http_body_get(struct http_body *body);
void http_body_put(struct http_body *body);

struct http_reply {
    int status;
    const char *content_type; /* static text, or NULL for no body */
    struct buf headers;       /* further header lines, each ending in CRLF */
    struct buf body;          /* the body, unless `shared` is set */
    struct http_body *shared; /* takes one reference */
    bool close;               /* Connection: close after this answer */
};

struct http_exchange {
    struct http_request request;
    struct http_reply reply;
    void *user;                    /* the handler's own; see user_free */
    void (*user_free)(void *user); /* called when the exchange ends; may be NULL */
    /* the acceptor's own fields follow in its private struct */
};

/*
 * Adds "Name: value" to the reply. `name` is a literal; CR and LF in value
 * become spaces.
 */
void http_reply_header(struct http_reply *reply, const char *name, struct slice value);

/*
 * Sends the reply: takes the exchange. Adds Content-Length, Content-Type, Date,
 * X-Request-Id, X-Holdfast-Node and Connection. Answers of one connection leave
 * in the order of its requests. Exactly once per exchange, from any thread.
 */
void http_exchange_send(struct http_exchange *exchange);

/* --- answers without an end (Server-Sent Events) ---------------------------------------- */

/*
 * Counted: one reference is the beginner's, one the connection's. Sending takes one lock of the
 * stream's own (rank STREAM), and wakes the loop at most once a burst.
 */
struct http_stream; /* opaque */

/*
 * Begins an answer of which more comes later: takes the exchange as http_exchange_send does, sends
 * status 200 and its reply's headers (chunked; to a client of HTTP/1.0 until the connection
 * closes), then what http_stream_send brings. Earlier answers of the connection go first; requests
 * behind it are not answered any more, so Connection: close is said. It is not idle while it
 * streams; one who shuts their sending side has left. To HEAD only the head is sent.
 *
 * closed: called once, on a loop's thread and without a lock, when the connection is gone for
 * whatever reason, or the answer has ended and is sent; `context` is not touched any more. It may
 * be called before this returns, and after http_stream_end. backlog_max: bytes that may wait for a
 * slow reader, besides the little that the kernel keeps; beyond it the connection is closed. NULL:
 * no memory; the exchange is still the caller's.
 */
struct http_stream *http_exchange_stream(struct http_exchange *exchange, size_t backlog_max,
                                         void (*closed)(void *context), void *context);
/*
 * Hands over one more piece, not empty; takes a reference of its own. Any thread, never blocks; one
 * thread's pieces stay in order. A piece larger than the backlog is taken while nothing waits.
 * False: the stream is closed or has ended, or it closes now because its reader is too slow.
 */
bool http_stream_send(struct http_stream *stream, struct http_body *body);
/* Ends the answer after what was sent, and puts the beginner's reference: the caller forgets it,
 * also one that is closed. Once per stream; nobody may be sending meanwhile. */
void http_stream_end(struct http_stream *stream);

/* What the acceptor asks of the rest of the server. Both run on a loop thread and must not
 * block. */
struct http_handler {
    void *context;
    /* Takes the exchange; must lead to exactly one http_exchange_send or http_exchange_stream. */
    void (*handle)(void *context, struct http_exchange *exchange);
    /* The body limit of a route, asked when the header is complete. */
    size_t (*body_max)(void *context, enum http_method method, struct slice path);
    /*
     * Fills exchange->reply with the problem document for an error found by the
     * acceptor itself (bad syntax, limits, timeouts); the acceptor sends it.
     */
    void (*refuse)(void *context, struct http_exchange *exchange, enum hf_status status,
                   const char *detail);
};

struct acceptor; /* opaque: the loops and their listeners */

/* Whether this text names an address to listen on: "127.0.0.1:8080", "[::1]:8080", port 0 for
 * any. */
bool acceptor_address_is_valid(const char *listen);

/*
 * Binds `config->listen` on `config->loops` loops (SO_REUSEPORT) and starts their
 * threads. `config` and `handler` must outlive the acceptor. NULL: error says why.
 */
struct acceptor *acceptor_start(const struct config *config, const struct http_handler *handler,
                                const char *node_id, char *error, size_t error_bytes);

/* "127.0.0.1:43210": the address bound, with its true port. */
const char *acceptor_address(const struct acceptor *acceptor);

/* From now on every answer carries Connection: close; the node still accepts, and streams go on.
 * Any thread. */
void acceptor_drain_begin(struct acceptor *acceptor);
/*
 * Takes in what already waits in the accept queue, then closes the listeners; idle
 * connections close, streams end after what was sent. Returns once the listeners are closed. Any
 * thread but a loop's.
 */
void acceptor_drain_close(struct acceptor *acceptor);
/* Connections still open. */
int64_t acceptor_connections(const struct acceptor *acceptor);
/* Closes everything at once, joins the loops, frees; *acceptor becomes NULL. No exchange may be
 * outstanding; of streams only the beginners' references are left, which may still be used. */
void acceptor_stop(struct acceptor **acceptor);

#endif
