-- resize_areas - sets the quantities that one hold has of areas it has already; 0 gives them back.
--
-- $1 text org, $2 uuid hold, $3 text[] areas (each once), $4 int4[] quantities
-- $5 text actor, $6 text request id, $7 text client's address, $8 text user agent
-- Columns: area, code (ok | area_full | area_not_found: the hold has none of it), held, sold, version.
-- The hold's lock and lock_areas come before it; the caller rolls back unless every code is ok.
-- status::text keeps the plan off the partial indexes, which look cheaper than the key while the
-- table is small.
-- P0001 when rows changed are not those promised. Index: primary keys.
WITH clk AS MATERIALIZED (SELECT clock_timestamp() AS now),
wish AS MATERIALIZED (SELECT * FROM unnest($3::text[], $4::int4[]) AS u(area, quantity)),
j AS MATERIALIZED (
    SELECT w.area, w.quantity, l.line, l.event_id, l.quantity AS had, l.user_id, l.held_until, clk.now,
        CASE WHEN l.line IS NULL THEN 'area_not_found'
             WHEN a.held + a.sold + w.quantity - l.quantity > a.capacity THEN 'area_full' ELSE 'ok' END AS code
    FROM wish w CROSS JOIN clk
    LEFT JOIN LATERAL (
        SELECT * FROM seat_holds s
        WHERE s.hold_id = $2::uuid AND s.org_id = $1::text AND s.area_id = w.area AND s.status::text = 'active' OFFSET 0) l ON true
    LEFT JOIN areas a ON a.org_id = $1::text AND a.event_id = l.event_id AND a.area_id = w.area),
go AS MATERIALIZED (SELECT * FROM j WHERE (SELECT bool_and(code = 'ok') FROM j) AND quantity <> had),
upd AS (
    UPDATE areas a SET held = a.held + g.quantity - g.had, version = a.version + 1
    FROM go g WHERE a.org_id = $1::text AND a.event_id = g.event_id AND a.area_id = g.area
    RETURNING a.area_id, a.held, a.sold, a.version),
line AS (
    UPDATE seat_holds h SET quantity = CASE WHEN g.quantity > 0 THEN g.quantity ELSE h.quantity END,
        status = CASE WHEN g.quantity > 0 THEN 'active' ELSE 'cancelled' END::hold_status,
        ended_at = CASE WHEN g.quantity > 0 THEN NULL ELSE g.now END,
        reason = CASE WHEN g.quantity > 0 THEN NULL ELSE 'user_cancelled' END
    FROM go g WHERE h.hold_id = $2::uuid AND h.line = g.line AND h.org_id = $1::text AND h.event_id = g.event_id
    RETURNING 1),
aud AS (
    INSERT INTO audit_log (at, version, hold_id, held_until, action, quantity, org_id, event_id, area_id,
        user_id, actor, reason, request_id, client_ip, user_agent)
    SELECT g.now, u.version, $2::uuid, g.held_until,
        CASE WHEN g.quantity > 0 THEN 'hold_changed' ELSE 'seat_released' END::audit_action,
        CASE WHEN g.quantity > 0 THEN g.quantity ELSE g.had END, $1::text, g.event_id, g.area, g.user_id, $5::text,
        CASE WHEN g.quantity > 0 THEN NULL ELSE 'user_cancelled' END, $6::text, $7::text, $8::text
    FROM go g JOIN upd u ON u.area_id = g.area
    RETURNING 1),
kept AS MATERIALIZED (
    SELECT must_equal((SELECT count(*) FROM go), (SELECT count(*) FROM upd), 'areas resized')
       AND must_equal((SELECT count(*) FROM go), (SELECT count(*) FROM line), 'lines resized')
       AND must_equal((SELECT count(*) FROM go), (SELECT count(*) FROM aud), 'audited') AS kept)
SELECT j.area, j.code, u.held, u.sold, u.version FROM kept, j LEFT JOIN upd u ON u.area_id = j.area
