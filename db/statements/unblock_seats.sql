-- unblock_seats - puts blocked seats on sale again.
--
-- $1 text org, $2 text event, $3 text[] seats (none twice), $4 text actor, $5 text reason, $6 text request id,
-- $7 text client's address, $8 text user agent
-- Columns (a row per seat asked for, in order of $3): as block_seats (ended is always null).
-- code: ok | seat_not_found | available | held | sold (it is not blocked) | locked (another
-- transaction is deciding: ask again).
-- P0001 when rows changed are not those promised. Index: primary key of seats.
WITH req AS MATERIALIZED (
    SELECT $1::text AS org, $2::text AS event, u.* FROM unnest($3::text[]) WITH ORDINALITY AS u(seat, pos)),
lk AS MATERIALIZED (
    SELECT r.pos, s.status, s.hold_id, s.user_id, s.held_until, s.in_payment, s.version
    FROM req r
    JOIN seats s ON s.org_id = r.org AND s.event_id = r.event AND s.seat_id = r.seat
    FOR NO KEY UPDATE OF s SKIP LOCKED),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) AS locked FROM lk),
j AS MATERIALIZED (
    SELECT r.*, clk.now, l.status, l.hold_id, l.user_id, l.held_until, l.in_payment, l.version,
        CASE
        WHEN l.pos IS NULL THEN
            CASE WHEN EXISTS (SELECT 1 FROM seats s WHERE s.org_id = r.org AND s.event_id = r.event AND s.seat_id = r.seat)
                 THEN 'locked' ELSE 'seat_not_found' END
        WHEN l.status = 'removed' THEN 'seat_not_found'
        WHEN l.status = 'blocked' THEN 'ok'
        WHEN l.status = 'held' AND NOT l.in_payment AND l.held_until <= clk.now THEN 'available'
        ELSE l.status::text END AS code
    FROM req r CROSS JOIN clk LEFT JOIN lk l ON l.pos = r.pos),
upd AS (
    UPDATE seats s SET status = 'available', version = s.version + 1
    FROM j
    WHERE j.code = 'ok' AND s.org_id = j.org AND s.event_id = j.event AND s.seat_id = j.seat
    RETURNING j.pos, s.version),
aud AS (
    INSERT INTO audit_log (at, version, action, org_id, event_id, seat_id, actor, reason, request_id,
        client_ip, user_agent)
    SELECT j.now, u.version, 'seat_unblocked', $1, $2, j.seat, $4::text, $5::text, $6::text, $7::text, $8::text
    FROM j JOIN upd u ON u.pos = j.pos),
kept AS MATERIALIZED (
    SELECT must_equal((SELECT count(*) FROM j WHERE code = 'ok'), (SELECT count(*) FROM upd), 'seats unblocked') AS kept)
SELECT j.pos, j.seat, j.code, COALESCE(u.version, j.version, 0) AS version,
    CASE WHEN u.pos IS NULL THEN j.hold_id END AS hold,
    CASE WHEN u.pos IS NULL THEN j.user_id END AS usr,
    CASE WHEN u.pos IS NULL THEN j.held_until END AS until,
    COALESCE(u.pos IS NULL AND j.in_payment, false) AS in_payment,
    CASE WHEN u.pos IS NOT NULL THEN 'available' ELSE j.status END AS status,
    NULL::uuid AS ended, j.now
FROM kept, j LEFT JOIN upd u ON u.pos = j.pos
ORDER BY j.pos
