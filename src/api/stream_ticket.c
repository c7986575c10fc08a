/*
 * stream_ticket.c - POST /api/events/{event}/stream-ticket, and what a ticket is worth.
 *
 * A ticket is random; Postgres keeps its hash, so that it is good on any node and only once, and
 * judges by its own clock.
 */
#include "stream_ticket.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "holdfast/json.h"

#define TICKET_BYTES      24 /* of chance */
#define TICKET_TEXT_BYTES (2 * TICKET_BYTES + 1)
#define HASH_BYTES        32
#define HASH_TEXT_BYTES   (2 * HASH_BYTES + 1)
#define GOOD_S            60
#define TRIES_MAX         2

static void
write_hex(const uint8_t *bytes, size_t count, char *text)
{
    for (size_t i = 0; i < count; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

static bool
hash_ticket(struct slice ticket, char text[HASH_TEXT_BYTES])
{
    uint8_t hash[HASH_BYTES];

    if (EVP_Digest(ticket.ptr, ticket.len, hash, NULL, EVP_sha256(), NULL) != 1)
        return false;
    write_hex(hash, sizeof(hash), text);
    return true;
}

/* --- a new one -------------------------------------------------------------------------- */

static bool
draw_ticket(char text[TICKET_TEXT_BYTES])
{
    uint8_t chance[TICKET_BYTES];

    if (getrandom(chance, sizeof(chance), 0) != sizeof(chance))
        return false;
    write_hex(chance, sizeof(chance), text);
    return true;
}

static enum pg_outcome
add_ticket(struct api_call *call, struct desk_tools *tools, const char *hash,
           struct pg_result **rows)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, slice_of(hash));
    pg_param_text(&params, call_org(call));
    pg_param_text(&params, call->event);
    pg_param_text(&params, call_user(call));
    pg_param_text(&params, slice_of(token_role_word(call->claims.role)));
    pg_param_time(&params, (struct db_time){ call->claims.exp_unix_s * TIME_US_PER_S });
    pg_param_int8(&params, GOOD_S * TIME_US_PER_S);
    return pg_run(tools->pg, STATEMENT_ADD_STREAM_TICKET, &params, call->deadline, rows);
}

/* One whose outcome was lost is nobody's: another one is drawn. */
static enum hf_status
make_ticket(struct api_call *call, struct desk_tools *tools, char ticket[TICKET_TEXT_BYTES])
{
    struct pg_result *rows = NULL;
    char hash[HASH_TEXT_BYTES];
    enum pg_outcome outcome = PG_UNAVAILABLE;

    for (int i = 0; i < TRIES_MAX; i++) {
        if (!draw_ticket(ticket) || !hash_ticket(slice_of(ticket), hash))
            return HF_OVERLOADED;
        outcome = add_ticket(call, tools, hash, &rows);
        if ((outcome != PG_UNAVAILABLE && outcome != PG_UNKNOWN) ||
            !pg_ready_until(tools->pg, call->deadline))
            break;
    }
    if (outcome == PG_UNKNOWN)
        return HF_STORE_UNAVAILABLE;
    enum hf_status status = call_outcome(call, outcome, tools->pg);
    if (status == HF_OK && pg_rows(rows) == 0)
        status = HF_EVENT_NOT_FOUND;
    pg_result_free(&rows);
    return status;
}

static void
ticket_run(struct api_call *call, struct desk_tools *tools)
{
    char ticket[TICKET_TEXT_BYTES];
    struct buf body = { 0 };
    struct json_writer w;
    enum hf_status status = make_ticket(call, tools, ticket);

    if (status != HF_OK) {
        respond_refusal(call, status, NULL);
        return;
    }
    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_field_text(&w, "ticket", slice_of(ticket));
    json_field_int(&w, "expires_in_seconds", GOOD_S);
    json_object_end(&w);
    respond_header(call, "Cache-Control", SLICE_LITERAL("no-store"));
    respond_json(call, 200, &body);
}

void
stream_ticket_post(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, ticket_run);
}

/* --- its use ---------------------------------------------------------------------------- */

/* Columns of use_stream_ticket. */
enum { ORG, USER, ROLE, TOKEN_ENDS };

/* False: what no node of ours wrote. */
static bool
read_claims(struct token_claims *claims, const struct pg_result *rows)
{
    struct slice org = pg_get_text(rows, 0, ORG);
    struct slice user = pg_get_text(rows, 0, USER);

    *claims = (struct token_claims){ 0 };
    if (!id_is_valid(org) || !id_is_valid(user) ||
        !token_role_parse(pg_get_text(rows, 0, ROLE), &claims->role))
        return false;
    memcpy(claims->org, org.ptr, org.len);
    memcpy(claims->user, user.ptr, user.len);
    claims->exp_unix_s = pg_get_time(rows, 0, TOKEN_ENDS).us / TIME_US_PER_S;
    return true;
}

enum hf_status
stream_ticket_use(struct api_call *call, struct desk_tools *tools, struct slice ticket)
{
    struct pg_result *rows = NULL;
    struct pg_params params;
    char hash[HASH_TEXT_BYTES];

    if (!hash_ticket(ticket, hash))
        return HF_OVERLOADED;
    pg_params_init(&params);
    pg_param_text(&params, slice_of(hash));
    pg_param_text(&params, call->event);
    /* Once: it may have been used up although no answer came, and then would be unknown. */
    enum pg_outcome outcome =
        pg_run(tools->pg, STATEMENT_USE_STREAM_TICKET, &params, call->deadline, &rows);
    enum hf_status status =
        outcome == PG_UNKNOWN ? HF_STORE_UNAVAILABLE : call_outcome(call, outcome, tools->pg);
    if (status == HF_OK && (pg_rows(rows) == 0 || !read_claims(&call->claims, rows)))
        status = HF_UNAUTHENTICATED;
    pg_result_free(&rows);
    return status;
}
