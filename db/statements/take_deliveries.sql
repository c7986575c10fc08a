-- take_deliveries - leases what is due, with the events that are next.
--
-- $1 int4 deliveries at the most, $2 int4 under way for one organization, by all nodes
-- $3 int8 the lease in microseconds, $4 bool mail is sent at all, $5 int4 events of one delivery
-- Columns: org, channel, subject, event, lease, attempts, todo_to, url, secret, event_name, then of
-- each event, in order (null: none is left): id, told_as, kind, email, payload, at.
-- Rows of one delivery stand together. A delivery is taken by one node, until it is settled or its
-- lease ends; an organization whose webhook fails has one under way, to find out whether it still
-- does. The one that has waited longest goes first.
-- The row that is locked may be newer than this statement's snapshot, and reach to events that the
-- snapshot doesn't show yet: so it goes no further than the snapshot's own row says.
-- Indexes: deliveries_due (a step for each organization that waits), deliveries_leased, outbox_event.
WITH RECURSIVE waiting AS (
    (SELECT d.channel, d.org_id FROM deliveries d WHERE d.told_to < d.todo_to
     ORDER BY d.channel, d.org_id LIMIT 1)
    UNION ALL
    SELECT n.channel, n.org_id FROM waiting w
    CROSS JOIN LATERAL (
        SELECT d.channel, d.org_id FROM deliveries d
        WHERE d.told_to < d.todo_to AND (d.channel, d.org_id) > (w.channel, w.org_id)
        ORDER BY d.channel, d.org_id LIMIT 1) n),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
room AS MATERIALIZED (
    SELECT w.channel, w.org_id, CASE WHEN h.failing_since IS NULL THEN $2::int4 ELSE 1 END - b.busy AS free
    FROM waiting w CROSS JOIN clk
    LEFT JOIN webhooks h ON h.org_id = w.org_id AND w.channel = 'webhook'
    CROSS JOIN LATERAL (
        SELECT count(*) AS busy FROM deliveries d
        WHERE d.channel = w.channel AND d.org_id = w.org_id AND d.leased AND d.next_at > clk.now) b
    WHERE CASE w.channel WHEN 'mail' THEN $4::bool ELSE h.org_id IS NOT NULL END),
due AS MATERIALIZED (
    SELECT n.* FROM room r CROSS JOIN clk
    CROSS JOIN LATERAL (
        SELECT d.channel, d.org_id, d.subject, d.next_at, d.todo_to FROM deliveries d
        WHERE d.channel = r.channel AND d.org_id = r.org_id AND d.told_to < d.todo_to AND d.next_at <= clk.now
        ORDER BY d.next_at LIMIT GREATEST(r.free, 0)) n
    ORDER BY n.next_at LIMIT $1::int4),
mine AS MATERIALIZED (
    SELECT d.org_id, d.channel, d.subject, u.todo_to AS seen_to FROM due u
    JOIN deliveries d ON d.org_id = u.org_id AND d.channel = u.channel AND d.subject = u.subject
    CROSS JOIN clk
    WHERE d.told_to < d.todo_to AND d.next_at <= clk.now
    FOR UPDATE OF d SKIP LOCKED),
taken AS (
    UPDATE deliveries d SET leased = true, lease = d.lease + 1,
        next_at = clk.now + $3::int8 * interval '1 microsecond', updated_at = clk.now
    FROM mine m CROSS JOIN clk
    WHERE d.org_id = m.org_id AND d.channel = m.channel AND d.subject = m.subject
    RETURNING d.*, m.seen_to)
SELECT t.org_id AS org, t.channel, t.subject, t.event_id AS event, t.lease, t.attempts, t.seen_to AS todo_to,
    h.url, h.secret, e.name AS event_name, o.id, o.told_as, o.kind, o.email, o.payload, o.at
FROM taken t
LEFT JOIN webhooks h ON h.org_id = t.org_id
LEFT JOIN events e ON e.org_id = t.org_id AND e.event_id = t.event_id
LEFT JOIN LATERAL (
    SELECT b.id, COALESCE(b.told_as, b.id) AS told_as, b.kind, b.email, b.payload,
        told_time(COALESCE((b.payload->>'at')::timestamptz, b.created_at)) AS at
    FROM outbox b
    WHERE b.org_id = t.org_id AND b.event_id = t.event_id AND b.id > t.told_to AND b.id <= t.seen_to
      AND (b.channel IS NULL OR b.channel = t.channel)
      AND (t.channel = 'mail' OR h.kinds IS NULL OR b.kind = ANY (h.kinds))
    ORDER BY b.id LIMIT $5::int4) o ON true
ORDER BY t.channel, t.org_id, t.subject, o.id
