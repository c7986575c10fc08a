/*
 * find.c - what stands in Redis, for repair to look at.
 *
 * Everything goes in pieces of WARM_SEATS_PER_CALL, each one round trip, so that neither Redis nor
 * this process has much to do or to keep at once. A piece is read whole before it is shown: its
 * visitor may take its time.
 */
#include "warm_internal.h"

#include <stdlib.h>
#include <string.h>

int
warm_piece_end(int begin, int count)
{
    return count - begin < WARM_SEATS_PER_CALL ? count : begin + WARM_SEATS_PER_CALL;
}

/* The replies to one piece. */
struct replies {
    int count;
    redisReply *reply[3 * WARM_SEATS_PER_CALL];
};

static void
replies_free(struct replies *replies)
{
    for (int i = 0; i < replies->count; i++)
        freeReplyObject(replies->reply[i]);
    replies->count = 0;
}

/* False: Redis failed, and there are none. */
static bool
replies_read(struct warm *warm, struct replies *replies, int count)
{
    struct mono_time deadline = warm_link_deadline(&warm->link);
    for (replies->count = 0; replies->count < count; replies->count++) {
        redisReply *reply = warm_link_reply(&warm->link, deadline);
        if (reply == NULL) {
            replies_free(replies);
            return false;
        }
        replies->reply[replies->count] = reply;
    }
    warm_link_worked(&warm->link);
    return true;
}

/* --- seats ------------------------------------------------------------------------------ */

/* A key of another type has no text. */
static bool
show_value(struct slice seat, const redisReply *reply, bool even_empty, warm_visit *visit,
           void *context)
{
    struct warm_found found = { .seat = seat, .text = SLICE_EMPTY };
    bool is_text = reply->type == REDIS_REPLY_STRING;
    if (is_text)
        found.text = (struct slice){ reply->str, reply->len };
    return (is_text && reply->len == 0 && !even_empty) || visit(context, &found);
}

static bool
read_piece(struct warm *warm, struct slice org, struct slice event, const struct slice *seats,
           int count, bool even_empty, warm_visit *visit, void *context, bool *go_on)
{
    struct replies replies;
    for (int i = 0; i < count; i++) {
        warm_build_get(warm, org, event, seats[i]);
        if (!warm_queue(warm))
            return false;
    }
    if (!replies_read(warm, &replies, count))
        return false;
    for (int i = 0; i < count && *go_on; i++)
        *go_on = show_value(seats[i], replies.reply[i], even_empty, visit, context);
    replies_free(&replies);
    return true;
}

bool
warm_read_seats(struct warm *warm, struct slice org, struct slice event, const struct slice *seats,
                int count, warm_visit *visit, void *context)
{
    bool go_on = true;
    for (int begin = 0, end; begin < count && go_on; begin = end) {
        end = warm_piece_end(begin, count);
        if (!warm_ready(warm) || !read_piece(warm, org, event, seats + begin, end - begin, false,
                                             visit, context, &go_on))
            return false;
    }
    return count > 0 || warm_ready(warm);
}

/* --- members --------------------------------------------------------------------------- */

/* A page of a SCAN or ZSCAN: where it goes on, and what it has. NULL: Redis failed. */
static redisReply *
ask_page(struct warm *warm, char cursor[32], const redisReply **items)
{
    redisReply *page = warm_ask(warm);
    if (page == NULL || page->type != REDIS_REPLY_ARRAY)
        return page; /* an error about the key */
    if (page->elements != 2 || page->element[0]->type != REDIS_REPLY_STRING ||
        page->element[0]->len >= 32 || page->element[1]->type != REDIS_REPLY_ARRAY) {
        freeReplyObject(page);
        return NULL;
    }
    memcpy(cursor, page->element[0]->str, page->element[0]->len + 1);
    *items = page->element[1];
    return page;
}

