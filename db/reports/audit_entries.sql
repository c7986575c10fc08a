-- audit_entries - the audit rows of seats in the order of their replay.
--
-- $1 text org, $2 text event; empty: all of them. Runs in verify's snapshot, walks whole tables.
-- Not of events that are older than the log: their beginning was dropped. Who waits for a seat changes nothing of it.
SELECT org_id, event_id, seat_id, version, action, hold_id, user_id, at, held_until, reason, id
FROM audit_log x
WHERE seat_id IS NOT NULL AND action NOT IN ('waitlist_offered', 'waitlist_assigned', 'waitlist_left', 'waitlist_lapsed')
  AND ($1 = '' OR org_id = $1) AND ($2 = '' OR event_id = $2)
  AND NOT EXISTS (
    SELECT FROM events e
    WHERE e.org_id = x.org_id AND e.event_id = x.event_id AND e.created_at < audit_log_begins())
ORDER BY org_id, event_id, seat_id, version, id
