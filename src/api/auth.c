/*
 * auth.c - who asks, and whether the route is for them.
 */
#include "api_internal.h"

/* Then the claims stay empty. */
static bool
comes_with_ticket(struct api_call *call)
{
    struct slice ticket;

    return call->route->access == ACCESS_TICKET && call->exchange->request.authorization.len == 0 &&
           call_query(call, "ticket", &ticket) && ticket.len > 0;
}

bool
call_authenticate(struct api_call *call)
{
    int64_t error_us;

    if (call->route->access == ACCESS_OPEN || comes_with_ticket(call))
        return true;
    int64_t now_unix_s = call_now(call->api, &error_us).us / TIME_US_PER_S;
    enum hf_status status = token_verify(call->api->verifier, call->exchange->request.authorization,
                                         now_unix_s, &call->claims);
    if (status == HF_OK)
        return true;
    respond_refusal(call, status, NULL);
    return false;
}

bool
call_authorize(struct api_call *call)
{
    if (call->route->access != ACCESS_ADMIN || call->claims.role == ROLE_ADMIN)
        return true;
    respond_refusal(call, HF_FORBIDDEN, "This needs a token with the role admin.");
    return false;
}
