/*
 * mend.c - what repair asks of Redis: what stands there, and its making right.
 *
 * Everything goes in pieces of WARM_SEATS_PER_CALL, each one round trip, so that neither Redis nor
 * this process has much to do or to keep at once. What is found is shown while its reply is there.
 * What is removed is compared first, in one step of Redis: it may have been written anew since.
 */
#include "warm_internal.h"

#include <stdlib.h>
#include <string.h>

static int
piece_end(int begin, int count)
{
    return count - begin < WARM_SEATS_PER_CALL ? count : begin + WARM_SEATS_PER_CALL;
}

/* --- reading -------------------------------------------------------------------------- */

/* Reads the reply to warm_build_get and shows it. A key of another type has no text. */
static bool
show_value(struct warm *warm, struct slice seat, struct mono_time deadline, bool even_empty,
           warm_visit *visit, void *context, bool *go_on)
{
    redisReply *reply = warm_link_reply(&warm->link, deadline);
    if (reply == NULL)
        return false;
    struct warm_found found = { .seat = seat, .text = SLICE_EMPTY };
    if (reply->type == REDIS_REPLY_STRING)
        found.text = (struct slice){ reply->str, reply->len };
    bool there = even_empty || reply->type != REDIS_REPLY_STRING || reply->len > 0;
    if (*go_on && there)
        *go_on = visit(context, &found);
    freeReplyObject(reply);
    return true;
}

/* One piece; its replies are all read, also when the visitor has seen enough. */
static bool
read_piece(struct warm *warm, struct slice org, struct slice event, const struct slice *seats,
           int count, bool even_empty, warm_visit *visit, void *context, bool *go_on)
{
    for (int i = 0; i < count; i++) {
        warm_build_get(warm, org, event, seats[i]);
        if (!warm_queue(warm))
            return false;
    }
    struct mono_time deadline = warm_link_deadline(&warm->link);
    for (int i = 0; i < count; i++)
        if (!show_value(warm, seats[i], deadline, even_empty, visit, context, go_on))
            return false;
    warm_link_worked(&warm->link);
    return true;
}

bool
warm_read_seats(struct warm *warm, struct slice org, struct slice event, const struct slice *seats,
                int count, warm_visit *visit, void *context)
{
    bool go_on = true;
    for (int begin = 0, end; begin < count && go_on; begin = end) {
        end = piece_end(begin, count);
        if (!warm_ready(warm) || !read_piece(warm, org, event, seats + begin, end - begin, false,
                                             visit, context, &go_on))
            return false;
    }
    return count > 0 || warm_ready(warm);
}

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
                                    .text = { items->element[i]->str, items->element[i]->len },
                                    .score = strtod(items->element[i + 1]->str, NULL) };
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
            (void)visit(context, &(struct warm_found){ SLICE_EMPTY, SLICE_EMPTY, 0 });
        go_on = go_on && items != NULL;
        freeReplyObject(page);
    } while (go_on && strcmp(cursor, "0") != 0);
    return true;
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

/* --- compare and delete ----------------------------------------------------------------------- */

/* Sends the EVALSHA in warm->command; after a Redis that forgot its scripts, once more. -1: failed.
 */
static int
ask_script(struct warm *warm)
{
    redisReply *reply = warm_ask(warm);
    if (reply != NULL && warm_reply_is_error(reply, "NOSCRIPT")) {
        freeReplyObject(reply);
        reply = warm_link_load_scripts(&warm->link) ? warm_ask(warm) : NULL;
    }
    if (reply == NULL)
        return -1;
    int number = reply->type == REDIS_REPLY_INTEGER ? (int)reply->integer : -1;
    freeReplyObject(reply);
    return number;
}

static void
begin_script(struct warm *warm, enum warm_script script, int keys, int words)
{
    warm_begin(warm, 3 + keys + words, "EVALSHA");
    warm_word(&warm->command, slice_of(warm->link.sha[script]));
    warm_word_int(&warm->command, keys);
}

static int
drop_seats(struct warm *warm, struct slice org, struct slice event, const struct warm_found *found,
           int count)
{
    begin_script(warm, SCRIPT_DROP_SEATS, count, count);
    for (int i = 0; i < count; i++) {
        warm_key_seat(&warm->word, org, event, found[i].seat);
        warm_add_built(warm);
    }
    for (int i = 0; i < count; i++)
        warm_word(&warm->command, found[i].text);
    return ask_script(warm);
}

static int
drop_members(struct warm *warm, struct slice org, struct slice event,
             const struct warm_found *found, int count)
{
    begin_script(warm, SCRIPT_DROP_MEMBERS, 1, count);
    warm_key_seat_holds(&warm->word, org, event);
    warm_add_built(warm);
    for (int i = 0; i < count; i++)
        warm_word(&warm->command, found[i].text);
    return ask_script(warm);
}

typedef int drop_piece(struct warm *warm, struct slice org, struct slice event,
                       const struct warm_found *found, int count);

static int
drop(struct warm *warm, struct slice org, struct slice event, const struct warm_found *found,
     int count, drop_piece *piece)
{
    int dropped = 0;
    for (int begin = 0, end; begin < count; begin = end) {
        end = piece_end(begin, count);
        int now = warm_ready(warm) ? piece(warm, org, event, found + begin, end - begin) : -1;
        if (now < 0)
            return -1;
        dropped += now;
    }
    return dropped;
}

int
warm_drop_seats(struct warm *warm, struct slice org, struct slice event,
                const struct warm_found *found, int count)
{
    return drop(warm, org, event, found, count, drop_seats);
}

int
warm_drop_members(struct warm *warm, struct slice org, struct slice event,
                  const struct warm_found *found, int count)
{
    return drop(warm, org, event, found, count, drop_members);
}

/* --- compare and set
 * ------------------------------------------------------------------------------ */

bool
warm_mend(struct warm *warm, const struct warm_hold *holds, int count)
{
    return warm_put(warm, holds, count) && warm_collect(warm);
}
