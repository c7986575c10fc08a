-- audit_entries - the audit rows of seats in the order of their replay.
--
-- $1 text org, $2 text event; empty: all of them. Runs in verify's snapshot, walks whole tables.
SELECT org_id, event_id, seat_id, version, action, hold_id, user_id, at, held_until, reason, id
FROM audit_log
WHERE seat_id IS NOT NULL AND ($1 = '' OR org_id = $1) AND ($2 = '' OR event_id = $2)
ORDER BY org_id, event_id, seat_id, version, id
