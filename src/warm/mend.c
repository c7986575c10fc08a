/*
 * mend.c - making right what repair found wrong.
 *
 * In pieces of WARM_SEATS_PER_CALL, each one script's run. What is removed is compared first, in
 * one step of Redis: it may have been written anew since it was read.
 */
#include "warm_internal.h"

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
        end = warm_piece_end(begin, count);
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

/* Of another type, or with other fields, no HSET makes a meta right. Nobody reads it meanwhile. */
static bool
clear_metas(struct warm *warm, const struct warm_hold *holds, int count)
{
    for (int i = 0; i < count; i++) {
        if (!warm_has_meta(holds, i))
            continue;
        warm_begin(warm, 2, "DEL");
        warm_key_hold_meta(&warm->word, holds[i].org, holds[i].event, &holds[i].hold_id);
        warm_add_built(warm);
        if (!warm_call(warm, WARM_CALL_PLAIN))
            return false;
    }
    return true;
}

bool
warm_mend(struct warm *warm, const struct warm_hold *holds, int count)
{
    return warm_ready(warm) && clear_metas(warm, holds, count) && warm_put(warm, holds, count) &&
           warm_collect(warm);
}
