/*
 * send.c - http_exchange_send, alone in its file: the tests of other rooms put their own in its
 * place, and keep the rest of this room.
 */
#include "exchange.h"

void
http_exchange_send(struct http_exchange *public)
{
    exchange_send(exchange_of(public));
}
