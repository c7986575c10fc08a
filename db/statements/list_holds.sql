-- list_holds - one user's holds of one event that live or were sold, oldest first.
--
-- $1 text org, $2 text event, $3 text user, $4 uuid after (null: from the start), $5 int4 limit
-- Columns: as read_holds. Index: seat_holds_user, then as read_holds.
WITH mine AS MATERIALIZED (
    SELECT DISTINCT h.hold_id FROM seat_holds h
    WHERE h.org_id = $1::text AND h.event_id = $2::text AND h.user_id = $3::text
      AND h.status IN ('active', 'converted')
      AND ($4::uuid IS NULL OR h.hold_id > $4::uuid)
    ORDER BY h.hold_id LIMIT $5::int4)
SELECT row_number() OVER (ORDER BY m.hold_id) AS pos, h.hold_id AS hold, h.event_id AS event,
    h.user_id AS usr, h.cart_token AS cart, h.source,
    h.created_at, h.held_until AS until, clock_timestamp() AS now, e.currency,
    h.line, h.seat_id AS seat, s.section, s."row", s.number, h.area_id AS area, h.quantity,
    COALESCE(s.version, a.version) AS version, h.price, h.status, h.reason, h.ended_at, h.ticket_ids AS tickets,
    h.in_payment
FROM mine m
CROSS JOIN LATERAL (SELECT * FROM seat_holds l WHERE l.hold_id = m.hold_id AND l.org_id = $1::text OFFSET 0) h
LEFT JOIN events e ON e.org_id = h.org_id AND e.event_id = h.event_id
LEFT JOIN seats s ON s.org_id = h.org_id AND s.event_id = h.event_id AND s.seat_id = h.seat_id
LEFT JOIN areas a ON a.org_id = h.org_id AND a.event_id = h.event_id AND a.area_id = h.area_id
ORDER BY m.hold_id, h.line
