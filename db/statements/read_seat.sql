-- read_seat - one seat as it is now, with what the warm tier keeps of the hold on it.
--
-- $1 text org, $2 text event, $3 text seat
-- Columns (always one row): event_exists, status (null: no such seat), in_payment, version, hold,
-- usr, until, now, then of the hold on a held seat: cart, source, born.
-- Index: primary keys of events and seats, seat_holds_backstop.
SELECT e.event_id IS NOT NULL AS event_exists, s.status, s.in_payment, s.version, s.hold_id AS hold,
    s.user_id AS usr, s.held_until AS until, clock_timestamp() AS now, h.cart_token AS cart, h.source,
    h.created_at AS born
FROM (SELECT 1) one
LEFT JOIN events e ON e.org_id = $1::text AND e.event_id = $2::text
LEFT JOIN seats s ON s.org_id = $1 AND s.event_id = $2 AND s.seat_id = $3::text
LEFT JOIN seat_holds h ON s.status = 'held' AND h.org_id = s.org_id AND h.event_id = s.event_id AND h.seat_id = s.seat_id
    AND h.status = 'active' AND h.hold_id = s.hold_id
