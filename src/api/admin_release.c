/*
 * admin_release.c - POST /api/admin/seats/release: held seats are free again, because somebody who
 * may says so (scenario D).
 *
 * The request means holds by name, seats of an event by name, or whatever is held of an event when
 * it comes. Each hold is released in a transaction with its rows, its audit entries and its events;
 * together they are as many as the workers see fit to take into one. What is sold stays sold, what
 * is being paid for is passed over, what is over ends as such and counts as skipped. Nothing is
 * remembered of the request itself: the same again, on any node, finds what is left.
 */
#include "admin_release.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events_internal.h"
#include "holdfast/json.h"
#include "holdfast/log.h"
#include "holdfast/thread.h"
#include "idempotency.h"
#include "idempotency.h"
#include "op_call.h"

#define PAGE_HOLDS     4096
#define PROGRESS_EVERY 1000 /* decided ones from line to line of the log */
#define ROUNDS_MAX     4    /* for seats that change hands while they are looked at */

/* --- what became of them -------------------------------------------------------------- */

static void
log_progress(const struct release *release, const char *what)
{
    LOG_EVENT(LOG_INFO, what, log_text("org", release->call->claims.org),
              log_slice("event_id", release->event), log_text("user", release->call->claims.user),
              log_text("request_id", release->call->exchange->request.request_id),
              log_int("holds_released", release->holds_released),
              log_int("seats_released", release->seats_released),
              log_int("skipped", release->skipped), log_int("decided", release->decided),
              log_int("of", release->total));
}

static void
count_decided(struct release *release, int count)
{
    int64_t before = release->decided / PROGRESS_EVERY;

    release->decided += count;
    if (release->decided / PROGRESS_EVERY > before)
        log_progress(release, "release_progress");
}

static void
skip(struct release *release, const struct uuid *hold, struct slice seat, const char *reason)
{
    release->skipped++;
    if (release->skips_listed < RELEASE_SKIPPED_MAX)
        release->skips[release->skips_listed++] = (struct release_skip){ *hold, seat, reason };
}

/* The seat was looked at, and somebody else's change came between. */
static bool
has_moved(enum hf_status verdict)
{
    return verdict == HF_SEAT_NOT_FOUND || verdict == HF_HOLD_NOT_ACTIVE ||
           verdict == HF_HOLD_NOT_FOUND;
}

static void
seats_not_released(struct release *release, const struct release_target *target,
                   enum hf_status verdict)
{
    for (int i = 0; i < target->seat_count; i++) {
        if (has_moved(verdict))
            release->seats[release->seat_count++] = target->seats[i].id;
        else
            skip(release, &target->hold_id, target->seats[i].id, status_code(verdict));
    }
    if (!has_moved(verdict))
        count_decided(release, target->seat_count);
}

void
release_decided(struct release *release, struct release_target *target, enum hf_status verdict,
                int64_t seats)
{
    if (verdict != HF_OK && target->seat_count > 0) {
        seats_not_released(release, target, verdict);
        return;
    }
    if (verdict == HF_OK) {
        release->holds_released++;
        release->seats_released += seats;
    } else {
        skip(release, &target->hold_id, SLICE_EMPTY, status_code(verdict));
    }
    count_decided(release, target->seat_count > 0 ? target->seat_count : 1);
}

/* --- reading -------------------------------------------------------------------------- */

/* For as long as a store that is away may come back. */
static enum hf_status
read_rows(const struct release *release, struct desk_tools *tools, enum pg_statement statement,
          const struct pg_params *params, struct pg_result **rows)
{
    struct mono_time since = mono_now();

    for (;;) {
        struct mono_time deadline = { mono_now().us + tools->node->config->request_timeout };
        enum pg_outcome outcome = pg_run(tools->pg, statement, params, deadline, rows);
        enum hf_status status = call_outcome(release->call, outcome, tools->pg);
        if (status_http(status) != 503)
            return status;
        status = release_may_go_on(release, since, status);
        if (status != HF_OK)
            return status;
        if (!pg_ready_until(tools->pg, deadline))
            sleep_us(RELEASE_PAUSE_US);
    }
}

