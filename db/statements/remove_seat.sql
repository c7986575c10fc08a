-- remove_seat - takes a free seat out of the event for good; its row stays, for its version.
--
-- $1 text org, $2 text event, $3 text seat, $4 text actor, $5 text request id, $6 text client's address,
-- $7 text user agent
-- Columns (one row): as block_seats.
-- code: ok | same (it is removed already) | seat_not_found | seat_taken | seat_sold | locked
-- A blocked seat is free. A hold that is over is released first: two changes, both audited.
-- After lock_event. P0001 when rows changed are not those promised.
-- Index: primary keys of seats and seat_holds.
WITH lk AS MATERIALIZED (
    SELECT s.* FROM seats s
    WHERE s.org_id = $1::text AND s.event_id = $2::text AND s.seat_id = $3::text
    FOR NO KEY UPDATE SKIP LOCKED),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) AS locked FROM lk),
j AS MATERIALIZED (
    SELECT $1::text AS org, $2::text AS event, $3::text AS seat, clk.now, l.status, l.hold_id, l.user_id, l.held_until, l.in_payment, l.version,
        COALESCE(l.status = 'held' AND NOT l.in_payment AND l.held_until <= clk.now, false) AS over,
        CASE
        WHEN l.seat_id IS NULL THEN
            CASE WHEN EXISTS (SELECT 1 FROM seats s WHERE s.org_id = $1 AND s.event_id = $2 AND s.seat_id = $3)
                 THEN 'locked' ELSE 'seat_not_found' END
        WHEN l.status = 'removed' THEN 'same'
        WHEN l.status = 'sold' THEN 'seat_sold'
        WHEN l.status = 'held' AND (l.in_payment OR l.held_until > clk.now) THEN 'seat_taken'
        ELSE 'ok' END AS code
    FROM clk LEFT JOIN lk l ON true),
upd AS (
    UPDATE seats s SET status = 'removed', hold_id = NULL, user_id = NULL, held_until = NULL,
        version = s.version + 1 + j.over::int
    FROM j
    WHERE j.code = 'ok' AND s.org_id = j.org AND s.event_id = j.event AND s.seat_id = j.seat
    RETURNING s.version),
lines_over AS MATERIALIZED ( -- found by their key, whatever the statistics say (status::text is no partial index's)
    SELECT j.org, j.event, j.now, j.hold_id, h.line, ttl_reason(h.source) AS why FROM j
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
    SELECT j.now, u.version - 1, j.hold_id, j.held_until, 'seat_released'::audit_action, $1, $2, $3,
        j.user_id, NULL, o.why, $5::text, NULL, NULL
    FROM lines_over o, j, upd u
    UNION ALL
    SELECT j.now, u.version, NULL, NULL, 'seat_removed'::audit_action, $1, $2, $3,
        NULL, $4::text, NULL, $5, $6::text, $7::text
    FROM j, upd u),
kept AS MATERIALIZED (
    SELECT must_equal((SELECT count(*) FROM j WHERE code = 'ok'), (SELECT count(*) FROM upd), 'seats removed')
       AND must_equal((SELECT count(*) FROM j WHERE code = 'ok' AND over), (SELECT count(*) FROM closed), 'lines closed') AS kept)
SELECT 1::bigint AS pos, $3 AS seat, j.code, COALESCE(u.version, j.version, 0) AS version,
    CASE WHEN u.version IS NULL THEN j.hold_id END AS hold,
    CASE WHEN u.version IS NULL THEN j.user_id END AS usr,
    CASE WHEN u.version IS NULL THEN j.held_until END AS until,
    COALESCE(u.version IS NULL AND j.in_payment, false) AS in_payment,
    CASE WHEN u.version IS NOT NULL THEN 'removed' ELSE j.status END AS status,
    CASE WHEN u.version IS NOT NULL AND j.over THEN j.hold_id END AS ended, j.now
FROM kept, j LEFT JOIN upd u ON true
