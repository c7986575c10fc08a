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
#include <stdlib.h>
#include <string.h>

#include "event_map.h"
#include "holdfast/http.h"

#define LOOP_SEATS_MAX   256  /* a delta of so many seats is written in some 20 us: a loop may */
#define LOOP_LOOKS_MAX   4096 /* so many are looked at for another node's reader in that time */
#define COPY_SEATS_MAX   1024 /* a copy of so many is made in that time */
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

/* What a tag says before the version: of which event, of a show also of which row, and of a copy
 * for whom. */
struct tag_name {
    char text[ID_BYTES_MAX + 24];
};

static struct tag_name
tag_name(const struct seat_map_request *request, int64_t show_version)
{
    struct tag_name name;
    int len = snprintf(name.text, sizeof(name.text), "%.*s", SLICE_ARG(request->event));
    char *rest = name.text + len;
    size_t room = sizeof(name.text) - (size_t)len;

    if (show_version != 0)
        snprintf(rest, room, ".%lld", (long long)show_version);
    else if (request->reader != 0)
        snprintf(rest, room, ".%016llx", (unsigned long long)request->reader);
    return name;
}

static void
write_etag(struct tag_name name, const char *version, struct seat_map_reply *reply)
{
    snprintf(reply->etag, sizeof(reply->etag), "W/\"%s-%s\"", name.text, version);
}

