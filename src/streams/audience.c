/*
 * audience.c - the readers of one event, and what gathers for all of them.
 *
 * What gathers is one text, handed over as one body. A stream that began while some had gathered
 * is owed only what came after: it gets a body of its own once. Text that grows past what a
 * reader's backlog may hold would cut everybody off, so it becomes a reset.
 *
 * A text that leaves is handed to some of the streams at a time. Those that have it are behind
 * those that haven't, and so are those that began meanwhile: whatever else is owed to them is in
 * the text that gathers.
 */
#include <stdlib.h>
#include <string.h>

#include "streams_internal.h"

/* --- what the map tells: under its lock ------------------------------------------------- */

static struct audience *
audience_of(struct seat_map_watcher *watcher)
{
    return (struct audience *)((char *)watcher - offsetof(struct audience, watcher));
}

static void
void_locked(struct audience *audience, const struct feed_position *id)
{
    lock_assert_held(&audience->lock);
    buf_clear(&audience->text);
    event_write_reset(&audience->text, id);
    audience->is_void = true;
}

static void
moved(struct seat_map_watcher *watcher, const struct seat_map_news *news)
{
    struct audience *audience = audience_of(watcher);
    struct streams *streams = audience->owner;
    struct seat_map_news told = *news;

    if (told.at.us == 0)
        told.at = streams_now(streams);
    lock_take(&audience->lock);
    event_write_seat(&audience->text, &told);
    audience->is_stirred = true;
    if (audience->text.len > (size_t)streams->node->config->stream_backlog_max)
        void_locked(audience, news->after);
    lock_drop(&audience->lock);
}

static void
counted(struct seat_map_watcher *watcher)
{
    struct audience *audience = audience_of(watcher);

    lock_take(&audience->lock);
    audience->is_stirred = true;
    lock_drop(&audience->lock);
}

static void
forgotten(struct seat_map_watcher *watcher)
{
    struct audience *audience = audience_of(watcher);

    lock_take(&audience->lock);
    void_locked(audience, NULL);
    audience->is_stirred = true;
    lock_drop(&audience->lock);
}

/* --- coming and going --------------------------------------------------------------------- */

static struct audience *
audience_new(struct streams *streams, struct slice org, struct slice event)
{
    struct audience *audience = calloc(1, sizeof(*audience));
    if (audience == NULL)
        return NULL;
    audience->key_len = event_key(audience->key, org, event);
    audience->org = (struct slice){ audience->key, org.len };
    audience->event = (struct slice){ audience->key + org.len + 1, event.len };
    audience->owner = streams;
    audience->watcher = (struct seat_map_watcher){ moved, counted, forgotten };
    lock_init(&audience->lock, LOCK_AUDIENCE);
    return audience;
}

static void
audience_fini(struct audience *audience)
{
    if (audience->body != NULL)
        http_body_put(audience->body);
    buf_fini(&audience->leaving);
    buf_fini(&audience->text);
    lock_fini(&audience->lock);
    free(audience);
}

static struct audience *
audience_add_locked(struct streams *streams, struct slice org, struct slice event)
{
    struct audience *audience = audience_new(streams, org, event);
    if (audience == NULL)
        return NULL;
    HASH_ADD(hh, streams->audiences, key, audience->key_len, audience);
    if (audience->hh.tbl == NULL) {
        audience_fini(audience);
        return NULL;
    }
    if (!seat_maps_watch(streams->node->maps, org, event, &audience->watcher)) {
        HASH_DEL(streams->audiences, audience);
        audience_fini(audience);
        return NULL;
    }
    pthread_cond_signal(&streams->keeper_cond);
    return audience;
}

struct audience *
audience_get_locked(struct streams *streams, struct slice org, struct slice event)
{
    char key[EVENT_KEY_BYTES];
    struct audience *audience;
    unsigned key_len = event_key(key, org, event);

    hf_assert(key_len > 0);
    HASH_FIND(hh, streams->audiences, key, key_len, audience);
    if (audience == NULL)
        audience = audience_add_locked(streams, org, event);
    if (audience != NULL)
        audience->users++;
    return audience;
}

void
audience_put_locked(struct streams *streams, struct audience *audience)
{
    lock_assert_held(&streams->lock);
    hf_assert(audience->users > 0);
    audience->users--;
}

bool
audience_is_empty_locked(const struct audience *audience)
{
    return audience->streams == NULL && audience->users == 0;
}

void
audience_free_locked(struct streams *streams, struct audience *audience)
{
    hf_assert(audience_is_empty_locked(audience));
    seat_maps_unwatch(streams->node->maps, audience->org, audience->event);
    HASH_DEL(streams->audiences, audience);
    audience_fini(audience);
}

