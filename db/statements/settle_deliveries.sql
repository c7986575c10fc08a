-- settle_deliveries - what became of deliveries that this node had leased.
--
-- One array element per delivery:
-- $1 text[] org  $2 text[] channel  $3 text[] subject  $4 int8[] lease  $5 int8[] up to which id it went
-- $6 text[] told | failed | hopeless (never try again) | left (nothing became of it)
-- $7 text[] what went wrong (null: nothing)  $8 int8[] pause before the next try, in microseconds
-- $9 int8 for how many microseconds an event is tried
-- Columns: org, channel, subject, died (how many of its events are dead letters now).
-- Who has lost its lease settles nothing. Events that have been tried long enough become dead
-- letters, and the next ones have their turn at once.
-- Indexes: primary keys, outbox_event. Locks in key order.
WITH req AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[], $5::int8[], $6::text[], $7::text[], $8::int8[])
    AS u(org, channel, subject, lease, up_to, outcome, error, pause)),
mine AS MATERIALIZED (
    SELECT r.*, d.event_id, d.told_to, d.attempts FROM req r
    JOIN deliveries d ON d.org_id = r.org AND d.channel = r.channel AND d.subject = r.subject
    WHERE d.leased AND d.lease = r.lease
    ORDER BY d.org_id, d.channel, d.subject
    FOR UPDATE OF d),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) AS locked FROM mine),
over AS MATERIALIZED (
    SELECT m.org, m.channel, m.subject, m.error, m.attempts, o.id, o.event_id, o.told_as, o.kind, o.email,
        o.payload, o.created_at
    FROM mine m CROSS JOIN clk
    LEFT JOIN webhooks h ON h.org_id = m.org
    CROSS JOIN LATERAL (
        SELECT b.* FROM outbox b
        WHERE b.org_id = m.org AND b.event_id = m.event_id AND b.id > m.told_to AND b.id <= m.up_to
          AND (b.channel IS NULL OR b.channel = m.channel)
          AND (m.channel = 'mail' OR h.kinds IS NULL OR b.kind = ANY (h.kinds))
          AND (m.outcome = 'hopeless' OR b.created_at <= clk.now - $9::int8 * interval '1 microsecond')
        OFFSET 0) o
    WHERE m.outcome IN ('failed', 'hopeless')),
died AS (
    INSERT INTO dead_letters (org_id, event_id, channel, told_as, kind, email, payload, attempts, error, created_at)
    SELECT v.org, v.event_id, v.channel, COALESCE(v.told_as, v.id), v.kind, CASE v.channel WHEN 'mail' THEN v.email END,
        v.payload, v.attempts + 1, COALESCE(v.error, ''), v.created_at
    FROM over v ORDER BY v.id),
ends AS MATERIALIZED (SELECT org, channel, subject, max(id) AS id, count(*) AS n FROM over GROUP BY 1, 2, 3),
upd AS (
    UPDATE deliveries d SET leased = false, updated_at = clk.now,
        told_to = GREATEST(d.told_to, CASE WHEN m.outcome = 'told' THEN m.up_to ELSE x.id END),
        attempts = CASE m.outcome WHEN 'told' THEN 0 WHEN 'left' THEN d.attempts ELSE d.attempts + 1 END,
        next_at = CASE WHEN m.outcome IN ('told', 'left') OR x.id IS NOT NULL THEN clk.now
            ELSE clk.now + m.pause * interval '1 microsecond' END
    FROM clk, mine m LEFT JOIN ends x ON x.org = m.org AND x.channel = m.channel AND x.subject = m.subject
    WHERE d.org_id = m.org AND d.channel = m.channel AND d.subject = m.subject
    RETURNING d.org_id, d.channel, d.subject, COALESCE(x.n, 0) AS died),
hooks AS ( -- written only when it turns: all deliveries of an organization would wait for this row
    UPDATE webhooks h SET failing_since = CASE WHEN s.good THEN NULL ELSE clk.now END, error = CASE WHEN NOT s.good THEN s.error END
    FROM clk, (SELECT org, bool_or(outcome = 'told') AS good, max(error) AS error FROM mine
          WHERE channel = 'webhook' AND outcome IN ('told', 'failed') GROUP BY org) s
    WHERE h.org_id = s.org AND (h.failing_since IS NULL) <> s.good
    RETURNING h.org_id, s.good),
again AS ( -- it is back: nothing of it waits for the end of its pause
    UPDATE deliveries d SET next_at = clk.now
    FROM hooks k, clk
    WHERE k.good AND d.org_id = k.org_id AND d.channel = 'webhook' AND d.told_to < d.todo_to
      AND NOT d.leased AND d.next_at > clk.now)
SELECT org_id AS org, channel, subject, died FROM upd
