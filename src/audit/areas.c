/*
 * areas.c - general admission: versions without gap or double, counts that are sums of lines;
 * and how many holds there are.
 */
#include <stdio.h>

#include "audit_internal.h"

#define SCOPE "($1 = '' OR org_id = $1) AND ($2 = '' OR event_id = $2)"

/* Areas whose counts are not what their lines sum up to. */
static const char counts_sql[] =
    "SELECT a.org_id, a.event_id, a.area_id, a.held::int8, a.sold::int8,"
    " COALESCE(l.held, 0)::int8, COALESCE(l.sold, 0)::int8"
    " FROM (SELECT * FROM areas WHERE " SCOPE ") a LEFT JOIN ("
    " SELECT org_id, event_id, area_id, sum(quantity) FILTER (WHERE status = 'active') AS held,"
    " sum(quantity) FILTER (WHERE status = 'converted') AS sold"
    " FROM seat_holds WHERE area_id IS NOT NULL AND " SCOPE " GROUP BY 1, 2, 3) l"
    " USING (org_id, event_id, area_id)"
    " WHERE a.held <> COALESCE(l.held, 0) OR a.sold <> COALESCE(l.sold, 0)"
    " ORDER BY 1, 2, 3 LIMIT 1000";

/* Areas whose audit rows don't make the versions 1, 2, 3, ... up to the one that they have. */
static const char versions_sql[] =
    "SELECT a.org_id, a.event_id, a.area_id, a.version, count(l.id),"
    " count(DISTINCT l.version), COALESCE(min(l.version), 0), COALESCE(max(l.version), 0)"
    " FROM (SELECT * FROM areas WHERE " SCOPE ") a LEFT JOIN audit_log l"
    " ON l.org_id = a.org_id AND l.event_id = a.event_id AND l.area_id = a.area_id"
    " GROUP BY 1, 2, 3, 4"
    " HAVING count(l.id) <> a.version OR count(DISTINCT l.version) <> a.version"
    " OR COALESCE(max(l.version), 0) <> a.version OR COALESCE(min(l.version), 1) <> 1"
    " ORDER BY 1, 2, 3 LIMIT 1000";

static const char holds_sql[] = "SELECT count(DISTINCT hold_id) FROM seat_holds WHERE " SCOPE;

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
    enum pg_outcome outcome = pg_run_text(pg, counts_sql, 2, values, deadline, &rows);
    if (outcome == PG_DONE)
        tell_counts(report, rows);
    pg_result_free(&rows);
    if (outcome == PG_DONE)
        outcome = pg_run_text(pg, versions_sql, 2, values, deadline, &rows);
    if (outcome == PG_DONE)
        tell_versions(report, rows);
    pg_result_free(&rows);
    if (outcome == PG_DONE)
        outcome = pg_run_text(pg, holds_sql, 2, values, deadline, &rows);
    if (outcome == PG_DONE)
        report->holds = pg_get_int(rows, 0, 0);
    pg_result_free(&rows);
    return outcome;
}
