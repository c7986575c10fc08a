-- warm_seat_page - a page of an event's seats in order of their ids, removed ones too.
--
-- $1 text org, $2 text event, $3 text seats after this id ('' begins), $4 int4 rows at the most
-- Columns: as warm_seats. Index: primary keys of seats and seat_holds.
SELECT s.seat_id AS seat, s.status, s.hold_id AS hold, s.user_id AS usr, s.version, s.held_until AS until,
    clock_timestamp() AS now, h.cart_token AS cart, h.source, h.created_at AS born
FROM (
    SELECT * FROM seats t
    WHERE t.org_id = $1::text AND t.event_id = $2::text AND t.seat_id > $3::text
    ORDER BY t.seat_id
    LIMIT $4::int4) s
LEFT JOIN LATERAL (
    SELECT * FROM seat_holds l WHERE l.hold_id = s.hold_id AND l.org_id = $1
    ORDER BY l.line LIMIT 1) h ON s.status = 'held'
ORDER BY s.seat_id
