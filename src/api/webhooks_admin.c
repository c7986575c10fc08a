/*
 * webhooks_admin.c - an organization's webhook, and what nobody took: PUT, GET and DELETE of
 * /api/admin/webhooks, GET .../dead-letters, POST .../dead-letters/replay.
 *
 * A secret that the server made is shown in the answer that made it, and never again; one that the
 * client gave is not shown at all.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api_internal.h"
#include "events_internal.h"
#include "holdfast/delivery.h"
#include "holdfast/log.h"
#include "idempotency.h"

#define SECRET_BYTES_MIN  16
#define SECRET_BYTES_MAX  255
#define SECRET_CHANCE     32 /* bytes of a secret of ours */
#define SECRET_PREFIX     "whsec_"
#define SECRET_TEXT_BYTES (sizeof(SECRET_PREFIX) + 2 * SECRET_CHANCE)
#define KINDS_MAX         32
#define LETTERS_MAX       100
#define REPLAY_MAX        1000

/* --- PUT: the body ------------------------------------------------------------------------------
 */

struct wish {
    struct api_call *call;
    struct slice url;
    struct slice secret; /* empty: none was given */
    bool all_kinds;
    int kind_count;
    struct slice kinds[KINDS_MAX];
    char our_secret[SECRET_TEXT_BYTES];
    struct pg_result *rows;
};

static void
read_url(struct wish *wish, const cJSON *item, struct field_errors *errors)
{
    struct arena *arena = &wish->call->arena;
    bool allow_private = wish->call->api->node->config->delivery_allow_private;

    if (item == NULL) {
        field_errors_missing(arena, errors, SLICE_LITERAL("url"));
        return;
    }
    const char *fault = cJSON_IsString(item) ? webhook_url_fault(item->valuestring, allow_private)
                                             : "is not a text";
    if (fault != NULL)
        field_errors_add(arena, errors, SLICE_LITERAL("url"), fault);
    else
        wish->url = slice_of(item->valuestring);
}

/* Printable, and without the comma that separates two during a rotation. */
static bool
secret_is_good(const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~' || text[i] == ',')
            return false;
    }
    return len >= SECRET_BYTES_MIN && len <= SECRET_BYTES_MAX;
}

static void
read_secret(struct wish *wish, const cJSON *item, struct field_errors *errors)
{
    if (item == NULL || cJSON_IsNull(item))
        return;
    if (!cJSON_IsString(item) || !secret_is_good(item->valuestring))
        field_errors_add(&wish->call->arena, errors, SLICE_LITERAL("secret"),
                         "is not 16-255 printable characters without space and comma");
    else
        wish->secret = slice_of(item->valuestring);
}

static void
read_kinds(struct wish *wish, const cJSON *list, struct field_errors *errors)
{
    const cJSON *item;

    wish->all_kinds = list == NULL || cJSON_IsNull(list);
    if (wish->all_kinds)
        return;
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (count < 1 || count > KINDS_MAX) {
        field_errors_add(&wish->call->arena, errors, SLICE_LITERAL("kinds"),
                         "is not a list of 1 to 32 kinds");
        return;
    }
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item) || !webhook_kind_is_known(slice_of(item->valuestring))) {
            field_errors_add(&wish->call->arena, errors, SLICE_LITERAL("kinds"),
                             "has something that is no kind of event");
            return;
        }
        wish->kinds[wish->kind_count++] = slice_of(item->valuestring);
    }
}

/* False: the call is answered. */
static bool
read_wish(struct wish *wish)
{
    struct field_errors errors = { 0 };
    const cJSON *json = call_json(wish->call);
    if (json == NULL)
        return false;
    read_url(wish, cJSON_GetObjectItemCaseSensitive(json, "url"), &errors);
    read_secret(wish, cJSON_GetObjectItemCaseSensitive(json, "secret"), &errors);
    read_kinds(wish, cJSON_GetObjectItemCaseSensitive(json, "kinds"), &errors);
    if (errors.count > 0)
        respond_field_errors(wish->call, &errors);
    return errors.count == 0;
}

static bool
draw_secret(char text[SECRET_TEXT_BYTES])
{
    uint8_t chance[SECRET_CHANCE];

    if (getrandom(chance, sizeof(chance), 0) != sizeof(chance))
        return false;
    memcpy(text, SECRET_PREFIX, sizeof(SECRET_PREFIX));
    for (int i = 0; i < SECRET_CHANCE; i++)
        snprintf(text + sizeof(SECRET_PREFIX) - 1 + 2 * i, 3, "%02x", chance[i]);
    return true;
}

