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

static const char *
lacking_role(const struct api_call *call)
{
    enum token_role role = call->claims.role;

    switch (call->route->access) {
    case ACCESS_SERVICE:
        return role == ROLE_ADMIN || role == ROLE_SERVICE
                   ? NULL
                   : "This needs a token with the role admin or service.";
    case ACCESS_ADMIN:
        return role == ROLE_ADMIN ? NULL : "This needs a token with the role admin.";
    case ACCESS_OPEN:
    case ACCESS_TOKEN:
    case ACCESS_TICKET:
        break;
    }
    return NULL;
}

bool
call_authorize(struct api_call *call)
{
    const char *lacking = lacking_role(call);

    if (lacking != NULL)
        respond_refusal(call, HF_FORBIDDEN, lacking);
    return lacking == NULL;
}

/* --- passengers' tokens ------------------------------------------------------------------- */

bool
call_sees_event(const struct api_call *call, struct slice event)
{
    return call->claims.event[0] == '\0' || slice_is(event, call->claims.event);
}

bool
call_may_use_event(struct api_call *call, struct slice event)
{
    if (event.len == 0 || call_sees_event(call, event))
        return true;
    respond_refusal(call, HF_FORBIDDEN, "This token is for another event.");
    return false;
}
