/*
 * admin_seats.c - POST /api/admin/seats/block and /unblock.
 *
 * Seats are judged one by one: those that can't change are told with the reason. A seat
 * that another transaction is deciding is asked for again a few times, each in a
 * transaction of its own, and then skipped as contended.
 */
#include <cjson/cJSON.h>
#include <string.h>

#include "api_internal.h"
#include "events_internal.h"
#include "holdfast/thread.h"
#include "idempotency.h"

#define REASON_BYTES_MAX 500
#define ROUNDS_MAX       4 /* the first, and again after 10, 20 and 40 ms */

/* Columns of block_seats and unblock_seats. */
enum { POS, SEAT, CODE, VERSION, HOLD, USER, UNTIL, IN_PAYMENT, STATUS, ENDED, NOW };
static const struct seat_columns columns = { .seat = SEAT,
                                             .version = VERSION,
                                             .status = STATUS,
                                             .hold = HOLD,
                                             .user = USER,
                                             .until = UNTIL,
                                             .in_payment = IN_PAYMENT,
                                             .now = NOW,
                                             .ended = ENDED };

struct skipped {
    struct slice seat;
    struct slice reason;
};

struct admin_seats {
    struct api_call *call;
    enum pg_statement statement;
    struct slice event, reason;
    int seat_count;
    struct slice *seats; /* still to be decided */
    int64_t changed;
    int skipped_count;
    struct skipped *skipped; /* room for every seat asked for */
    struct pg_result *rows;  /* of the last round */
};

/* --- reading the body ------------------------------------------------------------------ */

/* False: the call is answered. */
static bool
read_body(struct admin_seats *admin)
{
    struct api_call *call = admin->call;
    struct field_errors errors = { 0 };
    const cJSON *json = call_json(call);
    if (json == NULL)
        return false;

    const cJSON *event = cJSON_GetObjectItemCaseSensitive(json, "event_id");
    const cJSON *seats = cJSON_GetObjectItemCaseSensitive(json, "seat_ids");
    const cJSON *reason = cJSON_GetObjectItemCaseSensitive(json, "reason");
    if (event == NULL)
        field_errors_missing(&call->arena, &errors, SLICE_LITERAL("event_id"));
    else if (!cJSON_IsString(event))
        field_errors_add(&call->arena, &errors, SLICE_LITERAL("event_id"), "is not a text");
    else if (!id_is_valid(slice_of(event->valuestring)))
        field_errors_bad_id(&call->arena, &errors, SLICE_LITERAL("event_id"));
    if (seats == NULL)
        field_errors_missing(&call->arena, &errors, SLICE_LITERAL("seat_ids"));
    bool has_reason = reason != NULL && !cJSON_IsNull(reason);
    if (has_reason && (!cJSON_IsString(reason) || strlen(reason->valuestring) > REASON_BYTES_MAX))
        field_errors_add(&call->arena, &errors, SLICE_LITERAL("reason"), "is not a short text");
    if (errors.count > 0) {
        respond_field_errors(call, &errors);
        return false;
    }
    admin->event = slice_of(event->valuestring);
    admin->reason = has_reason ? slice_of(reason->valuestring) : SLICE_EMPTY;
    admin->seats = seat_ids_read(call, seats, &admin->seat_count);
    if (admin->seats == NULL)
        return false;
    admin->skipped = arena_alloc(&call->arena, (size_t)admin->seat_count * sizeof(*admin->skipped));
    if (admin->skipped == NULL)
        respond_refusal(call, HF_OVERLOADED, NULL);
    return admin->skipped != NULL;
}

/* --- one round -------------------------------------------------------------------------- */

