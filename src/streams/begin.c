/*
 * begin.c - how a stream begins.
 *
 * Everything is decided at one position of the feed: what the reader missed is written, and from
 * there on the stream is owed what its audience is told. A reader who can't be told what was missed
 * (the log doesn't reach back, seats were added, the map isn't whole) begins with a reset.
 */
#include <stdlib.h>
#include <string.h>

#include "streams_internal.h"

#define AWAIT_READER_US (100 * TIME_US_PER_MS) /* what a node ahead has is here in a few */
#define READS_MAX       3 /* of a map: one that changes came to meanwhile is read once more */

/* The newest version of a seat that the reader has; by a hash of its id, which is seeded: two seats
 * that share one are less likely than a broken machine. */
struct seen {
    uint64_t seat;
    int64_t version; /* 0: the place is free */
};

struct beginning {
    struct streams *streams;
    struct audience *audience;
    struct buf text; /* what was missed */
    bool must_reset;
    struct seen *seen; /* open addressing */
    size_t seen_count, seen_size;
    bool has_position;
    struct feed_position position;
    size_t owed_from;
};

/* --- what was missed: under the feed's lock -------------------------------------------------- */

static struct seen *
seen_place(struct seen *seen, size_t size, uint64_t seat)
{
    size_t at = seat & (size - 1);

    while (seen[at].version != 0 && seen[at].seat != seat)
        at = (at + 1) & (size - 1);
    return &seen[at];
}

static bool
seen_grow(struct beginning *beginning)
{
    size_t size = beginning->seen_size == 0 ? 64 : 2 * beginning->seen_size;
    struct seen *seen = calloc(size, sizeof(*seen));
    if (seen == NULL)
        return false;
    for (size_t i = 0; i < beginning->seen_size; i++) {
        if (beginning->seen[i].version != 0)
            *seen_place(seen, size, beginning->seen[i].seat) = beginning->seen[i];
    }
    free(beginning->seen);
    beginning->seen = seen;
    beginning->seen_size = size;
    return true;
}

/* False: a newer one has overtaken it on its way here. */
static bool
is_newest(struct beginning *beginning, struct slice seat, int64_t version)
{
    if (2 * beginning->seen_count >= beginning->seen_size && !seen_grow(beginning)) {
        beginning->must_reset = true;
        return false;
    }
    uint64_t hash = hash_seeded(seat.ptr, seat.len);
    struct seen *seen = seen_place(beginning->seen, beginning->seen_size, hash);
    if (seen->version >= version)
        return false;
    beginning->seen_count += seen->version == 0;
    *seen = (struct seen){ hash, version };
    return true;
}

static void
write_missed(struct beginning *beginning, const struct feed_change *change,
             const struct feed_position *after)
{
    struct seat_map_news news = { .seat = change->item,
                                  .status = change->status,
                                  .version = change->version,
                                  .reason = change->reason,
                                  .at = change->at,
                                  .after = after };
    size_t most = (size_t)beginning->streams->node->config->stream_backlog_max;

    event_write_seat(&beginning->text, &news);
    if (beginning->text.len > most || beginning->text.failed)
        beginning->must_reset = true;
}

/* Which seats were added is in no record. What the reader has is only remembered. */
static void
visit(void *context, const struct feed_change *change, const struct feed_position *after)
{
    struct beginning *beginning = context;
    bool is_missed = after != NULL;

    if (change->kind == FEED_SEATS && is_missed)
        beginning->must_reset = true;
    if (change->kind == FEED_SEAT && !beginning->must_reset &&
        is_newest(beginning, change->item, change->version) && is_missed)
        write_missed(beginning, change, after);
}

static void
ready(void *context, const struct feed_position *now)
{
    struct beginning *beginning = context;
    struct audience *audience = beginning->audience;

    beginning->has_position =
        seat_maps_is_whole(beginning->streams->node->maps, audience->org, audience->event);
    if (beginning->has_position)
        beginning->position = *now;
    lock_take(&audience->lock);
    beginning->owed_from = audience->text.len;
    lock_drop(&audience->lock);
}

/* --- the first piece ----------------------------------------------------------------- */

/* Finds the position to begin at, and what was missed up to there. */
static void
find_position(struct beginning *beginning, struct slice last_event_id)
{
    struct audience *audience = beginning->audience;
    struct feed_position since;
    bool is_asked = last_event_id.len > 0;
    bool is_sane = is_asked && feed_position_parse(last_event_id, &since);

    bool is_told = feed_replay(beginning->streams->node->feed, audience->org, audience->event,
                               is_sane ? &since : NULL, visit, ready, beginning);
    if (is_asked && (!is_sane || !is_told || !beginning->has_position))
        beginning->must_reset = true;
}

/* What the audience was told last is what it is told differences from. */
static bool
know_counts(struct beginning *beginning)
{
    struct audience *audience = beginning->audience;

    if (!audience->has_counts)
        audience->has_counts =
            seat_maps_count(beginning->streams->node->maps, audience->org, audience->event,
                            streams_now(beginning->streams), &audience->counts);
    return audience->has_counts;
}

/* NULL: no memory. */
static struct http_body *
write_first(struct beginning *beginning)
{
    const struct feed_position *id = beginning->has_position ? &beginning->position : NULL;
    struct buf text = { 0 };
    struct http_body *body = NULL;

    buf_append_text(&text, "retry: 1000\n\n");
    if (beginning->must_reset)
        event_write_reset(&text, id);
    else
        buf_append_slice(&text, buf_slice(&beginning->text));
    event_write_counts(&text, &beginning->audience->counts, id, streams_now(beginning->streams));
    if (!text.failed)
        body = http_body_new(text.data, text.len);
    buf_fini(&text);
    return body;
}

