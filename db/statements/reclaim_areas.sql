-- reclaim_areas - closes lines of areas whose time is over, so that nobody is told "full" for them.
--
-- $1 text[] orgs, $2 text[] events, $3 text[] areas: locked by lock_areas before.
-- Columns: org, event, area, held, sold, version of the areas that got room.
-- status::text keeps the plan off the partial indexes, which look cheaper than the key while the
-- table is small.
-- Only the areas' lines: the seats of such a hold are freed by its expiry.
-- Index: seat_holds_due (there is little that is over).
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
named AS MATERIALIZED (SELECT DISTINCT org, event, area FROM unnest($1::text[], $2::text[], $3::text[]) AS u(org, event, area)),
due AS MATERIALIZED (
    SELECT h.hold_id, h.line, h.org_id, h.event_id, h.area_id, h.quantity, h.user_id, h.held_until, ttl_reason(h.source) AS why
    FROM clk CROSS JOIN LATERAL (
        SELECT s.* FROM seat_holds s
        WHERE s.status = 'active' AND s.held_until <= clk.now
          AND s.area_id IS NOT NULL AND NOT s.in_payment OFFSET 0) h
    JOIN named n ON n.org = h.org_id AND n.event = h.event_id AND n.area = h.area_id),
closed AS (
    UPDATE seat_holds h SET status = 'expired', reason = d.why, ended_at = clk.now
    FROM due d, clk
    WHERE h.hold_id = d.hold_id AND h.line = d.line AND h.org_id = d.org_id AND h.event_id = d.event_id
      AND h.status::text = 'active'
    RETURNING h.hold_id, h.line, h.org_id, h.event_id, h.area_id, h.quantity, h.user_id, h.held_until, d.why),
upd AS (
    UPDATE areas a SET held = a.held - c.units, version = a.version + c.n
    FROM (SELECT org_id, event_id, area_id, sum(quantity) AS units, count(*) AS n FROM closed
          GROUP BY 1, 2, 3) c
    WHERE a.org_id = c.org_id AND a.event_id = c.event_id AND a.area_id = c.area_id
    RETURNING a.org_id, a.event_id, a.area_id, a.held, a.sold, a.version, c.n),
aud AS (
    INSERT INTO audit_log (at, version, hold_id, held_until, action, quantity, org_id, event_id, area_id,
        user_id, reason)
    SELECT clk.now, u.version - u.n + row_number() OVER (PARTITION BY c.org_id, c.event_id, c.area_id ORDER BY c.hold_id, c.line),
        c.hold_id, c.held_until, 'seat_released'::audit_action, c.quantity, c.org_id, c.event_id, c.area_id,
        c.user_id, c.why
    FROM clk, closed c JOIN upd u ON u.org_id = c.org_id AND u.event_id = c.event_id AND u.area_id = c.area_id
    RETURNING 1),
kept AS MATERIALIZED (
    SELECT must_equal((SELECT count(*) FROM due), (SELECT count(*) FROM closed), 'lines closed')
       AND must_equal((SELECT count(*) FROM due), (SELECT count(*) FROM aud), 'audited') AS kept)
SELECT org_id AS org, event_id AS event, area_id AS area, held, sold, version FROM kept, upd
