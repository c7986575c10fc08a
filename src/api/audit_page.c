/*
 * audit_page.c - which page of the audit log a request asks for, and how it is answered.
 */
#include "audit_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "holdfast/json.h"

#define LIMIT_DEFAULT    100
#define LIMIT_MAX        1000
#define PLACE_TEXT_BYTES 48

/* --- the question ------------------------------------------------------------- */

static void
place_format(struct audit_place place, char text[PLACE_TEXT_BYTES])
{
    snprintf(text, PLACE_TEXT_BYTES, "%" PRId64 "-%" PRId64, place.at_us, place.id);
}

/* As place_format writes it, and in no other way. */
static bool
place_parse(struct slice text, struct audit_place *place)
{
    char given[PLACE_TEXT_BYTES], again[PLACE_TEXT_BYTES];

    if (text.len >= sizeof(given))
        return false;
    snprintf(given, sizeof(given), "%.*s", SLICE_ARG(text));
    if (sscanf(given, "%18" SCNd64 "-%18" SCNd64, &place->at_us, &place->id) != 2 ||
        place->at_us < 0 || place->id < 0)
        return false;
    place_format(*place, again);
    return strcmp(given, again) == 0;
}

/* Where the page begins: at `after`, `to` or now, whichever is the oldest. False: answered. */
static bool
read_begin(struct api_call *call, struct audit_question *question)
{
    struct slice after;
    struct audit_place place;
    struct db_time to;
    int64_t error_us;

    to.us = call_now(call->api, &error_us).us + error_us + CLOCK_LEEWAY_US;
    question->before.at_us = to.us;
    question->before.id = 0;
    if (!call_query_time(call, "to", &to))
        return false;
    if (to.us < question->before.at_us)
        question->before.at_us = to.us;
    if (!call_query(call, "after", &after))
        return true;
    if (!place_parse(after, &place)) {
        respond_field_error(call, "after", "is not the `next` of a page");
        return false;
    }
    if (place.at_us < question->before.at_us)
        question->before = place;
    return true;
}

bool
audit_page_read(struct api_call *call, struct audit_question *question)
{
    struct db_time from = { 0 };
    int64_t limit;

    if (!call_query_time(call, "from", &from) || !read_begin(call, question) ||
        !call_query_int(call, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT, &limit))
        return false;
    question->from_us = from.us;
    question->limit = (int)limit;
    return true;
}

enum pg_outcome
audit_page_find(struct api_call *call, struct desk_tools *tools,
                const struct audit_question *question, struct audit_found *found)
{
    enum pg_outcome outcome = audit_search(tools->pg, question, call->deadline, found);

    if (outcome == PG_UNAVAILABLE && pg_ready_until(tools->pg, call->deadline)) {
        audit_found_fini(found); /* an idle connection's death shows only when it is used */
        outcome = audit_search(tools->pg, question, call->deadline, found);
    }
    return outcome;
}

/* --- the answer ------------------------------------------------------------------ */

static void
write_next(struct json_writer *w, const struct pg_result *rows, int row)
{
    char next[PLACE_TEXT_BYTES];

    place_format(
        (struct audit_place){ pg_get_time(rows, row, AC_AT).us, pg_get_int(rows, row, AC_ID) },
        next);
    json_field_text(w, "next", slice_of(next));
}

void
audit_page_answer(struct api_call *call, const struct audit_found *found, const char *name,
                  audit_page_entry *write)
{
    const struct pg_result *last = NULL;
    struct buf body = { 0 };
    struct json_writer w;
    int written = 0, last_row = 0;

    json_writer_init(&w, &body);
    json_object_begin(&w);
    json_name(&w, name);
    json_array_begin(&w);
    for (int part = 0; part < found->part_count; part++) {
        int rows = pg_rows(found->parts[part]);
        for (int row = 0; row < rows && written < found->count; row++, written++) {
            last = found->parts[part];
            last_row = row;
            write(&w, last, row);
        }
    }
    json_array_end(&w);
    if (found->more && last != NULL)
        write_next(&w, last, last_row);
    json_object_end(&w);
    respond_json(call, 200, &body);
}