/* --- the stream ---------------------------------------------------------------------- */

static struct stream *
stream_new(struct streams *streams, struct db_time ends_at)
{
    struct stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    stream->began_at = mono_now();
    stream->ends_at = ends_at;
    stream->gone_count = &streams->gone_count;
    atomic_init(&stream->refs, 2);
    return stream;
}

/* False: no memory; the exchange is still the caller's. */
static bool
start_locked(struct beginning *beginning, struct http_exchange *exchange, struct db_time ends_at)
{
    struct streams *streams = beginning->streams;
    struct http_body *first = write_first(beginning);
    struct stream *stream = first == NULL ? NULL : stream_new(streams, ends_at);

    if (stream != NULL)
        stream->http = http_exchange_stream(
            exchange, (size_t)streams->node->config->stream_backlog_max, stream_closed, stream);
    bool started = stream != NULL && stream->http != NULL;
    if (started) {
        (void)http_stream_send(stream->http, first);
        stream->owed_from = beginning->owed_from;
        stream->turn = beginning->audience->turn;
        DL_APPEND(beginning->audience->streams, stream);
    } else {
        free(stream);
    }
    if (first != NULL)
        http_body_put(first);
    return started;
}

static enum hf_status
begin_locked(struct streams *streams, struct audience *audience, struct http_exchange *exchange,
             struct slice last_event_id, struct db_time ends_at)
{
    struct beginning beginning = { .streams = streams, .audience = audience };

    if (streams->is_closed)
        return HF_DRAINING;
    if (!know_counts(&beginning))
        return HF_OVERLOADED; /* all became void in this moment */
    find_position(&beginning, last_event_id);
    bool started = start_locked(&beginning, exchange, ends_at);
    buf_fini(&beginning.text);
    free(beginning.seen);
    return started ? HF_OK : HF_OVERLOADED;
}

/* --- the map it needs ---------------------------------------------------------------- */

static enum hf_status
status_of(enum pg_outcome outcome)
{
    switch (outcome) {
    case PG_DONE:
        return HF_OK;
    case PG_UNAVAILABLE:
    case PG_UNKNOWN: /* of a read: nothing has happened */
        return HF_STORE_UNAVAILABLE;
    case PG_REPEAT:
        return HF_OVERLOADED;
    case PG_DATA_ERROR:
    case PG_BUG:
        return HF_INTERNAL;
    }
    return HF_INTERNAL;
}

/* A map that is not whole will do for a reader who has nothing; the keeper has it read. */
static bool
map_will_do(struct streams *streams, const struct audience *audience, bool resumes)
{
    struct seat_maps *maps = streams->node->maps;

    if (seat_maps_is_whole(maps, audience->org, audience->event))
        return true;
    return (!resumes || !seat_maps_trusted(maps)) &&
           seat_maps_is_loaded(maps, audience->org, audience->event);
}

static enum hf_status
have_map(struct streams *streams, struct pg *pg, const struct audience *audience, bool resumes)
{
    struct mono_time deadline = { mono_now().us + streams->node->config->request_timeout };
    enum hf_status status = HF_OK;

    for (int i = 0; i < READS_MAX && status == HF_OK; i++) {
        if (map_will_do(streams, audience, resumes))
            break;
        status = status_of(streams_read_map(streams, pg, audience, deadline));
    }
    return status;
}

/* --- the contract -------------------------------------------------------------------- */

static enum hf_status
admit_locked(const struct streams *streams)
{
    if (streams->is_closed)
        return HF_DRAINING;
    return streams->open < streams->node->config->streams_max ? HF_OK : HF_OVERLOADED;
}

enum hf_status
streams_admit(struct streams *streams)
{
    lock_take(&streams->lock);
    enum hf_status status = admit_locked(streams);
    lock_drop(&streams->lock);
    return status;
}

/* HF_OK: *audience is used, and one more stream counts as open. */
static enum hf_status
enter_locked(struct streams *streams, struct slice org, struct slice event,
             struct audience **audience)
{
    enum hf_status status = admit_locked(streams);

    if (status != HF_OK)
        return status;
    *audience = audience_get_locked(streams, org, event);
    if (*audience == NULL)
        return HF_OVERLOADED;
    streams->open++;
    return HF_OK;
}

/* A reader who comes from a node that was ahead would be told again what he has. */
static void
await_reader(struct streams *streams, struct slice last_event_id)
{
    struct feed_position since;

    if (last_event_id.len > 0 && feed_position_parse(last_event_id, &since))
        (void)feed_await(streams->node->feed, &since, AWAIT_READER_US);
}

enum hf_status
streams_begin(struct streams *streams, struct pg *pg, struct http_exchange *exchange,
              struct slice org, struct slice event, struct slice last_event_id,
              struct db_time ends_at)
{
    struct audience *audience;

    lock_take(&streams->lock);
    enum hf_status status = enter_locked(streams, org, event, &audience);
    lock_drop(&streams->lock);
    if (status != HF_OK)
        return status;
    status = have_map(streams, pg, audience, last_event_id.len > 0);
    if (status == HF_OK)
        await_reader(streams, last_event_id);
    lock_take(&streams->lock);
    if (status == HF_OK)
        status = begin_locked(streams, audience, exchange, last_event_id, ends_at);
    if (status != HF_OK)
        streams->open--;
    audience_put_locked(streams, audience);
    lock_drop(&streams->lock);
    return status;
}
