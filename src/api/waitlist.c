/*
 * waitlist.c - POST /flights/{event}/waitlist and /api/events/{event}/waitlist: somebody waits for
 * a seat.
 *
 * Those who join one event do so one after the other, under a lock of their own: so places are in
 * the order of commits, and no two hear the same position. The seat itself is the engine's to give
 * (OP_ASSIGN); the room is told as soon as the entry is committed.
 */
#include "events_internal.h"
#include "hold_submit.h"
#include "holdfast/waitlist.h"
#include "idempotency.h"
#include "op_call.h"

#define WISH_CHARACTERS_MAX 255
#define JOIN_LOCK_SALT      0x6a6f696e /* keeps these lock keys apart from other uses of the hash */

struct join {
    struct api_call *call;
    bool of_flight; /* by the flights' path: other events have none there */
    struct slice user, type, section, email;
    struct uuid entry;
    int64_t position;
};

/* --- the request ------------------------------------------------------------------------ */

static const struct field_spec join_fields[] = {
    { "userId", FIELD_ID, AT(user), 0, 0, false, false },
    { "user_id", FIELD_ID, AT(user), 0, 0, false, false },
    { "seatPreferences", FIELD_WISH, AT(type), 0, WISH_CHARACTERS_MAX, false, false },
    { "customerEmail", FIELD_EMAIL, AT(customer_email), 1, EMAIL_MAX, false, false },
    { "customer_email", FIELD_EMAIL, AT(customer_email), 1, EMAIL_MAX, false, false },
};
static const struct body_spec join_body_spec = { true, join_fields, COUNT(join_fields) };

static bool
refuse_user(struct api_call *call, enum hf_status status, const char *reason, const char *detail)
{
    struct field_error error = { SLICE_LITERAL("userId"), reason, 0 };

    respond_problem(call, status,
                    &(struct problem){ .detail = detail, .errors = &error, .error_count = 1 });
    return false;
}

/* A user waits for itself. Who acts for passengers says for which; of other events for itself, too.
 */
static bool
take_user(struct api_call *call, struct join *join, struct slice named)
{
    join->user = named.len > 0 ? named : call_user(call);
    if (!call_is_privileged(call) && !slice_equal(join->user, call_user(call)))
        return refuse_user(call, HF_FORBIDDEN, "names another user",
                           "Only agent, service and admin act for others.");
    if (call_is_privileged(call) && named.len == 0 && join->of_flight)
        return refuse_user(call, HF_MISSING_FIELD, "is missing", NULL);
    return true;
}

/* --- the transaction ----------------------------------------------------------------------- */

static int64_t
join_lock_key(struct slice org, struct slice event)
{
    return (int64_t)hash_stable(event.ptr, event.len,
                                hash_stable(org.ptr, org.len, JOIN_LOCK_SALT));
}

static void
send_lock(struct pg *pg, int64_t key)
{
    struct pg_array keys;
    struct pg_params params;

    pg_array_init(&keys, PG_INT8);
    pg_array_int(&keys, key);
    pg_params_init(&params);
    pg_param_array(&params, &keys);
    pg_tx_send(pg, STATEMENT_LOCK_KEYS, &params);
    pg_array_fini(&keys);
}

/* The rows of the last of `count` statements that were sent. NULL: the transaction has failed. */
static struct pg_result *
last_of(struct pg *pg, int count)
{
    struct pg_result *rows = NULL;

    pg_tx_flush(pg);
    for (int i = 0; i < count; i++) {
        pg_result_free(&rows);
        rows = pg_tx_next(pg);
        if (rows == NULL)
            return NULL;
    }
    return rows;
}

/* Columns of find_waiting. */
enum { FOUND_STATUS, FOUND_KIND, FOUND_ENTRY, FOUND_STATE, FOUND_HOLD };

static struct pg_result *
find(struct pg *pg, const struct join *join)
{
    struct slice org = call_org(join->call), event = join->call->event;
    struct pg_params params;

    send_lock(pg, join_lock_key(org, event));
    pg_params_init(&params);
    pg_param_text(&params, org);
    pg_param_text(&params, event);
    pg_param_text(&params, join->user);
    pg_tx_send(pg, STATEMENT_FIND_WAITING, &params);
    return last_of(pg, 2);
}

/* As for a hold. */
static enum hf_status
judge_event(const struct join *join, const struct pg_result *found)
{
    enum event_status status;

    if (pg_rows(found) == 0 || !event_status_parse(pg_get_text(found, 0, FOUND_STATUS), &status) ||
        (join->of_flight && !slice_is(pg_get_text(found, 0, FOUND_KIND), "flight")))
        return HF_EVENT_NOT_FOUND;
    bool may_wait =
        status == EVENT_ON_SALE || (call_is_privileged(join->call) && status != EVENT_CANCELLED);
    return may_wait ? HF_OK : HF_EVENT_CLOSED;
}

/* Their offer of before may be over, and nobody has written that down yet: it is judged under the
 * lock of its hold. */
