-- read_waiting - one entry of a waitlist as it stands now.
--
-- $1 text org, $2 uuid entry
-- Columns: entry, place, event, usr, state, position (null unless it is QUEUED), seat_type, section (empty: any), seat, hold,
-- created_at, until (of an offer that stands).
-- An offer whose hold has ended is what became of it, whether or not that was written down.
-- An entry that does not exist has no row. Indexes: primary keys; waitlist_queue.
SELECT w.waitlist_id AS entry, w.place, w.event_id AS event, w.user_id AS usr, s.state,
    CASE WHEN s.state = 'QUEUED' THEN (
        SELECT count(*) FROM waitlist o
        WHERE o.org_id = w.org_id AND o.event_id = w.event_id AND o.status = 'QUEUED' AND o.place <= w.place) END AS position,
    w.seat_type, w.section, w.seat_id AS seat, w.hold_id AS hold, w.created_at,
    CASE WHEN s.state = 'OFFERED' THEN (
        SELECT max(h.held_until) FROM seat_holds h
        WHERE h.hold_id = w.hold_id AND h.org_id = w.org_id AND h.status::text = 'active') END AS until
FROM waitlist w
CROSS JOIN LATERAL (
    SELECT CASE WHEN w.status = 'OFFERED' THEN offer_state(w.org_id, w.hold_id, clock_timestamp()) ELSE w.status END AS state) s
WHERE w.org_id = $1::text AND w.waitlist_id = $2::uuid