/* --- PUT
 * ------------------------------------------------------------------------------------------ */

/* Columns of put_webhook; read_webhook begins with those from URL on. */
enum { MADE, OURS, PUT_URL, PUT_KINDS, PUT_CREATED, PUT_UPDATED };
enum { URL, KINDS, CREATED, UPDATED, FAILING_SINCE, ERROR, WAITING, DEAD };

static enum hf_status
put_body(struct pg *pg, void *context)
{
    struct wish *wish = context;
    struct pg_array kinds = { 0 };
    struct pg_params params;

    pg_result_free(&wish->rows);
    pg_array_init(&kinds, PG_TEXT);
    for (int i = 0; i < wish->kind_count; i++)
        pg_array_text(&kinds, wish->kinds[i]);
    pg_params_init(&params);
    pg_param_text(&params, call_org(wish->call));
    pg_param_text(&params, wish->url);
    if (wish->secret.len > 0)
        pg_param_text(&params, wish->secret);
    else
        pg_param_null(&params);
    if (wish->all_kinds)
        pg_param_null(&params);
    else
        pg_param_array(&params, &kinds);
    pg_param_text(&params, slice_of(wish->our_secret));
    pg_tx_send(pg, STATEMENT_PUT_WEBHOOK, &params);
    wish->rows = pg_tx_next(pg);
    pg_array_fini(&kinds);
    return wish->rows != NULL ? HF_OK : HF_INTERNAL;
}

/* url: its column; kinds and the two times follow. */
static void
write_webhook(struct json_writer *w, const struct pg_result *rows, int url)
{
    json_field_text(w, "url", pg_get_text(rows, 0, url));
    json_name(w, "kinds");
    if (pg_is_null(rows, 0, url + KINDS))
        json_null(w);
    else
        json_raw(w, pg_get_text(rows, 0, url + KINDS));
    json_field_bool(w, "has_secret", true);
    json_field_time(w, "created_at", pg_get_time(rows, 0, url + CREATED));
    json_field_time(w, "updated_at", pg_get_time(rows, 0, url + UPDATED));
}

static void
answer_put(struct wish *wish)
{
    struct buf body = { 0 };
    struct json_writer w;
    bool made = pg_get_bool(wish->rows, 0, MADE);

    json_writer_init(&w, &body);
    json_object_begin(&w);
    write_webhook(&w, wish->rows, PUT_URL);
    if (pg_get_bool(wish->rows, 0, OURS))
        json_field_text(&w, "secret", slice_of(wish->our_secret));
    json_object_end(&w);
    LOG_EVENT(LOG_INFO, "webhook_set", log_slice("org", call_org(wish->call)),
              log_slice("user", call_user(wish->call)),
              log_text("request_id", wish->call->exchange->request.request_id));
    respond_header(wish->call, "Cache-Control", SLICE_LITERAL("no-store"));
    respond_json(wish->call, made ? 201 : 200, &body);
}

static void
put_run(struct api_call *call, struct desk_tools *tools)
{
    struct wish wish = { .call = call };

    if (!read_wish(&wish))
        return;
    enum hf_status status = HF_OVERLOADED;
    if (draw_secret(wish.our_secret))
        status = tx_run(tools->node, tools->pg, call->deadline, put_body, &wish);
    if (status == HF_OK)
        answer_put(&wish);
    else
        respond_refusal(call, status, NULL);
    pg_result_free(&wish.rows);
}

void
webhook_put(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, put_run);
}

/* --- GET
 * ------------------------------------------------------------------------------------------- */

static void
answer_get(struct api_call *call, const struct pg_result *rows)
{
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    write_webhook(&w, rows, URL);
    json_field_int(&w, "waiting", pg_get_int(rows, 0, WAITING));
    json_field_int(&w, "dead_letters", pg_get_int(rows, 0, DEAD));
    if (!pg_is_null(rows, 0, FAILING_SINCE)) {
        json_field_time(&w, "failing_since", pg_get_time(rows, 0, FAILING_SINCE));
        json_field_text(&w, "error", pg_get_text(rows, 0, ERROR));
    }
    json_object_end(&w);
    respond_json(call, 200, &body);
}

