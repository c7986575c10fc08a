/*
 * serving.c - answers: whether a map may be served, whose turn it is to write its body, and what a
 * reader lacks.
 *
 * A map may be served while it rests on a read that began after everything that could
 * have passed it by: `needs_read_after` of the map (seats were imported, something
 * changed while nothing was loaded), the last distrust of all (a peer may have changed
 * something), and what the request itself demands. Else the caller loads it.
 */
#include <stdio.h>
#include <string.h>

#include "event_map.h"
#include "holdfast/http.h"

#define LOOP_SEATS_MAX   256  /* a delta of so many seats is written in some 20 us: a loop may */
#define LOOP_LOOKS_MAX   4096 /* so many are looked at for another node's reader in that time */
#define GZIP_LEAST_BYTES 1024
#define RENDER_WAIT_US   5000000

/* --- versions and tags ----------------------------------------------------------- */

/* What the map is in public now; as told as the request lets it be. */
static void
version_locked(const struct seat_maps *maps, const struct event_map *map,
               const struct seat_map_request *request, struct map_version *version)
{
    memcpy(version->boot, maps->boot, sizeof(version->boot));
    version->position = map->state.position;
    version->is_told =
        request->feed != NULL && request->now.us != 0 && event_map_is_whole_locked(maps, map);
    if (!version->is_told)
        return;
    version->at = request->now;
    version->feed = *request->feed;
}

static void
write_etag(struct slice event, const char *version, struct seat_map_reply *reply)
{
    snprintf(reply->etag, sizeof(reply->etag), "W/\"%.*s-%s\"", SLICE_ARG(event), version);
}

/* What this reader has; *version must stay. */
static struct map_reader
reader_of_locked(const struct seat_maps *maps, const struct event_map *map,
                 const struct seat_map_request *request, struct map_version *version)
{
    struct map_reader nobody = { .has_nothing = true };

    if (request->since.len == 0 || !version_parse(request->since, version))
        return nobody;
    if (strcmp(version->boot, maps->boot) == 0) {
        if (version->position < map->state.floor || version->position > map->state.position)
            return nobody;
        return (struct map_reader){ .position = version->position };
    }
    if (request->feed == NULL || !event_map_is_whole_locked(maps, map) ||
        !base_is_in(&map->base, version, request->feed))
        return nobody;
    return (struct map_reader){ .position = map->state.floor, .feed = &version->feed };
}

/* The end of the quoted tag that begins as `tag` does, if the list at `at` begins with it. */
static const char *
end_of_tag(struct slice list, const char *at, const char *tag)
{
    const char *rest = at + strlen(tag);
    const char *end = list.ptr + list.len;

    if (rest >= end || (*rest != '"' && *rest != '-'))
        return NULL;
    return memchr(rest, '"', (size_t)(end - rest));
}

/*
 * If-None-Match compares weakly: any version of ours of this position, anywhere in the list, or *.
 * The client's tag is as good as ours, and is told back.
 */
static bool
is_still_true(const struct seat_maps *maps, const struct event_map *map,
              const struct seat_map_request *request, struct seat_map_reply *reply)
{
    struct slice list = request->if_none_match;
    char tag[ID_BYTES_MAX + 64];
    const char *at = list.ptr;

    if (list.len == 0)
        return false;
    snprintf(tag, sizeof(tag), "\"%.*s-%s-%llu", SLICE_ARG(request->event), maps->boot,
             (unsigned long long)map->state.position);
    snprintf(reply->etag, sizeof(reply->etag), "W/%s\"", tag);
    if (slice_is(list, "*"))
        return true;
    while ((at = memmem(at, (size_t)(list.ptr + list.len - at), tag, strlen(tag))) != NULL) {
        const char *end = end_of_tag(list, at, tag);
        if (end != NULL && (size_t)(end - at) < sizeof(reply->etag) - 4) {
            snprintf(reply->etag, sizeof(reply->etag), "W/%.*s\"", (int)(end - at), at);
            return true;
        }
        at++;
    }
    return false;
}

