-- snapshot_occupancy - writes down how full some of the events are: the next ones of a round.
--
-- $1 timestamptz the round's time, $2 text org, $3 text event: those behind it; $4 int4 events at the
-- most (0: none is written, and the next one that is due is told)
-- Columns (always one row): is_mine (false: another node is at it), org, event (the last one that was
-- due; null: none is left), written.
-- Events on sale, and those that something happened to since their own last snapshot, however many
-- rounds were missed since; a second more, as what committed then may have its time from before. One
-- node at a time (an advisory lock of the transaction), and what has its snapshot is not due: so no
-- round has an event twice, and a node that dies is followed by the next.
-- Index: primary keys of events, occupancy_snapshots, seats and areas; audit_log_event.
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
turn AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(hashtextextended('holdfast occupancy_snapshots', 0)) AS is_mine),
due AS MATERIALIZED (
    SELECT e.org_id, e.event_id FROM events e
    WHERE (SELECT is_mine FROM turn) AND (e.org_id, e.event_id) > ($2::text, $3::text)
      AND NOT EXISTS (
        SELECT 1 FROM occupancy_snapshots s WHERE s.org_id = e.org_id AND s.event_id = e.event_id AND s.at = $1::timestamptz)
      AND (e.status = 'on_sale' OR EXISTS (
        SELECT 1 FROM audit_log g
        WHERE g.org_id = e.org_id AND g.event_id = e.event_id AND g.at >= (
            SELECT COALESCE(max(s.at), '-infinity') - interval '1 second' FROM occupancy_snapshots s
            WHERE s.org_id = e.org_id AND s.event_id = e.event_id)))
    ORDER BY e.org_id, e.event_id LIMIT GREATEST($4::int4, 1)),
written AS (
    INSERT INTO occupancy_snapshots (at, available, held, sold, blocked, org_id, event_id)
    SELECT $1, o.available, o.held, o.sold, o.blocked, d.org_id, d.event_id
    FROM clk, due d CROSS JOIN LATERAL occupancy_at(d.org_id, d.event_id, clk.now) o
    WHERE $4 > 0
    ON CONFLICT DO NOTHING
    RETURNING 1)
SELECT t.is_mine, l.org_id AS org, l.event_id AS event, (SELECT count(*) FROM written) AS written
FROM turn t LEFT JOIN (SELECT * FROM due ORDER BY org_id DESC, event_id DESC LIMIT 1) l ON true
