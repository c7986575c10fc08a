/*
 * stream.c - pieces on their way from any thread to the loop that writes them.
 */
#include "stream.h"

#include <stdlib.h>

#include "holdfast/metrics.h"

/* --- pieces ------------------------------------------------------------------ */

/* "1a2b\r\n", from its end. */
static void
write_chunk_head(struct piece *piece, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    char *end = piece->head + sizeof(piece->head), *at = end;

    *--at = '\n';
    *--at = '\r';
    for (; len > 0; len /= 16)
        *--at = digits[len % 16];
    piece->head_len = (unsigned char)(end - at);
}

static struct piece *
piece_new(const struct http_stream *stream, struct http_body *body)
{
    struct piece *piece = malloc(sizeof(*piece));
    if (piece == NULL)
        return NULL;
    piece->next = NULL;
    piece->body = http_body_get(body);
    piece->head_len = 0;
    if (stream->chunked)
        write_chunk_head(piece, body->len);
    return piece;
}

static void
piece_free(struct piece *piece)
{
    http_body_put(piece->body);
    free(piece);
}

/* On the wire, but for the two bytes that end a chunk. */
static size_t
piece_bytes(const struct piece *piece)
{
    return piece->head_len + piece->body->len;
}

static void
pieces_append(struct pieces *pieces, struct pieces more)
{
    if (more.first == NULL)
        return;
    if (pieces->first == NULL)
        pieces->first = more.first;
    else
        pieces->last->next = more.first;
    pieces->last = more.last;
}

static struct piece *
pieces_take(struct pieces *pieces)
{
    struct piece *piece = pieces->first;
    pieces->first = piece->next;
    return piece;
}

static void
pieces_free(struct pieces *pieces)
{
    while (pieces->first != NULL)
        piece_free(pieces_take(pieces));
}

/* --- references -------------------------------------------------------------- */

static struct http_stream *
http_stream_new(struct exchange *exchange)
{
    struct http_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    stream->magic = STREAM_MAGIC;
    stream->chunked = !exchange->http_1_0;
    stream->outbox = exchange->outbox;
    stream->moved_fd = -1;
    lock_init(&stream->lock, LOCK_STREAM);
    atomic_init(&stream->refs, 2); /* the beginner's and the connection's */
    return stream;
}

void
http_stream_put(struct http_stream *stream)
{
    int before = atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel);
    hf_assert(before > 0);
    if (before > 1)
        return;
    hf_assert(stream->waiting.first == NULL && stream->sending.first == NULL);
    lock_fini(&stream->lock);
    stream->magic = 0;
    free(stream);
}

/* --- any thread -------------------------------------------------------------- */

/* Wakes the loop under the lock: see stream.h. It is one write that can't block, once a burst. */
static void
post_locked(struct http_stream *stream)
{
    if (stream->posted)
        return;
    stream->posted = true;
    atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
    outbox_post_stream(stream->outbox, &stream->item);
}

struct http_stream *
http_exchange_stream(struct http_exchange *public, size_t backlog_max,
                     void (*closed)(void *context), void *context)
{
    struct exchange *exchange = exchange_of(public);
    struct http_stream *stream = http_stream_new(exchange);

    hf_assert(public->reply.shared == NULL && public->reply.body.len == 0);
    if (stream == NULL)
        return NULL;
    stream->backlog_max = backlog_max;
    stream->closed = closed;
    stream->context = context;
    public->reply.status = 200;
    exchange->endless = true;
    exchange->stream = stream;
    metric_adjust(METRIC_HTTP_STREAMS, 1);
    exchange_send(exchange);
    return stream;
}

/* A single piece may be larger than the limit: while nothing waits, nobody is slow. */
static bool
has_room_locked(const struct http_stream *stream, const struct piece *piece)
{
    size_t max = stream->is_stuck ? stream->backlog_max : LOOP_BEHIND_TIMES * stream->backlog_max;

    return stream->backlog == 0 || stream->backlog + piece_bytes(piece) <= max;
}

static void
append_locked(struct http_stream *stream, struct piece *piece)
{
    pieces_append(&stream->waiting, (struct pieces){ piece, piece });
    stream->backlog += piece_bytes(piece);
}