static void
get_run(struct api_call *call, struct desk_tools *tools)
{
    struct pg_result *rows = NULL;
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    enum hf_status status = call_outcome(
        call, call_read(call, tools, STATEMENT_READ_WEBHOOK, &params, &rows), tools->pg);
    if (status == HF_OK && pg_rows(rows) == 0)
        status = HF_NOT_FOUND;
    if (status == HF_OK)
        answer_get(call, rows);
    else
        respond_refusal(call, status, status == HF_NOT_FOUND ? "There is no webhook." : NULL);
    pg_result_free(&rows);
}

void
webhook_get(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, get_run);
}

/* --- DELETE
 * ------------------------------------------------------------------------------------------ */

struct removal {
    struct api_call *call;
    bool found;
};

static enum hf_status
delete_body(struct pg *pg, void *context)
{
    struct removal *removal = context;
    struct pg_params params;

    pg_params_init(&params);
    pg_param_text(&params, call_org(removal->call));
    pg_tx_send(pg, STATEMENT_DELETE_WEBHOOK, &params);
    struct pg_result *rows = pg_tx_next(pg);
    if (rows == NULL)
        return HF_INTERNAL;
    removal->found = pg_get_int(rows, 0, 0) > 0;
    pg_result_free(&rows);
    return HF_OK;
}

static void
delete_run(struct api_call *call, struct desk_tools *tools)
{
    struct removal removal = { .call = call };
    enum hf_status status = tx_run(tools->node, tools->pg, call->deadline, delete_body, &removal);

    if (status == HF_OK && !removal.found) {
        respond_refusal(call, HF_NOT_FOUND, "There is no webhook.");
        return;
    }
    if (status != HF_OK) {
        respond_refusal(call, status, NULL);
        return;
    }
    LOG_EVENT(LOG_INFO, "webhook_deleted", log_slice("org", call_org(call)),
              log_slice("user", call_user(call)),
              log_text("request_id", call->exchange->request.request_id));
    respond_no_body(call, 204);
}

void
webhook_delete(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, delete_run);
}

/* --- dead letters
 * -------------------------------------------------------------------------------------- */

/* Columns of list_dead_letters. */
enum {
    L_ID,
    L_CHANNEL,
    L_EVENT,
    L_TOLD_AS,
    L_KIND,
    L_EMAIL,
    L_PAYLOAD,
    L_ATTEMPTS,
    L_ERROR,
    L_CREATED,
    L_DIED
};

static void
write_letter(struct json_writer *w, const struct pg_result *rows, int row)
{
    json_object_begin(w);
    json_field_int(w, "id", pg_get_int(rows, row, L_ID));
    json_field_text(w, "channel", pg_get_text(rows, row, L_CHANNEL));
    json_field_text(w, "event_id", pg_get_text(rows, row, L_EVENT));
    json_field_int(w, "told_as", pg_get_int(rows, row, L_TOLD_AS));
    json_field_text(w, "kind", pg_get_text(rows, row, L_KIND));
    if (!pg_is_null(rows, row, L_EMAIL))
        json_field_text(w, "email", pg_get_text(rows, row, L_EMAIL));
    json_name(w, "data");
    json_raw(w, pg_get_text(rows, row, L_PAYLOAD));
    json_field_int(w, "attempts", pg_get_int(rows, row, L_ATTEMPTS));
    json_field_text(w, "error", pg_get_text(rows, row, L_ERROR));
    json_field_time(w, "created_at", pg_get_time(rows, row, L_CREATED));
    json_field_time(w, "died_at", pg_get_time(rows, row, L_DIED));
    json_object_end(w);
}

struct list_wish {
    int64_t after, limit;
};

static void
write_letters(struct buf *body, const struct pg_result *rows, int64_t limit)
{
    struct json_writer w;
    int count = pg_rows(rows) > limit ? (int)limit : pg_rows(rows);

    json_writer_init(&w, body);
    json_object_begin(&w);
    json_name(&w, "dead_letters");
    json_array_begin(&w);
    for (int row = 0; row < count; row++)
        write_letter(&w, rows, row);
    json_array_end(&w);
    if (pg_rows(rows) > count) /* one more was asked for, to know whether there is a next page */
        json_field_int(&w, "next", pg_get_int(rows, count - 1, L_ID));
    json_object_end(&w);
}

