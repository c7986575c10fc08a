/*
 * calls.c - commands that are sent without waiting, and what their replies ask for afterwards.
 *
 * What was sent is kept until its reply was read, because a few replies want one more command: a
 * Redis that was restarted or flushed has forgotten our scripts (NOSCRIPT), a SET may have replaced
 * another hold's value or a newer one, a key may be of another type than ours. All of these
 * are rare, so they are sent together in one second round, after the scripts were loaded anew;
 * what that round does not cure is left to repair. Anything worse drops the connection and what
 * was due on it: nothing depends on the warm tier, but its events are not trusted any more.
 */
#include "warm_internal.h"

#include <string.h>

static void
forget(struct warm_calls *calls)
{
    calls->count = 0;
    buf_clear(&calls->text);
}

static void
forget_all(struct warm *warm)
{
    forget(&warm->due);
    forget(&warm->again);
}

static struct slice
text_of(const struct warm_calls *calls, int i)
{
    return (struct slice){ calls->text.data + calls->call[i].at, calls->call[i].len };
}

/* Whether Redis has done what was due is not known: its events have to be looked at anew. */
void
warm_calls_lost(struct warm *warm)
{
    static const int key_at[] = {
        [WARM_CALL_SCRIPT] = 3, [WARM_CALL_SET] = 1, [WARM_CALL_MEMBERS] = 1, [WARM_CALL_PLAIN] = 0
    };
    for (int i = 0; i < warm->due.count; i++) {
        int at = key_at[warm->due.call[i].kind];
        struct slice org, event;
        if (at > 0 && warm_key_event(warm_word_at(text_of(&warm->due, i), at), &org, &event))
            warm_tier_doubt(warm->link.tier, org, event);
    }
    forget_all(warm);
}

static bool
keep(struct warm_calls *calls, enum warm_call_kind kind, struct slice command)
{
    if (calls->count == WARM_CALLS_MAX) {
        return false;
    }
    calls->call[calls->count++] = (struct warm_call){ kind, calls->text.len, command.len };
    buf_append_slice(&calls->text, command);
    return !calls->text.failed;
}

bool
warm_call(struct warm *warm, enum warm_call_kind kind)
{
    struct slice command = buf_slice(&warm->command);
    if (warm->due.count == WARM_CALLS_MAX && !warm_collect(warm)) {
        return false;
    }
    if (warm->command.failed || warm->word.failed || !keep(&warm->due, kind, command)) {
        warm_link_close(&warm->link); /* no memory: replies couldn't be told apart any more */
        warm_calls_lost(warm);
        return false;
    }
    if (!warm_link_queue(&warm->link, command)) {
        warm_calls_lost(warm);
        return false;
    }
    return true;
}

/* --- without replies --------------------------------------------------------------- */

static void
client_reply(struct warm *warm, const char *mode)
{
    buf_clear(&warm->command);
    warm_command(&warm->command, 3, "CLIENT");
    warm_word(&warm->command, SLICE_LITERAL("REPLY"));
    warm_word(&warm->command, slice_of(mode));
}

bool
warm_mute(struct warm *warm)
{
    client_reply(warm, "OFF");
    return warm_tell(warm);
}

bool
warm_tell(struct warm *warm)
{
    if (warm->command.failed || warm->word.failed) {
        warm_link_close(&warm->link); /* the connection would stay mute */
        warm_calls_lost(warm);
        return false;
    }
    if (!warm_link_queue(&warm->link, buf_slice(&warm->command))) {
        warm_calls_lost(warm);
        return false;
    }
    return true;
}

bool
warm_unmute(struct warm *warm)
{
    client_reply(warm, "ON");
    return warm_call(warm, WARM_CALL_PLAIN);
}

/* --- the second round ------------------------------------------------------------ */

static void
word_then_reset(struct warm *warm)
{
    warm_word(&warm->command, buf_slice(&warm->word));
    buf_clear(&warm->word);
}

