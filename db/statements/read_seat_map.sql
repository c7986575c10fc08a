-- read_seat_map - every seat of an event, for the map in memory; it puts them in order itself.
--
-- $1 text org, $2 text event
-- Columns: seat, section, row, number, type, price, x, y, status, in_payment, version, until,
-- aisle_after, accessible (of its attributes), focal_x, focal_y (of the event; null: none), usr (who has it).
-- Removed seats too: a map's reader may have seen them before.
-- Index: primary key of seats.
SELECT s.seat_id AS seat, s.section, s."row", s.number, s.type, s.price, s.x, s.y,
    s.status, s.in_payment, s.version, s.held_until AS until,
    COALESCE(s.attributes @> '{"aisle_after": true}', false) AS aisle_after,
    COALESCE(s.attributes @> '{"accessible": true}', false) AS accessible, e.focal_x, e.focal_y, s.user_id AS usr
FROM seats s
JOIN events e ON e.org_id = s.org_id AND e.event_id = s.event_id
WHERE s.org_id = $1::text AND s.event_id = $2::text
