-- occupancy - how many seats and places of an event are in which state, right now.
--
-- $1 text org, $2 text event
-- Columns (always one row): event_exists, available, held, sold, blocked, now, ends_at, areas_end_at
-- (0008_shows.sql says what the last two are).
-- Index: primary keys of events, seats and areas; seat_holds_due for areas' lines that are over.
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT EXISTS (SELECT 1 FROM events e WHERE e.org_id = $1::text AND e.event_id = $2::text) AS event_exists,
    o.available, o.held, o.sold, o.blocked, clk.now, o.ends_at, o.areas_end_at
FROM clk CROSS JOIN LATERAL occupancy_at($1, $2, clk.now) o
