/*
 * report.c - violations as they are found, and the report as JSON.
 */
#include <string.h>

#include "audit_internal.h"
#include "holdfast/json.h"

static void
copy_id(char to[ID_BYTES_MAX + 1], struct slice id)
{
    size_t len = id.len < ID_BYTES_MAX ? id.len : ID_BYTES_MAX;

    memcpy(to, id.ptr, len);
    to[len] = '\0';
}

struct audit_violation *
report_add(struct audit_report *report, const char *kind, struct slice org, struct slice event,
           struct slice seat)
{
    if (report->violation_count++ >= AUDIT_VIOLATIONS_MAX)
        return NULL;
    struct audit_violation *violation = &report->violations[report->violation_count - 1];
    memset(violation, 0, sizeof(*violation));
    violation->kind = kind;
    copy_id(violation->org, org);
    copy_id(violation->event, event);
    copy_id(violation->seat, seat);
    return violation;
}

static void
write_violation(struct json_writer *w, const struct audit_violation *violation)
{
    json_object_begin(w);
    json_field_text(w, "kind", slice_of(violation->kind));
    json_field_text(w, "org_id", slice_of(violation->org));
    json_field_text(w, "event_id", slice_of(violation->event));
    json_field_text(w, "seat_id", slice_of(violation->seat));
    json_name(w, "hold_ids");
    json_array_begin(w);
    for (int i = 0; i < violation->hold_count; i++)
        json_uuid(w, &violation->holds[i]);
    json_array_end(w);
    json_field_text(w, "detail", slice_of(violation->detail));
    json_object_end(w);
}

void
audit_report_write(struct buf *out, const struct audit_report *report)
{
    struct json_writer w;

    json_writer_init(&w, out);
    json_object_begin(&w);
    json_field_bool(&w, "ok", report->violation_count == 0);
    json_field_int(&w, "seats", report->seats);
    json_field_int(&w, "holds", report->holds);
    json_field_int(&w, "entries", report->entries);
    json_field_int(&w, "violation_count", report->violation_count);
    json_name(&w, "violations");
    json_array_begin(&w);
    for (int i = 0; i < report->violation_count && i < AUDIT_VIOLATIONS_MAX; i++)
        write_violation(&w, &report->violations[i]);
    json_array_end(&w);
    json_object_end(&w);
}