/* --- holds by name ---------------------------------------------------------------------- */

static enum hf_status
release_named(struct release *release, const struct op *model)
{
    size_t bytes = (size_t)release->hold_count * sizeof(struct release_target);
    struct release_target *targets = arena_alloc(&release->call->arena, bytes);

    if (targets == NULL)
        return HF_OVERLOADED;
    for (int i = 0; i < release->hold_count; i++)
        targets[i].hold_id = release->holds[i];
    release->total = release->hold_count;
    return release_targets(release, model, targets, release->hold_count);
}

/* --- all that is held ------------------------------------------------------------------- */

/* Columns of list_event_holds. */
enum { LEH_HOLD, LEH_REST, LEH_AS_OF };

/* Where the next page begins, and which holds are meant: those that stood at the first one. */
struct page {
    struct uuid after;
    struct db_time as_of; /* 0: it is not known yet */
};

static enum hf_status
read_page(const struct release *release, struct desk_tools *tools, const struct page *page,
          struct pg_result **rows)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(release->call));
    pg_param_text(&params, release->event);
    pg_param_uuid(&params, &page->after);
    if (page->as_of.us == 0)
        pg_param_null(&params);
    else
        pg_param_time(&params, page->as_of);
    pg_param_int4(&params, PAGE_HOLDS);
    return read_rows(release, tools, STATEMENT_LIST_EVENT_HOLDS, &params, rows);
}

/* How many targets there are now. */
static int
take_page(struct release *release, const struct pg_result *rows, struct page *page,
          struct release_target *targets)
{
    int count = pg_rows(rows);

    for (int row = 0; row < count; row++)
        targets[row] = (struct release_target){ .hold_id = pg_get_uuid(rows, row, LEH_HOLD) };
    if (count > 0 && page->as_of.us == 0) {
        release->total = pg_get_int(rows, 0, LEH_REST);
        page->as_of = pg_get_time(rows, 0, LEH_AS_OF);
    }
    if (count > 0)
        page->after = targets[count - 1].hold_id;
    return count;
}

static enum hf_status
release_all(struct release *release, struct desk_tools *tools, const struct op *model)
{
    struct release_target *targets =
        arena_alloc(&release->call->arena, PAGE_HOLDS * sizeof(*targets));
    struct page page = { 0 };
    enum hf_status status = targets != NULL ? HF_OK : HF_OVERLOADED;
    int count = PAGE_HOLDS;

    while (status == HF_OK && count == PAGE_HOLDS) {
        struct pg_result *rows = NULL;
        status = read_page(release, tools, &page, &rows);
        if (status == HF_OK) {
            count = take_page(release, rows, &page, targets);
            status = release_targets(release, model, targets, count);
        }
        pg_result_free(&rows);
    }
    return status;
}

/* --- seats by name ------------------------------------------------------------------------ */

/* Columns of warm_seats. */
enum { WS_SEAT, WS_STATUS, WS_HOLD };

struct wish {
    struct uuid hold;
    struct slice seat;
};

static int
compare_wishes(const void *left, const void *right)
{
    const struct wish *a = left, *b = right;

    return memcmp(a->hold.bytes, b->hold.bytes, sizeof(a->hold.bytes));
}

static enum hf_status
read_seats(const struct release *release, struct desk_tools *tools, struct pg_result **rows)
{
    struct pg_array seats = { 0 };
    struct pg_params params;

    pg_array_init(&seats, PG_TEXT);
    for (int i = 0; i < release->seat_count; i++)
        pg_array_text(&seats, release->seats[i]);
    pg_params_init(&params);
    pg_param_text(&params, call_org(release->call));
    pg_param_text(&params, release->event);
    pg_param_array(&params, &seats);
    enum hf_status status = read_rows(release, tools, STATEMENT_WARM_SEATS, &params, rows);
    pg_array_fini(&seats);
    return status;
}

