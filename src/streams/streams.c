/*
 * streams.c - start and stop of all streams, and the thread that reads maps for them.
 *
 * Reading is a thread of its own: while Postgres hangs, what peers tell is told all the same.
 */
#include <stdlib.h>

#include "holdfast/log.h"
#include "streams_internal.h"

#define STACK_BYTES (256 * 1024)
#define READ_MAX_US (5 * TIME_US_PER_S)

/* --- the reader ---------------------------------------------------------------------------- */

static struct audience *
next_to_read_locked(struct streams *streams)
{
    struct audience *audience, *next;

    HASH_ITER(hh, streams->audiences, audience, next)
    {
        if (audience->must_read)
            return audience;
    }
    return NULL;
}

/* One that can't be read now is due again by and by. */
static void
read_for(struct streams *streams, const struct audience *audience)
{
    struct pg *pg = streams->pg;
    struct mono_time deadline = { mono_now().us + READ_MAX_US };

    if (!pg_ready(pg)) {
        sleep_us(STREAMS_TURN_US);
        return;
    }
    if (streams_read_map(streams, pg, audience, deadline) != PG_DONE)
        LOG_EVENT(LOG_WARN, "map_not_read", log_text("error", pg_last_error(pg)));
}

static void
read_until_end_locked(struct streams *streams)
{
    while (!streams->is_ending) {
        struct audience *audience = next_to_read_locked(streams);
        if (audience == NULL) {
            lock_wait(&streams->lock, &streams->reader_cond, -1);
            continue;
        }
        lock_drop(&streams->lock);
        read_for(streams, audience);
        lock_take(&streams->lock);
        audience->must_read = false;
        audience_put_locked(streams, audience);
    }
}

static void *
reader_run(void *context)
{
    struct streams *streams = context;

    lock_take(&streams->lock);
    read_until_end_locked(streams);
    lock_drop(&streams->lock);
    return NULL;
}

/* --- start and stop --------------------------------------------------------------------------- */

struct streams *
streams_start(struct node *node)
{
    struct streams *streams = calloc(1, sizeof(*streams));
    if (streams == NULL)
        return NULL;
    streams->node = node;
    lock_init(&streams->lock, LOCK_AUDIENCES);
    lock_cond_init(&streams->keeper_cond);
    lock_cond_init(&streams->reader_cond);
    streams->pg = pg_new(node->config, "holdfast streams", node->identity, node->clock);
    if (streams->pg == NULL || !thread_start(&streams->keeper, STACK_BYTES, keeper_run, streams) ||
        !thread_start(&streams->reader, STACK_BYTES, reader_run, streams))
        streams_stop(&streams);
    return streams;
}

void
streams_close(struct streams *streams)
{
    struct audience *audience, *next;
    struct stream *stream, *after;

    lock_take(&streams->lock);
    streams->is_closed = true;
    HASH_ITER(hh, streams->audiences, audience, next)
    {
        audience_flush_locked(streams, audience);
        DL_FOREACH_SAFE(audience->streams, stream, after)
        stream_remove_locked(streams, audience, stream);
    }
    lock_drop(&streams->lock);
}

static void
end_threads(struct streams *streams)
{
    lock_take(&streams->lock);
    streams->is_ending = true;
    pthread_cond_signal(&streams->keeper_cond);
    pthread_cond_signal(&streams->reader_cond);
    lock_drop(&streams->lock);
    thread_join(&streams->keeper);
    thread_join(&streams->reader);
}

/* Those that were to be read and weren't. */
static void
free_audiences(struct streams *streams)
{
    struct audience *audience, *next;

    lock_take(&streams->lock);
    HASH_ITER(hh, streams->audiences, audience, next)
    {
        if (audience->must_read)
            audience_put_locked(streams, audience);
        audience_free_locked(streams, audience);
    }
    lock_drop(&streams->lock);
}

void
streams_stop(struct streams **streams_pointer)
{
    struct streams *streams = *streams_pointer;

    if (streams == NULL)
        return;
    streams_close(streams);
    end_threads(streams);
    free_audiences(streams);
    if (streams->pg != NULL)
        pg_free(&streams->pg);
    pthread_cond_destroy(&streams->keeper_cond);
    pthread_cond_destroy(&streams->reader_cond);
    lock_fini(&streams->lock);
    free(streams);
    *streams_pointer = NULL;
}
