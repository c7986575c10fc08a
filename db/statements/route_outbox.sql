-- route_outbox - finds what of the outbox is complete, and who is to be told of it.
--
-- $1 bool mail is sent at all, $2 int8 patience in microseconds, $3 int4 rows at the most
-- Columns: routed (rows), more (there is something that can't be told yet, or not in this portion).
-- Rows up to pending_to are complete when every transaction that ran as it was seen is over
-- (migration 0006). Patience bounds the wait for one that takes for ever, in whatever database of
-- the server: past it, order among transactions beside each other is not kept.
-- One node at a time: SKIP LOCKED passes over the cursor that another one has.
-- Indexes: primary keys.
WITH snap AS MATERIALIZED (SELECT pg_snapshot_xmin(s) AS xmin, pg_snapshot_xmax(s) AS xmax FROM pg_current_snapshot() s),
newest AS MATERIALIZED (SELECT COALESCE((SELECT max(id) FROM outbox), 0) AS id),
cur AS MATERIALIZED ( -- no row, no lock and nothing written where there is nothing to do
    SELECT c.*, c.pending_xmax <= s.xmin OR c.pending_at <= clock_timestamp() - $2::int8 * interval '1 microsecond' AS is_over
    FROM outbox_cursor c CROSS JOIN snap s CROSS JOIN newest n
    WHERE CASE WHEN c.pending_to <= c.routed_to THEN n.id > c.routed_to
        ELSE c.pending_xmax <= s.xmin OR c.pending_at <= clock_timestamp() - $2::int8 * interval '1 microsecond' END
    FOR UPDATE OF c SKIP LOCKED),
ready AS MATERIALIZED (
    SELECT c.routed_to, c.pending_to, CASE WHEN c.is_over THEN c.pending_to ELSE c.routed_to END AS up_to FROM cur c),
found AS MATERIALIZED (
    SELECT o.* FROM ready r
    CROSS JOIN LATERAL (
        SELECT b.id, b.org_id, b.event_id, b.kind, b.channel, b.email IS NOT NULL AS has_email,
            mail_subject(b.kind, b.payload, b.id, b.told_as) AS subject
        FROM outbox b WHERE b.id > r.routed_to AND b.id <= r.up_to
        ORDER BY b.id LIMIT $3::int4) o),
reached AS MATERIALIZED (
    SELECT CASE WHEN f.n >= $3::int4 THEN f.last ELSE r.up_to END AS id, f.n
    FROM ready r CROSS JOIN (SELECT count(*) AS n, max(id) AS last FROM found) f),
hooks AS ( -- an event that had been told all begins with what is new: what came before its webhook isn't told
    INSERT INTO deliveries AS d (org_id, channel, subject, event_id, told_to, todo_to, next_at)
    SELECT f.org_id, 'webhook', f.event_id, f.event_id, min(f.id) - 1, max(f.id), clock_timestamp()
    FROM found f
    JOIN webhooks w ON w.org_id = f.org_id AND (w.kinds IS NULL OR f.kind = ANY (w.kinds))
    WHERE f.channel IS NULL OR f.channel = 'webhook'
    GROUP BY f.org_id, f.event_id
    ORDER BY f.org_id, f.event_id
    ON CONFLICT (org_id, channel, subject) DO UPDATE SET
        told_to = CASE WHEN d.told_to >= d.todo_to THEN EXCLUDED.told_to ELSE d.told_to END,
        todo_to = EXCLUDED.todo_to, updated_at = clock_timestamp()),
mails AS (
    INSERT INTO deliveries (org_id, channel, subject, event_id, told_to, todo_to, next_at)
    SELECT DISTINCT ON (f.org_id, f.subject) f.org_id, 'mail', f.subject, f.event_id, f.id - 1, f.id, clock_timestamp()
    FROM found f
    WHERE $1::bool AND f.has_email AND f.subject IS NOT NULL AND (f.channel IS NULL OR f.channel = 'mail')
    ORDER BY f.org_id, f.subject, f.id
    ON CONFLICT (org_id, channel, subject) DO NOTHING),
moved AS (
    UPDATE outbox_cursor c SET routed_to = e.id,
        pending_to = CASE WHEN e.id >= r.pending_to THEN GREATEST(n.id, e.id) ELSE c.pending_to END,
        pending_xmax = CASE WHEN e.id >= r.pending_to THEN s.xmax ELSE c.pending_xmax END,
        pending_at = CASE WHEN e.id >= r.pending_to THEN clock_timestamp() ELSE c.pending_at END
    FROM ready r, reached e, snap s, newest n
    WHERE e.id > r.routed_to OR (e.id >= r.pending_to AND n.id > r.pending_to)
    RETURNING 1)
SELECT COALESCE((SELECT e.n FROM reached e), 0) AS routed,
    n.id > COALESCE((SELECT e.id FROM reached e), c.routed_to) AS more
FROM newest n CROSS JOIN outbox_cursor c
