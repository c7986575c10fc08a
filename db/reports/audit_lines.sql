-- audit_lines - the lines of holds on seats, in the order of the replay.
--
-- $1 text org, $2 text event; empty: all of them. Runs in verify's snapshot, walks whole tables.
-- Not of events that are older than the log: their beginning was dropped.
SELECT org_id, event_id, seat_id, hold_id, user_id, status, held_until, in_payment
FROM seat_holds x
WHERE seat_id IS NOT NULL AND ($1 = '' OR org_id = $1) AND ($2 = '' OR event_id = $2)
  AND NOT EXISTS (
    SELECT FROM events e
    WHERE e.org_id = x.org_id AND e.event_id = x.event_id AND e.created_at < audit_log_begins())
ORDER BY org_id, event_id, seat_id, hold_id, line