/* --- the whole map --------------------------------------------------------------- */

/*
 * Whether a body says of itself what other nodes can tell a difference from, as far as it can: one
 * that was written too soon after a loading is written once more.
 */
static bool
body_is_told_locked(const struct seat_maps *maps, const struct event_map *map,
                    const struct seat_map_request *request)
{
    bool may_tell = request->feed != NULL || !request->may_render;

    return map->body_is_settled || !may_tell || !map->base.is_known ||
           request->now.us < map->base.settled.us || !event_map_is_whole_locked(maps, map);
}

static bool
plain_is_ready_locked(const struct seat_maps *maps, const struct event_map *map,
                      const struct seat_map_request *request)
{
    uint64_t least = request->at_least != 0 ? request->at_least : map->state.position;

    return map->plain != NULL && map->body_position >= least &&
           body_is_told_locked(maps, map, request);
}

static bool
body_is_ready_locked(const struct seat_maps *maps, const struct event_map *map,
                     const struct seat_map_request *request)
{
    return plain_is_ready_locked(maps, map, request) &&
           (!request->gzip || map->gzip != NULL || map->plain->len < GZIP_LEAST_BYTES);
}

static void
give_body_locked(struct event_map *map, const struct seat_map_request *request,
                 struct seat_map_reply *reply)
{
    bool gzip = request->gzip && map->gzip != NULL;

    reply->gzip = gzip;
    reply->body = http_body_get(gzip ? map->gzip : map->plain);
    write_etag(request->event, map->body_version, reply);
}

/* Writes the whole map with the lock given up meanwhile. False: no memory. */
static bool
render_locked(const struct seat_maps *maps, struct event_map *map,
              const struct seat_map_request *request)
{
    static const struct map_reader nobody = { .has_nothing = true };
    struct map_version version;
    struct snapshot shot;
    struct http_body *gzip = NULL;
    char text[VERSION_TEXT_BYTES];

    version_locked(maps, map, request, &version);
    bool is_settled = version.is_told && request->now.us >= map->base.settled.us;
    if (!snapshot_take(&shot, &map->state, &nobody))
        return false;
    map->rendering = true;
    lock_drop(&map->lock);

    version_write(&version, text);
    struct http_body *plain = render_body(&shot, request->event, text);
    if (plain != NULL && request->gzip && plain->len >= GZIP_LEAST_BYTES)
        gzip = render_gzip(plain);
    snapshot_fini(&shot);

    lock_take(&map->lock);
    map->rendering = false;
    if (plain != NULL) {
        event_map_keep_body_locked(map, plain, gzip, version.position);
        memcpy(map->body_version, text, sizeof(text));
        map->body_is_settled = is_settled;
    }
    pthread_cond_broadcast(&map->rendered);
    return plain != NULL && (gzip != NULL || !request->gzip || plain->len < GZIP_LEAST_BYTES);
}

/* A ready body, compressed too: it says the same version. The lock is given up meanwhile. */
static bool
compress_locked(struct event_map *map)
{
    struct http_body *plain = http_body_get(map->plain);

    map->rendering = true;
    lock_drop(&map->lock);
    struct http_body *gzip = render_gzip(plain);
    lock_take(&map->lock);
    map->rendering = false;
    pthread_cond_broadcast(&map->rendered);
    bool is_compressed = gzip != NULL;
    if (is_compressed && map->plain == plain)
        map->gzip = gzip;
    else if (is_compressed)
        http_body_put(gzip); /* the map was emptied */
    http_body_put(plain);
    return is_compressed;
}

static bool
write_body_locked(const struct seat_maps *maps, struct event_map *map,
                  const struct seat_map_request *request)
{
    return plain_is_ready_locked(maps, map, request) ? compress_locked(map)
                                                     : render_locked(maps, map, request);
}

