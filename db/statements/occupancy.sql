-- occupancy - how many seats and places of an event are in which state, right now.
--
-- $1 text org, $2 text event
-- Columns (always one row): event_exists, available, held, sold, blocked, now.
-- A hold that is over counts as available, whether or not it was cleaned up.
-- Index: primary keys of events, seats and areas; seat_holds_due for areas' lines that are over.
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
s AS (
    SELECT count(*) FILTER (WHERE status = 'held' AND (in_payment OR held_until > clk.now)) AS held,
        count(*) FILTER (WHERE status = 'sold') AS sold,
        count(*) FILTER (WHERE status = 'blocked') AS blocked,
        count(*) FILTER (WHERE status <> 'removed') AS total
    FROM clk, seats WHERE org_id = $1::text AND event_id = $2::text),
a AS (
    SELECT COALESCE(sum(held), 0)::bigint AS held, COALESCE(sum(sold), 0)::bigint AS sold,
        COALESCE(sum(capacity), 0)::bigint AS total
    FROM areas WHERE org_id = $1 AND event_id = $2),
lapsed AS (
    SELECT COALESCE(sum(h.quantity), 0)::bigint AS units
    FROM clk CROSS JOIN LATERAL (
        SELECT * FROM seat_holds l
        WHERE l.status = 'active' AND l.held_until <= clk.now OFFSET 0) h
    WHERE h.area_id IS NOT NULL AND NOT h.in_payment AND h.org_id = $1 AND h.event_id = $2)
SELECT EXISTS (SELECT 1 FROM events e WHERE e.org_id = $1 AND e.event_id = $2) AS event_exists,
    s.total - s.held - s.sold - s.blocked + a.total - a.held - a.sold + lapsed.units AS available,
    s.held + a.held - lapsed.units AS held, s.sold + a.sold AS sold, s.blocked, clk.now
FROM clk, s, a, lapsed