/* Why a seat that nobody holds can't be released; NULL: somebody holds it. */
static const char *
reason_not_held(const struct pg_result *rows, int row)
{
    struct slice word = pg_get_text(rows, row, WS_STATUS);
    enum seat_status status = SEAT_REMOVED;

    if (pg_is_null(rows, row, WS_STATUS) || !seat_status_parse(word, &status))
        return status_code(HF_SEAT_NOT_FOUND);
    switch (status) {
    case SEAT_HELD:
        return NULL;
    case SEAT_AVAILABLE:
        return "available";
    case SEAT_SOLD:
        return status_code(HF_SEAT_SOLD);
    case SEAT_BLOCKED:
        return status_code(HF_SEAT_BLOCKED);
    case SEAT_REMOVED:
        break;
    }
    return status_code(HF_SEAT_NOT_FOUND);
}

/* The seats that are held, in the order of their holds; how many. The others are skipped. */
static int
sort_out(struct release *release, const struct pg_result *rows, struct wish *wishes)
{
    int held = 0;

    for (int row = 0; row < release->seat_count; row++) {
        struct uuid hold = pg_get_uuid(rows, row, WS_HOLD);
        const char *reason = reason_not_held(rows, row);
        if (reason != NULL) {
            skip(release, &hold, release->seats[row], reason);
            count_decided(release, 1);
        } else {
            wishes[held++] = (struct wish){ hold, release->seats[row] };
        }
    }
    qsort(wishes, (size_t)held, sizeof(*wishes), compare_wishes);
    return held;
}

/* One target a hold. `seats` and `targets` have room for each wish. */
static int
group_wishes(const struct wish *wishes, int count, struct op_seat *seats,
             struct release_target *targets)
{
    int groups = 0;

    for (int i = 0; i < count; i++) {
        seats[i] = (struct op_seat){ .id = wishes[i].seat, .expect_version = -1 };
        if (i == 0 || compare_wishes(&wishes[i], &wishes[i - 1]) != 0)
            targets[groups++] =
                (struct release_target){ .hold_id = wishes[i].hold, .seats = &seats[i] };
        targets[groups - 1].seat_count++;
    }
    return groups;
}

/* What has moved meanwhile stands in release->seats when it is over. */
static enum hf_status
release_round(struct release *release, const struct pg_result *rows, const struct op *model)
{
    struct arena *arena = &release->call->arena;
    size_t count = (size_t)release->seat_count;
    struct wish *wishes = arena_alloc(arena, count * sizeof(*wishes));
    struct op_seat *seats = arena_alloc(arena, count * sizeof(*seats));
    struct release_target *targets = arena_alloc(arena, count * sizeof(*targets));

    if (wishes == NULL || seats == NULL || targets == NULL)
        return HF_OVERLOADED;
    int held = sort_out(release, rows, wishes);
    release->seat_count = 0;
    return release_targets(release, model, targets, group_wishes(wishes, held, seats, targets));
}

static void
give_up_seats(struct release *release)
{
    static const struct uuid none;

    for (int i = 0; i < release->seat_count; i++)
        skip(release, &none, release->seats[i], status_code(HF_SEAT_CONTENDED));
    count_decided(release, release->seat_count);
}

static enum hf_status
release_seats(struct release *release, struct desk_tools *tools, const struct op *model)
{
    enum hf_status status = HF_OK;

    release->total = release->seat_count;
    for (int round = 0; status == HF_OK && round < ROUNDS_MAX && release->seat_count > 0; round++) {
        struct pg_result *rows = NULL;
        status = read_seats(release, tools, &rows);
        if (status == HF_OK)
            status = release_round(release, rows, model);
        pg_result_free(&rows);
    }
    if (status == HF_OK)
        give_up_seats(release);
    return status;
}

