/*
 * seats_read.c - GET /api/events/{event}/seats/{seat}: hot table, then Redis, then Postgres.
 *
 * Memory answers while its entry is trusted. It knows users only as hashes, and equal
 * hashes prove nothing: whether a held seat is the caller's own is Postgres' to say.
 * Redis may serve a hold of this very seat that is surely alive, while its event is trusted there
 * and for as long after the commit as memory may say "taken" (hot_lease); nothing else, and nothing
 * that was read from it is kept. Where Postgres says otherwise the key is dropped, and repair looks
 * at the event within a second.
 * While Postgres is away a whole value is told whatever its age, marked X-Holdfast-Stale.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_internal.h"
#include "events_internal.h"
#include "holdfast/fanout.h"
#include "holdfast/metrics.h"
#include "holdfast/warm_repair.h"

/* One seat as it is to be shown. */
struct shown_seat {
    enum seat_status status;
    int64_t version;
    struct db_time until; /* of a held one */
    bool mine;
    enum op_tier tier;
    bool stale; /* Postgres is away, and this may be over */
};

static void
count_tier(enum op_tier tier)
{
    switch (tier) {
    case TIER_HOT:
        metric_add(METRIC_SEAT_READS_HOT_TOTAL, 1);
        break;
    case TIER_REDIS:
        metric_add(METRIC_SEAT_READS_REDIS_TOTAL, 1);
        break;
    case TIER_POSTGRES:
        metric_add(METRIC_SEAT_READS_PG_TOTAL, 1);
        break;
    }
}

static void
write_seat(struct buf *body, const struct api_call *call, const struct shown_seat *seat)
{
    struct json_writer w;
    char time[DB_TIME_TEXT_BYTES];

    json_writer_init(&w, body);
    json_object_begin(&w);
    json_field_text(&w, "seat_id", call->seat);
    json_field_text(&w, "status", slice_of(seat_status_word(seat->status)));
    json_field_int(&w, "version", seat->version);
    if (seat->status == SEAT_HELD) {
        db_time_format(seat->until, time);
        json_field_text(&w, "held_until", slice_of(time));
    }
    if (seat->mine)
        json_field_bool(&w, "mine", true);
    json_object_end(&w);
}

/* The version says all that changes, but for time (a hold that is over) and who is asking. */
static void
write_etag(char *text, size_t bytes, const struct shown_seat *seat)
{
    snprintf(text, bytes, "W/\"%lld-%s%s\"", (long long)seat->version,
             seat_status_word(seat->status), seat->mine ? "-mine" : "");
}

static bool
is_still_true(struct slice if_none_match, const char *etag)
{
    const char *quoted = etag + 2; /* weak comparison: what stands after W/ */

    return if_none_match.len > 0 &&
           (slice_is(if_none_match, "*") ||
            memmem(if_none_match.ptr, if_none_match.len, quoted, strlen(quoted)) != NULL);
}

static void
answer(struct api_call *call, const struct shown_seat *seat)
{
    struct buf body = { 0 };
    char etag[64];

    count_tier(seat->tier);
    respond_tier(call, seat->tier);
    if (seat->stale)
        respond_header(call, "X-Holdfast-Stale", SLICE_LITERAL("true"));
    write_etag(etag, sizeof(etag), seat);
    respond_header(call, "ETag", slice_of(etag));
    if (is_still_true(call->exchange->request.if_none_match, etag)) {
        respond_no_body(call, 304);
        return;
    }
    write_seat(&body, call, seat);
    respond_json(call, 200, &body);
}

/* Past its end a hold shows as free, unless its payment is being decided. */
static struct shown_seat
shown(const struct seat_view *view, struct db_time now, enum op_tier tier)
{
    struct shown_seat seat = {
        .status = view->status, .version = view->version, .until = view->held_until, .tier = tier
    };

    if (seat.status == SEAT_HELD && !view->in_payment && view->held_until.us <= now.us)
        seat.status = SEAT_AVAILABLE;
    return seat;
}

static struct seat_key
key_of(const struct api_call *call)
{
    return (struct seat_key){ call_org(call), call->event, call->seat };
}

/* --- memory ------------------------------------------------------------------------------- */

/*
 * Who was told that a seat is his must not be shown it free for long. A node that is killed after
 * its answer and before it told the others is missed only when it has been silent for a while: so
 * beside other nodes memory calls a seat free only as long as it would refuse without trust.
 */
