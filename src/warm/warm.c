/*
 * warm.c - the warm tier as the engine sees it: put, remove, and reads for GETs.
 *
 * Redis shares its cores with Postgres and with us, so a hold costs few commands, and plain ones: a
 * script's arguments cost more than the commands that it would run. The put of a new hold is a SET
 * without a reply, any other a SET that hands out what it replaces; only where that is not what it
 * should be does a script mend it (calls.c).
 * A remove must compare before it deletes, so it is a script: one call for each event.
 */
#include "warm_internal.h"

#include <stdlib.h>
#include <string.h>

#define LIFE_SPARE_MS                                                                              \
    (10 * 60 * 1000) /* how much longer than its members an event's set may live */

struct warm *
warm_new(const struct config *config, struct warm_tier *tier)
{
    struct warm *warm = calloc(1, sizeof(*warm));
    if (warm == NULL) {
        return NULL;
    }
    warm->on = warm_tier_is_on(tier);
    if (warm->on) {
        warm_link_init(&warm->link, config, tier);
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
    buf_fini(&(*warm)->due.text);
    buf_fini(&(*warm)->again.text);
    buf_fini(&(*warm)->command);
    buf_fini(&(*warm)->word);
    free(*warm);
    *warm = NULL;
}

bool
warm_is_on(const struct warm *warm)
{
    return warm->on;
}

static bool
connected(struct warm *warm)
{
    if (!warm->on) {
        return false;
    }
    if (warm->link.context == NULL) {
        warm_calls_lost(warm); /* their replies went with the connection */
    }
    bool open = warm_link_open(&warm->link, warm->due.count == 0);
    if (open && warm->lives_of != warm->link.number) {
        warm->lives_of = warm->link.number;
        memset(warm->lives, 0, sizeof(warm->lives));
    }
    return open;
}

bool
warm_ready(struct warm *warm)
{
    return connected(warm) && warm_collect(warm);
}

/* --- seats by event -------------------------------------------------------------- */

static int
compare_slices(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.ptr, b.ptr, len) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* By event, then by hold; seats of one hold stay in the order of the caller's array. */
static int
compare_holds(const void *a, const void *b)
{
    const struct warm_hold *left = *(const struct warm_hold *const *)a;
    const struct warm_hold *right = *(const struct warm_hold *const *)b;
    int order = compare_slices(left->org, right->org);
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

/* Sends what it takes for seats of one event. False: the link failed. */
typedef bool send_event(struct warm *warm, const struct warm_hold *const *seats, int count);

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

/*
 * Redis doesn't have what was committed. While the breaker is open nobody trusts it, and its
 * closing voids everything, so only what is lost beside that has to be told.
 */
static void
doubt(struct warm *warm, const struct warm_hold *holds, int count)
{
    if (!warm->on || breaker_state(warm_tier_breaker(warm->link.tier)) != BREAKER_CLOSED) {
        return;
    }
    for (int i = 0; i < count; i++) {
        if (i == 0 || !same_event(&holds[i - 1], &holds[i])) {
            warm_tier_doubt(warm->link.tier, holds[i].org, holds[i].event);
        }
    }
}

/* Sorts the seats and hands them on event by event (in pieces of WARM_SEATS_PER_CALL). */
static bool
send_by_event(struct warm *warm, const struct warm_hold *holds, int count, send_event *send)
{
    if (count == 0) {
        return warm->on;
    }
    const struct warm_hold **sorted = connected(warm) ? sort_holds(holds, count) : NULL;
    bool sent = sorted != NULL;
    for (int begin = 0, end; sent && begin < count; begin = end) {
        end = begin + 1;
        while (end < count && end - begin < WARM_SEATS_PER_CALL &&
               same_event(sorted[begin], sorted[end])) {
            end++;
        }
        sent = send(warm, sorted + begin, end - begin);
    }
    free(sorted);
    return sent && warm_link_push(&warm->link);
}

/* --- words of our own --------------------------------------------------------------- */

void
warm_begin(struct warm *warm, int words, const char *name)
{
    buf_clear(&warm->command);
    warm_command(&warm->command, words, name);
}

void
warm_add_built(struct warm *warm)
{
    warm_word(&warm->command, buf_slice(&warm->word));
    buf_clear(&warm->word);
}

static void
add_seat_key(struct warm *warm, const struct warm_hold *hold)
{
    warm_key_seat(&warm->word, hold->org, hold->event, hold->seat);
    warm_add_built(warm);
}

static void
add_seat_holds_key(struct warm *warm, const struct warm_hold *hold)
{
    warm_key_seat_holds(&warm->word, hold->org, hold->event);
    warm_add_built(warm);
}

static void
add_occupancy_key(struct warm *warm, const struct warm_hold *hold)
{
    warm_key_occupancy(&warm->word, hold->org, hold->event);
    warm_add_built(warm);
}

static void
add_meta_key(struct warm *warm, const struct warm_hold *hold)
{
    warm_key_hold_meta(&warm->word, hold->org, hold->event, &hold->hold_id);
    warm_add_built(warm);
}

static void
add_member(struct warm *warm, const struct warm_hold *hold)
{
    warm_member(&warm->word, hold);
    warm_add_built(warm);
}

static void
add_text(struct warm *warm, const char *text)
{
    warm_word(&warm->command, slice_of(text));
}

/* SET <key> <value> PX <ms> [GET] */
static void
build_set(struct warm *warm, const struct warm_hold *hold, const char *mode)
{
    warm_begin(warm, mode != NULL ? 6 : 5, "SET");
    add_seat_key(warm, hold);
    warm_value(&warm->word, hold);
    warm_add_built(warm);
    add_text(warm, "PX");
    warm_word_int(&warm->command, warm_keep_ms(hold));
    if (mode != NULL) {
        add_text(warm, mode);
    }
}

/* --- put ---------------------------------------------------------------------------- */

static void
build_members(struct warm *warm, const struct warm_hold *const *seats, int count)
{
    warm_begin(warm, 2 + 2 * count, "ZADD");
    add_seat_holds_key(warm, seats[0]);
    for (int i = 0; i < count; i++) {
        warm_word_int(&warm->command, warm_score(seats[i]));
        add_member(warm, seats[i]);
    }
}

static int64_t
longest_keep_ms(const struct warm_hold *const *seats, int count)
{
    int64_t longest = 0;
    for (int i = 0; i < count; i++) {
        int64_t ms = warm_keep_ms(seats[i]);
        longest = ms > longest ? ms : longest;
    }
    return longest;
}

/*
 * The set lives at least as long as its longest member: NX for one without an end, GT for a later
 * one. Given some minutes more than that, the same event needs it only now and then.
 */
static bool
tell_life(struct warm *warm, const struct warm_hold *const *seats, int count)
{
    static const char *const modes[] = { "NX", "GT" };
    int64_t keep_ms = longest_keep_ms(seats, count), now_ms = mono_now().us / TIME_US_PER_MS;
    uint64_t event = warm_event_hash(seats[0]->org, seats[0]->event);
    struct warm_life *life = &warm->lives[event % WARM_LIVES];

    if (life->event == event && life->until_ms >= now_ms + keep_ms) {
        return true;
    }
    bool told = true;
    for (int i = 0; told && i < 2; i++) {
        warm_begin(warm, 4, "PEXPIRE");
        add_seat_holds_key(warm, seats[0]);
        warm_word_int(&warm->command, keep_ms + LIFE_SPARE_MS);
        add_text(warm, modes[i]);
        told = warm_tell(warm);
    }
    *life = (struct warm_life){ event, now_ms + keep_ms + LIFE_SPARE_MS };
    return told;
}

static bool
tell_meta(struct warm *warm, const struct warm_hold *hold)
{
    struct warm_meta meta;
    warm_meta(&meta, hold);
    warm_begin(warm, 2 + 2 * WARM_META_FIELDS, "HSET");
    add_meta_key(warm, hold);
    for (int i = 0; i < WARM_META_FIELDS; i++) {
        add_text(warm, meta.field[i].name);
        warm_word(&warm->command, meta.field[i].value);
    }
    if (!warm_tell(warm)) {
        return false;
    }
    warm_begin(warm, 3, "PEXPIRE");
    add_meta_key(warm, hold);
    warm_word_int(&warm->command, warm_keep_ms(hold));
    return warm_tell(warm);
}

/* No node believes the event's counts of before (occupancy_value.c); others who read them may. */
static bool
tell_no_counts(struct warm *warm, const struct warm_hold *hold)
{
    warm_begin(warm, 2, "DEL");
    add_occupancy_key(warm, hold);
    return warm_tell(warm);
}

/* What may have been another's, or newer, is replaced with a look at it. */
static bool
send_checked(struct warm *warm, const struct warm_hold *const *seats, int count)
{
    bool sent = true;
    for (int i = 0; sent && i < count; i++) {
        if (!seats[i]->fresh) {
            build_set(warm, seats[i], "GET");
            sent = warm_call(warm, WARM_CALL_SET);
        }
    }
    if (sent) {
        build_members(warm, seats, count);
        sent = warm_call(warm, WARM_CALL_MEMBERS);
    }
    return sent;
}

static bool
send_told(struct warm *warm, const struct warm_hold *const *seats, int count)
{
    bool told = true;
    for (int i = 0; told && i < count; i++) {
        if (seats[i]->fresh) {
            build_set(warm, seats[i], NULL);
            told = warm_tell(warm);
        }
        bool first = i == 0 || !uuid_equal(&seats[i - 1]->hold_id, &seats[i]->hold_id);
        if (told && first && seats[i]->source.len > 0) {
            told = tell_meta(warm, seats[i]);
        }
    }
    return told && tell_no_counts(warm, seats[0]) && tell_life(warm, seats, count);
}

bool
warm_put(struct warm *warm, const struct warm_hold *holds, int count)
{
    bool sent = send_by_event(warm, holds, count, send_checked) && warm_mute(warm) &&
                send_by_event(warm, holds, count, send_told) && warm_unmute(warm) &&
                warm_link_push(&warm->link);
    if (!sent) {
        doubt(warm, holds, count);
    }
    return sent;
}

/* --- remove --------------------------------------------------------------------------- */

static bool
send_remove(struct warm *warm, const struct warm_hold *const *seats, int count)
{
    int keys = 2 + 2 * count;
    warm_begin(warm, 3 + keys + count, "EVALSHA");
    add_text(warm, warm->link.sha[SCRIPT_REMOVE_HOLDS]);
    warm_word_int(&warm->command, keys);
    add_seat_holds_key(warm, seats[0]);
    add_occupancy_key(warm, seats[0]);
    for (int i = 0; i < count; i++) {
        add_seat_key(warm, seats[i]);
        if (seats[i]->lives_on) {
            add_seat_key(warm, seats[i]);
        } else {
            add_meta_key(warm, seats[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        add_member(warm, seats[i]);
    }
    return warm_call(warm, WARM_CALL_SCRIPT);
}

bool
warm_remove(struct warm *warm, const struct warm_hold *holds, int count)
{
    bool sent = send_by_event(warm, holds, count, send_remove);
    if (!sent) {
        doubt(warm, holds, count);
    }
    return sent;
}

/* --- reads ------------------------------------------------------------------------- */

bool
warm_queue(struct warm *warm)
{
    if (warm->command.failed || warm->word.failed) {
        warm_link_close(&warm->link); /* no memory: what is under way has no reader any more */
        return false;
    }
    return warm_link_queue(&warm->link, buf_slice(&warm->command));
}

redisReply *
warm_ask(struct warm *warm)
{
    if (!warm_queue(warm)) {
        return NULL;
    }
    redisReply *reply = warm_link_reply(&warm->link, warm_link_deadline(&warm->link));
    if (reply != NULL) {
        warm_link_worked(&warm->link);
    }
    return reply;
}

bool
warm_ping(struct warm *warm)
{
    if (!warm_ready(warm)) {
        return false;
    }
    warm_begin(warm, 1, "PING");
    redisReply *reply = warm_ask(warm);
    if (reply == NULL) {
        return false;
    }
    freeReplyObject(reply);
    return true;
}

/* Of a value that somebody made huge no more is read than ours can have. No key: an empty text. */
void
warm_build_get(struct warm *warm, struct slice org, struct slice event, struct slice seat)
{
    warm_begin(warm, 4, "GETRANGE");
    warm_key_seat(&warm->word, org, event, seat);
    warm_add_built(warm);
    warm_word_int(&warm->command, 0);
    warm_word_int(&warm->command, WARM_VALUE_MAX - 1);
}

/* Sends warm->command, a GET, and copies what it found. */
static bool
ask_text(struct warm *warm, char **text_out, size_t *text_len)
{
    redisReply *reply = warm_ask(warm);
    if (reply == NULL) {
        return false;
    }
    bool there = reply->type == REDIS_REPLY_STRING && reply->len > 0;
    char *text = there ? malloc(reply->len + 1) : NULL;
    if (text != NULL) {
        memcpy(text, reply->str, reply->len + 1); /* hiredis ends it with a NUL */
        *text_out = text;
        *text_len = reply->len;
    }
    freeReplyObject(reply);
    return text != NULL;
}

bool
warm_get_seat(struct warm *warm, struct slice org, struct slice event, struct slice seat,
              char **json_out, size_t *json_len)
{
    if (!warm_ready(warm)) {
        return false;
    }
    warm_build_get(warm, org, event, seat);
    return ask_text(warm, json_out, json_len);
}

bool
warm_get_occupancy(struct warm *warm, struct slice org, struct slice event, char **json_out,
                   size_t *json_len)
{
    if (!warm_ready(warm)) {
        return false;
    }
    warm_begin(warm, 4, "GETRANGE");
    warm_key_occupancy(&warm->word, org, event);
    warm_add_built(warm);
    warm_word_int(&warm->command, 0);
    warm_word_int(&warm->command, WARM_VALUE_MAX - 1);
    return ask_text(warm, json_out, json_len);
}

bool
warm_put_occupancy(struct warm *warm, struct slice org, struct slice event, struct slice json,
                   int64_t ttl_ms)
{
    if (!warm_ready(warm)) {
        return false;
    }
    warm_begin(warm, 5, "SET");
    warm_key_occupancy(&warm->word, org, event);
    warm_add_built(warm);
    warm_word(&warm->command, json);
    warm_word(&warm->command, SLICE_LITERAL("PX"));
    warm_word_int(&warm->command, ttl_ms);
    redisReply *reply = warm_ask(warm);
    bool taken = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (reply != NULL) {
        freeReplyObject(reply);
    }
    return taken;
}

int64_t
warm_count(struct warm *warm, struct slice org, struct slice event)
{
    if (!warm_ready(warm)) {
        return -1;
    }
    warm_begin(warm, 2, "ZCARD");
    warm_key_seat_holds(&warm->word, org, event);
    warm_add_built(warm);
    redisReply *reply = warm_ask(warm);
    if (reply == NULL) {
        return -1;
    }
    int64_t count = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    return count;
}