/* mend_seat.lua looks again, atomically, at what a SET replaced ("": a key of another type). */
static void
mend_later(struct warm *warm, struct slice set, struct slice old)
{
    struct slice key = warm_word_at(set, 1);

    buf_clear(&warm->command);
    buf_clear(&warm->word);
    warm_command(&warm->command, 8, "EVALSHA");
    warm_word(&warm->command, slice_of(warm->link.sha[SCRIPT_MEND_SEAT]));
    warm_word_int(&warm->command, 2);
    warm_word(&warm->command, key);
    warm_key_seat_holds_beside(&warm->word, key);
    word_then_reset(warm);
    warm_word(&warm->command, warm_word_at(set, 2));
    warm_word(&warm->command, warm_word_at(set, 4));
    warm_word(&warm->command, old);
    if (!warm->command.failed) {
        (void)keep(&warm->again, WARM_CALL_SCRIPT, buf_slice(&warm->command));
    }
}

static void
set_again(struct warm *warm, struct slice zadd)
{
    buf_clear(&warm->command);
    warm_command(&warm->command, 2, "DEL");
    warm_word(&warm->command, warm_word_at(zadd, 1));
    if (!warm->command.failed && keep(&warm->again, WARM_CALL_PLAIN, buf_slice(&warm->command))) {
        (void)keep(&warm->again, WARM_CALL_MEMBERS, zadd);
    }
}

/* Decides whether a reply wants another command. */
static void
look_at(struct warm *warm, int i, const redisReply *reply)
{
    struct slice command = text_of(&warm->due, i);
    bool wrong_type = warm_reply_is_error(reply, "WRONGTYPE");

    switch (warm->due.call[i].kind) {
    case WARM_CALL_SCRIPT:
        if (warm_reply_is_error(reply, "NOSCRIPT")) {
            (void)keep(&warm->again, WARM_CALL_SCRIPT, command);
        }
        return;
    case WARM_CALL_SET:
        if (wrong_type) {
            mend_later(warm, command, SLICE_EMPTY);
        } else if (reply->type == REDIS_REPLY_STRING) {
            struct slice old = { reply->str, reply->len };
            if (!warm_value_replaces(warm_word_at(command, 2), old)) {
                mend_later(warm, command, old);
            }
        }
        return;
    case WARM_CALL_MEMBERS:
        if (wrong_type) {
            set_again(warm, command);
        }
        return;
    case WARM_CALL_PLAIN:
        return;
    }
}

static bool
read_due(struct warm *warm)
{
    struct mono_time deadline = warm_link_deadline(&warm->link);
    for (int i = 0; i < warm->due.count; i++) {
        redisReply *reply = warm_link_reply(&warm->link, deadline);
        if (reply == NULL) {
            return false;
        }
        look_at(warm, i, reply);
        freeReplyObject(reply);
    }
    forget(&warm->due);
    return true;
}

static bool
send_again(struct warm *warm)
{
    if (!warm_link_load_scripts(&warm->link)) {
        return false;
    }
    for (int i = 0; i < warm->again.count; i++) {
        if (!warm_link_queue(&warm->link, text_of(&warm->again, i))) {
            return false;
        }
    }
    struct mono_time deadline = warm_link_deadline(&warm->link);
    for (int i = 0; i < warm->again.count; i++) {
        redisReply *reply = warm_link_reply(&warm->link, deadline);
        if (reply == NULL) {
            return false;
        }
        freeReplyObject(reply);
    }
    return true;
}

bool
warm_collect(struct warm *warm)
{
    if (warm->due.count == 0) {
        return true;
    }
    bool worked = warm->link.context != NULL && read_due(warm) &&
                  (warm->again.count == 0 || send_again(warm));
    if (worked) {
        warm_link_worked(&warm->link);
        forget_all(warm);
    } else {
        warm_calls_lost(warm);
    }
    return worked;
}
