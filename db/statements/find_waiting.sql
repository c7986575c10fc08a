-- find_waiting - the event whose waitlist somebody wants to join, and the open entry that they have there already.
--
-- $1 text org, $2 text event, $3 text user
-- Columns: status, kind (of the event), then of the entry (null: none): entry, state, hold.
-- Locks the entry, and waits for that (55P03 after lock_timeout). An event that does not exist has no row.
-- Indexes: primary key of events; waitlist_open.
WITH mine AS MATERIALIZED (
    SELECT w.waitlist_id, w.status, w.hold_id FROM waitlist w
    WHERE w.org_id = $1::text AND w.event_id = $2::text AND w.user_id = $3::text AND w.status IN ('QUEUED', 'OFFERED')
    FOR NO KEY UPDATE)
SELECT e.status, e.kind, m.waitlist_id AS entry, m.status AS state, m.hold_id AS hold
FROM events e LEFT JOIN mine m ON true
WHERE e.org_id = $1 AND e.event_id = $2