/* --- the answer --------------------------------------------------------------------------- */

static void
write_skip(struct json_writer *w, const struct release_skip *skipped)
{
    json_object_begin(w);
    json_name(w, "hold_id");
    if (uuid_is_nil(&skipped->hold_id))
        json_null(w);
    else
        json_uuid(w, &skipped->hold_id);
    if (skipped->seat.len > 0)
        json_field_text(w, "seat_id", skipped->seat);
    json_field_text(w, "reason", slice_of(skipped->reason));
    json_object_end(w);
}

static void
write_skipped(struct json_writer *w, const struct release *release)
{
    json_name(w, "skipped");
    json_array_begin(w);
    for (int i = 0; i < release->skips_listed; i++)
        write_skip(w, &release->skips[i]);
    json_array_end(w);
    json_field_int(w, "skipped_count", release->skipped);
}

static void
answer(struct release *release)
{
    struct buf body = { 0 };
    struct json_writer w;
    char message[96];

    snprintf(message, sizeof(message), "%lld seats of %lld holds were released.",
             (long long)release->seats_released, (long long)release->holds_released);
    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_field_text(&w, "status", SLICE_LITERAL("released"));
    if (release->hold_count == 1)
        json_field_uuid(&w, "hold_id", &release->holds[0]);
    json_field_int(&w, "seats_released", release->seats_released);
    json_field_text(&w, "reason", SLICE_LITERAL(RELEASE_REASON));
    json_field_text(&w, "message", slice_of(message));
    write_skipped(&w, release);
    json_object_end(&w);
    respond_json(release->call, 200, &body);
}

/* What was released stays so; the client learns how much that is. */
static void
answer_stopped(struct release *release, enum hf_status status)
{
    char detail[200];

    snprintf(detail, sizeof(detail),
             "%lld seats of %lld holds were released, %lld of %lld are left; "
             "the same request again goes on with them.",
             (long long)release->seats_released, (long long)release->holds_released,
             (long long)(release->total - release->decided), (long long)release->total);
    respond_refusal(release->call, status, detail);
}

/* --- the call ------------------------------------------------------------------------------- */

static enum hf_status
do_release(struct release *release, struct desk_tools *tools, const struct op *model)
{
    struct event_row event;
    enum hf_status status = idempotency_look_up(release->call, tools->pg);

    if (status == HF_OK && release->holds == NULL)
        status = event_row_find(release->call, tools->pg, call_org(release->call), release->event,
                                &event);
    if (status != HF_OK)
        return status;
    if (release->holds != NULL)
        return release_named(release, model);
    return release->seats != NULL ? release_seats(release, tools, model)
                                  : release_all(release, tools, model);
}

static void
release_run(struct api_call *call, struct desk_tools *tools)
{
    struct release release = { .call = call, .until = { mono_now().us + RELEASE_TIME_US } };
    struct op *model;

    release.skips = arena_alloc(&call->arena, RELEASE_SKIPPED_MAX * sizeof(*release.skips));
    if (release.skips == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    if (!release_read_body(&release) || (model = op_of_call(call, OP_CANCEL, NULL)) == NULL)
        return;
    enum hf_status status = do_release(&release, tools, model);
    /* Its answer may be kept for a key, which takes a transaction. */
    call->deadline.us = mono_now().us + tools->node->config->request_timeout;
    if (release.decided > 0)
        log_progress(&release, status == HF_OK ? "released" : "release_stopped");
    if (status == HF_OK)
        answer(&release);
    else if (status == HF_NOT_MODIFIED)
        respond_send(call); /* as it was answered before */
    else if (status_http(status) == 503 && release.total > 0)
        answer_stopped(&release, status);
    else
        respond_refusal(call, status, NULL);
}

void
seats_release(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk_long(call, release_run);
}