static enum hf_status
round_body(struct pg *pg, void *context)
{
    struct admin_seats *admin = context;
    struct pg_array seats = { 0 };
    struct pg_params params;

    pg_result_free(&admin->rows);
    pg_array_init(&seats, PG_TEXT);
    for (int i = 0; i < admin->seat_count; i++)
        pg_array_text(&seats, admin->seats[i]);
    pg_params_init(&params);
    pg_param_text(&params, call_org(admin->call));
    pg_param_text(&params, admin->event);
    pg_param_array(&params, &seats);
    pg_param_text(&params, call_user(admin->call));
    if (admin->reason.len > 0)
        pg_param_text(&params, admin->reason);
    else
        pg_param_null(&params);
    pg_param_text(&params, slice_of(admin->call->exchange->request.request_id));
    call_add_origin(admin->call, &params);
    pg_tx_send(pg, admin->statement, &params);
    admin->rows = pg_tx_next(pg);
    pg_array_fini(&seats);
    return admin->rows != NULL ? HF_OK : HF_INTERNAL;
}

static bool
has_changed(const struct pg_result *rows, int row)
{
    return slice_is(pg_get_text(rows, row, CODE), "ok");
}

static void
skip(struct admin_seats *admin, struct slice seat, struct slice reason)
{
    struct slice kept = arena_copy(&admin->call->arena, reason); /* the rows go, the answer stays */

    admin->skipped[admin->skipped_count++] =
        (struct skipped){ seat, kept.ptr ? kept : SLICE_EMPTY };
}

/* What was decided is counted; what was locked stays in the list for another round. */
static void
take_verdicts(struct admin_seats *admin)
{
    int left = 0;

    for (int row = 0; row < pg_rows(admin->rows) && row < admin->seat_count; row++) {
        struct slice code = pg_get_text(admin->rows, row, CODE);
        if (slice_is(code, "locked"))
            admin->seats[left++] = admin->seats[row];
        else if (slice_is(code, "ok"))
            admin->changed++;
        else
            skip(admin, admin->seats[row], code);
    }
    admin->seat_count = left;
}

static void
pause_between(int round)
{
    sleep_us((10 << round) * TIME_US_PER_MS);
}

static enum hf_status
run_rounds(struct admin_seats *admin, struct desk_tools *tools)
{
    for (int round = 0; round < ROUNDS_MAX && admin->seat_count > 0; round++) {
        struct tell tell = { tools->node, call_org(admin->call), admin->event, mono_now(),
                             FEED_UNBLOCKED };
        if (round > 0)
            pause_between(round - 1);
        enum hf_status status =
            tx_run(tools->node, tools->pg, admin->call->deadline, round_body, admin);
        if (status != HF_OK)
            return status;
        seats_tell(&tell, admin->rows, &columns, has_changed);
        take_verdicts(admin);
    }
    for (int i = 0; i < admin->seat_count; i++)
        skip(admin, admin->seats[i], SLICE_LITERAL("seat_contended"));
    return HF_OK;
}

/* --- the call ----------------------------------------------------------------------------- */

static void
answer(struct admin_seats *admin)
{
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_field_int(&w, "changed", admin->changed);
    json_name(&w, "skipped");
    json_array_begin(&w);
    for (int i = 0; i < admin->skipped_count; i++) {
        json_object_begin(&w);
        json_field_text(&w, "seat_id", admin->skipped[i].seat);
        json_field_text(&w, "reason", admin->skipped[i].reason);
        json_object_end(&w);
    }
    json_array_end(&w);
    json_object_end(&w);
    respond_json(admin->call, 200, &body);
}

static void
run(struct api_call *call, struct desk_tools *tools, enum pg_statement statement)
{
    struct admin_seats admin = { .call = call, .statement = statement };
    struct event_row event;

    if (!idempotency_is_new(call, tools->pg) || !read_body(&admin))
        return;
    enum hf_status status = event_row_find(call, tools->pg, call_org(call), admin.event, &event);
    if (status == HF_OK)
        status = run_rounds(&admin, tools);
    pg_result_free(&admin.rows);
    if (status == HF_OK)
        answer(&admin);
    else
        respond_refusal(call, status, NULL);
}

static void
block_run(struct api_call *call, struct desk_tools *tools)
{
    run(call, tools, STATEMENT_BLOCK_SEATS);
}

static void
unblock_run(struct api_call *call, struct desk_tools *tools)
{
    run(call, tools, STATEMENT_UNBLOCK_SEATS);
}

void
seats_block(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, block_run);
}

void
seats_unblock(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, unblock_run);
}
