-- area_versions - areas whose audit rows don't make the versions 1, 2, 3, ... up to the one that they have.
--
-- $1 text org, $2 text event; empty: all of them. Runs in verify's snapshot, walks whole tables.
-- Not of events that are older than the log: their beginning was dropped.
SELECT a.org_id, a.event_id, a.area_id, a.version, count(l.id), count(DISTINCT l.version),
    COALESCE(min(l.version), 0), COALESCE(max(l.version), 0)
FROM (
    SELECT * FROM areas x
    WHERE ($1 = '' OR org_id = $1) AND ($2 = '' OR event_id = $2) AND NOT EXISTS (
        SELECT FROM events e
        WHERE e.org_id = x.org_id AND e.event_id = x.event_id AND e.created_at < audit_log_begins())) a
LEFT JOIN audit_log l ON l.org_id = a.org_id AND l.event_id = a.event_id AND l.area_id = a.area_id
GROUP BY 1, 2, 3, 4
HAVING count(l.id) <> a.version OR count(DISTINCT l.version) <> a.version
    OR COALESCE(max(l.version), 0) <> a.version OR COALESCE(min(l.version), 1) <> 1
ORDER BY 1, 2, 3 LIMIT 1000
