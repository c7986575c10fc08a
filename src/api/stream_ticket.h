/*
 * stream_ticket.h - tickets for streams, between the two handlers.
 */
#ifndef HOLDFAST_STREAM_TICKET_H
#define HOLDFAST_STREAM_TICKET_H

#include "api_internal.h"

/*
 * Uses the ticket up and fills call->claims with what its token said. HF_UNAUTHENTICATED: it is
 * unknown, used, over, or for another event.
 */
HF_MUST_CHECK enum hf_status stream_ticket_use(struct api_call *call, struct desk_tools *tools,
                                               struct slice ticket);

#endif