/* Every piece or the end: a stream with a gap would lie to its reader. */
static bool
take_locked(struct http_stream *stream, struct piece *piece)
{
    bool taken = piece != NULL && has_room_locked(stream, piece);
    if (taken)
        append_locked(stream, piece);
    else
        stream->state = STREAM_CUT;
    post_locked(stream);
    return taken;
}

bool
http_stream_send(struct http_stream *stream, struct http_body *body)
{
    HF_MAGIC_CHECK(stream, STREAM_MAGIC);
    hf_assert(body->len > 0); /* an empty chunk is the end */
    struct piece *piece = piece_new(stream, body);

    lock_take(&stream->lock);
    bool was_open = stream->state == STREAM_OPEN;
    bool taken = was_open && take_locked(stream, piece);
    lock_drop(&stream->lock);

    if (was_open && !taken)
        metric_add(METRIC_HTTP_STREAMS_SLOW_TOTAL, 1);
    if (!taken && piece != NULL)
        piece_free(piece);
    return taken;
}

void
http_stream_end(struct http_stream *stream)
{
    HF_MAGIC_CHECK(stream, STREAM_MAGIC);
    lock_take(&stream->lock);
    if (stream->state == STREAM_OPEN) {
        stream->state = STREAM_ENDING;
        post_locked(stream);
    }
    lock_drop(&stream->lock);
    http_stream_put(stream);
}

/* --- the loop ---------------------------------------------------------------- */

static void
collect_locked(struct http_stream *stream)
{
    pieces_append(&stream->sending, stream->waiting);
    stream->waiting.first = NULL;
    stream->seen = stream->state;
}

void
http_stream_collect(struct http_stream *stream)
{
    lock_take(&stream->lock);
    collect_locked(stream);
    lock_drop(&stream->lock);
}

bool
http_stream_woken(struct http_stream *stream, const struct outbox *here)
{
    lock_take(&stream->lock);
    bool is_here = stream->outbox == here;
    stream->posted = false;
    if (!is_here)
        post_locked(stream);
    else if (stream->conn != NULL)
        collect_locked(stream);
    lock_drop(&stream->lock);
    return is_here;
}

void
http_stream_move(struct http_stream *stream, struct outbox *there, int fd)
{
    lock_take(&stream->lock);
    stream->conn = NULL;
    stream->moved_fd = fd;
    stream->outbox = there;
    post_locked(stream); /* posted already: the loop that it leaves sends it on */
    lock_drop(&stream->lock);
}

void
http_stream_carry_on(struct http_stream *stream)
{
    lock_take(&stream->lock);
    post_locked(stream);
    lock_drop(&stream->lock);
}

void
http_stream_shut(struct http_stream *stream)
{
    lock_take(&stream->lock);
    if (stream->state == STREAM_OPEN)
        stream->state = STREAM_ENDING;
    collect_locked(stream);
    lock_drop(&stream->lock);
}

void
http_stream_stuck(struct http_stream *stream, bool is_stuck)
{
    lock_take(&stream->lock);
    stream->is_stuck = is_stuck;
    lock_drop(&stream->lock);
}

void
http_stream_written(struct http_stream *stream, unsigned count)
{
    size_t bytes = 0;

    metric_add(METRIC_HTTP_STREAM_PIECES_TOTAL, count);
    for (; count > 0; count--) {
        struct piece *piece = pieces_take(&stream->sending);
        bytes += piece_bytes(piece);
        piece_free(piece);
    }
    metric_add(METRIC_HTTP_STREAM_BYTES_TOTAL, bytes);
    lock_take(&stream->lock);
    hf_assert(stream->backlog >= bytes);
    stream->backlog -= bytes;
    lock_drop(&stream->lock);
}

void
http_stream_close(struct http_stream *stream)
{
    lock_take(&stream->lock);
    hf_assert(stream->state != STREAM_CLOSED);
    stream->state = STREAM_CLOSED;
    struct pieces unsent = stream->waiting;
    stream->waiting.first = NULL;
    lock_drop(&stream->lock);

    stream->conn = NULL;
    pieces_free(&unsent);
    metric_adjust(METRIC_HTTP_STREAMS, -1);
    stream->closed(stream->context);
}

void
http_stream_leave(struct http_stream *stream)
{
    pieces_free(&stream->sending);
    http_stream_put(stream);
}
