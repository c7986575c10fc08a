/*
 * warm.c - the warm tier as the engine sees it: lock, put, remove, and reads for GETs.
 *
 * What is sent without waiting (put, remove) is kept until its replies were read: a Redis that was
 * restarted or flushed has forgotten our scripts (NOSCRIPT) and then gets them and the same
 * commands once more. Anything worse drops the connection and what was due on it: the
 * warm tier is repaired later, nothing depends on it.
 */
#include "warm_internal.h"

#include <stdlib.h>
#include <string.h>

#define SEATS_PER_CALL 400 /* bounds a script's run (under 2 ms) and its unpack() */

struct warm *
warm_new(const struct config *config)
{
    struct warm *warm = calloc(1, sizeof(*warm));
    if (warm == NULL) {
        return NULL;
    }
    warm->on = config->redis_url != NULL && config->redis_url[0] != '\0';
    if (warm->on) {
        warm_link_init(&warm->link, config->redis_url, config->redis_timeout_ms);
    }
    return warm;
}

void
warm_free(struct warm **warm)
{
    if (*warm == NULL) {
        return;
    }
    warm_link_close(&(*warm)->link);
    buf_fini(&(*warm)->sent);
    buf_fini(&(*warm)->command);
    buf_fini(&(*warm)->text);
    free(*warm);
    *warm = NULL;
}

bool
warm_is_on(const struct warm *warm)
{
    return warm->on;
}

bool
warm_is_up(const struct warm *warm)
{
    return !warm->on || warm->link.breaker.worked;
}

static void
forget_calls(struct warm *warm)
{
    warm->calls_due = 0;
    buf_clear(&warm->sent);
}

static bool
connected(struct warm *warm)
{
    if (!warm->on) {
        return false;
    }
    if (warm->link.context == NULL) {
        forget_calls(warm); /* their replies went with the connection */
    }
    return warm_link_open(&warm->link);
}

/* Connected, and no reply of an earlier call is in the way. */
static bool
ready(struct warm *warm)
{
    return connected(warm) && warm_collect(warm);
}

/* --- script calls -------------------------------------------------------------- */

static bool
send_call(struct warm *warm, struct slice command)
{
    if (warm->calls_due == WARM_CALLS_MAX && !warm_collect(warm)) {
        return false;
    }
    struct warm_call call = { warm->sent.len, command.len };
    buf_append_slice(&warm->sent, command);
    if (warm->sent.failed || !warm_link_queue(&warm->link, command)) {
        forget_calls(warm);
        warm_link_close(&warm->link);
        return false;
    }
    warm->calls[warm->calls_due++] = call;
    return true;
}

/* Reads the replies due; *unknown counts the calls whose script Redis does not know, moved to the front. */
static bool
read_calls(struct warm *warm, int *unknown)
{
    struct mono_time deadline = warm_link_deadline(&warm->link);
    *unknown = 0;
    for (int i = 0; i < warm->calls_due; i++) {
        redisReply *reply = warm_link_reply(&warm->link, deadline);
        if (reply == NULL) {
            return false;
        }
        if (warm_reply_is_error(reply, "NOSCRIPT")) {
            warm->calls[(*unknown)++] = warm->calls[i];
        }
        freeReplyObject(reply);
    }
    warm->calls_due = *unknown;
    return true;
}

static bool
resend_calls(struct warm *warm)
{
    if (!warm_link_load_scripts(&warm->link)) {
        return false;
    }
    for (int i = 0; i < warm->calls_due; i++) {
        struct slice command = { warm->sent.data + warm->calls[i].at, warm->calls[i].len };
        if (!warm_link_queue(&warm->link, command)) {
            return false;
        }
    }
    return true;
}

bool
warm_collect(struct warm *warm)
{
    if (warm->calls_due == 0) {
        return true;
    }
    int  unknown = 0;
    bool worked = warm->link.context != NULL && read_calls(warm, &unknown);
    if (worked && unknown > 0) {
        worked = resend_calls(warm) && read_calls(warm, &unknown); /* once: the next batch repairs */
    }
    if (worked) {
        warm_link_worked(&warm->link);
    }
    forget_calls(warm);
    return worked;
}

/* --- seats by event -------------------------------------------------------------- */