static enum hf_status
end_offer(struct pg *pg, const struct join *join, const struct pg_result *found)
{
    struct uuid hold = pg_get_uuid(found, 0, FOUND_HOLD);
    struct uuid entry = pg_get_uuid(found, 0, FOUND_ENTRY);
    struct pg_array orgs, entries;
    struct pg_params params;

    send_lock(pg, engine_hold_lock(&hold));
    pg_array_init(&orgs, PG_TEXT);
    pg_array_init(&entries, PG_UUID);
    pg_array_text(&orgs, call_org(join->call));
    pg_array_uuid(&entries, &entry);
    pg_params_init(&params);
    pg_param_array(&params, &orgs);
    pg_param_array(&params, &entries);
    pg_param_bool(&params, true);
    for (int i = 0; i < 4; i++) /* the system finds out */
        pg_param_null(&params);
    pg_tx_send(pg, STATEMENT_SETTLE_OFFERS, &params);
    pg_array_fini(&orgs);
    pg_array_fini(&entries);
    struct pg_result *rows = last_of(pg, 2);
    if (rows == NULL)
        return HF_INTERNAL;
    enum hf_status status = pg_get_int(rows, 0, 0) == 1 ? HF_OK : HF_ALREADY_WAITING;
    pg_result_free(&rows);
    return status;
}

static enum hf_status
judge_entry(struct pg *pg, const struct join *join, const struct pg_result *found)
{
    if (pg_is_null(found, 0, FOUND_ENTRY))
        return HF_OK;
    if (slice_is(pg_get_text(found, 0, FOUND_STATE), "QUEUED"))
        return HF_ALREADY_WAITING;
    return end_offer(pg, join, found);
}

static enum hf_status
add(struct pg *pg, struct join *join)
{
    struct api_call *call = join->call;
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_text(&params, call->event);
    pg_param_uuid(&params, &join->entry);
    pg_param_text(&params, join->user);
    pg_param_text(&params, join->type);
    pg_param_text(&params, join->section);
    pg_param_optional(&params, join->email);
    pg_param_int8(&params, call->api->node->config->waitlist_max);
    pg_param_text(&params, call_user(call));
    pg_param_text(&params, slice_of(call->exchange->request.request_id));
    call_add_origin(call, &params);
    pg_tx_send(pg, STATEMENT_ADD_WAITING, &params);
    struct pg_result *rows = last_of(pg, 1);
    if (rows == NULL)
        return HF_INTERNAL;
    enum hf_status status = pg_rows(rows) > 0 ? HF_OK : HF_OVERLOADED;
    if (status == HF_OK)
        join->position = pg_get_int(rows, 0, 0);
    pg_result_free(&rows);
    return status;
}

static void
write_joined(struct json_writer *w, const void *what)
{
    const struct join *join = what;

    json_object_begin(w);
    json_field_uuid(w, "waitlistId", &join->entry);
    json_field_text(w, "status", SLICE_LITERAL("QUEUED"));
    json_field_int(w, "position", join->position);
    json_object_end(w);
}

static enum hf_status
join_body(struct pg *pg, void *context)
{
    struct join *join = context;
    struct pg_result *found = find(pg, join);
    if (found == NULL)
        return HF_INTERNAL;
    enum hf_status status = judge_event(join, found);
    if (status == HF_OK)
        status = judge_entry(pg, join, found);
    pg_result_free(&found);
    if (status == HF_OK)
        status = add(pg, join);
    if (status != HF_OK)
        return status;
    op_write_json(join->call, HF_CREATED, write_joined, join);
    op_write_location(join->call, "/waitlist/", &join->entry);
    return join->call->answered == HF_CREATED ? HF_OK : HF_OVERLOADED;
}

/* Once it is answered the call is gone. */
static void
join_run(struct api_call *call, struct desk_tools *tools)
{
    struct waitlist *waitlist = call->api->node->waitlist;
    struct arena names = { 0 };
    struct slice org = arena_copy(&names, call_org(call));
    struct slice event = arena_copy(&names, call->event);
    enum hf_status status = HF_OVERLOADED;

    if (org.ptr != NULL && event.ptr != NULL)
        status = idempotency_run(call, tools->pg, join_body, call->state);
    if (status == HF_OK)
        waitlist_joined(waitlist, org, event);
    else
        respond_refusal(call, status, NULL);
    arena_fini(&names);
}

/* --- the handlers -------------------------------------------------------------------------- */

static void
post(struct api_call *call, bool of_flight)
{
    struct hold_request request;
    struct join *join = arena_alloc(&call->arena, sizeof(*join));

    if (join == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    *join = (struct join){ .call = call, .of_flight = of_flight, .entry = uuid_v7_new() };
    if (!hold_request_read(call, &join_body_spec, &request) || !take_user(call, join, request.user))
        return;
    join->type = request.type.len > 0 ? request.type : SLICE_EMPTY;
    join->section = request.section.len > 0 ? request.section : SLICE_EMPTY;
    join->email = request.customer_email.len > 0 ? request.customer_email : SLICE_EMPTY;
    call->state = join;
    call_on_desk(call, join_run);
}

void
waitlist_post(struct api *api, struct api_call *call)
{
    (void)api;
    post(call, false);
}

void
flight_waitlist_post(struct api *api, struct api_call *call)
{
    (void)api;
    post(call, true);
}
