/*
 * seats_batch.c - seats on their way to Postgres: columns in portions, and no id twice.
 *
 * A portion is one run of change_seats, and one of add_seats: large enough that its cost per seat
 * is that of the rows alone, small enough that its answer and its locks stay modest.
 */
#include <stdlib.h>
#include <string.h>

#include "events_internal.h"
#include "holdfast/ids.h"

#define CHUNK_SEATS    5000
#define SLOTS_AT_FIRST 1024

/* In the order of the parameters of change_seats and add_seats. */
enum column { SEAT, SECTION, ROW, NUMBER, TYPE, PRICE, X, Y, ATTRIBUTES, COLUMN_COUNT };

static const enum pg_type column_types[COLUMN_COUNT] = {
    [SEAT] = PG_TEXT,   [SECTION] = PG_TEXT, [ROW] = PG_TEXT,
    [NUMBER] = PG_TEXT, [TYPE] = PG_TEXT,    [PRICE] = PG_INT8,
    [X] = PG_FLOAT8,    [Y] = PG_FLOAT8,     [ATTRIBUTES] = PG_JSONB,
};

struct seat_chunk {
    struct seat_chunk *next;
    int count;
    struct pg_array columns[COLUMN_COUNT];
};

struct id_slot {
    struct slice id; /* ptr NULL: free */
};

/* --- the set of ids ------------------------------------------------------------ */

/* The slot that has the id, or the free one where it belongs. */
static struct id_slot *
slot_of(struct id_slot *slots, size_t slot_count, struct slice id)
{
    size_t at = (size_t)hash_seeded(id.ptr, id.len) & (slot_count - 1);

    while (slots[at].id.ptr != NULL && !slice_equal(slots[at].id, id))
        at = (at + 1) & (slot_count - 1);
    return &slots[at];
}

static bool
slots_grow(struct seat_batch *batch)
{
    size_t count = batch->slot_count == 0 ? SLOTS_AT_FIRST : batch->slot_count * 2;
    struct id_slot *slots = calloc(count, sizeof(*slots));
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < batch->slot_count; i++) {
        if (batch->slots[i].id.ptr != NULL)
            *slot_of(slots, count, batch->slots[i].id) = batch->slots[i];
    }
    free(batch->slots);
    batch->slots = slots;
    batch->slot_count = count;
    return true;
}

/* False: it is in there already (or there is no memory: the batch has failed). */
static bool
id_add(struct seat_batch *batch, struct slice id)
{
    if ((size_t)batch->count * 2 >= batch->slot_count && !slots_grow(batch)) {
        batch->failed = true;
        return true;
    }
    struct id_slot *slot = slot_of(batch->slots, batch->slot_count, id);
    if (slot->id.ptr != NULL)
        return false;
    slot->id = id;
    return true;
}

/* --- the columns ---------------------------------------------------------------- */

static struct seat_chunk *
chunk_with_room(struct seat_batch *batch)
{
    if (batch->last != NULL && batch->last->count < CHUNK_SEATS)
        return batch->last;
    struct seat_chunk *chunk = calloc(1, sizeof(*chunk));
    if (chunk == NULL)
        return NULL;
    for (int i = 0; i < COLUMN_COUNT; i++)
        pg_array_init(&chunk->columns[i], column_types[i]);
    if (batch->last != NULL)
        batch->last->next = chunk;
    else
        batch->first = chunk;
    batch->last = chunk;
    return chunk;
}

static void
add_text(struct pg_array *array, struct slice text)
{
    if (text.ptr != NULL)
        pg_array_text(array, text);
    else
        pg_array_null(array);
}

static void
add_double(struct pg_array *array, bool has, double value)
{
    if (has)
        pg_array_double(array, value);
    else
        pg_array_null(array);
}

