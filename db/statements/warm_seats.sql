-- warm_seats - seats as they stand, with what the warm tier keeps of the hold on each.
--
-- $1 text org, $2 text event, $3 text[] seats
-- Columns (a row per seat asked for, in that order): seat, status (null: no such seat), hold, usr, version, until,
-- now, then of the hold (null where none is, or it has no line): cart, source, born; they are the same on all its lines.
-- Index: primary keys of seats and seat_holds (a partial index of org and event must not look as good: hence no event).
SELECT u.seat, s.status, s.hold_id AS hold, s.user_id AS usr, s.version, s.held_until AS until,
    clock_timestamp() AS now, h.cart_token AS cart, h.source, h.created_at AS born
FROM unnest($3::text[]) WITH ORDINALITY AS u(seat, pos)
LEFT JOIN LATERAL (
    SELECT * FROM seats t WHERE t.org_id = $1::text AND t.event_id = $2::text AND t.seat_id = u.seat OFFSET 0) s ON true
LEFT JOIN LATERAL (
    SELECT * FROM seat_holds l WHERE l.hold_id = s.hold_id AND l.org_id = $1
    ORDER BY l.line LIMIT 1) h ON s.status = 'held'
ORDER BY u.pos