static bool
memory_may_say(struct api *api, const struct seat_view *view, struct mono_time now)
{
    if (view->status == SEAT_AVAILABLE)
        return now.us - view->began.us < api->node->config->hot_lease ||
               fanout_is_alone(api->node->fanout);
    return view->status != SEAT_REMOVED;
}

/* True: *seat is what memory may say to this caller. */
static bool
find_in_memory(struct api *api, struct api_call *call, struct shown_seat *seat)
{
    struct seat_key key = key_of(call);
    struct seat_view view;
    struct db_time now;
    int64_t error_us;
    struct mono_time mono = mono_now();

    if (!db_clock_read(api->node->clock, mono, &now, &error_us) ||
        !hot_table_read(api->node->hot, &key, now, error_us, mono, &view) ||
        !memory_may_say(api, &view, mono))
        return false;
    struct slice user = call_user(call);
    if ((view.status == SEAT_HELD || view.status == SEAT_SOLD) &&
        view.user_hash == hash_seeded(user.ptr, user.len))
        return false;
    *seat = shown(&view, now, TIER_HOT);
    return true;
}

/* --- Redis -------------------------------------------------------------------------------- */

/* What Redis has of the seat. */
struct redis_word {
    char *text; /* NULL: nothing */
    size_t len;
    bool whole; /* a value of this seat: */
    struct warm_reading reading;
};

static void
ask_redis(struct api_call *call, struct desk_tools *tools, struct redis_word *word)
{
    *word = (struct redis_word){ 0 };
    word->whole = warm_get_seat(tools->warm, call_org(call), call->event, call->seat, &word->text,
                                &word->len) &&
                  warm_value_read((struct slice){ word->text, word->len }, call_org(call),
                                  call->event, call->seat, &word->reading);
}

/* True: a hold that was committed at most hot_lease ago and is surely alive. */
static bool
is_fresh(struct api_call *call, const struct warm_reading *reading, struct db_time now,
         int64_t error_us)
{
    const struct node *node = call->api->node;
    int64_t age_us = now.us + error_us - reading->as_of.us;

    return age_us >= 0 && age_us <= node->config->hot_lease &&
           warm_tier_trusts(node->tier, call_org(call), call->event);
}

/* True: *seat is what Redis may say, or may say while Postgres is away (`stale`). */
static bool
believe_redis(struct api_call *call, const struct redis_word *word, bool even_stale,
              struct shown_seat *seat)
{
    const struct warm_reading *reading = &word->reading;
    struct db_time now;
    int64_t error_us;

    if (!word->whole || !db_clock_read(call->api->node->clock, mono_now(), &now, &error_us) ||
        reading->held_until.us <= now.us + error_us)
        return false;
    *seat = (struct shown_seat){ .status = SEAT_HELD,
                                 .version = reading->version,
                                 .until = reading->held_until,
                                 .mine = slice_is(call_user(call), reading->user),
                                 .tier = TIER_REDIS,
                                 .stale = !is_fresh(call, reading, now, error_us) };
    return even_stale || !seat->stale;
}

/* --- Postgres ------------------------------------------------------------------------------- */

/* Columns of read_seat. */
enum { EVENT_EXISTS, STATUS, IN_PAYMENT, VERSION, HOLD, USER, UNTIL, NOW, CART, SOURCE, BORN };
static const struct seat_columns columns = { .seat = -1,
                                             .version = VERSION,
                                             .status = STATUS,
                                             .hold = HOLD,
                                             .user = USER,
                                             .until = UNTIL,
                                             .in_payment = IN_PAYMENT,
                                             .now = NOW,
                                             .ended = -1 };

static enum hf_status
judge_row(struct api_call *call, const struct pg_result *rows, struct seat_view *view,
          struct shown_seat *seat)
{
    if (!pg_get_bool(rows, 0, EVENT_EXISTS))
        return HF_EVENT_NOT_FOUND;
    if (pg_is_null(rows, 0, STATUS) || !seat_view_read(rows, 0, &columns, view) ||
        view->status == SEAT_REMOVED)
        return HF_SEAT_NOT_FOUND;
    *seat = shown(view, pg_get_time(rows, 0, NOW), TIER_POSTGRES);
    seat->mine = (seat->status == SEAT_HELD || seat->status == SEAT_SOLD) &&
                 slice_equal(pg_get_text(rows, 0, USER), call_user(call));
    return HF_OK;
}

