/*
 * checkins_import.c - POST /checkins/import: the passengers of flights from a CSV file, all or
 * none.
 *
 *   passenger_id,last_name,flight_id
 *
 * The lines are sorted by flight and passenger: so a passenger who is there twice is found, each
 * flight is looked up once, and two files that are imported at once wait for each other in one
 * order.
 */
#include <stdlib.h>
#include <string.h>

#include "checkin.h"
#include "csv_table.h"
#include "events_internal.h"
#include "hold_request.h"
#include "idempotency.h"
#include "import_answer.h"
#include "op_call.h"
#include "holdfast/metrics.h"

#define IMPORT_TIME_US (60 * (int64_t)TIME_US_PER_S)
#define PORTION        5000 /* of one run of put_checkins */
#define LINES_AT_FIRST 1024

enum column { PASSENGER, LAST_NAME, FLIGHT, COLUMN_COUNT };

static const struct csv_column columns[COLUMN_COUNT] = {
    [PASSENGER] = { "passenger_id", true },
    [LAST_NAME] = { "last_name", true },
    [FLIGHT] = { "flight_id", true },
};

struct line {
    struct checkin_wish wish;
    int64_t number;
};

struct passengers {
    struct api_call *call;
    struct csv_table table;
    struct import_errors *errors;
    struct line *lines;
    struct checkin_wish *wishes; /* those of the lines, in their order */
    size_t count, room;
    int64_t made, changed;
};

/* --- the file ------------------------------------------------------------------------------ */

static struct slice
read_id(struct csv_table *table, enum column column)
{
    struct slice id = csv_table_value(table, column);

    if (id.len == 0)
        csv_table_wrong(table, column, "is missing");
    else if (!id_is_valid(id))
        csv_table_wrong(table, column, "is not 1-64 characters of [A-Za-z0-9._-]");
    return id;
}

static struct slice
read_name(struct csv_table *table)
{
    struct slice name = trim_blanks(csv_table_value(table, LAST_NAME));

    if (name.len == 0)
        csv_table_wrong(table, LAST_NAME, "is missing");
    else if (!word_is_good(name, LAST_NAME_MAX))
        csv_table_wrong(table, LAST_NAME, "is not 1-128 characters of UTF-8 text");
    return name;
}

static bool
has_room(struct passengers *list)
{
    size_t room = list->room == 0 ? LINES_AT_FIRST : list->room * 2;

    if (list->count < list->room)
        return true;
    struct line *lines = realloc(list->lines, room * sizeof(*lines));
    if (lines == NULL)
        return false;
    list->lines = lines;
    list->room = room;
    return true;
}

