-- read_owners - of which seats a user is the owner now, in the order asked for.
--
-- $1 text org, $2 text event, $3 text[] seats, $4 text user
-- Columns (a row a seat): version (null: no such seat), theirs. Index: primary key of seats.
SELECT s.version, COALESCE(s.user_id = $4::text, false) AS theirs
FROM unnest($3::text[]) WITH ORDINALITY AS u(seat, pos)
LEFT JOIN LATERAL (
    SELECT version, user_id FROM seats
    WHERE org_id = $1::text AND event_id = $2::text AND seat_id = u.seat
    OFFSET 0) s ON true
ORDER BY u.pos