/* What this reader has; *version must stay. */
static struct map_reader
reader_of_locked(const struct seat_maps *maps, const struct event_map *map,
                 const struct seat_map_request *request, struct map_version *version)
{
    struct map_reader nobody = { .has_nothing = true };

    if (request->show_version != 0 || request->since.len == 0 ||
        !version_parse(request->since, version))
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
    char tag[ID_BYTES_MAX + 96];
    const char *at = list.ptr;

    if (list.len == 0)
        return false;
    snprintf(tag, sizeof(tag), "\"%s-%s-%llu", tag_name(request, request->show_version).text,
             maps->boot, (unsigned long long)map->state.position);
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

static struct map_body *
body_locked(struct event_map *map, const struct seat_map_request *request)
{
    return &map->bodies[request->show_version != 0];
}

/*
 * Whether a body says of itself what other nodes can tell a difference from, as far as it can: one
 * that was written too soon after a loading is written once more.
 */
static bool
body_is_told_locked(const struct seat_maps *maps, struct event_map *map,
                    const struct seat_map_request *request)
{
    bool may_tell = request->feed != NULL || !request->may_render;

    return body_locked(map, request)->is_settled || !may_tell || !map->base.is_known ||
           request->now.us < map->base.settled.us || !event_map_is_whole_locked(maps, map);
}

static bool
plain_is_ready_locked(const struct seat_maps *maps, struct event_map *map,
                      const struct seat_map_request *request)
{
    const struct map_body *body = body_locked(map, request);
    uint64_t least = request->at_least != 0 ? request->at_least : map->state.position;

    return body->plain != NULL && body->position >= least &&
           body->show_version >= request->show_version && body_is_told_locked(maps, map, request);
}

static bool
body_is_ready_locked(const struct seat_maps *maps, struct event_map *map,
                     const struct seat_map_request *request)
{
    const struct map_body *body = body_locked(map, request);

    return plain_is_ready_locked(maps, map, request) &&
           (!request->gzip || body->gzip != NULL || body->plain->len < GZIP_LEAST_BYTES);
}

static void
give_body_locked(struct event_map *map, const struct seat_map_request *request,
                 struct seat_map_reply *reply)
{
    const struct map_body *body = body_locked(map, request);

    reply->gzip = request->gzip && body->gzip != NULL;
    reply->body = http_body_get(reply->gzip ? body->gzip : body->plain);
    write_etag(tag_name(request, body->show_version), body->version, reply);
}

/* Others wait meanwhile, and nobody begins the next before as much time has passed again. */
static struct mono_time
begin_writing_locked(struct event_map *map)
{
    map->rendering = true;
    lock_drop(&map->lock);
    return mono_now();
}

static void
end_writing_locked(struct event_map *map, struct mono_time began)
{
    struct mono_time now = mono_now();

    lock_take(&map->lock);
    map->rendering = false;
    map->render_due.us = now.us + (now.us - began.us);
    pthread_cond_broadcast(&map->rendered);
}

/* Puts what was written in the place of what was there; without memory that stays. */
static void
keep_body_locked(struct map_body *body, const struct map_body *written)
{
    if (written->plain == NULL)
        return;
    map_body_clear(body);
    *body = *written;
}

/* Writes the whole map with the lock given up meanwhile. False: no memory. */
static bool
render_locked(const struct seat_maps *maps, struct event_map *map,
              const struct seat_map_request *request)
{
    static const struct map_reader nobody = { .has_nothing = true };
    struct map_version version;
    struct snapshot shot;

    version_locked(maps, map, request, &version);
    struct map_body body = {
        .position = version.position,
        .show_version = request->show_version,
        .is_settled = version.is_told && request->now.us >= map->base.settled.us,
    };
    if (!snapshot_take(&shot, &map->state, &nobody))
        return false;
    struct mono_time began = begin_writing_locked(map);
    version_write(&version, body.version);
    body.plain = render_body(&shot, request->event, request->show, body.version);
    bool wants_gzip = request->gzip && body.plain != NULL && body.plain->len >= GZIP_LEAST_BYTES;
    if (wants_gzip)
        body.gzip = render_gzip(body.plain);
    snapshot_fini(&shot);
    end_writing_locked(map, began);
    keep_body_locked(body_locked(map, request), &body);
    return body.plain != NULL && (body.gzip != NULL || !wants_gzip);
}

/* A ready body, compressed too: it says the same version. The lock is given up meanwhile. */
static bool
compress_locked(struct event_map *map, struct map_body *body)
{
    struct http_body *plain = http_body_get(body->plain);
    struct mono_time began = begin_writing_locked(map);
    struct http_body *gzip = render_gzip(plain);

    end_writing_locked(map, began);
    bool is_compressed = gzip != NULL;
    if (is_compressed && body->plain == plain)
        body->gzip = gzip;
    else if (is_compressed)
        http_body_put(gzip); /* the map was emptied */
    http_body_put(plain);
    return is_compressed;
}

static bool
write_body_locked(const struct seat_maps *maps, struct event_map *map,
                  const struct seat_map_request *request)
{
    return plain_is_ready_locked(maps, map, request)
               ? compress_locked(map, body_locked(map, request))
               : render_locked(maps, map, request);
}

/* The whole map: one thread writes it, those that come meanwhile (or while it rests) wait. */
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
        int64_t rest_us = map->render_due.us - mono_now().us;
        if (map->rendering || rest_us > 0)
            lock_wait(&map->lock, &map->rendered, map->rendering ? RENDER_WAIT_US : rest_us);
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
    write_etag(tag_name(request, 0), text, reply);
    struct http_body *plain = render_body(&shot, request->event, SLICE_EMPTY, text);
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

/* True: it may be served, and shows what time has ended. */
static bool
is_good_locked(struct seat_maps *maps, struct event_map *map,
               const struct seat_map_request *request)
{
    if (!event_map_may_serve_locked(maps, map, request->arrived, request->fresh_since))
        return false;
    if (request->now.us >= map->state.next_end.us)
        map_state_sweep(&map->state, request->now, seat_maps_next_position(maps));
    return true;
}

static enum seat_map_answer
answer_locked(struct seat_maps *maps, struct event_map *map, const struct seat_map_request *request,
              struct seat_map_reply *reply)
{
    struct map_version since;

    if (!is_good_locked(maps, map, request))
        return SEAT_MAP_LOAD;
    if (is_still_true(maps, map, request, reply))
        return SEAT_MAP_NOT_MODIFIED;
    struct map_reader reader = reader_of_locked(maps, map, request, &since);
    return reader.has_nothing ? whole_locked(maps, map, request, reply)
                              : delta_locked(maps, map, &reader, request, reply);
}

/* The map, in use, and a reply that says nothing yet. NULL: it is not there. */
static struct event_map *
begin_answer(struct seat_maps *maps, const struct seat_map_request *request,
             struct seat_map_reply *reply)
{
    reply->body = NULL; /* field by field: the tag is long */
    reply->gzip = false;
    reply->position = 0;
    reply->etag[0] = '\0';
    struct event_map *map = event_map_find(maps, request->org, request->event,
                                           request->may_render ? FIND_OR_MAKE : FIND_THERE);
    if (map != NULL)
        event_map_used(maps, map);
    return map;
}

enum seat_map_answer
seat_maps_get(struct seat_maps *maps, const struct seat_map_request *request,
              struct seat_map_reply *reply)
{
    struct event_map *map = begin_answer(maps, request, reply);
    if (map == NULL)
        return SEAT_MAP_LOAD;
    lock_take(&map->lock);
    enum seat_map_answer answer = answer_locked(maps, map, request, reply);
    lock_drop(&map->lock);
    event_map_put(map);
    return answer;
}

/* --- a copy ---------------------------------------------------------------------- */

static struct seat_map_seat
seen_seat(const struct map_state *state, uint32_t i)
{
    const struct map_seat *seat = &state->seats[i];

    return (struct seat_map_seat){
        .seat = layout_id(state->layout, i),
        .status = seat->status == SEAT_HELD && seat->over ? SEAT_AVAILABLE : seat->status,
        .version = seat->version,
        .until = seat->until,
        .user_hash = seat->user_hash,
    };
}

/* False: no memory. */
static bool
copy_seats_locked(const struct event_map *map, struct seat_map_copy *copy)
{
    const struct map_state *state = &map->state;
    const uint32_t *order = layout_by_row(state->layout);

    *copy = (struct seat_map_copy){ 0 };
    copy->seats = malloc((state->layout->count + 1) * sizeof(*copy->seats));
    if (copy->seats == NULL || order == NULL) {
        free(copy->seats);
        return false;
    }
    copy->layout = layout_get(state->layout);
    for (uint32_t k = 0; k < state->layout->count; k++) {
        if (state->seats[order[k]].status != SEAT_REMOVED)
            copy->seats[copy->count++] = seen_seat(state, order[k]);
    }
    return true;
}

static bool
may_copy(const struct event_map *map, const struct seat_map_request *request)
{
    return request->may_render || map->state.layout->count <= COPY_SEATS_MAX;
}

/* Once for a layout, so that it isn't done with the lock: that is given up meanwhile. */
static void
sort_rows_locked(struct event_map *map)
{
    if (atomic_load(&map->state.layout->by_row) != NULL)
        return;
    struct layout *layout = layout_get(map->state.layout);
    lock_drop(&map->lock);
    (void)layout_by_row(layout);
    layout_put(layout);
    lock_take(&map->lock);
}

static enum seat_map_answer
copy_locked(struct seat_maps *maps, struct event_map *map, const struct seat_map_request *request,
            struct seat_map_reply *reply, struct seat_map_copy *copy)
{
    struct map_version version;
    char text[VERSION_TEXT_BYTES];

    if (!is_good_locked(maps, map, request))
        return SEAT_MAP_LOAD;
    if (is_still_true(maps, map, request, reply))
        return SEAT_MAP_NOT_MODIFIED;
    if (!may_copy(map, request))
        return SEAT_MAP_RENDER;
    version_locked(maps, map, request, &version);
    version_write(&version, text);
    write_etag(tag_name(request, 0), text, reply);
    return copy_seats_locked(map, copy) ? SEAT_MAP_BODY : SEAT_MAP_LOAD;
}

enum seat_map_answer
seat_maps_copy(struct seat_maps *maps, const struct seat_map_request *request,
               struct seat_map_reply *reply, struct seat_map_copy *copy)
{
    struct event_map *map = begin_answer(maps, request, reply);
    if (map == NULL)
        return SEAT_MAP_LOAD;
    lock_take(&map->lock);
    if (map->state.layout != NULL && may_copy(map, request))
        sort_rows_locked(map);
    enum seat_map_answer answer = copy_locked(maps, map, request, reply, copy);
    lock_drop(&map->lock);
    event_map_put(map);
    return answer;
}

void
seat_map_copy_free(struct seat_map_copy *copy)
{
    layout_put(copy->layout);
    free(copy->seats);
    *copy = (struct seat_map_copy){ 0 };
}