/* The hold on a held seat, as Redis should have it. */
static struct warm_hold
read_hold(const struct api_call *call, const struct pg_result *rows, const struct seat_view *view)
{
    return (struct warm_hold){ .org = call_org(call),
                               .event = call->event,
                               .seat = call->seat,
                               .user = pg_get_text(rows, 0, USER),
                               .cart_token = pg_get_text(rows, 0, CART),
                               .source = pg_get_text(rows, 0, SOURCE),
                               .hold_id = view->hold_id,
                               .held_at = pg_get_time(rows, 0, BORN),
                               .held_until = view->held_until,
                               .version = view->version };
}

/* True: the key says what Postgres says, or nothing can be said (held by no line: verify tells). */
static bool
is_right(const struct api_call *call, const struct redis_word *word, const struct pg_result *rows,
         const struct seat_view *view)
{
    if (word->text == NULL || view->status != SEAT_HELD)
        return word->text == NULL;
    if (pg_is_null(rows, 0, CART))
        return true;
    struct warm_hold hold = read_hold(call, rows, view);
    return warm_value_is((struct slice){ word->text, word->len }, &hold);
}

/*
 * Only repair writes what should stand there: until a read had written it, the hold may have ended
 * or the next one begun, and nobody would look again. What is dropped was read before Postgres was
 * asked: what came since reads differently, and stays.
 */
static void
drop_what_is_wrong(struct api_call *call, struct desk_tools *tools, const struct redis_word *word)
{
    struct warm_found found = { .seat = call->seat, .text = { word->text, word->len } };

    if (warm_drop_seats(tools->warm, call_org(call), call->event, &found, 1) != 1)
        return;
    metric_add(METRIC_SEAT_READS_MENDED_TOTAL, 1);
    warm_tier_doubt(tools->node->tier, call_org(call), call->event);
}

static enum hf_status
find_in_postgres(struct api_call *call, struct desk_tools *tools, const struct redis_word *word,
                 struct shown_seat *seat)
{
    struct hot_table *hot = tools->node->hot;
    struct seat_key key = key_of(call);
    struct mono_time began = mono_now();
    uint64_t change_count = hot_table_change_count(hot, &key);
    struct pg_params params;
    struct pg_result *rows = NULL;
    struct seat_view view;

    pg_params_init(&params);
    pg_param_text(&params, key.org);
    pg_param_text(&params, key.event);
    pg_param_text(&params, key.seat);
    enum hf_status status =
        call_outcome(call, call_read(call, tools, STATEMENT_READ_SEAT, &params, &rows), tools->pg);
    if (status == HF_OK)
        status = judge_row(call, rows, &view, seat);
    if (status == HF_OK) {
        (void)hot_table_fill(hot, &key, &view, began,
                             change_count); /* if nothing moved meanwhile */
        if (!is_right(call, word, rows, &view))
            drop_what_is_wrong(call, tools, word);
    }
    pg_result_free(&rows);
    return status;
}

static void
seat_run(struct api_call *call, struct desk_tools *tools)
{
    struct redis_word word = { 0 };
    struct shown_seat seat;
    enum hf_status status = HF_OK;

    /* One of a crowd may have asked Postgres while this one waited. */
    if (!find_in_memory(call->api, call, &seat)) {
        ask_redis(call, tools, &word);
        if (!believe_redis(call, &word, false, &seat))
            status = find_in_postgres(call, tools, &word, &seat);
        if (status == HF_STORE_UNAVAILABLE && believe_redis(call, &word, true, &seat))
            status = HF_OK;
    }
    free(word.text);
    if (status == HF_OK)
        answer(call, &seat);
    else
        respond_refusal(call, status, NULL);
}

/* Postgres is away: what Redis has is all there is. */
static void
seat_fail(struct api_call *call, struct desk_tools *tools, enum hf_status status)
{
    struct redis_word word = { 0 };
    struct shown_seat seat;

    if (status == HF_STORE_UNAVAILABLE && tools != NULL)
        ask_redis(call, tools, &word);
    bool told = believe_redis(call, &word, true, &seat);
    free(word.text);
    if (told)
        answer(call, &seat);
    else
        respond_refusal(call, status, NULL);
}

/* --- on the loop ------------------------------------------------------------------------------ */

void
seat_get(struct api *api, struct api_call *call)
{
    struct shown_seat seat;

    if (find_in_memory(api, call, &seat))
        answer(call, &seat);
    else
        call_on_desk_or(call, seat_run, seat_fail);
}
