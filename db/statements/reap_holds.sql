-- reap_holds - holds that are over and that nobody has expired: their node died, or stood still.
--
-- $1 int8 for how many microseconds they must have been over, $2 int4 lines at the most
-- Columns: org, event, hold, lines (of it found here). Changes nothing: each is expired under its own lock.
-- SKIP LOCKED passes over what another reaper looks at in this moment, and what is being expired or
-- changed: reapers of several nodes share what is left behind.
-- Index: seat_holds_due.
SELECT h.org_id AS org, h.event_id AS event, h.hold_id AS hold, count(*) AS lines
FROM (
    SELECT l.org_id, l.event_id, l.hold_id FROM seat_holds l
    WHERE l.status = 'active' AND NOT l.in_payment
      AND l.held_until < now() - $1::int8 * interval '1 microsecond'
    ORDER BY l.held_until
    LIMIT $2::int4
    FOR UPDATE SKIP LOCKED) h
GROUP BY 1, 2, 3