static bool
show_members(const redisReply *items, warm_visit *visit, void *context)
{
    bool go_on = true;
    for (size_t i = 0; go_on && i + 1 < items->elements; i += 2) {
        struct warm_found found = { .seat = SLICE_EMPTY,
                                    .text = { items->element[i]->str, items->element[i]->len } };
        const char *colon = memchr(found.text.ptr, ':', found.text.len);
        if (colon != NULL)
            found.seat = (struct slice){ found.text.ptr, (size_t)(colon - found.text.ptr) };
        go_on = visit(context, &found);
    }
    return go_on;
}

bool
warm_read_members(struct warm *warm, struct slice org, struct slice event, warm_visit *visit,
                  void *context)
{
    char cursor[32] = "0";
    bool go_on = true;
    do {
        const redisReply *items = NULL;
        if (!warm_ready(warm))
            return false;
        warm_begin(warm, 5, "ZSCAN");
        warm_key_seat_holds(&warm->word, org, event);
        warm_add_built(warm);
        warm_word(&warm->command, slice_of(cursor));
        warm_word(&warm->command, SLICE_LITERAL("COUNT"));
        warm_word_int(&warm->command, WARM_SEATS_PER_CALL);
        redisReply *page = ask_page(warm, cursor, &items);
        if (page == NULL)
            return false;
        if (items != NULL)
            go_on = show_members(items, visit, context);
        else /* no sorted set at all */
            (void)visit(context, &(struct warm_found){ SLICE_EMPTY, SLICE_EMPTY });
        go_on = go_on && items != NULL;
        freeReplyObject(page);
    } while (go_on && strcmp(cursor, "0") != 0);
    return true;
}

/* --- details --------------------------------------------------------------------------- */

/* HLEN and HMGET of its meta, whose fields are asked for in the order of warm_meta. */
static bool
queue_meta(struct warm *warm, const struct warm_hold *hold)
{
    struct warm_meta meta;
    warm_begin(warm, 2, "HLEN");
    warm_key_hold_meta(&warm->word, hold->org, hold->event, &hold->hold_id);
    warm_add_built(warm);
    if (!warm_queue(warm))
        return false;
    warm_meta(&meta, hold);
    warm_begin(warm, 2 + WARM_META_FIELDS, "HMGET");
    warm_key_hold_meta(&warm->word, hold->org, hold->event, &hold->hold_id);
    warm_add_built(warm);
    for (int i = 0; i < WARM_META_FIELDS; i++)
        warm_word(&warm->command, slice_of(meta.field[i].name));
    return warm_queue(warm);
}

/* Returns how many replies are due; -1: Redis failed. */
static int
queue_details(struct warm *warm, const struct warm_hold *holds, int count)
{
    int due = 1;
    warm_begin(warm, 2 + count, "ZMSCORE");
    warm_key_seat_holds(&warm->word, holds[0].org, holds[0].event);
    warm_add_built(warm);
    for (int i = 0; i < count; i++) {
        warm_member(&warm->word, &holds[i]);
        warm_add_built(warm);
    }
    if (!warm_queue(warm))
        return -1;
    for (int i = 0; i < count; i++) {
        if (!warm_has_meta(holds, i))
            continue;
        if (!queue_meta(warm, &holds[i]))
            return -1;
        due += 2;
    }
    return due;
}

static bool
score_is(const redisReply *scores, int i, const struct warm_hold *hold)
{
    return scores->type == REDIS_REPLY_ARRAY && (size_t)i < scores->elements &&
           scores->element[i]->type == REDIS_REPLY_STRING &&
           strtod(scores->element[i]->str, NULL) == (double)warm_score(hold);
}

static bool
meta_is(const redisReply *length, const redisReply *values, const struct warm_hold *hold)
{
    struct warm_meta meta;
    warm_meta(&meta, hold);
    bool is = length->type == REDIS_REPLY_INTEGER && length->integer == WARM_META_FIELDS &&
              values->type == REDIS_REPLY_ARRAY && values->elements == WARM_META_FIELDS;
    for (int i = 0; is && i < WARM_META_FIELDS; i++) {
        const redisReply *value = values->element[i];
        is = value->type == REDIS_REPLY_STRING &&
             slice_equal((struct slice){ value->str, value->len }, meta.field[i].value);
    }
    return is;
}