/* The whole map: one thread writes it, those that come meanwhile wait for it. */
static enum seat_map_answer
whole_locked(const struct seat_maps *maps, struct event_map *map,
             const struct seat_map_request *request, struct seat_map_reply *reply)
{
    struct seat_map_request wish = *request;

    if (wish.at_least == 0)
        wish.at_least = map->state.position;
    while (!body_is_ready_locked(maps, map, &wish)) {
        if (!wish.may_render) {
            reply->position = wish.at_least;
            return SEAT_MAP_RENDER;
        }
        if (map->rendering)
            lock_wait(&map->lock, &map->rendered, RENDER_WAIT_US);
        else if (!write_body_locked(maps, map, &wish) && !body_is_ready_locked(maps, map, &wish))
            return SEAT_MAP_LOAD; /* no memory: the caller gives up after a few of these */
    }
    give_body_locked(map, &wish, reply);
    return SEAT_MAP_BODY;
}

/* --- a difference ---------------------------------------------------------------- */

/* On a loop only what is written in some microseconds. */
static bool
is_small_locked(const struct event_map *map, const struct map_reader *reader)
{
    uint32_t most = reader->feed != NULL ? LOOP_LOOKS_MAX : LOOP_SEATS_MAX;

    return snapshot_count(&map->state, reader, most + 1) <= most;
}

/* What the reader lacks; a small one is written at once, wherever we are. */
static enum seat_map_answer
delta_locked(const struct seat_maps *maps, struct event_map *map, const struct map_reader *reader,
             const struct seat_map_request *request, struct seat_map_reply *reply)
{
    struct map_version version;
    struct snapshot shot;
    char text[VERSION_TEXT_BYTES];

    if (!request->may_render && !is_small_locked(map, reader)) {
        reply->position = map->state.position;
        return SEAT_MAP_RENDER;
    }
    version_locked(maps, map, request, &version);
    if (!snapshot_take(&shot, &map->state, reader))
        return SEAT_MAP_LOAD;
    lock_drop(&map->lock);
    version_write(&version, text);
    write_etag(request->event, text, reply);
    struct http_body *plain = render_body(&shot, request->event, text);
    struct http_body *gzip = plain != NULL && request->gzip && plain->len >= GZIP_LEAST_BYTES
                                 ? render_gzip(plain)
                                 : NULL;
    snapshot_fini(&shot);
    if (gzip != NULL)
        http_body_put(plain);
    reply->gzip = gzip != NULL;
    reply->body = gzip != NULL ? gzip : plain;
    lock_take(&map->lock);
    return reply->body != NULL ? SEAT_MAP_BODY : SEAT_MAP_LOAD;
}

/* --- the answer ------------------------------------------------------------------ */

static enum seat_map_answer
answer_locked(struct seat_maps *maps, struct event_map *map, const struct seat_map_request *request,
              struct seat_map_reply *reply)
{
    struct map_version since;

    if (!event_map_may_serve_locked(maps, map, request->arrived, request->fresh_since))
        return SEAT_MAP_LOAD;
    if (request->now.us >= map->state.next_end.us)
        map_state_sweep(&map->state, request->now, seat_maps_next_position(maps));
    if (is_still_true(maps, map, request, reply))
        return SEAT_MAP_NOT_MODIFIED;
    struct map_reader reader = reader_of_locked(maps, map, request, &since);
    return reader.has_nothing ? whole_locked(maps, map, request, reply)
                              : delta_locked(maps, map, &reader, request, reply);
}

enum seat_map_answer
seat_maps_get(struct seat_maps *maps, const struct seat_map_request *request,
              struct seat_map_reply *reply)
{
    reply->body = NULL; /* field by field: the tag is long */
    reply->gzip = false;
    reply->position = 0;
    reply->etag[0] = '\0';
    struct event_map *map = event_map_find(maps, request->org, request->event,
                                           request->may_render ? FIND_OR_MAKE : FIND_THERE);
    if (map == NULL)
        return SEAT_MAP_LOAD;
    event_map_used(maps, map);
    lock_take(&map->lock);
    enum seat_map_answer answer = answer_locked(maps, map, request, reply);
    lock_drop(&map->lock);
    event_map_put(map);
    return answer;
}
