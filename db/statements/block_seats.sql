-- block_seats - takes seats off sale; what is held or sold stays as it is.
--
-- $1 text org, $2 text event, $3 text[] seats (none twice), $4 text actor, $5 text reason, $6 text request id,
-- $7 text client's address, $8 text user agent
-- Columns (a row per seat asked for, in order of $3): pos, seat, code, version, hold, usr, until,
-- in_payment, status (of the seat as it now is), ended (the hold that was over, if it was ended here), now.
-- code: ok | seat_not_found | seat_taken | seat_sold | seat_blocked (it was) | locked (another
-- transaction is deciding: ask again).
-- A hold that is over is released first: two changes, both audited, and its line is closed.
-- P0001 when rows changed are not those promised. Index: primary keys of seats and seat_holds.
--
-- Order inside: lock without waiting, then read the clock, then judge.
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
        l.status = 'held' AND NOT l.in_payment AND l.held_until <= clk.now AS over,
        CASE
        WHEN l.pos IS NULL THEN
            CASE WHEN EXISTS (SELECT 1 FROM seats s WHERE s.org_id = r.org AND s.event_id = r.event AND s.seat_id = r.seat)
                 THEN 'locked' ELSE 'seat_not_found' END
        WHEN l.status = 'removed' THEN 'seat_not_found'
        WHEN l.status = 'blocked' THEN 'seat_blocked'
        WHEN l.status = 'sold' THEN 'seat_sold'
        WHEN l.status = 'held' AND (l.in_payment OR l.held_until > clk.now) THEN 'seat_taken'
        ELSE 'ok' END AS code
    FROM req r CROSS JOIN clk LEFT JOIN lk l ON l.pos = r.pos),
upd AS (
    UPDATE seats s SET status = 'blocked', hold_id = NULL, user_id = NULL, held_until = NULL,
        version = s.version + 1 + j.over::int
    FROM j
    WHERE j.code = 'ok' AND s.org_id = j.org AND s.event_id = j.event AND s.seat_id = j.seat
    RETURNING j.pos, s.version),
lines_over AS MATERIALIZED ( -- found by their key, whatever the statistics say (status::text is no partial index's)
    SELECT j.pos, j.org, j.event, j.now, j.hold_id, h.line, ttl_reason(h.source) AS why FROM j
    CROSS JOIN LATERAL (
        SELECT s.line, s.source FROM seat_holds s
        WHERE s.hold_id = j.hold_id AND s.seat_id = j.seat AND s.status::text = 'active' OFFSET 0) h
    WHERE j.code = 'ok' AND j.over),
closed AS (
    UPDATE seat_holds h SET status = 'expired', reason = o.why, ended_at = o.now
    FROM lines_over o
    WHERE h.hold_id = o.hold_id AND h.line = o.line AND h.org_id = o.org AND h.event_id = o.event
      AND h.status::text = 'active'
    RETURNING 1),
aud AS (
    INSERT INTO audit_log (at, version, hold_id, held_until, action, org_id, event_id, seat_id,
        user_id, actor, reason, request_id, client_ip, user_agent)
    SELECT j.now, u.version - 1, j.hold_id, j.held_until, 'seat_released'::audit_action, $1, $2,
        j.seat, j.user_id, NULL, o.why, $6::text, NULL, NULL
    FROM lines_over o JOIN j ON j.pos = o.pos JOIN upd u ON u.pos = j.pos
    UNION ALL
    SELECT j.now, u.version, NULL, NULL, 'seat_blocked'::audit_action, $1, $2,
        j.seat, NULL, $4::text, $5::text, $6, $7::text, $8::text
    FROM j JOIN upd u ON u.pos = j.pos),
kept AS MATERIALIZED (
    SELECT must_equal((SELECT count(*) FROM j WHERE code = 'ok'), (SELECT count(*) FROM upd), 'seats blocked')
       AND must_equal((SELECT count(*) FROM j WHERE code = 'ok' AND over), (SELECT count(*) FROM closed), 'lines closed') AS kept)
SELECT j.pos, j.seat, j.code, COALESCE(u.version, j.version, 0) AS version,
    CASE WHEN u.pos IS NULL THEN j.hold_id END AS hold,
    CASE WHEN u.pos IS NULL THEN j.user_id END AS usr,
    CASE WHEN u.pos IS NULL THEN j.held_until END AS until,
    COALESCE(u.pos IS NULL AND j.in_payment, false) AS in_payment,
    CASE WHEN u.pos IS NOT NULL THEN 'blocked' ELSE j.status END AS status,
    CASE WHEN u.pos IS NOT NULL AND j.over THEN j.hold_id END AS ended, j.now
FROM kept, j LEFT JOIN upd u ON u.pos = j.pos
ORDER BY j.pos
