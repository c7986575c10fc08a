-- return_seats - gives back what a user has bought of an event: its seats (and quantities of areas) are free again.
--
-- Behind the lock of the user, under which alone sold lines end, so that the lines read here are the
-- newest; lock_sale_areas has their areas; seats are locked here and never waited for.
-- $1 text org, $2 text event, $3 text user, $4 text seat (null: all that the user has bought)
-- $5 bool only where the policy is one seat per user
-- $6 uuid[] holds that keep what they have
-- $7 text reason, $8 text a client's own words (null: none), $9 text actor (null: the system), $10 text request id,
-- $11 text client's address, $12 text user agent
-- Columns: as change_holds, a row per line; none where there is nothing to give back.
-- code: ok | locked (one of the seats is locked by another transaction; nothing is given back then)
-- status::text keeps the plan off the other partial indexes, which look cheaper than the key while the
-- table is small.
-- P0001 when rows changed are not those promised. Indexes: primary keys, seat_holds_user.
WITH ev AS MATERIALIZED (
    SELECT e.org_id, e.event_id, e.version FROM events e
    WHERE e.org_id = $1::text AND e.event_id = $2::text
      AND (COALESCE(e.one_seat_per_user, e.kind = 'flight') OR NOT $5::bool)),
want AS MATERIALIZED (
    SELECT l.*, ev.version AS event_version FROM ev
    CROSS JOIN LATERAL (
        SELECT * FROM seat_holds h
        WHERE h.org_id = ev.org_id AND h.event_id = ev.event_id AND h.user_id = $3::text
          AND h.status IN ('active', 'converted') AND h.status::text = 'converted' OFFSET 0) l
    WHERE l.hold_id <> ALL ($6::uuid[]) AND ($4::text IS NULL OR l.seat_id = $4)),
lk AS MATERIALIZED (
    SELECT w.hold_id, w.line, s.status, s.hold_id AS has
    FROM want w
    JOIN seats s ON s.org_id = w.org_id AND s.event_id = w.event_id AND s.seat_id = w.seat_id
    FOR NO KEY UPDATE OF s SKIP LOCKED),
clk AS MATERIALIZED (SELECT clock_timestamp() AS now, count(*) AS locked FROM lk),
v AS MATERIALIZED (
    SELECT clk.now, CASE WHEN clk.locked < (SELECT count(*) FROM want WHERE seat_id IS NOT NULL)
        THEN 'locked' ELSE 'ok' END AS code FROM clk),
act AS MATERIALIZED (
    SELECT w.*, v.now, k.status = 'sold' AND k.has = w.hold_id AS has_seat
    FROM v CROSS JOIN want w LEFT JOIN lk k ON k.hold_id = w.hold_id AND k.line = w.line
    WHERE v.code = 'ok'),
upd AS (
    UPDATE seats s SET status = 'available', hold_id = NULL, user_id = NULL, version = s.version + 1
    FROM act a
    WHERE a.has_seat AND s.org_id = a.org_id AND s.event_id = a.event_id AND s.seat_id = a.seat_id
    RETURNING a.hold_id, a.line, s.version, s.status),
updh AS (
    UPDATE seat_holds h SET status = 'cancelled', ended_at = a.now, reason = $7::text, notes = COALESCE($8::text, h.notes)
    FROM act a
    WHERE h.hold_id = a.hold_id AND h.line = a.line AND h.org_id = a.org_id AND h.event_id = a.event_id
      AND h.status::text = 'converted'
    RETURNING 1),
moves AS MATERIALIZED (
    SELECT org_id, event_id, area_id, count(*) AS n, sum(quantity) AS units
    FROM act WHERE area_id IS NOT NULL GROUP BY 1, 2, 3),
upda AS (
    UPDATE areas r SET sold = r.sold - m.units, version = r.version + m.n
    FROM moves m
    WHERE r.org_id = m.org_id AND r.event_id = m.event_id AND r.area_id = m.area_id
    RETURNING r.org_id, r.event_id, r.area_id, r.held, r.sold, r.version, m.n),
done AS MATERIALIZED (
    SELECT a.*, u.status AS seat_status, r.held, r.sold, COALESCE(u.version,
        r.version - r.n + row_number() OVER (PARTITION BY a.org_id, a.event_id, a.area_id ORDER BY a.hold_id, a.line)) AS version
    FROM act a
    LEFT JOIN upd u ON u.hold_id = a.hold_id AND u.line = a.line
    LEFT JOIN upda r ON r.org_id = a.org_id AND r.event_id = a.event_id AND r.area_id = a.area_id),
aud AS ( -- what was sold had no end any more: no held_until
    INSERT INTO audit_log (at, version, hold_id, action, quantity, org_id, event_id, seat_id, area_id,
        user_id, actor, reason, request_id, meta, client_ip, user_agent)
    SELECT now, version, hold_id, 'seat_released'::audit_action, CASE WHEN area_id IS NOT NULL THEN quantity END,
        org_id, event_id, seat_id, area_id, user_id, $9::text, $7, $10::text,
        CASE WHEN $8 IS NOT NULL THEN jsonb_build_object('notes', $8) END, $11::text, $12::text
    FROM done WHERE seat_status IS NOT NULL OR area_id IS NOT NULL
    RETURNING 1),
kept AS MATERIALIZED (
    SELECT must_equal((SELECT count(*) FROM act WHERE has_seat), (SELECT count(*) FROM upd), 'seats given back')
       AND must_equal((SELECT count(*) FROM act), (SELECT count(*) FROM updh), 'lines ended')
       AND must_equal((SELECT count(*) FROM moves), (SELECT count(*) FROM upda), 'areas changed')
       AND must_equal((SELECT count(*) FROM act WHERE has_seat OR area_id IS NOT NULL), (SELECT count(*) FROM aud), 'audited') AS kept)
SELECT 0 AS ord, v.code, w.event_id AS event, w.held_until AS until, v.now, w.created_at AS born,
    w.user_id AS owner, w.event_version,
    CASE WHEN d.seat_status IS NOT NULL THEN w.seat_id END AS seat, w.area_id AS area, d.version, d.seat_status AS status,
    NULL::uuid AS hold, NULL::text AS usr, NULL::timestamptz AS seat_until, w.hold_id AS ended,
    d.held, d.sold, false AS in_payment, false AS flight, $7 AS why
FROM kept, v CROSS JOIN want w LEFT JOIN done d ON d.hold_id = w.hold_id AND d.line = w.line
ORDER BY w.hold_id, w.line
