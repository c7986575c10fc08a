/*
 * connection.h - one connection, shared by the files that live its life.
 *
 * connection.c   opens, advances, times out, lingers, closes
 * conn_read.c    bytes -> parser -> handler, pausing at the limits
 * conn_write.c   answers in the order of their requests
 * conn_stream.c  the last of them may be without an end
 *
 *   input OPEN     requests are taken, as many at a time as the limits allow
 *   input LAST     no further request is taken: the client or we said close, or its
 *                  bytes were refused; what still comes is read and thrown away
 *   input ENDED    the client has closed its side
 *
 * Exchanges queue in the order of their requests; handlers answer in any order; the
 * queue's front goes out as soon as it is answered, several answers in one write. When
 * the last answer under way has gone after LAST, the connection lingers: our side is
 * shut, and what the client still sends is read for a moment, since closing with unread
 * bytes would reset the connection and take the answer from the client's hands.
 *
 * A close is said on the last answer under way, not on the first that wants it: what
 * has reached a handler may take effect, so its answer must not be cut off.
 *
 * An answer without an end is always the queue's last: once it is known to be one, no
 * request behind it is answered. Its head goes out as any answer, then `stream` is what
 * the connection writes from. A reader who takes its bytes is under no deadline. Behind its head
 * the connection moves to the loop of the streams, as a new one on the same socket.
 *
 * Threads:  its loop's. Memory: one allocation, kept by the loop for the next one.
 */
#ifndef ACCEPTOR_CONNECTION_H
#define ACCEPTOR_CONNECTION_H

#include "acceptor_internal.h"

/* What a client may send after its last request before we stop listening to it. */
#define DISCARD_BYTES_MAX (16 * 1024 * 1024)

enum conn_input { INPUT_OPEN, INPUT_LAST, INPUT_ENDED };

/* What one write takes along: known to be out once it is done. */
struct outgoing {
    unsigned exchanges; /* of the queue's front */
    unsigned pieces;    /* of the stream, behind them */
    bool stream_end;    /* and its end */
};

struct conn {
    uv_tcp_t tcp; /* first: libuv's handle is the connection */
    struct loop *loop;
    struct conn *prev, *next; /* of all the loop's */
    struct conn *dirty_next;
    bool dirty;
    bool closing; /* uv_close was called */

    enum conn_input input;
    bool reading; /* libuv reads */
    bool paused;  /* a limit of requests under way is reached */
    bool lingering;
    bool served; /* it has had a request */
    struct parser parser;
    struct exchange *receiving; /* the request that is coming in, or NULL */
    char *kept;                 /* bytes read before it was paused */
    size_t kept_len, kept_used;
    size_t discarded;

    struct exchange *queue; /* under way, in order of their requests */
    struct exchange **queue_tail;
    unsigned queued;
    size_t unsent_bytes; /* of those that are answered */
    uv_write_t write;
    bool writing;
    struct outgoing outgoing;   /* in `write` */
    struct http_stream *stream; /* the answer that the queue ends with, or ended */

    struct deadline input_deadline;
    enum deadline_kind input_kind; /* of the armed one */
    bool input_fresh;              /* something ended: count from now */
    struct deadline write_deadline;
    char peer[HTTP_ADDRESS_BYTES];
};

/* --- connection.c --- */
/* Takes `fd`, of a connection that another loop had, from which no further request is taken. NULL:
 * no memory, or not usable; it is closed. */
HF_MUST_CHECK struct conn *conn_open_moved(struct loop *loop, int fd);

/* --- conn_read.c --- */
void conn_start_reading(struct conn *conn);
/* No further request is taken; what has come of one is dropped. */
void conn_end_input(struct conn *conn, enum conn_input input);
/* Goes on after a pause, if the limits allow it again. */
void conn_resume(struct conn *conn);
/* Answers the request that is coming in with an error of ours, then no more. */
void conn_refuse(struct conn *conn, enum hf_status status, const char *detail);
void conn_drop_receiving(struct conn *conn);
void conn_drop_kept(struct conn *conn);

/* --- conn_write.c --- */
/* Sends the answers at the queue's front, as many as there are; of a stream one burst. */
void conn_flush(struct conn *conn);
/* Takes one off the counts of the queue. */
void conn_uncount(struct conn *conn, const struct exchange *exchange);
/* "100 Continue", in its turn: behind earlier answers, before its own. */
void conn_send_continue(struct conn *conn);

/* --- conn_stream.c --- */
/* An answer came home that begins a stream, or would have: see to it that its stream is the
 * connection's, or ends. */
void conn_begin_stream(struct conn *conn, struct exchange *exchange);
/* Ends it if the server is draining: its reader comes back elsewhere. */
void conn_tend_stream(struct conn *conn);
/* Once nothing but the stream is left of it, hands it to the streams' loop: then it is closing
 * here. */
void conn_move_stream(struct conn *conn);
/* It is the stream's turn, and nobody reads it, or not fast enough. */
bool conn_stream_is_lost(const struct conn *conn);
/* All of it is out, or none shall be. */
void conn_drop_stream(struct conn *conn);

#endif
