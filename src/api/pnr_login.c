/*
 * pnr_login.c - POST /auth/pnr-login: a passenger says a PNR and a name, and gets a token for their
 * check-in alone.
 *
 * X-Api-Key says which organization's front end asks. To who is refused, a PNR that nobody has
 * and a name that doesn't fit look alike: the same statement, the same answer, the same limits.
 * They differ by what Postgres takes to compare the names of those who have the PNR.
 */
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "checkin.h"
#include "flight_map.h"
#include "hold_request.h"
#include "holdfast/log.h"
#include "holdfast/metrics.h"

#define PNR_MAX     255 /* characters, with blanks around it */
#define ERROR_BYTES 128

#define AT(member)  offsetof(struct hold_request, member)

/* In the call's arena. */
struct login {
    struct slice pnr, last_name;
    struct login_try attempt;
};

/* --- what is tried --------------------------------------------------------------------------- */

/* "org/PNR" as find_checkin compares it; no id has a slash. ptr NULL: no memory. */
static struct slice
name_of_try(struct api_call *call, struct slice pnr)
{
    struct slice org = call_org(call), trimmed = trim_blanks(pnr);
    char *text = arena_alloc(&call->arena, org.len + 1 + trimmed.len);

    if (text == NULL)
        return (struct slice){ NULL, 0 };
    memcpy(text, org.ptr, org.len);
    text[org.len] = '/';
    for (size_t i = 0; i < trimmed.len; i++)
        text[org.len + 1 + i] = (char)toupper((unsigned char)trimmed.ptr[i]);
    return (struct slice){ text, org.len + 1 + trimmed.len };
}

static void
report_limit(const struct api_call *call)
{
    metric_add(METRIC_ABUSE_EVENTS_DETECTED, 1);
    LOG_EVENT(LOG_WARN, "logins_limited", log_text("org", call->claims.org),
              log_text("client", call->client));
}

static void
end_try(struct api_call *call, bool was_wrong)
{
    const struct login *login = call->state;

    if (login_limit_end(call->api->logins, &login->attempt, was_wrong, mono_now()))
        report_limit(call);
}

/* --- the answer ------------------------------------------------------------------------ */

static struct token_claims
claims_of(const struct api_call *call, const struct pg_result *rows)
{
    struct token_claims claims = { .role = ROLE_USER, .has_checkin = true };
    struct slice passenger = pg_get_text(rows, 0, CI_PASSENGER);
    struct slice event = pg_get_text(rows, 0, CI_EVENT);

    snprintf(claims.org, sizeof(claims.org), "%s", call->claims.org);
    snprintf(claims.user, sizeof(claims.user), "%.*s", SLICE_ARG(passenger));
    snprintf(claims.event, sizeof(claims.event), "%.*s", SLICE_ARG(event));
    claims.checkin = pg_get_uuid(rows, 0, CI_CHECKIN);
    claims.exp_unix_s = pg_get_time(rows, 0, CI_TOKEN_ENDS).us / TIME_US_PER_S;
    return claims;
}

/* HF_OK, or why the flight's seats can't be read. */
static enum hf_status
write_login(struct api_call *call, struct desk_tools *tools, const struct pg_result *rows,
            struct slice token, struct json_writer *w)
{
    struct flight_map map = { .org = call_org(call),
                              .event = pg_get_text(rows, 0, CI_EVENT),
                              .user = pg_get_text(rows, 0, CI_PASSENGER),
                              .if_none_match = SLICE_EMPTY };

    json_object_begin(w);
    json_field_text(w, "token", token);
    checkin_json_uuid(w, "checkinId", rows, CI_CHECKIN);
    checkin_json_text(w, "flightId", rows, CI_EVENT);
    checkin_json_text(w, "state", rows, CI_STATE);
    checkin_json_text(w, "currentSeat", rows, CI_SEAT);
    json_name(w, "seatMap");
    enum hf_status status = flight_map_write(call, tools, &map, w);
    json_object_end(w);
    return status;
}

