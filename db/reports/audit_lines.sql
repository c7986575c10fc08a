-- audit_lines - the lines of holds on seats, in the order of the replay.
--
-- $1 text org, $2 text event; empty: all of them. Runs in verify's snapshot, walks whole tables.
SELECT org_id, event_id, seat_id, hold_id, user_id, status, held_until, in_payment
FROM seat_holds
WHERE seat_id IS NOT NULL AND ($1 = '' OR org_id = $1) AND ($2 = '' OR event_id = $2)
ORDER BY org_id, event_id, seat_id, hold_id, line