static int
compare_slices(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int    order = len > 0 ? memcmp(a.ptr, b.ptr, len) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* By event, then by hold; seats of one hold stay in the order of the caller's array. */
static int
compare_holds(const void *a, const void *b)
{
    const struct warm_hold *left = *(const struct warm_hold *const *)a;
    const struct warm_hold *right = *(const struct warm_hold *const *)b;
    int                     order = compare_slices(left->org, right->org);
    if (order == 0) {
        order = compare_slices(left->event, right->event);
    }
    if (order == 0) {
        order = memcmp(&left->hold_id, &right->hold_id, sizeof(left->hold_id));
    }
    return order != 0 ? order : (left > right) - (left < right);
}

static bool
same_event(const struct warm_hold *a, const struct warm_hold *b)
{
    return slice_equal(a->event, b->event) && slice_equal(a->org, b->org);
}

typedef void build_call(struct warm *warm, const struct warm_hold *const *seats, int count);

/* The caller frees it. NULL: no memory. */
static const struct warm_hold **
sort_holds(const struct warm_hold *holds, int count)
{
    const struct warm_hold **sorted = malloc((size_t)count * sizeof(struct warm_hold *));
    if (sorted == NULL) {
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        sorted[i] = &holds[i];
    }
    qsort(sorted, (size_t)count, sizeof(*sorted), compare_holds);
    return sorted;
}

static bool
send_built(struct warm *warm, const struct warm_hold *const *seats, int count, build_call *build)
{
    buf_clear(&warm->command);
    build(warm, seats, count);
    return !warm->command.failed && !warm->text.failed && send_call(warm, buf_slice(&warm->command));
}

/* One script call for each event among the seats (or more, past SEATS_PER_CALL). */
static bool
call_by_event(struct warm *warm, const struct warm_hold *holds, int count, build_call *build)
{
    if (count == 0) {
        return warm->on;
    }
    const struct warm_hold **sorted = connected(warm) ? sort_holds(holds, count) : NULL;
    bool                     sent = sorted != NULL;
    for (int begin = 0, end; sent && begin < count; begin = end) {
        end = begin + 1;
        while (end < count && end - begin < SEATS_PER_CALL && same_event(sorted[begin], sorted[end])) {
            end++;
        }
        sent = send_built(warm, sorted + begin, end - begin, build);
    }
    free(sorted);
    return sent && warm_link_push(&warm->link);
}

static void
add_text(struct warm *warm)
{
    warm_word(&warm->command, buf_slice(&warm->text));
}

/* EVALSHA, its digest, and the keys: seat_holds, then for each seat its key and its hold's meta key. */
static void
begin_script(struct warm *warm, enum warm_script script, const struct warm_hold *const *seats, int count,
             int arguments)
{
    int keys = 1 + 2 * count;
    warm_command(&warm->command, 3 + keys + arguments, "EVALSHA");
    warm_word(&warm->command, slice_of(warm->link.sha[script]));
    warm_word_int(&warm->command, keys);

    buf_clear(&warm->text);
    warm_key_seat_holds(&warm->text, seats[0]->org, seats[0]->event);
    add_text(warm);
    for (int i = 0; i < count; i++) {
        buf_clear(&warm->text);
        warm_key_seat(&warm->text, seats[i]->org, seats[i]->event, seats[i]->seat);
        add_text(warm);
        buf_clear(&warm->text);
        warm_key_hold_meta(&warm->text, seats[i]->org, seats[i]->event, &seats[i]->hold_id);
        add_text(warm);
    }
}

static void
add_uuid(struct warm *warm, const struct uuid *uuid)
{
    char text[UUID_TEXT_BYTES];
    uuid_format(uuid, text);
    warm_word(&warm->command, slice_of(text));
}

static void
add_time(struct warm *warm, struct db_time time)
{
    char text[DB_TIME_TEXT_BYTES];
    db_time_format(time, text);
    warm_word(&warm->command, slice_of(text));
}

/* The ten values of a seat that put_holds.lua takes. */
static void
add_put(struct warm *warm, const struct warm_hold *hold, bool with_meta)
{
    buf_clear(&warm->text);
    warm_value(&warm->text, hold);
    add_text(warm);
    warm_word_int(&warm->command, warm_keep_ms(hold));
    warm_word(&warm->command, hold->seat);
    add_uuid(warm, &hold->hold_id);
    warm_word(&warm->command, hold->user);
    warm_word_int(&warm->command, hold->version);
    warm_word_int(&warm->command, hold->held_until.us / TIME_US_PER_MS);
    if (with_meta) {
        add_time(warm, hold->held_until);
        add_time(warm, hold->held_at);
        warm_word(&warm->command, hold->source.len > 0 ? hold->source : SLICE_LITERAL("web"));
    } else {
        for (int i = 0; i < 3; i++) {
            warm_word(&warm->command, SLICE_EMPTY);
        }
    }
}

static void
build_put(struct warm *warm, const struct warm_hold *const *seats, int count)
{
    begin_script(warm, SCRIPT_PUT_HOLDS, seats, count, 1 + 10 * count);
    warm_word(&warm->command, seats[0]->event);
    for (int i = 0; i < count; i++) {
        bool first = i == 0 || !uuid_equal(&seats[i - 1]->hold_id, &seats[i]->hold_id);
        add_put(warm, seats[i], first);
    }
}

static void
build_remove(struct warm *warm, const struct warm_hold *const *seats, int count)
{
    begin_script(warm, SCRIPT_REMOVE_HOLDS, seats, count, 2 * count);
    for (int i = 0; i < count; i++) {
        add_uuid(warm, &seats[i]->hold_id);
        buf_clear(&warm->text);
        warm_member(&warm->text, seats[i]);
        add_text(warm);
    }
}

bool
warm_put(struct warm *warm, const struct warm_hold *holds, int count)
{
    return call_by_event(warm, holds, count, build_put);
}

bool
warm_remove(struct warm *warm, const struct warm_hold *holds, int count)
{
    return call_by_event(warm, holds, count, build_remove);
}

/* --- lock ------------------------------------------------------------------------- */

/* SET <key> <value> PX <ms> NX */
static bool
queue_lock(struct warm *warm, const struct warm_hold *hold)
{
    buf_clear(&warm->command);
    warm_command(&warm->command, 6, "SET");
    buf_clear(&warm->text);
    warm_key_seat(&warm->text, hold->org, hold->event, hold->seat);
    add_text(warm);
    buf_clear(&warm->text);
    warm_value(&warm->text, hold);
    add_text(warm);
    warm_word(&warm->command, SLICE_LITERAL("PX"));
    warm_word_int(&warm->command, warm_keep_ms(hold));
    warm_word(&warm->command, SLICE_LITERAL("NX"));
    if (warm->command.failed || warm->text.failed) {
        warm_link_close(&warm->link); /* half a pipeline can't be answered for */
        return false;
    }
    return warm_link_queue(&warm->link, buf_slice(&warm->command));
}

static bool
read_lock(struct warm *warm, struct mono_time deadline, bool *lost)
{
    redisReply *reply = warm_link_reply(&warm->link, deadline);
    if (reply == NULL) {
        return false;
    }
    *lost = reply->type == REDIS_REPLY_NIL;
    freeReplyObject(reply);
    return true;
}

bool
warm_lock(struct warm *warm, const struct warm_hold *holds, int count, bool *lost)
{
    memset(lost, 0, (size_t)count * sizeof(*lost));
    if (!ready(warm)) {
        return false;
    }
    bool worked = true;
    for (int i = 0; worked && i < count; i++) {
        worked = queue_lock(warm, &holds[i]);
    }
    struct mono_time deadline = warm_link_deadline(&warm->link);
    for (int i = 0; worked && i < count; i++) {
        worked = read_lock(warm, deadline, &lost[i]);
    }
    if (!worked) {
        memset(lost, 0, (size_t)count * sizeof(*lost));
        return false;
    }
    warm_link_worked(&warm->link);
    return true;
}

/* --- reads ------------------------------------------------------------------------- */

/* One command, one reply. NULL: it failed. */
static redisReply *
ask(struct warm *warm)
{
    if (warm->command.failed || warm->text.failed ||
        !warm_link_queue(&warm->link, buf_slice(&warm->command))) {
        return NULL;
    }
    redisReply *reply = warm_link_reply(&warm->link, warm_link_deadline(&warm->link));
    if (reply != NULL) {
        warm_link_worked(&warm->link);
    }
    return reply;
}

static redisReply *
ask_key(struct warm *warm, const char *command)
{
    buf_clear(&warm->command);
    warm_command(&warm->command, 2, command);
    add_text(warm);
    return ask(warm);
}

bool
warm_ping(struct warm *warm)
{
    if (!ready(warm)) {
        return false;
    }
    buf_clear(&warm->command);
    buf_clear(&warm->text);
    warm_command(&warm->command, 1, "PING");
    redisReply *reply = ask(warm);
    if (reply == NULL) {
        return false;
    }
    freeReplyObject(reply);
    return true;
}

bool
warm_get_seat(struct warm *warm, struct slice org, struct slice event, struct slice seat, char **json_out,
              size_t *json_len)
{
    if (!ready(warm)) {
        return false;
    }
    buf_clear(&warm->text);
    warm_key_seat(&warm->text, org, event, seat);
    redisReply *reply = ask_key(warm, "GET");
    if (reply == NULL) {
        return false;
    }
    char *json = reply->type == REDIS_REPLY_STRING ? malloc(reply->len + 1) : NULL;
    if (json != NULL) {
        memcpy(json, reply->str, reply->len + 1); /* hiredis ends it with a NUL */
        *json_out = json;
        *json_len = reply->len;
    }
    freeReplyObject(reply);
    return json != NULL;
}

int64_t
warm_count(struct warm *warm, struct slice org, struct slice event)
{
    if (!ready(warm)) {
        return -1;
    }
    buf_clear(&warm->text);
    warm_key_seat_holds(&warm->text, org, event);
    redisReply *reply = ask_key(warm, "ZCARD");
    if (reply == NULL) {
        return -1;
    }
    int64_t count = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    return count;
}