static void
answer(struct api_call *call, struct desk_tools *tools, const struct pg_result *rows)
{
    struct token_claims claims = claims_of(call, rows);
    struct buf token = { 0 }, body = { 0 };
    struct json_writer w;
    char error[ERROR_BYTES];
    enum hf_status status = HF_INTERNAL;

    json_writer_init(&w, &body);
    if (token_mint(call->api->node->config, &claims, &token, error, sizeof(error)))
        status = write_login(call, tools, rows, buf_slice(&token), &w);
    else
        LOG_EVENT(LOG_ERROR, "passenger_token_not_signed", log_text("error", error));
    buf_fini(&token);
    if (status != HF_OK) {
        buf_fini(&body);
        respond_refusal(call, status, NULL);
        return;
    }
    metric_add(METRIC_LOGINS_TOTAL, 1);
    respond_header(call, "Cache-Control", SLICE_LITERAL("no-store"));
    respond_json(call, 200, &body);
}

static void
refuse(struct api_call *call)
{
    metric_add(METRIC_LOGINS_WRONG_TOTAL, 1);
    respond_refusal(call, HF_UNAUTHENTICATED, "No check-in has this PNR and this name.");
}

/* --- at the desk ----------------------------------------------------------------------- */

static enum pg_outcome
find_checkin(struct api_call *call, struct desk_tools *tools, struct pg_result **rows)
{
    const struct login *login = call->state;
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_text(&params, login->pnr);
    pg_param_text(&params, login->last_name);
    pg_param_int8(&params, call->api->node->config->passenger_token_ttl);
    return call_read(call, tools, STATEMENT_FIND_CHECKIN, &params, rows);
}

static void
login_run(struct api_call *call, struct desk_tools *tools)
{
    struct pg_result *rows = NULL;
    enum pg_outcome outcome = find_checkin(call, tools, &rows);
    bool is_wrong = outcome == PG_DONE && pg_rows(rows) == 0;

    end_try(call, is_wrong);
    if (outcome != PG_DONE)
        respond_refusal(call, call_outcome(call, outcome, tools->pg), NULL);
    else if (is_wrong)
        refuse(call);
    else
        answer(call, tools, rows);
    pg_result_free(&rows);
}

/* Nobody knows whether it was wrong. */
static void
login_fail(struct api_call *call, struct desk_tools *tools, enum hf_status status)
{
    (void)tools;
    end_try(call, false);
    respond_refusal(call, status, NULL);
}

/* --- the request ----------------------------------------------------------------------- */

static const struct field_spec login_fields[] = {
    { "pnr", FIELD_PROSE, AT(pnr), 1, PNR_MAX, true, false },
    { "lastName", FIELD_PROSE, AT(last_name), 1, PNR_MAX, true, false },
};
static const struct body_spec login_body = { false, login_fields, 2 };

/* False: the call is answered. */
static bool
is_known_front(struct api_call *call)
{
    const char *org = api_keys_find(call->api->keys, call->exchange->request.api_key);

    if (org == NULL) {
        respond_refusal(call, HF_UNAUTHENTICATED, "The X-Api-Key is missing or unknown.");
        return false;
    }
    memcpy(call->claims.org, org, strlen(org) + 1);
    return true;
}

static bool
may_try(struct api_call *call, struct login *login)
{
    struct slice name = name_of_try(call, login->pnr);

    if (name.ptr == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return false;
    }
    int64_t wait_s = login_limit_begin(call->api->logins, name, slice_of(call->client), mono_now(),
                                       &login->attempt);
    if (wait_s == 0)
        return true;
    metric_add(METRIC_LOGINS_LIMITED_TOTAL, 1);
    respond_problem(
        call, HF_RATE_LIMITED,
        &(struct problem){ .detail = "Too many wrong logins.", .retry_after_s = wait_s });
    return false;
}

void
pnr_login_post(struct api *api, struct api_call *call)
{
    struct hold_request request;
    struct login *login;

    (void)api;
    call->key_state = KEY_NONE; /* a token is kept nowhere */
    if (!hold_request_read(call, &login_body, &request) || !is_known_front(call))
        return;
    login = arena_alloc(&call->arena, sizeof(*login));
    if (login == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    *login = (struct login){ .pnr = request.pnr, .last_name = request.last_name };
    call->state = login;
    if (may_try(call, login))
        call_on_desk_or(call, login_run, login_fail);
}
