/*
 * areas.c - general admission: versions without gap or double, counts that are sums of lines;
 * and how many holds there are.
 */
#include <stdio.h>

#include "audit_internal.h"

static struct audit_violation *
add(struct audit_report *report, const char *kind, const struct pg_result *rows, int row)
{
    return report_add(report, kind, pg_get_text(rows, row, 0), pg_get_text(rows, row, 1),
                      pg_get_text(rows, row, 2));
}

static void
tell_counts(struct audit_report *report, const struct pg_result *rows)
{
    for (int row = 0; row < pg_rows(rows); row++) {
        struct audit_violation *violation = add(report, "area_counts", rows, row);
        if (violation != NULL)
            snprintf(violation->detail, sizeof(violation->detail),
                     "held %lld, sold %lld; its lines: held %lld, sold %lld",
                     (long long)pg_get_int(rows, row, 3), (long long)pg_get_int(rows, row, 4),
                     (long long)pg_get_int(rows, row, 5), (long long)pg_get_int(rows, row, 6));
    }
}

static void
tell_versions(struct audit_report *report, const struct pg_result *rows)
{
    for (int row = 0; row < pg_rows(rows); row++) {
        struct audit_violation *violation = add(report, "area_versions", rows, row);
        if (violation != NULL)
            snprintf(violation->detail, sizeof(violation->detail),
                     "version %lld; %lld audit rows with %lld versions from %lld to %lld",
                     (long long)pg_get_int(rows, row, 3), (long long)pg_get_int(rows, row, 4),
                     (long long)pg_get_int(rows, row, 5), (long long)pg_get_int(rows, row, 6),
                     (long long)pg_get_int(rows, row, 7));
    }
}

enum pg_outcome
areas_check(struct pg *pg, struct slice org, struct slice event, struct mono_time deadline,
            struct audit_report *report)
{
    char org_text[ID_BYTES_MAX + 1], event_text[ID_BYTES_MAX + 1];
    const char *values[] = { org_text, event_text };
    struct pg_result *rows = NULL;

    snprintf(org_text, sizeof(org_text), "%.*s", SLICE_ARG(org));
    snprintf(event_text, sizeof(event_text), "%.*s", SLICE_ARG(event));
    enum pg_outcome outcome =
        pg_run_text(pg, pg_report_text(REPORT_AREA_COUNTS), 2, values, deadline, &rows);
    if (outcome == PG_DONE)
        tell_counts(report, rows);
    pg_result_free(&rows);
    if (outcome == PG_DONE)
        outcome = pg_run_text(pg, pg_report_text(REPORT_AREA_VERSIONS), 2, values, deadline, &rows);
    if (outcome == PG_DONE)
        tell_versions(report, rows);
    pg_result_free(&rows);
    if (outcome == PG_DONE)
        outcome = pg_run_text(pg, pg_report_text(REPORT_HOLD_COUNT), 2, values, deadline, &rows);
    if (outcome == PG_DONE)
        report->holds = pg_get_int(rows, 0, 0);
    pg_result_free(&rows);
    return outcome;
}