static void
chunk_add(struct seat_chunk *chunk, const struct seat_row *row)
{
    pg_array_text(&chunk->columns[SEAT], row->seat);
    pg_array_text(&chunk->columns[SECTION], row->section);
    pg_array_text(&chunk->columns[ROW], row->row);
    pg_array_text(&chunk->columns[NUMBER], row->number);
    add_text(&chunk->columns[TYPE], row->type);
    if (row->has_price)
        pg_array_int(&chunk->columns[PRICE], row->price);
    else
        pg_array_null(&chunk->columns[PRICE]);
    add_double(&chunk->columns[X], row->has_x, row->x);
    add_double(&chunk->columns[Y], row->has_y, row->y);
    add_text(&chunk->columns[ATTRIBUTES], row->attributes);
    chunk->count++;
}

bool
seat_batch_add(struct seat_batch *batch, const struct seat_row *row)
{
    if (!id_add(batch, row->seat))
        return false;
    struct seat_chunk *chunk = chunk_with_room(batch);
    if (chunk == NULL) {
        batch->failed = true;
        return true;
    }
    chunk_add(chunk, row);
    batch->count++;
    return true;
}

void
seat_batch_fini(struct seat_batch *batch)
{
    while (batch->first != NULL) {
        struct seat_chunk *chunk = batch->first;
        batch->first = chunk->next;
        for (int i = 0; i < COLUMN_COUNT; i++)
            pg_array_fini(&chunk->columns[i]);
        free(chunk);
    }
    free(batch->slots);
    memset(batch, 0, sizeof(*batch));
}

/* --- writing them ------------------------------------------------------------------ */

void
seat_changes_fini(struct seat_changes *changes)
{
    for (int i = 0; i < changes->result_count; i++)
        pg_result_free(&changes->results[i]);
    free(changes->results);
    memset(changes, 0, sizeof(*changes));
}

static void
add_columns(struct pg_params *params, struct seat_chunk *chunk, const struct seat_origin *origin)
{
    pg_params_init(params);
    pg_param_text(params, origin->org);
    pg_param_text(params, origin->event);
    for (int i = 0; i < COLUMN_COUNT; i++)
        pg_param_array(params, &chunk->columns[i]);
}

/* NULL: the transaction has failed. */
static struct pg_result *
chunk_change(struct pg *pg, struct seat_chunk *chunk, const struct seat_origin *origin)
{
    struct pg_params params;

    add_columns(&params, chunk, origin);
    pg_param_optional(&params, origin->actor);
    pg_param_optional(&params, origin->request_id);
    pg_param_optional(&params, origin->client_ip);
    pg_param_optional(&params, origin->user_agent);
    pg_tx_send(pg, STATEMENT_CHANGE_SEATS, &params);
    return pg_tx_next(pg);
}

/* -1: the transaction has failed. */
static int64_t
chunk_add_new(struct pg *pg, struct seat_chunk *chunk, const struct seat_origin *origin)
{
    struct pg_params params;

    add_columns(&params, chunk, origin);
    pg_tx_send(pg, STATEMENT_ADD_SEATS, &params);
    struct pg_result *rows = pg_tx_next(pg);
    if (rows == NULL)
        return -1;
    int64_t added = pg_get_int(rows, 0, 0);
    pg_result_free(&rows);
    return added;
}

static int
chunk_count(const struct seat_batch *batch)
{
    int count = 0;

    for (const struct seat_chunk *chunk = batch->first; chunk != NULL; chunk = chunk->next)
        count++;
    return count;
}

/*
 * All changes come before the first new seat: the plan of change_seats was made for the
 * table as it was. One portion at a time: the answers of many would fill both ends' buffers.
 */
bool
seat_batch_send(struct pg *pg, const struct seat_batch *batch, const struct seat_origin *origin,
                struct seat_changes *changes)
{
    changes->results = calloc((size_t)chunk_count(batch) + 1, sizeof(struct pg_result *));
    if (changes->results == NULL || batch->failed)
        return false;
    for (struct seat_chunk *chunk = batch->first; chunk != NULL; chunk = chunk->next) {
        struct pg_result *rows = chunk_change(pg, chunk, origin);
        if (rows == NULL)
            return false;
        changes->results[changes->result_count++] = rows;
        changes->changed += pg_rows(rows);
    }
    for (struct seat_chunk *chunk = batch->first; chunk != NULL; chunk = chunk->next) {
        int64_t added = chunk_add_new(pg, chunk, origin);
        if (added < 0)
            return false;
        changes->added += added;
    }
    return true;
}