static void
letters_run(struct api_call *call, struct desk_tools *tools)
{
    const struct list_wish *wish = call->state;
    struct pg_result *rows = NULL;
    struct pg_params params;
    struct buf body = { 0 };

    pg_params_init(&params);
    pg_param_text(&params, call_org(call));
    pg_param_int8(&params, wish->after);
    pg_param_int4(&params, (int32_t)wish->limit + 1);
    enum hf_status status = call_outcome(
        call, call_read(call, tools, STATEMENT_LIST_DEAD_LETTERS, &params, &rows), tools->pg);
    if (status == HF_OK) {
        write_letters(&body, rows, wish->limit);
        respond_json(call, 200, &body);
    } else {
        respond_refusal(call, status, NULL);
    }
    pg_result_free(&rows);
}

void
webhook_letters_get(struct api *api, struct api_call *call)
{
    (void)api;
    struct list_wish *wish = arena_alloc(&call->arena, sizeof(*wish));
    if (wish == NULL) {
        respond_refusal(call, HF_OVERLOADED, NULL);
        return;
    }
    if (!call_query_int(call, "after", 0, INT64_MAX, 0, &wish->after) ||
        !call_query_int(call, "limit", 1, LETTERS_MAX, LETTERS_MAX, &wish->limit))
        return;
    call->state = wish;
    call_on_desk(call, letters_run);
}

/* --- replay
 * --------------------------------------------------------------------------------------------- */

struct replay {
    struct api_call *call;
    bool all;
    int count;
    int64_t ids[REPLAY_MAX];
    int64_t replayed;
    bool left;
};

/* False: the call is answered. */
static bool
read_replay(struct replay *replay)
{
    const cJSON *json = call_json(replay->call);
    if (json == NULL)
        return false;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "ids");
    const cJSON *item;
    replay->all = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "all"));
    if (replay->all && list == NULL)
        return true;
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    bool good = !replay->all && count >= 1 && count <= REPLAY_MAX;
    if (good) {
        cJSON_ArrayForEach(item, list) good =
            good && json_is_int(item, 1, INT64_MAX, &replay->ids[replay->count++]);
    }
    if (!good)
        respond_field_error(replay->call, "ids", "is not a list of 1 to 1000 ids (or all: true)");
    return good;
}

static enum hf_status
replay_body(struct pg *pg, void *context)
{
    struct replay *replay = context;
    struct pg_array ids = { 0 };
    struct pg_params params;

    pg_array_init(&ids, PG_INT8);
    for (int i = 0; i < replay->count; i++)
        pg_array_int(&ids, replay->ids[i]);
    pg_params_init(&params);
    pg_param_text(&params, call_org(replay->call));
    if (replay->all)
        pg_param_null(&params);
    else
        pg_param_array(&params, &ids);
    pg_param_int4(&params, REPLAY_MAX);
    pg_tx_send(pg, STATEMENT_REPLAY_DEAD_LETTERS, &params);
    struct pg_result *rows = pg_tx_next(pg);
    pg_array_fini(&ids);
    if (rows == NULL)
        return HF_INTERNAL;
    replay->replayed = pg_get_int(rows, 0, 0);
    replay->left = pg_get_bool(rows, 0, 1);
    pg_result_free(&rows);
    return HF_OK;
}

static void
answer_replay(struct replay *replay)
{
    struct buf body = { 0 };
    struct json_writer w;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_field_int(&w, "replayed", replay->replayed);
    json_field_bool(&w, "more", replay->left);
    json_object_end(&w);
    LOG_EVENT(LOG_INFO, "dead_letters_replayed", log_slice("org", call_org(replay->call)),
              log_slice("user", call_user(replay->call)), log_int("events", replay->replayed),
              log_text("request_id", replay->call->exchange->request.request_id));
    respond_json(replay->call, 200, &body);
}

static void
replay_run(struct api_call *call, struct desk_tools *tools)
{
    struct replay replay = { .call = call };

    if (!idempotency_is_new(call, tools->pg) || !read_replay(&replay))
        return;
    enum hf_status status = tx_run(tools->node, tools->pg, call->deadline, replay_body, &replay);
    if (status == HF_OK)
        answer_replay(&replay);
    else
        respond_refusal(call, status, NULL);
}

void
webhook_letters_replay(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk(call, replay_run);
}
