-- list_waiting - an event's waitlist in order: who waits, and who has an offer.
--
-- $1 text org, $2 text event, $3 text of this user alone (null: of all), $4 int8 behind which place, $5 int4 how many at the most
-- Columns: as read_waiting, then kind (of the event). An event that does not exist has no row, one where nobody waits a row without an entry.
-- Indexes: primary keys; waitlist_queue.
WITH page AS MATERIALIZED (
    SELECT * FROM waitlist l
    WHERE l.org_id = $1::text AND l.event_id = $2::text AND l.status IN ('QUEUED', 'OFFERED')
      AND l.place > $4::int8 AND ($3::text IS NULL OR l.user_id = $3)
    ORDER BY l.place LIMIT $5::int4),
ahead AS MATERIALIZED (
    SELECT count(*) AS n FROM waitlist o
    WHERE o.org_id = $1 AND o.event_id = $2 AND o.status = 'QUEUED' AND o.place < (SELECT min(w.place) FROM page w))
SELECT w.waitlist_id AS entry, w.place, e.event_id AS event, w.user_id AS usr, s.state,
    CASE WHEN s.state = 'QUEUED' THEN a.n + count(*) FILTER (WHERE w.status = 'QUEUED') OVER (ORDER BY w.place) END AS position,
    w.seat_type, w.section, w.seat_id AS seat, w.hold_id AS hold, w.created_at,
    CASE WHEN s.state = 'OFFERED' THEN (
        SELECT max(h.held_until) FROM seat_holds h
        WHERE h.hold_id = w.hold_id AND h.org_id = w.org_id AND h.status::text = 'active') END AS until,
    e.kind
FROM events e CROSS JOIN ahead a LEFT JOIN page w ON true
LEFT JOIN LATERAL (
    SELECT CASE WHEN w.status = 'OFFERED' THEN offer_state(w.org_id, w.hold_id, clock_timestamp()) ELSE w.status END AS state) s ON true
WHERE e.org_id = $1 AND e.event_id = $2
ORDER BY w.place
