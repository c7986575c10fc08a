/*
 * seats_import.c - a CSV file into an event, in one transaction; for the API and the shell.
 */
#include <string.h>

#include "events_internal.h"
#include "holdfast/seat_import.h"

struct import_tx {
    const struct seat_import *import;
    const struct seat_batch *batch;
    struct seat_changes *changes;
};

static void
add_event(struct pg_params *params, const struct seat_import *import)
{
    pg_params_init(params);
    pg_param_text(params, import->org);
    pg_param_text(params, import->event);
}

static enum hf_status
lock_event(struct pg *pg, const struct seat_import *import)
{
    struct pg_params params;

    add_event(&params, import);
    pg_tx_send(pg, STATEMENT_LOCK_EVENT, &params);
    struct pg_result *rows = pg_tx_next(pg);
    if (rows == NULL)
        return HF_INTERNAL;
    enum hf_status status = pg_rows(rows) > 0 ? HF_OK : HF_EVENT_NOT_FOUND;
    pg_result_free(&rows);
    return status;
}

static enum hf_status
touch_event(struct pg *pg, const struct import_tx *tx)
{
    struct buf meta = { 0 };
    struct json_writer w;
    struct pg_params params;

    json_writer_init(&w, &meta);
    json_object_begin(&w);
    json_field_int(&w, "seats_added", tx->changes->added);
    json_field_int(&w, "seats_changed", tx->changes->changed);
    json_object_end(&w);
    add_event(&params, tx->import);
    pg_param_optional(&params, tx->import->actor);
    pg_param_optional(&params, tx->import->request_id);
    pg_param_text(&params, buf_slice(&meta));
    pg_param_optional(&params, tx->import->client_ip);
    pg_param_optional(&params, tx->import->user_agent);
    pg_tx_send(pg, STATEMENT_TOUCH_EVENT, &params);
    struct pg_result *rows = meta.failed ? NULL : pg_tx_next(pg);
    buf_fini(&meta);
    if (rows == NULL)
        return HF_INTERNAL;
    tx->changes->event_version = pg_get_int(rows, 0, 0);
    pg_result_free(&rows);
    return HF_OK;
}

static enum hf_status
import_body(struct pg *pg, void *context)
{
    struct import_tx *tx = context;

    seat_changes_fini(tx->changes);
    enum hf_status status = lock_event(pg, tx->import);
    if (status != HF_OK)
        return status;
    const struct seat_import *import = tx->import;
    struct seat_origin origin = { import->org,        import->event,     import->actor,
                                  import->request_id, import->client_ip, import->user_agent };
    if (!seat_batch_send(pg, tx->batch, &origin, tx->changes))
        return HF_INTERNAL;
    bool changed = tx->changes->added > 0 || tx->changes->changed > 0;
    return changed ? touch_event(pg, tx) : HF_OK;
}

enum hf_status
seat_import_run(struct pg *pg, struct arena *arena, const struct seat_import *import,
                struct seat_import_result *result)
{
    struct seat_batch batch = { 0 };
    struct import_errors *errors = arena_alloc(arena, sizeof(*errors));
    struct seat_changes *changes = arena_alloc(arena, sizeof(*changes));
    enum hf_status status = HF_OVERLOADED; /* no memory */

    memset(result, 0, sizeof(*result));
    result->changes = changes;
    if (errors != NULL && changes != NULL && import_read_csv(arena, import->csv, &batch, errors)) {
        struct import_tx tx = { .import = import, .batch = &batch, .changes = changes };
        if (errors->count > 0) {
            result->errors = errors;
            status = HF_INVALID_FIELD;
        } else {
            tx_replan(pg);
            status = tx_run(import->node, pg, import->deadline, import_body, &tx);
        }
        if (status == HF_OK) {
            result->imported = changes->added;
            result->updated = changes->changed;
        }
    }
    seat_batch_fini(&batch);
    return status;
}

void
seat_import_result_fini(struct seat_import_result *result)
{
    if (result->changes != NULL)
        seat_changes_fini(result->changes);
}

static void
write_error(struct json_writer *w, const struct import_error *error)
{
    json_object_begin(w);
    json_field_int(w, "line", error->line);
    json_field_text(w, "field", error->field);
    json_field_text(w, "reason", slice_of(error->reason));
    json_object_end(w);
}

void
seat_import_write(struct buf *out, const struct seat_import_result *result)
{
    struct json_writer w;

    json_writer_init(&w, out);
    json_object_begin(&w);
    json_field_int(&w, "imported", result->imported);
    json_field_int(&w, "updated", result->updated);
    json_name(&w, "errors");
    json_array_begin(&w);
    for (int64_t i = 0;
         result->errors != NULL && i < result->errors->count && i < IMPORT_ERRORS_MAX; i++)
        write_error(&w, &result->errors->items[i]);
    json_array_end(&w);
    json_object_end(&w);
}
