/*
 * stream.h - an answer of which more comes later: what waits to be sent, and for whom.
 *
 * Any thread appends pieces; the first of a burst posts the stream to its loop, the others ride
 * along. The loop moves what waits to `sending`, which is its own, and writes from there.
 *
 *   OPEN    takes pieces
 *   ENDING  takes no more; the answer ends after what waits
 *   CUT     takes no more; the reader was too slow (or memory ran out): the connection is closed
 *   CLOSED  nobody reads any more; `closed` is called, once
 *
 * A stream is posted under its lock, and CLOSED is set under it: afterwards no thread touches the
 * loop on this stream's account, so the loop may end while beginners still have references.
 *
 * Once its head is out it moves, with its connection, to the loop that writes all streams: there it
 * comes through the outbox as if there were something to send. What was posted to the loop before
 * is sent on after it.
 *
 * Callers:  the beginner (http.h); the loop of its connection.
 * Threads:  as the members say.
 * Locks:    STREAM, the innermost of its callers': a few steps, and a wake of the loop.
 * Memory:   counted: the beginner, the connection, and the outbox while it is posted. A piece is
 *           one small allocation; its body is shared.
 * Limits:   backlog_max bytes that wait for a reader whose socket is full; LOOP_BEHIND_TIMES as
 * many where it is the loop that is behind: bodies are shared, and that is no reader's fault.
 */
#ifndef ACCEPTOR_STREAM_H
#define ACCEPTOR_STREAM_H

#include "holdfast/lock.h"

#include "exchange.h"

#define STREAM_MAGIC      0x5354524du /* "STRM" */
#define CHUNK_HEAD_BYTES  18          /* 16 digits and CRLF */
#define LOOP_BEHIND_TIMES 8

/* One body, with the head of its chunk right-aligned; none for HTTP/1.0. */
struct piece {
    struct piece *next;
    struct http_body *body;
    unsigned char head_len;
    char head[CHUNK_HEAD_BYTES];
};

/* A queue. An empty one has first == NULL. */
struct pieces {
    struct piece *first, *last;
};

enum stream_state { STREAM_OPEN, STREAM_ENDING, STREAM_CUT, STREAM_CLOSED };

struct http_stream {
    /* fixed after start */
    uint32_t magic;
    bool chunked;
    size_t backlog_max;
    void (*closed)(void *context);
    void *context;

    /* guarded by lock */
    struct lock lock; /* rank STREAM */
    enum stream_state state;
    struct outbox *outbox; /* of its loop */
    bool posted;
    struct pieces waiting;
    size_t backlog; /* bytes of `waiting` and `sending` */
    bool is_stuck;  /* the socket is full */

    /* whoever has posted it: the outbox */
    struct outbox_item item;

    /* the loop's */
    struct conn *conn;      /* NULL before it is known, and once it is gone */
    int moved_fd;           /* a connection that moves with it; -1: none */
    enum stream_state seen; /* the state when it was collected last */
    struct pieces sending;

    /* atomic, any thread */
    atomic_int refs;
};

static inline struct http_stream *
http_stream_of_item(struct outbox_item *item)
{
    struct http_stream *stream =
        (struct http_stream *)((char *)item - offsetof(struct http_stream, item));
    HF_MAGIC_CHECK(stream, STREAM_MAGIC);
    return stream;
}

/* --- the loop's thread only --- */

/* Moves what waits to `sending`. */
void http_stream_collect(struct http_stream *stream);
/*
 * The same for one that the outbox of this loop brought; from now on it may be posted again. True:
 * it is this loop's to look at; else it was sent on, and the caller leaves it alone. The reference
 * of the outbox is the caller's to put in the end.
 */
HF_MUST_CHECK bool http_stream_woken(struct http_stream *stream, const struct outbox *here);
void http_stream_put(struct http_stream *stream);
/* From now on it is the other loop's, with `fd`, which that one takes. */
void http_stream_move(struct http_stream *stream, struct outbox *there, int fd);
/* There is more to write than was written now: the outbox brings it again. */
void http_stream_carry_on(struct http_stream *stream);
/* The server ends it, after what waits. */
void http_stream_shut(struct http_stream *stream);
/* Whether the socket takes no more for now. */
void http_stream_stuck(struct http_stream *stream, bool is_stuck);
/* The first `count` pieces of `sending` are out. */
void http_stream_written(struct http_stream *stream, unsigned count);
/* Nobody reads any more: calls `closed`. */
void http_stream_close(struct http_stream *stream);
/* After http_stream_close, once nothing is written from `sending` any more: puts the reference of
 * the connection. */
void http_stream_leave(struct http_stream *stream);

#endif
