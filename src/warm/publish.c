/*
 * publish.c - one message to all who listen. Its reply is read: only that says that Redis took it.
 */
#include "warm_internal.h"

bool
warm_publish(struct warm *warm, struct slice channel, struct slice message)
{
    if (!warm_ready(warm))
        return false;
    warm_begin(warm, 3, "PUBLISH");
    warm_word(&warm->command, channel);
    warm_word(&warm->command, message);
    redisReply *reply = warm_ask(warm);
    bool taken = reply != NULL && reply->type == REDIS_REPLY_INTEGER;
    if (reply != NULL)
        freeReplyObject(reply);
    return taken;
}