static void
judge_details(const struct replies *replies, const struct warm_hold *holds, int count, bool *right)
{
    bool meta_right = true; /* of the hold whose seats are being looked at */
    for (int i = 0, next = 1; i < count; i++) {
        if (warm_has_meta(holds, i)) {
            meta_right = meta_is(replies->reply[next], replies->reply[next + 1], &holds[i]);
            next += 2;
        } else if (holds[i].source.len == 0) {
            meta_right = true;
        }
        right[i] = score_is(replies->reply[0], i, &holds[i]) && meta_right;
    }
}

bool
warm_read_details(struct warm *warm, const struct warm_hold *holds, int count, bool *right)
{
    struct replies replies;
    for (int begin = 0, end; begin < count; begin = end) {
        end = warm_piece_end(begin, count);
        int due = warm_ready(warm) ? queue_details(warm, holds + begin, end - begin) : -1;
        if (due < 0 || !replies_read(warm, &replies, due))
            return false;
        judge_details(&replies, holds + begin, end - begin, right + begin);
        replies_free(&replies);
    }
    return count > 0 || warm_ready(warm);
}

/* --- every key ----------------------------------------------------------------------------- */

#define SCAN_STEP 1000 /* keys that Redis looks at in one go */

/* The keys of one page: what stands under each is read in pieces, and shown. */
static bool
show_keys(struct warm *warm, struct slice org, struct slice event, const redisReply *keys,
          size_t prefix_len, warm_visit *visit, void *context, bool *go_on)
{
    struct slice seats[WARM_SEATS_PER_CALL];
    size_t next = 0;
    while (*go_on && next < keys->elements) {
        int count = 0;
        for (; next < keys->elements && count < WARM_SEATS_PER_CALL; next++) {
            const redisReply *key = keys->element[next];
            if (key->len > prefix_len)
                seats[count++] = (struct slice){ key->str + prefix_len, key->len - prefix_len };
        }
        if (!read_piece(warm, org, event, seats, count, true, visit, context, go_on))
            return false;
    }
    return true;
}

static redisReply *
ask_scan(struct warm *warm, struct slice org, struct slice event, char cursor[32],
         const redisReply **keys)
{
    warm_begin(warm, 6, "SCAN");
    warm_word(&warm->command, slice_of(cursor));
    warm_word(&warm->command, SLICE_LITERAL("MATCH"));
    warm_key_seat(&warm->word, org, event, SLICE_LITERAL("*")); /* ids have no letter of a glob */
    warm_add_built(warm);
    warm_word(&warm->command, SLICE_LITERAL("COUNT"));
    warm_word_int(&warm->command, SCAN_STEP);
    return ask_page(warm, cursor, keys);
}

bool
warm_scan_seats(struct warm *warm, struct slice org, struct slice event, struct mono_time deadline,
                warm_visit *visit, void *context)
{
    struct buf prefix = { 0 };
    warm_key_seat(&prefix, org, event, SLICE_EMPTY);
    size_t prefix_len = prefix.len;
    bool good = !prefix.failed, go_on = true;
    buf_fini(&prefix);

    char cursor[32] = "0";
    do {
        const redisReply *keys = NULL;
        redisReply *page = good && mono_now().us < deadline.us && warm_ready(warm)
                               ? ask_scan(warm, org, event, cursor, &keys)
                               : NULL;
        good =
            keys != NULL && show_keys(warm, org, event, keys, prefix_len, visit, context, &go_on);
        if (page != NULL)
            freeReplyObject(page);
    } while (good && go_on && strcmp(cursor, "0") != 0);
    return good;
}