static int
compare_slices(struct slice a, struct slice b)
{
    int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int
compare_wishes(const struct checkin_wish *a, const struct checkin_wish *b)
{
    int order = compare_slices(a->event, b->event);

    return order != 0 ? order : compare_slices(a->passenger, b->passenger);
}

static int
compare_lines(const void *left, const void *right)
{
    const struct line *a = left, *b = right;
    int order = compare_wishes(&a->wish, &b->wish);

    return order != 0 ? order : (a->number > b->number) - (a->number < b->number);
}

static void
find_twice(struct passengers *list)
{
    qsort(list->lines, list->count, sizeof(*list->lines), compare_lines);
    for (size_t i = 1; i < list->count; i++) {
        if (compare_wishes(&list->lines[i - 1].wish, &list->lines[i].wish) == 0)
            csv_table_wrong_line(&list->table, list->lines[i].number,
                                 slice_of(columns[PASSENGER].name),
                                 "is on this flight's list twice");
    }
}

/* False: no memory. */
static bool
read_file(struct passengers *list, struct slice csv)
{
    enum csv_answer answer = CSV_END;

    if (!csv_table_open(&list->table, &list->call->arena, columns, COLUMN_COUNT, csv, list->errors))
        return false;
    bool is_good = list->errors->count == 0;
    while (is_good && (answer = csv_table_next(&list->table)) == CSV_RECORD) {
        if (!has_room(list))
            return false;
        list->lines[list->count++] = (struct line){ { .event = read_id(&list->table, FLIGHT),
                                                      .passenger = read_id(&list->table, PASSENGER),
                                                      .last_name = read_name(&list->table) },
                                                    list->table.record.line };
    }
    if (answer == CSV_NO_MEMORY)
        return false;
    if (list->errors->count == 0)
        find_twice(list);
    list->wishes = calloc(list->count + 1, sizeof(*list->wishes));
    for (size_t i = 0; list->wishes != NULL && i < list->count; i++)
        list->wishes[i] = list->lines[i].wish;
    return list->wishes != NULL;
}

/* --- the transaction ------------------------------------------------------------------- */

static bool
is_of(const struct checkin_wish *wish, const struct pg_result *rows, int row)
{
    return row < pg_rows(rows) && slice_equal(wish->event, pg_get_text(rows, row, PC_EVENT)) &&
           slice_equal(wish->passenger, pg_get_text(rows, row, PC_PASSENGER));
}

/* The rows come in the order of the lines; those for which there is none are for no flight of ours.
 */
static void
take_rows(struct passengers *list, const struct pg_result *rows, size_t first, size_t count)
{
    int row = 0;

    for (size_t i = first; i < first + count; i++) {
        if (is_of(&list->wishes[i], rows, row)) {
            list->made += pg_get_bool(rows, row, PC_MADE);
            list->changed += pg_get_bool(rows, row, PC_CHANGED);
            row++;
        } else {
            csv_table_wrong_line(&list->table, list->lines[i].number,
                                 slice_of(columns[FLIGHT].name), "is no flight");
        }
    }
}

static void
write_done(struct json_writer *w, const void *what)
{
    const struct passengers *list = what;

    json_object_begin(w);
    json_field_int(w, "imported", list->made);
    json_field_int(w, "updated", list->changed);
    json_name(w, "errors");
    json_array_begin(w);
    json_array_end(w);
    json_object_end(w);
}

static enum hf_status
put_body(struct pg *pg, void *context)
{
    struct passengers *list = context;

    list->made = list->changed = list->errors->count = 0;
    for (size_t first = 0; first < list->count; first += PORTION) {
        size_t count = list->count - first < PORTION ? list->count - first : PORTION;
        checkins_send_put(pg, list->call, list->wishes + first, count);
        struct pg_result *rows = pg_tx_next(pg);
        if (rows == NULL)
            return HF_INTERNAL;
        take_rows(list, rows, first, count);
        pg_result_free(&rows);
    }
    if (list->errors->count > 0)
        return HF_INVALID_FIELD;
    op_write_json(list->call, HF_OK, write_done, list);
    return HF_OK;
}

/* HF_OK: the call is answered. */
static enum hf_status
import_list(struct passengers *list, struct pg *pg)
{
    if (list->errors == NULL || !read_file(list, list->call->exchange->request.body))
        return HF_OVERLOADED;
    if (list->errors->count > 0)
        return HF_INVALID_FIELD;
    tx_replan(pg);
    return idempotency_run(list->call, pg, put_body, list);
}

static void
import_run(struct api_call *call, struct desk_tools *tools)
{
    struct passengers list = { .call = call };

    if (!idempotency_is_new(call, tools->pg))
        return;
    call->deadline.us = mono_now().us + IMPORT_TIME_US;
    list.errors = arena_alloc(&call->arena, sizeof(*list.errors));
    enum hf_status status = import_list(&list, tools->pg);
    if (status == HF_INVALID_FIELD)
        import_answer_errors(call, list.errors);
    else if (status != HF_OK)
        respond_refusal(call, status, NULL);
    else
        metric_add(METRIC_CHECKINS_CREATED_TOTAL, (uint64_t)list.made);
    free(list.lines);
    free(list.wishes);
}

void
checkins_import(struct api *api, struct api_call *call)
{
    (void)api;
    call_on_desk_long(call, import_run);
}