/* --- streams ------------------------------------------------------------------------------- */

void
stream_put(struct stream *stream)
{
    if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) == 1)
        free(stream);
}

void
stream_closed(void *context)
{
    struct stream *stream = context;

    atomic_store(&stream->gone, true);
    atomic_fetch_add(stream->gone_count, 1);
    stream_put(stream);
}

void
stream_remove_locked(struct streams *streams, struct audience *audience, struct stream *stream)
{
    DL_DELETE(audience->streams, stream);
    streams->open--;
    http_stream_end(stream->http);
    stream_put(stream);
}

/* --- handing over --------------------------------------------------------------------------- */

/* Who can't be told everything is told nothing more. */
static void
end_all_locked(struct streams *streams, struct audience *audience)
{
    struct stream *stream, *next;

    DL_FOREACH_SAFE(audience->streams, stream, next)
    stream_remove_locked(streams, audience, stream);
}

/* To a stream that began when some of it had gathered. False: no memory. */
static bool
hand_rest(struct stream *stream, struct slice text)
{
    bool handed = true;

    if (stream->owed_from < text.len) {
        struct http_body *rest =
            http_body_new(text.ptr + stream->owed_from, text.len - stream->owed_from);
        handed = rest != NULL;
        if (rest != NULL) {
            (void)http_stream_send(stream->http, rest);
            http_body_put(rest);
        }
    }
    stream->owed_from = 0;
    return handed;
}

/* One that doesn't take it is being closed, and says so by stream_closed. */
static void
hand_over_locked(struct streams *streams, struct audience *audience, struct stream *stream)
{
    stream->turn = audience->turn;
    if (stream->owed_from == 0) {
        (void)http_stream_send(stream->http, audience->body);
    } else if (!hand_rest(stream, buf_slice(&audience->leaving))) {
        stream_remove_locked(streams, audience, stream);
        return;
    }
    DL_DELETE(audience->streams, stream);
    DL_APPEND(audience->streams, stream);
}

bool
audience_hand_locked(struct streams *streams, struct audience *audience, int64_t *left)
{
    if (audience->body == NULL)
        return true;
    while (audience->streams != NULL && audience->streams->turn != audience->turn) {
        if (*left == 0)
            return false;
        --*left;
        hand_over_locked(streams, audience, audience->streams);
    }
    http_body_put(audience->body);
    audience->body = NULL;
    buf_fini(&audience->leaving);
    return true;
}

/* What has gathered becomes what leaves. *is_void: everybody is owed all of it. */
static void
move_text(struct audience *audience, bool *is_void)
{
    lock_take(&audience->lock);
    audience->leaving = audience->text;
    audience->text = (struct buf){ 0 };
    *is_void = audience->is_void;
    audience->is_void = false;
    lock_drop(&audience->lock);
}

static void
owe_all_locked(struct audience *audience)
{
    struct stream *stream;

    DL_FOREACH(audience->streams, stream)
    stream->owed_from = 0;
}

void
audience_take_locked(struct streams *streams, struct audience *audience)
{
    int64_t all = INT64_MAX;
    bool is_void;

    (void)audience_hand_locked(streams, audience, &all); /* the one before, to the last of them */
    move_text(audience, &is_void);
    if (is_void)
        owe_all_locked(audience);
    const struct buf *text = &audience->leaving;
    if (text->len == 0 && !text->failed)
        return;
    audience->body = text->failed ? NULL : http_body_new(text->data, text->len);
    audience->turn++;
    if (audience->body == NULL) {
        end_all_locked(streams, audience);
        buf_fini(&audience->leaving);
    }
}

void
audience_flush_locked(struct streams *streams, struct audience *audience)
{
    int64_t all = INT64_MAX;

    audience_take_locked(streams, audience);
    (void)audience_hand_locked(streams, audience, &all);
}

/* --- text at a position ---------------------------------------------------------------------- */

struct writing {
    struct audience *audience;
    void (*write)(struct audience *audience, const struct feed_position *id);
};

static void
write_at(void *context, const struct feed_position *now)
{
    struct writing *writing = context;
    struct audience *audience = writing->audience;
    bool is_whole = seat_maps_is_whole(audience->owner->node->maps, audience->org, audience->event);

    lock_take(&audience->lock);
    writing->write(audience, is_whole ? now : NULL);
    lock_drop(&audience->lock);
}

void
audience_write_locked(struct streams *streams, struct audience *audience,
                      void (*write)(struct audience *audience, const struct feed_position *id))
{
    struct writing writing = { audience, write };

    (void)feed_replay(streams->node->feed, audience->org, audience->event, NULL, NULL, write_at,
                      &writing);
}
